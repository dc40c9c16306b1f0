"""The metrics of kafka-lag-exporter, under its names and labels.

As kafka-lag-exporter does, partitions that nobody has been assigned have ``unknown`` in the labels of the member, and
those that were assigned and have no committed offset have the value NaN. Lag in seconds is not guessed from two points,
but known.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import NamedTuple

from prometheus_client.core import Metric

from ottla.observe.metrics.family import Families, Spec
from ottla.observe.metrics.scene import GroupScene, Scene, Sources
from ottla.observe.snapshot import MemberState

PARTITION = ("cluster_name", "topic", "partition")
MEMBER = ("cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id")
GROUP_MAX = ("cluster_name", "group", "is_simple_consumer")
UNKNOWN = ("unknown", "unknown", "unknown")

SPECS = (
    Spec("kafka_partition_latest_offset", "Latest offset of a partition", PARTITION),
    Spec("kafka_partition_earliest_offset", "Earliest offset of a partition", PARTITION),
    Spec("kafka_consumergroup_group_offset", "Last group consumed offset of a partition", MEMBER),
    Spec("kafka_consumergroup_group_lag", "Group offset lag of a partition", MEMBER),
    Spec("kafka_consumergroup_group_lag_seconds", "Group time lag of a partition", MEMBER),
    Spec("kafka_consumergroup_group_max_lag", "Max group offset lag", GROUP_MAX),
    Spec("kafka_consumergroup_group_max_lag_seconds", "Max group time lag", GROUP_MAX),
    Spec("kafka_consumergroup_group_sum_lag", "Sum of group offset lag", ("cluster_name", "group")),
    Spec(
        "kafka_consumergroup_group_topic_sum_lag",
        "Sum of group offset lag across topic partitions",
        ("cluster_name", "group", "topic"),
    ),
    Spec("kafka_consumergroup_poll_time_ms", "Group time poll time", ("cluster_name",)),
)


class _Row(NamedTuple):
    topic: str
    partition: int
    offset: float
    lag: float
    lag_seconds: float


def lag_exporter(scene: Scene, sources: Sources) -> Iterator[Metric]:
    """All of them."""
    families = Families(SPECS)
    cluster = sources.settings.ottla_metrics_cluster_name or scene.cluster.cluster_id
    consumed = {offset.topic for group in scene.groups for offset in group.offsets}
    for topic in scene.topics:
        if topic.is_internal and topic.topic not in consumed:
            continue
        for one in topic.led:
            labels = cluster, topic.topic, str(one.partition)
            families.add("kafka_partition_latest_offset", one.high_watermark, *labels)
            families.add("kafka_partition_earliest_offset", one.log_start_offset, *labels)
    for group in scene.groups:
        _group(families, group, cluster)
    families.add("kafka_consumergroup_poll_time_ms", scene.collect_ns / 1e6, cluster)
    return families.collect()


def _group(families: Families, group: GroupScene, cluster: str) -> None:
    group_id = group.state.group_id
    owners = {
        (topic, index): member
        for member in group.state.members
        for topic, indexes in member.assignment.items()
        for index in indexes
    }
    rows = list(_rows(group, owners))
    if not rows:
        return
    sums: dict[str, float] = {}
    unknown = group.topics_unknown
    for row in rows:
        member = owners.get((row.topic, row.partition))
        who = UNKNOWN if member is None else (member.client_host, member.member_id, member.client_id)
        labels = cluster, group_id, row.topic, str(row.partition), *who
        families.add("kafka_consumergroup_group_offset", row.offset, *labels)
        families.add("kafka_consumergroup_group_lag", row.lag, *labels)
        families.add("kafka_consumergroup_group_lag_seconds", row.lag_seconds, *labels)
        known = nan if row.topic in unknown else 0 if row.lag != row.lag else row.lag
        sums[row.topic] = sums.get(row.topic, 0) + known
    is_simple = "true" if not group.state.protocol_type else "false"
    most, longest = (
        (nan, nan) if unknown else (_largest([row.lag for row in rows]), _largest([row.lag_seconds for row in rows]))
    )
    families.add("kafka_consumergroup_group_max_lag", most, cluster, group_id, is_simple)
    families.add("kafka_consumergroup_group_max_lag_seconds", longest, cluster, group_id, is_simple)
    families.add("kafka_consumergroup_group_sum_lag", sum(sums.values()), cluster, group_id)
    for topic, lag in sums.items():
        families.add("kafka_consumergroup_group_topic_sum_lag", lag, cluster, group_id, topic)


def _rows(group: GroupScene, owners: dict[tuple[str, int], MemberState]) -> Iterator[_Row]:
    committed = set()
    for one in group.offsets:
        committed.add((one.topic, one.partition))
        if one.lag is not None or one.has_unknown_end:
            lag, seconds = (nan if value is None else value for value in (one.lag, one.lag_seconds))
            yield _Row(one.topic, one.partition, one.committed_offset, lag, seconds)
    for topic, index in sorted(owners.keys() - committed):
        yield _Row(topic, index, nan, nan, nan)


def _largest(values: list[float]) -> float:
    return max((value for value in values if value == value), default=nan)
