"""The classes of causes: what each means, how it is told, and how much it matters.

An episode has one; so has each of its triggers. The names are part of the JSON and of the metrics: they are added to,
never renamed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

FINE, COST, GRAVE = "fine", "cost", "grave"
"""The weight of a cause: it cannot be helped or is as it should be; it costs time; somebody should look at it."""


class Row(NamedTuple):
    """One class.

    Attributes:
        meaning: one line.
        clause: the same about somebody; {who} is a member's name, {instance} its group.instance.id.
        of_many: the clause about several, where that is worded otherwise and can happen to several at once.
        in_short: how a member went, in a few words.
    """

    name: str
    meaning: str
    clause: str
    gravity: str = COST
    of_many: str = ""
    in_short: str = ""


class Cause(StrEnum):
    """See the module. The name of a class of a later version gives ``UNKNOWN``."""

    row: Row

    def __new__(cls, *columns: str) -> Cause:
        cause = str.__new__(cls, columns[0])
        cause._value_ = columns[0]
        cause.row = Row(*columns)
        return cause

    @classmethod
    def _missing_(cls, value: object) -> Cause:
        return cls.UNKNOWN

    # Somebody came
    GROUP_STARTED = Row(
        "group-started", "the first member joined a group that had none", "{who} started the group", gravity=FINE
    )
    MEMBER_JOINED = Row("member-joined", "a member joined that was not known before", "{who} joined", gravity=FINE)
    STATIC_MEMBER_JOINED = Row(
        "static-member-joined",
        "a member with a group.instance.id joined for the first time",
        "{who} joined, for the first time under this group.instance.id",
        gravity=FINE,
    )
    MEMBER_RETURNED = Row(
        "member-returned", "a member that left or was removed a while ago joined again", "{who} came back", gravity=FINE
    )

    # Somebody went of its own accord
    LEFT_CLOSED = Row(
        "left-closed",
        "a consumer was closed and said so",
        "{who} was closed",
        of_many="{who} were closed",
        in_short="it was closed",
    )
    LEFT_POLL_TIMEOUT = Row(
        "left-poll-timeout",
        "a consumer left since its application had not called poll() for max.poll.interval.ms",
        "{who} left, since its application had not called poll() in time",
        of_many="{who} left, since their applications had not called poll() in time",
        in_short="it missed its poll deadline",
    )
    LEFT_UNSUBSCRIBED = Row(
        "left-unsubscribed",
        "a consumer unsubscribed from all topics",
        "{who} unsubscribed from all topics",
        in_short="it unsubscribed",
    )
    LEFT_WITH_REASON = Row(
        "left-with-reason",
        "a member left and gave a reason that is not one of the usual ones",
        "{who} left",
        in_short="it left",
    )
    LEFT_WITHOUT_REASON = Row(
        "left-without-reason", "a member left and gave no reason", "{who} left without saying why", in_short="it left"
    )
    REMOVED_BY_ADMIN = Row(
        "removed-by-admin",
        "somebody else removed the member",
        "{who} was removed by an administrator",
        of_many="{who} were removed by an administrator",
        in_short="it was removed",
    )

    # Somebody went missing
    SESSION_EXPIRED_CONNECTION_LOST = Row(
        "session-expired-connection-lost",
        "a member's connection was lost and its session ran out: it crashed",
        "{who} crashed: its connection was lost and its session ran out",
        gravity=GRAVE,
        of_many="{who} crashed: their connections were lost and their sessions ran out",
        in_short="it was removed as crashed",
    )
    SESSION_EXPIRED_SILENT = Row(
        "session-expired-silent",
        "a member's session ran out while its connection was open: its process stood still",
        "{who} fell silent with its connection open, and its session ran out",
        gravity=GRAVE,
        of_many="{who} fell silent with their connections open, and their sessions ran out",
        in_short="it was removed as silent",
    )
    SESSION_EXPIRED = Row(
        "session-expired",
        "a member's session ran out, and it is not known what became of its connection",
        "the session of {who} ran out",
        gravity=GRAVE,
        of_many="the sessions of {who} ran out",
        in_short="its session ran out",
    )
    NEW_MEMBER_EXPIRED = Row(
        "new-member-expired",
        "a new member was not in a generation within five minutes",
        "{who} joined and was not in a generation within five minutes, so it was removed",
        gravity=GRAVE,
        of_many="{who} joined and were not in a generation within five minutes, so they were removed",
        in_short="it was too slow to get in",
    )
    JOIN_BARRIER_MISSED = Row(
        "join-barrier-missed",
        "a member did not rejoin within the rebalance timeout and was dropped",
        "{who} did not rejoin in time and was dropped",
        gravity=GRAVE,
        of_many="{who} did not rejoin in time and were dropped",
        in_short="it missed a join barrier",
    )
    ISSUED_ID_UNUSED = Row(
        "issued-id-unused",
        "a client was given a member id and never came back with it",
        "{who} was given a member id and never came back with it",
        of_many="{who} were given member ids and never came back with them",
    )
    ISSUED_ID_LEFT = Row(
        "issued-id-left",
        "a client gave back a member id before it had joined with it",
        "{who} gave back the member id that it had been given, before it had joined with it",
        of_many="{who} gave back the member ids that they had been given, before they had joined with them",
    )
    NOBODY_REJOINED = Row(
        "nobody-rejoined",
        "no member rejoined within the rebalance timeout",
        "no member rejoined in time",
        gravity=GRAVE,
    )

    # Somebody changed its mind
    SUBSCRIPTION_CHANGED = Row(
        "subscription-changed", "a member subscribes to other topics than before", "{who} changed its subscription"
    )
    ASSIGNOR_LIST_CHANGED = Row(
        "assignor-list-changed", "a member supports other assignors than before", "{who} changed its list of assignors"
    )
    COOPERATIVE_FOLLOW_UP = Row(
        "cooperative-follow-up",
        "a member gave partitions up, as the last assignment told it, and rejoined",
        "{who} gave up partitions, as its last assignment told it, and rejoined",
        gravity=FINE,
    )
    TOPIC_METADATA_CHANGED = Row(
        "topic-metadata-changed",
        "a topic was created, deleted or given more partitions, and the leader joined again",
        "the leader {who} saw that its topics or their partitions changed",
        gravity=FINE,
    )
    USER_DATA_CHANGED = Row(
        "user-data-changed",
        "a member's assignor sent other data than before",
        "{who} rejoined with other data for its assignor",
    )
    REBALANCE_ENFORCED = Row(
        "rebalance-enforced", "the application asked for a rebalance", "the application of {who} asked for a rebalance"
    )
    REJOINED_AFTER_ERROR = Row(
        "rejoined-after-error",
        "a member rejoined since an earlier answer was an error",
        "{who} rejoined after an error",
    )
    LEADER_REJOINED = Row(
        "leader-rejoined",
        "the leader joined again; that always begins a rebalance",
        "the leader {who} joined again, which always begins a rebalance",
    )
    MEMBER_REJOINED = Row(
        "member-rejoined",
        "a member joined again with other metadata, and wants the same as before",
        "{who} joined again with other metadata",
    )
    METADATA_CHANGED_WHILE_SYNCING = Row(
        "metadata-changed-while-syncing",
        "a member changed its metadata before it had its assignment",
        "{who} changed its metadata before it had its assignment",
    )

    REGEX_RESOLVED = Row(
        "regex-resolved",
        "the regex of a member comes to other topics than before",
        "the regex of {who} comes to other topics",
        gravity=FINE,
    )
    REGEX_CHANGED = Row("regex-changed", "a member subscribes with another regex", "{who} changed its regex")
    RACK_CHANGED = Row(
        "rack-changed",
        "replicas of a topic moved to other racks, and nothing else of it changed",
        "replicas of its topics moved to other racks",
        gravity=FINE,
    )

    # Static membership
    STATIC_MEMBER_AWAY = Row(
        "static-member-away",
        "a member with a group.instance.id went for a while, and its partitions stand still",
        "{who} went for a while, as it has a group.instance.id",
        gravity=FINE,
        in_short="it went for a while",
    )
    STATIC_MEMBER_NOT_BACK = Row(
        "static-member-not-back",
        "a member with a group.instance.id went for a while and did not come back within its session",
        "{who} went for a while, under its group.instance.id, and was not back before its session ran out",
        gravity=GRAVE,
        in_short="it was not back in time",
    )
    STATIC_MEMBER_REPLACED = Row(
        "static-member-replaced",
        "a static member came back within its session; no rebalance was needed",
        "{who} came back under its group.instance.id",
        gravity=FINE,
        in_short="it was restarted",
    )
    STATIC_REPLACED_PROTOCOL_CHANGED = Row(
        "static-replaced-protocol-changed",
        "a static member came back with other assignors, so that another is chosen",
        "{who} came back under its group.instance.id with other assignors",
    )
    STATIC_REPLACED_WHILE_SYNCING = Row(
        "static-replaced-while-syncing",
        "a static member came back while assignments were awaited",
        "{who} came back under its group.instance.id while assignments were awaited",
    )
    REPLACEMENT_WRITE_FAILED = Row(
        "replacement-write-failed",
        "the new id of a static member could not be written",
        "the new id of {who} could not be written",
        gravity=GRAVE,
    )
    DUPLICATE_INSTANCE_ID = Row(
        "duplicate-instance-id",
        "two processes use the same group.instance.id",
        "two processes use the group.instance.id {instance}",
        gravity=GRAVE,
    )

    # The sync barrier
    SYNC_TIMEOUT = Row(
        "sync-timeout",
        "a member did not fetch its assignment within the rebalance timeout and was dropped",
        "{who} did not fetch its assignment in time and was dropped",
        gravity=GRAVE,
        of_many="{who} did not fetch their assignments in time and were dropped",
        in_short="it missed a sync barrier",
    )
    LEADER_NEVER_SYNCED = Row(
        "leader-never-synced",
        "the leader did not send the assignments within the rebalance timeout and was dropped",
        "the leader {who} did not send the assignments in time and was dropped",
        gravity=GRAVE,
        in_short="it was dropped for sending no assignments",
    )

    # A member of a consumer group on its way to its target
    REVOCATION_TIMEOUT = Row(
        "revocation-timeout",
        "a member did not give partitions up within its rebalance timeout and was removed",
        "{who} did not give partitions up in time and was removed",
        gravity=GRAVE,
        of_many="{who} did not give partitions up in time and were removed",
        in_short="it was removed for not giving partitions up in time",
    )
    FENCED_EPOCH = Row(
        "fenced-epoch",
        "a member sent an epoch that is not its own, and was told to give up all it has and join again",
        "{who} sent an epoch that is not its own, and was told to join again",
        gravity=GRAVE,
    )

    CLASSIC_REJOIN_MISSED = Row(
        "classic-rejoin-missed",
        "a classic member of a consumer group was told to join again, did not in time, and was removed",
        "{who} was told to join again, did not in time and was removed",
        gravity=GRAVE,
        in_short="it did not join again in time",
    )
    CLASSIC_SYNC_MISSED = Row(
        "classic-sync-missed",
        "a classic member of a consumer group did not fetch its assignment in time, and was removed",
        "{who} did not send SyncGroup in time and was removed",
        gravity=GRAVE,
        in_short="it did not sync in time",
    )
    GROUP_UPGRADED = Row(
        "group-upgraded",
        "a classic group became one of the consumer protocol, with all its members",
        "the group became one of the consumer protocol",
        gravity=FINE,
    )
    GROUP_DOWNGRADED = Row(
        "group-downgraded",
        "a consumer group became a classic one, as only members of the classic protocol were left",
        "the group became a classic one",
        gravity=FINE,
    )
    UPGRADE_REFUSED = Row(
        "upgrade-refused",
        "a member of the consumer protocol came to a classic group that cannot become one of its protocol",
        "{who} was turned away: the group stays a classic one",
        gravity=GRAVE,
    )
    DOWNGRADE_REFUSED = Row(
        "downgrade-refused",
        "only members of the classic protocol are left in a consumer group, and it stays one",
        "a consumer group stays one",
        gravity=GRAVE,
    )
    TOOK_OVER_FROM_CLASSIC = Row(
        "took-over-from-classic",
        "a group without members is of the other protocol from now on, as somebody of that came",
        "a group without members is of the other protocol from now on",
        gravity=FINE,
    )

    # The broker
    BROKER_STOOD_STILL = Row(
        "broker-stood-still",
        "the broker's process stood still while a member's session ran out: it read no heartbeats, and asked for none",
        "the broker stood still past the end of the session of {who}",
        gravity=GRAVE,
        of_many="the broker stood still past the ends of the sessions of {who}",
        in_short="it was removed, as the broker had stood still",
    )
    ASSIGNMENT_WRITE_FAILED = Row(
        "assignment-write-failed",
        "the assignments could not be written to __consumer_offsets",
        "the assignments could not be written to __consumer_offsets",
        gravity=GRAVE,
    )
    GENERATION_WRITE_FAILED = Row(
        "generation-write-failed",
        "the new generation could not be written to __consumer_offsets",
        "the new generation could not be written to __consumer_offsets",
        gravity=GRAVE,
    )
    GROUP_WRITE_FAILED = Row(
        "group-write-failed",
        "the first record of the group could not be written to __consumer_offsets",
        "the group's first record could not be written to __consumer_offsets",
        gravity=GRAVE,
    )
    COORDINATOR_LOADED = Row(
        "coordinator-loaded",
        "the broker started or took the group over, and read it from its log",
        "the broker took the group over and read it from its log",
        gravity=FINE,
    )
    COORDINATOR_MOVED = Row(
        "coordinator-moved",
        "the broker gave the group up: it stopped, or another took over",
        "the broker stopped or gave the group up",
        gravity=FINE,
    )
    OVER_CAPACITY_ON_LOAD = Row(
        "over-capacity-on-load",
        "the group was read from the log with more members than group.max.size",
        "the group was read from the log with more members than group.max.size allows",
        gravity=GRAVE,
    )
    UNASSIGNED_ON_LOAD = Row(
        "unassigned-on-load",
        "the group was read from the log with a generation that had no assignments",
        "the group was read from the log with a generation that never got its assignments",
    )
    GENERATION_LOST_ON_LOAD = Row(
        "generation-lost-on-load",
        "after the group was read from the log a member had a generation that was not in it",
        "{who} had a generation that the log does not have",
    )

    # Somebody was turned away
    TURNED_AWAY_GROUP_FULL = Row(
        "turned-away-group-full",
        "the group has group.max.size members",
        "{who} was turned away: the group is full",
        gravity=GRAVE,
        of_many="{who} were turned away: the group is full",
    )
    TURNED_AWAY_ASSIGNOR_MISMATCH = Row(
        "turned-away-assignor-mismatch",
        "the member has no assignor that all others have, too",
        "{who} was turned away: the members have no assignor in common with it",
        gravity=GRAVE,
    )
    TURNED_AWAY_UNKNOWN_ASSIGNOR = Row(
        "turned-away-unknown-assignor",
        "a member of the consumer protocol asks for an assignor that the broker does not have",
        "{who} was turned away: the broker does not have the assignor that it asks for",
        gravity=GRAVE,
    )
    TURNED_AWAY_INVALID_REGEX = Row(
        "turned-away-invalid-regex",
        "a member subscribes with what is no regular expression for the broker",
        "{who} was turned away: its regex is none for the broker",
        gravity=GRAVE,
    )
    TURNED_AWAY_CLASSIC = Row(
        "turned-away-classic",
        "a member of the classic protocol came to a consumer group, and the policy of the broker lets none in",
        "{who} was turned away: the group takes nobody of the classic protocol",
        gravity=GRAVE,
    )
    TURNED_AWAY_PROTOCOL_TYPE = Row(
        "turned-away-protocol-type",
        "the member is of another kind than the group",
        "{who} was turned away: it is of another kind than the group",
        gravity=GRAVE,
    )
    INVALID_SESSION_TIMEOUT = Row(
        "invalid-session-timeout",
        "the member's session.timeout.ms is outside of what the broker allows",
        "{who} was turned away: its session.timeout.ms is outside of what the broker allows",
        gravity=GRAVE,
    )

    # Patterns
    FLAPPING_MEMBER = Row("flapping-member", "one member leaves and comes back again and again", "{who} comes and goes")
    ROLLING_RESTART = Row(
        "rolling-restart",
        "the members are restarted one after the other",
        "the members are being restarted one after the other",
    )

    # Nothing is known
    UNKNOWN = Row("unknown", "what began it was not seen", "what began it was not seen")
