"""Finds out who answers at an address (an Ottla, another broker, something else), and which process has a port."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection
from enum import Enum
from pathlib import Path

PATIENCE_S = 2.0
MOST_BYTES = 1 << 20
LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""
MOST_WORDS = 100


class Who(Enum):
    """Kinds of servers, in words that end a sentence."""

    OTTLA = "an Ottla broker"
    BROKER = "Apache Kafka, or another broker that speaks its protocol"
    CLOSES = "something that closes connections at once, as a broker with TLS does"
    STRANGER = "something that does not speak Kafka's protocol"
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
        except (ProtocolError, KafkaError, TimeoutError):
            return Who.BROKER if talk.ready else Who.STRANGER
        except OSError:
            return Who.BROKER if talk.ready else Who.CLOSES
    return Who.OTTLA


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


def free_port(host: str, port: int, used: Collection[int] = ()) -> int | None:
    """The next port that nobody has at the moment, and that is not to be used for something else."""
    ports = (other for other in range(port + 1, min(port + 100, 65_536)) if other not in used)
    return next((other for other in ports if bind_error(host, other) is None), None)
