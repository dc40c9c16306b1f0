"""`ottla replay`: a recording's inputs through a fresh coordinator, and whether it decides the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.common import Answer, formatted
from ottla.cli.output import Refused, count_of, note, say

if TYPE_CHECKING:
    from ottla.observe.recording import Recording
    from ottla.observe.replay import Verdict

MOST_NAMES = 5


@click.command("replay")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@formatted
def command(files: Sequence[Path]) -> Answer:
    """Play back a recording of `ottla serve --record FILE`; of several nodes one after the other.

    A fresh coordinator gets every request, timer and outcome at its time. Each of its decisions is compared with the
    recorded one. Exit code 0 if all are the same, 1 if not. A directory stands for all recordings in it.
    """
    from ottla.observe.recording import NoRecording, open_recording, recordings_at
    from ottla.observe.replay import replay

    played: list[tuple[Recording, Verdict]] = []
    try:
        for recording in [open_recording(one) for file in files for one in recordings_at(file)]:
            played.append((recording, replay(recording.header, recording.entries())))
    except (NoRecording, ValueError) as error:
        raise Refused(str(error)) from None
    failure = None if all(verdict.is_same for _, verdict in played) else click.exceptions.Exit(1)
    documents = [_as_json(*one) for one in played]
    return Answer(documents if len(documents) > 1 else documents[0], partial(_print_all, played), failure)


def _print_all(played: Sequence[tuple[Recording, Verdict]]) -> None:
    for one in played:
        _print(*one)


def _as_json(recording: Recording, verdict: Verdict) -> dict[str, object]:
    header = recording.header
    return {
        "version": header.version,
        "node_id": header.node_id,
        "started_ms": header.started_ms,
        "parts": [str(path) for path in recording.parts],
        "events": verdict.events,
        "others": verdict.others,
        "inputs": verdict.inputs,
        "compared": verdict.compared,
        "groups": sorted(verdict.groups),
        "left_out": sorted(verdict.left_out),
        "missing": verdict.missing,
        "same": verdict.is_same,
        "differences": [
            {
                "seq": one.seq,
                "group": one.group_id,
                "recorded": one.recorded and one.recorded.summary(),
                "replayed": one.replayed and one.replayed.summary(),
            }
            for one in verdict.differences
        ],
        "notes": recording.notes,
    }


def _print(recording: Recording, verdict: Verdict) -> None:
    header = recording.header
    began = datetime.fromtimestamp(header.started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    parts = f" in {len(recording.parts)} parts" if len(recording.parts) > 1 else ""
    say(f"{verdict.events:,} events{parts}, of node {header.node_id} (Ottla {header.version}) since {began}")
    for text in recording.notes:
        note(text)
    if recording.unknown:
        note(f"{recording.unknown:,} events are of kinds that this version does not know")
    if verdict.left_out:
        names = ", ".join(sorted(verdict.left_out)[:MOST_NAMES])
        more = ", …" if len(verdict.left_out) > MOST_NAMES else ""
        note(f"left out, because their beginning is not recorded: {names}{more}")
    if verdict.missing is not None:
        note(f"played up to number {verdict.missing - 1}: what is missing behind it may have changed everything")
    played = f"{verdict.inputs:,} inputs of {count_of(len(verdict.groups), 'group', ',')}"
    if verdict.is_same:
        say(f"Same: {played} led to the {verdict.compared:,} events that were recorded.")
        return
    say(f"Different: {played} did not lead to the events that were recorded.")
    for one in verdict.differences:
        recorded, replayed = ("nothing" if it is None else it.summary() for it in (one.recorded, one.replayed))
        who = f" of group {one.group_id}" if one.group_id else ""
        say(f"  event {one.seq}{who}", f"    recorded: {recorded}", f"    replayed: {replayed}")
