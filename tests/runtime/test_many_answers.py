"""An entry that answers very many members: others get their turn in between, and nobody is left out."""

from functools import partial
from itertools import pairwise

import pytest

from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.fetches import FetchPurgatory
from ottla.broker.runtime import coordinator_log
from ottla.broker.runtime.host import REPLIES_A_TURN, Host
from ottla.protocol.errors import ErrorCode
from tests.shell.host import Clock, Log

TOPIC = "__consumer_offsets"
MANY = 3 * REPLIES_A_TURN + 1


class Context:
    """Keeps what it is answered with, in the order of all answers."""

    def __init__(self, said, name):
        self.said, self.name = said, name

    def reply(self, response):
        self.said.append((self.name, response))


class Machine:
    """A coordinator that asks for what the test gives it."""

    partition_count = 0

    def __init__(self):
        self.effects = []

    def take_effects(self):
        effects, self.effects = self.effects, []
        return effects

    def next_deadline_ms(self):
        return None

    def ask(self, effects, ctx, now_ms, wall_ms):
        self.effects += effects

    def appended_all(self, tokens, error, now_ms, wall_ms):
        for token in tokens:
            token(error)


class World:
    """``turn`` is a turn of the event loop."""

    def __init__(self, *, defers=True):
        self.said, self.due = [], []
        self.machine = Machine()
        self.host = Host(
            Clock(),
            FetchPurgatory(),
            partition=lambda tp: None,
            max_batch_bytes=1 << 20,
            report=Log(),
            defer=self.due.append if defers else None,
        )
        self.host.add(TOPIC, self.machine)

    def turn(self):
        due, self.due[:] = list(self.due), []
        for function in due:
            function()

    def answer(self, names):
        self.host.enter(self.machine.ask, [Reply(Context(self.said, name), name) for name in names], None)

    @property
    def names(self):
        return [name for name, _ in self.said]


@pytest.fixture
def world():
    return World()


def test_a_slice_of_them_is_given_each_turn_in_their_order(world):
    world.answer(range(MANY))
    lengths = []
    while world.due:
        lengths.append(len(world.said))
        world.turn()
    assert lengths == [0, REPLIES_A_TURN, 2 * REPLIES_A_TURN, 3 * REPLIES_A_TURN]
    assert world.names == list(range(MANY))


def test_others_are_answered_in_between(world):
    world.answer(range(MANY))
    world.turn()
    world.answer(["another"])
    assert world.names == [*range(REPLIES_A_TURN), "another"]
    while world.due:
        world.turn()
    assert world.names == [*range(REPLIES_A_TURN), "another", *range(REPLIES_A_TURN, MANY)]


def test_those_of_a_second_entry_follow_the_first(world):
    world.answer(range(MANY))
    world.answer(range(MANY, 2 * MANY))
    turns = 0
    while world.due:
        assert len(world.due) == 1, "one slice a turn"
        world.turn()
        turns += 1
    assert turns == -(-2 * MANY // REPLIES_A_TURN)
    assert world.names == list(range(2 * MANY))


def test_what_is_to_be_written_does_not_wait(world):
    appended = []
    world.host._hosted[1].carry_out[Append] = appended.append
    write = Append(0, [], object())
    replies = [Reply(Context(world.said, name), name) for name in range(MANY)]
    world.host.enter(world.machine.ask, [*replies[:5], write, *replies[5:]], None)
    assert appended == [write]
    assert world.said == []


def test_few_are_given_at_once(world):
    world.answer(range(REPLIES_A_TURN))
    assert world.names == list(range(REPLIES_A_TURN))
    assert not world.due


def test_without_a_loop_all_are_given_at_once():
    world = World(defers=False)
    world.answer(range(MANY))
    assert world.names == list(range(MANY))


def test_a_broker_that_stops_answers_all(world):
    world.answer(range(MANY))
    world.host.stop()
    assert world.names == list(range(MANY))
    world.turn()
    assert len(world.said) == MANY


def test_one_that_is_killed_answers_nobody_more(world):
    world.answer(range(MANY))
    world.turn()
    world.host.silence()
    world.turn()
    assert world.names == list(range(REPLIES_A_TURN))


class Slow:
    """A clock of which a time passes with every look."""

    def __init__(self):
        self.ms = 0

    @property
    def real(self):
        return self

    def monotonic_ms(self):
        self.ms += 1
        return self.ms

    def wall_ms(self):
        return 0

    def call_at(self, when_ms, callback):
        raise AssertionError("nothing has a deadline")


class Writes:
    """Writes that are over, each of which asks for an answer when the coordinator is told."""

    def __init__(self, world):
        self.world = world
        self.told = []

    def over(self, names, error=ErrorCode.NONE):
        tokens = [partial(self.tell, name) for name in names]
        self.world.host._together(self.world.host.log_of(TOPIC), tokens, error)

    def tell(self, name, error):
        self.told.append(name if error is ErrorCode.NONE else (name, error))
        self.world.machine.effects.append(Reply(Context(self.world.said, name), name))


@pytest.fixture
def slow_world(monkeypatch):
    monkeypatch.setattr(coordinator_log, "TOLD_A_STEP", 1)
    world = World()
    world.host._clock = Slow()
    world.host._arm = lambda: None
    return world


def test_the_outcomes_of_many_writes_are_told_a_slice_a_turn_in_their_order(slow_world):
    world, writes = slow_world, Writes(slow_world)
    for first in (0, 10, 20):
        writes.over(range(first, first + 10))
    lengths = []
    while world.due:
        assert len(world.due) == 1
        world.turn()
        lengths.append(len(writes.told))
    assert writes.told == world.names == list(range(30))
    assert len(lengths) > 5 and max(after - before for before, after in pairwise([0, *lengths])) <= 5


def test_each_write_has_its_own_outcome(slow_world):
    world, writes = slow_world, Writes(slow_world)
    writes.over(range(2))
    writes.over([2], ErrorCode.MESSAGE_TOO_LARGE)
    writes.over([3])
    while world.due:
        world.turn()
    assert writes.told == [0, 1, (2, ErrorCode.MESSAGE_TOO_LARGE), 3]


def test_one_that_fails_keeps_no_other_from_its_outcome(world):
    writes = Writes(world)
    writes.over([0])
    world.host._together(world.host.log_of(TOPIC), [lambda error: 1 // 0], ErrorCode.NONE)
    writes.over([1])
    world.host._arm = lambda: None
    with pytest.raises(ZeroDivisionError):
        world.turn()
    world.host.settle()
    assert writes.told == [0, 1]


def test_who_enters_in_between_is_answered_and_tells_no_more_of_them(slow_world):
    world, writes = slow_world, Writes(slow_world)
    writes.over(range(30))
    world.turn()
    told = len(writes.told)
    assert 0 < told < 30
    world.answer(["another"])
    assert world.names == [*range(told), "another"]
    assert len(writes.told) == told


def test_an_outcome_of_another_kind_overtakes_none_of_those_before_it(slow_world):
    world, writes = slow_world, Writes(slow_world)
    writes.over(range(30))
    world.turn()
    world.host._later(lambda: writes.told.append("marker"))
    assert "marker" not in writes.told
    while world.due:
        world.turn()
    assert writes.told == [*range(30), "marker"]


def test_a_broker_that_gives_up_tells_all_before(slow_world):
    world, writes = slow_world, Writes(slow_world)
    writes.over(range(30))
    world.turn()
    world.host.give_up()
    assert writes.told == world.names == list(range(30))


def test_one_that_is_killed_tells_no_more(slow_world):
    world, writes = slow_world, Writes(slow_world)
    writes.over(range(30))
    world.turn()
    told = len(writes.told)
    world.host.silence()
    while world.due:
        world.turn()
    assert len(writes.told) == told
