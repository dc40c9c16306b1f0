// What is under the pointer on a timeline, in a few words beside it.
import { clock, duration, fill, h, number, plural } from "./dom.js";
import { generationWord, lastAtOrBefore } from "./timeline-scale.js";
import { faultWords, laneWords } from "./timeline-words.js";

const NEAR = 6; // pixels from a fault

/** What is under the pointer, in a few words beside it. */
export function hint(view, { x, y }) {
  const lane = view.laneAt(y);
  const time = view.timeAt(Math.max(x, view.gutter));
  const mark = x > view.gutter ? view.markerAt(x, y) ?? view.markAt(time) : null;
  view.tip.hidden = !(lane || mark) || time > view.data.until;
  if (view.tip.hidden) return;
  const lines = [];
  if (lane) {
    lines.push(h("b", null, lane.name), h("span", { class: "muted" }, lane.client_host ? ` ${lane.client_host.replace(/^\//, "")}` : ""));
    if (x > view.gutter) lines.push(h("div", null, laneWords(view.data, lane, time, time)), ...faultWords(view.data, lane, view.timeAt(x - NEAR), view.timeAt(x + NEAR)).map((text) => h("div", { class: "fault" }, text)));
    else lines.push(h("div", null, lane.held ? `${plural(lane.held, "barrier")} waited for it, ${duration(lane.heldMs)} in all` : "No barrier waited for it to its end"));
    const tenant = lane.tenants[lastAtOrBefore(lane.tenants.map((one) => one[0]), time)] ?? lane.tenants[0];
    if (tenant) lines.push(h("div", { class: "mono muted small" }, tenant[1]));
  }
  if (x > view.gutter) lines.push(h("div", { class: "muted" }, clock(view.data.from + time, { millis: true })));
  if (mark) lines.push(h("div", { class: "tl-tip-mark" }, mark.generation >= 0 ? `${generationWord(mark)} ${number(mark.generation)} · ` : "", mark.headline || mark.cause));
  fill(view.tip, lines);
  const { offsetWidth: width, offsetHeight: height } = view.tip;
  // It is placed in the window: lanes that are few would cut it off.
  const box = view.stage.getBoundingClientRect();
  const left = box.left + x, top = box.top + y;
  view.tip.style.left = `${left + 16 + width > innerWidth ? Math.max(left - width - 12, 4) : left + 16}px`;
  view.tip.style.top = `${top + 18 + height > innerHeight ? Math.max(top - height - 10, 4) : top + 18}px`;
}
