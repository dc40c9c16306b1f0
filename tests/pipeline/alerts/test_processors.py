"""The processors with Spark's own tester: state, timers, order; no session, no clock but the test's."""

import json

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.streaming.tws_tester import TwsTester

from ottla.pipeline.alerts.processors import StoppedProcessor, StormProcessor
from ottla.pipeline.alerts.stopped import StoppedLimits
from ottla.pipeline.alerts.storms import StormLimits
from ottla.pipeline.alerts.streams import reduce_commits

T0 = 1_760_000_000_000


def record(at_s: float, generation: int, members: str = "ab", deleted: bool = False) -> Row:
    who = [{"member_id": f"{one}-id", "client_id": f"client-{one}", "client_host": "/h"} for one in members]
    return Row(
        group_id="g", ts_ms=round(T0 + at_s * 1000), generation=generation, deleted=deleted, members=who,
        client_id=None, client_host=None, cause=None, duration_ms=None,
    )  # fmt: skip


def event(at_s: float, generation: int) -> Row:
    return Row(
        group_id="g", ts_ms=round(T0 + at_s * 1000), generation=generation, deleted=False, members=None,
        client_id="flapper", client_host="/10.0.0.7", cause="heartbeat_expired", duration_ms=3000,
    )  # fmt: skip


def alerts(rows: list[Row]) -> list[dict[str, object]]:
    for row in rows:
        assert (row.group_id, row.id, row.state) == tuple(
            json.loads(row.alert)[key] for key in ("group", "id", "state")
        )
    return [json.loads(row.alert) for row in rows]


def _tester(processor: StatefulProcessor) -> TwsTester:
    tester = TwsTester(processor, timeMode="ProcessingTime")
    tester.setProcessingTime(T0)
    return tester


def storms(**limits: int) -> TwsTester:
    return _tester(StormProcessor(StormLimits(**limits)))


def stopped(**limits: int) -> TwsTester:
    return _tester(StoppedProcessor(StoppedLimits(**limits)))


def test_rows_of_a_batch_are_taken_in_the_order_of_the_log_whatever_the_shuffle_did() -> None:
    rows = [record(10 * n, n) for n in range(1, 6)]
    said = alerts(storms().test("g", [rows[at] for at in (3, 0, 4, 2, 1)]))
    assert [(one["state"], one["generations"], one["since_ms"]) for one in said] == [("raised", 5, T0 + 10_000)]


def test_a_storm_over_several_batches_with_its_causes_ends_by_a_timer() -> None:
    tester = storms()
    assert tester.test("g", [row for n in (1, 2, 3) for row in (event(n, n), record(n, n))]) == []
    tester.setProcessingTime(T0 + 20_000)
    (raised,) = alerts(tester.test("g", [row for n in (4, 5) for row in (record(n, n), event(n, n))]))
    assert (raised["suspect"], raised["cause"], raised["paused_ms"]) == ("flapper", "heartbeat_expired", 12_000)
    assert tester.setProcessingTime(T0 + 79_999) == []
    (resolved,) = alerts(tester.setProcessingTime(T0 + 80_000))
    assert (resolved["id"], resolved["state"], resolved["paused_ms"]) == (raised["id"], "resolved", 15_000)
    assert tester.setProcessingTime(T0 + 10_000_000) == []


def test_each_generation_puts_the_end_of_a_storm_off() -> None:
    tester = storms()
    tester.test("g", [record(n, n) for n in range(1, 6)])
    for n in range(6, 12):
        assert tester.setProcessingTime(T0 + (n - 5) * 50_000) == []
        assert tester.test("g", [record(n, n)]) == []
    assert [one["generations"] for one in alerts(tester.setProcessingTime(T0 + 360_000))] == [11]


def test_a_batch_that_is_done_again_says_the_same() -> None:
    """After a crash Spark runs the batch on the state before it: ids must not depend on the clock."""
    rows = [record(n, n) for n in range(1, 6)]
    first, second = storms(), storms()
    second.setProcessingTime(T0 + 5_000_000)
    assert first.test("g", rows) == second.test("g", rows)


def test_a_group_without_generations_is_forgotten() -> None:
    tester = storms(forget_ms=100_000)
    tester.test("g", [record(1, 1)])
    assert tester.peekValueState("storm", "g") is not None
    assert tester.setProcessingTime(T0 + 100_000) == []
    assert tester.peekValueState("storm", "g") is None


def test_a_storm_is_forgotten_too_but_resolved_before() -> None:
    tester = storms(gap_ms=60_000, forget_ms=100_000)
    tester.test("g", [record(n, n) for n in range(1, 6)])
    assert [one["state"] for one in alerts(tester.setProcessingTime(T0 + 60_000))] == ["resolved"]
    assert tester.setProcessingTime(T0 + 160_000) == []
    assert tester.peekValueState("storm", "g") is None


def test_a_tombstone_has_neither_generation_nor_members() -> None:
    tester = storms()
    tester.test("g", [record(n, n) for n in range(1, 6)])
    gone = Row(**(record(9, 1).asDict() | {"generation": None, "deleted": True, "members": None}))
    assert [one["state"] for one in alerts(tester.test("g", [gone]))] == ["resolved"]


def commits(group: str, *rows: tuple[float, int, int]) -> list[Row]:
    """Commits (second, partition, offset; -1 deletes), reduced as they are before they are shuffled."""
    kept = [
        {"group_id": group, "topic": "orders", "partition": at[1], "ms": round(T0 + at[0] * 1000), "at": at[2]}
        for at in rows
    ]
    kinds = [pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64()]
    schema = pa.schema(list(zip(("group_id", "topic", "partition", "ms", "at"), kinds, strict=True)))
    made = reduce_commits(pa.RecordBatch.from_pylist(kept, schema)).to_pylist()
    return [Row(**row) for row in made]


def sample(at_s: float, *ends: int) -> list[Row]:
    blank = {"topic": "orders", "group_id": None, "instants_ms": None, "offsets": None}
    return [
        Row(**blank, ts_ms=round(T0 + at_s * 1000), partition=partition, log_end_offset=end)
        for partition, end in enumerate(ends)
    ]


def test_reduced_commits_keep_the_last_offset_and_every_moment() -> None:
    first, second = commits("g", (0.1, 0, 5), (0.1, 1, 7), (2.5, 0, 9), (6, 1, -1), (6.001, 0, 11))
    assert (first.instants_ms, second.instants_ms) == ([T0 + 100, T0 + 2500], [T0 + 6001])
    assert [(one["partition"], one["offset"]) for one in first.offsets] == [(0, 9), (1, 7)]
    assert [(one["partition"], one["offset"]) for one in second.offsets] == [(1, None), (0, 11)]
    assert (first.ts_ms, second.ts_ms) == (T0 + 2500, T0 + 6001)


def test_of_two_groups_in_a_topic_the_one_that_stopped_is_named() -> None:
    tester = stopped()
    for at in range(0, 60, 10):
        rows = [*commits("dead", (at, 0, at), (at + 5, 0, at)), *commits("well", (at, 0, at)), *sample(at + 6, at + 10)]
        assert tester.test("orders", rows) == []
    said: list[tuple[int, object, object]] = []
    for at in range(60, 200, 10):
        rows = tester.test("orders", [*sample(at + 6, at + 10), *commits("well", (at, 0, at))])
        said += [(at, one["group"], one["state"]) for one in alerts(rows)]
    assert said == [(120, "dead", "raised")]
    assert [one["state"] for one in alerts(tester.test("orders", commits("dead", (300, 0, 300))))] == ["resolved"]


def test_a_backlog_in_one_batch_is_judged_as_if_it_had_come_live() -> None:
    rows = [row for at in range(0, 100, 5) for row in commits("g", (at, 0, at), (at, 1, at))]
    rows += [row for at in range(0, 300, 10) for row in sample(at + 1, at + 5, at + 5)]
    rows += commits("g", (310, 0, 310))
    said = alerts(stopped().test("orders", rows[::-1]))
    assert [(one["state"], one["since_ms"]) for one in said] == [("raised", T0 + 95_000), ("resolved", T0 + 95_000)]
    assert said[1]["silent_ms"] == 215_000


def test_deleted_groups_and_deleted_topics_leave_no_state() -> None:
    tester = stopped(forget_ms=500_000)
    tester.test("orders", [*commits("g", (0, 0, 5)), *commits("h", (0, 0, 5)), *sample(1, 9)])
    assert set(tester.peekMapState("groups", "orders")) == {("g",), ("h",)}
    tester.test("orders", [*commits("g", (10, 0, -1)), *sample(11, 9)])
    assert set(tester.peekMapState("groups", "orders")) == {("h",)}
    assert tester.setProcessingTime(T0 + 500_000) == []
    assert not tester.peekMapState("groups", "orders")
    assert tester.peekValueState("ends", "orders") is None


def test_a_topic_that_is_deleted_resolves_what_stands() -> None:
    tester = stopped(forget_ms=500_000)
    rows = [row for at in range(0, 50, 5) for row in commits("g", (at, 0, at))]
    rows += [row for at in range(0, 200, 10) for row in sample(at + 1, at + 5)]
    assert [one["state"] for one in alerts(tester.test("orders", rows))] == ["raised"]
    assert [one["state"] for one in alerts(tester.setProcessingTime(T0 + 500_000))] == ["resolved"]
