"""What the machines of a cluster rely on in a database: appends, their copies, and claims.

Every implementation of the port passes here. Where the simulated database and a real one differ, the simulated one is
wrong.
"""

from __future__ import annotations

import pytest

from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer, Refusal, Stored
from tests.storage.database_clients import LOCK_TIMEOUT_MS, MISSING, A, B, C, Client, append, barrier, claim, row
from tests.storage.simulated_database import Pending, SimBench

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
    other = Client(bench)
    one.hold(append(row(A, 0)))
    pending = two.start(claim(A, skips=False))
    assert other(port.Evict(two.number)) == 1
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
