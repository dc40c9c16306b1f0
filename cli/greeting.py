"""Finds out who answers at an address (an Ottla, another broker, something else), and which process has a port.

Where no broker answers, or one that hangs up, it says what that may want.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from ottla.cli.connecting import security_said
from ottla.cli.output import Refused

PATIENCE_S = 2.0
MOST_BYTES = 1 << 20
LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""
MOST_WORDS = 100
_AFTER_TLS = re.compile(r"_ALERT_|: \S+ closed the connection")
"""What an error of a client with TLS has if the other side speaks TLS, too."""
_REFUSED = re.compile(r"cannot connect to (\S+:\d+): ")


class Who(Enum):
    """Kinds of servers, in words that end a sentence."""

    OTTLA = "an Ottla broker"
    BROKER = "Apache Kafka, or another broker that speaks its protocol"
    CLOSES = "something that closes connections at once, as a broker with TLS does"
    STRANGER = "something that does not speak Kafka's protocol"
    SILENT = "something that says nothing"
    NOBODY = "nobody"


def greet(host: str, port: int, patience_s: float = PATIENCE_S) -> Who:
    """Ask who is there: for its versions, which every broker tells, and then for what only Ottla answers.

    An Apache Kafka is known by its features; other brokers close the connection at the second question (decision 8).
    """
    from ottla.clients.errors import KafkaError
    from ottla.clients.wire import Conversation
    from ottla.protocol.errors import ProtocolError
    from ottla.protocol.messages.describe_group_history import DescribeGroupHistoryRequest
    from ottla.protocol.messages.workbench import CLIENT_ID

    deadline = time.monotonic() + patience_s
    try:
        sock = socket.create_connection((host, port), patience_s)
    except (OSError, OverflowError):
        return Who.NOBODY
    answers: list[object] = []
    talk = Conversation(CLIENT_ID, max_frame_bytes=MOST_BYTES)  # no fault makes an Ottla look like a stranger
    ours = DescribeGroupHistoryRequest(group_id="", view="why")
    talk.hello(0.0, 0.0, lambda: talk.send(ours, 0.0, 0.0, answers.append))
    with sock:
        try:
            while not answers:
                sock.settimeout(max(deadline - time.monotonic(), 0.001))
                sock.sendall(talk.take_output())
                if not (data := sock.recv(1 << 16)):
                    return Who.BROKER if talk.ready else Who.CLOSES
                talk.receive(data, 0.0)
        except TimeoutError:
            return Who.SILENT  # a broker that hangs, or that has much to do
        except (ProtocolError, KafkaError):
            return Who.BROKER if talk.ready else Who.STRANGER
        except OSError:
            return Who.BROKER if talk.ready else Who.CLOSES
    return Who.OTTLA


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Hosts and ports; those that are none are left out."""
    pairs = [address.strip().rpartition(":") for address in bootstrap.split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in pairs if port.isascii() and port.isdigit()]


def no_broker(bootstrap: str, error: str, why: str) -> Refused:
    """The error for an address at which no broker answers. ``why`` is the last clause of what a client says of it."""
    security = security_said()
    has_tls = security["security_protocol"] in ("SSL", "SASL_SSL")
    if has_tls and _AFTER_TLS.search(error):  # to greet it without TLS would be one more failure in its audit
        return _hung_up(bootstrap, error, security)
    told = sorted(set(_REFUSED.findall(error)) - set(bootstrap.replace(" ", "").split(",")))
    for host, port in addresses(bootstrap):
        match greet(host, port):
            case Who.OTTLA | Who.BROKER if told:
                return Refused(
                    f"The broker at {bootstrap} answers, and sends clients to {', '.join(told)}, "
                    f"where no broker answers ({why}).",
                    "Start it with an address that this machine reaches: --advertise HOST:PORT (advertised.listeners).",
                )
            case Who.CLOSES:
                return Refused(
                    f"{bootstrap} closes the connection at once.",
                    "It may want TLS: say --security-protocol SASL_SSL if you have a password, or SSL.",
                    "Or this machine has too many connections (max.connections.per.ip): the broker's log says so.",
                )
            case Who.OTTLA | Who.BROKER if has_tls:
                return Refused(
                    f"The broker at {bootstrap} answers without TLS, and this command speaks TLS.",
                    "Say --security-protocol SASL_PLAINTEXT if you have a password, or PLAINTEXT.",
                )
            case Who.OTTLA | Who.BROKER:
                return Refused(
                    f"The broker at {bootstrap} answers, and closes the connection ({why}).",
                    "Does it want to know who you are? `ottla help connecting` has the options for that.",
                )
            case Who.STRANGER:
                return Refused(
                    f"What answers at {bootstrap} does not speak Kafka's protocol.",
                    "Is it another port of the broker? Name the right one with --bootstrap-server HOST:PORT.",
                )
            case Who.SILENT:
                return Refused(
                    f"What listens at {bootstrap} does not answer in time.",
                    "Does its process hang? Of several nodes name another, or ask `ottla cluster status DIR`.",
                )
    return Refused(
        f"No broker answers at {bootstrap} ({why}).",
        "Start one with `ottla serve`, or name another with --bootstrap-server HOST:PORT; of several nodes name a few.",
    )


def _hung_up(bootstrap: str, text: str, security: Mapping[str, Any]) -> Refused:
    """The error for a broker that has closed the connection, and did so by TLS."""
    alert, has_certificate = "_ALERT_" in text, "ssl_certfile" in security
    if alert and has_certificate:
        return Refused(
            f"The broker at {bootstrap} does not accept your certificate.",
            "Its ssl.truststore.location needs the authority, and the certificate must be valid now. Its log says why.",
        )
    if alert:
        return Refused(
            f"The broker at {bootstrap} wants to see your certificate.",
            "Say --certfile FILE, and --keyfile FILE if the key is in another file.",
        )
    advice = "After a login, its session or a token may have ended. Its log says why."
    if security["security_protocol"] == "SSL":
        advice = "It may want a password: say --security-protocol SASL_SSL and --username NAME. Its log says why."
        if has_certificate:
            advice = "No rule of ssl.principal.mapping.rules may fit your certificate. Its log says why."
    return Refused(f"The broker at {bootstrap} speaks TLS, and closes the connection.", advice)


def holder(port: int) -> str:
    """The process that listens at a port, as ``process 42: ottla serve``; empty where that cannot be known.

    Linux tells, of one's own processes.
    """
    sockets = {f"socket:[{inode}]" for name in ("tcp", "tcp6") for inode in _listening(Path("/proc/net", name), port)}
    for process in Path("/proc").glob("[0-9]*") if sockets else ():
        try:
            if any(os.readlink(one) in sockets for one in (process / "fd").iterdir()):
                command = (process / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
                said = " ".join([Path(command[0]).name, *command[1:]])
                return f"process {process.name}: {said if len(said) <= MOST_WORDS else said[:MOST_WORDS] + '…'}"
        except OSError:
            continue  # it is another user's, or has just ended
    return ""


def _listening(table: Path, port: int) -> list[str]:
    """The inodes of the sockets that listen at a port."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == LISTENS and int(row[1].rpartition(":")[2], 16) == port]


def bind_error(host: str, port: int) -> OSError | None:
    """The reason why a broker could not listen there at the moment; None if it could."""
    from ottla.broker.net.listener import bind

    try:
        sockets = bind(host, port)
    except OSError as error:
        return error
    for sock in sockets:
        sock.close()
    return None


def free_port(host: str, port: int, used: Collection[int] = (), count: int = 1) -> int | None:
    """The next port that nobody has at the moment, and that is not to be used for something else.

    Args:
        count: so many in a row are to be free.
    """

    def is_free(other: int) -> bool:
        return all(one not in used and bind_error(host, one) is None for one in range(other, other + count))

    return next(filter(is_free, range(port + 1, min(port + 100 * count, 65_537 - count))), None)
