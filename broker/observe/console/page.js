// A timeline in a file of its own: the data are in the page, nothing is asked for.
import { clock, fill, h } from "./dom.js";
import { TimelineView } from "./timeline.js";

const json = JSON.parse(document.getElementById("timeline").textContent);
const root = document.getElementById("page");
const view = new TimelineView({ onDrawn: (ms) => (root.dataset.drawnMs = ms.toFixed(1)) });

function toggle() {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = isDark ? "light" : "dark";
  dispatchEvent(new Event("themechange"));
}

fill(root, h("header", null, h("h1", { class: "mono" }, json.group_id), h("span", { class: "muted" }, `${clock(json.from_ms)} to ${clock(json.from_ms + json.until)}`), h("button", { class: "button", type: "button", onclick: toggle }, "Light or dark")), view.element);
view.set(json);
