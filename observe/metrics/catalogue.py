"""The metrics of Ottla's own; docs/metrics.md says how to use them, and is held against this list."""

from __future__ import annotations

from ottla.observe.metrics.family import Spec

GROUP = ("group",)
PARTITION = ("topic", "partition")
LISTENER = ("listener", "mechanism")
GROUP_PARTITION = ("group", "topic", "partition")

SPECS = (
    Spec("ottla_build_info", "Always 1; which broker this is.", ("version", "cluster_id", "node_id")),
    Spec("ottla_start_time_seconds", "When the broker was started, in Unix time."),
    Spec("ottla_connections", "Connections of clients that are open."),
    Spec("ottla_connections_opened_total", "Connections of clients that were accepted."),
    Spec("ottla_successful_authentications_total", "Clients let in by SASL, or by TLS where that is all.", LISTENER),
    Spec("ottla_failed_authentications_total", "Clients that were not let in, or took too long.", LISTENER),
    Spec("ottla_successful_reauthentications_total", "Sessions that were renewed (KIP-368).", LISTENER),
    Spec("ottla_reauthentication_seconds_total", "What it took to renew those, together.", LISTENER),
    Spec("ottla_failed_reauthentications_total", "Sessions that were to be renewed, and were not.", LISTENER),
    Spec(
        "ottla_successful_authentications_no_reauth_total",
        "Clients with a session that ends which they were not told of: their version of SASL cannot.",
        LISTENER,
    ),
    Spec(
        "ottla_expired_connections_killed_total",
        "Connections on which something was asked after the end of their session.",
        LISTENER,
    ),
    Spec(
        "ottla_tls_certificate_expiry_seconds", "When the certificate of a listener ends, in Unix time.", ("listener",)
    ),
    Spec(
        "ottla_requests_total",
        "Requests that were answered, by the error at the top of the answer, or the first of what it lists.",
        ("api", "error"),
    ),
    Spec(
        "ottla_request_duration_seconds",
        "From when a request was read until its answer was given; what it waited for others is part of it.",
        ("api",),
        is_histogram=True,
    ),
    Spec("ottla_groups", "Groups in each state.", ("state",)),
    Spec("ottla_group_state", "1 for the state that a group is in.", ("group", "state")),
    Spec("ottla_group_generation", "The generation of a group; of a consumer group its epoch.", GROUP),
    Spec("ottla_group_assignment_epoch", "The epoch that the target of a consumer group is of.", GROUP),
    Spec("ottla_group_members", "Members of a group.", GROUP),
    Spec("ottla_group_member_states", "Members of a consumer group in each state.", ("group", "state")),
    Spec(
        "ottla_group_barrier_age_seconds",
        "For how long a group has waited for its members, and at what; only while it does.",
        ("group", "barrier"),
    ),
    Spec(
        "ottla_group_heartbeat_slack_seconds",
        "How long until the first member's session would end without another heartbeat.",
        GROUP,
    ),
    Spec(
        "ottla_group_heartbeat_slack_ratio",
        "The same as a share of the session timeout, for the member that has the smallest.",
        GROUP,
    ),
    Spec("ottla_rebalances_total", "Rebalances that have ended, by what caused them.", ("cause",)),
    Spec("ottla_rebalance_duration_seconds", "From the trigger of a rebalance to its end.", is_histogram=True),
    Spec(
        "ottla_reconciliation_duration_seconds",
        "From when the epoch of a consumer group rose until all members had their targets.",
        is_histogram=True,
    ),
    Spec(
        "ottla_revocation_duration_seconds",
        "From when a member of a consumer group was told to give partitions up until it had, or was gone.",
        is_histogram=True,
    ),
    Spec("ottla_regex_resolutions_total", "How often the regexes of a consumer group were held against the topics."),
    Spec("ottla_group_rebalances_total", "Rebalances of a group that have ended.", GROUP),
    Spec(
        "ottla_partition_unavailable_seconds_total",
        "Partition-seconds in which nobody consumed because of a rebalance, also of one that runs.",
    ),
    Spec(
        "ottla_group_partition_unavailable_seconds_total",
        "Partition-seconds in which nobody of a group consumed because of a rebalance, also of one that runs.",
        GROUP,
    ),
    Spec("ottla_member_changes_total", "What became of members of groups.", ("change",)),
    Spec("ottla_offset_commits_total", "Commits that became durable."),
    Spec("ottla_committed_offsets_total", "Offsets in these commits."),
    Spec("ottla_group_committed_offset", "The offset that a group has committed.", GROUP_PARTITION),
    Spec("ottla_group_lag_records", "Offsets between that and the end of the partition.", GROUP_PARTITION),
    Spec(
        "ottla_group_lag_seconds",
        "How long ago the first record was appended that the group has not consumed; 0 without lag.",
        GROUP_PARTITION,
    ),
    Spec("ottla_group_total_lag_records", "Lag of a group over all its partitions.", GROUP),
    Spec("ottla_group_max_lag_seconds", "The largest lag in time among a group's partitions.", GROUP),
    Spec("ottla_topics", "Topics, internal ones included."),
    Spec("ottla_partitions", "Partitions that the node leads, those of internal topics included."),
    Spec("ottla_partition_start_offset", "The first offset of a partition.", PARTITION),
    Spec("ottla_partition_end_offset", "The offset behind the last record that may be read.", PARTITION),
    Spec("ottla_partition_size_bytes", "Bytes of record batches of a partition.", PARTITION),
    Spec("ottla_topic_size_bytes", "Bytes of record batches of a topic, internal ones included.", ("topic",)),
    Spec(
        "ottla_journal_sync_duration_seconds", "How long the disk took to make the journal durable.", is_histogram=True
    ),
    Spec("ottla_denied_total", "What clients asked for and rules do not permit.", ("operation", "resource")),
    Spec("ottla_audit_dropped_total", "Events of the audit that were left out: too many, or the disk failed."),
    Spec("ottla_recorder_memory_bytes", "What the flight recorder keeps in memory."),
    Spec("ottla_recorder_events_total", "Events that the flight recorder was given."),
    Spec("ottla_recorder_dropped_events_total", "Events that had to make room for newer ones."),
    Spec("ottla_recorder_file_failed", "1 if the file of a recording could not be written any more, else 0."),
    Spec(
        "ottla_recorder_file_lost_events_total",
        "Events that the file lacks: the disk was too slow, or they took more than 8 MiB.",
    ),
    Spec("ottla_sentinels_active", "Alarms that stand.", ("sentinel",)),
    Spec("ottla_sentinels_raised_total", "Alarms that were raised.", ("sentinel",)),
    Spec("ottla_sentinels_left_out_total", "Alarms that were not raised as there were too many."),
    Spec(
        "ottla_metrics_left_out",
        "Groups, partitions, and pairs of both that have no series of their own, as there are more than are allowed.",
        ("what",),
    ),
    Spec("ottla_metrics_collect_duration_seconds", "How long the last scrape took the broker."),
)
