"""Fetch sessions: what they remember, what they leave out, and who loses its slot to whom."""

import itertools
from uuid import UUID

import pytest

from ottla.broker.core import fetch_sessions
from ottla.broker.core.fetch_sessions import (
    EVICTION_MS,
    NO_SESSION,
    AskedPartition,
    FetchSession,
    FetchSessions,
    next_epoch,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import EpochEndOffset, FetchPartition, PartitionData

ALICE = "User:alice"


def asked(*keys, offset=0):
    rows = {}
    for topic, index in keys:
        rows[topic, index] = AskedPartition(topic, str(topic), FetchPartition(partition=index, fetch_offset=offset))
    return rows


def rows_of(partitions, **answers):
    return [(item, PartitionData(partition_index=index, **({"high_watermark": 5, "log_start_offset": 0} | answers)))
            for (_, index), item in partitions.items()]  # fmt: skip


def of_size(size):
    return rows_of(asked(*(("t", index) for index in range(size))))


class Cache:
    """A cache under a clock by hand."""

    def __init__(self, slots=2):
        ids = itertools.count(1)
        self.sessions = FetchSessions(slots, lambda: next(ids))
        self.now_ms = 1_000_000

    def create(self, size=1, by_id=False):
        return self.sessions.create(of_size(size), by_id=by_id, principal=ALICE, now_ms=self.now_ms)

    def resume(self, session_id, epoch, *keys, forgotten=(), by_id=False, offset=0, principal=ALICE):
        return self.sessions.resume(
            session_id,
            epoch,
            asked(*keys, offset=offset),
            forgotten,
            by_id=by_id,
            principal=principal,
            now_ms=self.now_ms,
        )


@pytest.fixture
def cache():
    return Cache()


# -- epochs


def test_epochs_count_up_from_1_and_begin_again():
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 1, 1]


def test_a_session_goes_on_epoch_by_epoch(cache):
    session_id = cache.create()
    for epoch in (1, 2, 3):
        session = cache.resume(session_id, epoch)
        assert (session.id, session.epoch) == (session_id, epoch + 1)
    for epoch in (3, 5, -2):
        assert cache.resume(session_id, epoch) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resume(session_id, 4).epoch == 5  # an error leaves it as it was


def test_sessions_that_are_not_there(cache):
    assert cache.resume(7, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session_id = cache.create()
    cache.sessions.close(session_id, ALICE)
    cache.sessions.close(session_id, ALICE)
    assert cache.resume(session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache.sessions), cache.sessions.partitions) == (0, 0)


def test_a_session_is_there_for_its_principal_alone(cache):
    session_id = cache.create()
    assert cache.resume(session_id, 1, principal="User:bob") is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    cache.sessions.close(session_id, "User:bob")
    assert cache.resume(session_id, 1).epoch == 2


@pytest.mark.parametrize("by_id", [False, True])
def test_names_and_ids_do_not_mix(cache, by_id):
    session_id = cache.create(by_id=by_id)
    assert cache.resume(session_id, 1, by_id=not by_id) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert cache.resume(session_id, 1, by_id=by_id).epoch == 2


def test_ids_are_never_given_twice():
    ids = iter([3, 3, 0, 4])
    sessions = FetchSessions(9, lambda: next(ids))
    assert [sessions.create(of_size(1), by_id=False, principal=ALICE, now_ms=0) for _ in range(2)] == [3, 4]


# -- what a session reads


def test_a_request_adds_changes_and_forgets(cache):
    session_id = cache.create(size=3)
    session = cache.resume(session_id, 1, ("t", 1), ("u", 0), forgotten=[("t", 0), ("x", 9)], offset=7)
    found = {key: item.want.fetch_offset for key, item in session.partitions.items()}
    assert list(found.items()) == [(("t", 1), 7), (("t", 2), 0), (("u", 0), 7)]
    assert cache.sessions.partitions == 3


def test_what_is_added_and_forgotten_at_once_is_forgotten(cache):
    session = cache.resume(cache.create(), 1, ("u", 0), forgotten=[("u", 0)])
    assert list(session.partitions) == [("t", 0)]


def test_a_session_of_nothing_is_closed(cache):
    session_id = cache.create()
    assert cache.resume(session_id, 1, forgotten=[("t", 0)]) is None
    assert cache.resume(session_id, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_topics_are_known_by_their_ids_alone(cache):
    one, other = UUID(int=1), UUID(int=2)
    rows = rows_of({(one, 0): AskedPartition(one, None, FetchPartition(partition=0))})
    session_id = cache.sessions.create(rows, by_id=True, principal=ALICE, now_ms=0)
    session = cache.resume(session_id, 1, (UUID(int=1), 0), (other, 0), by_id=True, offset=4)
    assert [item.want.fetch_offset for item in session.partitions.values()] == [4, 4]


# -- what a session tells


def session_of(*indexes):
    partitions = asked(*(("t", index) for index in indexes))
    session = FetchSession(1, partitions, by_id=False, principal=ALICE, now_ms=0)
    session.changed(rows_of(partitions))
    return session


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({}, False),
        ({"records": b"x"}, True),
        ({"high_watermark": 6}, True),
        ({"log_start_offset": 1}, True),
        ({"last_stable_offset": 4}, False),
        ({"error_code": 1}, True),
        ({"preferred_read_replica": 2}, True),
        ({"diverging_epoch": EpochEndOffset(epoch=0, end_offset=0)}, True),
    ],
)
def test_a_partition_is_told_when_it_changed(answers, told):
    session = session_of(0)
    assert bool(session.changed(rows_of(session.partitions, **answers))) is told


def test_a_change_is_told_once():
    session = session_of(0)
    for answers in ({"high_watermark": 6}, {"high_watermark": 6, "log_start_offset": 3}):
        assert session.changed(rows_of(session.partitions, **answers))
        assert not session.changed(rows_of(session.partitions, **answers))


def test_an_error_is_told_each_time_and_so_is_its_end():
    session = session_of(0)
    error = {"error_code": 3, "high_watermark": -1, "log_start_offset": -1}
    assert session.changed(rows_of(session.partitions, **error))
    assert session.changed(rows_of(session.partitions, **error))
    assert session.changed(rows_of(session.partitions))
    assert not session.changed(rows_of(session.partitions))


def test_the_end_of_an_error_that_showed_offsets_is_told_too():
    session = session_of(0)
    assert session.changed(rows_of(session.partitions, error_code=74))
    assert session.changed(rows_of(session.partitions))


def test_who_gave_records_goes_to_the_end_of_the_line():
    session = session_of(0, 1, 2, 3)
    rows = rows_of(session.partitions)
    for index in (2, 0):
        rows[index][1].records = b"x"
    assert [row.partition_index for _, row in session.changed(rows)] == [0, 2]
    assert [index for _, index in session.partitions] == [1, 3, 0, 2]


def test_what_a_full_answer_said_is_not_said_again(cache):
    session = cache.resume(cache.create(size=2), 1, ("t", 2))
    kept = session.changed(rows_of(session.partitions))
    assert [row.partition_index for _, row in kept] == [2]  # the new one


# -- slots


def test_a_full_cache_gives_no_session(cache):
    first, second = cache.create(), cache.create()
    assert cache.create(size=50) == NO_SESSION
    for session_id in (first, second):
        assert cache.resume(session_id, 1).id == session_id


def test_no_slots_no_sessions():
    assert Cache(slots=0).create() == NO_SESSION


def test_who_was_not_used_for_long_makes_room(cache):
    first, second = cache.create(size=9), cache.create(size=1)
    cache.now_ms += EVICTION_MS
    cache.resume(first, 1)  # now second is the one that was used last longest ago
    assert cache.create() == NO_SESSION  # not for long enough yet
    cache.now_ms += 1
    assert cache.create() != NO_SESSION
    assert cache.resume(second, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(first, 2).id == first


def test_the_smallest_of_age_makes_room_for_a_larger_one(cache):
    small, large = cache.create(size=2), cache.create(size=5)
    cache.now_ms += EVICTION_MS + 1
    cache.resume(large, 1)
    cache.resume(small, 1)
    assert cache.create(size=2) == NO_SESSION  # one as large does not
    third = cache.create(size=3)
    assert third != NO_SESSION
    assert cache.resume(small, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.create(size=4) == NO_SESSION  # the third one is too young, and the large one too large
    assert cache.create(size=6) != NO_SESSION
    assert cache.resume(large, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(third, 1).id == third


def test_the_young_are_safe_however_small(cache):
    cache.create(size=1)
    cache.create(size=1)
    cache.now_ms += EVICTION_MS
    assert cache.create(size=100) == NO_SESSION


def test_a_session_is_judged_by_its_size_when_it_was_used_last(cache):
    grown, other = cache.create(size=1), cache.create(size=3)
    cache.now_ms += EVICTION_MS + 1
    for session_id in (grown, other):
        cache.resume(session_id, 1)
    cache.resume(grown, 2, *(("u", index) for index in range(9)))
    assert cache.create(size=4) != NO_SESSION
    assert cache.resume(other, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(grown, 3).id == grown


# -- bounds


def test_a_session_has_a_largest_size(monkeypatch):
    monkeypatch.setattr(fetch_sessions, "MOST_IN_SESSION", 3)
    cache = Cache(slots=9)
    assert cache.create(size=4) == NO_SESSION
    session_id = cache.create(size=3)
    assert cache.resume(session_id, 1, ("u", 0), forgotten=[("t", 0)]).id == session_id
    # Who goes on to grow opens a new one, in vain, and goes on without.
    assert cache.resume(session_id, 2, ("u", 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache.sessions), cache.sessions.partitions) == (0, 0)


def test_all_sessions_together_have_a_largest_size(monkeypatch):
    monkeypatch.setattr(fetch_sessions, "MOST_IN_ALL", 5)
    cache = Cache(slots=9)
    first, second = cache.create(size=2), cache.create(size=2)
    assert cache.create(size=2) == NO_SESSION
    assert cache.resume(second, 1, ("u", 0)).size == 3
    assert cache.resume(first, 1, ("u", 0)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    cache.now_ms += EVICTION_MS + 1
    assert cache.create(size=4) != NO_SESSION  # second has to go
    assert (len(cache.sessions), cache.sessions.partitions) == (1, 4)


@pytest.mark.parametrize(("length", "kept"), [(249, True), (250, False)])
def test_no_session_keeps_names_that_no_topic_can_have(cache, length, kept):
    long = "n" * length, 0
    session_id = cache.sessions.create(rows_of(asked(("t", 0), long)), by_id=False, principal=ALICE, now_ms=0)
    assert (session_id != NO_SESSION) is kept
    grown = cache.create()
    answer = cache.resume(grown, 1, long)
    if kept:
        assert list(answer.partitions) == [("t", 0), long]
    else:
        assert answer is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert (len(cache.sessions), cache.sessions.partitions) == (0, 0)


def test_a_long_name_is_no_reason_to_push_out_another_session():
    cache = Cache(slots=1)
    session_id = cache.create()
    cache.now_ms += EVICTION_MS + 1
    rows = rows_of(asked(("n" * 250, 0)))
    assert cache.sessions.create(rows, by_id=False, principal=ALICE, now_ms=cache.now_ms) == NO_SESSION
    assert cache.resume(session_id, 1).id == session_id


def test_counts_agree_after_anything(cache):
    cache = Cache(slots=4)
    open_ids = {}
    for step in range(600):
        cache.now_ms += 7_001 * (step % 5)
        match step % 7:
            case 0 | 3 | 5:
                if session_id := cache.create(size=1 + step % 6):
                    open_ids[session_id] = 1
            case 1 | 4 | 6 if open_ids:
                session_id = list(open_ids)[step % len(open_ids)]
                outcome = cache.resume(session_id, open_ids[session_id], ("u", step % 5), forgotten=[("t", step % 3)])
                open_ids[session_id] += 1
                if outcome is None or isinstance(outcome, ErrorCode):
                    del open_ids[session_id]
            case 2 if open_ids and not step % 3:
                cache.sessions.close(open_ids.popitem()[0], ALICE)
    sessions = cache.sessions
    assert 0 < len(sessions) <= 4
    live = list(sessions._sessions.values())
    assert sessions.partitions == sum(len(session.partitions) for session in live)
    assert sessions._evictable == sorted((session.size, session.id) for session in live if session.evictable)
    assert [session.used_ms for session in live] == sorted(session.used_ms for session in live)
