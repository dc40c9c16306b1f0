"""Assertions about groups and records. What fails says why the group rebalanced, or what was lost where."""

from __future__ import annotations

import asyncio
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ottla.testing.group import Group

MOST_NAMED = 10
"""So many lost records are named."""


def assert_stable(group: Group, members: int | None = None, *, timeout: float = 10) -> None:
    """Fail unless the group is Stable, or becomes so in time.

    A test with an event loop that its consumers run on writes ``await asyncio.to_thread(assert_stable, group)``.

    Args:
        members: it has exactly so many.
        timeout: seconds; 0 for at once.

    Raises:
        AssertionError: it is not so; the message has the group's state and its last rebalance.
        TypeError: an argument that cannot be.
    """
    __tracebackhide__ = True
    _check_group("assert_stable", group)
    try:
        group.wait(members=members, state="Stable", timeout=timeout)
    except TimeoutError as error:
        raise AssertionError(_with_why(str(error) + _held_up(timeout), group)) from None


class assert_rebalances:
    """Fail if the group does not rebalance so many times within the ``with`` block.

    ```python
    with assert_rebalances(group, 1):
        start_another_consumer()
        group.wait(members=2)
    ```

    A rebalance counts when it begins, also the first of a group and the one in which its last member leaves. One that
    began before the block does not count.

    Raises:
        AssertionError: it did not; the message tells of the rebalances that there were.
        TypeError: an argument that cannot be.
    """

    _before: int | None = 0  # None once it waits for its block

    def __init__(self, group: Group, times: int) -> None:
        _check_group("assert_rebalances", group)
        if isinstance(times, bool) or not isinstance(times, int) or times < 0:
            raise TypeError(f"assert_rebalances: times={times!r}: write a number from 0")
        self._group, self._times, self._before = group, times, None

    def __enter__(self) -> None:
        self._before = count_rebalances(self._group)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        __tracebackhide__ = True
        if kind is not None or self._before is None:
            return
        found = count_rebalances(self._group) - self._before
        if found != self._times:
            text = f"group {self._group.group_id!r} rebalanced {_times(found)} in this block, not {_times(self._times)}"
            raise AssertionError(_with_why(text, self._group, found))

    def __del__(self) -> None:
        if self._before is None:
            warnings.warn("assert_rebalances(…) without `with` asserts nothing", RuntimeWarning, stacklevel=2)


def count_rebalances(group: Group) -> int:
    """How often the group has rebalanced since the broker started; see `assert_rebalances` for what counts."""
    _check_group("count_rebalances", group)
    return sum(one.kind == "rebalance" for one in group.history(lambda history: history.chosen(group.group_id)))


def assert_no_loss(produced: Iterable[Any], consumed: Iterable[Any], *, group: Group | None = None) -> None:
    """Fail unless everything that was produced was consumed, at least once.

    ```python
    assert_no_loss(broker.records("orders"), seen)
    assert_no_loss([b"a", b"b"], [message.value() for message in seen])
    ```

    Both are values, or records of any client: of Ottla's, aiokafka, confluent-kafka and kafka-python. Records are
    compared by topic, partition and offset if both sides have these, and by their values otherwise. A value that was
    produced twice has to be consumed twice. Texts are compared as UTF-8.

    Args:
        produced: what was acknowledged.
        group: who consumed; its last rebalance is told if something is missing.

    Raises:
        AssertionError: something is missing; the message says how much, what and where.
        TypeError: one side has only places and the other only values, or a value cannot be compared.
    """
    __tracebackhide__ = True
    if group is not None:
        _check_group("assert_no_loss", group)
    wanted, found = [_Item.of(one) for one in produced], [_Item.of(one) for one in consumed]
    by_place = all(one.place is not None for one in (*wanted, *found))
    left = Counter(_key(one, by_place) for one in found)
    missing = []
    for one in wanted:
        key = _key(one, by_place)
        if not left[key]:
            missing.append(one)
        elif not by_place:
            left[key] -= 1
    if missing:
        were = "was" if len(missing) == 1 else "were"
        text = f"{len(missing)} of {len(wanted)} records {were} never consumed:"
        lines = [text, *(f"  {one}" for one in missing[:MOST_NAMED])]
        if len(missing) > MOST_NAMED:
            lines.append(f"  and {len(missing) - MOST_NAMED} more")
        text = "\n".join(lines)
        raise AssertionError(text if group is None else _with_why(text, group))


@runtime_checkable
class _Placed(Protocol):
    """A record, or what says where one is. confluent-kafka's has methods."""

    topic: Any
    partition: Any
    offset: Any


@runtime_checkable
class _Valued(Protocol):
    value: Any


class _Item(NamedTuple):
    """A value, a place (topic, partition, offset), or both."""

    place: tuple[str, int, int] | None
    value: Any
    has_value: bool

    @classmethod
    def of(cls, given: Any) -> _Item:
        if not isinstance(given, _Placed):
            return cls(None, given, True)
        place = (_read(given.topic), _read(given.partition), _read(given.offset))
        if isinstance(given, _Valued):
            return cls(place, _read(given.value), True)
        return cls(place, None, False)

    def __str__(self) -> str:
        value = repr(self.value) if self.has_value else ""
        if self.place is None:
            return value
        topic, partition, offset = self.place
        return f"{topic}-{partition} at offset {offset}{': ' * bool(value)}{value}"


def _read(attribute: Any) -> Any:
    return attribute() if callable(attribute) else attribute


def _key(item: _Item, by_place: bool) -> Hashable:
    if by_place:
        return item.place
    if not item.has_value:
        raise TypeError(
            f"assert_no_loss: {item} is a place without a value, and the other side has values: compare "
            "broker.records('…') instead, which have both"
        )
    value = item.value.encode() if isinstance(item.value, str) else item.value
    if not isinstance(value, Hashable):
        raise TypeError(f"assert_no_loss: {value!r} cannot be compared: give the bytes, a text, or the record")
    return value


def _check_group(function: str, group: Group) -> None:
    if not isinstance(group, Group):
        raise TypeError(f"{function}({group!r}): give the group, such as broker.group('billing')")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _with_why(text: str, group: Group, last: int | None = None) -> str:
    """A message with the group's own account after it."""
    why = group.why(last) if last != 0 else ""
    return f"{text}\n\n{why}" if why else text


def _held_up(timeout: float) -> str:
    """A hint if the test's own event loop stood still meanwhile."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        if timeout:
            return (
                "; the event loop of the test stood still meanwhile: write `await asyncio.to_thread(assert_stable, …)`"
            )
    return ""
