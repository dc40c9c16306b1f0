"""The content of a timeline. The structs are its JSON, of HTTP, of ``ottla timeline --format json`` and of the page.

Times are milliseconds after `Timeline.from_ms` unless they say otherwise. Members are named by the index of their lane.
What there is many of is flat: a group of 200 members with 500 rebalances has 300,000 changes.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct


class Kind(IntEnum):
    """The state of a member from a moment on.

    The member for whom others wait is JOINING before a join barrier and SYNCING before a sync barrier; JOINED and
    SYNCED are those that wait. In a consumer group JOINING is a member for whom others wait, and JOINED one that waits.
    SILENT is a member of which nothing was heard until it was removed, or until now.
    """

    GONE = 0
    OWNING = 1
    JOINING = 2
    JOINED = 3
    SYNCING = 4
    SYNCED = 5
    SILENT = 6


FATES = ("", "left", "expired", "dropped", "unsynced", "replaced", "refused")
"""Why a member is gone, as in `ottla.observe.why.model.MemberPart.fate`; empty where nobody knows."""

UNREADABLE = -1
"""Stands for the number of partitions of a member whose assignment only its own kind can read: Kafka Connect's."""


class Tenant(Struct, array_like=True):
    """The member that has a lane from ``at`` on."""

    at: int
    member_id: str


class Fired(Struct, array_like=True):
    """What a fault did to requests of a member, first ``at`` and last at ``last``."""

    at: int
    last: int
    times: int
    words: str


class Lane(Struct, omit_defaults=True):
    """A member; who comes back with the same instance id, or client id and host, has the same lane again.

    Attributes:
        tenants: the member ids that had the lane, in order.
        changes: triples, flat: when, `Kind`, and the number of partitions if it is OWNING or the index into FATES if
            it is GONE. The number is `UNREADABLE` where assignments cannot be read. A change holds until the next,
            the last until `Timeline.until`.
        lost: when connections of the member were lost.
        faults: what faults did to its requests.
        blamed_ms: partition-milliseconds that stood still on its account, as the episodes have it.
        held_ms: for how long barriers waited for it alone or for it among others; held: for how many.
        is_present: it is a member now; is_leader: it leads the group.
        heard_ms: how long ago it was heard of, -1 if that is not known.
    """

    client_id: str
    client_host: str
    group_instance_id: str | None = None
    tenants: list[Tenant] = []
    changes: list[int] = []
    lost: list[int] = []
    faults: list[Fired] = []
    blamed_ms: int = 0
    held_ms: int = 0
    held: int = 0
    is_present: bool = False
    is_leader: bool = False
    heard_ms: int = -1


class Barrier(Struct, omit_defaults=True):
    """A barrier; ``closed`` is -1 while it is open. Of a consumer group it is a member that others wait for.

    Attributes:
        barrier: ``initial delay``, ``join``, ``sync``, or the kind of an `ottla.observe.why.model.MemberWait`.
        last: lanes that kept it open to its end; absent: lanes that never came; pending: ids that were never used.
    """

    barrier: str
    opened: int
    closed: int = -1
    limit_ms: int = 0
    last: list[int] = []
    absent: list[int] = []
    pending: int = 0


class Mark(Struct, omit_defaults=True):
    """An episode of the group (`ottla.observe.why.model.Episode`), as the timeline shows it.

    Attributes:
        end: -1 while it runs; generation: that of its end, -1 if it has none.
        protocol: ``consumer`` of a consumer group, whose generations are epochs; else empty.
        last: when it happened last, if it happened several times; else -1.
        culprit: the lane of the member on whose account partitions stood still most, trigger: of the one that began it;
            -1 for nobody. Both are as the episode has them.
        advice: as sentences.
    """

    number: int
    kind: str
    start: int
    end: int = -1
    last: int = -1
    generation: int = -1
    protocol: str = ""
    outcome: str = "running"
    cause: str = "unknown"
    culprit: int = -1
    trigger: int = -1
    members: int = 0
    stood_ms: int = 0
    longest_ms: int = 0
    stopped: int = 0
    times: int = 1
    barriers: list[Barrier] = []
    headline: str = ""
    sentences: list[str] = []
    advice: list[str] = []


class Flow(Struct, omit_defaults=True):
    """Commits and lag in buckets of ``bucket_ms``; the first begins at ``start``, which may be before 0.

    Attributes:
        commits: how many commits became visible in each bucket; lag: the last known in each, -1 if none is known.
    """

    start: int
    bucket_ms: int
    commits: list[int] = []
    lag: list[int] = []


class Timeline(Struct, omit_defaults=True):
    """See the module.

    Attributes:
        from_ms: Unix time of the left edge; until: the right edge.
        is_live: the right edge is now.
        state, generation: as they are now, empty and -1 if that is not known.
        hidden: members without a lane, because there are too many.
    """

    group_id: str
    from_ms: int
    until: int
    is_live: bool = False
    state: str = ""
    generation: int = -1
    lanes: list[Lane] = []
    marks: list[Mark] = []
    flow: Flow | None = None
    hidden: int = 0

    @property
    def counted_by(self) -> str:
        """What the numbers of its rebalances are: those of a consumer group are epochs, and some groups were both."""
        of_consumer = {mark.protocol == "consumer" for mark in self.marks if mark.kind != "conversion"}
        return "gen/epoch" if len(of_consumer) == 2 else "epoch" if True in of_consumer else "generation"
