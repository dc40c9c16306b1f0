"""Scenarios of administration."""

from __future__ import annotations

from tests.interop.python.groups import produce, values
from tests.interop.python.harness import Stage, named
from tests.interop.python.records import INVALID_TOPIC, UNKNOWN_TOPIC, refusal, rows, settled
from tests.support.kit import Row
from tests.support.waiting import wait_for

OFFSET_OUT_OF_RANGE = 1
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69


def admin_topics(stage: Stage) -> None:
    kit, topic, other = stage.kit, stage.topic, f"{stage.topic}-x"
    kit.create(topic, 3)
    leaders = kit.leaders(topic)
    assert sorted(leaders) == [0, 1, 2]
    assert {*leaders.values()} <= stage.nodes.keys()
    for code, refused in (
        (TOPIC_ALREADY_EXISTS, lambda: kit.create(topic)),
        (INVALID_TOPIC, lambda: kit.create("no/slash")),
        (INVALID_REPLICATION_FACTOR, lambda: kit.create(other, replication=3)),
        (INVALID_PARTITIONS, lambda: kit.create(other, 0)),
        (INVALID_CONFIG, lambda: kit.create(other, configs={"no.such.config": "1"})),
    ):
        assert refusal(stage, refused) == code
    kit.create(other, validate_only=True)
    assert topic in kit.topics()
    assert other not in kit.topics(), "validated only, or refused"
    kit.grow(topic, 5)
    assert len(kit.leaders(topic)) == 5
    for count in (5, 4):
        assert refusal(stage, lambda count=count: kit.grow(topic, count)) == INVALID_PARTITIONS
    assert kit.produce(topic, rows(3), partition=4)[0] == (4, 0)
    kit.delete(topic)
    assert topic not in kit.topics()
    assert refusal(stage, lambda: kit.delete(topic)) == UNKNOWN_TOPIC
    kit.create(topic, 5)
    assert settled(stage, lambda: kit.ends((topic, 4))) == (0, 0), "a topic that is made again is empty"


def admin_configs(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    kit.create(topic, configs={"retention.ms": "123456", "cleanup.policy": "compact"})
    configs = settled(stage, lambda: kit.configs(topic))
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("123456", "compact")
    assert configs["max.message.bytes"] == "1048588"
    changed = {"retention.ms": "654321", "cleanup.policy": "delete"}
    kit.alter(topic, changed)
    wait_for(lambda: changed.items() <= kit.configs(topic).items(), "the changes", show=lambda: kit.configs(topic))
    assert refusal(stage, lambda: kit.alter(topic, {"retention.ms": "soon"})) == INVALID_CONFIG


def admin_groups(stage: Stage) -> None:
    kit, group = stage.kit, stage.group
    kit.create(stage.topic, 2)
    cast = stage.cast()
    one = cast.join(kit.kind)
    produce(stage, values("read"))
    cast.wait_seen_once(values("read"))
    one.commit()
    assert kit.describe(group) == ("Stable", {one.role.name})
    assert group in kit.groups()
    assert sum(kit.group_offsets(group).values()) == 30
    if "delete_groups" not in kit.lacks:
        assert refusal(stage, lambda: kit.delete_group(group)) == NON_EMPTY_GROUP
    one.stop()
    wait_for(lambda: kit.describe(group)[0] == "Empty", "the group to be empty")
    if "delete_groups" not in kit.lacks:
        kit.delete_group(group)
        assert group not in kit.groups()
        assert kit.group_offsets(group) == {}
        assert kit.describe(group)[0] == "Dead"
        assert refusal(stage, lambda: kit.delete_group(group)) == GROUP_ID_NOT_FOUND


def admin_records(stage: Stage) -> None:
    kit, topic = stage.kit, stage.topic
    kit.create(topic)
    kit.produce(topic, [Row(b"%d" % number) for number in range(10)], partition=0)
    assert kit.ends((topic, 0)) == (0, 10)
    stage.need("delete_records")
    assert kit.delete_records((topic, 0), 4) == 4
    assert kit.ends((topic, 0)) == (4, 10)
    assert [got.offset for got in kit.read({(topic, 0): 0}, 6)] == [4, 5, 6, 7, 8, 9], "0 is out of range"
    assert refusal(stage, lambda: kit.delete_records((topic, 0), 11)) == OFFSET_OUT_OF_RANGE
    assert kit.delete_records((topic, 0), -1) == 10, "up to the end"
    assert kit.ends((topic, 0)) == (10, 10)


SCENARIOS = named(admin_topics, admin_configs, admin_groups, admin_records)
