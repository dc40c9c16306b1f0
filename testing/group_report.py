"""What a failed test's brokers have to say of their groups: the section "Ottla" of pytest's report, and its files."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import msgpack

from ottla.broker.core.events import FaultFired
from ottla.observe.snapshot import MemberState
from ottla.observe.why.choice import choose
from ottla.observe.why.model import Episode
from ottla.observe.why.plain import clock, count, duration, listed, told_apart
from ottla.observe.why.words import felt
from ottla.testing.evidence import Ran
from ottla.testing.group_look import Account, Seen, is_grave

MOST_GROUPS = 5
"""So many groups of a broker are told of in full, and drawn."""
MOST_LINES = 8
"""So many members, partitions or further episodes of a group are listed."""


def report(ran: Sequence[Ran], new_folder: Callable[[], Path] | None, *, in_vain: bool = False) -> str:
    """The section: what matters most comes first. What cannot be found out is one line of it.

    Args:
        new_folder: makes the folder for recordings and timelines; None if there is no place for them.
        in_vain: tell how groups were when the test had waited in vain.

    Returns:
        The text; empty if nothing happened in the test.
    """
    told: list[str] = []
    folder: Path | None = None
    for one in ran:
        head = [f"Broker {one.address}"] if len(ran) > 1 else []
        try:
            found = one.accounts if in_vain and one.accounts is not None else one.look()
            faults = [*_faults(one), *_never_fired(one)]
            if not found and not faults:
                continue
            lines = [*head, *_told(found), *faults]
            if new_folder is not None:
                folder = folder or new_folder()
                lines += ["", *_files(one, found, _unused(folder / "broker.rec"))]
            told.append("\n".join(lines))
        except Exception as error:  # it must not hide why the test failed
            told.append(f"Broker {one.address}: no evidence, because of {type(error).__name__}: {error}")
    if not told and any(not one.since_seq for one in ran):
        return "No client has used a consumer group."
    return "\n\n".join(told)


def _faults(ran: Ran) -> list[str]:
    """What faults did in the test, to groups and others."""
    recorder = ran.observatory.recorder

    def ask() -> list[bytes]:
        return [
            data
            for group_id in ("", *recorder.group_ids())
            for _, data in recorder.events(group_id, after=ran.since_seq, limit=sys.maxsize)
            if FaultFired.__name__.encode() in data
        ]

    found: Counter[str] = Counter()
    for data in ran.on_loop(ask):
        if msgpack.decode(data)["event"] == FaultFired.__name__:
            event = msgpack.decode(data, type=FaultFired)
            named = "" if event.fault[:1] in "'[" else f" ({event.fault})"  # else it is the rule as it was typed
            found[f"{event.done}: {event.api} of {event.client_id}{named}"] += 1
    return [f"Fault: {what}{f', {times} times' if times > 1 else ''}" for what, times in found.most_common(MOST_LINES)]


def _never_fired(ran: Ran) -> list[str]:
    """The faults of the test that never fired: it may have failed for that."""
    return [f"{text[:1].upper()}{text[1:]}" for text in ran.on_loop(ran.observatory.faults.never_fired)]


# words


def _in_trouble(accounts: list[Account]) -> list[Account]:
    return [one for one in accounts if not one.is_well or one.lag][:MOST_GROUPS]


def _told(accounts: list[Account]) -> Iterator[str]:
    in_trouble = _in_trouble(accounts)
    for number, one in enumerate(in_trouble):
        yield from [""] * (number > 0)
        yield from _in_full(one)
    for one in (others := accounts[len(in_trouble) :])[:MOST_LINES]:
        yield _headline(one)
    if len(others) > MOST_LINES:
        yield f"and {len(others) - MOST_LINES} groups more"


def _headline(account: Account) -> str:
    """Where the group is, in a line."""
    seen, lag = account.seen, account.lag
    if seen is None:
        return f"{account.group_id}: {'is gone' if account.episodes else 'there is no such group yet'}"
    state = seen.state
    parts = [f"{state.state} in generation {state.generation} with {count(len(state.members), 'member')}"]
    if state.barrier:
        names = _names(state.members)
        awaited = [names.get(one, one) for one in state.awaited]
        for_whom = f" for {listed(awaited)}" if awaited else ""
        parts.append(f"has waited {duration(state.barrier_age_ms)}{for_whom}")
    if lag:
        parts.append(f"{count(lag, 'record')} left to read")
    elif seen.left is not None:
        parts.append("nothing left to read")
    if not account.is_well and (times := len(account.rebalances)) > 1:
        parts.append(f"rebalanced {times} times")
    return f"{account.group_id}: {', '.join(parts)}"


def _in_full(account: Account) -> Iterator[str]:
    yield _headline(account)
    seen, episodes = account.seen, account.episodes
    for alarm in seen.alarms if seen is not None else ():
        yield f"  Alarm: {alarm.text}{f' ({alarm.times} times)' if alarm.times > 1 else ''}."
    if episodes and not account.is_well:
        main = _main(episodes)
        at = episodes.index(main)
        yield from _episode(main)
        yield from _briefly("Before", episodes[:at])
        yield from _briefly("Then", episodes[at + 1 :])
    if seen is not None:
        yield from _members(seen.state.members)
        yield from _partitions(seen)


def _main(episodes: list[Episode]) -> Episode:
    """The episode that is told in full: one that had no end, or the last grave one, or the last before the end."""
    for one in reversed(episodes):
        if one.outcome in ("running", "dead") or is_grave(one):
            return one
    choice = choose([one for one in episodes if one.outcome != "empty"] or episodes)
    assert choice is not None
    return choice.main


def _episode(episode: Episode) -> Iterator[str]:
    yield f"  {felt(episode)}{episode.headline}"
    yield from (f"    {text}" for text in episode.sentences)
    yield from (f"    What to do: {advice.text}" for advice in episode.advice)


def _briefly(word: str, episodes: list[Episode]) -> Iterator[str]:
    shown = episodes[-MOST_LINES:]
    if len(shown) < len(episodes):
        yield f"  {word}: {len(episodes) - len(shown)} more"
    for one in shown:
        yield f"  {word}, at {clock(one.started_ms)}: {one.headline}"


def _names(members: Sequence[MemberState]) -> dict[str, str]:
    rows = [(one.group_instance_id or one.client_id or one.member_id, one.member_id, one.client_id) for one in members]
    return {one.member_id: name for one, name in zip(members, told_apart(rows), strict=True)}


def _members(members: Sequence[MemberState]) -> Iterator[str]:
    names = _names(members)
    for one in members[:MOST_LINES]:
        owned = [f"{topic}-{partition}" for topic, parts in one.assignment.items() for partition in parts]
        owns = f"owns {listed(owned, MOST_LINES)}" if owned else "owns nothing"
        library = f" ({one.client_software})" if one.client_software else ""
        yield f"  {names[one.member_id]}{library} {owns}, was heard of {duration(one.heard_ms)} ago"
    if len(members) > MOST_LINES:
        yield f"  and {len(members) - MOST_LINES} members more"


def _partitions(seen: Seen) -> Iterator[str]:
    left = seen.left or []
    for one in left[:MOST_LINES]:
        at = "nothing committed" if one.committed is None else f"committed up to {one.committed}"
        yield f"  {one.topic}-{one.partition}: {at}, {count(one.lag, 'record')} left before its end at {one.end}"
    if len(left) > MOST_LINES:
        yield f"  and {len(left) - MOST_LINES} partitions more with records left to read"


# files


def _files(ran: Ran, accounts: list[Account], path: Path) -> Iterator[str]:
    """Write the recording, and the timelines of the groups in trouble beside it."""
    from ottla.observe.recording import open_recording
    from ottla.observe.timeline.offline import timeline_of
    from ottla.observe.timeline.page import page

    content = ran.on_loop(ran.observatory.recording)
    if not content:
        yield "No recording, as ottla.recorder.memory.bytes is 0."
        return
    path.write_bytes(content)
    drawn = _in_trouble(accounts) or accounts[:1]  # none where only faults are told
    for one in drawn:
        timeline = timeline_of(open_recording(path).events(), one.group_id)
        if timeline is not None:
            html = _unused(path.with_name(f"{file_name(one.group_id)}.html"))
            html.write_text(page(timeline), encoding="utf-8")
            yield f"Timeline of {one.group_id}: {html}"
    yield f"Recording: {path}"
    for one in drawn[:1]:
        last = f" --last {len(one.episodes)}" if len(one.episodes) > 1 else ""
        yield f"  ottla why {shlex.quote(one.group_id)} --file {path}{last}"


def file_name(text: str) -> str:
    """A text as a part of a file's name."""
    return re.sub(r"[^\w.-]+", "_", text)[:80].lstrip(".") or "_"


def _unused(path: Path) -> Path:
    number = 1
    found = path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return found
