"""``python -m examples.incidents``: the incidents, from the repository's root, with ``ottla[demo]`` installed.

Exit code 0 only if ``ottla why`` names the true culprit and the true cause of every one.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import IO, Any

from examples.demo.processes import Failed
from examples.incidents.incidents import INCIDENTS
from examples.incidents.model import Incident, Truth, Verdict
from examples.incidents.show import show
from examples.incidents.stage import Stage
from examples.incidents.told import TOO_LATE, ask, judge, typed
from examples.incidents.view import Silent, View, open_view

DEADLINE_S = 150.0
STAGGER_S = 1.0
"""Between the beginnings of two incidents, so that not all clients start at the same moment."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.incidents", description="Incidents of consumer groups, and why they happened."
    )
    parser.add_argument(
        "--only", metavar="GROUP,…", default="", help=f"only these of {', '.join(one.group for one in INCIDENTS)}"
    )
    parser.add_argument("--keep", action="store_true", help="keep broker, members and console until Ctrl-C")
    parser.add_argument(
        "--quiz", action="store_true", help="as --keep, but tell only at the end what was done and who is to blame"
    )
    parser.add_argument(
        "--http", metavar="HOST:PORT", default="127.0.0.1:0", help="where the console listens [a free port]"
    )
    parser.add_argument("--directory", type=Path, default=Path(".demo/incidents"), help="logs [.demo/incidents]")
    given = parser.parse_args()
    known = {one.group for one in INCIDENTS}
    if unknown := [group for group in given.only.split(",") if group and group not in known]:
        parser.error(f"--only {unknown[0]!r}: no such group; there are {', '.join(sorted(known))}")
    return given


def main() -> int:
    given = arguments()
    chosen = [one for one in INCIDENTS if not given.only or one.group in given.only.split(",")]
    held = hold(given.directory)
    if held is None:
        print(f"FAILED: another run uses {given.directory}: wait for its end, or choose another with --directory.")
        return 1
    shutil.rmtree(given.directory, ignore_errors=True)
    view = Silent() if given.quiz else open_view()
    began = time.monotonic()
    stage = Stage(given.directory, view, given.http)
    try:
        verdicts = asyncio.run(run(stage, chosen, view, given))
    except Failed as error:
        view.close()
        print(f"FAILED after {time.monotonic() - began:.1f} s: {error}.")
        for path in error.look_at:
            print(f"  Look at {path}")
        return 1
    except asyncio.CancelledError:
        view.close()
        print("Stopped; all processes of the demo have ended.")
        return 130
    finally:
        view.close()
    wrong = [one for one in verdicts if not one.right]
    if wrong:
        print(f"  The logs of all processes are in {given.directory / 'logs'}.")
        if late := [one.incident.group for one in wrong if any(TOO_LATE in finding.wrong for finding in one.findings)]:
            print(f"  This machine may be too slow for all at once. Try: make demo-why DEMO='--only {','.join(late)}'")
        groups = ", ".join(one.incident.group for one in wrong)
        print(f"FAILED: {len(wrong)} of {len(verdicts)} incidents are not told as they were: {groups}.")
        return 1
    print(f"Passed: every culprit and every cause is named, {len(verdicts)} of {len(verdicts)}.")
    return 0


def hold(directory: Path) -> IO[str] | None:
    """Keep others from a directory for as long as this process runs; None if somebody does already."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = directory.with_name(f"{directory.name}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


async def run(stage: Stage, incidents: list[Incident], view: View, given: argparse.Namespace) -> list[Verdict]:
    """Play the incidents at the same time, and hear what is told about them."""
    topics = {topic: one.partitions for one in incidents for topic in one.topics or (one.group,)}
    began = time.monotonic()
    task = asyncio.current_task()
    assert task is not None
    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # in each case no process is left behind
        asyncio.get_running_loop().add_signal_handler(ends, task.cancel)
    async with stage.opened(topics):
        view.note("", f"broker at {stage.bootstrap}, console at {stage.console}")
        view.note("", "each incident has a group of its own; they are played at the same time")
        truths = await _play(stage, incidents)
        view.note("", "all incidents are over; now `ottla why` is asked about each")
        told = await asyncio.gather(*(ask(stage.bootstrap, one.group) for one in incidents))
        verdicts = [judge(one, true, episodes) for one, true, episodes in zip(incidents, truths, told, strict=True)]
        verdicts = list(await asyncio.gather(*(typed(stage.bootstrap, verdict) for verdict in verdicts)))
        view.close()
        if given.quiz:
            await _quiz(stage, verdicts)
            return verdicts
        show(verdicts)
        print(f"\nThe whole run took {time.monotonic() - began:.1f} s.")
        if given.keep:
            await _keep(stage)
        else:
            print("To look at all this in the console: make demo-why DEMO=--keep")
            print(f"All of it is recorded: {_ottla()} timeline {incidents[0].group} --file {stage.recording}")
    return verdicts


async def _play(stage: Stage, incidents: list[Incident]) -> list[list[Truth]]:
    """All of them; the first failure ends it."""

    async def one(number: int, incident: Incident) -> list[Truth]:
        await asyncio.sleep(number * STAGGER_S)
        return await incident.play(stage)

    plays = asyncio.gather(*(one(number, incident) for number, incident in enumerate(incidents)))
    watch = asyncio.create_task(stage.watch())
    try:
        async with asyncio.timeout(DEADLINE_S):
            waiting: set[asyncio.Future[Any]] = {plays, watch}
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if watch in done:
            watch.result()
        return await plays
    except TimeoutError:
        raise Failed(f"not done within {DEADLINE_S:.0f} s", stage.broker.log) from None
    finally:
        plays.cancel()
        watch.cancel()
        await asyncio.gather(plays, watch, return_exceptions=True)


async def _quiz(stage: Stage, verdicts: list[Verdict]) -> None:
    """Let everything run on until Ctrl-C, which brings the answers."""
    print("What happened to these groups, and who is to blame? Ctrl-C brings the answers.")
    print("  " + ", ".join(verdict.incident.group for verdict in verdicts))
    try:
        await _keep(stage)
    finally:
        show(verdicts)


async def _keep(stage: Stage) -> None:
    """Let everything run on until Ctrl-C, which is how it ends well."""
    print(f"Broker and members go on until Ctrl-C. The console: {stage.console}")
    print(f"Or ask on the command line: {_ottla()} why GROUP -b {stage.bootstrap}", flush=True)
    try:
        await stage.watch()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()


def _ottla() -> str:
    """The command's name here: it may be installed in an environment that is not active."""
    return "ottla" if shutil.which("ottla") else os.path.relpath(Path(sys.executable).with_name("ottla"))


if __name__ == "__main__":
    sys.exit(main())
