"""`Control`: a workbench as it is asked from outside, by Kafka's port or by HTTP: verbs that take and give JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Annotated, Any, NamedTuple, Protocol

from msgspec import DecodeError, Meta, Struct, ValidationError, convert, json, structs

from ottla.broker.handlers.services import ControlRefused
from ottla.protocol.errors import ErrorCode
from ottla.workbench.faults import Fault, Faults
from ottla.workbench.rule import Rule
from ottla.workbench.time import FASTEST, SLOWEST, Time, TimeState

MOST_FAULTS = 1_000
"""So many may be in force when one more is set from outside."""
MOST_BODY_BYTES = 64 << 10


class Bench(Protocol):
    """What there is to control; see `ottla.workbench.bench.Workbench`."""

    faults: Faults
    time: Time

    @property
    def paused(self) -> list[str]: ...
    def coordinates(self, group_id: str) -> bool: ...
    def pause(self, group_id: str) -> None: ...
    def resume(self, group_id: str) -> None: ...
    def remove(self, fault: Fault) -> None: ...


class FaultState(Struct):
    """A fault in force.

    Attributes:
        name: its name, or the rule as one would type it.
        rule: as it was set, without what is left at its default.
        hits: how often it fired.
        seen: how many requests of its APIs came in meanwhile.
        missed: why the last of them that it let pass was none for it; empty if there was none.
        held: how many requests and answers wait for its release.
    """

    number: int
    name: str
    rule: Rule
    hits: int
    seen: int
    missed: str
    held: int


class FaultStates(Struct):
    """The faults in force, in the order in which they were set: the first that wants a request has it."""

    faults: list[FaultState]


class Removed(Struct):
    """How many faults were taken out of force."""

    removed: int


class Released(Struct):
    """How many requests and answers were let go of."""

    released: int


class PauseState(Struct):
    """Whether a group is paused."""

    group: str
    is_paused: bool


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


class Which(Struct, forbid_unknown_fields=True):
    """A fault by its number; None stands for all of them."""

    number: int | None = None


class Scale(Struct, forbid_unknown_fields=True):
    """How many times as fast as in reality time is to go."""

    factor: Annotated[float, Meta(ge=SLOWEST, le=FASTEST)]


class Advance(Struct, forbid_unknown_fields=True):
    """By how many milliseconds to move time ahead.

    ``hold`` is the ids of groups whose deadlines are held meanwhile, or true for all groups.
    """

    ms: Annotated[float, Meta(ge=1)]
    hold: bool | list[str] = False


class Group(Struct, forbid_unknown_fields=True):
    """A group by its id."""

    group: str


class Verb(NamedTuple):
    """Something that can be asked for: its arguments, what is done with them, and what is told of it."""

    takes: type[Struct]
    does: Callable[[Bench, Any], Any]
    gives: type[Struct]


class Control:
    """See the module. Everything here is called on the broker's event loop."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def ask(self, verb: str, body: bytes) -> bytes:
        """See `ottla.broker.handlers.services.Control`."""
        if len(body) > MOST_BODY_BYTES:
            raise ControlRefused(ErrorCode.INVALID_REQUEST, f"the body is longer than {MOST_BODY_BYTES:,} bytes")
        try:
            arguments = json.decode(body or b"{}", type=dict[str, Any])
        except DecodeError as error:
            raise ControlRefused(ErrorCode.INVALID_REQUEST, f"the body is no JSON object: {error}") from None
        return json.encode(await self.do(verb, arguments))

    async def do(self, verb: str, arguments: Mapping[str, Any]) -> Struct:
        """The same with what JSON stands for, and a struct that tells what came of it."""
        if verb not in VERBS:
            raise ControlRefused(ErrorCode.INVALID_REQUEST, f"there is no {verb!r}: write one of {', '.join(VERBS)}")
        row = VERBS[verb]
        try:
            given = Rule.read(arguments) if row.takes is Rule else convert(arguments, row.takes)
            found = row.does(self._bench, given)
            done: Struct = await found if isawaitable(found) else found
        except ValidationError as error:
            takes = ", ".join(field.name for field in structs.fields(row.takes)) or "no arguments"
            raise ControlRefused(ErrorCode.INVALID_REQUEST, f"{verb} takes {takes}: {error}") from None
        except ValueError as error:  # a rule or a time that cannot be
            raise ControlRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
        except TimeoutError as error:
            raise ControlRefused(ErrorCode.REQUEST_TIMED_OUT, str(error)) from None
        return done


def _state(fault: Fault) -> FaultState:
    return FaultState(
        fault.number, fault.name, fault.rule, fault.hits, fault.tally.seen, fault.tally.missed, fault.held
    )


def _list(bench: Bench, given: Nothing) -> FaultStates:
    return FaultStates([_state(fault) for fault in bench.faults.current])


def _add(bench: Bench, given: Rule) -> FaultState:
    _has_room(bench)
    return _state(bench.faults.add(given))


def _has_room(bench: Bench) -> None:
    if len(bench.faults.current) >= MOST_FAULTS:
        raise ControlRefused(
            ErrorCode.POLICY_VIOLATION, f"{MOST_FAULTS:,} faults are in force, and no more may be: remove some"
        )


def _chosen(bench: Bench, given: Which) -> list[Fault]:
    current = list(bench.faults.current)
    found = [fault for fault in current if given.number in (None, fault.number)]
    if given.number is not None and not found:
        raise ControlRefused(ErrorCode.RESOURCE_NOT_FOUND, f"there is no fault {given.number} in force")
    return found


def _remove(bench: Bench, given: Which) -> Removed:
    found = _chosen(bench, given)
    for fault in found:
        bench.remove(fault)
    return Removed(len(found))


def _release(bench: Bench, given: Which) -> Released:
    return Released(sum(fault.release() for fault in _chosen(bench, given)))


def _time(change: Callable[[Time, Any], Awaitable[None] | None]) -> Callable[[Bench, Any], Awaitable[TimeState]]:
    """Do something to the time, and tell how it goes then."""

    async def does(bench: Bench, given: Any) -> TimeState:
        if (work := change(bench.time, given)) is not None:
            await work
        return bench.time.state

    return does


def _pause(bench: Bench, given: Group) -> PauseState:
    if not given.group:
        raise ControlRefused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if not bench.coordinates(given.group):
        raise ControlRefused(ErrorCode.NOT_COORDINATOR, f"another node coordinates group {given.group!r}")
    if given.group not in bench.paused:
        _has_room(bench)
        bench.pause(given.group)
    return PauseState(given.group, True)


def _resume(bench: Bench, given: Group) -> PauseState:
    if given.group not in bench.paused:
        raise ControlRefused(ErrorCode.RESOURCE_NOT_FOUND, f"group {given.group!r} is not paused")
    bench.resume(given.group)
    return PauseState(given.group, False)


VERBS: dict[str, Verb] = {
    "faults.list": Verb(Nothing, _list, FaultStates),
    "faults.add": Verb(Rule, _add, FaultState),
    "faults.remove": Verb(Which, _remove, Removed),
    "faults.release": Verb(Which, _release, Released),
    "clock.show": Verb(Nothing, _time(lambda time, given: None), TimeState),
    "clock.freeze": Verb(Nothing, _time(lambda time, given: time.freeze()), TimeState),
    "clock.resume": Verb(Nothing, _time(lambda time, given: time.resume()), TimeState),
    "clock.scale": Verb(Scale, _time(lambda time, given: time.scale(given.factor)), TimeState),
    "clock.advance": Verb(Advance, _time(lambda time, given: time.advance(given.ms, given.hold)), TimeState),
    "groups.pause": Verb(Group, _pause, PauseState),
    "groups.resume": Verb(Group, _resume, PauseState),
}
