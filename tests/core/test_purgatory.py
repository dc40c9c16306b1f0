"""Deadlines: due in order, moved cheaply, and never given twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core.purgatory import Deadlines


def test_keys_are_due_by_deadline_and_then_by_when_they_were_set() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, at_ms in [("late", 20), ("second", 10), ("third", 10), ("first", 5)]:
        deadlines.set(key, at_ms)
    assert deadlines.next() == 5
    assert list(deadlines.expired(4)) == []
    assert list(deadlines.expired(10)) == ["first", "second", "third"]
    assert deadlines.next() == 20
    assert list(deadlines.expired(20)) == ["late"]
    assert deadlines.next() is None
    assert len(deadlines) == 0


def test_setting_a_key_again_replaces_its_deadline() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("moved later", 10)
    deadlines.set("moved later", 30)
    deadlines.set("moved earlier", 30)
    deadlines.set("moved earlier", 5)
    assert deadlines.get("moved later") == 30
    assert list(deadlines.expired(29)) == ["moved earlier"]
    assert list(deadlines.expired(30)) == ["moved later"]


def test_a_cancelled_key_is_gone_and_can_come_back() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.cancel("a")
    deadlines.cancel("never set")
    assert "a" not in deadlines
    assert deadlines.next() is None
    deadlines.set("a", 20)
    assert list(deadlines.expired(15)) == []
    assert list(deadlines.expired(20)) == ["a"]


def test_what_the_caller_cancels_or_moves_meanwhile_is_not_given() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key in ("a", "b", "c"):
        deadlines.set(key, 1)
    given_keys = []
    for key in deadlines.expired(10):
        given_keys.append(key)
        deadlines.cancel("b")
        deadlines.set("c", 50)
    assert given_keys == ["a"]
    assert deadlines.next() == 50


def test_what_is_set_meanwhile_waits_for_the_next_call() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("again", 0)
    rounds = 0
    for key in deadlines.expired(0):
        rounds += 1
        deadlines.set(key, 0)
    assert rounds == 1
    assert deadlines.next() == 0
    assert list(deadlines.expired(0)) == ["again"]


def test_who_stops_early_loses_nothing() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key in ("a", "b", "c"):
        deadlines.set(key, 1)
    expired = deadlines.expired(10)
    assert next(expired) == "a"
    deadlines.set("d", 0)
    assert next(expired) == "b"
    expired.close()
    assert list(deadlines.expired(10)) == ["d", "c"]


def test_memory_follows_the_number_of_keys() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for at_ms in range(10_000, 0, -1):
        deadlines.set(at_ms % 10, at_ms)
    assert len(deadlines._heap) < 100
    for at_ms in range(10_000):
        deadlines.set(1, 20_000 + at_ms)
        deadlines.cancel(1)
    assert len(deadlines._heap) < 100
    assert len(deadlines._queued) <= 10


STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "set", "set", "cancel", "expired"]), st.integers(0, 5), st.integers(0, 40))
)


@given(STEPS)
def test_it_does_what_a_plain_list_does(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    plain: dict[int, tuple[int, int]] = {}
    for number, (verb, key, at_ms) in enumerate(steps):
        if verb == "set":
            deadlines.set(key, at_ms)
            plain[key] = (at_ms, number)
        elif verb == "cancel":
            deadlines.cancel(key)
            plain.pop(key, None)
        else:
            due = sorted((when, name) for name, when in plain.items() if when[0] <= at_ms)
            assert list(deadlines.expired(at_ms)) == [name for _, name in due]
            for _, name in due:
                del plain[name]
        assert deadlines.next() == min((when[0] for when in plain.values()), default=None)
        assert len(deadlines) == len(plain)
