"""What a fuzzing guest says before anybody knows who he is: requests and tokens, right, wrong, and out of their order.

Whatever it is, nothing but the three APIs of authentication is answered before a right password was shown, and who
never shows one is closed in time.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.sasl.exchange import AuthenticationFailed
from ottla.protocol.sasl.scram import ScramClient
from tests.hostile.fuzz_guest import LATE_S, Fault, Stopwatch
from tests.hostile.logins import (
    NOT_OFFERED,
    PASSWORDS,
    SETTINGS,
    asked,
    first_token,
    frames,
    handshake,
    raw,
    spoilt,
    wrapped,
)
from tests.support.rules import WITH_RULES

LISTENER = "SASL_PLAINTEXT"
TIMEOUT_S = 1.0
WITH_LOGINS: dict[str, Any] = {
    **WITH_RULES,
    **SETTINGS,
    "super.users": "User:ANONYMOUS;User:mighty",
    "connection.failed.authentication.delay.ms": 10,
    "ottla.authentication.timeout.ms": int(TIMEOUT_S * 1000),
}
"""Of a round with a listener that asks who comes."""
MAY_READ = [
    {"resource_type": kind, "resource_name": name, "resource_pattern_type": 4, "principal": "User:limited"}
    | {"host": "*", "operation": 3, "permission_type": 3}
    for kind, name in ((2, "wire"), (3, "fuzz"))
]
"""What the user ``limited`` may do: read some topics and groups."""
_FORBIDDEN = 0x7E000000
"""Correlation ids of requests that nobody may answer begin here."""
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Talk:
    """One connection.

    Args:
        other: makes the frame of any request, with the correlation id that it is given.
        sent: takes what is sent.
    """

    def __init__(
        self, port: int, rng: Random, watch: Stopwatch, other: Callable[[int], bytes], sent: list[bytes]
    ) -> None:
        self.port = port
        self.rng = rng
        self.watch = watch
        self.other = other
        self.sent = sent
        self.received = b""
        self.asked = 0
        self.proved = False
        self.scram: ScramClient | None = None

    def run(self, counts: Counter[str]) -> None:
        """Have it.

        Raises:
            Fault: somebody is served who is nobody, or is not closed.
        """
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=LATE_S) as sock:
            if self.rng.random() < 0.7:
                self.say(sock, self.handshake())
            for _ in range(self.rng.randrange(1, 8)):
                data = b"".join(self.piece() for _ in range(self.rng.choice((1, 1, 1, 2, 5))))
                counts["before authentication"] += 1
                if self.rng.random() < 0.05:
                    data = data[: self.rng.randrange(len(data) + 1)]
                if not self.say(sock, data):
                    return
            if self.rng.random() < 0.1:
                self.await_end(sock)

    def say(self, sock: socket.socket, data: bytes) -> bool:
        """Send something, and look at what comes; whether the connection goes on."""
        self.sent.append(data)
        sock.sendall(data)
        sock.settimeout(0.02)
        try:
            chunk = sock.recv(1 << 20)
        except TimeoutError:
            return True
        self.take(chunk)
        return bool(chunk)

    def take(self, chunk: bytes) -> None:
        self.received += chunk
        for frame in frames(self.received):
            number = int.from_bytes(frame[:4], "big")
            if not self.proved and _FORBIDDEN <= number < _FORBIDDEN + self.asked:
                raise Fault(f"a guest is served who has not said who he is: {frame[:60].hex()}")

    def await_end(self, sock: socket.socket) -> None:
        self.watch.again()
        sock.settimeout(0.1)
        while not self.proved:
            try:
                if not (chunk := sock.recv(1 << 20)):
                    return
                self.take(chunk)
            except TimeoutError:
                if self.watch.elapsed_s() > TIMEOUT_S + LATE_S:
                    raise Fault("a guest who never says who he is may stay") from None

    # -- pieces

    def piece(self) -> bytes:
        """A frame, or what is none."""
        choice = self.rng.random()
        if choice < 0.15:
            return self.handshake()
        if choice < 0.6:
            return self.framed(self.token())
        if choice < 0.75:
            self.asked += 1
            return self.other(_FORBIDDEN + self.asked - 1)
        if choice < 0.85:
            version = self.rng.choice((0, 0, 2, 99, -1))
            return _of_version(asked(ApiKey.API_VERSIONS, 0), version)
        if choice < 0.9:
            return struct.pack(">i", self.rng.choice((0, -1, 2**31 - 1, 524_288, 524_289, 1 << 20)))
        if choice < 0.95:
            return raw(self.rng.randbytes(self.rng.choice((1, 8, 16, 400))))
        return self.rng.choice((b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\2\0\1\0\1", self.rng.randbytes(30)))

    def handshake(self) -> bytes:
        mechanism = self.rng.choice(_MECHANISMS if self.rng.random() < 0.9 else NOT_OFFERED)
        frame = handshake(mechanism, self.rng.choice((0, 1, 1, 1)))
        return frame if self.rng.random() < 0.95 else _of_version(frame, self.rng.choice((2, -1, 32_767)))

    def framed(self, token: bytes) -> bytes:
        if self.rng.random() < 0.3:
            return raw(token)
        frame = wrapped(token, self.rng.choice((0, 1, 2)))
        return frame if self.rng.random() < 0.95 else _of_version(frame, self.rng.choice((3, -1)))

    def token(self) -> bytes:
        """The next one of an exchange, or the first, mostly with something wrong."""
        if self.scram is not None and (answer := self.answered(self.scram)) is not None:
            token = answer
        else:
            right = self.rng.random() < 0.3
            name = self.rng.choice((*PASSWORDS, "nobody"))
            password = PASSWORDS.get(name, "x") if right else "wrong"
            self.proved = self.proved or (right and name in PASSWORDS)
            token, self.scram = first_token(self.rng, self.rng.choice(_MECHANISMS), name, password)
        return spoilt(self.rng, token) if self.rng.random() < 0.6 else token

    def answered(self, client: ScramClient) -> bytes | None:
        """What a client of SCRAM says to the challenge that has come, if one has."""
        self.scram = None
        at = self.received.rfind(b"r=")
        with suppress(AuthenticationFailed):
            return client.answer(self.received[at:].rstrip(b"\0")) if at >= 0 else None
        return None


def _of_version(frame: bytes, version: int) -> bytes:
    """The frame with another version in its header."""
    return frame[:6] + struct.pack(">h", version) + frame[8:]
