// Tables of any length: only the rows that can be seen are in the document.
import { fill, h } from "./dom.js";

const BEYOND = 8;
export const NARROW = matchMedia("(max-width: 700px)");

/**
 * A table whose rows are reached with the arrow keys and opened with Enter.
 *
 * A column has `name`, `title`, `cell(row)`, and may have `sort(row)`, `width` (of a CSS grid), `tone` (a class) and
 * `wide` (left out on narrow pages). Without `sort` the rows are as they are set until somebody sorts by a column;
 * `onSort(name, reverse)` is told of that.
 */
export class Table {
  constructor({ label, columns, key, open = null, empty = "Nothing here.", height = 36, narrowHeight = height, sort = null, reverse = false, onSort = null, mark = null }) {
    this.columns = columns;
    this.key = key;
    this.open = open;
    this.mark = mark;
    this.heights = [height, narrowHeight];
    this.sortBy = sort;
    this.reverse = reverse;
    this.onSort = onSort;
    this.rows = [];
    this.shown = new Map();
    this.current = 0;
    this.empty = h("p", { class: "empty", hidden: true }, empty);
    this.head = h("div", { class: "tr th", role: "row", "aria-rowindex": 1 });
    this.body = h("div", { class: "tbody", role: "rowgroup" });
    this.grid = h("div", { class: "table", role: "grid", "aria-label": label }, h("div", { role: "rowgroup" }, this.head), this.body);
    this.element = h("div", { class: "tablebox" }, this.grid, this.empty);
    this.body.addEventListener("keydown", (event) => this.onKey(event));
    this.body.addEventListener("click", (event) => this.onClick(event));
    this.body.addEventListener("focusin", (event) => this.onFocus(event));
    this.listen = () => this.schedule();
    this.resize = () => this.reset();
    addEventListener("scroll", this.listen, { passive: true });
    addEventListener("resize", this.listen, { passive: true });
    NARROW.addEventListener("change", this.resize);
    this.layout();
  }

  /** Stop looking after the page. */
  destroy() {
    removeEventListener("scroll", this.listen);
    removeEventListener("resize", this.listen);
    NARROW.removeEventListener("change", this.resize);
    cancelAnimationFrame(this.frame);
  }

  layout() {
    this.height = this.heights[NARROW.matches ? 1 : 0];
    const columns = this.columns.filter((column) => !(NARROW.matches && column.wide));
    this.visible = columns;
    this.grid.style.setProperty("--columns", columns.map((column) => column.width ?? "1fr").join(" "));
    this.grid.style.setProperty("--row", `${this.height}px`);
    this.grid.setAttribute("aria-colcount", columns.length);
    fill(this.head, columns.map((column) => this.headCell(column)));
  }

  headCell(column) {
    const sorted = column.name === this.sortBy ? (this.reverse ? "descending" : "ascending") : null;
    const cell = h("div", { class: `td ${column.tone ?? ""}`, role: "columnheader", "aria-sort": sorted });
    if (!column.sort) return fill(cell, column.title);
    const press = () => this.sort(column);
    return fill(cell, h("button", { type: "button", class: "sort", onclick: press }, column.title, h("i", { "aria-hidden": "true" }, sorted ? (this.reverse ? "↓" : "↑") : "")));
  }

  reset() {
    this.layout();
    this.shown.forEach((shown) => shown.element.remove());
    this.shown.clear();
    this.draw();
  }

  sort(column) {
    this.reverse = this.sortBy === column.name ? !this.reverse : Boolean(column.descending);
    this.sortBy = column.name;
    this.onSort?.(this.sortBy, this.reverse);
    const focused = this.head.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.layout();
    this.order();
    this.draw();
    if (focused) [...this.head.querySelectorAll("button")].find((button) => button.firstChild.data === column.title)?.focus();
  }

  /** Show these rows. */
  set(rows) {
    this.rows = [...rows];
    this.order();
    this.draw();
  }

  order() {
    const column = this.columns.find((one) => one.name === this.sortBy);
    if (!column?.sort) return;
    const sign = this.reverse ? -1 : 1;
    const keyed = this.rows.map((row) => [column.sort(row), row]);
    keyed.sort(([a, rowA], [b, rowB]) => sign * compare(a, b) || compare(this.key(rowA), this.key(rowB)));
    this.rows = keyed.map(([, row]) => row);
  }

  schedule() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    const count = this.rows.length;
    this.empty.hidden = count > 0;
    this.grid.hidden = count === 0;
    this.grid.setAttribute("aria-rowcount", count + 1);
    this.body.style.height = `${count * this.height}px`;
    this.current = Math.min(this.current, Math.max(count - 1, 0));
    const top = -this.body.getBoundingClientRect().top;
    const first = Math.max(Math.floor(top / this.height) - BEYOND, 0);
    const last = Math.min(Math.ceil((top + innerHeight) / this.height) + BEYOND, count);
    const wanted = new Set();
    for (let index = first; index < last; index += 1) this.place(index, wanted);
    if (count) this.place(this.current, wanted);
    for (const [key, shown] of this.shown) {
      if (wanted.has(key)) continue;
      shown.element.remove();
      this.shown.delete(key);
    }
  }

  place(index, wanted) {
    const row = this.rows[index];
    const key = this.key(row);
    if (wanted.has(key)) return;
    wanted.add(key);
    let shown = this.shown.get(key);
    if (!shown) {
      shown = { element: h("div", { class: "tr", role: "row" }), row: null, index: -1 };
      this.shown.set(key, shown);
      this.body.append(shown.element);
    }
    if (shown.row !== row) {
      shown.row = row;
      const cells = this.visible.map((column) => h("div", { class: `td ${column.tone ?? ""}`, role: "gridcell", "data-column": column.name }, column.cell(row)));
      fill(shown.element, cells);
      if (this.mark) shown.element.dataset.mark = this.mark(row) ?? "";
    }
    if (shown.index !== index) {
      shown.index = index;
      shown.element.setAttribute("aria-rowindex", index + 2);
      shown.element.style.transform = `translateY(${index * this.height}px)`;
    }
    shown.element.tabIndex = index === this.current ? 0 : -1;
  }

  indexOf(element) {
    for (const shown of this.shown.values()) if (shown.element === element) return shown.index;
    return -1;
  }

  onFocus(event) {
    const index = this.indexOf(event.target.closest(".tr"));
    if (index >= 0 && index !== this.current) {
      this.current = index;
      for (const shown of this.shown.values()) shown.element.tabIndex = shown.index === index ? 0 : -1;
    }
  }

  onClick(event) {
    if (!this.open || event.target.closest("a, button") || getSelection().toString()) return;
    const index = this.indexOf(event.target.closest(".tr"));
    if (index >= 0) this.open(this.rows[index]);
  }

  onKey(event) {
    if (!event.target.classList.contains("tr") || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(Math.floor(innerHeight / this.height) - 3, 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.focus(this.current + steps[event.key]);
    else if (event.key === "Enter" && this.open) this.open(this.rows[this.current]);
    else return;
    event.preventDefault();
  }

  /** Go to a row. */
  focus(index) {
    if (!this.rows.length) return;
    this.current = Math.min(Math.max(index, 0), this.rows.length - 1);
    const top = this.body.getBoundingClientRect().top + this.current * this.height;
    const under = document.querySelector(".top")?.offsetHeight ?? 0;
    if (top < under + this.height) scrollBy(0, top - under - this.height);
    else if (top + this.height > innerHeight - 8) scrollBy(0, top + this.height - innerHeight + 8);
    this.draw();
    this.shown.get(this.key(this.rows[this.current]))?.element.focus({ preventScroll: true });
  }
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "string" && typeof b === "string") return a.localeCompare(b, "en", { numeric: true });
  return a < b ? -1 : 1;
}
