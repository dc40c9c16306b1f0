"""``python -m examples.migrate``: the migration demo, from the repository's root, with ``ottla[demo]`` installed.

A classic group under load moves to the protocol ``consumer`` (KIP-848) by a rolling restart, and back; then all its
members are stopped and started at once, to compare. Exit code 0 only if no record was lost, none was seen twice, no
partition had two owners, and the group was of the right type after each part.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from examples.demo.processes import Failed
from examples.demo.view import open_view
from examples.migrate.play import Play
from ottla.cli.output import Cell, Styled, print_table

MEMBERS = {"ottla-1": "ottla", "confluent-1": "confluent-kafka", "ottla-2": "ottla", "confluent-2": "confluent-kafka"}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.migrate", description="A group changes its protocol while it works, and back."
    )
    parser.add_argument("--directory", type=Path, default=Path(".demo/migrate"), help="all files [.demo/migrate]")
    parser.add_argument("--bootstrap", default="", help="a broker that runs, such as Apache Kafka; else one is started")
    given = parser.parse_args()
    shutil.rmtree(given.directory, ignore_errors=True)
    members = dict(MEMBERS)
    if find_spec("confluent_kafka") is None:
        members = {name: kind for name, kind in members.items() if kind == "ottla"}
    view = open_view()
    play = Play(given.directory, view, members, given.bootstrap)
    began = time.monotonic()
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
    found = problems(play)
    show(play, found)
    print(f"The whole run took {time.monotonic() - began:.1f} s.")
    if failure is not None:
        print(f"FAILED: {failure}.")
        for path in failure.look_at:
            print(f"  Look at {path}")
    if failure is not None or found:
        print(f"  The logs of all processes are in {given.directory / 'logs'}.")
        return 1
    print("Passed: the group changed its protocol in both directions; nothing was lost, doubled or seen twice.")
    return 0


def problems(play: Play) -> list[str]:
    """Everything that keeps the demo from having passed, a sentence each."""
    books, found = play.books, []
    if books.unseen:
        found.append(f"{len(books.unseen):,} records were lost: acknowledged, but seen by nobody")
    if books.repeated:
        found.append(f"{books.repeated:,} records were seen twice")
    found += [f"{one} took partition {partition} while {other} had it" for partition, other, one in books.doubled]
    found += [f"{member} lost partition {partition}" for member, partition in books.lost]
    found += [
        f"after {one.name!r} the group was of the type {one.group_type or 'unknown'}, not {one.wanted_type}"
        for one in play.phases
        if one.group_type != one.wanted_type
    ]
    return found


def show(play: Play, found: list[str]) -> None:
    """Print the tables."""
    books = play.books
    counts = (
        ("records sent", books.records_sent),
        ("lost", len(books.unseen)),
        ("seen twice", books.repeated),
        ("doubled owners", len(books.doubled)),
    )
    bad = dict(counts[1:])
    rows: list[tuple[Cell, Cell]] = [
        (what, Styled(f"{count:,}", "red" if bad.get(what) else "green")) for what, count in counts
    ]
    print()
    print_table(("", ""), rows)
    print()
    parts: list[tuple[Cell, ...]] = []
    for one in play.phases:
        stood_s, partition = books.longest_standstill(one.began_at, one.ended_at or time.time())
        took = f"{one.ended_at - one.began_at:.1f} s" if one.ended_at else None
        parts.append((one.name, took, one.group_type or None, f"{stood_s:.1f} s (partition {partition})"))
    print_table(("restart", "took", "the group is then", "longest standstill of a partition"), parts)
    print()
    for problem in found:
        print(f"FAILED: {problem}.")


if __name__ == "__main__":
    sys.exit(main())
