"""Interop suites. Each folder here has a ``suite.py`` with one of these as ``SUITE``."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

from ottla.testing import BrokerProcess

S = TypeVar("S")
Outcome = Literal["passed", "failed", "skipped"]


class NotAvailable(Exception):
    """The suite cannot run on this machine; the text is the reason that the page shows."""


class NotHere(Exception):
    """A test cannot be made with this broker; the text says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test. ``reason``: why it did not pass; of a failure the end of its output."""

    test: str
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of a suite: ``source`` is in the tree, ``cache`` holds everything fetched and built for it."""

    source: Path
    cache: Path


@dataclass(slots=True)
class Run:
    """One run of a suite.

    Attributes:
        bootstrap: ``host:port`` of the broker; of several nodes with commas between.
        broker: the process, for suites that restart it; None where the broker was given from outside.
        scratch: an empty directory that is removed afterwards.
        say: prints a line for whoever watches.
        options: ``--option key=value`` of the command line.
    """

    place: Place
    bootstrap: str
    broker: BrokerProcess | None
    scratch: Path
    say: Callable[[str], None]
    options: Mapping[str, str] = field(default_factory=dict)


def _nothing_missing() -> str:
    return ""


def _nothing_to_prepare(place: Place) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A client, a set of tools or somebody else's test-suite.

    Attributes:
        name: the folder's name, with which it is loaded; ``make interop-NAME`` with dashes.
        title, language: as docs/compatibility.md shows them.
        missing: "" if the toolchain is there, else the reason for skipping.
        prepare: fetch and build into ``place.cache``; quick when it was done before. Raises NotAvailable.
        versions: what was tried, for the page: ``franz-go 1.22.2, go 1.26``.
        settings: settings of the broker, beyond those that every suite gets (``EVERY_SUITE``).
        run: yields the results as they come.
        known: test ids (fnmatch patterns) that may fail, with the reason; a skipped test may be given a better one.
        known_of_nodes: more of them, which count where there are several nodes.
        alone: "", or the reason why it cannot run where there are several nodes.
        foreign: the tests are somebody else's; what a suite has to change of them, its title says.
        sampled: with the option ``sample=SEED``, as ``make interop`` has it, a part of the tests runs, and is not kept.
    """

    name: str = ""
    title: str
    language: str
    versions: Callable[[Place], str]
    run: Callable[[Run], Iterable[Result]]
    missing: Callable[[], str] = _nothing_missing
    prepare: Callable[[Place], None] = _nothing_to_prepare
    settings: Mapping[str, object] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    known_of_nodes: Mapping[str, str] = field(default_factory=dict)
    alone: str = ""
    foreign: bool = False
    sampled: bool = False


EVERY_SUITE: Mapping[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    # Tools list all topics, and Kafka does not have this one.
    "ottla.group.events.enable": False,
}

QUICK_CONSUMER_GROUPS: Mapping[str, object] = {
    "group.consumer.session.timeout.ms": 2000,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
"""Of suites whose clients also use the consumer protocol (KIP-848), where the broker decides about sessions."""


def played(test: str, play: Callable[[], object]) -> Result:
    """Play a test of ours to its end."""
    began = time.monotonic()
    try:
        play()
    except NotHere as absent:
        return Result(test, "skipped", str(absent))
    except Exception:
        return Result(test, "failed", traceback.format_exc()[-8000:], time.monotonic() - began)
    return Result(test, "passed", "", time.monotonic() - began)


def told(name: str, story: S, steps: Mapping[str, Callable[[S], None]]) -> Iterator[Result]:
    """Play steps of which each rests on those before it; when one fails, those behind it fail with that."""
    failed = ""
    for step, play in steps.items():
        test = f"{name} {step}"
        result = Result(test, "failed", f"{failed} failed") if failed else played(test, partial(play, story))
        failed = failed or (step if result.outcome == "failed" else "")
        yield result


def sampled(names: Sequence[str], one_in: int, seed: str, say: Callable[[str], None]) -> list[str]:
    """A part of some tests, chosen by the seed and told."""
    some = sorted(Random(seed).sample(names, len(names) // one_in))
    say(f"sample={seed}: {', '.join(some)}")
    return some


def _port_taken(ports: Iterable[int]) -> str:
    """Why tests that look for a broker at these ports cannot run; "" if they can."""
    for port in ports:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                return f"port {port}, at which these tests look for a broker, is taken"
    return ""


def needs(*programs: str, ports: Iterable[int] = ()) -> Callable[[], str]:
    """A ``missing`` that looks for programs on the path, and at ports where the broker is to listen."""

    def missing() -> str:
        absent = [program for program in programs if shutil.which(program) is None]
        return f"not installed: {', '.join(absent)}" if absent else _port_taken(ports)

    return missing


def checked(command: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None,
            timeout_s: float = 900) -> str:  # fmt: skip
    """Run a command that fetches or builds, and give what it printed.

    Raises:
        NotAvailable: it failed; the reason has the end of what it printed.
    """
    try:
        done = subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailable(f"{command[0]}: {error}") from error
    if done.returncode:
        raise NotAvailable(f"`{' '.join(command[:3])} …` failed: {' '.join(done.stdout.split())[-300:]}")
    return done.stdout
