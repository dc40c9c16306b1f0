"""One of the clients that come and go: it connects, is let in, and closes, again and again.

    login_load.py tls|SASL_PLAINTEXT|SASL_SSL HOST PORT SECONDS
    login_load.py timing MECHANISM HOST PORT EXCHANGES

The first does a TLS handshake or logs in as `USER` by SCRAM-SHA-512, over TLS or not. It prints a line when it is
ready, begins when it reads one, and prints how often it was let in and the CPU that took, as JSON. The other gives
wrong passwords, by turns of a user that there is and of one that there is not, and prints after how many microseconds
each was refused in the median.
"""

from __future__ import annotations

import json
import socket
import ssl
import statistics
import struct
import sys
import time
from functools import cache
from itertools import count

from servers import framed

from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.sasl import scram
from ottla.protocol.sasl.exchange import ClientExchange
from ottla.protocol.sasl.plain import PLAIN, PlainClient

USER, PASSWORD = "bench", "bench-secret"
NOBODY = "other"
SCRAM = scram.Mechanism.SCRAM_SHA_512
TIMEOUT_SECONDS = 10.0
_ERROR_AT = 4
"""In an answer, behind its correlation id."""

# A client salts its password once, and not for each connection.
scram.salted_password = cache(scram.salted_password)


class Connection:
    """One that is to be let in."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self.socket = socket.create_connection((host, port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket)

    def ask(self, frame: bytes) -> bytes:
        """The answer, from its correlation id on."""
        self.socket.sendall(frame)
        answer = self._exactly(4)
        return self._exactly(int.from_bytes(answer, "big"))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if not (more := self.socket.recv(size - len(data))):
                raise ConnectionResetError("closed")
            data += more
        return data

    def log_in(self, mechanism: str, client: ClientExchange) -> bool:
        """Have the exchange; whether it ends well."""
        if any(self.ask(framed(SaslHandshakeRequest(mechanism=mechanism), 1))[_ERROR_AT : _ERROR_AT + 2]):
            raise SystemExit(f"the server does not have {mechanism}")
        token: bytes | None = client.first()
        while token is not None:
            answer = self.ask(framed(SaslAuthenticateRequest(auth_bytes=token), 0))
            if any(answer[_ERROR_AT : _ERROR_AT + 2]):
                return False
            words, size = answer[_ERROR_AT + 2 :], struct.unpack_from(">h", answer, _ERROR_AT + 2)[0]
            token = client.answer(words[2 + max(size, 0) + 4 :])
        return True

    def close(self) -> None:
        self.socket.close()


def client_of(mechanism: str, user: str, password: str, number: int) -> ClientExchange:
    """What says who somebody is."""
    if mechanism == PLAIN:
        return PlainClient(user, password)
    return scram.ScramClient(SCRAM, user, password, f"nonce{number}")


def come_and_go(kind: str, host: str, port: int, seconds: float) -> dict[str, float]:
    """Be let in as often as it goes in so much time."""
    context = trusting() if kind != "SASL_PLAINTEXT" else None
    Connection(host, port, context).close()
    print("ready", flush=True)
    sys.stdin.readline()
    deadline, began = time.monotonic() + seconds, time.process_time()
    for number in count():
        if time.monotonic() > deadline:
            break
        connection = Connection(host, port, context)
        if kind != "tls" and not connection.log_in(SCRAM.words, client_of(SCRAM.words, USER, PASSWORD, number)):
            raise SystemExit("the server does not let a client in")
        connection.close()
    return {"count": number, "cpu_seconds": time.process_time() - began}


def trusting() -> ssl.SSLContext:
    """Believes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def timing(mechanism: str, host: str, port: int, exchanges: int) -> dict[str, float]:
    """How long it takes to be refused, in microseconds, by the name."""
    took: dict[str, list[float]] = {USER: [], NOBODY: []}
    for number in range(2 * exchanges):
        name = (USER, NOBODY)[number % 2]
        connection = Connection(host, port, None)
        began = time.perf_counter()
        if connection.log_in(mechanism, client_of(mechanism, name, "wrong", number)):
            raise SystemExit("the server lets somebody in with a wrong password")
        took[name].append((time.perf_counter() - began) * 1e6)
        connection.close()
    return {name: statistics.median(times) for name, times in took.items()}


def main() -> None:
    """See the module."""
    if sys.argv[1] == "timing":
        mechanism, host, port, exchanges = sys.argv[2:]
        print(json.dumps(timing(mechanism, host, int(port), int(exchanges))))
    else:
        kind, host, port, seconds = sys.argv[1:]
        print(json.dumps(come_and_go(kind, host, int(port), float(seconds))))


if __name__ == "__main__":
    main()
