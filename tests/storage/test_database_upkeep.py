"""What the machines of a cluster rely on in a database: loads, upkeep, nodes, the catalog, and what survives.

Every implementation of the port passes here, as in `test_database_contract`.
"""

from __future__ import annotations

import pytest

from ottla.broker.cluster.plan import LogRow
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer, Refusal, Stored
from tests.storage.database_clients import LOCK_TIMEOUT_MS, A, B, C, Client, append, barrier, claim, row
from tests.storage.simulated_database import SimBench

# Loads, epochs, snapshots, pages


def test_a_load_has_everything_but_the_batches(one: Client) -> None:
    assert one(port.BeginEpoch(A, 5, 0))
    one(append(row(A, 0, 2), row(A, 2), row(A, 3, 4, body=b"longer")._replace(max_timestamp_ms=9)))
    assert one(port.SaveSnapshot(A, 5, 2, "state"))
    loaded = one(port.Load(A, 5))
    assert (loaded.start_offset, loaded.end_offset, loaded.snapshot, loaded.epochs) == (0, 7, (2, "state"), {5: 0})
    assert [list(column) for column in loaded.outline] == [[0, 2, 3], [1, 2, 6], [65, 65, 67], [0, 0, 9]]


def test_a_load_leaves_out_what_cannot_be_read(one: Client) -> None:
    one(append(row(A, 0, 2), row(A, 2, 3), row(A, 5)))
    assert one(port.Trim(A, 5, 3))
    assert one.bases(A) == [2, 5]


def test_a_snapshot_that_comes_late_does_not_replace_a_newer_one(one: Client) -> None:
    one(append(row(A, 0, 3)))
    assert one(port.SaveSnapshot(A, 5, 3, "newer"))
    assert one(port.SaveSnapshot(A, 5, 1, "older"))
    assert one(port.Load(A, 5)).snapshot == (3, "newer")
    assert one(port.SaveSnapshot(A, 5, 3, "the same rows"))
    assert one(port.Load(A, 5)).snapshot == (3, "the same rows")


def test_a_log_that_comes_from_elsewhere_has_its_earlier_epochs(one: Client) -> None:
    assert one(port.BeginEpoch(A, 5, 7, ((1, 0), (3, 2))))
    assert one(port.Load(A, 5)).epochs == {1: 0, 3: 2, 5: 7}
    assert not one(port.BeginEpoch(A, 4, 9, ((2, 1),)))
    assert one(port.Load(A, 5)).epochs == {1: 0, 3: 2, 5: 7}


def test_a_load_of_an_empty_log(one: Client) -> None:
    loaded = one(port.Load(A, 5))
    assert loaded == (0, 0, port.Outline(), {}, None)


def test_epochs_begin_together(one: Client) -> None:
    assert one(port.BeginEpochs([(A, 5, 0), (B, 4, 0), (C, 5, 7)])) == (A, C)
    assert one(port.BeginEpochs([(C, 5, 8)])) == (C,)
    assert [one(port.Load(log_id, 5)).epochs for log_id in (A, B, C)] == [{5: 0}, {}, {5: 8}]


def test_an_epoch_does_not_begin_after_a_claim_that_came_first(one: Client, two: Client) -> None:
    two.hold(claim(A))
    beginning = one.start(port.BeginEpochs([(A, 5, 0), (B, 5, 0)]))
    assert beginning.answer is None
    two.release()
    assert beginning.answer == Answer((B,))


STALE = [
    port.Load(A, 4),
    port.BeginEpoch(A, 4, 0),
    port.SaveSnapshot(A, 4, 0, "state"),
    port.Trim(A, 4, 1),
    port.Seal(A, 4, 1),
    port.Replace(A, 4, 0, 1, 1, ()),
    port.Page(A, 4, 0, 1, 1_000),
]


@pytest.mark.parametrize("statement", STALE, ids=lambda one: type(one).__name__)
def test_what_is_done_to_a_log_carries_its_epoch(one: Client, statement: port.Statement) -> None:
    one(append(row(A, 0)))
    before = one(port.Load(A, 5))
    assert not one(statement)
    assert one(port.Load(A, 5)) == before


@pytest.mark.parametrize("statement", STALE[1:6], ids=lambda one: type(one).__name__)
def test_what_changes_a_log_waits_for_a_claim(one: Client, two: Client, statement: port.Statement) -> None:
    one.hold(claim(A, epoch=5))
    pending = two.start(statement._replace(leader_epoch=5))  # type: ignore[union-attr]
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and not pending.answer.result


@pytest.mark.parametrize(
    ("start", "upto", "most", "bases"),
    [
        (0, 8, 1 << 20, [0, 3, 4]),
        (2, 8, 1 << 20, [0, 3, 4]),
        (3, 8, 1 << 20, [3, 4]),
        (3, 4, 1 << 20, [3]),
        (0, 8, 1, [0]),
        (0, 8, 130, [0, 3]),
        (6, 8, 1 << 20, [4]),
    ],
)
def test_pages(one: Client, start: int, upto: int, most: int, bases: list[int]) -> None:
    one(append(row(A, 0, 3), row(A, 3), row(A, 4, 4)))
    assert [one.base_offset for one in one(port.Page(A, 5, start, upto, most))] == bases


def test_a_page_from_a_gap_begins_behind_it(one: Client) -> None:
    one(append(row(A, 0), row(A, 1), row(A, 2)))
    assert one(port.Seal(A, 5, 2)) and one(port.Replace(A, 5, 1, 2, 1, ()))
    assert [one.base_offset for one in one(port.Page(A, 5, 1, 3, 1))] == [2]


def test_no_rows_and_another_epoch_or_a_shorter_log_differ(one: Client) -> None:
    assert one(port.Page(A, 5, 0, 0, 100)) == ()
    assert one(port.Page(A, 6, 0, 0, 100)) is None
    assert one(port.Page(A, 5, 0, 1, 100)) is None


def test_nobody_sees_what_is_not_committed(one: Client, two: Client) -> None:
    one.hold(append(row(A, 0)))
    assert two.bases(A) == []
    assert two(port.Load(A, 5)).end_offset == 0
    one.release()
    assert two.bases(A) == [0]


# Trims and compaction


def test_a_log_begins_later_and_never_earlier(one: Client) -> None:
    one(append(row(A, 0, 4)))
    for offset in (3, 1):
        assert one(port.Trim(A, 5, offset))
        assert one(port.Load(A, 5)).start_offset == 3


def test_only_what_lies_below_the_start_as_a_whole_is_deleted(one: Client) -> None:
    one(append(row(A, 0, 2), row(A, 2, 3), row(A, 5)))
    assert one(port.Sweep(A)) == 0
    one(port.Trim(A, 5, 3))
    assert one(port.Sweep(A)) == 1
    assert one.bases(A) == [2, 5]
    assert one(port.Sweep(A)) == 0


def test_compaction_replaces_what_it_expects(one: Client) -> None:
    one(append(row(A, 0), row(A, 1), row(A, 2), row(A, 3)))
    assert not one(port.Replace(A, 5, 0, 3, 3, ())), "it is not sealed"
    assert one(port.Seal(A, 5, 3))
    assert one(port.Replace(A, 5, 0, 3, 3, (row(A, 1, body=b"new"),)))
    assert one.bases(A) == [1, 3]
    assert one(port.Page(A, 5, 1, 2, 1_000))[0].body == b"new"
    assert one(append(row(A, 4))) == (Stored(A, 5, 4),)


def test_a_log_ends_where_it_did_if_its_last_row_goes(one: Client) -> None:
    one(append(row(A, 0), row(A, 1)))
    assert one(port.Seal(A, 5, 2)) and one(port.Replace(A, 5, 0, 2, 2, ()))
    assert one(port.Load(A, 5)).end_offset == 2
    assert one(append(row(A, 2))) == (Stored(A, 5, 2),)


def test_compaction_changes_nothing_where_there_is_something_else(one: Client) -> None:
    one(append(row(A, 0), row(A, 1), row(A, 2)))
    one(port.Seal(A, 5, 2))
    assert not one(port.Replace(A, 5, 0, 2, 3, ()))
    assert one.bases(A) == [0, 1, 2]


def test_compaction_that_finds_another_compaction_takes_none_of_its_rows(one: Client, two: Client) -> None:
    one(append(row(A, 0), row(A, 1), row(A, 2), row(A, 3)))
    one(port.Seal(A, 5, 3))
    one.hold(port.Replace(A, 5, 0, 2, 2, (row(A, 1),)))
    pending = two.start(port.Replace(A, 5, 0, 3, 3, ()))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and not pending.answer.result
    assert two.bases(A) == [1, 2, 3]


def test_compaction_twice_is_compaction_once(one: Client) -> None:
    one(append(row(A, 0), row(A, 1), row(A, 2)))
    one(port.Seal(A, 5, 2))
    same = port.Replace(A, 5, 0, 2, 2, (row(A, 1),))
    assert one(same)
    assert not one(same)
    assert one.bases(A) == [1, 2]


# Nodes


def test_incarnations_rise(one: Client) -> None:
    first, second, other = one(port.Register(1)), one(port.Register(1)), one(port.Register(2))
    assert first < second < other


def test_a_name_keeps_its_id_and_a_new_one_gets_the_next(one: Client) -> None:
    assert [one(port.Identify(name)) for name in ("a", "b", "a")] == [1, 2, 1]
    one(port.Register(7))
    assert [one(port.Identify(name)) for name in ("c", "b", "d")] == [8, 2, 9]
    incarnation = one(port.Register(2))
    assert one(port.Identify("b")) == 2
    assert {row.node_id: row.incarnation for row in one(port.Beat(2, incarnation)).nodes}[2] == incarnation


def test_of_two_that_name_a_node_at_once_one_asks_again(one: Client, two: Client) -> None:
    one.hold(port.Identify("a"))
    same = two.start(port.Identify("a"))
    assert same.answer is None
    one.release()
    assert same.answer == Answer(refusal=Refusal.UNIQUE_VIOLATION)
    assert (two(port.Identify("a")), two(port.Identify("b"))) == (1, 2)


def test_a_name_gets_no_id_that_somebody_else_takes_meanwhile(one: Client, two: Client) -> None:
    one.hold(port.Register(1))
    named = two.start(port.Identify("a"))
    one.release()
    assert named.answer == Answer(refusal=Refusal.UNIQUE_VIOLATION)
    assert two(port.Identify("a")) == 2


def test_a_beat_counts_and_tells_of_others(bench: SimBench, one: Client) -> None:
    mine, other = one(port.Register(1)), one(port.Register(2))
    one(port.Beat(1, mine))
    heard = one(port.Beat(2, other))
    assert heard.is_mine and heard.version == 1 and heard.fingerprint == (3, 15, 0)
    assert {(node.node_id, node.incarnation, node.beat) for node in heard.nodes} == {(1, mine, 1), (2, other, 0)}
    one(claim(A))
    assert one(port.Beat(2, other)).fingerprint == (3, 16, 0)


def test_the_beat_of_an_older_incarnation_is_not_its_own(one: Client) -> None:
    old, _ = one(port.Register(1)), one(port.Register(1))
    assert not one(port.Beat(1, old)).is_mine


def test_a_hint_shows_whose_connection_is_open(bench: SimBench, one: Client) -> None:
    incarnation = one(port.Register(1))
    first = Client(bench, "H", 4)
    assert 4 in one(port.Beat(1, incarnation)).held
    first.drop()
    assert 4 not in one(port.Beat(1, incarnation)).held


def test_what_is_said_of_a_node(one: Client) -> None:
    incarnation = one(port.Register(1))
    assert one(port.Describe(1, intent=1))
    assert not one(port.Describe(1, ended=incarnation + 1))
    node = one(port.Beat(1, incarnation)).nodes[0]
    assert (node.intent, node.state.name) == (1, "UP")
    assert one(port.Describe(1, ended=incarnation))
    assert one(port.Beat(1, incarnation)).nodes[0].state.name == "DOWN"
    assert not one(port.Describe(77, intent=1))


def test_nothing_that_a_node_believes_counts_once_all_are_deposed(one: Client) -> None:
    incarnation = one(port.Register(1))
    one(claim(A, node=1))
    one(port.StoreCatalog(1, "second", deleted=(C,)))
    numbers = one(port.Take("ids", 5))
    assert one(port.Depose(100)) == ((A, 106), (B, 105))
    assert {(log.leader_id, log.leader_incarnation, log.epoch) for log in one(port.ReadLogs())} == {
        (-1, 0, 106),
        (-1, 0, 105),
    }
    heard = one(port.Beat(1, incarnation))
    assert not heard.is_mine and heard.nodes[0].state.name == "DOWN"
    assert one(append(row(A, 0, epoch=6), epoch=6)) == (Stored(A, 106, 0),)
    assert one(port.StoreCatalog(2, "of a node that has not heard of it")) is None
    assert one(port.ReadCatalog()) == (102, "second")
    assert one(port.Take("ids", 1)) == numbers + 105
    assert one(port.Register(1)) > heard.nodes[0].incarnation >= incarnation + 100


def test_to_depose_waits_for_an_append(one: Client, two: Client) -> None:
    one.hold(append(row(A, 0)))
    pending = two.start(port.Depose(1))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and two.bases(A, 6) == [0]


def test_what_is_wanted_of_a_node_outlives_it_and_that_it_is_about_to_end_does_not(one: Client) -> None:
    one(port.Register(1))
    assert one(port.Describe(1, intent=1)) and one(port.Describe(1, is_leaving=True))
    node = one(port.Beat(1, 0)).nodes[0]
    assert (node.intent, node.state.name) == (1, "DRAINING")
    one(port.Register(1))
    node = one(port.Beat(1, 0)).nodes[0]
    assert (node.intent, node.state.name) == (1, "UP")


# Logs that are called home


def test_logs_are_called_home_until_they_have_another_leader(one: Client) -> None:
    def called() -> dict[int, str]:
        return {log.log_id: log.called for log in one(port.ReadLogs())}

    assert one(port.CallHome((A, B), "now")) == 0, "they are at home"
    assert one(port.StoreCatalog(1, (), homes=((A, 9), (B, 9)))) == 2
    assert called() == {A: "", B: "", C: ""}
    assert one(port.CallHome((A, B, C, 77), "now")) == 2
    assert called() == {A: "now", B: "now", C: ""}
    assert one(port.Beat(1, 0)).fingerprint == (3, 15, 2)
    one(claim(A))
    one(port.HandOver(((B, 5),), 9, 1, "it was called"))
    assert called() == {A: "", B: "", C: ""}


def test_a_log_with_another_home_is_called_there_with_the_change(one: Client) -> None:
    assert one(port.StoreCatalog(1, (), homes=((A, 9), (B, 1)), called="moved")) == 2
    assert {log.log_id: log.called for log in one(port.ReadLogs())} == {A: "moved", B: "", C: ""}


def test_who_calls_logs_home_does_not_wait_for_whoever_holds_one(bench: SimBench, one: Client, two: Client) -> None:
    one(port.StoreCatalog(1, (), homes=((A, 9),)))
    one.hold(append(row(A, 0)))
    pending = two.start(port.CallHome((A,), "now"))
    bench.settle(LOCK_TIMEOUT_MS)
    assert pending.answer == Answer(refusal=Refusal.LOCK_NOT_AVAILABLE)


# Catalog and counters


def test_the_catalog_is_changed_over_its_version(one: Client) -> None:
    assert one(port.ReadCatalog()) == (1, "first")
    assert one(port.StoreCatalog(1, "second")) == 2
    assert one(port.StoreCatalog(1, "third")) is None
    assert one(port.ReadCatalog()) == (2, "second")


def test_of_two_changes_at_once_one_is_outdated(one: Client, two: Client) -> None:
    one.hold(port.StoreCatalog(1, "one"))
    pending = two.start(port.StoreCatalog(1, "two"))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result is None
    assert two(port.ReadCatalog()) == (2, "one")


def test_logs_come_and_move_and_go_with_the_catalog(one: Client) -> None:
    one(append(row(A, 0)))
    assert one(port.StoreCatalog(1, (), created=(LogRow(7, 3, -1, 0, 0),), homes=((B, 9),), deleted=(A,))) == 2
    logs = {log.log_id: log for log in one(port.ReadLogs())}
    assert sorted(logs) == [B, C, 7]
    assert (logs[B].home, logs[B].epoch, logs[7].leader_id) == (9, 5, -1)
    assert one(claim(A, epoch=6)) == () and one(port.Load(A, 6)) is None
    assert one(append(row(A, 1))) == ()


def test_what_is_left_of_deleted_logs_goes(one: Client) -> None:
    one(append(row(A, 0), row(A, 1), row(B, 0)))
    assert one(port.Tidy()) == 0
    one(port.StoreCatalog(1, (), deleted=(A,)))
    assert one(port.Tidy()) == 2, "its rows"
    assert one(port.Tidy()) == 1, "itself"
    assert one(port.Tidy()) == 0
    assert one.bases(B) == [0]
    assert one(append(row(A, 2))) == ()


def test_a_change_of_the_catalog_does_not_wait_for_whoever_holds_a_log(
    bench: SimBench, one: Client, two: Client
) -> None:
    one.hold(append(row(A, 0)))
    pending = two.start(port.StoreCatalog(1, "x", homes=((A, 2),)))
    bench.settle(LOCK_TIMEOUT_MS)
    assert pending.answer == Answer(refusal=Refusal.LOCK_NOT_AVAILABLE)
    assert two(port.StoreCatalog(1, "y")) == 2


def test_numbers_of_a_counter_are_given_once(one: Client, two: Client) -> None:
    assert one(port.Take("ids", 10)) == 0
    one.hold(port.Take("ids", 10))
    pending = two.start(port.Take("ids", 10))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result == 20


# What survives


def test_a_commit_shows_and_is_answered_once_it_is_on_the_standby(bench: SimBench, one: Client, two: Client) -> None:
    bench.stall(True)
    pending = one.start(append(row(A, 0)))
    assert pending.answer is None and two.bases(A) == []
    bench.stall(False)
    assert pending.answer is not None and two.bases(A) == [0]


@pytest.mark.parametrize(
    "statement",
    [barrier(A, 0), append(row(A, 0)), port.ReadLogs(), port.ReadCatalog()],
    ids=["barrier", "same rows again", "ReadLogs", "ReadCatalog"],
)
def test_what_must_be_durable_waits_for_the_standby_even_if_it_changes_nothing(
    bench: SimBench, one: Client, statement: port.Statement
) -> None:
    one(append(row(A, 0)))
    bench.stall(True)
    pending = one.start(statement)
    assert pending.answer is None
    bench.stall(False)
    assert pending.answer is not None


def test_a_beat_waits_for_the_standby_and_a_page_does_not(bench: SimBench, one: Client, two: Client) -> None:
    incarnation = one(port.Register(1))
    bench.stall(True)
    assert one.start(port.Beat(1, incarnation)).answer is None
    assert two(port.Page(A, 5, 0, 0, 100)) == ()


def test_a_cancelled_wait_shows_and_says_so(bench: SimBench, one: Client, two: Client) -> None:
    bench.stall(True)
    pending = one.start(append(row(A, 0)))
    bench.cancel(one.number)
    assert pending.answer is not None and pending.answer.is_poisoned
    assert two.bases(A) == [0]
    again = two.start(append(row(A, 0)))
    assert again.answer is None, "it is there, and not yet durable"
    bench.stall(False)
    assert again.answer == Answer((Stored(A, 5, 1),))


def test_what_only_the_old_primary_has_is_gone_with_it(bench: SimBench, one: Client) -> None:
    one(append(row(A, 0)))
    bench.stall(True)
    one.start(append(row(A, 1)))
    bench.promote()
    promoted = Client(bench)
    assert promoted.bases(A) == [0]
    assert promoted(append(row(A, 1))) == (Stored(A, 5, 1),)


def test_an_old_primary_reads_and_does_not_commit(bench: SimBench, one: Client, two: Client) -> None:
    bench.promote()
    Client(bench)(claim(A))
    assert one.bases(A) == []
    assert one.start(barrier(A, 0)).answer is None
    assert two.start(port.ReadCatalog()).answer is None


def test_a_crash_frees_locks_and_keeps_commits(bench: SimBench, one: Client, two: Client) -> None:
    one(append(row(A, 0)))
    one.hold(append(row(A, 1)))
    bench.stall(True)
    two.start(append(row(B, 0)))
    bench.crash()
    bench.stall(False)
    after = Client(bench)
    assert (after.bases(A), after.bases(B)) == ([0], [0])
    assert after(claim(A, B)) == ((A, 6), (B, 6))
