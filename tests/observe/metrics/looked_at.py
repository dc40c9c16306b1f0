"""A broker to look at: some topics, and one group of each kind."""

from __future__ import annotations

from ottla.broker.runtime.audit import Audit
from ottla.broker.settings import Settings
from ottla.observe.metrics.collector import Metrics
from ottla.observe.metrics.counters import Counters
from ottla.observe.metrics.histogram import Durations
from ottla.observe.metrics.requests import Requests
from ottla.observe.metrics.scene import Sources
from ottla.observe.snapshot import (
    GroupState,
    MemberState,
    OffsetState,
    PartitionState,
    TopicState,
)
from tests.observe.http.fakes import ShownView
from tests.observe.timeline.synthetic import member as any_member
from tests.observe.timeline.synthetic import state as any_group

AUTHENTICATIONS = (
    "successful_authentications",
    "failed_authentications",
    "successful_reauthentications",
    "reauthentication_seconds",
    "failed_reauthentications",
    "successful_authentications_no_reauth",
    "expired_connections_killed",
)
"""What may come of one, as metrics call it."""


def member(name: str, assignment: dict[str, list[int]], **changes: object) -> MemberState:
    own = {"member_id": f"{name}-1", "client_host": "/10.0.0.7", "assignment": assignment}
    return any_member(name, heard_ms=1_000, **own | changes)


def group(group_id: str, state: str, *members: MemberState, protocol_type: str | None = "consumer") -> GroupState:
    name = "range" if members else None
    return any_group(group_id, list(members), state=state, protocol_type=protocol_type, protocol_name=name)


def offset(
    topic: str,
    partition: int,
    committed: int,
    end: int | None,
    lag_seconds: float | None = 0.0,
    owner: str | None = None,
) -> OffsetState:
    start, lag = (None, None) if end is None else (0, end - committed)
    return OffsetState(topic, partition, committed, 0, "", start, end, lag, lag_seconds, owner)


def topic(name: str, *ends: int, is_internal: bool = False) -> TopicState:
    partitions = [PartitionState(index, 2, end, end, end, 100 * end) for index, end in enumerate(ends)]
    return TopicState(name, "id", is_internal, {"cleanup.policy": "compact"} if is_internal else {}, partitions)


class Looked(ShownView):
    """A broker with groups in several states."""

    def __init__(self) -> None:
        super().__init__()
        for one in (topic("__consumer_offsets", 3, is_internal=True), topic("orders", 10, 20, 30)):
            self.all_topics[one.topic] = one
        waiting = group("waiting", "PreparingRebalance", member("w", {}, waits_for="join"), member("v", {}))
        waiting.barrier, waiting.barrier_age_ms = "join", 12_500
        self.groups = {
            "busy": group(
                "busy",
                "Stable",
                member("a", {"orders": [0]}, slack_ms=4_500),
                member("b", {"orders": [1, 2]}),
                member("c", {}),
            ),
            "empty": group("empty", "Empty"),
            "simple": group("simple", "Empty", protocol_type=None),
            "waiting": waiting,
        }
        self.committed = {
            "busy": [offset("orders", 0, 4, 10, 1.5, "a-1"), offset("orders", 1, 20, 20, 0.0, "b-1")],
            "empty": [offset("orders", 0, 10, 10), offset("gone", 0, 5, None, None)],
            "simple": [offset("orders", 2, 1, 30, 60.0)],
        }


class Alarms:
    """Sentinels of which one has raised something."""

    left_out = 0

    def __init__(self) -> None:
        self.raised = {"zombie": 2, "old_barrier": 0}

    def active_by_sentinel(self) -> dict[str, int]:
        return {"zombie": 1, "old_barrier": 0}


class Ring:
    """A flight recorder."""

    last_seq, dropped_events, memory_bytes = 12, 3, 4_096
    file_failed, file_lost_events = False, 0


def metrics(view: Looked, *compat: str, settings: Settings | None = None) -> Metrics:
    """The metrics of a broker; each way in which something can be counted was gone once."""
    ticks = iter(range(0, 10**12, 1_000_000))
    sources = Sources(
        view=view,
        requests=Requests(lambda: next(ticks)),
        counters=Counters(100),
        nanoseconds=lambda: next(ticks),
        settings=settings or Settings(),
        connections_opened=lambda: 9,
        authentications=lambda: {(what, "SASL_SSL", "PLAIN"): 3 for what in AUTHENTICATIONS},
        address=("broker.example", 9092),
        syncs=Durations(),
        recorder=Ring(),
        sentinels=Alarms(),
        certificates_end=lambda: {"EXTERNAL": 1_900_000_000_500},
        audit=Audit(),
    )
    sources.audit.denied["READ", "TOPIC"] += 2
    sources.counters.rebalances["member-left"] += 2
    sources.counters.durations.add(3_000_000_000)
    sources.counters.group_rebalances["busy"] = 2
    sources.counters.group_stood_ms["busy"] = 2_500
    sources.counters.group_committed["busy"] = 41
    served = sources.requests._of("Heartbeat")
    served.answered(20_000, 0)
    served.answered(90_000, 27)
    sources.syncs.add(700_000)
    return Metrics(sources, compat)
