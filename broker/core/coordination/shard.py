"""A shard: one partition of a coordinator's topic, and whether this broker answers for it; and its writes."""

from __future__ import annotations

import enum
from typing import Any, Generic, TypeVar

from ottla.protocol.errors import ErrorCode


class ShardState(enum.StrEnum):
    """Whether the shard can answer."""

    ABSENT = "not owned"
    LOADING = "loading"
    ACTIVE = "loaded"
    FAILED = "failed to load"


_REFUSALS: dict[ShardState, ErrorCode] = {
    ShardState.ABSENT: ErrorCode.NOT_COORDINATOR,
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.ACTIVE: ErrorCode.NONE,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
}


class Shard:
    """A partition that is coordinated, or is not.

    Attributes:
        refusal: the error that requests hear, NONE if they are served.
        is_begun: it is served, or some of it is that was loaded and the rest will be soon.
        epoch: the leader epoch under which the partition was taken or given up last.
        in_flight: the writes whose outcome is not known yet, in the order of the log; an ordered set.
    """

    __slots__ = ("epoch", "in_flight", "is_begun", "partition", "refusal", "state")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.epoch = -1
        self.in_flight: dict[Write[Any], None] = {}
        self.become(ShardState.ABSENT)

    def become(self, state: ShardState) -> None:
        """Change the state, and with it what requests hear."""
        self.state = state
        self.refusal = _REFUSALS[state]
        self.is_begun = state is ShardState.ACTIVE

    def clear(self) -> None:
        """Drop what the log has told."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<Shard {self.partition} {self.state}>"


_MAPPED_APPEND_ERRORS: dict[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: ErrorCode) -> ErrorCode:
    """The error that a client hears when its records could not be written. Others pass unchanged."""
    return _MAPPED_APPEND_ERRORS.get(error, error)


M = TypeVar("M")
"""The coordinator that a write belongs to."""


class Waiter(Generic[M]):
    """An answer that waits for a write of which it is not the subject."""

    __slots__ = ()

    def done(self, m: M, error: ErrorCode) -> None:
        """The write succeeded or failed."""
        raise NotImplementedError


class Write(Generic[M]):
    """Records on their way to the log; the token of their `Append`.

    Attributes:
        cause: the number of the entry that wrote them.
        waiters: they hear the outcome after the write itself.
    """

    __slots__ = ("cause", "shard", "waiters")
    what = "records"
    producer_id = -1
    """The transaction that the records belong to; -1 for records that count at once."""
    producer_epoch = -1
    verified: object = None
    """Shows that the transaction may write to the partition, if it has not yet."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.cause = 0
        self.waiters: list[Waiter[M]] = []

    @property
    def group_id(self) -> str:
        """The group that they are about, empty if there is no single one."""
        return ""

    def begins(self) -> None:
        """The records are handed over."""

    def done(self, m: M, error: ErrorCode) -> None:
        """The records are durable (``NONE``), or failed."""
        raise NotImplementedError

    def given_up(self, m: M) -> None:
        """The shard was given up before the outcome was known."""
        self.done(m, ErrorCode.NOT_COORDINATOR)
        for waiter in self.waiters:
            waiter.done(m, ErrorCode.NOT_COORDINATOR)
