"""The metrics of kafka_exporter, under its names and labels.

As kafka_exporter does (with its default ``--offset.show-all``), a group that has committed an offset for a topic has a
row for each of the topic's partitions, with members or without; -1 stands for a partition without an offset.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from ottla.observe.metrics.family import Families, Spec
from ottla.observe.metrics.scene import GroupScene, Scene, Sources
from ottla.observe.snapshot import OffsetState, TopicState

PARTITION = ("topic", "partition")
GROUP_TOPIC = ("consumergroup", "topic")
GROUP_PARTITION = ("consumergroup", "topic", "partition")

SPECS = (
    Spec("kafka_brokers", "Number of Brokers in the Kafka Cluster."),
    Spec("kafka_broker_info", "Information about the Kafka Broker.", ("id", "address")),
    Spec("kafka_topic_partitions", "Number of partitions for this Topic", ("topic",)),
    Spec("kafka_topic_partition_current_offset", "Current Offset of a Broker at Topic/Partition", PARTITION),
    Spec("kafka_topic_partition_oldest_offset", "Oldest Offset of a Broker at Topic/Partition", PARTITION),
    Spec("kafka_topic_partition_leader", "Leader Broker ID of this Topic/Partition", PARTITION),
    Spec("kafka_topic_partition_replicas", "Number of Replicas for this Topic/Partition", PARTITION),
    Spec(
        "kafka_topic_partition_in_sync_replica",
        "Number of In-Sync Replicas for this Topic/Partition",
        PARTITION,
    ),
    Spec(
        "kafka_topic_partition_leader_is_preferred",
        "1 if Topic/Partition is using the Preferred Broker",
        PARTITION,
    ),
    Spec(
        "kafka_topic_partition_under_replicated_partition",
        "1 if Topic/Partition is under Replicated",
        PARTITION,
    ),
    Spec(
        "kafka_consumergroup_current_offset",
        "Current Offset of a ConsumerGroup at Topic/Partition",
        GROUP_PARTITION,
    ),
    Spec(
        "kafka_consumergroup_current_offset_sum",
        "Current Offset of a ConsumerGroup at Topic for all partitions",
        GROUP_TOPIC,
    ),
    Spec(
        "kafka_consumergroup_lag",
        "Current Approximate Lag of a ConsumerGroup at Topic/Partition",
        GROUP_PARTITION,
    ),
    Spec(
        "kafka_consumergroup_lag_sum",
        "Current Approximate Lag of a ConsumerGroup at Topic for all partitions",
        GROUP_TOPIC,
    ),
    Spec("kafka_consumergroup_members", "Amount of members in a consumer group", ("consumergroup",)),
)


def kafka_exporter(scene: Scene, sources: Sources) -> Iterator[Metric]:
    """All of them."""
    families = Families(SPECS)
    host, port = sources.address
    brokers = [(node.node_id, node.listen or "") for node in scene.cluster.up] or [
        (scene.cluster.node_id, f"{host}:{port}")
    ]
    families.add("kafka_brokers", len(brokers))
    for node_id, address in brokers:
        families.add("kafka_broker_info", 1, str(node_id), address)
    for topic in scene.topics:
        _topic(families, topic, scene.cluster.node_id)
    counts = {topic.topic: len(topic.partitions) for topic in scene.topics}
    for group in scene.groups:
        _group(families, group, counts)
    return families.collect()


def _topic(families: Families, topic: TopicState, node_id: int) -> None:
    families.add("kafka_topic_partitions", len(topic.partitions), topic.topic)
    for one in topic.led:
        labels = topic.topic, str(one.partition)
        families.add("kafka_topic_partition_current_offset", one.high_watermark, *labels)
        families.add("kafka_topic_partition_oldest_offset", one.log_start_offset, *labels)
        families.add("kafka_topic_partition_leader", node_id, *labels)
        families.add("kafka_topic_partition_replicas", 1, *labels)
        families.add("kafka_topic_partition_in_sync_replica", 1, *labels)
        families.add("kafka_topic_partition_leader_is_preferred", 1, *labels)
        families.add("kafka_topic_partition_under_replicated_partition", 0, *labels)


def _group(families: Families, group: GroupScene, counts: dict[str, int]) -> None:
    group_id = group.state.group_id
    families.add("kafka_consumergroup_members", len(group.state.members), group_id)
    by_topic: dict[str, dict[int, OffsetState]] = {}
    unknown = group.topics_unknown
    for offset in group.offsets:
        by_topic.setdefault(offset.topic, {})[offset.partition] = offset
    for topic, offsets in by_topic.items():
        offset_sum = lag_sum = 0
        for partition in sorted({*offsets, *range(counts.get(topic, 0))}):
            labels = group_id, topic, str(partition)
            known = offsets.get(partition)
            if known is None or known.committed_offset < 0:
                families.add("kafka_consumergroup_current_offset", -1, *labels)
                families.add("kafka_consumergroup_lag", -1, *labels)
                continue
            offset_sum += known.committed_offset
            families.add("kafka_consumergroup_current_offset", known.committed_offset, *labels)
            if known.lag is not None:
                lag_sum += known.lag
                families.add("kafka_consumergroup_lag", known.lag, *labels)
        families.add("kafka_consumergroup_current_offset_sum", offset_sum, group_id, topic)
        if topic not in unknown:
            families.add("kafka_consumergroup_lag_sum", lag_sum, group_id, topic)
