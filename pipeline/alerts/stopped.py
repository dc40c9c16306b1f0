"""The rule for stopped groups: one used to commit, and has not for long, while more records are written than it reads.

The samples of where logs end are the clock: each asks anew. So a sampler that stands still cannot raise an alarm, and
a replay of commits and samples gives the same alerts. Silence counts from the last commit, or from when more was
written than had been at the sample after it, whichever is later: a group of a topic in which nothing happens is at
rest, not stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

import msgspec

from ottla.pipeline.alerts.alert import VERSION, Alert, State, alert_id, seconds

KIND = "stopped"
COMMITS_KEPT = 11
"""Moments of commits: ten intervals, as Burrow's window has them."""


class StoppedLimits(NamedTuple):
    """The limits beyond which a group counts as stopped.

    Attributes:
        intervals: silent for so many times its usual interval between commits,
        after_ms: and at least for so long.
        forget_ms: a group without a commit for so long is forgotten.
    """

    intervals: float = 10.0
    after_ms: int = 60_000
    forget_ms: int = 24 * 3_600_000


class Reader(msgspec.Struct):
    """The state of a group in a topic.

    Attributes:
        instants_ms: when it committed, ascending, the last `COMMITS_KEPT`.
        offsets: what it committed, by partition.
        still: sum of the log ends at the first sample after the last commit; None before it.
        waiting_ms: since when more was written than that; None if nothing was.
        raised_ms: since when an alert stands, as its ``since_ms``; None if none does.
    """

    instants_ms: list[int] = []
    offsets: dict[int, int] = {}
    still: int | None = None
    waiting_ms: int | None = None
    raised_ms: int | None = None

    @property
    def usual_ms(self) -> int | None:
        """The median interval between commits; None before the second."""
        pairs = zip(self.instants_ms, self.instants_ms[1:], strict=False)
        intervals = [later - earlier for earlier, later in pairs]
        return round(median(intervals)) if intervals else None


def commit(
    reader: Reader, group: str, topic: str, instants_ms: Iterable[int], offsets: Mapping[int, int | None]
) -> list[Alert]:
    """Take commits into account: when they were, and the last offset of each partition, None where it was deleted."""
    for partition, offset in offsets.items():
        if offset is None:
            reader.offsets.pop(partition, None)
        else:
            reader.offsets[partition] = offset
    last = reader.instants_ms[-1] if reader.instants_ms else None
    reader.instants_ms = sorted({*reader.instants_ms, *instants_ms})[-COMMITS_KEPT:]
    if not reader.offsets:
        return _resolve(reader, group, topic, last or 0, "its offsets were deleted or have expired")
    if not reader.instants_ms or reader.instants_ms[-1] == last:
        return []
    reader.still = reader.waiting_ms = None
    return _resolve(reader, group, topic, reader.instants_ms[-1], "it commits again")


def check(
    reader: Reader, group: str, topic: str, ends: Mapping[int, int], now_ms: int, limits: StoppedLimits
) -> list[Alert]:
    """Judge a group at a sample.

    Args:
        ends: where the topic's logs end, by partition; those that the group does not read do not matter.
        now_ms: when that was.
    """
    usual, last = reader.usual_ms, reader.instants_ms[-1] if reader.instants_ms else None
    if last is None or now_ms < last:
        return []
    read = [(ends[partition], offset) for partition, offset in reader.offsets.items() if partition in ends]
    total, unread = sum(end for end, _ in read), sum(max(end - offset, 0) for end, offset in read)
    if unread == 0:
        reader.still, reader.waiting_ms = total, None
        return _resolve(reader, group, topic, now_ms, "nothing is unread any more")
    if reader.still is None or total < reader.still:
        reader.still = total
    elif reader.waiting_ms is None and total > reader.still:
        reader.waiting_ms = now_ms
    if usual is None or reader.waiting_ms is None or reader.raised_ms is not None:
        return []
    if now_ms - max(last, reader.waiting_ms) < max(limits.after_ms, limits.intervals * usual):
        return []
    reader.raised_ms = last
    return [_alert(reader, group, topic, "raised", now_ms, unread, "while more is written")]


def forgotten(reader: Reader, now_ms: int, limits: StoppedLimits) -> bool:
    """Tell whether the state can go: the group has nothing committed, or has not committed for `forget_ms`."""
    return not reader.offsets or not reader.instants_ms or now_ms - reader.instants_ms[-1] > limits.forget_ms


def forget(reader: Reader, group: str, topic: str, now_ms: int, limits: StoppedLimits) -> list[Alert]:
    """Resolve the alert of a group whose state goes."""
    why = f"it is forgotten after {seconds(limits.forget_ms)} without a commit"
    return _resolve(reader, group, topic, now_ms, why)


def _resolve(reader: Reader, group: str, topic: str, ts_ms: int, why: str) -> list[Alert]:
    if reader.raised_ms is None:
        return []
    said = _alert(reader, group, topic, "resolved", ts_ms, 0, f"that is over: {why}")
    reader.raised_ms = None
    return [said]


def _alert(reader: Reader, group: str, topic: str, state: State, ts_ms: int, unread: int, ending: str) -> Alert:
    since = reader.raised_ms or 0
    usual = reader.usual_ms
    text = f"Group {group!r} has stopped reading {topic!r}: no commit for {seconds(ts_ms - since)}"
    if state == "resolved":
        text = f"Group {group!r} had stopped reading {topic!r} for {seconds(ts_ms - since)}"
    elif usual is not None:
        text += f", usually every {seconds(usual) if usual >= 1000 else f'{usual} ms'}, and {unread} records unread"
    return Alert(
        v=VERSION,
        id=alert_id(KIND, group, topic, since),
        state=state,
        kind=KIND,
        group=group,
        topic=topic,
        ts_ms=ts_ms,
        since_ms=since,
        text=f"{text}, {ending}." if state == "raised" else f"{text}; {ending}.",
        silent_ms=ts_ms - since,
        usual_ms=usual,
        unread=unread if state == "raised" else None,
        partitions=len(reader.offsets),
    )
