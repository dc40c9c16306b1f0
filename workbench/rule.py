"""`Rule`: which requests a fault is about, and what it does with them, as it is written in Python, YAML and JSON.

```python
Rule.of("SyncGroup", group="billing", drop="response", times=1)
```
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from msgspec import Struct, ValidationError, convert, structs

from ottla.broker.handlers import HANDLERS
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.workbench.named import named_by

Side: TypeAlias = Literal["request", "response"]
"""``request``: before the broker has done anything. ``response``: it has done it, and the answer is on its way."""

ANY_API = "*"
API_KEYS: dict[str, ApiKey] = {"".join(map(str.capitalize, key.name.split("_"))): key for key in HANDLERS}
"""The APIs that rules may name."""
PHASES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead")
ACTIONS = ("error", "delay", "drop", "close", "hold", "corrupt", "throttle", "elsewhere", "restart")
_NAMED = ("group", "member", "instance", "topic", "transactional_id")
_OF_A_GROUP = ("phase", "leader", "generation")


_SIDES, _NUMBER, _SECONDS = "'request' or 'response'", "a number", "seconds, such as 2.5"
_ALLOWED = {
    "api": "the name of an API, such as 'SyncGroup', a list of them, or '*'",
    "drop": _SIDES,
    "close": _SIDES,
    "hold": _SIDES,
    "on": _SIDES,
    "error": "the name of an error, such as 'NOT_COORDINATOR', or its number",
    "delay": _SECONDS,
    "throttle": _SECONDS,
    "elsewhere": f"{_SECONDS}, or True",
    "restart": f"{_SECONDS}, or True",
    "leader": "True or False",
    "corrupt": "True",
    "allow_unused": "True or False",
    "generation": _NUMBER,
    "node": "the id of a node",
    "nth": _NUMBER,
    "times": _NUMBER,
    "seed": _NUMBER,
    "chance": "a number above 0, up to 1",
}
"""What may stand for a key; for all others it is a text."""


class BadRule(ValueError):
    """A rule cannot be as it is written; the message says what was meant."""


class Rule(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """One fault: a trigger, whose parts must all be so, and one action.

    Attributes:
        api: the API, such as ``SyncGroup``, or several; ``*`` stands for all.
        group, member, instance, topic, transactional_id, client_id: what the request names, and who sends it: a group
            id, a member id, a ``group.instance.id``, a topic.
        phase: the state of the request's group when it comes: ``CompletingRebalance``, for example.
        leader: whether the sender is the leader of the group at that moment.
        generation: of the group at that moment.
        node: the id of the node that the request comes to, where there are several.
        nth: only the nth of the requests that are so, counted from 1.
        times: it fires so often at most.
        chance: it fires with this probability, from a generator with the seed ``seed``.
        error: the name or the number of the code to answer with; nothing is done then.
        delay: seconds, on the broker's clock, for which the request waits before it is served.
        drop: the request, or its answer, is lost. The connection stays open and is silent, until the client ends it.
        close: the connection is closed in the place of the request, or of its answer. True: of the request.
        hold: the request, or its answer, waits until it is released. True: the request.
        corrupt: some bytes of the answer are changed.
        throttle: seconds that the answer tells the client to wait, in which its connection is not read from.
        elsewhere: the coordinator of the request's group moves away; after so many seconds, or when it is released, it
            is back.
        restart: the broker loses all connections and accepts none for so many seconds; True: for a moment.
        on: ``response`` has ``error`` and ``delay`` come after the request was served.
        allow_unused: it need not fire.
        name: tells it from others; made of the rest by default.
    """

    api: str | list[str]
    group: str | None = None
    member: str | None = None
    instance: str | None = None
    topic: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    phase: str | None = None
    leader: bool | None = None
    generation: int | None = None
    node: int | None = None
    nth: int | None = None
    times: int | None = None
    chance: float | None = None
    seed: int = 0
    error: str | int | None = None
    delay: float | None = None
    drop: Side | None = None
    close: Side | bool | None = None
    hold: Side | bool | None = None
    corrupt: bool | None = None
    throttle: float | None = None
    elsewhere: float | bool | None = None
    restart: float | bool | None = None
    on: Side | None = None
    allow_unused: bool = False
    name: str = ""

    @classmethod
    def of(cls, api: Any = None, /, **given: Any) -> Rule:
        """A rule as it is typed. Raises `BadRule`."""
        return cls.read({"api": api, **given})

    @classmethod
    def read(cls, given: Mapping[Any, Any]) -> Rule:
        """A rule as a file or a request has it. Raises `BadRule`."""
        if not isinstance(given, Mapping):
            raise BadRule(f"{given!r} is no fault: write a mapping, such as api: SyncGroup, drop: response")
        given = {"on" if key is True else key: value for key, value in given.items()}  # so YAML 1.1 reads the word
        fields = [field.name for field in structs.fields(cls)]
        for key in given:
            if key not in fields:
                raise BadRule(f"a fault has no {key!r}{_meant(key, fields)}; it may have {', '.join(fields)}")
        if not given.get("api"):
            raise BadRule("a fault needs an API: write SyncGroup, for example, or '*' for every one")
        try:
            rule = convert({key: value for key, value in given.items() if value is not None}, cls)
        except ValidationError as error:
            raise BadRule(_told(str(error), given)) from None
        return rule._checked()

    def _checked(self) -> Rule:
        apis = [_api(one) for one in self.apis]
        actions = self._actions()
        if len(actions) != 1:
            found = f"{', '.join(actions)} are {len(actions)}" if actions else "there is none"
            raise BadRule(f"a fault does one thing: {found}; write one of {', '.join(ACTIONS)}")
        self._check_named(apis)
        if self.phase is not None and self.phase not in PHASES:
            raise BadRule(f"phase={self.phase!r}: write one of {', '.join(PHASES)}")
        for name, least in (("nth", 1), ("times", 1), ("generation", 0), ("node", 0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < least):
                raise BadRule(f"{name}={value!r}: write a number from {least}")
        for name in ("delay", "throttle", "elsewhere", "restart"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise BadRule(f"{name}={value!r}: write seconds, such as {name}=2.5")
        if self.chance is not None and not 0 < self.chance <= 1:
            raise BadRule(f"chance={self.chance!r}: write a number above 0, up to 1")
        if self.error is not None:
            _code(self.error)
        if self.on is not None and self.error is None and self.delay is None:
            raise BadRule(f"on={self.on!r} is for error and delay: write {actions[0]}={self.on!r} instead")
        shown = self.api if isinstance(self.api, str) and self.api == ANY_API else apis if len(apis) > 1 else apis[0]
        return structs.replace(self, api=shown)

    def _check_named(self, apis: Iterable[str]) -> None:
        """Refuse a trigger that could never be: an API whose requests name nothing of the kind."""
        wanted = [name for name in _NAMED if getattr(self, name) is not None]
        wanted += ["group" for name in _OF_A_GROUP if getattr(self, name) is not None]
        if self.action == "elsewhere":
            wanted.append("group")
        for name in apis:
            if name == ANY_API:
                continue
            named = named_by(API_KEYS[name])
            for one in wanted:
                if one not in named:
                    has = ", ".join([*(kind for kind in _NAMED if kind in named), "client_id"])
                    raise BadRule(f"{name} requests name no {one}: a fault of theirs may be told by {has}")

    @property
    def apis(self) -> list[str]:
        """The APIs that it is about."""
        return [self.api] if isinstance(self.api, str) else self.api

    @property
    def action(self) -> str:
        """The name of its action."""
        return self._actions()[0]

    def _actions(self) -> list[str]:
        given = structs.asdict(self)
        return [name for name in ACTIONS if given[name] is not None and given[name] is not False]

    @property
    def side(self) -> Side:
        """Where it takes hold of a request."""
        given: Any = getattr(self, self.action)
        if self.corrupt or self.throttle is not None:
            return "response"
        if given in ("request", "response"):
            return "response" if given == "response" else "request"
        return self.on or "request"

    @property
    def code(self) -> ErrorCode:
        """The error that it answers with."""
        assert self.error is not None
        return _code(self.error)

    def __str__(self) -> str:
        """The rule as it would be typed, without what it need not say."""
        shown = {key: value for key, value in structs.asdict(self).items() if value is not None}
        parts = [repr(shown.pop("api"))]
        default = {field.name: field.default for field in structs.fields(Rule)}
        parts += [f"{key}={value!r}" for key, value in shown.items() if value != default[key]]
        return ", ".join(parts)


def _api(given: str) -> str:
    if given == ANY_API:
        return given
    plain = {name.lower(): name for name in API_KEYS}
    name = plain.get(given.replace("_", "").lower())
    if name is None:
        raise BadRule(f"there is no API {given!r}{_meant(given, API_KEYS)}; '*' stands for every one")
    return name


def _code(given: str | int) -> ErrorCode:
    try:
        code = ErrorCode(given) if isinstance(given, int) else ErrorCode[given.upper()]
    except (KeyError, ValueError):
        meant = _meant(str(given).upper(), [code.name for code in ErrorCode])
        raise BadRule(f"error={given!r} is no error of Kafka's{meant}") from None
    if not code:
        raise BadRule("error='NONE' is no error: leave the fault out")
    return code


def _meant(given: str, known: Iterable[str]) -> str:
    close = get_close_matches(given, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""


def _told(text: str, given: Mapping[str, Any]) -> str:
    """Name the key, its value and what is allowed, where msgspec names types."""
    what, _, where = text.partition(" - at `$.")
    key = where.rstrip("`").partition("[")[0]
    if not key:
        return what
    return f"{key}={given.get(key)!r}: write {_ALLOWED.get(key, 'a text')}"
