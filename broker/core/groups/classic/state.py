"""The states of a classic group, the table of legal transitions, and how the machine works.

Theory of operation
===================

A group is a set of members that agree, again and again, on who does what. One round of agreement is a *generation*.
The broker does not decide who does what: it elects a leader among the members, shows it everybody's metadata, and
hands its answer round. What the broker decides is *who belongs to a generation* and *when it begins*. It does so with
two barriers:

```
                 a member joins, leaves, expires or changes its mind
                ┌──────────────────────────────────────────────────┐
                ▼                                                  │
  Empty ──► PreparingRebalance ────────► CompletingRebalance ────► Stable
    ▲        join barrier:                sync barrier:
    │        JoinGroup is parked          SyncGroup is parked until the
    │        until everybody is here      leader's assignment is durable
    └───────────────┘ nobody is left                                    any state ──► Dead
```

*The join barrier* collects JoinGroup requests and answers none. It ends when every known member has rejoined and no
issued id is outstanding, or when the rebalance timeout runs out; who is late and dynamic is dropped. A group that
comes out of Empty waits for the initial delay instead, since its members usually start together. When the barrier
ends the generation goes up by one, and every JoinGroup is answered at once.

*The sync barrier* collects SyncGroup requests. The leader's brings the assignments; they are written to the log, and
when they are durable every SyncGroup is answered and the group is Stable. If anything moved the group on meanwhile
(the state or the generation is another one), the outcome of that write says nothing to anybody.

Three things run across this and cause most surprises.

*Time.* Each member has one session deadline. Joining does not move it; answering a parked JoinGroup or SyncGroup
starts it afresh, since a deadline that passes while a request is parked is ignored and does not come back by itself.
A new member is the exception: it can expire while parked, after five minutes. The join barrier and the sync barrier
have a deadline of their own, which is the largest rebalance timeout among the members when the barrier begins.

*Identity.* A dynamic member that joins without an id is given one and must come back with it (KIP-394). Until then
the id is *pending*: no member, but the join barrier waits for it. A static member (KIP-345) is known by an instance
id instead; when it comes back without a member id it replaces its predecessor, in a Stable group without disturbing
anybody. Everyone who still uses the old member id together with the instance id is fenced.

*What is durable.* A generation is logged when its assignments are (or, by setting, when it is formed), and when the
group becomes Empty. Between the two, members, metadata and the generation itself are soft state: a coordinator that
takes over finds the last generation that was logged, calls it Stable, and the members find out by ILLEGAL_GENERATION.

Heartbeats look upside down at first: during the join phase they are answered REBALANCE_IN_PROGRESS, which is how
members learn that they must rejoin, and during the sync phase NONE, since those members are where they should be.
Offset commits are the other way round: the old generation may still commit while a join phase runs, so that members
can hand over cleanly, and nobody may commit between join and sync.
"""

from __future__ import annotations

import enum

from ottla.protocol.errors import ErrorCode


class GroupState(enum.StrEnum):
    """A state; the value is what stands on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

PREDECESSORS: dict[GroupState, tuple[GroupState, ...]] = {
    EMPTY: (PREPARING_REBALANCE,),
    PREPARING_REBALANCE: (EMPTY, COMPLETING_REBALANCE, STABLE),
    COMPLETING_REBALANCE: (PREPARING_REBALANCE,),
    STABLE: (COMPLETING_REBALANCE,),
    DEAD: (EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD),
}
"""The table: each state, and the states that it may be entered from."""

HEARTBEAT_ANSWER: dict[GroupState, ErrorCode] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: ErrorCode.NONE,
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The answer to a heartbeat with the right generation, by state."""


class IllegalTransition(RuntimeError):
    """A transition that is not in the table: a bug of ours, never a fault of a peer."""


def can_move(before: GroupState, after: GroupState) -> bool:
    """Whether the table allows the transition."""
    return before in PREDECESSORS[after]


def can_rebalance(state: GroupState) -> bool:
    """Whether a rebalance may begin in this state."""
    return can_move(state, PREPARING_REBALANCE)
