"""Inputs of the coordinator: requests, timers, outcomes of appends, changes of ownership."""

from __future__ import annotations

from msgspec import Struct

from ottla.broker.core.events.base import Event


class Input(Event, kw_only=True):
    """An entry into the coordinator; ``number`` is what its decisions call their cause."""

    number: int


class RequestReceived(Input, kw_only=True):
    """A group API was called. Of heartbeats only refused ones are told, without the client's name and address."""

    api: str
    api_version: int
    client_id: str
    client_host: str
    member_id: str
    group_instance_id: str | None
    generation: int
    reason: str | None


class NamedBytes(Struct, array_like=True, gc=False):
    """Bytes by a name: a protocol and a member's metadata for it, or a member id and its assignment."""

    name: str
    data: bytes


class JoinReceived(RequestReceived, kw_only=True):
    """JoinGroup, with what the member asks for; ``rebalance_timeout_ms`` is -1 where the version has none."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: list[NamedBytes]


class SyncReceived(RequestReceived, kw_only=True):
    """SyncGroup; ``assignments`` are the leader's."""

    protocol_type: str | None
    protocol_name: str | None
    assignments: list[NamedBytes]


class Leaving(Struct, array_like=True, gc=False):
    """One entry of a LeaveGroup (KIP-345)."""

    member_id: str
    group_instance_id: str | None
    reason: str | None


class LeaveReceived(RequestReceived, kw_only=True):
    """LeaveGroup, of one member or several."""

    leaving: list[Leaving]


class Commit(Struct, array_like=True, gc=False):
    """One offset that is to be committed, or is.

    Attributes:
        error: why it was refused before the group was looked at; 0 if it was not.
        timestamp_ms: of the commit, in Unix time; -1 in requests that do not bring their own.
        expires_ms: in Unix time; -1 unless an old client asked for a retention of its own.
        topic_id: 16 bytes, or none if it is not known.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    error: int = 0
    timestamp_ms: int = -1
    expires_ms: int = -1
    topic_id: bytes = b""


class CommitReceived(RequestReceived, kw_only=True):
    """OffsetCommit; ``retention_ms`` is -1 unless an old client asks for one."""

    commits: list[Commit]
    retention_ms: int = -1


class TxnCommitReceived(RequestReceived, kw_only=True):
    """TxnOffsetCommit."""

    producer_id: int
    producer_epoch: int
    commits: list[Commit]


class FetchParked(RequestReceived, kw_only=True):
    """An OffsetFetch of these groups waits for offsets on their way. Those that are answered at once are not told."""

    wanted: list[str]


class OffsetDeletion(Struct, array_like=True, gc=False):
    """One offset that is to be deleted. ``error`` as in `Commit`."""

    topic: str
    partition: int
    error: int = 0


class OffsetDeleteReceived(RequestReceived, kw_only=True):
    """OffsetDelete."""

    deletions: list[OffsetDeletion]


class SessionExtended(Input, kw_only=True):
    """The time at which a member was to be looked after came, and it had been heard of since.

    Good heartbeats leave no event; these, one a member and session timeout, tell that and when they came.
    """

    member_id: str
    last_heard_ms: int
    deadline_ms: int


class Disconnected(Input, kw_only=True):
    """The connection over which a member joined is gone. By itself that changes nothing: Kafka does not see it."""

    member_id: str
    client_id: str
    client_host: str


class SettingsChanged(Input, kw_only=True):
    """Settings were changed while the broker runs.

    Attributes:
        settings: of the coordinator, all that there are.
        groups: what is set for consumer groups of their own, by their ids.
    """

    settings: dict[str, str | int | bool]
    groups: dict[str, dict[str, str]]


class TopicDeleted(Input, kw_only=True):
    """A topic is gone, and with it what groups have committed for it. ``topic_id`` as in `Commit`."""

    topic: str
    topic_id: bytes = b""


class TransactionEnded(Input, kw_only=True):
    """The marker of a producer's transaction reached a partition of ``__consumer_offsets``."""

    partition: int
    producer_id: int
    commit: bool


class TimerFired(Input, kw_only=True):
    """A deadline passed; ``shard`` is the partition of ``__consumer_offsets`` where it is about all groups of one."""

    timer: str
    member_id: str
    shard: int = -1


class DeadlinesHeld(Input, kw_only=True):
    """From now on no deadline of the group takes effect: somebody who tests its members holds them."""


class DeadlinesMoved(Input, kw_only=True):
    """The deadlines of the group are held no longer; each is later by ``by_ms``, the time that the hold lasted."""

    by_ms: int


class AppendFinished(Input, kw_only=True):
    """Records are durable, or failed with ``error``."""

    what: str
    error: str


class OwnershipChanged(Input, kw_only=True):
    """A partition of ``__consumer_offsets`` began loading, was loaded, failed to load or was given up."""

    partition: int
    state: str
    groups: int

    def line(self) -> str | None:
        return f"__consumer_offsets-{self.partition} is {self.state} with {self.groups} groups"
