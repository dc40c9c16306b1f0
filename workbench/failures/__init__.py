"""`Failure`: a failure of production as its file tells it; the files lie beside this module.

A file names what it stands for, tells the story, and has the steps that let it happen and what must be seen then.
`ottla.testing.play` plays it. What a file may say is all here, and anything else is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct, ValidationError, convert, structs

from ottla.observe.why.causes import Cause
from ottla.workbench.rule import PHASES, BadRule, Rule

SUFFIX = ".yaml"
Names: TypeAlias = str | list[str]
"""One role or several."""


class BadFailure(ValueError):
    """A file cannot be as it is written, or there is none of the name; the message says what was meant."""


class _Strict(Struct, forbid_unknown_fields=True):
    pass


class Reference(_Strict):
    """Something public that the failure stands for: an incident, an issue or a KIP."""

    text: str
    url: str


class Wait(_Strict):
    """What to wait for, all of it.

    Attributes:
        state: the group's.
        members: how many the group has, in state Stable unless ``state`` says another.
        lag: how many records the group has not committed, at most.
        read: by role, how many records it has read since it was started first, at least.
        owns: by role, how many partitions it has at this moment.
        errors: by role, how many errors it has been told of, at least.
        fault: the name of one that has fired.
        hits: how often the fault has fired, at least.
        done: roles that have done all that they were asked to, or were refused it.
    """

    state: str | None = None
    members: int | None = None
    lag: int | None = None
    read: dict[str, int] = {}
    owns: dict[str, int] = {}
    errors: dict[str, int] = {}
    fault: str | None = None
    hits: int = 1
    done: list[str] = []


class Advance(_Strict):
    """By how much the broker's clock is moved ahead.

    It is moved in steps, so that whoever lives is heard of in time.

    Attributes:
        days, hours, minutes, seconds, ms: they add up.
        hold: no deadline of a group takes effect meanwhile.
        silent: roles that live and are not heard of.
    """

    days: float = 0
    hours: float = 0
    minutes: float = 0
    seconds: float = 0
    ms: float = 0
    hold: bool = False
    silent: list[str] = []

    @property
    def amount(self) -> dict[str, float]:
        """The units that are not 0."""
        given = structs.asdict(self)
        return {unit: given[unit] for unit in ("days", "hours", "minutes", "seconds", "ms") if given[unit]}


class Send(_Strict):
    """Records that a role produces.

    Attributes:
        records: how many, spread over the partitions.
    """

    role: str
    topic: str
    records: int


class Word(NamedTuple):
    """A word of which a step can be made.

    Attributes:
        kind: the type of what is said with it.
        example: a step; meaning: what it does.
    """

    kind: Any
    example: str
    meaning: str


WORDS = {
    "start": Word(Names, "start: [a, b]", "clients start: the first time, or again after they were closed or killed"),
    "stop": Word(Names, "stop: a", "clients close in order, and their processes end"),
    "kill": Word(Names, "kill: a", "processes end at once and say goodbye to nobody"),
    "freeze": Word(Names, "freeze: a", "processes stand still, with their connections open"),
    "thaw": Word(Names, "thaw: a", "processes go on where they stood"),
    "work": Word(
        Names, "work: a", "consumers will be busy with the next records that they read, and not poll meanwhile"
    ),
    "poll": Word(Names, "poll: a", "consumers poll again"),
    "commit": Word(Names, "commit: a", "consumers commit what they have read, and are told what came of it"),
    "begin_commit": Word(Names, "begin_commit: a", "the same, without waiting for what comes of it"),
    "begin": Word(Names, "begin: p", "producers begin a transaction"),
    "send": Word(
        Send, "send: {role: p, topic: orders, records: 4}", "a producer sends records, spread over partitions"
    ),
    "end": Word(Names, "end: p", "producers commit their transaction"),
    "produce": Word(dict[str, int], "produce: {orders: 4}", "records are written to topics from outside"),
    "wait": Word(Wait, "wait: {members: 2, lag: 0}", "all of this must be so before the next step, within 20 s"),
    "fault": Word(
        dict[str, Any],
        "fault: {name: lost, api: SyncGroup, member: $b, drop: response}",
        "a fault is in force from now on; `$b` is the member id of role b",
    ),
    "release": Word(str, "release: lost", "a fault lets go of what it holds"),
    "remove": Word(str, "remove: lost", "a fault is over"),
    "advance": Word(Advance, "advance: {seconds: 6, silent: [b]}", "the broker's clock is moved ahead"),
    "pace": Word(float, "pace: 60", "the broker's clock goes so fast by itself; 0, as in the beginning, is not at all"),
    "pause": Word(str, "pause: billing", "members of the group cannot join, and no session of theirs ends"),
    "resume": Word(str, "resume: billing", "the group goes on"),
    "evict": Word(Names, "evict: a", "an administrator removes members"),
    "restart": Word(float, "restart: 0.2", "the broker restarts, and is away for so many seconds"),
    "coordinator": Word(str, "coordinator: away", "the coordinator of the group is `away`, or `back`"),
    "delete_topic": Word(str, "delete_topic: orders", "a topic is deleted"),
    "create_topic": Word(dict[str, int], "create_topic: {orders: 2}", "topics are created, with so many partitions"),
}
"""All words."""
_OF_CONSUMERS = ("work", "poll", "commit", "begin_commit", "evict")
_OF_PRODUCERS = ("begin", "end", "send")
_COORDINATOR = ("away", "back")


class Step(NamedTuple):
    """A step of a failure: a word, and what is said with it."""

    word: str
    given: Any

    @property
    def roles(self) -> list[str]:
        """The roles that it is about; empty if it is about none."""
        if isinstance(self.given, Send):
            return [self.given.role]
        if isinstance(self.given, Wait):
            return [*self.given.read, *self.given.owns, *self.given.errors, *self.given.done]
        if isinstance(self.given, Advance):
            return self.given.silent
        if WORDS[self.word].kind is Names:
            return [self.given] if isinstance(self.given, str) else list(self.given)
        return []


class Sees(_Strict):
    """What the client of a role must have seen by the end. What is left out does not matter.

    Attributes:
        assigned, revoked, lost: how often it was given partitions, gave some up, and learned that some were lost.
        owns: how many partitions it has in the end.
        read: how many records it read.
        again: how many of these records it, or another, had read before.
        errors: the names of the errors that it was told of, in order, each once.
    """

    assigned: int | None = None
    revoked: int | None = None
    lost: int | None = None
    owns: int | None = None
    read: int | None = None
    again: int | None = None
    errors: list[str] | None = None


class Expect(_Strict):
    """What must come of the failure.

    Attributes:
        sees: what the clients see, by role.
        differs: by the name of a cast, what its clients see instead, by role.
        why: causes that ``ottla why`` must tell of, and the role that it must name with each; null for any.
        rebalances: how many there were, without the end of the last member.
        offsets: of the group, by partition: ``orders-0``.
    """

    sees: dict[str, Sees] = {}
    differs: dict[str, dict[str, Sees]] = {}
    why: dict[str, str | None] = {}
    rebalances: int | None = None
    offsets: dict[str, int] = {}

    def seen_by(self, role: str, cast: str) -> dict[str, Any]:
        """What a role must see where it is played by clients of a cast."""
        wanted = {}
        for sees in (self.sees.get(role), self.differs.get(cast, {}).get(role)):
            if sees is not None:
                wanted.update({key: value for key, value in structs.asdict(sees).items() if value is not None})
        return wanted


class _File(_Strict):
    """What a file has, as it is written; `Failure` has it checked."""

    title: str
    stands_for: list[Reference]
    story: str
    topics: dict[str, Any]
    steps: list[dict[str, Any]]
    expect: Expect
    settings: dict[str, Any] = {}
    group: str = "billing"
    consumers: dict[str, dict[str, Any] | None] = {}
    producers: dict[str, dict[str, Any] | None] = {}


class Failure(NamedTuple):
    """A failure.

    Attributes:
        name: of its file, without the suffix.
        topics, settings: of the broker, as `ottla.testing.Broker` takes them.
        group: of the consumers.
        consumers, producers: by role, their options under Kafka's names, beside what the player gives everyone.
    """

    name: str
    title: str
    stands_for: list[Reference]
    story: str
    topics: dict[str, Any]
    settings: dict[str, Any]
    group: str
    consumers: dict[str, dict[str, Any]]
    producers: dict[str, dict[str, Any]]
    steps: list[Step]
    expect: Expect

    @classmethod
    def read(cls, name: str, text: str) -> Failure:
        """A failure from the text of its file.

        Raises:
            BadFailure: it is not as it must be; the message names the place and what is allowed there.
        """
        import yaml  # takes long to import

        try:
            written = convert(yaml.safe_load(text), _File)
        except yaml.YAMLError as error:
            raise BadFailure(f"{name}: {error}") from None
        except ValidationError as error:
            raise BadFailure(f"{name}: {error}") from None
        given = structs.asdict(written)
        for kind in ("consumers", "producers"):
            given[kind] = {role: options or {} for role, options in given[kind].items()}
        given["steps"] = [_step(f"{name}, step {at}", one) for at, one in enumerate(written.steps, 1)]
        failure = cls(name=name, **given)
        _check(failure)
        return failure

    @property
    def roles(self) -> list[str]:
        return [*self.consumers, *self.producers]


def names() -> list[str]:
    """The names of all failures that there are."""
    return sorted(one.name.removesuffix(SUFFIX) for one in files(__name__).iterdir() if one.name.endswith(SUFFIX))


def text_of(name: str) -> str:
    """The file of a failure.

    Raises:
        BadFailure: there is none of the name.
    """
    if name not in (known := names()):
        raise BadFailure(f"there is no failure {name!r}{_meant(name, known)}")
    return files(__name__).joinpath(name + SUFFIX).read_text(encoding="utf-8")


def load(name: str) -> Failure:
    """A failure by its name. Raises `BadFailure`."""
    return Failure.read(name, text_of(name))


def _step(where: str, written: dict[str, Any]) -> Step:
    if len(written) != 1:
        raise BadFailure(f"{where}: {written!r} is no step: write one word and what goes with it, such as start: a")
    [(word, given)] = written.items()
    if word not in WORDS:
        raise BadFailure(f"{where}: there is no step {word!r}{_meant(word, WORDS)}")
    try:
        return Step(word, convert(given, WORDS[word].kind))
    except ValidationError as error:
        raise BadFailure(f"{where}, {word}: {error}") from None


def _check(failure: Failure) -> None:
    """Refuse what names something that there is not: a role, a fault, a topic."""
    faults: list[str] = []
    for at, step in enumerate(failure.steps, 1):
        where, given = f"{failure.name}, step {at}, {step.word}", step.given
        known = failure.roles
        if step.word in _OF_CONSUMERS:
            known = list(failure.consumers)
        elif step.word in _OF_PRODUCERS:
            known = list(failure.producers)
        for role in step.roles:
            _one_of(f"{where}: role", role, known)
        if step.word == "fault":
            faults.append(_fault(where, given, failure))
        elif step.word in ("release", "remove"):
            _one_of(f"{where}: fault", given, faults)
        elif isinstance(given, Wait):
            if given.fault is not None:
                _one_of(f"{where}: fault", given.fault, faults)
            if given.state is not None:
                _one_of(f"{where}: state", given.state, PHASES)
        elif isinstance(given, Advance) and not given.amount:
            raise BadFailure(f"{where}: say by how much, such as seconds: 6")
        elif step.word == "coordinator":
            _one_of(f"{where}:", given, _COORDINATOR)
        elif step.word in ("pause", "resume"):
            _one_of(f"{where}: group", given, [failure.group])
    expect = failure.expect
    named = [
        *expect.sees,
        *(role for one in expect.differs.values() for role in one),
        *filter(None, expect.why.values()),
    ]
    for role in named:
        _one_of(f"{failure.name}, expect: role", role, failure.roles)
    for cause in expect.why:
        _one_of(f"{failure.name}, expect: cause", cause, [str(one) for one in Cause])


def _fault(where: str, given: dict[str, Any], failure: Failure) -> str:
    """Check a rule as far as it can be without the ids of members; gives its name."""
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise BadFailure(f"{where}: a fault here needs a name")
    for value in given.values():
        if isinstance(value, str) and value.startswith("$"):
            _one_of(f"{where}: role", value[1:], list(failure.consumers))
    try:
        Rule.read(given)
    except BadRule as error:
        raise BadFailure(f"{where}: {error}") from None
    return name


def _one_of(what: str, given: str, known: Iterable[str]) -> None:
    known = list(known)
    if given not in known:
        raise BadFailure(f"{what} {given!r} is none of {', '.join(known) or 'those that there are: there is none'}")


def _meant(given: str, known: Iterable[str]) -> str:
    known = list(known)
    close = get_close_matches(given, known, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"


def all_failures() -> Iterator[Failure]:
    """All failures, by their names."""
    return map(load, names())
