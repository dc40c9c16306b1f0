"""``python -m examples.nodes``: three nodes and five clients, from the repository's root; it needs ``ottla[demo]``.

The node that coordinates the group is killed, another one is restarted, and the way to the coordinator is shown
meanwhile. Exit code 0 only if every line was seen, none was lost, the committed offsets are the log ends, and nobody
rebalanced.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from examples.demo.__main__ import QUICK
from examples.demo.lines import collect
from examples.demo.play import Plan
from examples.demo.processes import Failed
from examples.demo.result import problems, show
from examples.demo.view import open_view
from examples.nodes.play import NodesPlay
from ottla.cli.output import Cell, Styled, print_table

LINES = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.nodes", description="Three nodes, of which one is killed."
    )
    parser.add_argument("--lines", type=int, default=LINES, help=f"at least so many lines [{LINES}]")
    parser.add_argument("--quick", action="store_true", help="shorter delays, for tests")
    parser.add_argument("--directory", type=Path, default=Path(".demo/nodes"), help="all files [.demo/nodes]")
    given = parser.parse_args()
    corpus = collect(given.lines)
    shutil.rmtree(given.directory, ignore_errors=True)
    plan = Plan(lines=len(corpus.lines), directory=given.directory, stage_s=4, session_timeout_ms=20_000)
    if given.quick:
        plan = replace(plan, stage_s=2, settings=QUICK)
    view = open_view()
    play = NodesPlay(plan, view)
    failure: Failed | None = None
    try:
        asyncio.run(play.run())
    except Failed as error:
        failure = error
    except KeyboardInterrupt:
        print("Stopped; all processes of the demo have ended.")
        return 130
    finally:
        view.close()
    found = [*problems(play, corpus), *rebalanced(play)]
    show(play, corpus, f"Python {platform.python_version()}", found)
    show_nodes(play)
    if failure is not None:
        print(f"FAILED after {play.elapsed_s:.1f} s: {failure}.")
        for path in failure.look_at:
            print(f"  Look at {path}")
    if failure is not None or found:
        print(f"  The logs of all processes are in {plan.directory / 'logs'}; what they reported, in {play.reports}.")
        return 1
    print("Passed: every line was seen, none was lost, and the group went on in its generation.")
    return 0


def rebalanced(play: NodesPlay) -> list[str]:
    """What is wrong with what became of the group, a sentence each."""
    found = [
        f"when {one.what}, the group went from generation {one.before} to {one.after}"
        for one in play.interruptions
        if one.before != one.after
    ]
    if len(play.interruptions) < 2:
        found.append("not everything was done to the nodes")
    return found


def show_nodes(play: NodesPlay) -> None:
    """Print what was done to nodes."""
    rows: list[tuple[Cell, ...]] = []
    for one in play.interruptions:
        same = one.before == one.after
        words = f"{one.after} goes on" if same else f"{one.before}, then {one.after}"
        rows.append((one.what, f"{one.away_s:.1f} s", Styled(words, "green" if same else "red")))
    print()
    print_table(("what was done", "away", "generation of the group"), rows, title="Nodes")
    print()


if __name__ == "__main__":
    sys.exit(main())
