"""The story of an episode in plain words: a headline, and what happened in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from ottla.observe.why.causes import Cause
from ottla.observe.why.interference import explaining, hit_by
from ottla.observe.why.model import HERE, Episode, Fault, MemberPart, Trigger, Wait
from ottla.observe.why.phrases import ALIKE, brief, details, fault_name, fault_phrase, phrase
from ottla.observe.why.plain import (
    application,
    awaited,
    clock,
    count,
    duration,
    epoch_of,
    host,
    limit,
    listed,
    member_names,
    partition_time,
    plain_name,
    sentence,
)
from ottla.observe.why.waits import Waits

_INTERFERED, _TRIGGERED, _OPENED, _CLOSED, _DROPPED, _SYNCING, _SYNCED, _ENDED = range(8)
"""The order of things that happen in the same millisecond."""
_AT_LAST = 1 << 60
"""Stands for the end of what still runs."""
DROPS = frozenset((Cause.JOIN_BARRIER_MISSED, Cause.SYNC_TIMEOUT, Cause.LEADER_NEVER_SYNCED))
PATTERNS = (Cause.FLAPPING_MEMBER, Cause.ROLLING_RESTART)
SOME_MS = 50
MANY_MEMBERS, BURST_MS = 5, 1_000
"""So many of a kind, with no more time between two of them, are told together."""
WORTH_SAYING_MS = 1_000
"""A barrier that was open for less is not in the headline."""
MOST_FLOWS = 5
"""So many ways of partitions from member to member are named."""


def tell(episode: Episode, zone: tzinfo | None = None) -> tuple[str, list[str]]:
    """The headline and the sentences.

    Args:
        zone: the time zone of the clock times; the local one by default.
    """
    story = _Story(episode, zone)
    return story.headline(), story.sentences()


def verdict(episode: Episode) -> str:
    """Cause, trigger and culprit: ``cause member-joined, triggered by c, culprit a``.

    Of a rebalance of a consumer group its epoch, too: ``epoch 4, cause …``.
    """
    names = member_names(episode)
    first = next(iter(episode.triggers), None)
    began = [one.member for one in episode.triggers if first and (one.cause, one.at_ms) == (first.cause, first.at_ms)]
    members = [names[at] for at in dict.fromkeys(began) if 0 <= at < len(names)]
    triggered = f", triggered by {listed(members, 3)}" if members else ""
    blamed = f"culprit {names[episode.culprit]}" if 0 <= episode.culprit < len(names) else "no culprit"
    which = f"{epoch}, " if (epoch := epoch_of(episode)) else ""
    return f"{which}cause {episode.cause}{triggered}, {blamed}"


def felt(episode: Episode) -> str:
    """The cost to those who wait for records, as a sentence before the headline; empty for less than a second."""
    if not episode.stopped or episode.stood_ms < WORTH_SAYING_MS:
        return ""
    still = "stood still"
    if episode.outcome == "running":
        still = "has stood still" if episode.stopped == 1 else "have stood still"
    return f"{count(episode.stopped, 'partition')} {still} for up to {duration(episode.longest_ms)}. "


class _Story:
    def __init__(self, episode: Episode, zone: tzinfo | None) -> None:
        self.episode = episode
        self.zone = zone
        self.names = member_names(episode)
        topics = (one.facts["topic"] for one in episode.triggers if "topic" in one.facts)
        self.spellings = [*self.names, *map(plain_name, episode.members), *topics]
        self.named: set[int] = set()
        self.waits = Waits(episode, self.names, self.at)

    def who(self, index: int) -> str:
        """A member's name, with its host the first time."""
        if not 0 <= index < len(self.names):
            return ""
        place = host(self.episode.members[index])
        if index in self.named or not place:
            return self.names[index]
        self.named.add(index)
        return f"{self.names[index]} ({place})"

    def part(self, index: int) -> MemberPart | None:
        members = self.episode.members
        return members[index] if 0 <= index < len(members) else None

    def at(self, after_ms: int) -> str:
        return clock(self.episode.started_ms + after_ms, self.zone)

    # The headline

    def headline(self) -> str:
        episode, text = self.episode, self.first_phrase()
        clauses = [text]
        if episode.kind == "refusal" and episode.times > 1:
            clauses = [f"{text} ({episode.times:,} times, the last at {clock(episode.last_ms, self.zone)})"]
        elif episode.kind == "replacement" and episode.protocol and episode.outcome != "refused":
            clauses = [*self.waits.now(), text, self.result()]
        elif episode.kind == "replacement" and episode.outcome != "refused":
            clauses = [f"{text}: no rebalance was needed"]
        elif self.waits.present:
            # What people ask first is why the group is not there yet.
            clauses = [self.waits.now()[0], text, self.result()]
        elif episode.kind == "rebalance":
            clauses = [*(self.costly() or (text, self.held_up())), self.explaining(), self.result()]
        elif episode.kind == "stopped":
            clauses = [text, self.explaining()]
        return sentence(clauses, self.spellings)

    def costly(self) -> list[str]:
        """Clauses about members that held a barrier up until it ran out, which cost most, and about its beginning."""
        is_pattern = any(one.cause in PATTERNS for one in self.episode.triggers)
        wait = next((one for one in self.episode.waits if one.absent and one.closed_ms >= 0), None)
        if is_pattern or wait is None or wait.closed_ms - wait.opened_ms < WORTH_SAYING_MS:
            return []
        names = listed([self.names[at] for at in wait.absent], 3)
        was = "was" if len(wait.absent) == 1 else "were"
        long = duration(wait.closed_ms - wait.opened_ms)
        text = f"{names} held the {wait.barrier} barrier up for {long} and {was} dropped"
        triggers = self.episode.triggers
        if not triggers or triggers[0].cause == Cause.UNKNOWN:
            return [text, self.first_phrase()]
        return [f"{text}, after {self.first_phrase()}"]

    def first_phrase(self) -> str:
        triggers = self.episode.triggers
        if not triggers:
            return "what began it was not seen"
        first = triggers[0]
        alike = [one.member for one in triggers if one.cause == first.cause and one.at_ms == 0 and one.member >= 0]
        alike = [at for at in dict.fromkeys(alike) if at < len(self.names)]
        names = listed([self.names[at] for at in alike], 3) if alike else ""
        run = next((rows for rows in self.many() if first in rows), [])
        if run:
            text = phrase(first, f"{len(run):,} members", len(run))
            return f"{text} ({listed([self.names[one.member] for one in run], 3)})"
        text = brief(first, names) if len(alike) == 1 else phrase(first, names, len(alike))
        pattern = next((one for one in triggers if one.cause in PATTERNS), None)
        if pattern is None:
            return text
        if pattern.cause == Cause.ROLLING_RESTART:
            return f"rolling restart, {pattern.facts.get('restarted', '?')} members so far: {text}"
        who = self.part(pattern.member)
        name = application(self.episode, pattern.member) if who is not None else "a member"
        return f"{name} comes and goes, {pattern.facts.get('times', '?')} times within ten minutes: {text}"

    def held_up(self) -> str:
        """For whom it waited, if that took long."""
        if longest := self.waits.longest():
            return longest
        for wait in self.episode.waits:
            long_ms = wait.closed_ms - wait.opened_ms
            if wait.barrier == "initial delay" or wait.closed_ms < 0 or long_ms < WORTH_SAYING_MS:
                continue
            what = f"the {wait.barrier} barrier waited {duration(long_ms)}"
            if wait.absent:
                were = "which was" if len(wait.absent) == 1 else "which were"
                return f"{what} for {listed([self.names[at] for at in wait.absent], 3)}, {were} dropped"
            if wait.last:
                return f"{what} for {listed([self.names[at] for at in wait.last], 3)}"
            if wait.pending_ids:
                names = [self.names[at] for at, part in enumerate(self.episode.members) if part.fate == "vanished"]
                return f"{what} for {listed(names, 3)}, which never came back with the id that it was given"
            return what
        return ""

    def explaining(self) -> str:
        """The fault that it came of, where nothing else explains it."""
        fault = explaining(self.episode)
        return "" if fault is None else fault_phrase(fault, self.hit(fault))

    def hit(self, fault: Fault) -> str:
        """The name of the member whose requests a fault took hold of."""
        index = hit_by(fault, self.episode)
        return self.names[index] if index >= 0 else fault.client_id or "a client"

    def result(self) -> str:
        episode = self.episode
        took = duration(episode.duration_ms) if episode.duration_ms >= 0 else ""
        match episode.outcome:
            case "running":
                wait = next((one for one in episode.waits if one.closed_ms < 0), None)
                missing = awaited(self.episode, wait) if wait is not None else []
                since_ms = episode.now_ms - episode.started_ms
                running = f"has been running for {duration(since_ms)}" if episode.now_ms else "is running"
                if wait is None or wait.barrier == "initial delay" or not missing:
                    return f"the rebalance {running}"
                names = listed([self.names[at] for at in missing], 3)
                left_ms = wait.opened_ms + wait.limit_ms - since_ms
                at_most = f", for {duration(left_ms)} more at most" if episode.now_ms and left_ms > 0 else ""
                return f"the rebalance {running} and waits for {names}{at_most}"
            case "stable":
                what = "epoch" if episode.protocol else "generation"
                return f"{what} {episode.generation_after} was Stable after {took}"
            case "replaced" if episode.protocol:
                return f"after {took} it was back, and no rebalance was needed"
            case "superseded" if episode.kind == "replacement":
                return f"a rebalance began after {took}"
            case "empty":
                return f"the group was empty after {took}"
            case "superseded":
                return f"another rebalance began after {took}, before the group was Stable"
            case "dead":
                return f"that was cut off after {took}, when the group was given up or removed"
        return ""

    # The story

    def sentences(self) -> list[str]:
        episode = self.episode
        told: list[tuple[int, int, str]] = []
        many = self.many()
        told += [(rows[0].at_ms, _TRIGGERED, self.together(rows)) for rows in many]
        together = {id(trigger) for rows in many for trigger in rows}
        for trigger in episode.triggers:
            if id(trigger) in together:
                continue
            if trigger.cause in PATTERNS:
                ended_ms = episode.duration_ms if episode.duration_ms >= 0 else _AT_LAST
                told.append((ended_ms, _ENDED + 1, sentence([self.trigger(trigger)], self.spellings)))
            else:
                rank = _DROPPED if trigger.cause in DROPS and trigger.at_ms else _TRIGGERED
                told.append((trigger.at_ms, rank, sentence([f"{self.at(trigger.at_ms)} {self.trigger(trigger)}"])))
        for wait in episode.waits:
            told.append((wait.opened_ms, _SYNCING if wait.barrier == "sync" else _OPENED, self.opening(wait)))
            if wait.closed_ms >= 0 and (text := self.closing(wait)):
                told.append((wait.closed_ms, _SYNCED if wait.barrier == "sync" else _CLOSED, text))
        for one in episode.member_waits:
            if one.until_ms >= 0 and (text := self.waits.over(one)):
                told.append((one.until_ms, _CLOSED, sentence([f"{self.at(one.until_ms)} {text}"])))
        untold = [] if episode.kind == "replacement" else self.waits.now()[1:]  # by the headline
        told += [(_AT_LAST, _ENDED, sentence([text], self.spellings)) for text in untold]
        told.extend(self.ending())
        told.extend(self.interfered())
        told = [row for row in told if row[2]]
        told.sort(key=lambda row: row[:2])
        lines = [text for _, _, text in told]
        rest = self.untold(), self.unnamed(), self.standing(), self.moving(), self.repeated()
        return lines + [text for text in rest if text]

    def many(self) -> list[list[Trigger]]:
        """Runs of triggers that are of one kind and followed one another at once."""
        runs: list[list[Trigger]] = []
        for one in self.episode.triggers:
            if one.cause not in ALIKE or not 0 <= one.member < len(self.names):
                continue
            run = next((run for run in reversed(runs) if run[0].cause == one.cause), None)
            if run is not None and one.at_ms - run[-1].at_ms <= BURST_MS:
                run.append(one)
            else:
                runs.append([one])
        return [run for run in runs if len(run) >= MANY_MEMBERS]

    def together(self, rows: list[Trigger]) -> str:
        """Many of a kind in one sentence."""
        at, took_ms = self.at(rows[0].at_ms), rows[-1].at_ms - rows[0].at_ms
        text = f"{at} {phrase(rows[0], f'{len(rows):,} members', len(rows))}"
        within = f", within {duration(took_ms)}" if took_ms else ""
        return sentence([f"{text}{within}: {listed([self.names[one.member] for one in rows], 3)}"])

    def trigger(self, trigger: Trigger) -> str:
        part = self.part(trigger.member)
        is_pattern = part is not None and trigger.cause in PATTERNS
        who = application(self.episode, trigger.member) if is_pattern else self.who(trigger.member)
        clauses = [phrase(trigger, who), *details(trigger, part)]
        return "; ".join(clauses)

    def opening(self, wait: Wait) -> str:
        at_most = limit(wait.limit_ms)
        if wait.barrier == "initial delay" and not wait.limit_ms:
            return ""
        if wait.barrier == "initial delay":
            return sentence([f"{self.at(wait.opened_ms)} the group waited {at_most} for others to start, too"])
        if wait.barrier == "sync":
            leader = next((self.who(at) for at, part in enumerate(self.episode.members) if part.is_leader), "")
            generation = self.episode.generation_after
            begun = f"generation {generation} began" if generation >= 0 else "a generation began"
            by = f", led by {leader}" if leader else ""
            chosen = f" with {self.episode.protocol_name}" if self.episode.protocol_name else ""
            return sentence([f"{self.at(wait.opened_ms)} {begun}{by}{chosen}"])
        gone = {one.member for one in self.episode.triggers if not one.at_ms}
        asked = [
            at
            for at, part in enumerate(self.episode.members)
            if part.came_ms != 0 and (part.fate == "stayed" or (part.fate not in HERE and at not in gone))
        ]
        whom = f" for {listed([self.names[at] for at in asked])}" if asked else ""
        return sentence([f"{self.at(wait.opened_ms)} the join barrier opened, to wait{whom} at most {at_most}"])

    def closing(self, wait: Wait) -> str:
        long = duration(wait.closed_ms - wait.opened_ms)
        at = self.at(wait.closed_ms)
        if wait.barrier == "initial delay":
            return ""
        if wait.barrier == "sync":
            if wait.absent or self.episode.outcome == "superseded":
                return sentence([f"{at} the sync barrier was given up after {long}"])
            sender = listed([self.who(one) for one in wait.last]) if wait.last else "the leader"
            return sentence([f"{at} {sender} sent the assignments after {long}"])
        if wait.absent:
            names = listed([self.who(one) for one in wait.absent])
            return sentence([f"{at} the join barrier ran out after {long}, with {names} missing"])
        if wait.pending_ids:
            ids = count(len(wait.pending_ids), "member id")
            return sentence(
                [f"{at} the join barrier closed after {long}; {ids} that nobody came back with held it open"]
            )
        if wait.last and wait.limit_ms and wait.closed_ms - wait.opened_ms >= wait.limit_ms:
            names = listed([self.who(one) for one in wait.last])
            stay = "which are static and stay members" if len(wait.last) > 1 else "which is static and stays a member"
            return sentence([f"{at} the join barrier ran out after {long} without {names}, {stay}"])
        if wait.last and wait.closed_ms - wait.opened_ms >= WORTH_SAYING_MS:
            part = self.part(wait.last[0])
            verb = "came last" if part is not None and part.came_ms >= 0 else "was waited for until then"
            return sentence([f"{at} the join barrier closed after {long}: {self.who(wait.last[0])} {verb}"])
        return sentence([f"{at} the join barrier closed after {long}"])

    def ending(self) -> list[tuple[int, int, str]]:
        episode = self.episode
        if episode.kind != "rebalance" or episode.duration_ms < 0:
            return []
        here = sum(part.fate in HERE for part in episode.members)
        at = self.at(episode.duration_ms)
        match episode.outcome:
            case "stable":
                after = duration(episode.duration_ms)
                text = f"{at} the group was Stable with {count(here, 'member')}, {after} after it began"
            case "empty":
                text = f"{at} nobody was left and the group was Empty"
            case "superseded":
                text = f"{at} another rebalance began before the group was Stable"
            case "dead":
                text = f"{at} the group was given up or removed"
            case _:
                return []
        return [(episode.duration_ms, _ENDED, sentence([text]))]

    def interfered(self) -> Iterator[tuple[int, int, str]]:
        """What faults and pauses did: some of it before the beginning, or since the end."""
        episode = self.episode
        for fault in episode.faults:
            at_ms = fault.first_ms - episode.started_ms
            text = f"{self.at(at_ms)} {fault_phrase(fault, self.hit(fault))} {fault_name(fault)}"
            often = f", {fault.times:,} times until {clock(fault.last_ms, self.zone)}" if fault.times > 1 else ""
            yield at_ms, _INTERFERED, sentence([text + often])
        for pause in episode.pauses:
            at_ms = pause.from_ms - episode.started_ms
            until = ", and still was when this was told"
            if pause.until_ms:
                until = f" until {clock(pause.until_ms, self.zone)}, for {duration(pause.until_ms - pause.from_ms)}"
            text = f"{self.at(at_ms)} the group was paused{until}: no session and no barrier ran meanwhile"
            yield at_ms, _INTERFERED, sentence([text])

    def unnamed(self) -> str:
        untold = self.episode.faults_untold
        return f"Faults took hold of {count(untold, 'request')} more, which is not listed." if untold else ""

    def untold(self) -> str:
        if not self.episode.untold:
            return ""
        return f"After that members came, went and changed {self.episode.untold:,} times more, which is not listed."

    def standing(self) -> str:
        episode = self.episode
        if episode.kind in ("refusal", "loaded", "stopped", "resolution", "conversion"):
            return ""
        if not episode.partitions_known:
            return "What stood still is unknown: the members' assignments cannot be read."
        clauses = []
        if episode.stopped:
            stood = "stood" if episode.outcome != "running" else "stand" if episode.stopped > 1 else "stands"
            text = f"{count(episode.stopped, 'partition')} {stood} still"
            consumes = "consumes" if episode.outcome == "running" else "consumed"
            if episode.longest_ms:
                text += f", the longest for {duration(episode.longest_ms)}"
            if episode.stood_ms >= SOME_MS:
                text += f": {partition_time(episode.stood_ms)} in which nobody {consumes}{self.blamed()}"
            clauses.append(text)
        elif episode.outcome == "stable" and episode.generation_before > 0:
            if not any(part.before for part in episode.members):
                return ""  # nobody owned anything: all stood still, and it is not known what all is
            clauses.append("no partition is known to have stood still")
        if episode.unowned:
            stand = "has no owner and stands" if episode.unowned == 1 else "have no owner and stand"
            clauses.append(f"{count(episode.unowned, 'partition')} {stand} still afterwards")
        return sentence(clauses) if clauses else ""

    def blamed(self) -> str:
        """The part of it that is on the culprit's account."""
        part = self.part(self.episode.culprit)
        if part is None or part.blamed_ms < WORTH_SAYING_MS:
            return ""
        own = partition_time(part.blamed_ms)
        of_it = "all" if own == partition_time(self.episode.stood_ms) else own.split(" ")[0]
        return f", {of_it} of them on the account of {self.names[self.episode.culprit]}"

    def moving(self) -> str:
        episode = self.episode
        if not episode.partitions_known:
            return ""
        return " ".join(text for text in (self.moved(), self.idle()) if text)

    def idle(self) -> str:
        """A sentence if there are more members than partitions."""
        here = [part for part in self.episode.members if part.fate in HERE]
        idle = sum(not part.after for part in here)
        owned = sum(part.after for part in here)
        if self.episode.outcome != "stable" or idle < 2 or not owned or any(part.after > 1 for part in here):
            return ""
        partitions = f"there {'is' if owned == 1 else 'are'} only {count(owned, 'partition')}"
        return sentence([f"{idle:,} of {count(len(here), 'member')} own nothing: {partitions}"])

    def moved(self) -> str:
        episode = self.episode
        if not episode.moved and episode.protocol and episode.outcome == "stable":
            has_some = any(part.after for part in episode.members)
            return "Everybody has the partitions that it had before." if has_some else "Nobody has partitions."
        if not episode.moved:
            return ""
        flows: dict[tuple[int, int], int] = {}
        for move in episode.moves:
            pair = move.owner_before, move.owner_after
            flows[pair] = flows.get(pair, 0) + 1
        largest = sorted(flows.items(), key=lambda row: (-row[1], row[0]))[:MOST_FLOWS]
        shown = ", ".join(f"{number:,} {self.flow(*pair)}" for pair, number in largest)
        more = len(flows) - len(largest)
        left = sum(flows.values()) - sum(number for _, number in largest)
        rest = f" and {left:,} more" if more > 0 else ""
        what = "were handed out" if all(before < 0 for before, _ in flows) else "changed hands"
        what = what.replace("were", "was") if episode.moved == 1 else what
        return sentence([f"{count(episode.moved, 'partition')} {what}: {shown}{rest}"])

    def flow(self, before: int, after: int) -> str:
        if before < 0:
            return f"to {self.names[after]}"
        if after < 0:
            return f"from {self.names[before]} to nobody"
        return f"from {self.names[before]} to {self.names[after]}"

    def repeated(self) -> str:
        episode = self.episode
        if episode.times <= 1:
            return ""
        last = clock(episode.last_ms, self.zone)
        return sentence([f"it happened {episode.times:,} times until {last}"])
