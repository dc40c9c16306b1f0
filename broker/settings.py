"""Settings under Kafka's own names, checked once.

A setting is declared once, as an attribute of `Settings` with its default, range and documentation; the key that users
write is the attribute with dots (``group_max_size`` is ``group.max.size``). Sources, later ones win: the defaults, a
properties file, the environment (``OTTLA_…`` and ``KAFKA_…``, dots as underscores), ``--set key=value``; they are read
by ``setting_sources``. Some may also be changed while the broker runs (``core.configs``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def setting(
    default: Any,
    documentation: str,
    bounds: tuple[int | None, int | None] = (None, None),
    *,
    choices: tuple[str, ...] = (),
    is_list: bool = False,
    effective: bool = True,
    dynamic: bool = False,
    sensitive: bool = False,
    by_listener: bool = False,
) -> Any:
    """Declare a setting: its default, what it does, and its bounds (both included) or choices.

    One that is not ``effective`` is checked and described, as Kafka's tools and properties files know it, and has no
    effect yet; the user is warned. One that is ``dynamic`` may be changed while the broker runs (KIP-226). One that is
    ``sensitive`` is shown to nobody. One that is ``by_listener`` may be set for one listener, too, or for a mechanism
    of it: ``listener.name.<name>.[<mechanism>.]<key>``.
    """
    metadata = {
        "documentation": documentation,
        "bounds": bounds,
        "choices": choices,
        "list": is_list,
        "effective": effective,
        "dynamic": dynamic,
        "sensitive": sensitive,
        "by_listener": by_listener,
    }
    return dataclasses.field(default=default, metadata=metadata)


def ints(low: int) -> tuple[int, int]:
    """The bounds of a whole number that Kafka keeps in 32 bits."""
    return low, INT32_MAX


def longs(low: int) -> tuple[int, int]:
    """The bounds of a whole number that Kafka keeps in 64 bits."""
    return low, INT64_MAX


COMPAT = ("kminion", "kafka_exporter", "lag_exporter")
"""The tools whose names for metrics can be had besides our own."""


class BadSetting(Exception):
    """A value that cannot be used; the message names the key, the value and what is allowed."""


class SettingRow(NamedTuple):
    """One setting as DescribeConfigs shows it.

    ``value`` is None for a sensitive one. ``type`` is Kafka's name of it: boolean, string, short, int, long, double,
    list or password. ``is_default``: nobody set it.
    """

    name: str
    value: str | None
    default: str
    type: str
    documentation: str
    is_default: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Settings:
    """Everything about a broker that can be set. Times are in the unit that the name ends with."""

    given: frozenset[str] = dataclasses.field(default=frozenset(), repr=False, compare=False)
    """The keys that somebody has set, maybe to their default."""
    by_listener: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    """What was set for one listener, or a mechanism of it: by the key without ``listener.name.``, in lower case."""

    # Metrics
    ottla_metrics_compat: str = setting(
        "",
        "Tools under whose names /metrics tells the same once more, for their dashboards.",
        choices=COMPAT,
        is_list=True,
    )
    ottla_metrics_cluster_name: str = setting(
        "", "The label cluster_name of kafka-lag-exporter's metrics. Empty: the cluster's id."
    )
    ottla_metrics_max_groups: int = setting(
        1_000, "Groups that have metrics of their own; more are only counted.", ints(0)
    )
    ottla_metrics_max_partitions: int = setting(
        5_000, "Partitions of topics that have metrics of their own; more are only counted.", ints(0)
    )
    ottla_metrics_max_group_partitions: int = setting(
        10_000, "Pairs of a group and a partition that have metrics; more are only counted.", ints(0)
    )

    # Why groups rebalanced
    ottla_history_memory_bytes: int = setting(
        16_777_216, "Memory for why groups rebalanced, all together; 0: keep nothing.", longs(0)
    )
    ottla_history_file_enable: bool = setting(
        True,
        "Keep why groups rebalanced in the data directory, too, for after a restart: twice ottla.history.memory.bytes.",
    )

    # Events of groups as a topic
    ottla_group_events_enable: bool = setting(
        True, "Write what happens to groups to __ottla_group_events: rebalances with cause and duration, departures."
    )
    ottla_group_events_topic_num_partitions: int = setting(
        1, "Partitions with which __ottla_group_events is created.", (1, 10_000)
    )
    ottla_group_events_topic_retention_ms: int = setting(
        604_800_000, "retention.ms with which it is created; -1: for ever.", longs(-1)
    )
    ottla_group_events_topic_retention_bytes: int = setting(
        67_108_864, "retention.bytes of a partition with which it is created; -1: any.", longs(-1)
    )

    # Timeline
    ottla_timeline_memory_bytes: int = setting(
        8_388_608, "Memory for the commits and the lag that timelines show, all together; 0: keep none.", longs(0)
    )

    # Sentinels
    ottla_sentinel_enable: bool = setting(True, "Look out for what is wrong with groups, and say so once.")
    ottla_sentinel_interval_ms: int = setting(
        10_000, "How often each group is looked at; groups in which something happened are sooner.", ints(100)
    )
    ottla_sentinel_settle_ms: int = setting(
        30_000,
        "How long different subscriptions in a group, or a topic without an owner, may last before an alarm.",
        longs(0),
    )
    ottla_sentinel_barrier_ms: int = setting(
        60_000, "How long a group may wait for its members before an alarm.", longs(0)
    )
    ottla_sentinel_idle_ms: int = setting(
        300_000,
        "How long a partition with lag may stand still in a Stable group whose others move before an alarm.",
        longs(0),
    )
    ottla_sentinel_storm_rebalances: int = setting(
        10, "So many rebalances of a group within the window are a storm.", (2, 1_000)
    )
    ottla_sentinel_refusals: int = setting(
        3, "So many members turned away by a group within the window raise an alarm.", (1, 1_000)
    )
    ottla_sentinel_storm_window_ms: int = setting(
        300_000,
        "The window for counting rebalances and refusals. A flapping member's alarm ends once it has stayed so long.",
        longs(1),
    )
    ottla_sentinel_zombie_ms: int = setting(
        5_000, "How long the JoinGroup of a client that is gone may wait before an alarm.", longs(0)
    )
    ottla_sentinel_quiet_ms: int = setting(
        60_000,
        "An alarm about something that happens, such as a fenced commit, ends after so long without it.",
        longs(1),
    )
    ottla_sentinel_max_alarms: int = setting(1_000, "Alarms that stand at a time; more are only counted.", ints(1))
    ottla_sentinel_max_partitions: int = setting(
        50_000, "Partitions with lag of which it is known since when they stand still.", ints(0)
    )

    # Who and where
    node_id: int = setting(1, "The id of this broker.", ints(0))
    listeners: str = setting(
        "PLAINTEXT://localhost:9092",
        "Where to listen: NAME://host:port, maybe several. The name is that of a protocol, or in "
        "listener.security.protocol.map. No host: all interfaces; localhost: this machine, by IPv4 and IPv6.",
        is_list=True,
    )
    advertised_listeners: str = setting(
        "",
        "What clients of each listener are told to connect to: NAME://host:port. Without one: the name in "
        "listeners, if there is one, or else the address at which each client reached the broker.",
        is_list=True,
    )
    log_dirs: str = setting("", "The data directory. Empty: ./ottla-data.", is_list=True)

    # Connections
    max_connections: int = setting(
        10_000,
        "Connections open at a time; others wait until one is closed. Fewer if the process may have fewer descriptors.",
        ints(1),
        by_listener=True,
    )
    max_connections_per_ip: int = setting(
        INT32_MAX, "Connections of one address; more are closed at once.", ints(0), dynamic=True
    )
    max_connections_per_ip_overrides: str = setting(
        "", "Other numbers for some addresses or names: 127.0.0.1:200,host:10.", dynamic=True
    )
    connections_max_idle_ms: int = setting(
        600_000,
        "A connection that is quiet without an open request, or reads no answers, is closed after this.",
        longs(1),
    )
    socket_request_max_bytes: int = setting(
        104_857_600, "The largest request; a frame that announces more closes its connection.", ints(1)
    )
    queued_max_request_bytes: int = setting(
        134_217_728,
        "Bytes of unfinished requests held in memory; above it, connections with a part of one wait. -1: any.",
        longs(-1),
    )
    ottla_request_progress_timeout_ms: int = setting(
        30_000,
        "While they are that many, a connection whose unfinished request does not grow for so long is closed.",
        ints(1),
    )
    ottla_queued_max_response_bytes: int = setting(
        134_217_728,
        "Bytes of answers that clients do not read; above it, connections are closed, those with the most first.",
        longs(1),
    )
    listener_backlog_size: int = setting(1024, "Connections that may wait to be accepted.", (1, 65_535))
    shutdown_drain_ms: int = setting(
        5_000, "How long a stopping broker waits for open requests to be answered.", ints(0)
    )
    protocol_codec: str = setting(
        "fused",
        "fused: compiled codecs; construct: the interpreted reference, for debugging.",
        choices=("fused", "construct"),
    )

    # Quotas
    quota_window_num: int = setting(11, "The windows over which rates of clients are taken that have a quota.", ints(1))
    quota_window_size_seconds: int = setting(1, "The length of such a window.", ints(1))
    controller_quota_window_num: int = setting(
        11, "The windows of the quota of partitions that are created and deleted.", ints(1)
    )
    controller_quota_window_size_seconds: int = setting(1, "The length of such a window.", ints(1))

    # Security
    ottla_insecure: bool = setting(
        False, "Permit listeners that other machines reach without authentication, and HTTP without a token."
    )
    listener_security_protocol_map: str = setting(
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "The protocol of each listener by its name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        is_list=True,
    )
    connection_failed_authentication_delay_ms: int = setting(
        100, "How long a connection stays open, unread, after it failed to authenticate.", ints(0)
    )
    connections_max_reauth_ms: int = setting(
        0,
        "How long a session lasts before its client has to authenticate again; 0: for ever.",
        longs(0),
        by_listener=True,
    )
    ottla_authentication_timeout_ms: int = setting(
        10_000, "How long a connection may take to authenticate, its TLS handshake included.", ints(1)
    )
    ottla_unauthenticated_request_bytes: int = setting(
        67_108_864, "Bytes that all connections which have not authenticated yet may hold together.", longs(1)
    )
    authorizer_class_name: str = setting(
        "",
        "Who decides what clients may do: org.apache.kafka.metadata.authorizer.StandardAuthorizer, by access control "
        "rules. Empty: everybody may do everything.",
        choices=(
            "",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "kafka.security.authorizer.AclAuthorizer",
        ),
    )
    super_users: str = setting("", "Principals that may do everything, between semicolons: User:admin;User:root.")
    allow_everyone_if_no_acl_found: bool = setting(False, "Whether what no rule is about is open to everybody.")
    ottla_audit_file: str = setting("", "A file to write down in who did what, as JSON lines. Empty: none.")

    # TLS
    ssl_enabled_protocols: str = setting(
        "TLSv1.2,TLSv1.3", "Versions of TLS.", choices=("TLSv1.2", "TLSv1.3"), is_list=True, by_listener=True
    )
    ssl_cipher_suites: str = setting(
        "", "Cipher suites, by Java's names. Empty: those that are safe.", is_list=True, by_listener=True
    )
    ssl_keystore_type: str = setting("PEM", "The form of the keystore.", choices=("PEM", "PKCS12"), by_listener=True)
    ssl_keystore_location: str = setting(
        "", "The file with the key and the certificate chain of the broker.", by_listener=True
    )
    ottla_tls_key_location: str = setting(
        "",
        "The file with the key (PEM), where it is not in the file of ssl.keystore.location: tls.key of Kubernetes.",
        by_listener=True,
    )
    ssl_keystore_password: str = setting(
        "", "The password of a keystore of type PKCS12.", sensitive=True, by_listener=True
    )
    ssl_keystore_key: str = setting("", "The key itself, as PEM.", sensitive=True, by_listener=True)
    ssl_keystore_certificate_chain: str = setting(
        "", "The certificate chain itself, as PEM.", sensitive=True, by_listener=True
    )
    ssl_key_password: str = setting("", "The password of an encrypted key.", sensitive=True, by_listener=True)
    ssl_truststore_type: str = setting(
        "PEM", "The form of the truststore.", choices=("PEM", "PKCS12"), by_listener=True
    )
    ssl_truststore_location: str = setting(
        "", "The file with the authorities whose client certificates are accepted.", by_listener=True
    )
    ssl_truststore_password: str = setting(
        "", "The password of a truststore of type PKCS12.", sensitive=True, by_listener=True
    )
    ssl_truststore_certificates: str = setting(
        "", "The authorities themselves, as PEM.", sensitive=True, by_listener=True
    )
    ssl_client_auth: str = setting(
        "none", "Whether clients show a certificate.", choices=("none", "requested", "required"), by_listener=True
    )
    ssl_principal_mapping_rules: str = setting(
        "DEFAULT",
        "How the name of a principal comes of the subject of a certificate: RULE:pattern/replacement/[LU].",
        by_listener=True,
    )
    ssl_allow_dn_changes: bool = setting(False, "Whether a new certificate may have another subject.", by_listener=True)
    ssl_allow_san_changes: bool = setting(False, "Whether a new certificate may be for other names.", by_listener=True)
    ottla_tls_crl_location: str = setting(
        "",
        "A PEM file with lists of revoked certificates of clients, one of each authority. Nobody gets in whose "
        "authority has no list in it, or one that has ended.",
        by_listener=True,
    )
    ottla_tls_reload_interval_ms: int = setting(
        10_000, "How often the files of keys and certificates are looked at.", ints(100)
    )
    ottla_tls_handshakes_max: int = setting(64, "TLS handshakes under way at a time; others wait.", ints(1))

    # SASL
    sasl_enabled_mechanisms: str = setting(
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "The mechanisms by which clients may authenticate.",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        is_list=True,
        by_listener=True,
    )
    sasl_jaas_config: str = setting(
        "",
        "The users of PLAIN, as options user_NAME of Kafka's PlainLoginModule.",
        sensitive=True,
        by_listener=True,
    )
    sasl_server_max_receive_size: int = setting(
        524_288, "The longest request of a client that has not authenticated yet.", ints(1), by_listener=True
    )
    ottla_sasl_plain_users_file: str = setting(
        "", "A file with the users of PLAIN, as `ottla users hash` prints them; read again at SIGHUP.", by_listener=True
    )
    ottla_sasl_plain_without_tls: bool = setting(
        False, "Permit PLAIN without TLS on a listener that other machines reach.", by_listener=True
    )
    ottla_sasl_scram_terminate_on_change: bool = setting(
        False, "Whether a new password, or its removal, closes the connections of its user."
    )
    sasl_oauthbearer_jwks_endpoint_url: str = setting(
        "", "Where the keys are that sign tokens: an https: or file: URL.", by_listener=True
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        3_600_000, "How often those keys are fetched.", longs(1), by_listener=True
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        100, "How long to wait after they could not be fetched.", longs(1), by_listener=True
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        10_000, "The longest wait after several failures.", longs(1), by_listener=True
    )
    sasl_oauthbearer_expected_audience: str = setting(
        "", "Audiences of which a token has to name one.", is_list=True, by_listener=True
    )
    sasl_oauthbearer_expected_issuer: str = setting("", "The issuer that a token has to name.", by_listener=True)
    sasl_oauthbearer_allow_unverified_audience: bool = setting(
        False, "Accept tokens for any audience.", by_listener=True
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = setting(False, "Accept tokens of any issuer.", by_listener=True)
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        30, "How far the clocks of issuer and broker may be apart.", ints(0), by_listener=True
    )
    sasl_oauthbearer_scope_claim_name: str = setting("scope", "The claim with the scopes of a token.", by_listener=True)
    sasl_oauthbearer_sub_claim_name: str = setting("sub", "The claim with the name of the principal.", by_listener=True)

    # Groups
    group_min_session_timeout_ms: int = setting(6_000, "The shortest session timeout a member may ask for.", ints(1))
    group_max_session_timeout_ms: int = setting(1_800_000, "The longest session timeout.", ints(1))
    group_initial_rebalance_delay_ms: int = setting(
        3_000, "How long the first rebalance of an empty group waits for more members.", ints(0)
    )
    group_max_size: int = setting(INT32_MAX, "Members that a group may have.", ints(1))
    ottla_group_max_bytes: int = setting(
        33_554_432, "What a group may keep of its members: ids, metadata and assignments.", longs(1)
    )
    ottla_groups_max_bytes: int = setting(
        268_435_456, "What all groups together may keep; beyond it nobody new can join.", longs(1)
    )
    ottla_group_max_issued_ids: int = setting(
        10_000,
        "Member ids that a group has issued and that have not come back; beyond them the oldest is void.",
        ints(1),
    )
    ottla_groups_max_issued_bytes: int = setting(
        16_777_216, "What such ids of all groups together may take; client ids are in them.", longs(1)
    )
    group_generation_persist: str = setting(
        "sync", "When a generation is logged: at sync, as Kafka does, or already at join.", choices=("sync", "join")
    )
    group_coordinator_rebalance_protocols: str = setting(
        "classic,consumer,streams",
        "Protocols that groups may be of; of classic and consumer each has an effect.",
        choices=("classic", "consumer", "share", "streams"),
        is_list=True,
    )
    group_consumer_session_timeout_ms: int = setting(
        45_000, "How long a member of a consumer group may be silent before it is taken for gone.", ints(1)
    )
    group_consumer_min_session_timeout_ms: int = setting(45_000, "The shortest that can be set for a group.", ints(1))
    group_consumer_max_session_timeout_ms: int = setting(60_000, "The longest that can be set for a group.", ints(1))
    group_consumer_heartbeat_interval_ms: int = setting(
        5_000, "How often a member of a consumer group is to send heartbeats.", ints(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(5_000, "The shortest that can be set for a group.", ints(1))
    group_consumer_max_heartbeat_interval_ms: int = setting(15_000, "The longest that can be set for a group.", ints(1))
    group_consumer_assignment_interval_ms: int = setting(
        1_000, "The least time between two assignments of a consumer group.", ints(0), dynamic=True
    )
    group_consumer_min_assignment_interval_ms: int = setting(0, "The shortest that can be set for a group.", ints(0))
    group_consumer_max_assignment_interval_ms: int = setting(
        15_000, "The longest that can be set for a group.", ints(0)
    )
    group_consumer_max_size: int = setting(INT32_MAX, "Members that a consumer group may have.", ints(1))
    group_consumer_assignors: str = setting(
        "uniform,range",
        "Assignors that consumer groups may use; the first one, unless members ask for another.",
        choices=("uniform", "range"),
        is_list=True,
    )
    group_consumer_migration_policy: str = setting(
        "bidirectional",
        "Whether groups with members change their protocol: by members of the consumer protocol that come to a classic "
        "group (upgrade), and by the last of them that goes (downgrade). It cannot change while the broker runs.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        600_000, "How old the topics of a consumer group's regular expression may become.", ints(10_000)
    )
    offset_metadata_max_bytes: int = setting(4_096, "The longest metadata of a commit, in UTF-16 units.", ints(0))
    offsets_retention_minutes: int = setting(10_080, "How long offsets outlive their group's members.", ints(1))
    offsets_retention_check_interval_ms: int = setting(600_000, "How often expired offsets are looked for.", longs(1))
    offsets_topic_num_partitions: int = setting(50, "Partitions of __consumer_offsets.", ints(1))
    offsets_topic_replication_factor: int = setting(
        1, "Replicas of __consumer_offsets; one node has one.", (1, 32_767), effective=False
    )
    offsets_topic_segment_bytes: int = setting(104_857_600, "Segment size of __consumer_offsets.", ints(1))
    ottla_offsets_topic_min_compaction_lag_ms: int = setting(
        86_400_000,
        "min.compaction.lag.ms with which __consumer_offsets is created: so long can its history be read. 0: none.",
        longs(0),
    )
    offsets_commit_timeout_ms: int = setting(
        5_000, "How long a write of the coordinator may take.", ints(1), effective=False
    )

    # Transactions
    producer_id_expiration_ms: int = setting(
        86_400_000, "How long a partition remembers a producer that does not write.", ints(1)
    )
    transactional_id_expiration_ms: int = setting(
        604_800_000, "How long a transactional id that is not used is remembered.", ints(1)
    )
    ottla_transactional_ids_max_bytes: int = setting(
        67_108_864, "What transactional ids and their open transactions may keep.", longs(1)
    )
    transaction_max_timeout_ms: int = setting(
        900_000, "The longest timeout that a transactional producer may ask for.", ints(1)
    )
    transaction_state_log_num_partitions: int = setting(50, "Partitions of __transaction_state.", ints(1))
    transaction_state_log_replication_factor: int = setting(
        1, "Replicas of __transaction_state; one node has one.", (1, 32_767), effective=False
    )
    transaction_state_log_min_isr: int = setting(
        1, "Replicas that must have a record of __transaction_state.", ints(1), effective=False
    )
    transaction_state_log_segment_bytes: int = setting(104_857_600, "Segment size of __transaction_state.", ints(1))
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        10_000, "How often transactions that are open for too long are looked for.", ints(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3_600_000, "How often transactional ids that expired are looked for.", ints(1)
    )

    # Topics
    auto_create_topics_enable: bool = setting(True, "Create a topic when a client asks for its metadata.")
    delete_topic_enable: bool = setting(True, "Allow topics to be deleted.")
    num_partitions: int = setting(1, "Partitions of a topic that is created without a count.", ints(1))
    default_replication_factor: int = setting(1, "Replicas of a topic that is created without a factor.", (1, 32_767))
    min_insync_replicas: int = setting(
        1, "Replicas that must have a record before acks=all is answered.", ints(1), effective=False, dynamic=True
    )
    unclean_leader_election_enable: bool = setting(
        False, "Allow a replica that is behind to lead.", effective=False, dynamic=True
    )

    # Records
    message_max_bytes: int = setting(1_048_588, "The largest record batch.", ints(0), dynamic=True)
    compression_type: str = setting(
        "producer",
        "Codec of stored batches; producer keeps each batch as it was sent.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        dynamic=True,
    )
    compression_gzip_level: int = setting(
        -1, "Level where the broker itself compresses with gzip.", (-1, 9), dynamic=True
    )
    compression_lz4_level: int = setting(9, "Level where the broker itself compresses with lz4.", (1, 17), dynamic=True)
    compression_zstd_level: int = setting(
        3, "Level where the broker itself compresses with zstd.", (-131_072, 22), dynamic=True
    )
    log_message_timestamp_type: str = setting(
        "CreateTime", "Whose time a record carries.", choices=("CreateTime", "LogAppendTime"), dynamic=True
    )
    log_message_timestamp_before_max_ms: int = setting(
        INT64_MAX, "How old a record's timestamp may be.", longs(0), dynamic=True
    )
    log_message_timestamp_after_max_ms: int = setting(
        3_600_000, "How far ahead a record's timestamp may be.", longs(0), dynamic=True
    )

    # Logs
    log_cleanup_policy: str = setting(
        "delete",
        "What happens to old segments: delete, compact, or both.",
        choices=("delete", "compact"),
        is_list=True,
        dynamic=True,
    )
    log_retention_ms: int = setting(604_800_000, "How long records are kept; -1: for ever.", longs(-1), dynamic=True)
    log_retention_bytes: int = setting(-1, "How large a partition may grow; -1: any.", longs(-1), dynamic=True)
    log_retention_check_interval_ms: int = setting(
        300_000, "How often segments are looked for that are too old or too many.", longs(1)
    )
    log_segment_bytes: int = setting(1_073_741_824, "The size at which a new segment is begun.", ints(14), dynamic=True)
    log_segment_delete_delay_ms: int = setting(
        60_000,
        "How long the file of a dropped segment stays on disk; it goes at once.",
        longs(0),
        effective=False,
        dynamic=True,
    )
    log_roll_ms: int = setting(604_800_000, "The age at which a new segment is begun.", longs(1), dynamic=True)
    log_roll_jitter_ms: int = setting(
        0, "Random time, up to this, taken off that age for each partition.", longs(0), dynamic=True
    )
    log_index_interval_bytes: int = setting(4_096, "Bytes of log between two index entries.", ints(0), dynamic=True)
    log_index_size_max_bytes: int = setting(
        10_485_760, "The size of a segment's index at which a new segment is begun.", ints(4), dynamic=True
    )
    log_flush_interval_messages: int = setting(
        INT64_MAX,
        "Records after which a log is synced; ottla.durability decides that here.",
        longs(1),
        effective=False,
        dynamic=True,
    )
    log_flush_interval_ms: int = setting(
        INT64_MAX,
        "Time after which a log is synced; ottla.durability decides that here.",
        longs(0),
        effective=False,
        dynamic=True,
    )
    log_preallocate: bool = setting(
        False, "Whether a segment's file is allocated at once.", effective=False, dynamic=True
    )

    # Compaction
    log_cleaner_enable: bool = setting(True, "Compact the topics that ask for it.")
    log_cleaner_threads: int = setting(
        1, "Threads that compact; here one task does.", ints(0), effective=False, dynamic=True
    )
    log_cleaner_backoff_ms: int = setting(
        15_000, "How long compaction rests when no log is worth it.", longs(0), dynamic=True
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        134_217_728,
        "Memory, in bytes, for the keys of one round of compaction; a log with more keys takes several rounds.",
        longs(1_048_576),
        dynamic=True,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        1.7976931348623157e308, "The most that compaction reads and writes in a second.", (1, None), dynamic=True
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        0.5, "How much of a log must be new before it is compacted.", (0, 1), dynamic=True
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        0, "The least time that a record stays out of compaction.", longs(0), dynamic=True
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        INT64_MAX, "The longest that a record may stay out of compaction.", longs(1), dynamic=True
    )
    log_cleaner_delete_retention_ms: int = setting(
        86_400_000, "How long a compacted topic keeps the markers of deleted keys.", longs(0), dynamic=True
    )

    # Durability
    ottla_durability: str = setting(
        "fsync",
        "When a record counts as written: after fdatasync, or after the write.",
        choices=("fsync", "interval", "os"),
        dynamic=True,
    )
    ottla_durability_interval_ms: int = setting(50, "Time between syncs under the policy interval.", ints(1))

    # Observing
    ottla_recorder_memory_bytes: int = setting(
        16_777_216, "Memory for what recently happened to groups, all together; 0: keep nothing.", longs(0)
    )
    ottla_recorder_file: str = setting(
        "", "A file to record what happens to groups in; as JSON lines if its name ends with .jsonl. Empty: none."
    )
    ottla_recorder_file_bytes: int = setting(
        67_108_864, "The size at which the file is set aside under a number and begun anew.", longs(4096)
    )
    ottla_recorder_file_count: int = setting(10, "How many files that were set aside are kept; the oldest go.", ints(1))
    ottla_recorder_hash_group_ids: bool = setting(
        False, "Hash group ids in what is recorded, with a random key that is told to nobody."
    )
    ottla_recorder_hash_client_hosts: bool = setting(False, "Hash the addresses of clients in what is recorded.")

    # Reading
    fetch_max_bytes: int = setting(57_671_680, "The most that one Fetch is answered with.", ints(1024))
    fetch_max_wait_ms: int = setting(300_000, "The longest that a Fetch is parked, whatever the client asks.", ints(0))
    max_incremental_fetch_session_cache_slots: int = setting(
        1_000, "How many consumers may have a fetch session, in which they name only what changed.", ints(0)
    )

    # Several nodes
    ottla_cluster_url: str = setting(
        "",
        "The PostgreSQL that has the logs of a cluster, as postgresql://USER@HOST:PORT/DATABASE: this broker is one of "
        "its nodes.",
        sensitive=True,
    )
    ottla_node_name: str = setting(
        "",
        "The name by which a node of a cluster over a database gets its id, where node.id is not set: a new name gets "
        "a new one and keeps it. Empty: the host and port that clients are told.",
    )
    ottla_cluster_schema: str = setting("ottla", "The schema with the tables of the cluster.")
    ottla_cluster_allow_lossy_failover: bool = setting(
        False, "Accept several hosts without synchronous standbys: a failover may lose acknowledged records."
    )

    # HTTP
    ottla_http_listen: str = setting(
        "",
        "Where console, metrics and HTTP API are: HOST:PORT, :PORT of all interfaces, or PORT of loopback. "
        "Empty: nowhere.",
    )
    ottla_http_token_file: str = setting(
        "",
        "A file with lines NAME TOKEN: whoever wants to see more than health has to send a token. "
        "Empty: nobody has to.",
    )
    ottla_http_allowed_hosts: str = setting(
        "",
        "More names by which the HTTP port is reached, as in the Host header: a proxy's. Those of advertised.listeners "
        "are known. `*`: any.",
        is_list=True,
    )
    ottla_http_max_connections: int = setting(
        128,
        "HTTP connections open at a time. When one more comes, the longest idle one of the busiest address is closed; "
        "streams are half of them at most. A browser with the console holds up to seven.",
        ints(8),
    )
    ottla_http_stream_max_bytes: int = setting(
        4_194_304, "How far a reader of the HTTP stream may be behind; then it is dropped.", ints(65_536)
    )

    ottla_http_tls: bool = setting(
        False, "Serve HTTP with TLS: with ottla.http.ssl.keystore.*, or else the certificate of the first SSL listener."
    )
    ottla_http_ssl_keystore_type: str = setting("PEM", "The form of the keystore for HTTP.", choices=("PEM", "PKCS12"))
    ottla_http_ssl_keystore_location: str = setting("", "The file with the key and the certificate chain for HTTP.")
    ottla_http_ssl_keystore_password: str = setting("", "The password of that file, if PKCS12.", sensitive=True)
    ottla_http_ssl_keystore_key: str = setting("", "The key for HTTP itself, as PEM.", sensitive=True)
    ottla_http_ssl_keystore_certificate_chain: str = setting(
        "", "The certificate chain for HTTP itself, as PEM.", sensitive=True
    )
    ottla_http_ssl_key_password: str = setting("", "The password of an encrypted key for HTTP.", sensitive=True)

    # What dataclasses write for this many fields takes longer to compile than all else here.
    def __eq__(self, other: object) -> bool:
        """Whether every setting has the same value, whoever set it."""
        return isinstance(other, Settings) and self._values() == other._values()

    def __repr__(self) -> str:
        """What is not by default, without secrets."""
        changed = (
            f"{field.name}={'…' if field.metadata['sensitive'] else repr(getattr(self, field.name))}"
            for key, field in FIELDS.items()
            if self.is_given(key)
        )
        return f"Settings({', '.join(changed)})"

    def _values(self) -> list[Any]:
        return [getattr(self, field.name) for field in FIELDS.values()]

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    def describe(self) -> list[SettingRow]:
        """Every setting, by name."""
        rows = (
            SettingRow(
                key,
                None if field.metadata["sensitive"] else as_text(getattr(self, field.name)),
                as_text(field.default),
                type_of(key),
                field.metadata["documentation"],
                not self.is_given(key),
            )
            for key, field in FIELDS.items()
        )
        return sorted(rows, key=lambda row: row.name)

    def of_listener(self, listener: str, key: str, mechanism: str = "") -> Any:
        """The value that counts for a listener, and for a mechanism of it: the most specific one.

        Raises:
            KeyError: there is no such key.
        """
        field, name = FIELDS[key], listener.lower()
        for wanted in (f"{name}.{mechanism.lower()}.{key}", f"{name}.{key}") if mechanism else (f"{name}.{key}",):
            if wanted in self.by_listener:
                return self.by_listener[wanted]
        return getattr(self, field.name)

    def is_given(self, key: str) -> bool:
        """Whether somebody has set a key, be it to its default."""
        return key in self.given or getattr(self, FIELDS[key].name) != FIELDS[key].default


def key_of(attribute: str) -> str:
    """``group_max_size`` → ``group.max.size``."""
    return attribute.replace("_", ".")


def as_text(value: Any) -> str:
    """A value as a properties file has it."""
    if isinstance(value, float):
        return str(value).upper().replace("E+", "E")
    return str(value).lower() if isinstance(value, bool) else str(value)


FIELDS = {key_of(field.name): field for field in dataclasses.fields(Settings) if field.metadata}


def type_of(key: str) -> str:
    """The type of a setting under Kafka's name: the width of a whole number is that of its largest value."""
    field = FIELDS[key]
    match field.default:
        case bool():
            return "boolean"
        case int():
            _, high = field.metadata["bounds"]
            return "short" if high <= INT16_MAX else "int" if high <= INT32_MAX else "long"
        case float():
            return "double"
        case _:
            return "password" if field.metadata["sensitive"] else "list" if field.metadata["list"] else "string"


def parse_value(key: str, text: str) -> Any:
    """Read a value as its setting's type and check its range.

    Raises:
        BadSetting: it does not parse, or is out of range.
        KeyError: there is no such setting.
    """
    field = FIELDS[key]
    (low, high), choices = field.metadata["bounds"], field.metadata["choices"]
    text = text.strip()
    allowed = f"allowed are {low} to {high}" if high is not None else f"allowed is {low} or more"
    match field.default:
        case bool():
            if text.lower() not in ("true", "false"):
                raise BadSetting(f"{key}={text!r}: allowed are true and false")
            return text.lower() == "true"
        case int() | float() as default:
            try:
                value = type(default)(text)
            except ValueError:
                what = "a whole number" if isinstance(default, int) else "a number"
                raise BadSetting(f"{key}={text!r}: not {what}; {allowed}") from None
            if (low is not None and not value >= low) or (high is not None and not value <= high):
                raise BadSetting(f"{key}={value}: {allowed}")
            return value
        case _:
            items = [item.strip() for item in text.split(",") if item.strip()] if field.metadata["list"] else [text]
            if key == "max.connections.per.ip.overrides":
                connections_per_ip(text)
            named = [item.lower() for item in items] if key == "group.consumer.migration.policy" else items
            if choices and not set(named) <= set(choices):
                hint = next((_HINTS[item] for item in items if item in _HINTS), "")
                raise BadSetting(f"{key}={text!r}: allowed are {', '.join(one or 'nothing' for one in choices)}{hint}")
            return text


_HINTS = {
    "GSSAPI": "; there is no GSSAPI, which is Kerberos",
    "JKS": "; make PKCS12 of a JKS: keytool -importkeystore -srckeystore OLD.jks -destkeystore NEW.p12 "
    "-deststoretype PKCS12",
}


def connections_per_ip(text: str) -> dict[str, int]:
    """The value of ``max.connections.per.ip.overrides``: addresses or names, and how many connections each may have.

    Raises:
        BadSetting: it does not parse.
    """
    overrides = {}
    for item in filter(None, map(str.strip, text.split(","))):
        host, _, count = item.rpartition(":")
        if not host or not count.strip().isdecimal():
            raise BadSetting(f"max.connections.per.ip.overrides={text!r}: allowed is HOST:COUNT,HOST:COUNT…")
        overrides[host.strip().strip("[]")] = int(count)
    return overrides
