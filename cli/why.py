"""`ottla why`: why a group rebalanced, who held it up, what stood still, and what to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import bootstrap_option, format_option, near, one_name
from ottla.cli.group_words import GROUPS, group_history, opened_recordings, recording_option, since_option
from ottla.cli.output import Refused, note, on_terminal, print_json, print_json_text, say

if TYPE_CHECKING:
    from ottla.observe.recording import Recording
    from ottla.observe.why.history import History
    from ottla.observe.why.model import Episode

MOST_NAMED = 20


@click.command()
@GROUPS.one("group", required=False)
@click.option(
    "--generation",
    "--epoch",
    "generation",
    type=click.IntRange(0),
    help="Only the rebalance that led to this generation, or epoch of a consumer group.",
)
@click.option("--last", type=click.IntRange(1), metavar="N", help="The latest N rebalances, each in full.")
@since_option
@recording_option
@bootstrap_option
@format_option
def command(
    group: str | None,
    generation: int | None,
    last: int | None,
    since_ms: int | None,
    recordings: Sequence[Path],
    bootstrap: str,
    output_format: str,
) -> None:
    """Say why a GROUP rebalanced: who began it, whom it waited for, what stood still, and what to do.

    Without options, it tells of the latest rebalance, or of the one that is running. If a member only came back in that
    one, it tells why the member had gone as well. If it cut off one that had cost more, a line tells of that. It also
    tells of members that were refused, of static members that came back, and of restarts of the broker.
    """
    if recordings and not group:
        names = _group_ids(_histories_of(recordings))
        note(
            "The groups in the recording; name one to be told of it:"
            if names
            else "There is no group in the recording."
        )
        for name in names:
            say(name)
        return
    group_id = one_name(group, (), "group")
    by_default = last is None and since_ms is None and generation is None
    if by_default:
        from ottla.observe.why.choice import LOOK_BACK

        last = LOOK_BACK
    ask = partial(_of_recordings, recordings) if recordings else partial(_of_broker, bootstrap)
    episodes, body = ask(group_id, last=last, since_ms=since_ms, generation=generation)
    if generation is not None and not episodes:
        raise Refused(
            f"Nothing is known of what led to generation {generation} of group {group_id!r}.",
            _generations(ask(group_id)[0]),
        )
    if by_default and episodes:
        _print_choice(episodes, body if output_format == "json" else None)
    elif output_format == "json":
        print_json_text(body)
    elif episodes:
        print_episodes(episodes)
    else:
        note(
            f"Nothing happened to group {group_id!r} since then."
            if since_ms is not None
            else f"Nothing has happened to group {group_id!r} since the broker started."
        )


def _of_broker(bootstrap: str, group_id: str, **chosen: int | None) -> tuple[list[Episode], str]:
    from msgspec import ValidationError
    from msgspec.json import decode

    from ottla.observe.why.explain import Told

    body = group_history(bootstrap, group_id, "why", **chosen)
    try:
        return decode(body, type=Told).episodes, body.decode()  # fields of a newer broker are left out
    except ValidationError as error:
        raise Refused(f"The broker's answer cannot be read: {error}.", "Use --format json, or update ottla.") from None


def _histories_of(paths: Sequence[Path]) -> list[tuple[History, int]]:
    """The content of recordings, one of each node, and where each ends: nodes have clocks and numbers of their own."""
    with opened_recordings(paths) as recordings:
        return [_history_of(one, is_one_of_several=len(recordings) > 1) for one in recordings]


def _history_of(recording: Recording, *, is_one_of_several: bool) -> tuple[History, int]:
    from ottla.observe.why.history import History

    settings = {key.replace("_", "."): str(value) for key, value in recording.header.settings.items()}
    history = History(lambda: settings, budget_bytes=1 << 40)
    if is_one_of_several:
        history.node = str(recording.header.node_id)
    wall_ms = recording.header.started_ms
    for event in recording.events():
        wall_ms = max(wall_ms, event.wall_ms)
        history(event)
    return history, wall_ms


def _group_ids(histories: Sequence[tuple[History, int]]) -> list[str]:
    return sorted({name for history, _ in histories for name in history.group_ids()})


def _generations(episodes: Sequence[Episode]) -> str:
    """The generations that can be asked for."""
    from ottla.observe.why.plain import listed, runs

    known = sorted({one.generation_after for one in episodes if one.generation_after >= 0})
    if not known:
        return "No generation of it is known."
    parts = [f"{first} to {last}" if first != last else f"{first}" for first, last in runs(known)]
    return f"Known {'is generation' if len(known) == 1 else 'are generations'} {listed(parts, len(parts))}."


def _of_recordings(paths: Sequence[Path], group_id: str, **chosen: Any) -> tuple[list[Episode], str]:
    from msgspec.json import encode
    from msgspec.structs import replace

    from ottla.observe.why.explain import Told

    histories = _histories_of(paths)
    knowing = [(history, wall_ms) for history, wall_ms in histories if history.knows(group_id)]
    if not knowing:
        names = _group_ids(histories)
        meant = near(group_id, names)
        known = ", ".join(names[:MOST_NAMED]) or "none"
        advice = f"Did you mean {meant!r}?" if meant else f"The groups in it: {known}."
        raise Refused(f"The recording has no group {group_id!r}.", advice)
    episodes: list[Episode] = []
    for history, wall_ms in knowing:
        history.now_ms = partial(int, wall_ms)
        episodes += history.episodes(group_id, **chosen)
    if len(knowing) > 1:  # each node has counted its own
        episodes.sort(key=lambda one: one.started_ms)
        episodes = [replace(one, number=number) for number, one in enumerate(episodes, 1)]
        episodes = episodes[-(chosen.get("last") or len(episodes)) :]
    ended_ms = max(wall_ms for _, wall_ms in knowing)
    return episodes, encode(Told(group_id, ended_ms, episodes)).decode()


def _print_choice(episodes: Sequence[Episode], body: str | None) -> None:
    """Print what is worth telling of the latest episodes; of ``body``, the document that they are from, if given."""
    from ottla.observe.why.choice import choose, in_a_line

    choice = choose(episodes)
    assert choice is not None
    if body is not None:
        # Fields that only a newer broker knows stay as they are.
        document = json.loads(body)
        numbers = {one.number for one in (choice.earlier, choice.main, *choice.later) if one is not None}
        document["episodes"] = [one for one in document["episodes"] if one["number"] in numbers]
        print_json(document, indent=None)
        return
    print_episodes([choice.main])
    if choice.earlier is not None:
        say(in_a_line(choice.earlier, is_earlier=True))
    if choice.main.kind == "loaded":
        say("What the broker remembers begins there.")
    for one in choice.later:
        say(in_a_line(one))


def print_episodes(episodes: Sequence[Episode]) -> None:
    """Print them, the oldest first, with the local clock's times."""
    from ottla.observe.why.plain import clock
    from ottla.observe.why.words import felt, tell, verdict

    for at, episode in enumerate(episodes):
        headline, sentences = tell(episode)  # again, since the broker's clock may be in another time zone
        if at:
            say()
        begun = clock(episode.started_ms)
        say(f"{episode.kind} {episode.number} at {begun}, {verdict(episode)}", dim=on_terminal())
        say(felt(episode) + headline, bold=True)
        for text in sentences:
            say(f"  {text}")
        for advice in episode.advice:
            say(f"  What to do: {advice.text}", fg="green" if on_terminal() else None)
