"""The place of a node among others that share a database: beats, the lease that they give, and who seems to be dead.

A pure machine. Every entry takes the monotonic time of this node; effects are taken from `Membership.effects`. A beat
that was answered makes the lease last from the moment at which it was *sent*. A node is presumed dead after more than a
lease of time in which this one heard well. Neither makes records safe: an append is refused by its epoch. They say who
should claim what, and who may show state without asking the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from ottla.broker.cluster.view import ClusterView, NodeInfo, NodeState

DRAIN = 1
"""What an operator may want of a node: that it leads nothing."""


class NodeRow(NamedTuple):
    """A node as the database has it. ``beat`` grows by one with every beat of the incarnation."""

    node_id: int
    incarnation: int
    state: NodeState
    beat: int
    intent: int = 0
    endpoints: Mapping[str, tuple[str, int]] = MappingProxyType({})
    rack: str | None = None


class Server(NamedTuple):
    """The life of a database server: its timeline, and when it was started."""

    timeline: int
    started: int


class Heard(NamedTuple):
    """The answer to a beat.

    Attributes:
        is_mine: False if the row has another incarnation by now.
        version: of the catalog.
        fingerprint: number of logs, sum of their epochs, and how many are called home. If all are as they were, no log
            has moved, and none is to.
        held: the nodes whose first connection is open; None where the database cannot tell.
    """

    is_mine: bool
    nodes: Sequence[NodeRow]
    version: int
    fingerprint: tuple[int, int, int]
    server: Server
    held: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """Send a beat, and tell its answer with this number."""

    number: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """The lease has ended: nothing may be shown that others could have changed."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The lease holds again. What is still led is known once the leaders have been read."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read what changed, leaders or catalog, then call `Membership.has_read` with the number."""

    number: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another process has the node's id: end this one."""


Effect = Beat | Suspend | Resume | Read | Superseded


class Presumed(NamedTuple):
    """A node that seems to be dead: its last sign of life, and why. A claim compares the former."""

    incarnation: int
    beat: int
    why: str


@dataclass(slots=True)
class _Sighting:
    """What was seen of a node: since when it has been the same, and whether its connection was open meanwhile."""

    incarnation: int
    beat: int
    since_ms: int
    held_by: Server | None = None


class Membership:
    """See the module. Times are in milliseconds.

    Attributes:
        presumed: the nodes that seem to be dead, by id.
        version: of the catalog, as last heard.
        is_draining: whether an operator wants this node to lead nothing.
    """

    def __init__(
        self, node_id: int, incarnation: int, *, lease_ms: int = 3_000, beat_ms: int = 500, settle_ms: int = 10_000
    ) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.effects: list[Effect] = []
        self.presumed: dict[int, Presumed] = {}
        self.nodes: dict[int, NodeInfo] = {}
        self.version = -1
        self.is_draining = False
        self._lease_ms = lease_ms
        self._beat_ms = beat_ms
        self._settle_ms = settle_ms
        self._suspect_ms = lease_ms * 5 // 4
        self._number = 0
        self._sent_ms: int | None = None
        self._next_beat_ms: int | None = None
        self._beat_again = False
        self._lease_until_ms: int | None = None
        self._is_suspended = True
        self._is_superseded = False
        self._heard_ms: int | None = None
        self._sightings: dict[int, _Sighting] = {}
        self._fingerprint: tuple[int, int, int] | None = None
        self._reading = 0
        self._is_in_doubt = True
        self._sure_from: int | None = None
        self._up: frozenset[tuple[int, int]] = frozenset()
        self._up_since_ms = 0

    # What is known

    @property
    def view(self) -> ClusterView:
        """All nodes; who is presumed dead is shown as down."""
        return ClusterView(self.node_id, self.nodes)

    def may_answer(self, now_ms: int) -> bool:
        """Whether the lease holds and what others did before it is known: led state may be shown without a barrier."""
        return not self._is_in_doubt and not self._is_superseded and now_ms < (self._lease_until_ms or 0)

    def is_settled(self, now_ms: int) -> bool:
        """Whether the set of nodes that are up has been the same for a while."""
        return now_ms - self._up_since_ms >= self._settle_ms

    @property
    def next_ms(self) -> int | None:
        """When `tick` is wanted."""
        lease = None if self._is_suspended else self._lease_until_ms
        return min((at_ms for at_ms in (self._next_beat_ms, lease) if at_ms is not None), default=None)

    # Entries

    def connected(self, now_ms: int) -> None:
        """The connection for beats is there, or there again."""
        self._beat(now_ms)

    def nudged(self, now_ms: int) -> None:
        """Somebody says that something has changed: beat at once, and do not wait for the next one's time."""
        if self._next_beat_ms is not None:
            self._beat(now_ms)
        else:
            self._beat_again = self._sent_ms is not None

    def lost(self, now_ms: int) -> None:
        """The connection is gone, and with it the answer under way.

        Others may see that as a death and claim what is led here, so this node is in doubt until it has read.
        """
        self._sent_ms = self._next_beat_ms = None
        self._doubt()
        self.tick(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has passed."""
        if not self._is_suspended and now_ms >= (self._lease_until_ms or 0):
            self._is_suspended = True
            self._doubt()
            self.effects.append(Suspend())
        if self._next_beat_ms is not None and now_ms >= self._next_beat_ms:
            self._beat(now_ms)

    def answered(self, now_ms: int, number: int, heard: Heard) -> None:
        """The beat with this number was answered; an answer that comes twice, or too late, changes nothing."""
        if self._sent_ms is None or number != self._number or self._is_superseded:
            return
        sent_ms, self._sent_ms = self._sent_ms, None
        if not heard.is_mine:
            self._is_superseded = True
            self.effects.append(Superseded())
            return
        self.tick(now_ms)
        self._next_beat_ms = now_ms if self._beat_again else max(sent_ms + self._beat_ms, now_ms)
        self._beat_again = False
        self._lease_until_ms = sent_ms + self._lease_ms
        self._look_around(now_ms, heard)
        self._see_changes(heard)
        if self._is_suspended and now_ms < self._lease_until_ms:
            self._is_suspended = False
            self.effects.append(Resume())
        self.tick(now_ms)

    def has_read(self, number: int) -> None:
        """What `Read` asked for was read and obeyed. Whoever fails to read tries again under the same number."""
        if self._sure_from is not None and number >= self._sure_from:
            self._is_in_doubt = False

    # Steps

    def _doubt(self) -> None:
        """What is led here is only known again by a reading that begins after the next answer."""
        self._is_in_doubt, self._sure_from = True, None

    def _beat(self, now_ms: int) -> None:
        self._number += 1
        self._sent_ms = now_ms
        self._next_beat_ms = None
        self.effects.append(Beat(self._number))

    def _look_around(self, now_ms: int, heard: Heard) -> None:
        """Who seems to be dead. A gap in one's own hearing says nothing about others, so all clocks start again."""
        heard_well = self._heard_ms is not None and now_ms - self._heard_ms <= 2 * self._beat_ms
        self._heard_ms = now_ms
        for row in heard.nodes:
            seen = self._sightings.get(row.node_id)
            if seen is None or (seen.incarnation, seen.beat) != (row.incarnation, row.beat):
                # It may have beaten once more before it died. Who beats on although he was presumed dead is alive.
                is_same = row.node_id not in self.presumed and seen is not None and seen.incarnation == row.incarnation
                held_by = seen.held_by if seen is not None and is_same else None
                self.presumed.pop(row.node_id, None)
                seen = self._sightings[row.node_id] = _Sighting(row.incarnation, row.beat, now_ms, held_by)
            elif not heard_well:
                seen.since_ms = now_ms
            if row.node_id != self.node_id and row.node_id not in self.presumed:
                why = self._death(now_ms, row, seen, heard)
                if why:
                    self.presumed[row.node_id] = Presumed(row.incarnation, row.beat, why)
            if heard.held is not None and row.node_id in heard.held:
                seen.held_by = heard.server
        self._keep(now_ms, heard.nodes)

    def _death(self, now_ms: int, row: NodeRow, seen: _Sighting, heard: Heard) -> str:
        """Why a node seems to be dead; empty if it does not. A closed connection counts if this server had it open."""
        if row.state is NodeState.DOWN:
            return "it was seen to end"
        if heard.held is not None and seen.held_by == heard.server and row.node_id not in heard.held:
            return "its connection has closed"
        if now_ms - seen.since_ms >= self._suspect_ms:
            return "it does not beat"
        return ""

    def _keep(self, now_ms: int, rows: Sequence[NodeRow]) -> None:
        self.nodes = {row.node_id: self._info(row) for row in rows}
        for node_id in self._sightings.keys() - self.nodes.keys():  # an operator has removed it
            del self._sightings[node_id]
            self.presumed.pop(node_id, None)
        up = frozenset((node.node_id, node.incarnation) for node in self.nodes.values() if node.is_up)
        if up != self._up:
            self._up, self._up_since_ms = up, now_ms
        mine = self.nodes.get(self.node_id)
        self.is_draining = mine is not None and mine.state is NodeState.DRAINING

    def _info(self, row: NodeRow) -> NodeInfo:
        state = NodeState.DRAINING if row.state is NodeState.UP and row.intent == DRAIN else row.state
        if row.node_id in self.presumed:
            state = NodeState.DOWN
        return NodeInfo(row.node_id, state, row.endpoints, rack=row.rack, incarnation=row.incarnation)

    def _see_changes(self, heard: Heard) -> None:
        is_first = self._is_in_doubt and self._sure_from is None
        if is_first or (heard.version, heard.fingerprint) != (self.version, self._fingerprint):
            self.version, self._fingerprint = heard.version, heard.fingerprint
            self._reading += 1
            self.effects.append(Read(self._reading))
        if is_first:
            self._sure_from = self._reading
