"""The metrics of kminion, under its names and labels.

As kminion does, a group is shown as long as there is anything of it, with members or without; lag is never negative;
and the group's state is in a label, with the value 1 for Stable and 0 for everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from ottla.observe.metrics.family import Families, Spec
from ottla.observe.metrics.scene import GroupScene, Scene, Sources

TOPIC = ("topic_name",)
PARTITION = ("topic_name", "partition_id")
GROUP = ("group_id",)
GROUP_TOPIC = ("group_id", "topic_name")
BROKER = ("broker_id", "address", "port", "rack_id")

SPECS = (
    Spec("kminion_exporter_up", "Always 1: nothing has to be asked of anybody.", ("version",)),
    Spec(
        "kminion_kafka_cluster_info",
        "Kafka cluster information",
        ("cluster_version", "broker_count", "controller_id", "cluster_id"),
    ),
    Spec("kminion_kafka_broker_info", "Kafka broker information", (*BROKER, "is_controller")),
    Spec(
        "kminion_kafka_broker_log_dir_size_total_bytes",
        "The summed size in bytes of all log dirs for a given broker",
        BROKER,
    ),
    Spec(
        "kminion_kafka_topic_log_dir_size_total_bytes",
        "The summed size in bytes of partitions for a given topic",
        TOPIC,
    ),
    Spec(
        "kminion_kafka_topic_info",
        "Info labels for a given topic",
        ("topic_name", "partition_count", "replication_factor", "cleanup_policy"),
    ),
    Spec("kminion_kafka_topic_partition_low_water_mark", "Partition Low Water Mark", PARTITION),
    Spec("kminion_kafka_topic_low_water_mark_sum", "Sum of the partitions' low water marks", TOPIC),
    Spec("kminion_kafka_topic_partition_high_water_mark", "Partition High Water Mark", PARTITION),
    Spec("kminion_kafka_topic_high_water_mark_sum", "Sum of the partitions' high water marks", TOPIC),
    Spec(
        "kminion_kafka_consumer_group_info",
        "1 if the group is in the stable state, otherwise 0",
        ("group_id", "protocol", "protocol_type", "state", "coordinator_id"),
    ),
    Spec("kminion_kafka_consumer_group_members", "The number of members in the consumer group", GROUP),
    Spec(
        "kminion_kafka_consumer_group_empty_members",
        "The number of members in the consumer group with no partition assigned",
        GROUP,
    ),
    Spec(
        "kminion_kafka_consumer_group_topic_members",
        "The number of members in the consumer group assigned on a given topic",
        GROUP_TOPIC,
    ),
    Spec(
        "kminion_kafka_consumer_group_topic_assigned_partitions",
        "The number of partitions assigned in the consumer group for a given topic",
        GROUP_TOPIC,
    ),
    Spec(
        "kminion_kafka_consumer_group_topic_offset_sum",
        "The sum of all committed group offsets across all partitions in a topic",
        GROUP_TOPIC,
    ),
    Spec(
        "kminion_kafka_consumer_group_topic_partition_lag",
        "The number of messages a consumer group is lagging behind the latest offset of a partition",
        ("group_id", "topic_name", "partition_id"),
    ),
    Spec(
        "kminion_kafka_consumer_group_topic_lag",
        "The number of messages a consumer group is lagging behind across all partitions in a topic",
        GROUP_TOPIC,
    ),
    Spec(
        "kminion_kafka_consumer_group_offset_commits_total",
        "The number of offsets committed by a group",
        GROUP,
    ),
)


def kminion(scene: Scene, sources: Sources) -> Iterator[Metric]:
    """All of them."""
    families = Families(SPECS)
    cluster = scene.cluster
    node, (host, port) = str(cluster.node_id), sources.address
    families.add("kminion_exporter_up", 1, cluster.version)
    nodes = {one.node_id: (one.listen or "").rpartition(":")[::2] for one in cluster.up}
    brokers = nodes or {cluster.node_id: (host, str(port))}
    controller = min(brokers)
    families.add(
        "kminion_kafka_cluster_info", 1, cluster.version, str(len(brokers)), str(controller), cluster.cluster_id
    )
    for node_id, address in brokers.items():
        is_controller = str(node_id == controller).lower()
        families.add("kminion_kafka_broker_info", 1, str(node_id), *address, "", is_controller)
    _topics(families, scene, sources, (node, host, str(port), ""))
    for group in scene.groups:
        _group(families, group, node)
        _lags(families, group)
        committed = sources.counters.of_group(sources.counters.group_committed, group.state.group_id)
        families.add("kminion_kafka_consumer_group_offset_commits_total", committed, group.state.group_id)
    return families.collect()


def _topics(families: Families, scene: Scene, sources: Sources, broker: tuple[str, ...]) -> None:
    total = 0
    for topic in scene.topics:
        name, partitions = topic.topic, topic.led
        size = sum(one.size_bytes for one in partitions)
        total += size
        policy = topic.configs.get("cleanup.policy", sources.settings.log_cleanup_policy)
        families.add("kminion_kafka_topic_info", 1, name, str(len(topic.partitions)), "1", policy)
        families.add("kminion_kafka_topic_log_dir_size_total_bytes", size, name)
        for one in partitions:
            families.add("kminion_kafka_topic_partition_low_water_mark", one.log_start_offset, name, str(one.partition))
            families.add("kminion_kafka_topic_partition_high_water_mark", one.high_watermark, name, str(one.partition))
        low, high = sum(one.log_start_offset for one in partitions), sum(one.high_watermark for one in partitions)
        families.add("kminion_kafka_topic_low_water_mark_sum", low, name)
        families.add("kminion_kafka_topic_high_water_mark_sum", high, name)
    families.add("kminion_kafka_broker_log_dir_size_total_bytes", total, *broker)


def _group(families: Families, group: GroupScene, node: str) -> None:
    state, group_id = group.state, group.state.group_id
    is_stable = state.state == "Stable"
    protocol = (state.protocol_name or "") if is_stable else ""
    families.add(
        "kminion_kafka_consumer_group_info",
        int(is_stable),
        group_id,
        protocol,
        state.protocol_type or "",
        state.state,
        node,
    )
    families.add("kminion_kafka_consumer_group_members", len(state.members), group_id)
    if state.protocol_type != "consumer":
        return  # what others were assigned cannot be read
    empty, members, partitions = 0, Counter[str](), Counter[str]()
    for member in state.members:
        empty += not member.assignment
        for topic, indexes in member.assignment.items():
            members[topic] += 1
            partitions[topic] += len(indexes)
    if empty:
        families.add("kminion_kafka_consumer_group_empty_members", empty, group_id)
    for topic in members:
        families.add("kminion_kafka_consumer_group_topic_members", members[topic], group_id, topic)
        families.add("kminion_kafka_consumer_group_topic_assigned_partitions", partitions[topic], group_id, topic)


def _lags(families: Families, group: GroupScene) -> None:
    group_id, lags, offsets = group.state.group_id, Counter[str](), Counter[str]()
    for one in group.offsets:
        if one.lag is None:
            continue
        lags[one.topic] += one.lag
        offsets[one.topic] += one.committed_offset
        families.add(
            "kminion_kafka_consumer_group_topic_partition_lag", one.lag, group_id, one.topic, str(one.partition)
        )
    unknown = group.topics_unknown
    for topic in (name for name in lags if name not in unknown):
        families.add("kminion_kafka_consumer_group_topic_lag", lags[topic], group_id, topic)
        families.add("kminion_kafka_consumer_group_topic_offset_sum", offsets[topic], group_id, topic)
