"""The bodies of the API that are not structs of `ottla.observe.snapshot` themselves."""

from __future__ import annotations

from msgspec import Raw, Struct

from ottla.observe.sentinels.model import Alarm
from ottla.observe.snapshot import ClusterState, GroupBrief, GroupState, MemberState, OffsetState, TopicState
from ottla.observe.why.model import Episode
from ottla.observe.why.store import Cost


class Topics(Struct):
    """Topics by name. ``next`` is what to ask for with ``after``; None if these are the last."""

    topics: list[TopicState]
    next: str | None = None


class Groups(Struct):
    """Groups by id. ``next`` is what to ask for with ``after``; None if these are the last."""

    groups: list[GroupBrief]
    next: str | None = None


class Members(Struct):
    """The members of a group."""

    members: list[MemberState]


class Offsets(Struct):
    """The offsets that a group has committed."""

    offsets: list[OffsetState]


class Events(Struct):
    """Events of the flight recorder, as docs/recorder.md has them, with ``seq``. ``next`` is to be asked for next."""

    events: list[Raw]
    next: int


class Costs(Struct):
    """Costs of groups since a time, the highest first; groups without any are left out."""

    since_ms: int
    costs: list[Cost]


class Why(Struct):
    """The episodes of a group, oldest first."""

    episodes: list[Episode]


class Alarms(Struct):
    """The alarms that stand, and the latest, ended ones included."""

    active: list[Alarm]
    recent: list[Alarm]


class Hello(Struct):
    """The first event of a stream: the cluster, for those who may see it; and who reads, where there are tokens."""

    cluster: ClusterState | None
    user: str | None


class GroupChanges(Struct):
    """Groups that have changed, and the ids of those that are gone."""

    changed: list[GroupBrief]
    removed: list[str]


class GroupNow(Struct):
    """A group with its offsets; None once it is gone."""

    group: GroupState | None
    offsets: list[OffsetState]


class HealthNow(Struct, omit_defaults=True):
    """State of the broker: ``starting``, ``ready``, ``stopping`` or ``failed``; or ``full`` or ``degraded`` while it is
    ready and nothing can be written. ``nodes_down`` are the ids of other nodes that are down, if there are any, and
    ``nodes_silent`` of those that are up and do not answer: ``/v1/cluster`` says why.
    """

    status: str
    nodes_down: list[int] = []
    nodes_silent: list[int] = []
