// The classes of causes in words, and how much each matters.
import { brokerTime, duration, partitionTime, plural } from "./dom.js";

/** Class → what it means, and how much it matters: fine, cost or grave. The broker puts its own table here. */
export const CAUSES = {/* observe/why/causes.py */};

/** So many partition-milliseconds are worth a word. */
export const FELT_MS = 1_000;

const causeGravity = (episode) => CAUSES[episode.cause]?.gravity;

/** How much an episode matters: fine, cost, or grave. */
export function gravity(episode) {
  const waits = episode.waits ?? episode.barriers ?? [];
  if (episode.kind === "refusal" || episode.outcome === "refused" || causeGravity(episode) === "grave") return "grave";
  if (waits.some((wait) => wait.absent?.length)) return "grave";
  return causeGravity(episode) === "fine" && (episode.stood_ms ?? 0) < FELT_MS ? "fine" : "cost";
}

/** What those who wait for records felt of an episode, in words; null if it was less than a second. `isBrief`: its cost is told elsewhere. */
export function felt(episode, isBrief = false) {
  if (episode.kind === "refusal") return `Refused ${plural(episode.times ?? 1, "time")}${goesOn(episode) ? ", ongoing" : ""}`;
  if ((episode.stood_ms ?? 0) < FELT_MS) return null;
  const cost = partitionTime(episode.stood_ms);
  if (!episode.stopped) return `${cost} stood still`;
  return `${plural(episode.stopped, "partition")} stood still up to ${duration(episode.longest_ms)}${isBrief ? "" : `, ${cost} in all`}`;
}

export const causeWords = (cause) => CAUSES[cause]?.meaning ?? "";

const STILL_MS = 120_000;

/** Whether a refusal goes on: it was repeated, and not long ago. */
export const goesOn = (episode) => (episode.times ?? 1) > 1 && brokerTime() - (episode.last_ms ?? 0) < STILL_MS;
