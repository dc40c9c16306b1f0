"""Who claims and hands over what; how homes are dealt."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.broker.cluster.plan import (
    DRAINED_AT_ONCE,
    HandOver,
    LogRow,
    Plan,
    balance,
    deal,
    deal_anew,
    plan,
    with_followers,
)
from ottla.broker.cluster.view import NOBODY, ClusterView, NodeInfo, NodeState

NOTHING = Plan((), ())


def view(me: int, **states: NodeState) -> ClusterView:
    """Nodes 1 to 3, in the incarnations 10 to 30; ``n2=DOWN`` says otherwise."""
    nodes = {
        node_id: NodeInfo(node_id, states.get(f"n{node_id}", NodeState.UP), incarnation=10 * node_id)
        for node_id in (1, 2, 3)
    }
    return ClusterView(me, nodes)


def log(log_id: int, home: int, leader: int, *, internal: bool = False, follows: int | None = None) -> LogRow:
    return LogRow(log_id, home, leader, 10 * leader, 1, internal, follows)


def claims(logs: list[LogRow], **states: NodeState) -> dict[int, tuple[int, ...]]:
    """What each node claims."""
    return {me: plan(view(me, **states), logs, is_settled=False).claims for me in (1, 2, 3)}


def test_nothing_to_do() -> None:
    logs = [log(index, 1 + index % 3, 1 + index % 3) for index in range(6)]
    assert all(plan(view(me), logs, is_settled=True) == NOTHING for me in (1, 2, 3))


def test_orphans_go_home() -> None:
    logs = [log(0, 1, NOBODY), log(1, 2, NOBODY), log(2, 3, NOBODY)]
    assert claims(logs) == {1: (0,), 2: (1,), 3: (2,)}


def test_orphans_without_a_home_go_to_whoever_leads_the_fewest_of_their_kind() -> None:
    logs = [log(0, 2, 2), log(1, 2, 2), log(2, 2, 2), log(3, 1, 1), log(4, 1, 1, internal=True)]
    assert claims(logs, n2=NodeState.DOWN) == {1: (1,), 2: (), 3: (0, 2)}


def test_claims_of_all_nodes_are_disjoint_and_leave_nothing() -> None:
    logs = [log(index, index % 4, index % 5 - 1, internal=index % 3 == 0) for index in range(40)]
    found = claims(logs, n3=NodeState.DOWN)
    orphans = [one.log_id for one in logs if one.leader_id not in (1, 2)]
    assert sorted(found[1] + found[2]) == orphans


def test_who_leads_in_an_earlier_life_does_not_lead() -> None:
    old = LogRow(0, 2, 2, 19, 1)
    assert claims([old]) == {1: (), 2: (0,), 3: ()}


def test_who_leads_in_a_life_that_nobody_has_heard_of_has_just_begun() -> None:
    assert claims([LogRow(0, 1, 2, 31, 1), LogRow(1, 1, 9, 32, 1)]) == {1: (), 2: (), 3: ()}


def test_what_follows_goes_along() -> None:
    logs = [log(0, 2, NOBODY, internal=True), log(1, 2, NOBODY, internal=True, follows=0)]
    assert claims(logs) == {1: (), 2: (0, 1), 3: ()}
    assert claims([log(0, 2, 3, internal=True), logs[1]]) == {1: (), 2: (), 3: (1,)}


def test_what_follows_and_was_left_behind_is_handed_over() -> None:
    logs = [log(0, 2, 2, internal=True), log(1, 2, 3, internal=True, follows=0)]
    assert claims(logs) == {1: (), 2: (), 3: ()}
    assert plan(view(3), logs, is_settled=False).hand_overs == (
        HandOver((1,), 2, "it goes with the log that it follows"),
    )


def test_a_log_goes_home_alone_and_once_the_nodes_have_settled() -> None:
    logs = [log(0, 2, 1), log(1, 3, 1), log(2, 3, 1, internal=True), log(3, 3, 1, internal=True, follows=2)]
    assert plan(view(1), logs, is_settled=False) == NOTHING
    assert plan(view(1), logs, is_settled=True).hand_overs == (HandOver((2, 3), 3, "it went home"),)


def test_logs_that_are_called_go_home_at_once_before_all_others() -> None:
    logs = [log(0, 2, 1, internal=True), log(1, 3, 1)._replace(called="moved"), log(2, 2, 3)._replace(called="moved")]
    assert plan(view(1), logs, is_settled=False).hand_overs == (HandOver((1,), 3, "moved"),)
    assert len(plan(view(1), logs, is_settled=True).hand_overs) == 2
    many = [log(index, 2, 1)._replace(called="moved") for index in range(2 * DRAINED_AT_ONCE)]
    assert len(plan(view(1), many, is_settled=True).hand_overs) == DRAINED_AT_ONCE


@pytest.mark.parametrize("state", [NodeState.DOWN, NodeState.DRAINING])
def test_a_log_that_is_called_stays_where_its_home_cannot_lead_it(state: NodeState) -> None:
    called = log(0, 2, 1)._replace(called="moved")
    assert plan(view(1, n2=state), [called], is_settled=True) == NOTHING
    (given,) = plan(view(1, n1=NodeState.DRAINING, n2=state), [called], is_settled=False).hand_overs
    assert given == HandOver((0,), 3, "node 1 drains")


@pytest.mark.parametrize("state", [NodeState.DOWN, NodeState.DRAINING])
def test_a_log_does_not_go_home_where_nobody_takes_it(state: NodeState) -> None:
    assert plan(view(1, n2=state), [log(0, 2, 1)], is_settled=True) == NOTHING


def test_a_node_that_drains_gives_everything_away_internal_logs_first() -> None:
    logs = [log(index, 1, 1, internal=index >= 8) for index in range(16)]
    found = plan(view(1, n1=NodeState.DRAINING), logs, is_settled=False).hand_overs
    assert len(found) == DRAINED_AT_ONCE
    assert [log_id for one in found for log_id in one.log_ids] == [*range(8, 16), 0, 1]
    assert Counter(one.heir for one in found) == {2: 5, 3: 5}


def test_nobody_takes_over_from_the_last_one() -> None:
    states = {"n1": NodeState.DRAINING, "n2": NodeState.DOWN, "n3": NodeState.DOWN}
    assert plan(view(1, **states), [log(0, 1, 1)], is_settled=True) == NOTHING


def test_homes_are_dealt_in_turn() -> None:
    assert deal(5, [3, 1, 2]) == (1, 2, 3, 1, 2)
    assert deal(2, [1, 2, 3], after=2) == (3, 1)
    assert deal(2, [1, 2, 3], after=3) == (1, 2)


def test_homes_are_balanced_with_as_few_moves_as_that_takes() -> None:
    logs = [log(index, 1, 1) for index in range(5)] + [log(index, 9, 1, internal=True) for index in range(5, 8)]
    moved = balance(logs, [1, 2, 3])
    homes = {one.log_id: moved.get(one.log_id, one.home) for one in logs}
    assert sorted(Counter(homes[log_id] for log_id in range(5)).values()) == [1, 2, 2]
    assert Counter(homes[log_id] for log_id in range(5, 8)) == {1: 1, 2: 1, 3: 1}
    assert len(moved) == 3 + 3
    assert balance([one._replace(home=homes[one.log_id]) for one in logs], [1, 2, 3]) == {}
    assert balance(logs, []) == {}


def test_what_was_at_home_at_a_node_that_is_gone_goes_where_fewest_are_and_nothing_else_moves() -> None:
    logs = [log(index, home, 1) for index, home in enumerate([1, 1, 2, 3, 3, 3])]
    logs += [log(6, 3, 1, internal=True), log(7, 3, 1, internal=True, follows=6), log(8, 1, 1, internal=True)]
    homes = deal_anew(logs, 3, [1, 2])
    assert homes == {3: 2, 4: 1, 5: 2, 6: 2}
    assert with_followers(homes, logs) == {**homes, 7: 2}
    assert deal_anew(logs, 9, [1, 2]) == {}
