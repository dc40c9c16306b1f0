"""The traces that are written by hand, and how they are run."""

from __future__ import annotations

import pprint
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.differential.beside import PROFILES, brokers
from tests.differential.calls import log_end, note_log
from tests.differential.compare import first_difference, leaders_only, report
from tests.differential.tracing import Script, Trace

AT_ONCE = 6
SINGLE = {"config", "cleaning", "isolation", "permission", "quota", "security", "trace_commits_to_the_empty_group"}
"""Traces, and whole modules ``…_traces`` of them, that change what others see."""


OF_ONE_NODE = {"session-of-a-deleted-topic"}
"""Traces of what several nodes have not: a session goes on where its topic was led before it was made again."""


class Case(NamedTuple):
    """A script with its name and the profile it needs."""

    name: str
    profile: str
    script: Script
    alone: bool = True  # only the first difference says something
    single: bool = False  # no other trace may run beside it


def cases() -> list[Case]:
    """Every trace that is written by hand."""
    found = []
    for path in sorted(Path(__file__).parent.glob("*_traces.py")):
        about = path.stem.removesuffix("_traces")
        for name, script in vars(import_module(f"tests.differential.{path.stem}")).items():
            if name.startswith("trace_"):
                profile = name.split("_")[1]
                profile = profile if profile in PROFILES else "prompt"
                found.append(
                    Case(
                        name.removeprefix("trace_").replace("_", "-"),
                        profile,
                        script,
                        about == "group",
                        not SINGLE.isdisjoint((about, name)),
                    )
                )
    return found


class Outcome(NamedTuple):
    """What came of a case: its answers, and how it differs if it does."""

    answers: int
    difference: str = ""
    unsteady: bool = False
    ambiguous: bool = False


ATTEMPTS = 3


def run_case(case: Case, ports: tuple[int, int], whole: bool = False) -> Outcome:
    """Run a trace, up to three times if it differs, each more patiently."""
    answers = 0
    for attempt in range(ATTEMPTS):
        theirs, ours = pair(ports, case, attempt)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(transcript, (theirs, ours), [case.script] * 2))
        answers += theirs.answers
        if whole:
            pprint.pp(theirs.transcript, width=150)
        at = first_difference(ours.transcript, theirs.transcript)
        if at is None:
            return Outcome(answers, unsteady=bool(attempt))
        if leaders_only(ours.transcript, theirs.transcript, at):
            return Outcome(answers, ambiguous=True)
    return Outcome(answers, report(case.name, ours.transcript, theirs.transcript, at, alone=case.alone))


def run_cases(wanted: list[Case], whole: bool, nodes: int | None = None) -> list[Outcome]:
    """Run hand-written traces: many at a time, but for those that change what others see."""
    found: list[Outcome] = []
    for profile in PROFILES:
        chosen = [case for case in wanted if case.profile == profile and not (nodes and case.name in OF_ONE_NODE)]
        if not chosen:
            continue
        with brokers(profile, nodes) as ports:
            single = [case for case in chosen if case.single]
            with ThreadPoolExecutor(1 if whole else AT_ONCE) as pool:
                for outcome in pool.map(lambda case: run_case(case, ports, whole),
                                        [case for case in chosen if not case.single]):  # fmt: skip
                    _say(outcome)
                    found.append(outcome)
            for case in single:
                found.append(run_case(case, ports, whole))
                _say(found[-1])
    return found


def _say(outcome: Outcome) -> None:
    if outcome.difference:
        print(outcome.difference, flush=True)


def transcript(trace: Trace, script: Script) -> None:
    try:
        start = log_end(trace)
        script(trace)
        note_log(trace, start)
    except Exception as error:  # a broker that answers nonsense must not end the run
        trace.note("the trace broke", repr(error))
    finally:
        trace.close()


def pair(ports: tuple[int, int], case: Case, attempt: int) -> tuple[Trace, Trace]:
    """The same trace for Kafka and for Ottla, each waiting for the other at every step."""
    name = f"{case.name}.{attempt}."  # no name begins with another: traces run at the same time
    theirs, ours = (Trace(port, name, quiet_ms=15 << (2 * attempt)) for port in ports)
    for trace, peer in ((theirs, ours), (ours, theirs)):
        trace.random.seed(case.name)
        trace.peer = peer
    return theirs, ours
