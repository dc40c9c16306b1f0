"""A bug in the answer to one woken fetch: its client is let go, and everybody else is served on."""

import pytest

from ottla.broker.core.fetches import FetchPurgatory, Parked
from ottla.broker.runtime.host import Host
from ottla.protocol.records import TopicPartition
from tests.shell.host import Clock, Log

TP = TopicPartition("t", 0)


class Context:
    def __init__(self):
        self.reasons = []

    def close(self, reason):
        self.reasons.append(reason)


class World(Clock):
    """``answered`` are the fetches that were looked at; those in ``broken`` fail then."""

    def __init__(self):
        super().__init__()
        self.answered, self.broken = [], []
        self.log = Log()
        self.host = Host(
            self,
            FetchPurgatory(),
            partition=lambda tp: None,
            max_batch_bytes=1 << 20,
            report=self.log,
        )

    def look_again(self, parked):
        self.answered.append(parked)
        if parked in self.broken:
            raise LookupError("a bug of ours")

    def park(self, deadline_ms, *, broken=False):
        parked = Parked(Context(), self, deadline_ms=deadline_ms, missing_bytes=1, watched={TP: 0})
        if broken:
            self.broken.append(parked)
        self.host.park(parked)
        return parked


@pytest.fixture
def world():
    return World()


def test_fetches_behind_it_are_answered_and_their_time_goes_on(world):
    broken, same, later = world.park(10, broken=True), world.park(10), world.park(20)
    world.advance(10)
    assert world.answered == [broken, same]
    assert len(broken.ctx.reasons) == 1
    assert same.ctx.reasons == []
    world.advance(10)
    assert world.answered == [broken, same, later]


def test_an_append_that_wakes_it_wakes_the_others(world):
    broken, other = world.park(10, broken=True), world.park(10)
    world.host.touched(TP)
    assert world.answered == [broken, other]
    assert [len(parked.ctx.reasons) for parked in (broken, other)] == [1, 0]


def test_the_others_are_answered_when_the_broker_stops(world):
    broken, other = world.park(10, broken=True), world.park(10)
    world.host.stop()
    assert world.answered == [broken, other]


def test_the_clock_is_set_whatever_an_outcome_does(world):
    later = world.park(20)

    def fails():
        raise LookupError("a bug of ours")
        yield

    world.park(10)
    world.host.outcomes.append(fails())
    with pytest.raises(LookupError):
        world.advance(10)
    world.advance(10)
    assert world.answered[-1] is later
