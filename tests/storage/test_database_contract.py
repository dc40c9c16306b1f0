"""What the machines of a cluster rely on in a database: every implementation of the port passes here.

Where the simulated database and a real one differ, the simulated one is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.cluster.plan import LogRow
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer, Head, Refusal, Row, Stored
from tests.storage.simulated_database import Pending, SimBench

A, B, C, MISSING = 1, 2, 3, 99
HEAD = bytes(61)
LOCK_TIMEOUT_MS = 400


@pytest.fixture(params=[SimBench], ids=["simulated"])
def bench(request: pytest.FixtureRequest) -> SimBench:
    bench: SimBench = request.param([LogRow(log_id, 1, 1, 1, 5) for log_id in (A, B, C)], ("first",))
    return bench


class Client:
    """One connection, and its statements by their short names."""

    def __init__(self, bench: SimBench, role: str = "M", node: int = 1) -> None:
        self.bench = bench
        self.number = bench.session(role, node)

    def __call__(self, statement: port.Statement) -> Any:
        """The result of a statement that nothing keeps from ending."""
        answer = self.answer(statement)
        assert answer.refusal is None and not answer.is_poisoned
        return answer.result

    def answer(self, statement: port.Statement) -> Answer:
        pending = self.start(statement)
        assert pending.answer is not None, "it waits"
        return pending.answer

    def start(self, statement: port.Statement) -> Pending:
        return self.bench.start(self.number, statement)

    def hold(self, statement: port.Statement) -> Pending:
        pending = self.bench.hold(self.number, statement)
        assert pending.answer is None
        return pending

    def release(self) -> None:
        self.bench.release(self.number)

    def drop(self) -> None:
        self.bench.drop(self.number)

    def bases(self, log_id: int, epoch: int = 5) -> list[int] | None:
        """The base offsets of a log; None if the epoch is not this one."""
        rows = self(port.Page(log_id, epoch, 0, 1_000, 1 << 20))
        return None if rows is None else [row.base_offset for row in rows]


@pytest.fixture
def one(bench: SimBench) -> Client:
    return Client(bench)


@pytest.fixture
def two(bench: SimBench) -> Client:
    return Client(bench)


def row(log_id: int, base: int, count: int = 1, epoch: int = 5, body: bytes = b"body") -> Row:
    return Row(log_id, base, base + count - 1, epoch, 0, HEAD, body)


def append(*rows: Row, epoch: int = 5) -> port.Append:
    """An append of rows that follow each other in each log."""
    first = {one.log_id: one.base_offset for one in reversed(rows)}
    return port.Append(tuple(Head(log_id, epoch, base) for log_id, base in sorted(first.items())), rows)


def barrier(log_id: int, base: int, epoch: int = 5) -> port.Append:
    return port.Append((Head(log_id, epoch, base),), ())


def claim(*log_ids: int, epoch: int = 5, node: int = 2, skips: bool = True, sign: Any = None) -> port.Claim:
    return port.Claim(tuple((log_id, epoch) for log_id in log_ids), node, 7, sign, skips)


# The fence


def test_an_append_under_the_present_epoch_is_stored(one: Client) -> None:
    assert one(append(row(A, 0, 3), row(A, 3))) == (Stored(A, 5, 0),)
    assert one.bases(A) == [0, 3]


@pytest.mark.parametrize("epoch", [4, 6])
def test_an_append_under_another_epoch_is_not(one: Client, epoch: int) -> None:
    assert one(append(row(A, 0, epoch=epoch), epoch=epoch)) == (Stored(A, 5, 0),)
    assert one.bases(A) == []


def test_one_log_of_a_statement_is_fenced_and_the_others_are_not(one: Client) -> None:
    one(claim(B))
    assert one(append(row(A, 0), row(B, 0), row(C, 0))) == (Stored(A, 5, 0), Stored(B, 6, 0), Stored(C, 5, 0))
    assert (one.bases(A), one.bases(B, 6), one.bases(C)) == ([0], [], [0])


def test_a_log_that_is_not_there_has_no_row_in_the_answer(one: Client) -> None:
    assert one(append(row(A, 0), row(MISSING, 0))) == (Stored(A, 5, 0),)
    assert one.bases(A) == [0]


def test_a_barrier_says_the_epoch_and_the_end(one: Client) -> None:
    one(append(row(A, 0, 2)))
    assert one(barrier(A, 2)) == (Stored(A, 5, 2),)
    one(claim(A))
    assert one(barrier(A, 2)) == (Stored(A, 6, 2),)


def test_an_append_waits_for_a_claim_and_is_fenced_by_it(one: Client, two: Client) -> None:
    one.hold(claim(A))
    pending = two.start(append(row(A, 0)))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result == (Stored(A, 6, 0),)
    assert two.bases(A, 6) == []


def test_an_append_goes_on_if_the_claim_for_which_it_waited_is_undone(one: Client, two: Client) -> None:
    one.hold(claim(A))
    pending = two.start(append(row(A, 0)))
    one.drop()
    assert pending.answer is not None and pending.answer.result == (Stored(A, 5, 0),)
    assert two.bases(A) == [0]


def test_appends_do_not_wait_for_each_other(one: Client, two: Client) -> None:
    one.hold(append(row(A, 0), row(B, 0)))
    assert two(append(row(C, 0))) == (Stored(C, 5, 0),)
    assert two(barrier(A, 0)) == (Stored(A, 5, 0),)


def test_a_new_append_overtakes_a_claim_that_waits(bench: SimBench, one: Client, two: Client) -> None:
    """Share locks are given past an update that waits: nothing here may rely on a claim being next."""
    one.hold(append(row(A, 0)))
    claimed = two.start(claim(A, skips=False))
    assert claimed.answer is None
    assert Client(bench)(barrier(A, 0)) == (Stored(A, 5, 0),)
    one.release()
    assert claimed.answer is not None and claimed.answer.result == ((A, 6),)


# Continuation


@pytest.mark.parametrize("base", [0, 2, 4, 9])
def test_rows_are_stored_only_at_the_end(one: Client, base: int) -> None:
    one(append(row(A, 0, 3)))
    assert one(append(row(A, base))) == (Stored(A, 5, 3),)
    assert one.bases(A) == [0]


def test_an_empty_log_ends_where_it_begins(one: Client) -> None:
    one(append(row(A, 0, 4)))
    assert one(port.Trim(A, 5, 4)) and one(port.Sweep(A)) == 1
    assert one.bases(A) == []
    assert one(append(row(A, 0))) == (Stored(A, 5, 4),)
    assert one(append(row(A, 4))) == (Stored(A, 5, 4),)
    assert one.bases(A) == [4]


def test_a_copy_that_looked_early_below_the_start_does_not_move_the_end(bench: SimBench, one: Client) -> None:
    trim, copy = Client(bench), Client(bench)
    one(append(row(C, 0)))
    trim.hold(port.Trim(A, 5, 0))
    pending = copy.start(append(row(A, 0), row(C, 1)))
    one(append(row(C, 1)))
    one(append(row(C, 2)))
    assert one(port.Trim(C, 5, 3)) and one(port.Sweep(C)) == 3
    trim.release()
    assert pending.answer is not None and pending.answer.result == (Stored(A, 5, 0), Stored(C, 5, 3))
    assert one.bases(C) == []
    assert one(append(row(C, 3))) == (Stored(C, 5, 3),)


def test_one_log_of_a_statement_does_not_continue_and_the_others_do(one: Client) -> None:
    assert one(append(row(A, 1), row(B, 0))) == (Stored(A, 5, 0), Stored(B, 5, 0))
    assert (one.bases(A), one.bases(B)) == ([], [0])


# The same rows again


def test_the_same_rows_again_change_nothing(one: Client) -> None:
    again = append(row(A, 0, 2), row(A, 2), row(B, 0))
    one(again)
    assert one(again) == (Stored(A, 5, 3), Stored(B, 5, 1))
    assert (one.bases(A), one.bases(B)) == ([0, 2], [0])


def test_who_sends_again_waits_for_the_straggler_and_hears_of_a_rival(one: Client, two: Client) -> None:
    same = append(row(A, 0), row(A, 1))
    one.hold(same)
    pending = two.start(same)
    assert pending.answer is None
    one.release()
    assert pending.answer == Answer(refusal=Refusal.UNIQUE_VIOLATION)
    assert two(same) == (Stored(A, 5, 2),)
    assert two.bases(A) == [0, 1]


def test_who_sends_again_wins_if_the_straggler_is_undone(one: Client, two: Client) -> None:
    same = append(row(A, 0))
    one.hold(same)
    pending = two.start(same)
    one.drop()
    assert pending.answer is not None and pending.answer.result == (Stored(A, 5, 0),)
    assert two.bases(A) == [0]


def test_a_refused_statement_leaves_nothing(one: Client, two: Client) -> None:
    one.hold(append(row(B, 0)))
    pending = two.start(append(row(A, 0), row(B, 0)))
    one.release()
    assert pending.answer == Answer(refusal=Refusal.UNIQUE_VIOLATION)
    assert (two.bases(A), two.bases(B)) == ([], [0])
    assert two(barrier(A, 0)) == (Stored(A, 5, 0),), "its session goes on, and its locks are gone"


def test_a_straggler_that_comes_later_finds_another_end(one: Client) -> None:
    one(append(row(A, 0)))
    one(append(row(A, 1)))
    assert one(append(row(A, 0))) == (Stored(A, 5, 2),)
    assert one.bases(A) == [0, 1]


def test_a_straggler_under_an_old_epoch_is_fenced_even_at_the_end(one: Client) -> None:
    one(claim(A))
    assert one(append(row(A, 0))) == (Stored(A, 6, 0),)
    assert one.bases(A, 6) == []


def early_copy(bench: SimBench, one: Client) -> tuple[Client, Pending]:
    """A copy of the first append to log B looks at it, and waits for the lock of another. Then two are appended."""
    trim, copy = Client(bench), Client(bench)
    trim.hold(port.Trim(A, 5, 0))
    pending = copy.start(append(row(A, 0), row(B, 0)))
    one(append(row(B, 0)))
    one(append(row(B, 1)))
    return trim, pending


def test_the_end_that_a_statement_sees_is_as_old_as_its_snapshot(bench: SimBench, one: Client) -> None:
    """So its key alone keeps out a copy that looked early, and compaction may have taken the key."""
    trim, pending = early_copy(bench, one)
    trim.release()
    assert pending.answer == Answer(refusal=Refusal.UNIQUE_VIOLATION)


def test_a_seal_keeps_out_a_copy_that_looked_early(bench: SimBench, one: Client) -> None:
    trim, pending = early_copy(bench, one)
    assert one(port.Seal(B, 5, 1)) and one(port.Replace(B, 5, 0, 1, 1, ()))
    trim.release()
    assert pending.answer is not None and pending.answer.result == (Stored(A, 5, 0), Stored(B, 5, 1))
    assert one.bases(B) == [1]
    assert one(append(row(B, 2))) == (Stored(B, 5, 2),)


def test_a_seal_waits_for_a_copy_that_has_the_lock(one: Client, two: Client) -> None:
    one.hold(append(row(B, 0)))
    pending = two.start(port.Seal(B, 5, 1))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result


# Claims


def test_a_claim_raises_the_epoch_and_names_the_leader(one: Client) -> None:
    assert one(claim(A, B)) == ((A, 6), (B, 6))
    logs = {log.log_id: log for log in one(port.ReadLogs())}
    assert (logs[A].leader_id, logs[A].leader_incarnation, logs[A].epoch) == (2, 7, 6)
    assert logs[C].epoch == 5


@pytest.mark.parametrize("epoch", [4, 6])
def test_a_claim_of_another_epoch_gets_nothing(one: Client, epoch: int) -> None:
    assert one(claim(A, epoch=epoch)) == ()


def test_of_two_claims_one_is_lost(one: Client, two: Client) -> None:
    one.hold(claim(A, node=2))
    pending = two.start(claim(A, node=3, skips=False))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result == ()


def test_a_claim_passes_over_what_is_held(one: Client, two: Client) -> None:
    one.hold(append(row(B, 0)))
    assert two(claim(A, B, C)) == ((A, 6), (C, 6))


def test_a_claim_that_waits_too_long_says_so(bench: SimBench, one: Client, two: Client) -> None:
    one.hold(append(row(A, 0)))
    pending = two.start(claim(A, skips=False))
    assert pending.answer is None
    bench.settle(LOCK_TIMEOUT_MS)
    assert pending.answer == Answer(refusal=Refusal.LOCK_NOT_AVAILABLE)


def test_who_holds_a_log_is_evicted_and_leaves_no_row(bench: SimBench, one: Client, two: Client) -> None:
    one.hold(append(row(A, 0)))
    pending = two.start(claim(A, skips=False))
    assert Client(bench)(port.Evict(two.number)) == 1
    bench.settle(100)
    assert pending.answer is not None and pending.answer.result == ((A, 6),)
    assert two.bases(A, 6) == []


def test_nobody_is_evicted_where_nobody_waits(one: Client, two: Client) -> None:
    one.hold(append(row(A, 0)))
    assert two(port.Evict(two.number)) == 0
    one.release()
    assert two.bases(A) == [0]


def test_what_was_appended_before_a_claim_is_seen_by_its_loader(one: Client, two: Client) -> None:
    one.hold(append(row(A, 0)))
    pending = two.start(claim(A, skips=False))
    one.release()
    assert pending.answer is not None and pending.answer.result == ((A, 6),)
    assert two(port.Load(A, 6)).end_offset == 1


def test_a_claim_with_a_last_sign_of_life(one: Client) -> None:
    incarnation = one(port.Register(1))
    one(port.Beat(1, incarnation))
    for sign in [(1, incarnation, 0), (1, incarnation + 1, 1), (8, incarnation, 1)]:
        assert one(claim(A, sign=sign)) == ()
    assert one(claim(A, sign=(1, incarnation, 1))) == ((A, 6),)


def test_a_claim_with_a_last_sign_waits_for_a_beat_and_then_gets_nothing(one: Client, two: Client) -> None:
    incarnation = one(port.Register(1))
    one.hold(port.Beat(1, incarnation))
    pending = two.start(claim(A, sign=(1, incarnation, 0)))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result == ()


def test_a_beat_waits_for_a_claim_with_its_last_sign(one: Client, two: Client) -> None:
    """So a leader whose beat is answered after such a claim reads of the claim."""
    incarnation = one(port.Register(1))
    one.hold(claim(A, sign=(1, incarnation, 0)))
    pending = two.start(port.Beat(1, incarnation))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result.is_mine
    assert {log.log_id: log.epoch for log in two(port.ReadLogs())}[A] == 6


def test_logs_are_handed_over_by_their_epochs(one: Client) -> None:
    assert one(port.HandOver(((A, 5), (B, 4)), 3, 9)) == ((A, 6),)
    logs = {log.log_id: log for log in one(port.ReadLogs())}
    assert (logs[A].leader_id, logs[A].leader_incarnation, logs[A].epoch, logs[B].epoch) == (3, 9, 6, 5)
    assert one(port.HandOver(((A, 5),), 4, 9)) == ()


def test_a_hand_over_waits_for_an_append(one: Client, two: Client) -> None:
    one.hold(append(row(A, 0)))
    pending = two.start(port.HandOver(((A, 5),), 3, 9))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result == ((A, 6),)
    assert two.bases(A, 6) == [0]


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


def test_a_load_of_an_empty_log(one: Client) -> None:
    loaded = one(port.Load(A, 5))
    assert (loaded.start_offset, loaded.end_offset, tuple(loaded.rows), loaded.epochs) == (0, 0, (), {})


STALE = [
    port.Load(A, 4),
    port.BeginEpoch(A, 4, 0),
    port.SaveSnapshot(A, 4, 0, "state"),
    port.Trim(A, 4, 1),
    port.Seal(A, 4, 1),
    port.Replace(A, 4, 0, 1, 1, ()),
    port.Page(A, 4, 0, 10, 1_000),
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
        (0, 9, 1 << 20, [0, 3, 4]),
        (2, 9, 1 << 20, [0, 3, 4]),
        (3, 9, 1 << 20, [3, 4]),
        (3, 4, 1 << 20, [3]),
        (0, 9, 1, [0]),
        (0, 9, 130, [0, 3]),
        (6, 9, 1 << 20, [4]),
    ],
)
def test_pages(one: Client, start: int, upto: int, most: int, bases: list[int]) -> None:
    one(append(row(A, 0, 3), row(A, 3), row(A, 4, 4)))
    assert [one.base_offset for one in one(port.Page(A, 5, start, upto, most))] == bases


def test_no_rows_and_another_epoch_differ(one: Client) -> None:
    assert one(port.Page(A, 5, 0, 10, 100)) == ()
    assert one(port.Page(A, 6, 0, 10, 100)) is None


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


def test_compaction_changes_nothing_where_there_is_something_else(one: Client) -> None:
    one(append(row(A, 0), row(A, 1), row(A, 2)))
    one(port.Seal(A, 5, 2))
    assert not one(port.Replace(A, 5, 0, 2, 3, ()))
    assert one.bases(A) == [0, 1, 2]


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
    assert one(port.ReadCatalog()) == (1, ("first",))
    assert one(port.StoreCatalog(1, ("second",))) == 2
    assert one(port.StoreCatalog(1, ("third",))) is None
    assert one(port.ReadCatalog()) == (2, ("second",))


def test_of_two_changes_at_once_one_is_outdated(one: Client, two: Client) -> None:
    one.hold(port.StoreCatalog(1, ("one",)))
    pending = two.start(port.StoreCatalog(1, ("two",)))
    assert pending.answer is None
    one.release()
    assert pending.answer is not None and pending.answer.result is None
    assert two(port.ReadCatalog()) == (2, ("one",))


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
    pending = two.start(port.StoreCatalog(1, ("x",), homes=((A, 2),)))
    bench.settle(LOCK_TIMEOUT_MS)
    assert pending.answer == Answer(refusal=Refusal.LOCK_NOT_AVAILABLE)
    assert two(port.StoreCatalog(1, ("y",))) == 2


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
    assert two(port.Page(A, 5, 0, 10, 100)) == ()


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
