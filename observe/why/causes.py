"""The classes of causes, and what each means in one line.

An episode has one; so has each of its triggers. The names are part of the JSON and of the metrics: they are added to,
never renamed.
"""

from __future__ import annotations

UNKNOWN = "unknown"

CAUSES: dict[str, str] = {
    # Somebody came
    "group-started": "the first member joined a group that had none",
    "member-joined": "a member joined that was not known before",
    "static-member-joined": "a member with a group.instance.id joined for the first time",
    "member-returned": "a member that left or was removed a while ago joined again",
    # Somebody went of its own accord
    "left-closed": "a consumer was closed and said so",
    "left-poll-timeout": "a consumer left since its application had not called poll() for max.poll.interval.ms",
    "left-unsubscribed": "a consumer unsubscribed from all topics",
    "left-with-reason": "a member left and gave a reason that is not one of the usual ones",
    "left-without-reason": "a member left and gave no reason",
    "removed-by-admin": "somebody else removed the member",
    # Somebody went missing
    "session-expired-connection-lost": "a member's connection was lost and its session ran out: it crashed",
    "session-expired-silent": "a member's session ran out while its connection was open: its process stood still",
    "session-expired": "a member's session ran out, and it is not known what became of its connection",
    "new-member-expired": "a new member was not in a generation within five minutes",
    "join-barrier-missed": "a member did not rejoin within the rebalance timeout and was dropped",
    "issued-id-unused": "a client was given a member id and never came back with it",
    "issued-id-left": "a client gave back a member id before it had joined with it",
    "nobody-rejoined": "no member rejoined within the rebalance timeout",
    # Somebody changed its mind
    "subscription-changed": "a member subscribes to other topics than before",
    "assignor-list-changed": "a member supports other assignors than before",
    "cooperative-follow-up": "a member gave partitions up, as the last assignment told it, and rejoined",
    "topic-metadata-changed": "a topic was created, deleted or given more partitions, and the leader joined again",
    "user-data-changed": "a member's assignor sent other data than before",
    "rebalance-enforced": "the application asked for a rebalance",
    "rejoined-after-error": "a member rejoined since an earlier answer was an error",
    "leader-rejoined": "the leader joined again; that always begins a rebalance",
    "member-rejoined": "a member joined again with other metadata, and wants the same as before",
    "metadata-changed-while-syncing": "a member changed its metadata before it had its assignment",
    # Static membership
    "static-member-replaced": "a static member came back within its session; no rebalance was needed",
    "static-replaced-protocol-changed": "a static member came back with other assignors, so that another is chosen",
    "static-replaced-while-syncing": "a static member came back while assignments were awaited",
    "replacement-write-failed": "the new id of a static member could not be written",
    "duplicate-instance-id": "two processes use the same group.instance.id",
    # The sync barrier
    "sync-timeout": "a member did not fetch its assignment within the rebalance timeout and was dropped",
    "leader-never-synced": "the leader did not send the assignments within the rebalance timeout and was dropped",
    # The broker
    "assignment-write-failed": "the assignments could not be written to __consumer_offsets",
    "generation-write-failed": "the new generation could not be written to __consumer_offsets",
    "group-write-failed": "the first record of the group could not be written to __consumer_offsets",
    "coordinator-loaded": "the broker started or took the group over, and read it from its log",
    "coordinator-moved": "the broker gave the group up: it stopped, or another took over",
    "over-capacity-on-load": "the group was read from the log with more members than group.max.size",
    "unassigned-on-load": "the group was read from the log with a generation that had no assignments",
    "generation-lost-on-load": "after the group was read from the log a member had a generation that was not in it",
    # Somebody was turned away
    "turned-away-group-full": "the group has group.max.size members",
    "turned-away-assignor-mismatch": "the member has no assignor that all others have, too",
    "turned-away-protocol-type": "the member is of another kind than the group",
    "invalid-session-timeout": "the member's session.timeout.ms is outside of what the broker allows",
    # Patterns
    "flapping-member": "one member leaves and comes back again and again",
    "rolling-restart": "the members are restarted one after the other",
    # Nothing is known
    UNKNOWN: "what began it was not seen",
}
"""Name → meaning."""
