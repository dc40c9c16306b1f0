"""Parked fetches, held against a list that is searched from end to end."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.broker.core.fetches import FetchPurgatory, Parked, Wake
from ottla.protocol.records import TopicPartition

PARTITIONS = [TopicPartition("t", index) for index in range(3)]
T0, T1 = PARTITIONS[:2]


def parked(*watched, deadline_ms=1000, missing_bytes=1, sizes=None):
    sizes = sizes or {}
    return Parked(None, None, deadline_ms=deadline_ms, missing_bytes=missing_bytes,
                  watched={tp: sizes.get(tp, 0) for tp in watched})  # fmt: skip


def woken(purgatory):
    return [effect.parked for effect in purgatory.take_effects()]


def test_any_byte_wakes_who_waits_for_one():
    purgatory = FetchPurgatory()
    first, second = parked(T0), parked(T1)
    purgatory.park(first)
    purgatory.park(second)
    purgatory.appended(T0, 10)
    assert purgatory.effects == [Wake(first)]
    assert (first.expired, len(purgatory)) == (False, 1)
    assert woken(purgatory) == [first]
    assert woken(purgatory) == []


def test_bytes_add_up_over_partitions_from_the_sizes_at_parking():
    purgatory = FetchPurgatory()
    waiting = parked(T0, T1, missing_bytes=30, sizes={T0: 1000, T1: 500})
    purgatory.park(waiting)
    purgatory.appended(T0, 1010)
    purgatory.appended(T1, 519)
    assert woken(purgatory) == []
    purgatory.appended(T0, 1011)
    assert woken(purgatory) == [waiting]
    purgatory.appended(T1, 5000)
    assert woken(purgatory) == []


def test_who_reads_up_to_the_last_stable_offset_sleeps_while_it_stays():
    purgatory = FetchPurgatory()
    waiting = parked(T0, missing_bytes=30, sizes={T0: 100})
    waiting.stable = {T0: 7}
    other = parked(T0)
    purgatory.park(waiting)
    purgatory.park(other)
    purgatory.appended(T0, 200, 7)
    assert woken(purgatory) == [other]
    purgatory.appended(T0, 210, 8)  # what came meanwhile counts, too
    assert woken(purgatory) == [waiting]
    assert not purgatory.watches(T0)
    purgatory.park(waiting)
    purgatory.touched(T0)
    assert woken(purgatory) == [waiting]


def test_bytes_are_counted_once():
    purgatory = FetchPurgatory()
    waiting = parked(T0, missing_bytes=30)
    purgatory.park(waiting)
    for size in (10, 20, 29):
        purgatory.appended(T0, size)
    assert woken(purgatory) == []
    purgatory.appended(T0, 30)
    assert woken(purgatory) == [waiting]


def test_deadlines_come_in_order():
    purgatory = FetchPurgatory()
    late, early = parked(T0, deadline_ms=20), parked(T0, deadline_ms=10)
    purgatory.park(late)
    purgatory.park(early)
    assert purgatory.next_deadline_ms() == 10
    purgatory.advance(9, 0)
    assert woken(purgatory) == []
    purgatory.advance(20, 0)
    assert woken(purgatory) == [early, late]
    assert early.expired and late.expired
    assert (purgatory.next_deadline_ms(), len(purgatory)) == (None, 0)


def test_an_append_costs_only_those_who_wait_there():
    looked_at = []

    class Watched(Parked):
        __slots__ = ()

        @property
        def missing_bytes(self):
            looked_at.append(self)
            return 1

        @missing_bytes.setter
        def missing_bytes(self, value):
            pass

    purgatory = FetchPurgatory()
    for index in range(100):
        purgatory.park(Watched(None, None, deadline_ms=1, missing_bytes=1, watched={PARTITIONS[1 + index % 2]: 0}))
    purgatory.appended(T0, 10)
    assert looked_at == []


def test_dropping_twice_or_never_parked_is_nothing():
    purgatory = FetchPurgatory()
    waiting = parked(T0)
    purgatory.drop(waiting)
    purgatory.park(waiting)
    purgatory.drop(waiting)
    purgatory.drop(waiting)
    purgatory.appended(T0, 1)
    assert woken(purgatory) == []


def test_giving_up_everything():
    purgatory = FetchPurgatory()
    waiting = [parked(T0, deadline_ms=5 - n) for n in range(3)]
    for each in waiting:
        purgatory.park(each)
    assert purgatory.take_all() == waiting
    assert (len(purgatory), purgatory.next_deadline_ms(), purgatory.take_effects()) == (0, None, [])


class Purgatory(RuleBasedStateMachine):
    """The model is a list of (fetch, deadline, bytes missing, partitions)."""

    def __init__(self):
        super().__init__()
        self.purgatory = FetchPurgatory()
        self.model = []
        self.sizes = dict.fromkeys(PARTITIONS, 0)
        self.now_ms = 0

    @rule(
        watched=st.sets(st.sampled_from(PARTITIONS), min_size=1),
        wait_ms=st.integers(0, 100),
        missing=st.integers(1, 60),
    )
    def park(self, watched, wait_ms, missing):
        fetch = parked(*watched, deadline_ms=self.now_ms + wait_ms, missing_bytes=missing, sizes=self.sizes)
        self.purgatory.park(fetch)
        self.model.append([fetch, self.now_ms + wait_ms, missing, watched])

    @rule(tp=st.sampled_from(PARTITIONS), size=st.integers(1, 20))
    def append(self, tp, size):
        self.sizes[tp] += size
        self.purgatory.appended(tp, self.sizes[tp])
        for row in self.model:
            if tp in row[3]:
                row[2] -= size
        self.expect([row[0] for row in self.model if row[2] <= 0])

    @rule(tp=st.sampled_from(PARTITIONS))
    def touch(self, tp):
        self.purgatory.touched(tp)
        self.expect([row[0] for row in self.model if tp in row[3]])

    @rule(ms=st.integers(0, 10))
    def advance(self, ms):
        self.now_ms += ms
        self.purgatory.advance(self.now_ms, 0)
        due = sorted((row for row in self.model if row[1] <= self.now_ms), key=lambda row: row[1])
        self.expect([row[0] for row in due])
        assert all(row[0].expired for row in due)

    @rule(data=st.data())
    def drop(self, data):
        if self.model:
            row = data.draw(st.sampled_from(self.model))
            self.purgatory.drop(row[0])
            self.model.remove(row)

    def expect(self, fetches):
        assert woken(self.purgatory) == fetches
        self.model = [row for row in self.model if row[0] not in fetches]

    @invariant()
    def nothing_is_left_over(self):
        assert len(self.purgatory) == len(self.model)
        assert set(self.purgatory._waiting) == set().union(*(row[3] for row in self.model))
        assert self.purgatory.next_deadline_ms() == min((row[1] for row in self.model), default=None)


TestPurgatory = Purgatory.TestCase
