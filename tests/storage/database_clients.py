"""What the tests of the port's contract share: connections, and statements by short names."""

from __future__ import annotations

from typing import Any

from ottla.broker.cluster.plan import LogRow
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer, Head, Row
from tests.storage.simulated_database import Pending, SimBench

A, B, C, MISSING = 1, 2, 3, 99
"""Logs, led under epoch 5; one is not there."""
LOGS = [LogRow(log_id, 1, 1, 1, 5) for log_id in (A, B, C)]
HEAD = bytes(61)
LOCK_TIMEOUT_MS = 400


class Client:
    """One connection, and its statements by their short names."""

    def __init__(self, bench: SimBench, role: str = "M", node: int = 1) -> None:
        self.bench = bench
        self.number = bench.session(role, node)

    def __call__(self, statement: port.Statement) -> Any:
        """The result of a statement that nothing keeps from ending."""
        answer = self.answer(statement)
        assert answer.refusal is None and not answer.is_poisoned
        return answer.result

    def answer(self, statement: port.Statement) -> Answer:
        pending = self.start(statement)
        assert pending.answer is not None, "it waits"
        return pending.answer

    def start(self, statement: port.Statement) -> Pending:
        return self.bench.start(self.number, statement)

    def hold(self, statement: port.Statement) -> Pending:
        pending = self.bench.hold(self.number, statement)
        assert pending.answer is None
        return pending

    def release(self) -> None:
        self.bench.release(self.number)

    def drop(self) -> None:
        self.bench.drop(self.number)

    def bases(self, log_id: int, epoch: int = 5) -> list[int] | None:
        """The base offsets of a log; None if the epoch is not this one."""
        loaded = self(port.Load(log_id, epoch))
        return None if loaded is None else list(loaded.outline.bases)


def row(log_id: int, base: int, count: int = 1, epoch: int = 5, body: bytes = b"body") -> Row:
    return Row(log_id, base, base + count - 1, epoch, 0, HEAD, body)


def append(*rows: Row, epoch: int = 5) -> port.Append:
    """An append of rows that follow each other in each log."""
    first = {one.log_id: one.base_offset for one in reversed(rows)}
    return port.Append(tuple(Head(log_id, epoch, base) for log_id, base in sorted(first.items())), rows)


def barrier(log_id: int, base: int, epoch: int = 5) -> port.Append:
    return port.Append((Head(log_id, epoch, base),), ())


def claim(*log_ids: int, epoch: int = 5, node: int = 2, skips: bool = True, sign: Any = None) -> port.Claim:
    return port.Claim(tuple((log_id, epoch) for log_id in log_ids), node, 7, sign, skips)
