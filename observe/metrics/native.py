"""Ottla's own metrics; `catalogue` declares them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from ottla.observe.metrics.catalogue import SPECS
from ottla.observe.metrics.counters import CHANGES
from ottla.observe.metrics.family import Families
from ottla.observe.metrics.scene import GroupScene, Scene, Sources

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead")


MEMBER_STATES = ("STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS")


def native(scene: Scene, sources: Sources) -> Iterator[Metric]:
    """All of them."""
    families = Families(SPECS)
    _broker(families, scene, sources)
    _groups(families, scene, sources)
    _topics(families, scene)
    _observers(families, scene, sources)
    families.add("ottla_metrics_collect_duration_seconds", scene.collect_ns / 1e9)
    return families.collect()


def _broker(families: Families, scene: Scene, sources: Sources) -> None:
    cluster = scene.cluster
    families.add("ottla_build_info", 1, cluster.version, cluster.cluster_id, str(cluster.node_id))
    families.add("ottla_start_time_seconds", cluster.started_ms / 1000)
    families.add("ottla_connections", cluster.connections)
    families.add("ottla_connections_opened_total", sources.connections_opened())
    for (what, listener, mechanism), count in sorted(sources.authentications().items()):
        families.add(f"ottla_{what}_total", count, listener, mechanism)
    for listener, ends_ms in sources.certificates_end().items():
        families.add("ottla_tls_certificate_expiry_seconds", ends_ms / 1000, listener)
    for served in sources.requests.served():
        for error, count in sorted(served.by_error().items()):
            families.add("ottla_requests_total", count, served.api, error)
        families.add_durations("ottla_request_duration_seconds", served.durations, served.api)
    families.add_durations("ottla_journal_sync_duration_seconds", sources.syncs)


def _groups(families: Families, scene: Scene, sources: Sources) -> None:
    for state in STATES:
        families.add("ottla_groups", scene.cluster.group_states.get(state, 0), state)
    counters = sources.counters
    for cause, count in sorted(counters.rebalances.items()):
        families.add("ottla_rebalances_total", count, cause)
    families.add_durations("ottla_rebalance_duration_seconds", counters.durations)
    families.add_durations("ottla_reconciliation_duration_seconds", counters.reconciliations)
    families.add_durations("ottla_revocation_duration_seconds", counters.revocations)
    families.add("ottla_regex_resolutions_total", counters.regexes)
    families.add("ottla_partition_unavailable_seconds_total", counters.stood_ms / 1000)
    for change in CHANGES:
        families.add("ottla_member_changes_total", counters.members[change], change)
    families.add("ottla_offset_commits_total", counters.commits)
    families.add("ottla_committed_offsets_total", counters.committed)
    for group in scene.groups:
        _group(families, group)
        group_id = group.state.group_id
        rebalances = counters.of_group(counters.group_rebalances, group_id)
        families.add("ottla_group_rebalances_total", rebalances, group_id)
        stood_ms = counters.of_group(counters.group_stood_ms, group_id)
        if stood_ms is not None:
            families.add("ottla_group_partition_unavailable_seconds_total", stood_ms / 1000, group_id)
        _lags(families, group)


def _group(families: Families, group: GroupScene) -> None:
    state, group_id = group.state, group.state.group_id
    families.add("ottla_group_state", 1, group_id, state.state)
    families.add("ottla_group_generation", state.generation, group_id)
    families.add("ottla_group_members", len(state.members), group_id)
    if state.protocol == "consumer":
        families.add("ottla_group_assignment_epoch", state.assignment_epoch, group_id)
        for name in MEMBER_STATES:
            families.add("ottla_group_member_states", sum(one.state == name for one in state.members), group_id, name)
    if state.barrier:
        families.add("ottla_group_barrier_age_seconds", state.barrier_age_ms / 1000, group_id, state.barrier)
    beating = [member for member in state.members if not member.waits_for]
    if beating:
        families.add("ottla_group_heartbeat_slack_seconds", min(member.slack_ms for member in beating) / 1000, group_id)
        shares = (min(1, member.slack_ms / max(1, member.session_timeout_ms)) for member in beating)
        families.add("ottla_group_heartbeat_slack_ratio", min(shares), group_id)


def _lags(families: Families, group: GroupScene) -> None:
    group_id, total, longest = group.state.group_id, 0, 0.0
    known = False
    for offset in group.offsets:
        labels = group_id, offset.topic, str(offset.partition)
        families.add("ottla_group_committed_offset", offset.committed_offset, *labels)
        if offset.lag is not None:
            known = True
            total += offset.lag
            families.add("ottla_group_lag_records", offset.lag, *labels)
        if offset.lag_seconds is not None:
            longest = max(longest, offset.lag_seconds)
            families.add("ottla_group_lag_seconds", offset.lag_seconds, *labels)
    if known and not group.topics_unknown:
        families.add("ottla_group_total_lag_records", total, group_id)
        families.add("ottla_group_max_lag_seconds", longest, group_id)


def _topics(families: Families, scene: Scene) -> None:
    families.add("ottla_topics", scene.cluster.topics)
    families.add("ottla_partitions", scene.partition_count)
    for topic in scene.topics:
        families.add("ottla_topic_size_bytes", sum(one.size_bytes for one in topic.led), topic.topic)
        if topic.is_internal:
            continue
        for partition in topic.led:
            labels = topic.topic, str(partition.partition)
            families.add("ottla_partition_start_offset", partition.log_start_offset, *labels)
            families.add("ottla_partition_end_offset", partition.high_watermark, *labels)
            families.add("ottla_partition_size_bytes", partition.size_bytes, *labels)


def _observers(families: Families, scene: Scene, sources: Sources) -> None:
    recorder, sentinels = sources.recorder, sources.sentinels
    for labels, count in sorted(sources.audit.denied.items()):
        families.add("ottla_denied_total", count, *labels)
    families.add("ottla_audit_dropped_total", sources.audit.dropped)
    if recorder is not None:
        families.add("ottla_recorder_memory_bytes", scene.recorder_bytes)
        families.add("ottla_recorder_events_total", recorder.last_seq)
        families.add("ottla_recorder_dropped_events_total", recorder.dropped_events)
        if recorder.file_failed is not None:
            families.add("ottla_recorder_file_failed", int(recorder.file_failed))
            families.add("ottla_recorder_file_lost_events_total", recorder.file_lost_events)
    if sentinels is not None:
        for sentinel, count in scene.alarms.items():
            families.add("ottla_sentinels_active", count, sentinel)
        for sentinel, count in sentinels.raised.items():
            families.add("ottla_sentinels_raised_total", count, sentinel)
        families.add("ottla_sentinels_left_out_total", sentinels.left_out)
    for what, count in scene.left_out.items():
        families.add("ottla_metrics_left_out", count, what)
