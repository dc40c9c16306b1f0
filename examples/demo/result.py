"""The outcome of a run: what went wrong, if anything, and the tables at the end."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from examples.demo.broker_log import Rebalance
from examples.demo.guest import Attempt
from examples.demo.lines import Corpus
from examples.demo.play import KILLED, LEAVES, Play
from examples.demo.security import GUEST
from ottla.cli.output import Cell, Styled, print_table


def problems(play: Play, corpus: Corpus) -> list[str]:
    """Everything that keeps the demo from having passed, a sentence each."""
    ledger, found = play.ledger, []
    if ledger.lines_sent != len(corpus.lines):
        found.append(f"{ledger.lines_sent:,} of {len(corpus.lines):,} lines were acknowledged")
    for places, words in (
        (ledger.lost(), "were lost: acknowledged, but seen by nobody"),
        (ledger.unknown(), "were seen that nobody had sent"),
        (ledger.altered(), "were not seen as they were sent"),
    ):
        if places:
            partition, offset = places[0]
            found.append(f"{len(places):,} lines {words}; the first at partition {partition}, offset {offset}")
    if play.log_ends != ledger.log_ends():
        found.append(f"the logs end at {play.log_ends}, the lines at {ledger.log_ends()}")
    if play.committed != play.log_ends:
        found.append(f"committed offsets {play.committed} are not at the log ends {play.log_ends}")
    return found + _let_through(play)


def _let_through(play: Play) -> list[str]:
    """What is wrong with the answers to those who may not, and with what the audit has of them."""
    if play.security is None:
        return []
    found = [f"{one.what}: {one.heard}, not {one.expected}" for one in play.attempts if not one.is_refused]
    if not play.attempts:
        found.append("nobody tried what he may not")
    denied = audited(play.security.audit, "denied")
    if {one["principal"] for one in denied} != {f"User:{GUEST}"}:
        found.append(f"the audit says that these were denied something: {denied}")
    if not audited(play.security.audit, "authentication_failed"):
        found.append("the audit does not know of the wrong password")
    return found


def audited(file: Path, event: str) -> list[dict[str, Any]]:
    """The events of one kind that the broker has written down."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [row for row in map(json.loads, lines) if row["event"] == event]


def show(play: Play, corpus: Corpus, python: str, found: list[str]) -> None:
    """Print the tables."""
    ledger = play.ledger
    repeated = ledger.repeated.total()
    at_end = sum(1 for p, end in play.log_ends.items() if play.committed.get(p) == end)
    lost, doubled = len(ledger.lost()), max(sum(play.log_ends.values()) - ledger.lines_sent, 0)
    counts: list[tuple[Cell, Cell, Cell]] = [
        ("lines in", f"{len(corpus.lines):,}", f"of {corpus.files:,} files of {corpus.origin} ({python})"),
        ("lines seen", f"{ledger.lines_seen:,}", f"{ledger.sightings.total():,} sightings"),
        ("repeated", f"{repeated:,}", _who(play)),
        ("lost", Styled(f"{lost:,}", "red" if lost else "green"), ""),
        ("doubled", Styled(f"{doubled:,}", "red" if doubled else "green"), "in the log"),
        ("committed", f"{at_end} of {play.plan.partitions}", "partitions, at their log ends"),
    ]
    width = max(len(_text(count)) for _, count, _ in counts)
    print()
    print_table(("", "", ""), [(what, _flush(count, width), words) for what, count, words in counts])
    print()
    print_table(
        ("generation", "members", "cause", "took", "in the coordinator's words"), _rebalances(play), title="Rebalances"
    )
    print()
    print_table(("member", "client", "lines seen", "fate"), _members(play), title="Members")
    print()
    if play.attempts:
        rows: list[tuple[Cell, ...]] = [(one.what, one.heard, _verdict(one)) for one in play.attempts]
        print_table(("who may not", "hears", ""), rows, title="Refused")
        print()
    if play.restart_s:
        print(f"The broker was away for {play.restart_s:.1f} s when it was restarted; {_after_restart(play)}.")
    print(f"The whole run took {play.elapsed_s:.1f} s.")
    for problem in found:
        print(f"FAILED: {problem}")


def _verdict(attempt: Attempt) -> Styled:
    return Styled("refused", "green") if attempt.is_refused else Styled(f"not {attempt.expected}", "red")


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Styled) else str(cell)


def _flush(cell: Cell, width: int) -> Cell:
    return Styled(_text(cell).rjust(width), cell.style if isinstance(cell, Styled) else "")


def _who(play: Play) -> str:
    """The members whose uncommitted lines were seen again."""
    first = play.ledger.repeated
    if not first:
        return ""
    parts = [f"{count:,} that {name} had seen" for name, count in first.most_common()]
    return ", ".join(parts) + (", killed before it could commit" if list(first) == [KILLED] else "")


def _rebalances(play: Play) -> list[tuple[Cell, ...]]:
    """Those up to the end of the work; after it the last members leave, one generation each."""
    return [
        (
            one.generation,
            one.members,
            _cause(play, one),
            None if one.took_s is None else f"{one.took_s:.2f} s",
            _MEMBER_ID.sub("", one.reason).partition("; client reason:")[0],
        )
        for one in play.log.rebalances
        if play.finished_at is None or one.began_at < play.finished_at
    ]


_MEMBER_ID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _cause(play: Play, rebalance: Rebalance) -> str:
    """The cause of a rebalance, with what the demo knows of it: ``ottla-2 joined late``."""
    by_what: dict[str, list[str]] = {}
    for what, who in rebalance.happened:
        member = play.members.get(who)
        if what == "left" and who == LEAVES:
            what = "left cleanly"
        elif what == "joined" and member is not None and member.remark:
            what = member.remark
        elif what == "sent no heartbeat" and who == KILLED:
            what = f"was killed: no heartbeat for {play.plan.session_timeout_ms / 1000:.0f} s"
        by_what.setdefault(what, []).append(who)
    return "; ".join(f"{', '.join(sorted(set(who)))} {what}" for what, who in by_what.items()) or rebalance.reason


def _members(play: Play) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for one in play.members.values():
        fate = "; ".join(words for words in (one.remark, one.fate) if words)
        rows.append((one.name, one.client, f"{play.ledger.sightings[one.name]:,}", fate))
    return rows


def _after_restart(play: Play) -> str:
    before, after = play.generations_around_restart
    if before == after:
        return f"the group went on in generation {after}, without a rebalance"
    return f"the group was in generation {before} before it and {after} after it"
