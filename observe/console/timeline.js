// A timeline that one can look around in, with mouse, touch and keys. The console and the single file both use it.
import { fill, h, number, plural } from "./dom.js";
import { draw, drawStrip, FLOW, HEAD, readColours, rowTop } from "./timeline-draw.js";
import { hint } from "./timeline-hint.js";
import { details, laneWords, legend, newestTrouble, summary } from "./timeline-words.js";
import { endOf, prepare, Scale, wantsFolding } from "./timeline-scale.js";

const HEIGHTS = [3, 5, 8, 14, 18, 24];
const STRIP = 30;
const FIRST_MARKS = 30;
const MARKER = 9;
const NARROWEST = 9; // The window at first, in widths of what is chosen.
const ORDERS = { came: "as they came", held: "held up most first", name: "by name" };

export class TimelineView {
  /**
   * `onDrawn(ms)` is told how long the first drawing took, `onChosen(number)` what was chosen; `more(mark)` is a link;
   * `advised` is the number of the mark whose advice is on the page already.
   */
  constructor({ onDrawn = null, onChosen = null, more = null, advised = null } = {}) {
    this.onDrawn = onDrawn;
    this.onChosen = onChosen;
    this.more = more;
    this.advised = advised;
    this.chosen = { mark: -1, lane: -1 };
    this.top = 0;
    this.follows = true;
    this.isTouched = false;
    this.isPicked = false;
    this.build();
    this.listen();
  }

  build() {
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.spacer = h("div");
    this.scroller = h("div", { class: "tl-scroll", tabindex: "-1" }, this.canvas, this.spacer);
    this.tip = h("div", { class: "tl-tip", hidden: true });
    this.ring = h("div", { class: "tl-ring", hidden: true });
    this.stage = h("div", { class: "tl-stage", tabindex: "0", role: "group", "aria-roledescription": "timeline", "aria-describedby": "tl-keys" }, this.scroller, this.ring, this.tip);
    this.strip = h("canvas", { class: "tl-strip", "aria-hidden": "true" });
    this.said = h("p", { class: "sr", "aria-live": "polite" });
    this.detail = h("section", { class: "tl-detail", "aria-label": "The chosen rebalance" });
    this.note = h("p", { class: "muted small" });
    this.folding = h("button", { class: "button", type: "button", "aria-pressed": "false", title: "Quiet time is short, every rebalance can be seen; not to scale (q)", onclick: () => this.setFolded(!this.scale.folded) }, "Fold quiet time");
    this.ordering = h("select", { class: "button", "aria-label": "Order of members", onchange: () => this.setOrder(this.ordering.value) }, Object.entries(ORDERS).map(([value, text]) => h("option", { value }, `Members ${text}`)));
    const button = (text, label, act) => h("button", { class: "button", type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.bar = h("div", { class: "tl-bar" }, h("span", { class: "together" }, button("−", "Zoom out (−)", () => this.zoom(1.6)), button("+", "Zoom in (+)", () => this.zoom(1 / 1.6)), button("All", "All of it (0)", () => this.showAll())), h("span", { class: "together" }, button("‹", "Rebalance before (←)", () => this.step(-1)), button("›", "Rebalance after (→)", () => this.step(1))), this.folding, this.ordering, h("span", { class: "together" }, button("▁", "Lower lanes ([)", () => this.grow(-1)), button("▇", "Higher lanes (])", () => this.grow(1))));
    this.element = h("div", { class: "tl" }, this.bar, legend(), this.strip, this.stage, h("p", { class: "sr", id: "tl-keys" }, "Arrow left and right go from rebalance to rebalance, up and down from member to member; plus and minus zoom; 0 shows everything."), this.said, this.note, this.detail);
    this.pen = this.canvas.getContext("2d");
    this.stripPen = this.strip.getContext("2d");
  }

  listen() {
    this.stop = new AbortController();
    const on = (target, name, act, options) => target.addEventListener(name, act, { signal: this.stop.signal, ...options });
    on(this.scroller, "scroll", () => {
      this.top = this.scroller.scrollTop;
      this.schedule();
    });
    on(this.stage, "keydown", (event) => this.onKey(event));
    on(this.stage, "wheel", (event) => this.onWheel(event), { passive: false });
    on(this.stage, "pointerdown", (event) => this.onDown(event));
    on(this.stage, "pointermove", (event) => this.onMove(event));
    on(this.stage, "pointerup", (event) => this.onUp(event));
    on(this.stage, "pointercancel", () => (this.drag = null));
    on(this.stage, "pointerleave", () => this.leave());
    on(globalThis, "scroll", () => this.leave(), { passive: true });
    on(this.stage, "dblclick", (event) => this.zoom(0.4, this.placeOf(event).x));
    on(this.strip, "pointerdown", (event) => this.onStrip(event));
    on(this.strip, "pointermove", (event) => event.buttons && this.onStrip(event));
    for (const name of ["pointerdown", "keydown", "wheel"]) on(this.element, name, () => (this.isTouched = true), { capture: true, passive: true });
    const recolour = () => {
      this.colours = readColours(this.element);
      this.schedule();
    };
    on(globalThis, "themechange", recolour);
    on(matchMedia("(prefers-color-scheme: dark)"), "change", recolour);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.element);
  }

  destroy() {
    this.stop.abort();
    this.watch.disconnect();
    cancelAnimationFrame(this.frame);
  }

  // -- what is shown

  /** Show a timeline, the JSON as it comes. What somebody looks at stays where it is. */
  set(json) {
    // Until somebody has touched it, more rebalances than before are a new beginning.
    const first = !this.data || (!this.isTouched && (json.marks?.length ?? 0) > 2 * this.data.marks.length);
    const chosen = this.data?.marks[this.chosen.mark]?.number;
    const chosenLane = this.data?.lanes[this.chosen.lane]?.tenants.at(-1)?.[1];
    const kept = first ? null : this.times();
    this.data = prepare(json);
    this.element.classList.toggle("has-faults", this.data.lanes.some((lane) => lane.faults.length));
    this.chosen = { mark: this.data.marks.findIndex((mark) => mark.number === chosen), lane: this.data.lanes.findIndex((lane) => lane.tenants.at(-1)?.[1] === chosenLane) };
    if (!this.isPicked) this.chosen.mark = newestTrouble(this.data);
    this.mostHeld = this.data.lanes.reduce((most, lane) => Math.max(most, lane.heldMs), 1);
    if (first) {
      this.order ??= this.data.lanes.length > 40 ? "held" : "came";
      this.ordering.value = this.order;
    }
    this.sortLanes();
    if (!this.element.isConnected) return;
    if (first) this.begin();
    else {
      this.scale = new Scale(this.data, this.scale.folded);
      if (this.follows) this.lookAtEnd(kept);
      else this.look(this.scale.width(kept.first - this.data.from), this.scale.width(kept.last - this.data.from));
      this.layout();
    }
    this.words();
  }

  begin() {
    const started = performance.now();
    this.colours = readColours(this.element);
    this.scale = new Scale(this.data, wantsFolding(this.data, this.element.clientWidth));
    this.folding.setAttribute("aria-pressed", String(this.scale.folded));
    const { lanes } = this.data;
    this.level = lanes.length <= 14 ? 5 : lanes.length <= 24 ? 4 : 3;
    const marks = this.data.marks;
    this.follows = true;
    if (marks.length > FIRST_MARKS * 2) this.look(this.scale.width(marks.at(-FIRST_MARKS).start), this.scale.total);
    else this.look(0, this.scale.total);
    this.widen();
    this.layout();
    this.paint();
    this.onDrawn?.(performance.now() - started);
    this.onDrawn = null;
  }

  /** Look so that what is chosen is wide enough to be seen, and with it as much of what came after as there is room for. */
  widen() {
    const mark = this.data.marks[this.chosen.mark];
    if (!mark) return;
    const { total, folded } = this.scale;
    const from = this.scale.width(mark.start), to = this.scale.width(endOf(mark, this.data.until));
    const width = Math.min(this.to - this.from, Math.max((to - from) * NARROWEST, folded ? 1 : total / 20));
    const left = Math.min(from - (width - (to - from)) / 2, total - width);
    if (from < this.from || width < this.to - this.from) this.look(left, left + width);
  }

  /** Until this time, in Unix milliseconds, nothing has happened that is not shown. */
  advance(now) {
    if (!this.data?.isLive || !this.scale) return;
    const until = Math.round(now - this.data.from);
    if (until <= this.data.until) return;
    const kept = this.times();
    this.data.until = until;
    this.scale = new Scale(this.data, this.scale.folded);
    if (this.follows) this.lookAtEnd(kept);
    else this.look(this.scale.width(kept.first - this.data.from), this.scale.width(kept.last - this.data.from));
    this.schedule();
  }

  times() {
    return { first: this.scale.time(this.from) + this.data.from, last: this.scale.time(this.to) + this.data.from, share: this.from <= 0 };
  }

  /** Keep the right edge at the end; the left where it was, in width. */
  lookAtEnd(kept) {
    const width = this.to - this.from;
    if (kept.share) this.look(0, this.scale.total);
    else this.look(this.scale.total - width, this.scale.total);
  }

  look(from, to) {
    const total = this.scale.total;
    const width = Math.min(Math.max(to - from, total * 1e-6, this.scale.folded ? 0.2 : 20), total);
    this.from = Math.min(Math.max(from, 0), total - width);
    this.to = this.from + width;
    this.follows = this.to >= total - width * 0.002;
    this.schedule();
  }

  sortLanes() {
    const lanes = [...this.data.lanes];
    const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }) || a.index - b.index;
    if (this.order === "held") lanes.sort((a, b) => b.heldMs - a.heldMs || byName(a, b));
    else if (this.order === "name") lanes.sort(byName);
    this.sorted = lanes;
    this.rows = [];
    lanes.forEach((lane, row) => (this.rows[lane.index] = row));
  }

  setOrder(order) {
    this.order = order;
    this.ordering.value = order;
    this.sortLanes();
    this.schedule();
  }

  setFolded(folded) {
    const kept = this.times();
    this.scale = new Scale(this.data, folded);
    this.folding.setAttribute("aria-pressed", String(folded));
    this.look(this.scale.width(kept.first - this.data.from), this.scale.width(kept.last - this.data.from));
  }

  grow(by) {
    this.level = Math.min(Math.max(this.level + by, 0), HEIGHTS.length - 1);
    const middle = this.top / this.laneHeight;
    this.layout();
    this.scroller.scrollTop = middle * this.laneHeight;
    this.schedule();
  }

  // -- sizes and painting

  resize() {
    if (!this.data || !this.element.clientWidth) return;
    if (!this.scale) this.begin();
    else this.layout();
  }

  layout() {
    this.laneHeight = HEIGHTS[this.level];
    const width = this.stage.clientWidth;
    this.gutter = width < 560 ? 92 : 172;
    const around = HEAD + (this.data.flow ? FLOW : 0);
    const wanted = around + Math.max(this.data.lanes.length, 1) * this.laneHeight + 4;
    // Below it there is room for the story of what is chosen.
    const most = Math.max(Math.min(innerHeight * 0.62, 760), around + 120);
    const height = Math.round(Math.min(wanted, most));
    this.stage.style.height = `${height + 2}px`;
    this.spacer.style.height = `${wanted - height}px`;
    this.width = this.scroller.clientWidth;
    this.height = height;
    size(this.canvas, this.width, height);
    size(this.strip, this.stage.clientWidth, STRIP);
    this.strip.hidden = this.data.marks.length < 8;
    this.paint();
  }

  schedule() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    if (!this.scale || !this.width) return;
    const ratio = devicePixelRatio || 1;
    const view = this.view();
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(this.pen, this.data, this.scale, view, this.colours, this.chosen);
    if (!this.strip.hidden) {
      this.stripPen.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawStrip(this.stripPen, this.data, this.scale, this.stage.clientWidth, STRIP, view, this.colours);
    }
    this.placeRing();
    if (this.at) hint(this, this.at);
  }

  view() {
    const unit = (this.width - this.gutter) / (this.to - this.from || 1);
    return { width: this.width, height: this.height, gutter: this.gutter, laneHeight: this.laneHeight, top: this.top, order: this.sorted, rows: this.rows, from: this.from, to: this.to, mostHeld: this.mostHeld, endX: this.gutter + (this.scale.total - this.from) * unit };
  }

  xOf(time) {
    return this.gutter + ((this.scale.width(time) - this.from) / (this.to - this.from)) * (this.width - this.gutter);
  }

  timeAt(x) {
    return this.scale.time(this.from + ((x - this.gutter) / (this.width - this.gutter)) * (this.to - this.from));
  }

  laneAt(y) {
    if (y < HEAD || y > this.height - (this.data.flow ? FLOW : 0)) return null;
    return this.sorted[Math.floor((y - HEAD + this.top) / this.laneHeight)] ?? null;
  }

  /** What is no rebalance has no width: the nearest of such marks, if the pointer is at their height. */
  markerAt(x, y) {
    if (y > HEAD || x < this.gutter) return null;
    const near = this.data.marks.filter((mark) => mark.kind !== "rebalance").map((mark) => [Math.abs(this.xOf(mark.start) - x), mark]);
    const [away, mark] = near.reduce((best, one) => (one[0] <= best[0] ? one : best), [MARKER, null]);
    return away <= MARKER ? mark : null;
  }

  markAt(time, slack = 0) {
    let best = null;
    for (const mark of this.data.marks) {
      if (mark.start - slack > time) break;
      if (endOf(mark, this.data.until) + slack >= time) best = mark;
    }
    return best;
  }

  // -- choosing

  choose(mark, lane = this.chosen.lane) {
    const isOther = mark !== this.chosen.mark || !this.isPicked;
    this.isPicked = true;
    this.chosen = { mark, lane };
    const one = this.data.marks[mark];
    if (one) {
      const end = endOf(one, this.data.until);
      const from = this.scale.width(one.start), to = this.scale.width(end);
      if (from < this.from || to > this.to) {
        const width = this.to - this.from;
        const middle = (from + to) / 2;
        if (to - from > width) this.look(from - width * 0.1, to + width * 0.1);
        else this.look(middle - width / 2, middle + width / 2);
      }
    }
    this.words();
    this.schedule();
    if (!isOther) return;
    if (one) this.reveal();
    this.onChosen?.(one ? one.number : null);
  }

  /** Choose the rebalance of this number; false if it is not there. */
  chooseNumber(number) {
    const index = this.scale ? this.data.marks.findIndex((mark) => mark.number === number) : -1;
    if (index >= 0) this.choose(index);
    return index >= 0;
  }

  /** Bring the story into view, as far as the lanes stay there. */
  reveal() {
    const story = this.detail.getBoundingClientRect();
    const hidden = story.top + Math.min(story.height, innerHeight / 2) + 12 - innerHeight;
    const room = this.stage.getBoundingClientRect().top - (document.querySelector(".top")?.offsetHeight ?? 0) - 4;
    if (hidden > 0 && room > 0) scrollBy({ top: Math.min(hidden, room) });
  }

  words() {
    const one = this.data.marks[this.chosen.mark];
    const lane = this.data.lanes[this.chosen.lane];
    this.stage.setAttribute("aria-label", summary(this.data));
    fill(this.note, this.data.hidden ? `${plural(this.data.hidden, "member")} more without a lane.` : "");
    fill(this.detail, one ? details(this.data, one, (index) => this.choose(this.chosen.mark, index), this.more, one.number === this.advised) : h("p", { class: "muted" }, this.data.marks.length ? "Choose a rebalance with a click, or with the arrow keys, to see what became of it." : "Nothing has happened to this group since its history began."));
    const words = [one && `${one.kind} ${one.number}: ${one.headline || one.cause}`, lane && `${lane.name}: ${this.doing(lane, one)}`];
    this.said.textContent = words.filter(Boolean).join(". ");
  }

  /** What a member does in the chosen rebalance, in words. */
  doing(lane, mark) {
    const end = mark ? endOf(mark, this.data.until) : this.data.until;
    return laneWords(this.data, lane, mark ? mark.start : end, end);
  }

  step(by) {
    const { marks } = this.data;
    if (!marks.length) return;
    const now = this.chosen.mark;
    this.choose(now < 0 ? (by > 0 ? Math.max(marks.findIndex((mark) => this.scale.width(mark.start) >= this.from), 0) : marks.length - 1) : Math.min(Math.max(now + by, 0), marks.length - 1));
  }

  stepLane(by) {
    if (!this.sorted.length) return;
    const now = this.chosen.lane < 0 ? (by > 0 ? -1 : this.sorted.length) : this.rows[this.chosen.lane];
    const row = Math.min(Math.max(now + by, 0), this.sorted.length - 1);
    const visible = this.height - HEAD - (this.data.flow ? FLOW : 0);
    if (row * this.laneHeight < this.top) this.scroller.scrollTop = row * this.laneHeight;
    else if ((row + 1) * this.laneHeight > this.top + visible) this.scroller.scrollTop = (row + 1) * this.laneHeight - visible;
    this.choose(this.chosen.mark, this.sorted[row].index);
  }

  placeRing() {
    const mark = this.data.marks[this.chosen.mark];
    const lane = this.data.lanes[this.chosen.lane];
    this.ring.hidden = !lane;
    if (!lane) return;
    const top = rowTop(this.view(), this.rows[lane.index]);
    const bottom = this.height - (this.data.flow ? FLOW : 0);
    const from = mark ? Math.max(this.xOf(mark.start), this.gutter) : this.gutter;
    const to = mark ? Math.min(this.xOf(endOf(mark, this.data.until)), this.width) : this.width;
    this.ring.hidden = top < HEAD - 1 || top + this.laneHeight > bottom + 1 || to < from;
    Object.assign(this.ring.style, { left: `${from - 2}px`, top: `${top - 1}px`, width: `${Math.max(to - from, 3) + 4}px`, height: `${this.laneHeight + 2}px` });
  }

  zoom(factor, x = null) {
    const mark = this.data.marks[this.chosen.mark];
    const chosenX = mark ? this.xOf((mark.start + endOf(mark, this.data.until)) / 2) : NaN;
    const at = x ?? (chosenX > this.gutter && chosenX < this.width ? chosenX : (this.gutter + this.width) / 2);
    const part = Math.min(Math.max((at - this.gutter) / (this.width - this.gutter), 0), 1);
    const width = (this.to - this.from) * factor;
    const fixed = this.from + part * (this.to - this.from);
    this.look(fixed - part * width, fixed + (1 - part) * width);
  }

  pan(part) {
    const by = part * (this.to - this.from);
    this.look(this.from + by, this.to + by);
  }

  showAll() {
    this.look(0, this.scale.total);
  }

  zoomToChosen() {
    const mark = this.data.marks[this.chosen.mark];
    if (!mark) return;
    const from = this.scale.width(mark.start), to = this.scale.width(endOf(mark, this.data.until));
    const around = Math.max((to - from) * 0.35, this.scale.folded ? 0.3 : 40);
    this.look(from - around, to + around);
  }

  // -- mouse, touch and keys

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const shifted = { ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25), ArrowUp: () => this.stepLane(-10), ArrowDown: () => this.stepLane(10) };
    const plain = { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), ArrowUp: () => this.stepLane(-1), ArrowDown: () => this.stepLane(1), Home: () => this.choose(0), End: () => this.choose(this.data.marks.length - 1), "+": () => this.zoom(1 / 1.6), "=": () => this.zoom(1 / 1.6), "-": () => this.zoom(1.6), 0: () => this.showAll(), Enter: () => this.zoomToChosen(), q: () => this.setFolded(!this.scale.folded), s: () => this.setOrder({ came: "held", held: "name", name: "came" }[this.order]), "[": () => this.grow(-1), "]": () => this.grow(1), Escape: () => this.choose(-1, -1) };
    const act = (event.shiftKey && shifted[event.key]) || plain[event.key];
    if (!act || !this.scale) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  /** Keys that go from rebalance to rebalance wherever on the page one is. */
  onPageKey(event) {
    if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key) || event.shiftKey || !this.data?.marks.length) return false;
    this.isTouched = true;
    this.onKey(event);
    return true;
  }

  placeOf(event) {
    const box = this.stage.getBoundingClientRect();
    return { x: event.clientX - box.left - 1, y: event.clientY - box.top - 1 };
  }

  onWheel(event) {
    const { x, y } = this.placeOf(event);
    if (event.ctrlKey || event.metaKey || (y < HEAD && !event.shiftKey)) this.zoom(Math.exp(Math.min(Math.max(event.deltaY, -120), 120) / 300), x);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / (this.width - this.gutter));
    else return;
    event.preventDefault();
  }

  onDown(event) {
    if (event.button !== 0 || event.pointerType === "touch" && !event.isPrimary) return;
    const place = this.placeOf(event);
    if (place.x > this.scroller.clientWidth) return;
    this.drag = { ...place, from: this.from, moved: false };
    this.stage.setPointerCapture(event.pointerId);
  }

  leave() {
    this.tip.hidden = true;
    this.at = null;
  }

  onMove(event) {
    const place = this.placeOf(event);
    if (this.drag) {
      const by = place.x - this.drag.x;
      if (Math.abs(by) > 4) this.drag.moved = true;
      if (this.drag.moved) {
        const width = this.to - this.from;
        const from = this.drag.from - (by / (this.width - this.gutter)) * width;
        this.look(from, from + width);
        this.tip.hidden = true;
        return;
      }
    }
    this.at = place;
    hint(this, place);
  }

  onUp(event) {
    const drag = this.drag;
    this.drag = null;
    if (!drag || drag.moved) return;
    const { x, y } = this.placeOf(event);
    const slack = (6 / (this.width - this.gutter)) * (this.timeAt(this.width) - this.timeAt(this.gutter));
    const mark = x > this.gutter ? this.markerAt(x, y) ?? this.markAt(this.timeAt(x)) ?? this.markAt(this.timeAt(x), slack) : null;
    const lane = this.laneAt(y);
    this.choose(mark ? mark.index : x > this.gutter ? -1 : this.chosen.mark, lane ? lane.index : -1);
  }

  onStrip(event) {
    const box = this.strip.getBoundingClientRect();
    const middle = ((event.clientX - box.left) / box.width) * this.scale.total;
    const half = (this.to - this.from) / 2;
    this.look(middle - half, middle + half);
    this.strip.setPointerCapture(event.pointerId);
  }
}

function size(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const wide = Math.round(width * ratio), high = Math.round(height * ratio);
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}
