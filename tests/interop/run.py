"""Run interop suites: ``python -m tests.interop.run franz_go kafkajs``, or ``all``.

Each gets a fresh broker of its own, with its log on disk, and with ``--nodes N`` so many nodes. What a run of one
broker found is kept in docs/compatibility/ and printed as docs/compatibility.md. ``all`` has the longest suites run a
sample, which changes with the day and is not kept; ``--minutes N`` leaves other projects' tests out, and chooses by the
day suites of our own scenarios that took N minutes together. The exit code is 1 if a test failed that has no known
reason.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from ottla.testing import BrokerProcess
from tests.interop.report import write_page
from tests.interop.results import Record, known_reason, unexpected
from tests.interop.results import load as read_records
from tests.interop.suite import EVERY_SUITE, NotAvailable, Place, Result, Run, Suite

HERE = Path(__file__).parent
BROKERS_LOG = "(broker's log)"
_SIGNS = {"passed": "ok   ", "failed": "FAIL ", "skipped": "skip "}
_KNOWN = "known"


def names() -> list[str]:
    """Every suite there is."""
    return sorted(path.parent.name for path in HERE.glob("*/suite.py"))


def load(name: str) -> Suite:
    return replace(importlib.import_module(f"tests.interop.{name}.suite").SUITE, name=name)


def of_the_day(wanted: list[str], minutes: float, seed: str) -> list[str]:
    """As many suites of our scenarios as took so many minutes together, chosen by the seed; one at least."""
    seconds = {record.name: record.seconds for record in read_records()}
    own = [name for name in wanted if not load(name).foreign]
    chosen: list[str] = []
    for name in Random(seed).sample(own, len(own)):
        if not chosen or sum(seconds.get(one, 0) for one in (*chosen, name)) <= minutes * 60:
            chosen.append(name)
    print(f"sample={seed}: {', '.join(sorted(chosen))}; without {', '.join(sorted({*wanted} - {*chosen}))}")
    return [name for name in wanted if name in chosen]


def place_of(name: str) -> Place:
    cache = Path(os.environ.get("OTTLA_INTEROP_CACHE") or Path.home() / ".cache" / "ottla-interop")
    place = Place(HERE / name, cache / name)
    place.cache.mkdir(parents=True, exist_ok=True)
    return place


@contextmanager
def _broker(
    suite: Suite, bootstrap: str, nodes: int | None, directory: Path
) -> Iterator[tuple[str, BrokerProcess | None]]:
    if bootstrap:
        yield bootstrap, None
        return
    settings = {**EVERY_SUITE, **suite.settings}
    with BrokerProcess(directory / "data", settings=settings, nodes=nodes) as broker:
        yield broker.bootstrap_servers, broker


def run_suite(
    suite: Suite,
    *,
    bootstrap: str = "",
    nodes: int | None = None,
    options: dict[str, str] | None = None,
    keep: bool = True,
    again: int = 0,
) -> bool:
    """Prepare and run one suite. Gives whether everything that must pass did; a suite that cannot run is no failure.

    ``again``: so many times more, each on a fresh broker, while tests fail that should not; those that pass then are
    named on the page as unsteady.
    """
    print(f"\n=== {suite.title} ({suite.language})", flush=True)
    if nodes:
        suite = replace(suite, known={**suite.known, **suite.known_of_nodes})
    place = place_of(suite.name)
    began = time.monotonic()
    try:
        if reason := suite.missing() or (suite.alone if nodes else ""):
            raise NotAvailable(reason)
        suite.prepare(place)
        versions = suite.versions(place)
    except NotAvailable as missing:
        print(f"SKIPPED: {missing}", flush=True)
        return True
    print(f"    {versions}; prepared in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    results = _once(suite, place, bootstrap, nodes, options or {})
    seconds = time.monotonic() - began
    unsteady: list[str] = []
    while again and (bad := unexpected(suite, results)):
        again -= 1
        print(f"    once more, for {', '.join(one.test for one in bad)}", flush=True)
        failed = {one.test for one in bad}
        second = {one.test: one for one in _once(suite, place, bootstrap, nodes, options or {})}
        unsteady += [test for test in failed if test in second and second[test].outcome == "passed"]
        results = [second.get(one.test, one) if one.test in unsteady else one for one in results]
    bad = unexpected(suite, results)
    if not results:
        print("    FAIL no test ran")
    counts = {outcome: sum(one.outcome == outcome for one in results) for outcome in _SIGNS}
    print(
        f"    {', '.join(f'{count} {outcome}' for outcome, count in counts.items())} in {seconds:.0f} s"
        + (f"; passed when run again: {', '.join(unsteady)}" if unsteady else "")
        + (f"; {len(bad)} without a known reason" if bad else ""),
        flush=True,
    )
    if keep and results and not (suite.sampled and "sample" in (options or {})):
        Record.of(suite, versions, results, datetime.now(UTC).strftime("%Y-%m-%d"), seconds, unsteady).save()
    return bool(results) and not bad


def _once(suite: Suite, place: Place, bootstrap: str, nodes: int | None, options: dict[str, str]) -> list[Result]:
    """One run on a fresh broker. A traceback in the broker's log is a failure too."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix=f"ottla-interop-{suite.name}-") as directory:
        scratch = Path(directory) / "scratch"
        scratch.mkdir()
        with _broker(suite, bootstrap, nodes, Path(directory)) as (address, broker):
            for result in suite.run(Run(place, address, broker, scratch, _say, options)):
                results.append(result)
                _print(suite, result)
            if broker is not None and "Traceback" in (log := broker.log_text()):
                at = log.index("Traceback")
                results.append(Result(BROKERS_LOG, "failed", log[max(0, at - 1000) : at + 3000]))
                _print(suite, results[-1])
    return results


def _say(words: str) -> None:
    print(f"    {words}", flush=True)


def _print(suite: Suite, result: Result) -> None:
    known = known_reason(suite.known, result.test)
    sign = _KNOWN if known and result.outcome == "failed" else _SIGNS[result.outcome]
    line = f"    {sign} {result.test} ({result.seconds:.1f} s)"
    if result.outcome == "passed":
        print(line + (f"; passes now, though it is listed as: {known}" if known else ""), flush=True)
        return
    if known or result.outcome == "skipped":
        print(f"{line}: {known or ' '.join(result.reason.split())[:160]}", flush=True)
        return
    print(line, flush=True)
    for text in result.reason.splitlines()[-40:]:
        print(f"         {text}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"all, or of: {', '.join(names())}")
    parser.add_argument("--bootstrap", default="", metavar="HOST:PORT", help="use this broker; results are not kept")
    parser.add_argument("--nodes", type=int, metavar="N", help="run so many nodes; results are not kept")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the suite; results are not kept",
    )
    parser.add_argument("--again", type=int, default=0, metavar="N", help="run a suite that fails so many times more")
    parser.add_argument("--minutes", type=float, metavar="N", help="with all: suites for so many minutes, by the day")
    given = parser.parse_args(arguments)
    wanted = names() if "all" in given.names else [name.replace("-", "_") for name in given.names]
    if unknown := sorted(set(wanted) - set(names())):
        parser.error(f"no suite {', '.join(unknown)}; there are: {', '.join(names())}")
    options = dict(pair.partition("=")[::2] for pair in given.option)
    if "all" in given.names:
        options.setdefault("sample", datetime.now(UTC).strftime("%Y%m%d"))
        if given.minutes is not None:
            wanted = of_the_day(wanted, given.minutes, options["sample"])
    keep = not given.bootstrap and not given.nodes and not given.option
    bad = []
    for name in wanted:
        how = {"options": options, "keep": keep, "again": given.again}
        if not run_suite(load(name), bootstrap=given.bootstrap, nodes=given.nodes, **how):
            bad.append(name)
        if keep:
            write_page()
    if keep:
        print("\nWhat was found is written to docs/compatibility/ and docs/compatibility.md.")
    print(
        f"\n{len(wanted) - len(bad)} of {len(wanted)} suites as they should be"
        + (f"; not: {', '.join(bad)}" if bad else "")
    )
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
