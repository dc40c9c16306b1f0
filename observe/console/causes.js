// The classes of causes in words, as the broker has them, and how much each matters.
import { duration, partitionTime, plural } from "./dom.js";

/** Class → what it means. A test holds them to the broker's own. */
export const CAUSES = {
  "group-started": "the first member joined a group that had none",
  "member-joined": "a member joined that was not known before",
  "static-member-joined": "a member with a group.instance.id joined for the first time",
  "member-returned": "a member that left or was removed a while ago joined again",
  "left-closed": "a consumer was closed and said so",
  "left-poll-timeout": "a consumer left since its application had not called poll() for max.poll.interval.ms",
  "left-unsubscribed": "a consumer unsubscribed from all topics",
  "left-with-reason": "a member left and gave a reason that is not one of the usual ones",
  "left-without-reason": "a member left and gave no reason",
  "removed-by-admin": "somebody else removed the member",
  "session-expired-connection-lost": "a member's connection was lost and its session ran out: it crashed",
  "session-expired-silent": "a member's session ran out while its connection was open: its process stood still",
  "session-expired": "a member's session ran out, and it is not known what became of its connection",
  "new-member-expired": "a new member was not in a generation within five minutes",
  "join-barrier-missed": "a member did not rejoin within the rebalance timeout and was dropped",
  "issued-id-unused": "a client was given a member id and never came back with it",
  "issued-id-left": "a client gave back a member id before it had joined with it",
  "nobody-rejoined": "no member rejoined within the rebalance timeout",
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
  "static-member-replaced": "a static member came back within its session; no rebalance was needed",
  "static-replaced-protocol-changed": "a static member came back with other assignors, so that another is chosen",
  "static-replaced-while-syncing": "a static member came back while assignments were awaited",
  "replacement-write-failed": "the new id of a static member could not be written",
  "duplicate-instance-id": "two processes use the same group.instance.id",
  "sync-timeout": "a member did not fetch its assignment within the rebalance timeout and was dropped",
  "leader-never-synced": "the leader did not send the assignments within the rebalance timeout and was dropped",
  "assignment-write-failed": "the assignments could not be written to __consumer_offsets",
  "generation-write-failed": "the new generation could not be written to __consumer_offsets",
  "group-write-failed": "the first record of the group could not be written to __consumer_offsets",
  "coordinator-loaded": "the broker started or took the group over, and read it from its log",
  "coordinator-moved": "the broker gave the group up: it stopped, or another took over",
  "over-capacity-on-load": "the group was read from the log with more members than group.max.size",
  "unassigned-on-load": "the group was read from the log with a generation that had no assignments",
  "generation-lost-on-load": "after the group was read from the log a member had a generation that was not in it",
  "turned-away-group-full": "the group has group.max.size members",
  "turned-away-assignor-mismatch": "the member has no assignor that all others have, too",
  "turned-away-protocol-type": "the member is of another kind than the group",
  "invalid-session-timeout": "the member's session.timeout.ms is outside of what the broker allows",
  "flapping-member": "one member leaves and comes back again and again",
  "rolling-restart": "the members are restarted one after the other",
  "unknown": "what began it was not seen",
};

// What cannot be helped or is as it should be; and what somebody should look at. All others cost time.
const HARMLESS = new Set([
  "group-started", "member-joined", "static-member-joined", "member-returned", "coordinator-loaded",
  "coordinator-moved", "static-member-replaced", "cooperative-follow-up", "topic-metadata-changed",
]);
const GRAVE = new Set([
  "session-expired-connection-lost", "session-expired-silent", "session-expired", "new-member-expired",
  "join-barrier-missed", "nobody-rejoined", "replacement-write-failed", "duplicate-instance-id", "sync-timeout",
  "leader-never-synced", "assignment-write-failed", "generation-write-failed", "group-write-failed",
  "over-capacity-on-load", "turned-away-group-full", "turned-away-assignor-mismatch", "turned-away-protocol-type",
  "invalid-session-timeout",
]);

/** So many partition-milliseconds are worth a word. */
export const FELT_MS = 1_000;

/** How much an episode matters: fine, cost, or grave. */
export function gravity(episode) {
  const waits = episode.waits ?? episode.barriers ?? [];
  if (episode.kind === "refusal" || episode.outcome === "refused" || GRAVE.has(episode.cause)) return "grave";
  if (waits.some((wait) => wait.absent?.length)) return "grave";
  return HARMLESS.has(episode.cause) && (episode.stood_ms ?? 0) < FELT_MS ? "fine" : "cost";
}

/** What those who wait for records felt of an episode, in words; null if it was less than a second. `isBrief`: its cost is told elsewhere. */
export function felt(episode, isBrief = false) {
  if (episode.kind === "refusal") return `Refused ${plural(episode.times ?? 1, "time")}${goesOn(episode) ? ", ongoing" : ""}`;
  if ((episode.stood_ms ?? 0) < FELT_MS) return null;
  const cost = partitionTime(episode.stood_ms);
  if (!episode.stopped) return `${cost} stood still`;
  return `${plural(episode.stopped, "partition")} stood still up to ${duration(episode.longest_ms)}${isBrief ? "" : `, ${cost} in all`}`;
}

export const causeWords = (cause) => CAUSES[cause] ?? "";

const STILL_MS = 120_000;

/** Whether a refusal goes on: it was repeated, and not long ago. */
export const goesOn = (episode, now = Date.now()) => (episode.times ?? 1) > 1 && now - (episode.last_ms ?? 0) < STILL_MS;
