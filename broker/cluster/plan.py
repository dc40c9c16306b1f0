"""What each node should claim and hand over: a pure function of the nodes and the logs, the same on every node.

Where the views of two nodes differ, both may claim the same log; one compare is lost, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.broker.cluster.view import NOBODY, ClusterView, NodeState

DRAINED_AT_ONCE = 10
"""Logs that a node which drains hands over in one beat; and so many that are called home."""


class LogRow(NamedTuple):
    """A log, and who leads it.

    Attributes:
        follows: the log with which this one is claimed, handed over and dealt; None for one that goes its own way.
        called: why it is to go home at once, as an operator wants it; empty if that has time.
    """

    log_id: int
    home: int
    leader_id: int
    leader_incarnation: int
    epoch: int
    is_internal: bool = False
    follows: int | None = None
    called: str = ""


class HandOver(NamedTuple):
    """Give these logs, one and what follows it, to a node; ``why`` is kept for those who ask."""

    log_ids: tuple[int, ...]
    heir: int
    why: str


class Plan(NamedTuple):
    """What a node should do: logs to claim, and logs to hand over."""

    claims: tuple[int, ...]
    hand_overs: tuple[HandOver, ...]


def plan(view: ClusterView, logs: Iterable[LogRow], *, is_settled: bool) -> Plan:
    """What the node of the view should do now.

    Logs that are not called go home only once the set of nodes ``is_settled``.
    """
    rows = sorted(logs)
    followers: dict[int, list[LogRow]] = {}
    for row in rows:
        if row.follows is not None:
            followers.setdefault(row.follows, []).append(row)
    heads = [row for row in rows if row.follows is None]
    keen = [node.node_id for node in view.up if node.state is NodeState.UP]
    load = {kind: Counter[int]() for kind in (True, False)}
    for row in heads:
        if is_led(row, view):
            load[row.is_internal][row.leader_id] += 1
    claims = []
    for row in heads:
        owner = row.leader_id
        if not is_led(row, view):
            owner = _heir(row, keen, load[row.is_internal])
            load[row.is_internal][owner] += 1
            if owner == view.me:
                claims.append(row.log_id)
        if owner == view.me:  # what follows goes along
            claims += [one.log_id for one in followers.get(row.log_id, ()) if not is_led(one, view)]
    return Plan(tuple(claims), tuple(_hand_overs(view, heads, followers, keen, load, is_settled)))


def is_led(row: LogRow, view: ClusterView) -> bool:
    """Whether the leader is up, and in the life in which it became the leader.

    The logs may have been read after the nodes: a leader in a life that nobody here has heard of has just begun.
    """
    node = view.nodes.get(row.leader_id)
    if node is not None and node.is_up and node.incarnation == row.leader_incarnation:
        return True
    return row.leader_incarnation > max((one.incarnation for one in view.nodes.values()), default=0)


def _heir(row: LogRow, keen: Collection[int], load: Counter[int]) -> int:
    """Its home, or else whoever leads the fewest of its kind."""
    if row.home in keen:
        return row.home
    return min(keen, key=lambda node_id: (load[node_id], node_id), default=NOBODY)


def _hand_overs(
    view: ClusterView,
    heads: Sequence[LogRow],
    followers: Mapping[int, Sequence[LogRow]],
    keen: Collection[int],
    load: Mapping[bool, Counter[int]],
    is_settled: bool,
) -> Iterable[HandOver]:
    drains = view.me in view.nodes and view.nodes[view.me].state is NodeState.DRAINING
    left = DRAINED_AT_ONCE if drains else 1 if is_settled else 0
    called = DRAINED_AT_ONCE
    for row in heads:  # of a claim that others won in part, what follows may be left here
        if row.leader_id not in (view.me, NOBODY) and row.leader_id in keen and is_led(row, view):
            left_here = [one.log_id for one in followers.get(row.log_id, ()) if one.leader_id == view.me]
            if left_here:
                yield HandOver(tuple(left_here), row.leader_id, "it goes with the log that it follows")
    mine = [row for row in heads if row.leader_id == view.me and is_led(row, view)]
    for row in sorted(mine, key=lambda row: (not row.is_internal, row.log_id)):
        heir = _heir(row, keen, load[row.is_internal]) if drains else row.home if row.home in keen else view.me
        is_called = bool(row.called) and row.home in keen
        if heir in (view.me, NOBODY) or not (called if is_called else left):
            continue
        why = row.called if is_called else f"node {view.me} drains" if drains else "it went home"
        called, left = (called - 1, left) if is_called else (called, left - 1)
        load[row.is_internal][heir] += 1
        yield HandOver((row.log_id, *(one.log_id for one in followers.get(row.log_id, ()))), heir, why)


def deal(count: int, nodes: Collection[int], *, after: int = NOBODY) -> tuple[int, ...]:
    """Homes for so many new partitions: in turn, beginning behind the node that was given the last one of its kind."""
    order = sorted(nodes)
    start = next((index for index, node_id in enumerate(order) if node_id > after), 0)
    return tuple(order[(start + index) % len(order)] for index in range(count))


def with_followers(homes: Mapping[int, int], logs: Iterable[LogRow]) -> dict[int, int]:
    """New homes, by log, and the same ones for what follows those logs."""
    follow = {row.log_id: homes[row.follows] for row in logs if row.follows is not None and row.follows in homes}
    return {**homes, **follow}


def deal_anew(logs: Iterable[LogRow], gone: int, nodes: Collection[int]) -> dict[int, int]:
    """New homes for all that is at home at a node, by log: where fewest of its kind are. Nothing else moves."""
    rows = sorted(row for row in logs if row.follows is None)
    count = {kind: Counter(row.home for row in rows if row.is_internal is kind) for kind in (True, False)}
    homes = {}
    for row in rows:
        if row.home == gone:
            homes[row.log_id] = min(nodes, key=lambda node_id: (count[row.is_internal][node_id], node_id))
            count[row.is_internal][homes[row.log_id]] += 1
    return homes


def balance(logs: Iterable[LogRow], nodes: Collection[int]) -> dict[int, int]:
    """New homes, by log, so that each kind is dealt evenly over the nodes. As few move as that takes."""
    moved: dict[int, int] = {}
    rows = sorted(row for row in logs if row.follows is None)
    for kind in (True, False):
        homes = {row.log_id: row.home for row in rows if row.is_internal is kind}
        count = Counter(home for home in homes.values() if home in nodes)
        least, rest = divmod(len(homes), len(nodes)) if nodes else (0, 0)
        # Whoever has most keeps what is left over.
        fullest = sorted(nodes, key=lambda node_id: (-count[node_id], node_id))
        room = {node_id: least + (index < rest) for index, node_id in enumerate(fullest)}
        homeless = []
        for log_id, home in homes.items():
            if room.get(home, 0) > 0:
                room[home] -= 1
            else:
                homeless.append(log_id)
        free = [node_id for node_id in sorted(room) for _ in range(room[node_id])]
        moved |= dict(zip(homeless, free, strict=bool(nodes)))
    return moved
