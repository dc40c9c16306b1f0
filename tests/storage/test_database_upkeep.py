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


def test_a_load_has_everything_from_the_snapshot_on(one: Client) -> None:
    assert one(port.BeginEpoch(A, 5, 0))
    one(append(row(A, 0, 2), row(A, 2)))
    assert one(port.SaveSnapshot(A, 5, 2, "state"))
    one(append(row(A, 3, 4)))
    loaded = one(port.Load(A, 5))
    assert (loaded.start_offset, loaded.snapshot_offset, loaded.snapshot, loaded.end_offset) == (0, 2, "state", 7)
    assert [one.base_offset for one in loaded.rows] == [2, 3]
    assert loaded.epochs == {5: 0}


def test_a_snapshot_that_comes_late_does_not_replace_a_newer_one(one: Client) -> None:
    one(append(row(A, 0, 3)))
    assert one(port.SaveSnapshot(A, 5, 3, "newer"))
    assert one(port.SaveSnapshot(A, 5, 1, "older"))
    assert (one(port.Load(A, 5)).snapshot_offset, one(port.Load(A, 5)).snapshot) == (3, "newer")
    assert one(port.SaveSnapshot(A, 5, 3, "the same rows"))
    assert one(port.Load(A, 5)).snapshot == "the same rows"


def test_a_load_of_an_empty_log(one: Client) -> None:
    loaded = one(port.Load(A, 5))
    assert (loaded.start_offset, loaded.end_offset, tuple(loaded.rows), loaded.epochs) == (0, 0, (), {})


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


def test_a_beat_counts_and_tells_of_others(bench: SimBench, one: Client) -> None:
    mine, other = one(port.Register(1)), one(port.Register(2))
    one(port.Beat(1, mine))
    heard = one(port.Beat(2, other))
    assert heard.is_mine and heard.version == 1 and heard.fingerprint == (3, 15)
    assert {(node.node_id, node.incarnation, node.beat) for node in heard.nodes} == {(1, mine, 1), (2, other, 0)}
    one(claim(A))
    assert one(port.Beat(2, other)).fingerprint == (3, 16)


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
