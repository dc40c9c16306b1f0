"""Inputs and decisions of consumer groups (KIP-848).

A heartbeat that changes nothing leaves no event. Topics go by their ids, in 16 bytes, and partitions by sorted numbers.
"""

from __future__ import annotations

from msgspec import Struct, field

from ottla.broker.core.events.base import Event
from ottla.broker.core.events.decisions import PendingCommit
from ottla.broker.core.events.inputs import Commit, RequestReceived


class TopicPartitions(Struct, array_like=True, gc=False):
    """Partitions of a topic, which goes by its id; ``topic`` is its name, empty if there is no such topic."""

    topic_id: bytes
    partitions: list[int]
    topic: str = ""


class MemberTarget(Struct, array_like=True, gc=False):
    """What a member shall own."""

    member_id: str
    partitions: list[TopicPartitions]


class RegexChange(Struct, array_like=True, gc=False):
    """A regex that comes to other topics than before.

    Attributes:
        matched: how many topics it comes to.
        came, went: the first of those that it did not come to before, and of those that it does not come to any more.
    """

    regex: str
    matched: int
    came: list[str]
    went: list[str]


class SeenTopic(Struct, array_like=True, gc=False):
    """A topic as groups see it.

    Attributes:
        topic_id: 16 bytes, none if the topic is gone.
        racks: for each partition those of its replicas; empty if no replica has one.
        has_other_racks: nothing but these has changed.
    """

    topic: str
    topic_id: bytes
    partitions: int
    racks: list[list[str]]
    has_other_racks: bool = False


class LoggedRecord(Struct, array_like=True, gc=False):
    """A record of ``__consumer_offsets``, as it lies there."""

    key: bytes
    value: bytes


class ConsumerHeartbeatReceived(RequestReceived, kw_only=True):
    """ConsumerGroupHeartbeat; ``generation`` is the member epoch.

    Attributes:
        issued_member_id: that the broker made, for a client that cannot.
        rebalance_timeout_ms, rack_id, names, regex, server_assignor, owned: as in the request; -1 or None is unchanged.
    """

    issued_member_id: str = ""
    rebalance_timeout_ms: int = -1
    rack_id: str | None = None
    names: list[str] | None = None
    regex: str | None = None
    server_assignor: str | None = None
    owned: list[TopicPartitions] | None = None


class ConsumerGroupLoaded(Event, kw_only=True):
    """A consumer group came back from the log.

    Attributes:
        records: keys and values that say its state again; topics: those that members have partitions of, by name.
        commits, pending: as in `GroupLoaded`.
    """

    state: str
    generation: int
    members: int
    records: list[LoggedRecord]
    topics: list[TopicPartitions]
    commits: list[Commit]
    pending: list[PendingCommit] = field(default_factory=list)


class GroupEpochBumped(Event, kw_only=True):
    """The group needs another target; ``metadata_hash`` is of the topics that it subscribes to."""

    epoch: int
    reasons: list[str]
    metadata_hash: int
    members: int


class TopicsSeen(Event, kw_only=True):
    """The topics that changed since consumer groups last went by them; the first time all that there are.

    Attributes:
        version, newest_version: as consumer groups count changes of topics, and arrivals of topics.
    """

    topics: list[SeenTopic]
    version: int
    newest_version: int


class TargetComputed(Event, kw_only=True):
    """The assignor has decided what each member shall own; ``changed`` has the members of which that is new."""

    epoch: int
    assignor: str
    members: int
    changed: list[MemberTarget]


class TargetDelayed(Event, kw_only=True):
    """A target is due and may not be computed yet; the first heartbeat after ``until_ms`` (Unix time) does it."""

    epoch: int
    until_ms: int


class MemberSubscribed(Event, kw_only=True):
    """A member came, or has said something new of itself.

    Attributes:
        missing: those of ``names`` that no topic has.
        session_timeout_ms: of the group; rebalance_timeout_ms: how long the member may take to give partitions up.
        is_classic: it is of the classic protocol.
        heartbeat_interval_ms: after which the member is to be heard of again, as it is told; 0 if it is not told.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rack_id: str | None
    names: list[str]
    regex: str
    server_assignor: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    is_new: bool
    is_classic: bool = False
    heartbeat_interval_ms: int = 0
    missing: list[str] = field(default_factory=list)


class MemberReconciled(Event, kw_only=True):
    """A member came a step further towards its target, or fell back behind a new one.

    Attributes:
        epoch, previous_epoch: of the member. ``state`` as Kafka calls it.
        assigned: what it has from now on; pending: what it had and has to give up first.
        awaited: what it shall have and others have not given up yet.
        deadline_ms: when it is removed if it does not give up; 0 if there is nothing to give up.
    """

    member_id: str
    epoch: int
    previous_epoch: int
    state: str
    assigned: list[TopicPartitions]
    pending: list[TopicPartitions]
    awaited: list[TopicPartitions]
    deadline_ms: int = 0


class RevocationAwaited(Event, kw_only=True):
    """A member was heard of that has to give partitions up, and has not.

    Attributes:
        partitions: that it still has, as far as it says.
        said: it says that it has them. Else it says nothing, which stands for all that it had.
    """

    member_id: str
    partitions: list[TopicPartitions]
    said: bool


class StaticMemberAway(Event, kw_only=True):
    """A static member has gone for a while; ``partitions`` stand still until it is back or its session ends."""

    member_id: str
    group_instance_id: str
    partitions: list[TopicPartitions]


class MemberFenced(Event, kw_only=True):
    """A member is no more; ``reason`` says why in a few words."""

    member_id: str
    reason: str


class MemberMustRejoin(Event, kw_only=True):
    """A member of the classic protocol was told for the first time to join again.

    Attributes:
        epoch: that it is at. deadline_ms: when it is removed if it has not joined by then.
    """

    member_id: str
    epoch: int
    deadline_ms: int


class MemberMustSync(Event, kw_only=True):
    """A member of the classic protocol has joined, and is to fetch what it has with SyncGroup.

    Attributes:
        epoch: that it was told, as a generation. deadline_ms: when it is removed if it has not synced by then.
    """

    member_id: str
    epoch: int
    deadline_ms: int


class MemberSynced(Event, kw_only=True):
    """A member of the classic protocol was told what it has."""

    member_id: str
    epoch: int


class GroupConverted(Event, kw_only=True):
    """A group is one of another kind from now on.

    Attributes:
        before, after: the kinds, as ListGroups calls them.
        generation: that the group goes on with: of a consumer group, its epoch.
        told_to_rejoin: members whose requests were parked and were answered with REBALANCE_IN_PROGRESS.
    """

    before: str
    after: str
    generation: int
    told_to_rejoin: list[str] = field(default_factory=list)


class ConversionRefused(Event, kw_only=True):
    """A group with members stays of the kind that it is.

    Attributes:
        kind: that it has. reason: why, in words. told_to_rejoin: as in `GroupConverted`.
    """

    kind: str
    reason: str
    told_to_rejoin: list[str] = field(default_factory=list)


class RegexResolutionStarted(Event, kw_only=True):
    """The regexes of the group are about to be held against all topics."""

    regexes: list[str]


class RegexesResolved(Event, kw_only=True):
    """They were; ``changed`` has those that come to other topics than before."""

    regexes: list[str]
    changed: list[RegexChange]
