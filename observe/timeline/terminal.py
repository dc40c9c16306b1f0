"""A timeline as lines of text: a lane of characters for each member. Pure; `ottla timeline` prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

from ottla.observe.printable import printable
from ottla.observe.timeline.model import FATES, Flow, Kind, Lane, Mark, Timeline
from ottla.observe.timeline.scale import Scale, end_of
from ottla.observe.why.plain import count, told_apart

MOST_NAME = 28
LEAST_COLUMNS = 20
MOST_STORIES = 20
CULPRIT, TRIGGER, REMOVED, LEFT, IDLE, JOIN, SYNC = "culprit", "trigger", "removed", "left", "idle", "join", "sync"


class Look(NamedTuple):
    """A character for a terminal, one for where there is only ASCII, and a style."""

    sign: str
    ascii: str
    style: str
    words: str


LOOKS: dict[str | Kind, Look] = {
    Kind.OWNING: Look("█", "#", "green", "owns partitions"),
    IDLE: Look("▁", "_", "green", "owns nothing"),
    Kind.JOINING: Look("▓", "J", "bold yellow", "rejoining or giving up: the group waits for it"),
    Kind.JOINED: Look("░", "j", "yellow", "waits for others"),
    Kind.SYNCING: Look("▚", "S", "bold magenta", "yet to ask for its assignment"),
    Kind.SYNCED: Look("·", "s", "magenta", "waits for its assignment"),
    Kind.SILENT: Look("╳", "?", "red", "silent"),
    CULPRIT: Look("◆", "!", "bold red", "culprit"),
    TRIGGER: Look("▸", ">", "bold blue", "trigger"),
    REMOVED: Look("✗", "x", "bold red", "removed"),
    LEFT: Look("╴", "-", "dim", "left"),
}
FAULT = Look("↯", "f", "bold cyan", "fault")
REFUSED = Look("▼", "r", "bold red", "refused")
BARRIERS = {JOIN: Look("━", "-", "yellow", "join barrier"), SYNC: Look("━", "=", "magenta", "sync barrier")}
SPARKS = ("▁▂▃▄▅▆▇█", "123456789")
WEIGHTS = {Kind.JOINING: 2.0, Kind.SYNCING: 2.0, Kind.SILENT: 2.0}
"""The order in which states win a column, whatever part of it they have."""

Piece = tuple[str, str]
"""Text and its style."""
Line = list[Piece]


class Drawing:
    """Draws one timeline.

    Args:
        width: columns of the whole line.
        is_ascii: use nothing but ASCII.
        most: so many members at most; of more, those that held barriers up longest.
        clock: Unix time in milliseconds → the time of day.
    """

    def __init__(
        self, timeline: Timeline, width: int, *, is_ascii: bool, most: int, clock: Callable[[int], str]
    ) -> None:
        self._timeline = timeline
        self._is_ascii = is_ascii
        self._most = most
        self._clock = clock
        self._names = names(timeline)
        longest = max([len(name) for name in self._names.values()] + [len("generation")])
        self._label = min(longest, MOST_NAME, max(width // 3, 8))
        self._columns = max(width - self._label - 2, LEAST_COLUMNS)
        self._scale = Scale(timeline)
        unit = (self._scale.total or 1) / self._columns
        self._starts = [self._scale.time(column * unit) for column in range(self._columns + 1)]
        self._unit = unit

    def lines(self) -> Iterator[Line]:
        """All of it, from top to bottom."""
        yield from self._head()
        shown = self._chosen()
        for index in shown:
            yield self._lane(index)
        hidden = len(self._timeline.lanes) - len(shown) + self._timeline.hidden
        if hidden:
            yield [("", ""), (f"{' ' * (self._label + 2)}and {hidden} more; --members {len(self._names)}", "dim")]
        yield from self._flow()
        yield []
        yield self._legend()
        yield from self._stories()
        yield from self._faults()

    # -- where things are

    def _column(self, time: float) -> int:
        return min(max(int(self._scale.width(time) / self._unit), 0), self._columns - 1)

    def _chosen(self) -> list[int]:
        lanes = self._timeline.lanes
        if len(lanes) <= self._most:
            return list(range(len(lanes)))
        return sorted(range(len(lanes)), key=lambda index: (-lanes[index].held_ms, index))[: self._most]

    def _labelled(self, label: str, style: str, cells: list[Piece]) -> Line:
        return [(f"{shorten(label, self._label):<{self._label}}  ", style), *_joined(cells)]

    # -- rows

    def _head(self) -> Iterator[Line]:
        times, generations = [(" ", "")] * self._columns, [(" ", "")] * self._columns
        barriers: list[Piece] = [(" ", "")] * self._columns
        for mark in self._timeline.marks:
            column = self._column(mark.start)
            _put(times, column, self._clock(self._timeline.from_ms + mark.start), "dim")
            if mark.generation >= 0 and mark.kind != "conversion":  # which raises none
                _put(generations, column, str(mark.generation), "bold")
            if mark.kind == "refusal":
                for at in range(column, self._column(max(mark.last, mark.start)) + 1):
                    barriers[at] = (REFUSED.ascii if self._is_ascii else REFUSED.sign, REFUSED.style)
            for barrier in mark.barriers:
                look = BARRIERS[SYNC if barrier.barrier == "sync" else JOIN]
                end = self._timeline.until if barrier.closed < 0 else max(barrier.closed - 1, barrier.opened)
                for at in range(self._column(barrier.opened), self._column(end) + 1):
                    barriers[at] = (look.ascii if self._is_ascii else look.sign, look.style)
        yield self._labelled("time", "dim", times)
        counted_by = self._timeline.counted_by
        yield self._labelled(counted_by, "dim", generations)
        # What has epochs waits for members, and has no barriers.
        yield self._labelled("barrier" if counted_by == "generation" else "waits", "dim", barriers)

    def _lane(self, index: int) -> Line:
        lane = self._timeline.lanes[index]
        cells: list[Piece] = []
        changes = list(zip(lane.changes[::3], lane.changes[1::3], lane.changes[2::3], strict=True))
        ends = [at for at, _, _ in changes[1:]] + [self._timeline.until]
        first = 0
        for column in range(self._columns):
            begin, end = self._starts[column], self._starts[column + 1]
            while first < len(changes) and ends[first] <= begin:
                first += 1
            shares: dict[str | Kind, float] = {}
            for change, stop in zip(changes[first:], ends[first:], strict=True):
                if change[0] >= end:
                    break
                what = _what(change)
                part = min(stop, end) - max(change[0], begin)
                if part > 0:
                    shares[what] = shares.get(what, 0.0) + part * WEIGHTS.get(Kind(change[1]), 1.0)
            cells.append(self._sign(max(shares, key=lambda one: shares[one]) if shares else Kind.GONE))
        for fault in lane.faults:
            for at in (fault.at, fault.last):
                cells[self._column(at)] = FAULT.ascii if self._is_ascii else FAULT.sign, FAULT.style
        for column, what in self._signs(index, changes).items():
            cells[column] = self._sign(what)
        style = "" if lane.is_present or not self._timeline.is_live else "dim"
        return self._labelled(self._names[index], style, cells)

    def _signs(self, index: int, changes: list[tuple[int, int, int]]) -> dict[int, str]:
        """Columns in which a member began a rebalance, was to blame for one, or ended."""
        gone = [(at, count) for at, kind, count in changes if kind == Kind.GONE and at]
        rebalances = [mark for mark in self._timeline.marks if mark.kind == "rebalance"]
        signs = {self._column(mark.start): TRIGGER for mark in rebalances if mark.trigger == index}
        for mark in rebalances:
            if mark.culprit == index:
                end = end_of(mark, self._timeline.until)
                went = [self._column(at) + 1 for at, _ in gone if mark.start <= at <= end]
                column = went[0] if went else self._column(max(end - 1, mark.start))
                signs[min(column, self._columns - 1)] = CULPRIT
        for at, fate in gone:
            signs[self._column(at)] = LEFT if FATES[fate] in ("left", "replaced") else REMOVED
        return signs

    def _sign(self, what: str | Kind) -> Piece:
        look = LOOKS.get(what)
        return (" ", "") if look is None else (look.ascii if self._is_ascii else look.sign, look.style)

    def _flow(self) -> Iterator[Line]:
        flow = self._timeline.flow
        if flow is None:
            return
        for name, values, style in (("commits", flow.commits, "blue"), ("lag", flow.lag, "red")):
            most = max(values, default=0)
            if most <= 0:
                continue
            sparks = SPARKS[self._is_ascii]
            cells: list[Piece] = []
            for value in self._commits(flow) if name == "commits" else self._lag(flow):
                cells.append(
                    (sparks[min(int(value / most * len(sparks)), len(sparks) - 1)] if value > 0 else " ", style)
                )
            yield self._labelled(name, "dim", cells)

    def _commits(self, flow: Flow) -> list[int]:
        """Of each column the most commits of a bucket. One that is wider than a column has one mark, in its middle."""
        columns = [0] * self._columns
        for bucket, commits in enumerate(flow.commits):
            begin = max(flow.start + bucket * flow.bucket_ms, 0)
            end = min(flow.start + (bucket + 1) * flow.bucket_ms, self._timeline.until)
            if begin <= end:
                column = self._column((begin + end) / 2)
                columns[column] = max(columns[column], commits)
        return columns

    def _lag(self, flow: Flow) -> Iterator[int]:
        """Of each column the most lag; it holds for the whole of its bucket."""
        for column in range(self._columns):
            begin = int((self._starts[column] - flow.start) // flow.bucket_ms)
            end = int((self._starts[column + 1] - flow.start) // flow.bucket_ms)
            yield max(flow.lag[max(begin, 0) : max(end, begin) + 1], default=0) if end >= 0 else 0

    def _legend(self) -> Line:
        line: Line = []
        refused = [REFUSED] if any(mark.kind == "refusal" for mark in self._timeline.marks) else []
        faults = [FAULT] if any(lane.faults for lane in self._timeline.lanes) else []
        for look in [*LOOKS.values(), *refused, *faults]:
            line += [(look.ascii if self._is_ascii else look.sign, look.style), (f" {look.words}   ", "dim")]
        flow, top = self._timeline.flow, SPARKS[self._is_ascii][-1]
        if flow is not None and (most := max(flow.commits, default=0)) > 0:
            line.append((f"{top} = {count(most, 'commit')} in {flow.bucket_ms // 1000} s   ", "dim"))
        if flow is not None and (most := max(flow.lag, default=0)) > 0:
            line.append((f"{top} = a lag of {most}", "dim"))
        return line

    def _stories(self) -> Iterator[Line]:
        """A line for each rebalance."""
        marks = self._timeline.marks
        if marks:
            yield []
        if len(marks) > MOST_STORIES:
            yield [(f"The last {MOST_STORIES} of {len(marks)}:", "dim")]
        for mark in marks[-MOST_STORIES:]:
            yield self._story(mark)

    def _story(self, mark: Mark) -> Line:
        took = end_of(mark, self._timeline.until) - mark.start
        length = f"{took} ms" if took < 1_000 else f"{took / 1000:.1f} s"
        number = str(mark.generation) if mark.generation >= 0 else "-"
        when = self._clock(self._timeline.from_ms + mark.start)
        so_far = "+" if mark.end < 0 else " "
        words = printable(mark.headline or mark.cause)
        return [(f"{number:>10}  ", "bold"), (f"{when}  {length:>9}{so_far} ", "dim"), (words, "")]

    def _faults(self) -> Iterator[Line]:
        """A line for each fault, by time."""
        lanes = self._timeline.lanes
        faults = sorted((one.at, index, one) for index, lane in enumerate(lanes) for one in lane.faults)
        if faults:
            yield []
        if len(faults) > MOST_STORIES:
            yield [(f"The last {MOST_STORIES} of {len(faults)} faults:", "dim")]
        for at, index, fault in faults[-MOST_STORIES:]:
            last = self._clock(self._timeline.from_ms + fault.last)
            often = f", {fault.times:,} times until {last}" if fault.times > 1 else ""
            when = self._clock(self._timeline.from_ms + at)
            words = printable(f"{self._names[index]}: {fault.words}{often}")
            yield [(f"{when:>20}  ", "dim"), (words, "")]


def names(timeline: Timeline) -> dict[int, str]:
    """Names of the lanes: those of one name are told apart as in the story, by a piece of their member ids."""
    rows = [
        (lane.group_instance_id or lane.client_id or _id(lane) or "?", _id(lane), lane.client_id)
        for lane in timeline.lanes
    ]
    return {index: printable(name) for index, name in enumerate(told_apart(rows))}


def _id(lane: Lane) -> str:
    return lane.tenants[-1].member_id if lane.tenants else ""


def _what(change: tuple[int, int, int]) -> str | Kind:
    _, kind, count = change
    return IDLE if kind == Kind.OWNING and not count else Kind(kind)


def shorten(text: str, width: int) -> str:
    """Text that fits; names often differ at their end."""
    if len(text) <= width:
        return text
    head = max((width - 2) // 2, 1)
    return f"{text[:head]}..{text[head + 2 - width :]}"


def _put(cells: list[Piece], column: int, text: str, style: str) -> None:
    """Write a text if there is room for it, with a space before it."""
    end = column + len(text)
    if end <= len(cells) and all(cell[0] == " " for cell in cells[max(column - 1, 0) : end]):
        cells[column:end] = [(sign, style) for sign in text]


def _joined(cells: list[Piece]) -> Line:
    """Cells of one style in a row as one piece."""
    return [("".join(text for text, _ in run), style) for style, run in groupby(cells, key=lambda cell: cell[1])]
