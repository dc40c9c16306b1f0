"""Scenarios that only confluent-kafka, of the Python clients, can play."""

from __future__ import annotations

from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    libversion,
)

from tests.interop.python.groups import join, produce, values
from tests.interop.python.harness import Skipped, Stage, named
from tests.interop.python.records import rows
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.waiting import wait_for

PATIENCE_S = 30
PARTITIONS = 6
SINCE = 0x020C0000
"""The librdkafka in which the consumer protocol is no preview any more."""


def admin_cluster(stage: Stage) -> None:
    """The cluster and a topic are described, and its leader is what it should be already."""
    admin = confluent.admin(stage.kit.bootstrap)
    stage.kit.create(stage.topic, 2)
    cluster = admin.describe_cluster(include_authorized_operations=True).result(PATIENCE_S)
    assert {node.id: f"{node.host}:{node.port}" for node in cluster.nodes} == stage.nodes
    assert cluster.controller.id in stage.nodes
    assert len(cluster.cluster_id) > 10
    topic = admin.describe_topics(TopicCollection([stage.topic]))[stage.topic].result(PATIENCE_S)
    assert [(row.id, len(row.isr)) for row in topic.partitions] == [(0, 1), (1, 1)]
    assert {row.leader.id for row in topic.partitions} <= stage.nodes.keys()
    assert not topic.is_internal
    place = TopicPartition(stage.topic, 0)
    told = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(PATIENCE_S)
    assert told[place].code() == KafkaError.ELECTION_NOT_NEEDED


def admin_group_offsets(stage: Stage) -> None:
    """Offsets of a group are changed when it is empty, and not before."""
    admin = confluent.admin(stage.kit.bootstrap)
    stage.kit.create(stage.topic)
    cast = stage.cast()
    one = join(stage, cast)
    produce(stage, values("read", 10))
    cast.wait_seen_once(values("read", 10))
    one.commit()

    def alter(offset: int, note: str = "") -> int:
        changed = ConsumerGroupTopicPartitions(stage.group, [TopicPartition(stage.topic, 0, offset, note)])
        [future] = admin.alter_consumer_group_offsets([changed]).values()
        try:
            [place] = future.result(PATIENCE_S).topic_partitions
        except KafkaException as error:
            return int(error.args[0].code())
        return int(place.error.code()) if place.error else 0

    assert alter(4) == KafkaError.UNKNOWN_MEMBER_ID
    one.stop()
    wait_for(lambda: stage.kit.describe(stage.group)[0] == "Empty", "the group to be empty")
    assert alter(4, "set by hand") == 0
    assert stage.kit.committed(stage.group, (stage.topic, 0)) == (4, "set by hand")
    heir = join(stage, cast)
    wait_for(lambda: len(heir.seen) >= 6, "what lies behind the new offset", show=cast.describe)
    assert [seen.offset for seen in heir.seen] == [4, 5, 6, 7, 8, 9]


def partition_eof(stage: Stage) -> None:
    """The end of a partition is told once, at the offset that is next."""
    stage.kit.create(stage.topic)
    stage.kit.produce(stage.topic, rows(3), partition=0)
    options = {"enable_partition_eof": True, "auto_offset_reset": "earliest"}
    consumer = confluent.consumer(stage.kit.bootstrap, stage.group, **options)
    stage.closing.callback(consumer.close)
    consumer.assign([TopicPartition(stage.topic, 0, 0)])
    messages = [consumer.poll(PATIENCE_S) for _ in range(4)]
    assert [message.error() for message in messages[:3]] == [None] * 3
    assert (messages[3].error().code(), messages[3].offset()) == (KafkaError._PARTITION_EOF, 3)
    assert consumer.get_watermark_offsets(TopicPartition(stage.topic, 0), timeout=PATIENCE_S) == (0, 3)
    assert consumer.position([TopicPartition(stage.topic, 0)])[0].offset == 3


def a_partition_is_paused_and_resumed(stage: Stage) -> None:
    stage.kit.create(stage.topic, 2)
    consumer = confluent.consumer(stage.kit.bootstrap, stage.group, auto_offset_reset="earliest")
    stage.closing.callback(consumer.close)
    left, right = TopicPartition(stage.topic, 0, 0), TopicPartition(stage.topic, 1, 0)
    consumer.assign([left, right])
    consumer.pause([left])
    for partition in (0, 1):
        stage.kit.produce(stage.topic, rows(2), partition=partition)
    messages = [consumer.poll(PATIENCE_S) for _ in range(2)]
    assert [message.partition() for message in messages] == [1, 1]
    assert consumer.poll(0.5) is None
    consumer.resume([left])
    messages = [consumer.poll(PATIENCE_S) for _ in range(2)]
    assert [(message.partition(), message.offset()) for message in messages] == [(0, 0), (0, 1)]


def _modern(stage: Stage, cast: Cast, **fields: Any) -> Any:
    """A member of the consumer protocol (KIP-848); the broker decides about its session."""
    if libversion()[1] < SINCE:
        raise Skipped("its consumer protocol is a preview, which came before Kafka's own was finished")
    return cast.join("confluent", options=confluent.CONSUMER_PROTOCOL, **fields)


def consumer_protocol_join_crash_and_leave(stage: Stage) -> None:
    stage.kit.create(stage.topic, PARTITIONS)
    everything = places(stage.topic, PARTITIONS)
    cast = stage.cast()
    first = _modern(stage, cast)
    cast.wait_shared([first], everything)
    doomed, leaver = _modern(stage, cast, process=True), _modern(stage, cast)
    cast.wait_shared([first, doomed, leaver], everything)
    produce(stage, values("three"))
    cast.wait_seen_once(values("three"))
    admin = confluent.admin(stage.kit.bootstrap)  # its futures end with it
    assert confluent.result(admin.describe_consumer_groups([stage.group])).type == ConsumerGroupType.CONSUMER
    doomed.kill()
    cast.wait_shared([first, leaver], everything)
    leaver.stop()
    cast.wait_shared([first], everything)
    produce(stage, values("one"))
    cast.wait_seen(values("one"))


def consumer_protocol_static_member(stage: Stage) -> None:
    """It goes away for a while, and comes back to what it had; nobody else can be it meanwhile."""
    stage.kit.create(stage.topic, PARTITIONS)
    everything = places(stage.topic, PARTITIONS)
    cast = stage.cast()
    other, static = _modern(stage, cast), _modern(stage, cast, instance_id="one")
    cast.wait_shared([other, static], everything)
    twin = _modern(stage, cast, instance_id="one")
    wait_for(lambda: twin.troubles, "the twin to be refused", show=cast.describe)
    assert "instance ID is still used" in twin.troubles[0], twin.troubles
    had, before = static.owned, len(other.changes)
    static.stop()
    again = _modern(stage, cast, instance_id="one")
    cast.wait_shared([other, again], everything)
    assert (again.owned, len(other.changes)) == (had, before), cast.describe()


def consumer_protocol_transaction_offsets(stage: Stage) -> None:
    """Offsets go along with the epoch of the member that has read the records."""
    stage.kit.create(stage.topic)
    stage.kit.produce(stage.topic, rows(5), partition=0)
    if libversion()[1] < SINCE:
        raise Skipped("its consumer protocol is a preview, which came before Kafka's own was finished")
    options = confluent.CONSUMER_PROTOCOL | {"auto.offset.reset": "earliest"}
    consumer = confluent.consumer(stage.kit.bootstrap, stage.group, **options)
    stage.closing.callback(consumer.close)
    consumer.subscribe([stage.topic])
    messages = consumer.consume(5, PATIENCE_S)
    assert [message.error() for message in messages] == [None] * 5
    producer = confluent.producer(stage.kit.bootstrap, f"{stage.topic}-id")
    place = TopicPartition(stage.topic, 0, 5)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)
    wait_for(lambda: stage.kit.group_offsets(stage.group).get((stage.topic, 0)) == 5, "the offset to be there")
    stale = consumer.consumer_group_metadata()
    consumer.unsubscribe()
    heir = _modern(stage, stage.cast())
    wait_for(lambda: heir.owned, "the heir to have the partition")
    producer.begin_transaction()
    try:
        producer.send_offsets_to_transaction([place], stale, PATIENCE_S)
    except KafkaException as error:
        assert error.args[0].txn_requires_abort(), error
    else:
        raise AssertionError("who has left the group has committed in it")
    producer.abort_transaction(PATIENCE_S)


SCENARIOS = named(
    admin_cluster,
    admin_group_offsets,
    partition_eof,
    a_partition_is_paused_and_resumed,
    consumer_protocol_join_crash_and_leave,
    consumer_protocol_static_member,
    consumer_protocol_transaction_offsets,
)
