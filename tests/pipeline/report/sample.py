"""Gold tables of made-up clusters, with planted trouble: small ones that a person can read, and one of 500 groups."""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

from ottla.pipeline.tables import TABLES
from tests.pipeline import parquet

START = datetime(2026, 11, 21, 22, 30, tzinfo=UTC)
CLUSTER = "orders-eu-1"
HOSTILE = '<script>alert("x")</script>&amp;\'🙃\u202etxt.exe'
LONG = "g" * 249
RIGHT_TO_LEFT = "مجموعة-الطلبات"

Row = dict[str, Any]


def put(lake: Path, table: str, rows: Iterable[Row]) -> None:
    """Write rows as Spark's dynamic overwrite leaves them: a folder for each day."""
    declared = TABLES[table]
    days: dict[date, list[Row]] = {}
    for row in rows:
        days.setdefault(row[declared.partition_column], []).append({"cluster_id": CLUSTER, **row})
    for day, held in days.items():
        parquet.put(lake / declared.layer / table, table, held, day, "part-00000.zstd", compression="zstd")


@dataclass
class Sample:
    """The rows of a lake, table by table, while they are being made."""

    minutes: int = 120
    events: bool = True
    rows: dict[str, list[Row]] = field(default_factory=dict)
    ends: datetime = START
    lake: Path = Path()
    page: Path = Path()

    def __post_init__(self) -> None:
        self.random = random.Random(6)
        self.ends = START + timedelta(minutes=self.minutes)

    def add(self, table: str, when: datetime, **row: Any) -> None:
        self.rows.setdefault(table, []).append({TABLES[table].partition_column: when.date(), **row})

    def lag(self, group: str, topic: str, seconds: list[float | None], *, partitions: int = 3, rate: int = 200) -> None:
        """Lag of a group minute by minute; None is no sample."""
        for at, behind in enumerate(seconds):
            minute = START + timedelta(minutes=at)
            for partition in range(partitions):
                if behind is None:
                    continue
                own = max(0.0, behind if partition == 0 else behind * 0.8)
                self.add(
                    "lag_by_partition", minute, group_id=group, topic=topic, partition=partition, minute=minute,
                    lag_seconds=own, lag_seconds_is_minimum=False, lag_records=int(own * rate / partitions),
                    commits=12, committed_offset=at * 1000, log_end_offset=at * 1000 + int(own * rate),
                    last_commit_ts=minute, consumed=1000, produced=1000,
                )  # fmt: skip

    def well(self, group: str, topic: str = "orders", *, worst: float = 4.0) -> None:
        """A group as it should be."""
        self.lag(group, topic, [self.random.uniform(0, worst) ** 1.2 for _ in range(self.minutes)])
        self.generations(group, [(0.0, ["a", "b", "c"], None, None)], topic=topic)
        self.commits(group, self.random.randrange(50), 36 * self.minutes // 10)
        self.status(group, topic, "OK", range(3))

    def commits(self, group: str, log_partition: int, many: int) -> None:
        for at in range(many):
            when = START + timedelta(seconds=at * self.minutes * 60 / many)
            self.add("offset_commits", when, group_id=group, log_partition=log_partition, log_ts=when, log_offset=at)

    def status(self, group: str, topic: str, status: str, partitions: Iterable[int], lag: int = 0) -> None:
        for partition in partitions:
            self.add(
                "partition_status", self.ends, group_id=group, topic=topic, partition=partition, status=status, lag=lag,
                last_commit=self.ends - timedelta(minutes=3),
            )  # fmt: skip

    def finding(self, group: str, kind: str, start: float, end: float | None, evidence: str, **row: Any) -> None:
        """Times in minutes from the start."""
        when = START + timedelta(minutes=start)
        ended = None if end is None else START + timedelta(minutes=end)
        self.add("findings", when, group_id=group, kind=kind, started_at=when, ended_at=ended, evidence=evidence, **row)

    def generations(
        self,
        group: str,
        steps: list[tuple[float, list[str], str | None, str | None]],
        *,
        topic: str = "orders",
        partitions: int = 12,
        first: int = 1,
        static: bool = False,
    ) -> None:
        """Generations: minute, members (client names, ``c/2`` the client's second member), trigger, reason."""
        before: list[str] = []
        last: datetime | None = None
        for at, (minute, members, trigger, reason) in enumerate(steps):
            when = START + timedelta(minutes=minute)
            ids = [_member_id(group, one) for one in members]
            duration = self.random.randrange(800, 4200) if self.events and at else None
            self.add(
                "rebalances", when, group_id=group, generation=first + at,
                prev_generation=first + at - 1 if at else None,
                completed_at=when, duration_ms=duration, reason=reason if self.events else None,
                trigger_member=_member_id(group, trigger) if trigger else None, members_after=len(ids),
                members_before=len(before), joined=[one for one in ids if one not in before],
                left_members=[one for one in before if one not in ids], partitions_moved=4 if at else partitions,
                partitions_total=partitions,
                since_prev_ms=None if last is None else int((when - last) / timedelta(milliseconds=1)),
                generations_missing=0,
            )  # fmt: skip
            for index, (one, name) in enumerate(zip(ids, members, strict=True)):
                mine = range(index, partitions, len(ids))
                for partition in mine or [None]:
                    client = f"{group}-{name.partition('/')[0]}"
                    self.add(
                        "group_members", when, group_id=group, generation=first + at, log_ts=when, protocol="range",
                        is_leader=index == 0, member_id=one, client_id=client,
                        client_host=f"10.1.{len(group)}.{100 + index}", session_timeout_ms=45000,
                        group_instance_id=client if static else None, rebalance_timeout_ms=300000,
                        topic=None if partition is None else topic, partition=partition,
                    )  # fmt: skip
            before, last = ids, when

    def storm(self, group: str, start: float, many: int, suspect: str = "c3", *, apart_s: float = 24.0) -> None:
        """One member that leaves and comes back again and again."""
        calm = ["c1", "c2", "c4"]
        steps: list[tuple[float, list[str], str | None, str | None]] = [(0.0, [*calm, f"{suspect}/0"], None, None)]
        for at in range(many):
            minute = start + at * apart_s / 60
            there = [*calm, f"{suspect}/{at // 2 + 1}"] if at % 2 else calm
            who = f"{suspect}/{(at + 1) // 2}"
            steps.append((minute, there, who, "left-poll-timeout" if at % 2 == 0 else "member-returned"))
        self.generations(group, steps, first=40)
        start_at = START + timedelta(minutes=start)
        end_at = START + timedelta(minutes=start + (many - 1) * apart_s / 60)
        paused = self.paused(group)
        self.add(
            "rebalance_storms", start_at, group_id=group, sid=1, started_at=start_at, ended_at=end_at, rebalances=many,
            paused_ms=paused, partitions_moved=4 * many, main_reason="left-poll-timeout" if self.events else None,
            distinct_triggers=many // 2, distinct_clients=1, kind="storm", members=4,
            suspect_client=f"{group}-{suspect}",
        )  # fmt: skip
        said = f", {paused / 1000:.1f} s stood still" if paused is not None else ""
        self.finding(
            group, "storm", start, start + (many - 1) * apart_s / 60,
            f"{many} rebalances in {(many - 1) * apart_s / 60:.0f} minutes{said}, {4 * many} partitions moved",
            suspect=f"{group}-{suspect}",
        )  # fmt: skip

    def restart(self, group: str, start: float, clients: int = 6) -> None:
        """Each member restarted once, one after the other."""
        names = [f"c{index}/0" for index in range(clients)]
        steps: list[tuple[float, list[str], str | None, str | None]] = [(0.0, list(names), None, None)]
        for index in range(clients):
            old = names[index]
            names[index] = f"c{index}/1"
            gone = [one for one in names if one != names[index]]
            steps.append((start + index * 0.9, gone, old, "left-closed"))
            steps.append((start + index * 0.9 + 0.3, list(names), names[index], "member-joined"))
        self.generations(group, steps)
        start_at, end_at = START + timedelta(minutes=start), START + timedelta(minutes=start + clients * 0.9)
        self.add(
            "rebalance_storms", start_at, group_id=group, sid=1, started_at=start_at, ended_at=end_at,
            rebalances=2 * clients, paused_ms=self.paused(group), partitions_moved=8 * clients,
            main_reason="left-closed" if self.events else None,
            distinct_triggers=2 * clients, distinct_clients=clients, kind="rolling_restart", members=clients,
        )  # fmt: skip
        self.finding(
            group, "rolling_restart", start, start + clients * 0.9, f"{2 * clients} rebalances of {clients} clients"
        )

    def paused(self, group: str) -> int | None:
        mine = [one for one in self.rows["rebalances"] if one["group_id"] == group and one["prev_generation"]]
        return sum(one["duration_ms"] for one in mine) if self.events else None

    def breach(self, group: str, topic: str, start: int, minutes: int, worst: float) -> None:
        when = START + timedelta(minutes=start)
        self.add(
            "slo_breaches", when, group_id=group, topic=topic, started_at=when,
            last_minute=when + timedelta(minutes=minutes - 1), minutes=minutes, worst_lag_seconds=worst,
        )  # fmt: skip

    def forecast(self, group: str, topic: str, now: int, slope: float, r2: float = 0.99) -> None:
        as_of = self.ends - timedelta(minutes=1)
        self.add(
            "lag_forecast", self.ends, group_id=group, topic=topic, as_of=as_of, lag_now=now, lag_per_s=slope, r2=r2,
            minutes_to_500k=(500_000 - now) / slope / 60 if slope > 0 and now < 500_000 else None,
            minutes_to_drain=now / -slope / 60 if slope < 0 else None,
        )  # fmt: skip

    def write(self, lake: Path) -> Path:
        for table, rows in self.rows.items():
            put(lake, table, rows)
        (lake / "lake.json").write_text(json.dumps({"version": 1, "format": "parquet", "cluster_id": CLUSTER}))
        return lake


def _member_id(group: str, member: str) -> str:
    client, _, session = member.partition("/")
    return f"{group}-{client}-{crc32(member.encode()):08x}-{session or 0}"


def troubled(sample: Sample) -> Sample:
    """Five groups: a stop, a storm, a slow one, a rolling restart, and one that is well."""
    total = sample.minutes
    rand = sample.random
    stopped = [rand.uniform(0, 3) if at < 70 else (at - 69) * 60.0 for at in range(total)]
    sample.lag("payments", "orders", stopped)
    sample.generations("payments", [(0.0, ["c1", "c2"], None, None)], first=7)
    sample.finding(
        "payments", "stopped", 70, None, f"no commit for {total - 70} minutes while 200 records a second were written",
        topic="orders", partitions=3,
    )  # fmt: skip
    sample.breach("payments", "orders", 72, total - 72, stopped[-1])
    sample.status("payments", "orders", "STOP", range(3), 120_000)
    spike = [rand.uniform(0, 4) + (max(0, 90 - abs(at - 48) * 6) if 36 <= at <= 62 else 0) for at in range(total)]
    gap = [None if 20 <= at < 24 else one for at, one in enumerate(spike)]
    sample.lag("fulfilment", "orders", gap)
    sample.storm("fulfilment", 38.0, 30)
    sample.breach("fulfilment", "orders", 46, 4, 130.0)
    sample.breach("fulfilment", "orders", 52, 3, 124.0)
    slow = [max(0.0, (at - 20) * 5.5) for at in range(total)]
    sample.lag("search-index", "clicks", slow, rate=1000)
    sample.generations("search-index", [(0.0, ["c1"], None, None), (33.0, ["c1", "c2"], "c2", "member-joined")])
    sample.finding(
        "search-index", "slow", 25, None, "lag grew by 91.7 records a second for 95 minutes (r² 0.998)",
        topic="clicks", partitions=3,
    )  # fmt: skip
    sample.breach("search-index", "clicks", 42, total - 42, slow[-1])
    sample.forecast("search-index", "clicks", int(slow[-1] * 1000 * 0.87), 91.7)
    sample.status("search-index", "clicks", "WARN", range(3), 180_000)
    sample.lag("billing", "orders", [rand.uniform(0, 6) + (25 if 90 <= at <= 96 else 0) for at in range(total)])
    sample.restart("billing", 90.0)
    sample.well("audit", "clicks")
    for index, (group, many) in enumerate(
        [("payments", 900), ("fulfilment", 2400), ("search-index", 700), ("billing", 800)]
    ):
        sample.commits(group, 11 * index + 3, many)
    if sample.events:
        sample.add("group_events", START, ts=START, group_id="billing", event="rebalance_completed", generation=2)
    return sample


def crowd(sample: Sample, many: int = 500) -> Sample:
    """Many groups, some in trouble, a few with names that somebody means ill with."""
    troubled(sample)
    for index in range(many - 5 - 8):
        topic = ("orders", "clicks", "events", "mail")[index % 4]
        sample.well(f"team-{index % 23:02d}.service-{index:03d}", topic, worst=1.0 + index % 9)
    for index, name in enumerate((HOSTILE, LONG, RIGHT_TO_LEFT)):
        sample.lag(name, "t" * (60 * index + 5), [30.0 * (index + 1) + at for at in range(sample.minutes)])
        about = {"topic": "<b>x</b>", "partitions": 1, "suspect": name}
        sample.finding(name, "stalled", 10 + index, None, f"commits {name[:60]} again", **about)
    for index in range(5):
        name = f"etl-{index}"
        sample.lag(name, "events", [max(0.0, 400 - at * 3.0) + index for at in range(sample.minutes)], rate=900)
        sample.breach(name, "events", 0, 60 + index, 400.0)
        sample.forecast(name, "events", 40_000 - index, -30.5)
        sample.storm(f"etl-{index}", 8.0 + 20 * index, 8 + index)
    return sample
