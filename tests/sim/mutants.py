"""Planted bugs: mistakes that one makes when one writes a broker. What is said to find them must find each.

A bug is a change of the text of one function. Its compiled code takes the place of the right one for a while, under
whatever name others have imported it, and is taken out again.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

CORE = "ottla.broker.core"


@dataclass(frozen=True)
class Mutant:
    """Replace ``right`` by ``wrong`` in the function ``where``; a module that is not named whole is one of the core.

    Attributes:
        focus: what the worlds that look for it must have, where it takes several things at once to show.
    """

    name: str
    where: str
    right: str
    wrong: str
    focus: tuple[str, ...] = ()

    @contextmanager
    def planted(self) -> Iterator[None]:
        function = self.function()
        code = function.__code__
        function.__code__ = self._mutated(function)
        try:
            yield
        finally:
            function.__code__ = code

    def function(self) -> FunctionType:
        module, _, path = self.where.partition(":")
        found: Any = import_module(module if module.startswith(("ottla.", "tests.")) else f"{CORE}.{module}")
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
        found = found.fget if isinstance(found, property) else found
        assert isinstance(found, FunctionType)
        return found

    def _mutated(self, function: FunctionType) -> CodeType:
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.right) == 1, f"{self.name}: {self.where} has no single {self.right!r} any more"
        module = compile(
            source.replace(self.right, self.wrong),
            f"<{self.name}>",
            "exec",
            flags=function.__code__.co_flags & 0x1000000,
        )
        return next(
            constant
            for constant in module.co_consts
            if isinstance(constant, CodeType) and constant.co_name == function.__name__
        )


def failure_of(work: Callable[[], object]) -> Exception | None:
    """The error with which some work ends, if it ends with one."""
    try:
        work()
    except Exception as error:
        return error
    return None


def read_bugs(name: str) -> list[Mutant]:
    """The bugs of a file in the folder bugs.

    Each begins with ``== `` and its name; then the function, what the worlds must have, if anything, the lines that
    are right behind ``- ``, and the wrong ones behind ``+ ``.
    """
    text = (Path(__file__).parent / "bugs" / f"{name}.bugs").read_text("utf-8")
    bugs = []
    for entry in text.removeprefix("== ").split("\n== "):
        title, where, *lines = entry.rstrip("\n").split("\n")
        focus = tuple(lines.pop(0).removeprefix("in worlds with ").split(", ")) if lines[0].startswith("in ") else ()
        right, wrong = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        bugs.append(Mutant(title, where, right, wrong, focus))
    return bugs


MUTANTS = read_bugs("groups")
PREPARED_MUTANTS = read_bugs("prepared")
"""Of commits that are recognised by their bytes: they are found in worlds with connections."""
PARTITION_MUTANTS = read_bugs("partitions")
PENDING_MUTANTS = read_bugs("pending")
TRANSACTION_MUTANTS = read_bugs("transactions")
CLUSTER_MUTANTS = read_bugs("cluster")
RARE_CLUSTER_MUTANTS = read_bugs("cluster_rare")
"""Of clusters as well, but they show only where several things come together."""
