"""Who leads what: a node that is alone, nodes that lead what is at home with them, nodes that share a database."""

import uuid

import pytest

from ottla.broker.cluster.placement import Alone, Shared, Static, view_of
from ottla.broker.cluster.plan import LogRow
from ottla.broker.cluster.view import NOBODY, ClusterView, Leader, NodeInfo, NodeState
from ottla.broker.core.topics.catalog import TopicEntry

ENTRY = TopicEntry("t", uuid.UUID(int=1), 4, {}, (1, 2, 3, 9))


def row(node_id, state="up", epoch=5, **more):
    """A node as ``cluster.json`` has it."""
    return {
        "node_id": node_id,
        "state": state,
        "epoch": epoch,
        "endpoints": {"PLAINTEXT": ["127.0.0.1", 9090 + node_id]},
    } | more


def document(*rows):
    return {"format": 1, "cluster_id": "c", "supervisor": {"pid": 1}, "nodes": list(rows)}


def test_a_node_that_is_alone_leads_everything_under_the_epoch_of_its_engine():
    placement = Alone(7)
    placement.opened(3)
    assert [placement.leader(ENTRY._replace(homes=()), index) for index in range(4)] == [Leader(7, 3)] * 4
    assert (placement.dealt_to, placement.view.controller_id) == ((), 7)
    assert [(node.node_id, node.epoch) for node in placement.view.up] == [(7, 3)]


def test_what_a_document_says():
    rows = row(2, "draining", http=["127.0.0.1", 8092]), row(1), row(3, "starting", epoch=0), row(4, "down")
    view = view_of(document(*rows), 2)
    assert [node.node_id for node in view.up] == [1, 2]
    assert [node.node_id for node in view.told] == [1, 2, 3]
    assert view.controller_id == 1
    node = view.nodes[2]
    assert (node.state, node.endpoints, node.http) == (
        NodeState.DRAINING,
        {"PLAINTEXT": ("127.0.0.1", 9092)},
        ("127.0.0.1", 8092),
    )
    assert (view.nodes[3].state, view.nodes[4].state) == (NodeState.AWAY, NodeState.DOWN)


def test_a_node_that_does_not_answer_is_no_controller_while_another_does():
    hangs = row(1, why="it has not answered for 5 s")
    assert view_of(document(hangs, row(2), row(3)), 3).controller_id == 2
    assert view_of(document(hangs, row(2, "down")), 1).controller_id == 1


@pytest.mark.parametrize(
    "wrong", [{}, [], None, {"format": 2, "nodes": []}, {"format": 1, "nodes": [{}]}, document({"node_id": "x"})]
)
def test_what_is_no_document(wrong):
    with pytest.raises(ValueError, match=r"it is no document|reads format 1"):
        view_of(wrong, 1)


def test_a_home_that_is_up_leads_under_its_epoch_and_nobody_while_it_is_down():
    placement = Static(1, document(row(1), row(2, epoch=8), row(3, "down", epoch=4)))
    placement.opened(6)
    leaders = [placement.leader(ENTRY, index) for index in range(4)]
    assert leaders == [Leader(1, 6), Leader(2, 8), Leader(NOBODY, 4), Leader(NOBODY, -1)]
    assert list(placement.dealt_to) == [1, 2, 3]


def test_a_node_is_up_to_itself_in_the_life_that_it_has():
    """Its supervisor has not heard of that yet."""
    placement = Static(2, document(row(1), row(2, "starting", epoch=8)))
    placement.opened(9)
    assert placement.leader(ENTRY, 1) == Leader(2, 9)
    placement.read(document(row(1), row(2, "draining", epoch=9)))
    assert placement.view.nodes[2].state is NodeState.DRAINING
    assert placement.leader(ENTRY, 1) == Leader(2, 9)


def test_a_change_of_the_document_is_told_once():
    placement, told = Static(1, document(row(1), row(2))), []
    placement.on_changed = lambda before, after: told.append((before.nodes[2].state, after.nodes[2].state))
    placement.read(document(row(1), row(2, "down")))
    placement.read(document(row(1), row(2, "down")))
    assert told == [(NodeState.UP, NodeState.DOWN)]
    with pytest.raises(ValueError, match="it is no document"):
        placement.read({"format": 1})
    assert placement.view.nodes[2].state is NodeState.DOWN


TOPIC = TopicEntry("orders", uuid.UUID(int=1), 2, {}, (1, 2))


UP, OTHER = NodeInfo(1, NodeState.UP, incarnation=3), NodeInfo(2, NodeState.UP, incarnation=2)


def shared(*nodes: NodeInfo) -> Shared:
    """What node 1 sees, in its third life, of a topic whose logs are 10 and 11."""
    placement = Shared(1, lambda topic_id: [10, 11] if topic_id == TOPIC.topic_id else [])
    placement.incarnation = 3
    placement.look(ClusterView(1, {node.node_id: node for node in nodes or (UP, OTHER)}))
    return placement


def led_by(node_id: int, incarnation: int, epoch: int, log_id: int = 10) -> LogRow:
    return LogRow(log_id, 1, node_id, incarnation, epoch)


def test_who_leads_stands_in_the_database() -> None:
    placement = shared()
    assert placement.leader(TOPIC, 0) == (NOBODY, -1)
    placement.take([led_by(1, 3, 5), led_by(2, 2, 7, log_id=11)])
    assert [placement.leader(TOPIC, partition) for partition in (0, 1)] == [(1, 5), (2, 7)]
    assert placement.led == {10: 5}
    placement.take([led_by(2, 2, 4)])  # an older reading
    assert placement.leader(TOPIC, 0) == (1, 5)


def test_nobody_leads_for_a_node_that_is_down_or_in_an_earlier_life() -> None:
    placement = shared(UP, OTHER._replace(state=NodeState.DOWN))
    placement.take([led_by(2, 2, 7), led_by(1, 2, 5, log_id=11)])
    assert [placement.leader(TOPIC, partition) for partition in (0, 1)] == [(NOBODY, 7), (NOBODY, 5)]


def test_what_was_given_up_is_led_under_another_epoch_only() -> None:
    placement = shared()
    placement.take([led_by(1, 3, 5)])
    placement.give_up({10: 5})
    placement.take([led_by(1, 3, 5)])
    assert (placement.leader(TOPIC, 0), placement.led) == ((NOBODY, 5), {})
    placement.take([led_by(1, 3, 6)])
    assert placement.leader(TOPIC, 0) == (1, 6)


def test_a_log_that_was_lost_meanwhile_is_lost_before_it_is_gained() -> None:
    placement = shared()
    placement.take([led_by(1, 3, 5)])
    seen: list[Leader] = []
    placement.on_changed = lambda before, after: seen.append(placement.leader(TOPIC, 0))
    placement.take([led_by(1, 3, 7)])
    assert seen == [(NOBODY, 5), (1, 7)]


def test_a_log_that_is_gone_is_led_no_more() -> None:
    placement = shared()
    placement.take([led_by(1, 3, 5), led_by(2, 2, 7, log_id=11)])
    placement.take([led_by(2, 2, 7, log_id=11)], is_everything=True)
    assert (placement.led, placement.leader(TOPIC, 0)) == ({}, (NOBODY, -1))
