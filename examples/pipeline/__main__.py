"""``python -m examples.pipeline``: the pipeline's demo, from the repository's root, with ``ottla[demo,spark]``.

A broker, five groups on real clients, four of them in trouble; meanwhile and afterwards `ottla pipeline` reads what
happened. Exit code 0 only if it found what was planted, nothing of the healthy group, and every commit once; also where
there is no Java, as it says then.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import signal
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from examples.demo.processes import Failed, Process
from examples.demo.view import View, open_view
from examples.incidents.__main__ import hold
from examples.pipeline.play import PLANTED, TROUBLE_S, Play
from examples.pipeline.steps import Steps
from examples.pipeline.verdict import judge, show

STREAM_STARTS_S = 120.0
CATCH_UP_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.pipeline", description="Groups in trouble, and what the lake says of them."
    )
    parser.add_argument("--directory", type=Path, default=Path(".demo/pipeline"), help="all files [.demo/pipeline]")
    given = parser.parse_args()
    if reason := cannot_run():
        print(f"skipped: {reason}")
        return 0
    held = hold(given.directory)
    if held is None:
        print(f"FAILED: another run uses {given.directory}: wait for its end, or choose another with --directory.")
        return 1
    shutil.rmtree(given.directory, ignore_errors=True)
    given.directory.mkdir(parents=True)
    logging.basicConfig(
        filename=given.directory / "clients.log", format="%(asctime)s %(name)s %(levelname)s %(message)s"
    )
    view = open_view()
    began = time.monotonic()
    try:
        good = asyncio.run(run(given.directory, view))
    except Failed as error:
        view.close()
        print(f"FAILED after {time.monotonic() - began:.1f} s: {error}.")
        for path in error.look_at:
            print(f"  Look at {path}")
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        view.close()
        print("Stopped; all processes of the demo have ended.")
        return 130
    finally:
        view.close()
    if not good:
        print(f"FAILED: not all is told as it was. What the pipeline said is in {given.directory / 'pipeline.log'}.")
        return 1
    print(f"Passed in {time.monotonic() - began:.0f} s: what was planted is found, and every commit is there once.")
    return 0


def cannot_run() -> str:
    """The reason why Spark cannot run here; empty if it can."""
    if missing := [name for name in ("pyspark", "pyarrow", "numpy") if find_spec(name) is None]:
        return f"the pipeline needs {' and '.join(missing)}: pip install 'ottla[spark]'"
    from ottla.pipeline.session import NoJava, java_home

    try:
        java_home()
    except NoJava as error:
        return str(error)
    return ""


async def run(directory: Path, view: View) -> bool:
    """Play it, read it, and say whether it is told as it was."""
    task = asyncio.current_task()
    assert task is not None
    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # in each case no process is left behind
        asyncio.get_running_loop().add_signal_handler(ends, task.cancel)
    broker = Process(
        "the broker", directory / "broker.log", "ottla.cli", "serve", "--listen", "127.0.0.1:0",
        "--data-dir", str(directory / "data"), "--set", "group.min.session.timeout.ms=1000", alone=True,
    )  # fmt: skip
    await broker.start()
    steps: Steps | None = None
    play: Play | None = None
    try:
        bootstrap = await broker.first_line(30)
        view.note(f"broker at {bootstrap}; `ottla pipeline stream` starts, and {len(PLANTED)} groups")
        play, steps = Play(bootstrap, view), Steps(directory, bootstrap, view)
        await steps.begin_stream()
        await play.begin()
        # Lag in seconds is known of what was seen to come.
        await _until(steps.streams, "the first samples", STREAM_STARTS_S, steps)
        view.note(f"all groups are Stable; now {TROUBLE_S:.0f} s of trouble")
        await play.trouble()
        at_least = play.ledger.lengths()
        stopped = [one.group for one in PLANTED if one.status == "STOP"]
        await _until(lambda: steps.has_all(at_least, stopped), "all of it", CATCH_UP_S, steps)
        await steps.end_stream()
        await steps.gold()
        storms = await steps.query("storms", "stormy")
        report = await steps.report()
        verdicts, commits = judge(steps), play.ledger.compare(steps.commits(), at_least)
    finally:
        if play is not None:
            await play.end()
        if steps is not None:
            await steps.kill()
        await broker.kill()
    view.close()
    print("\n$ ottla pipeline query storms --group stormy\n" + storms.rstrip())
    good = show(verdicts, commits)
    print("  " + ", ".join(f"{step} {took:.0f} s" for step, took in steps.took_s.items()))
    print(f"  The report: {report.absolute()}")
    return good


async def _until(there: Callable[[], bool], what: str, patience_s: float, steps: Steps) -> None:
    """Wait for the lake to have something."""
    deadline = time.monotonic() + patience_s
    while not await asyncio.to_thread(there):  # the play goes on meanwhile
        if time.monotonic() > deadline:
            raise Failed(f"`ottla pipeline stream` did not write {what} in {patience_s:.0f} s", steps.log)
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
