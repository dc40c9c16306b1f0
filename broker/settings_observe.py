"""Settings of metrics and sentinels; a part of `ottla.broker.settings.Settings`."""

from __future__ import annotations

import dataclasses

from ottla.broker.setting import INT32_MAX, INT64_MAX, setting

COMPAT = ("kminion", "kafka_exporter", "lag_exporter")
"""Whose names for metrics can be had besides our own."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ObserveSettings:
    """See the module."""

    # Metrics
    ottla_metrics_compat: str = setting(
        "", "Tools under whose names /metrics tells the same once more, for their dashboards.",
        choices=COMPAT,
        is_list=True,
    )  # fmt: skip
    ottla_metrics_cluster_name: str = setting(
        "", "The label cluster_name of kafka-lag-exporter's metrics. Empty: the cluster's id."
    )
    ottla_metrics_max_groups: int = setting(
        1_000, "Groups that have metrics of their own; more are only counted.", low=0, high=INT32_MAX
    )
    ottla_metrics_max_partitions: int = setting(
        5_000, "Partitions of topics that have metrics of their own; more are only counted.", low=0, high=INT32_MAX
    )
    ottla_metrics_max_group_partitions: int = setting(
        10_000, "Pairs of a group and a partition that have metrics; more are only counted.", low=0, high=INT32_MAX
    )

    # Why groups rebalanced
    ottla_history_memory_bytes: int = setting(
        16_777_216, "Memory for why groups rebalanced, all together; 0: keep nothing.", low=0, high=INT64_MAX
    )

    # Events of groups as a topic
    ottla_group_events_enable: bool = setting(
        True, "Write what happens to groups to __ottla_group_events: rebalances with cause and duration, departures."
    )
    ottla_group_events_topic_num_partitions: int = setting(
        1, "Partitions with which __ottla_group_events is created.", low=1, high=10_000
    )
    ottla_group_events_topic_retention_ms: int = setting(
        604_800_000, "retention.ms with which it is created; -1: for ever.", low=-1, high=INT64_MAX
    )
    ottla_group_events_topic_retention_bytes: int = setting(
        67_108_864, "retention.bytes of a partition with which it is created; -1: any.", low=-1, high=INT64_MAX
    )

    # Timeline
    ottla_timeline_memory_bytes: int = setting(
        8_388_608, "Memory for the commits and the lag that timelines show, all together; 0: keep none.", low=0,
        high=INT64_MAX,
    )  # fmt: skip

    # Sentinels
    ottla_sentinel_enable: bool = setting(True, "Look out for what is wrong with groups, and say so once.")
    ottla_sentinel_interval_ms: int = setting(
        10_000, "How often each group is looked at; groups in which something happened are sooner.", low=100,
        high=INT32_MAX,
    )  # fmt: skip
    ottla_sentinel_settle_ms: int = setting(
        30_000,
        "How long different subscriptions in a group, or a topic without an owner, may last before an alarm.",
        low=0,
        high=INT64_MAX,
    )
    ottla_sentinel_barrier_ms: int = setting(
        60_000, "How long a group may wait for its members before an alarm.", low=0, high=INT64_MAX
    )
    ottla_sentinel_idle_ms: int = setting(
        300_000,
        "How long a partition with lag may stand still in a Stable group whose others move before an alarm.",
        low=0,
        high=INT64_MAX,
    )
    ottla_sentinel_storm_rebalances: int = setting(
        10, "So many rebalances of a group within the window are a storm.", low=2, high=1_000
    )
    ottla_sentinel_refusals: int = setting(
        3, "So many members turned away by a group within the window raise an alarm.", low=1, high=1_000
    )
    ottla_sentinel_storm_window_ms: int = setting(
        300_000,
        "The window for counting rebalances and refusals. A flapping member's alarm ends once it has stayed so long.",
        low=1,
        high=INT64_MAX,
    )
    ottla_sentinel_zombie_ms: int = setting(
        5_000, "How long the JoinGroup of a client that is gone may wait before an alarm.", low=0,
        high=INT64_MAX,
    )  # fmt: skip
    ottla_sentinel_quiet_ms: int = setting(
        60_000, "An alarm about something that happens, such as a fenced commit, ends after so long without it.",
        low=1,
        high=INT64_MAX,
    )  # fmt: skip
    ottla_sentinel_max_alarms: int = setting(
        1_000, "Alarms that stand at a time; more are only counted.", low=1, high=INT32_MAX
    )
    ottla_sentinel_max_partitions: int = setting(
        50_000, "Partitions with lag of which it is known since when they stand still.", low=0, high=INT32_MAX
    )
