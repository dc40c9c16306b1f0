"""``python -m examples.demo``: the demo, from the repository's root, with ``ottla[demo]`` installed.

Exit code 0 only if every line was seen, none was lost, and the committed offsets are the log ends.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from examples.demo.lines import collect
from examples.demo.play import GROUP, Plan, Play
from examples.demo.processes import Failed
from examples.demo.result import problems, show
from examples.demo.view import open_view

LINES = 200_000
QUICK = ("group.min.session.timeout.ms=1000", "group.initial.rebalance.delay.ms=500")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES, help=f"at least so many lines [{LINES}]")
    parser.add_argument("--quick", action="store_true", help="shorter sessions and delays, for tests")
    parser.add_argument("--secure", action="store_true", help="with TLS, SCRAM and rules, and clients that may not")
    parser.add_argument("--directory", type=Path, default=Path(".demo/run"), help="data, logs and reports [.demo/run]")
    given = parser.parse_args()
    corpus = collect(given.lines)
    print(f"{len(corpus.lines):,} lines of {corpus.files:,} files of {corpus.origin}.")
    if len(corpus.lines) < given.lines:
        print(f"That is all this machine has; {given.lines:,} were wanted.")
    shutil.rmtree(given.directory, ignore_errors=True)
    plan = Plan(lines=len(corpus.lines), directory=given.directory, secure=given.secure)
    if given.quick:
        plan = replace(plan, session_timeout_ms=2_000, stage_s=2, settings=QUICK)
    view = open_view()
    play = Play(plan, view)
    try:
        asyncio.run(play.run())
        failure = None
    except Failed as error:
        failure = error
    except KeyboardInterrupt:
        print("Stopped; all processes of the demo have ended.")
        return 130
    finally:
        view.close()
    found = problems(play, corpus)
    show(play, corpus, f"Python {platform.python_version()}", found)
    if failure is not None:
        print(f"FAILED after {play.elapsed_s:.1f} s: {failure}.")
        for path in failure.look_at:
            print(f"  Look at {path}{_last_line(path)}")
    if failure is not None or found:
        print(f"  The logs of all processes are in {plan.directory / 'logs'}; what they reported, in {play.reports}.")
        data = plan.directory / "data"
        print(f"  To look around: `ottla serve --data-dir {data}`, then `ottla groups describe {GROUP}`.")
        return 1
    refused = f" {len(play.attempts)} clients that may not were refused." if given.secure else ""
    print(f"Passed: every line was seen, none was lost, and the committed offsets are the log ends.{refused}")
    return 0


def _last_line(path: Path) -> str:
    """The last line of a log file, in words; empty if there is none."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return f", which ends: {lines[-1][:300]}" if lines else ""


if __name__ == "__main__":
    sys.exit(main())
