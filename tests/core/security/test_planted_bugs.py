"""Bugs planted in the authorizer, in the mechanisms and in the conversation: the tests of these have to find each.

The tests are those of the modules named below, called without pytest, so that hundreds of them take a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

from tests.core.security import test_authorizer, test_equal_costs, test_plain_users, test_scram, test_tokens
from tests.protocol import test_sasl_oauthbearer, test_sasl_plain, test_sasl_scram
from tests.shell import test_authentication, test_sessions
from tests.shell.guests import Client, World
from tests.sim.mutants import Mutant, failure_of, read_bugs

BUGS = read_bugs("security")
FINDERS: dict[str, tuple[ModuleType, ...]] = {
    "security.authorizer": (test_authorizer,),
    "security.plain_users": (test_plain_users, test_equal_costs),
    "security.scram": (test_scram, test_equal_costs),
    "security.tokens": (test_tokens,),
    "ottla.protocol.sasl.oauthbearer": (test_sasl_oauthbearer,),
    "ottla.protocol.sasl.plain": (test_sasl_plain,),
    "ottla.protocol.sasl.scram": (test_sasl_scram, test_equal_costs),
    "ottla.broker.net.authentication": (test_authentication, test_sessions),
    "ottla.broker.net.guests": (test_authentication, test_sessions),
}
"""By module, what looks for bugs in it."""


def calls(module: ModuleType) -> Iterator[tuple[Callable[..., object], dict[str, Any]]]:
    """The tests of a module with every set of parameters, without those that make up examples of their own."""
    for name, test in vars(module).items():
        if not name.startswith("test_") or hasattr(test, "hypothesis"):
            continue
        rows: list[list[dict[str, Any]]] = []
        for mark in getattr(test, "pytestmark", ()):
            if mark.name == "parametrize":
                names, values = mark.args
                named = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
                rows.append([dict(zip(named, row if len(named) > 1 else (row,), strict=True)) for row in values])
        for chosen in product(*rows):
            yield test, {key: value for row in chosen for key, value in row.items()}


@contextmanager
def fixtures(test: Callable[..., object]) -> Iterator[dict[str, Any]]:
    """What a test wants besides its parameters."""
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        world = World()
        made: dict[str, Any] = {"world": world, "monkeypatch": patch, "tmp_path": Path(folder)}
        if "client" in wanted:
            made["client"] = world.connect()
        if "ending" in wanted:
            made["ending"] = ending(world)
        yield {name: made[name] for name in wanted if name in made}


def ending(world: World) -> Client:
    """As the fixture of that name in `tests.shell.test_sessions`."""
    world.mechanisms.most_ms = 5_000
    client = world.connect()
    client.log_in()
    return client


def run(*modules: ModuleType) -> int:
    """Call all of them; gives how many there are."""
    count = 0
    for module in modules:
        for test, parameters in calls(module):
            with fixtures(test) as more:
                test(**more | parameters)
            count += 1
    return count


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant, record_property: pytest.Recorder) -> None:
    finders = FINDERS[bug.where.partition(":")[0]]
    with bug.planted():
        error = found(lambda: run(*finders))
    assert error is not None, f"{bug.name}: no test has found it"
    record_property("killed by", repr(error))
    assert not isinstance(error, NameError | AttributeError | SyntaxError), "a bug of the bug"


def found(work: Callable[[], object]) -> BaseException | None:
    """The error with which tests fail; that pytest itself raises where one was expected and none came, too."""
    try:
        return failure_of(work)
    except pytest.fail.Exception as error:
        return error


def test_nothing_is_found_where_nothing_is_planted() -> None:
    assert run(*dict.fromkeys(module for modules in FINDERS.values() for module in modules)) > 300
