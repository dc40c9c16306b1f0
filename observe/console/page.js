// A timeline in a file of its own: the data are in the page, nothing is asked for.
import { clock, cut, fill, h } from "./dom.js";
import { TimelineView } from "./timeline.js";
import { prepare } from "./timeline-scale.js";
import { advice, verdict } from "./timeline-words.js";

const json = JSON.parse(document.getElementById("timeline").textContent);
const root = document.getElementById("page");
const { text, worst } = verdict(prepare(json));
const view = new TimelineView({ advised: worst?.number, onDrawn: (ms) => (root.dataset.drawnMs = ms.toFixed(1)) });

function toggle() {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = isDark ? "light" : "dark";
  dispatchEvent(new Event("themechange"));
}

const until = json.from_ms + json.until;
const zone = new Intl.DateTimeFormat("en", { timeZoneName: "shortOffset" }).formatToParts(until).find((part) => part.type === "timeZoneName").value.replace("GMT", "UTC");
const costliest = worst && h("p", null, "The costliest, at ", h("button", { class: "link", type: "button", onclick: () => view.chooseNumber(worst.number) }, clock(json.from_ms + worst.start)), ": ", worst.headline || worst.cause);
fill(root, h("header", null, h("h1", { class: "mono", title: json.group_id }, cut(json.group_id, 120)), h("span", { class: "muted" }, `${clock(json.from_ms, { dated: true })} to ${clock(until, { dated: true })} (${zone})`), h("button", { class: "button", type: "button", onclick: toggle }, "Light or dark")), h("section", { class: `verdict ${worst ? "bad" : "good"}`, "aria-label": "Verdict" }, h("p", { class: "strong" }, text), costliest, worst && advice(worst)), view.element);
view.set(json);
