// What the page knows of the broker, and who wants to hear when that changes.
import { get, groupPath } from "./api.js";
import { keepTime } from "./dom.js";

const MOST_GROUPS = 10_000;
const AT_ONCE = 4;

/** An answer of the API, null if the broker has no such part. */
async function ifThere(path) {
  try {
    return await get(path);
  } catch (error) {
    if (error.status !== 404) throw error;
    return null;
  }
}

/** Everything that more than one view shows. `listen` is called with the name of what changed. */
export class Store {
  constructor() {
    this.cluster = null;
    this.groups = new Map();
    this.topics = null;
    this.alarms = { active: [], recent: [], isLoading: true };
    this.alarmed = new Map();
    this.costs = new Map();
    this.groupsBy = null;
    this.latest = new Map();
    this.isLoaded = false;
    this.cut = false;
    this.loading = new Set();
    this.listeners = new Set();
    this.asking = new Map();
    this.queue = [];
    this.running = 0;
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell(what, data) {
    for (const listener of [...this.listeners]) listener(what, data);
  }

  /** Ask for everything again. What the stream tells meanwhile is newer than the answers. */
  async load() {
    const groups = new Map();
    const newer = new Map();
    this.loading.add(newer);
    try {
      await this.loadGroups(groups);
    } finally {
      this.loading.delete(newer);
    }
    for (const [id, brief] of newer) brief === null ? groups.delete(id) : groups.set(id, brief);
    this.groups = groups;
    this.isLoaded = true;
    this.tell("groups");
    await Promise.all([this.loadAlarms(), this.loadCosts()]);
  }

  async loadGroups(groups) {
    let after = null;
    this.cut = false;
    do {
      const page = await get(`/v1/groups?limit=1000${after === null ? "" : `&after=${encodeURIComponent(after)}`}`);
      for (const brief of page.groups) groups.set(brief.group_id, brief);
      after = page.next;
      this.cut = after !== null && groups.size >= MOST_GROUPS;
    } while (after !== null && !this.cut);
  }

  async loadAlarms() {
    this.alarms = (await ifThere("/v1/sentinels")) ?? { active: [], recent: [] };
    this.alarmed.clear();
    for (const alarm of this.alarms.active) this.alarmed.set(alarm.group_id, [...this.alarmsOf(alarm.group_id), alarm]);
    this.tell("alarms");
  }

  /** What groups have cost in the last hour; those that have cost nothing are left out. */
  async loadCosts() {
    const { costs } = (await ifThere("/v1/costs")) ?? { costs: [] };
    this.costs = new Map(costs.map((cost) => [cost.group_id, cost]));
    this.tell("costs");
  }

  /** The alarms of a group that stand. */
  alarmsOf(id) {
    return this.alarmed.get(id) ?? [];
  }

  async loadTopics() {
    const topics = [];
    let after = null;
    do {
      const page = await get(`/v1/topics${after === null ? "" : `?after=${encodeURIComponent(after)}`}`);
      topics.push(...page.topics);
      after = page.next;
    } while (after !== null);
    this.topics = topics;
    this.tell("topics");
    return topics;
  }

  /** What the broker says of itself, its time among it. */
  takeCluster(cluster) {
    keepTime(cluster.now_ms);
    this.cluster = cluster;
    this.tell("cluster");
  }

  /** Take an event of the stream. */
  take(name, data) {
    if (name === "hello") {
      if (data.cluster) this.takeCluster(data.cluster); // not everybody may see it
      this.tell("user", data.user);
    } else if (name === "groups") {
      for (const brief of data.changed) {
        this.groups.set(brief.group_id, brief);
        for (const newer of this.loading) newer.set(brief.group_id, brief);
      }
      for (const id of data.removed) {
        this.groups.delete(id);
        this.latest.delete(id);
        for (const newer of this.loading) newer.set(id, null);
      }
      this.tell("groups");
    } else if (name === "episode") {
      // The words are made when somebody asks for them. What comes of a group that is gone is not kept.
      if (data.headline && this.groups.has(data.group_id)) this.latest.set(data.group_id, data);
      else this.latest.delete(data.group_id);
      this.tell("latest", data.group_id);
      this.tell("episode", data);
    } else if (name === "sentinel") {
      this.loadAlarms().catch(() => {});
    } else if (name === "group") {
      this.tell("group", data);
    }
  }

  /** The last thing that became of a group; undefined while nobody has asked yet. */
  latestOf(id) {
    if (!this.latest.has(id) && !this.asking.has(id)) {
      this.asking.set(id, true);
      this.queue.push(id);
      this.askNext();
    }
    return this.latest.get(id);
  }

  /** A few at once, those asked for last first: they are the ones that are seen. */
  async askNext() {
    if (this.running >= AT_ONCE || !this.queue.length) return;
    const id = this.queue.pop();
    this.running += 1;
    try {
      const { episodes } = await get(groupPath(id, "/why?last=1"));
      if (!this.latest.has(id)) this.latest.set(id, episodes.at(-1) ?? null);
    } catch {
      this.latest.set(id, null);
    }
    if (!this.groups.has(id)) this.latest.delete(id);
    this.asking.delete(id);
    this.running -= 1;
    this.tell("latest", id);
    this.askNext();
  }

  /** After a break nothing that was known is sure. */
  forget() {
    this.latest.clear();
  }
}
