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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from examples.demo.__main__ import QUICK
from examples.demo.lines import collect
from examples.demo.play import Plan
from examples.demo.processes import Failed
from examples.demo.result import problems, show
from examples.demo.view import View, open_view
from examples.nodes.play import NodesPlay
from ottla.cli.output import Cell, Styled, print_table

LINES = 100_000


def main() -> int:
    return play_and_tell(options("nodes", "Three nodes, of which one is killed."), NodesPlay)


def options(name: str, description: str) -> argparse.Namespace:
    """The options of a demo of nodes."""
    parser = argparse.ArgumentParser(prog=f"python -m examples.{name}", description=description)
    parser.add_argument("--lines", type=int, default=LINES, help=f"at least so many lines [{LINES}]")
    parser.add_argument("--quick", action="store_true", help="shorter delays, for tests")
    directory = Path(".demo", name)
    parser.add_argument("--directory", type=Path, default=directory, help=f"all files [{directory}]")
    return parser.parse_args()


def play_and_tell(given: argparse.Namespace, play_of: Callable[[Plan, View], NodesPlay]) -> int:
    """Play, and print what came of it; gives the exit code."""
    corpus = collect(given.lines)
    shutil.rmtree(given.directory, ignore_errors=True)
    plan = Plan(lines=len(corpus.lines), directory=given.directory, stage_s=4, session_timeout_ms=20_000)
    if given.quick:
        plan = replace(plan, stage_s=2, settings=QUICK)
    view = open_view()
    play = play_of(plan, view)
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
    print("Passed: every line was seen, none was lost or doubled, and the group went on in its generation.")
    return 0


def rebalanced(play: NodesPlay) -> list[str]:
    """What is wrong with what became of the group, a sentence each."""
    found = [
        f"when {one.what}, the group went from generation {one.before} to {one.after}"
        for one in play.interruptions
        if one.before != one.after
    ]
    if len(play.interruptions) < play.count:
        found.append("not everything was done to the nodes")
    elif play.last_generation != play.interruptions[-1].after:
        found.append(f"in the end the group was in generation {play.last_generation}")
    return found


def show_nodes(play: NodesPlay) -> None:
    """Print what was done to nodes."""
    rows: list[tuple[Cell, ...]] = []
    for one in play.interruptions:
        same = one.before == one.after
        words = f"{one.after} goes on" if same else f"{one.before}, then {one.after}"
        lasted = (f"{seconds:.1f} s" for seconds in one.lasted_s)
        rows.append((one.what, *lasted, Styled(words, "green" if same else "red")))
    print()
    print_table(("what was done", *play.lasted, "generation of the group"), rows, title="Nodes")
    print()


if __name__ == "__main__":
    sys.exit(main())
