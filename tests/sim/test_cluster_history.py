"""The checker of cluster histories is tried itself: anomalies that were made up are named, and clean histories pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim.cluster.history import Batch, Begun, Change, History, Inserted, Led, Read, Removed, Started, Told, Viewed
from tests.sim.kernel import Violation

DATA, TABLE = 7, 0


def batch(base: int, name: str = "p", number: int | None = None, *, count: int = 1, log_id: int = DATA) -> Batch:
    return Batch(log_id, base, base + count - 1, name, base if number is None else number)


def led(log_id: int, epoch: int, node_id: int = 1) -> list[Change]:
    """A node gets an epoch and notes it."""
    return [Led(log_id, epoch, node_id, 10 * node_id), Begun(log_id, epoch, 0)]


def stored(*batches: Batch, epoch: int = 1) -> list[Change]:
    return [Inserted(one, epoch) for one in batches]


def history(*changes: list[Change]) -> History:
    """Both logs are led under epoch 1 from the beginning."""
    begin = [*led(DATA, 1), *led(TABLE, 1)]
    return History(changes=begin + [one for some in changes for one in some], compacted=frozenset((TABLE,)))


def commit(value: int, base: int, name: str = "g") -> Batch:
    return batch(base, name, value, log_id=TABLE)


def told(value: int, began: int, at: int, name: str = "g", log_id: int = TABLE) -> Told:
    return Told(log_id, name, value, began, at)


def shown(offset: int, one: Batch, high_watermark: int = 100) -> Read:
    return Read(offset, one, high_watermark)


Made = Callable[[], History]
ANOMALIES: list[tuple[str, str, Made]] = []
CLEAN: list[tuple[str, Made]] = []


def anomaly(rule: str) -> Callable[[Made], Made]:
    def keep(made: Made) -> Made:
        ANOMALIES.append((made.__name__, rule, made))
        return made

    return keep


def clean(made: Made) -> Made:
    CLEAN.append((made.__name__, made))
    return made


# Appends


@anomaly("lost write")
def acknowledged_and_never_stored() -> History:
    made = history(stored(batch(0)))
    made.acked = [(1, batch(0)), (2, batch(1))]
    return made


@anomaly("lost write")
def acknowledged_and_deleted_above_the_start() -> History:
    made = history(stored(batch(0, count=3), batch(3)), [Started(DATA, 2), Removed(DATA, 0)])
    made.acked = [(1, batch(0, count=3))]
    return made


@anomaly("inconsistent offset")
def two_records_were_given_one_offset() -> History:
    made = history(stored(batch(0)))
    made.acked = [(1, batch(0)), (2, batch(0, "q"))]
    return made


@anomaly("duplicate")
def a_retry_was_stored_twice() -> History:
    return history(stored(batch(0, number=0), batch(1, number=1), batch(2, number=1)))


@anomaly("overlap")
def a_stale_leader_wrote_over_others() -> History:
    return history(stored(batch(0, count=4)), stored(batch(2, "q")))


@anomaly("overlap")
def a_straggler_came_back_after_compaction() -> History:
    return history(stored(commit(1, 0), commit(2, 1)), [Removed(TABLE, 0)], stored(commit(1, 0)))


@anomaly("gap")
def offsets_were_left_out() -> History:
    return history(stored(batch(0), batch(2)))


@anomaly("gap")
def a_log_does_not_begin_at_its_start() -> History:
    return history(stored(batch(5)))


@anomaly("falling epoch")
def an_old_leader_appended_after_a_new_one() -> History:
    return history(stored(batch(0)), led(DATA, 2), stored(batch(1), epoch=2), stored(batch(2), epoch=1))


@anomaly("unnoted epoch")
def a_leader_appended_before_it_noted_its_epoch() -> History:
    return history([Led(DATA, 2, 1, 10)], stored(batch(0), epoch=2), [Begun(DATA, 2, 0)])


@anomaly("two leaders of an epoch")
def an_epoch_was_given_twice() -> History:
    return history(led(DATA, 2, 1), led(DATA, 2, 2))


@anomaly("failure that was none")
def a_failure_was_told_and_the_record_is_there() -> History:
    made = history(stored(batch(0)))
    made.failed = [("p", 0)]
    return made


# Reads


@anomaly("shown and gone")
def a_reader_saw_what_was_not_durable() -> History:
    made = history(stored(batch(0)))
    made.reads = [shown(0, batch(0)), shown(1, batch(1))]
    return made


@anomaly("shown too early")
def a_reader_saw_what_lies_above_the_high_watermark() -> History:
    made = history(stored(batch(0, count=2)))
    made.reads = [shown(0, batch(0, count=2), 1)]
    return made


@anomaly("inconsistent offset")
def a_reader_saw_something_else_at_an_offset() -> History:
    made = history(stored(batch(0)))
    made.reads = [shown(0, batch(0, "q"))]
    return made


@anomaly("skipped")
def a_reader_was_led_past_a_record() -> History:
    made = history(stored(batch(0), batch(1), batch(2)))
    made.reads = [shown(0, batch(0)), shown(1, batch(2))]
    return made


@anomaly("skipped")
def a_reader_was_led_past_the_rest_of_a_batch() -> History:
    made = history(stored(batch(0, count=4), batch(4)))
    made.reads = [shown(2, batch(4))]
    return made


@anomaly("skipped")
def a_reader_was_shown_nothing_where_there_is_something() -> History:
    made = history(stored(batch(0)))
    made.holes = ["log 7 at 0, below 1"]
    return made


@anomaly("stale end")
def an_end_was_told_by_somebody_who_does_not_lead_any_more() -> History:
    made = history(stored(batch(0), batch(1)))
    made.acked = [(1, batch(0)), (2, batch(1))]
    made.ends = [told(1, 3, 4, log_id=DATA)]
    return made


# Commits


@anomaly("lost write")
def a_commit_was_acknowledged_and_is_nowhere() -> History:
    made = history(stored(commit(1, 0)))
    made.commits = [told(2, 1, 2)]
    return made


@anomaly("lost write")
def the_last_commit_was_compacted_away() -> History:
    made = history(stored(commit(1, 0), commit(2, 1), commit(9, 2, "other")), [Removed(TABLE, 1)])
    made.commits = [told(2, 1, 2)]
    return made


@anomaly("stale commit")
def a_fetch_forgot_an_acknowledged_commit() -> History:
    made = history(stored(commit(1, 0), commit(2, 1)))
    made.commits = [told(1, 1, 2), told(2, 3, 4)]
    made.fetches = [told(1, 5, 6)]
    return made


@anomaly("shown and gone")
def a_fetch_told_a_commit_that_was_lost() -> History:
    made = history(stored(commit(1, 0)))
    made.fetches = [told(2, 1, 2)]
    return made


# Views


@anomaly("view goes back")
def a_node_told_an_older_epoch_than_before() -> History:
    made = history()
    made.views = [Viewed("c", (1, 10), DATA, 4), Viewed("c", (1, 10), DATA, 3)]
    return made


@anomaly("ids given twice")
def two_nodes_got_the_same_producer_ids() -> History:
    made = history()
    made.id_blocks = [0, 10, 20, 10]
    return made


@anomaly("lost topic")
def a_topic_that_was_created_is_gone() -> History:
    made = history()
    made.topics_created = [(1, "t")]
    return made


@anomaly("topic denied")
def a_topic_that_was_created_was_denied() -> History:
    made = history()
    made.topics, made.topics_created, made.topics_denied = {"t"}, [(1, "t")], [(2, "t")]
    return made


@anomaly("taken under a lease")
def a_log_was_taken_from_a_leader_that_may_answer() -> History:
    made = history()
    made.usurped = ["log 7"]
    return made


@anomaly("handed over unsettled")
def a_log_was_handed_over_while_appends_were_open() -> History:
    made = history()
    made.cut_short = ["log 7"]
    return made


@anomaly("stuck")
def somebody_does_not_get_on() -> History:
    made = history()
    made.stuck = ["p at log 7"]
    return made


# Clean ones


@clean
def nothing_happened() -> History:
    return history()


@clean
def everything_is_there() -> History:
    made = history(stored(batch(0, count=2), batch(2)))
    made.acked = [(1, batch(0, count=2)), (2, batch(2))]
    return made


@clean
def an_unknown_outcome_that_is_there() -> History:
    return history(stored(batch(0), batch(1)))


@clean
def an_unknown_outcome_that_is_not() -> History:
    made = history(stored(batch(0)))
    made.acked = [(1, batch(0))]
    return made


@clean
def a_failure_and_then_a_success_elsewhere() -> History:
    made = history(stored(batch(0, number=1)))
    made.failed = [("p", 0)]
    return made


@clean
def leaders_change() -> History:
    return history(
        stored(batch(0)), led(DATA, 2, 2), stored(batch(1), epoch=2), led(DATA, 3), stored(batch(2), epoch=3)
    )


@clean
def an_epoch_without_records() -> History:
    return history(led(DATA, 2, 2), led(DATA, 3, 1), stored(batch(0), epoch=3))


@clean
def an_epoch_that_was_claimed_and_never_noted() -> History:
    return history([Led(DATA, 2, 2, 20)], led(DATA, 3, 1), stored(batch(0), epoch=3))


@clean
def a_leader_noted_its_epoch_twice() -> History:
    return history(led(DATA, 2), [Begun(DATA, 2, 0)], stored(batch(0), epoch=2))


@clean
def retention_removed_what_was_acknowledged() -> History:
    made = history(stored(batch(0), batch(1), batch(2)), [Started(DATA, 2), Removed(DATA, 0), Removed(DATA, 1)])
    made.acked = [(1, batch(0)), (2, batch(1)), (3, batch(2))]
    return made


@clean
def retention_ends_within_a_batch() -> History:
    made = history(stored(batch(0, count=5), batch(5)), [Started(DATA, 3)])
    made.reads = [shown(3, batch(0, count=5)), shown(5, batch(5))]
    return made


@clean
def a_copy_came_back_below_the_start() -> History:
    return history(stored(batch(0), batch(1)), [Started(DATA, 1), Removed(DATA, 0)], stored(batch(0)))


@clean
def compaction_removed_older_values() -> History:
    made = history(stored(commit(1, 0), commit(2, 1), commit(3, 2)), [Removed(TABLE, 0), Removed(TABLE, 1)])
    made.commits = [told(1, 1, 2), told(2, 3, 4), told(3, 5, 6)]
    return made


@clean
def compaction_removed_what_passes() -> History:
    made = history(stored(commit(1, 0, "x0"), commit(1, 1)), [Removed(TABLE, 0)])
    made.acked = [(1, commit(1, 0, "x0"))]
    return made


@clean
def a_reader_is_led_over_what_compaction_removed() -> History:
    made = history(stored(commit(1, 0), commit(2, 1), commit(3, 2)), [Removed(TABLE, 0), Removed(TABLE, 1)])
    made.reads = [shown(0, commit(3, 2))]
    return made


@clean
def a_group_commits_the_same_value_twice() -> History:
    made = history(stored(commit(1, 0), commit(1, 1), commit(2, 2)))
    made.commits = [told(1, 1, 2), told(2, 3, 4)]
    return made


@clean
def a_fetch_beside_a_commit_sees_it() -> History:
    made = history(stored(commit(1, 0), commit(2, 1)))
    made.commits = [told(1, 1, 2), told(2, 3, 6)]
    made.fetches = [told(2, 4, 5)]
    return made


@clean
def a_fetch_beside_a_commit_does_not_see_it() -> History:
    made = history(stored(commit(1, 0), commit(2, 1)))
    made.commits = [told(1, 1, 2), told(2, 3, 6)]
    made.fetches = [told(1, 4, 7)]
    return made


@clean
def a_fetch_sees_a_commit_of_which_nobody_heard() -> History:
    made = history(stored(commit(1, 0), commit(2, 1)))
    made.commits = [told(1, 1, 2)]
    made.fetches = [told(2, 3, 4)]
    return made


@clean
def a_fetch_before_anything_was_committed() -> History:
    made = history(stored(commit(1, 0)))
    made.commits = [told(1, 3, 4)]
    made.fetches = [told(-1, 1, 5)]
    return made


@clean
def an_end_beside_an_append() -> History:
    made = history(stored(batch(0), batch(1)))
    made.acked = [(1, batch(0)), (4, batch(1))]
    made.ends = [told(1, 3, 5, log_id=DATA), told(2, 3, 6, log_id=DATA)]
    return made


@clean
def a_reader_begins_within_a_batch() -> History:
    made = history(stored(batch(0, count=4), batch(4)))
    made.reads = [shown(2, batch(0, count=4)), shown(4, batch(4))]
    return made


@clean
def another_node_or_life_or_client_knows_less() -> History:
    made = history()
    lives = [("c", (1, 10)), ("c", (2, 20)), ("c", (1, 11)), ("d", (1, 10))]
    made.views = [Viewed(client, life, DATA, 9 - index) for index, (client, life) in enumerate(lives)]
    return made


@clean
def a_topic_was_denied_before_it_was_created() -> History:
    made = history()
    made.topics, made.topics_created, made.topics_denied = {"t"}, [(5, "t")], [(2, "t")]
    return made


@clean
def logs_are_apart() -> History:
    other = [batch(0, "q", 0, log_id=8), batch(1, "q", 1, log_id=8)]
    made = history(led(8, 4), stored(*other, epoch=4), stored(batch(0)))
    made.acked = [(1, other[0]), (2, batch(0))]
    return made


@pytest.mark.parametrize(("rule", "made"), [pytest.param(rule, made, id=name) for name, rule, made in ANOMALIES])
def test_an_anomaly_is_named(rule: str, made: Made) -> None:
    assert {found for found, _ in made().anomalies()} == {rule}
    with pytest.raises(Violation, match=rule):
        made().check()


@pytest.mark.parametrize("made", [pytest.param(made, id=name) for name, made in CLEAN])
def test_a_clean_history_passes(made: Made) -> None:
    assert list(made().anomalies()) == []


def test_there_are_enough_of_both() -> None:
    assert len(ANOMALIES) >= 25 and len(CLEAN) >= 25
