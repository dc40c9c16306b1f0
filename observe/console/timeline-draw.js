// Draws what of a timeline can be seen at the moment, and nothing else.
import { clock, duration, printable, short, WAITS } from "./dom.js";
import { endOf, FATES, generationWord, GONE, JOINED, JOINING, lastAtOrBefore, OWNING, SILENT, SYNCED, SYNCING, tickStep } from "./timeline-scale.js";

// What is drawn where several things fall on one pixel: the one that matters most.
const RANK = [0, 1, 5, 3, 4, 2, 6];
const NAMES = ["bg", "surface", "sunk", "line", "line-strong", "text", "muted", "faint", "accent", "focus", "bad", "warn", "violet", "lane-owning", "lane-idle", "lane-joining", "lane-joined", "lane-syncing", "lane-synced", "lane-silent", "lane-silent-soft", "band", "band-selected", "lag", "lag-soft", "commit", "trigger"];
export const HEAD = 46;
export const FLOW = 78;
const ROLE = 44; // what the words culprit and trigger take beside a name

/** The colours as the style sheet has them now. */
export function readColours(element) {
  const style = getComputedStyle(element);
  const colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  colours.sans = style.getPropertyValue("--sans") || "sans-serif";
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.fillStyle = colours["lane-silent-soft"];
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = colours["lane-silent"];
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (const from of [-6, 0, 6]) {
    pen.moveTo(from, 6);
    pen.lineTo(from + 6, 0);
  }
  pen.stroke();
  colours.hatch = pen.createPattern(tile, "repeat");
  return colours;
}

/** `frame`: width, height, gutter, laneHeight, top (how far lanes are scrolled), order (lanes from above), from and to. */
export function draw(pen, data, scale, frame, colours, chosen) {
  const view = { ...frame, right: frame.width, unit: (frame.width - frame.gutter) / (frame.to - frame.from || 1) };
  view.x = (time) => frame.gutter + (scale.width(time) - frame.from) * view.unit;
  view.first = scale.time(frame.from);
  view.last = scale.time(frame.to);
  view.bottom = frame.height - (data.flow ? FLOW : 0);
  pen.clearRect(0, 0, frame.width, frame.height);
  pen.fillStyle = colours.surface;
  pen.fillRect(0, 0, frame.width, frame.height);
  const seen = visible(data, view);
  clip(pen, frame.gutter, 0, frame.width - frame.gutter, frame.height, () => {
    bands(pen, data, view, seen, colours, chosen);
    if (data.flow) flow(pen, data.flow, view, colours);
  });
  clip(pen, frame.gutter, HEAD, frame.width - frame.gutter, view.bottom - HEAD, () => {
    const first = Math.max(Math.floor(frame.top / frame.laneHeight), 0);
    const last = Math.min(Math.ceil((frame.top + view.bottom - HEAD) / frame.laneHeight), frame.order.length);
    for (let row = first; row < last; row += 1) lane(pen, frame.order[row], rowTop(view, row), view, scale, colours);
    blamed(pen, data, view, seen, colours);
    restarts(pen, view, seen, colours);
  });
  gutter(pen, data, view, colours, chosen);
  clip(pen, frame.gutter, 0, frame.width - frame.gutter, HEAD, () => head(pen, data, view, scale, seen, colours, chosen));
  rules(pen, view, colours, data);
}

export const rowTop = (view, row) => HEAD + row * view.laneHeight - view.top;

function clip(pen, x, y, width, height, paint) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  paint();
  pen.restore();
}

/** The marks that reach into what is seen. */
function visible(data, view) {
  return data.marks.filter((mark) => mark.start <= view.last && endOf(mark, data.until) >= view.first);
}

function bands(pen, data, view, seen, colours, chosen) {
  let before = -9;
  for (const mark of seen) {
    const from = view.x(mark.start);
    const width = Math.max(view.x(endOf(mark, data.until)) - from, 1);
    const isChosen = chosen.mark === mark.index;
    if (isChosen || from > before + 1) {
      pen.fillStyle = isChosen ? colours["band-selected"] : colours.band;
      pen.fillRect(from, HEAD, width, view.height - HEAD);
      before = from;
    }
  }
}

function lane(pen, one, top, view, scale, colours) {
  const { at, kind, owns } = one;
  const thick = Math.max(view.laneHeight - (view.laneHeight > 10 ? 5 : view.laneHeight > 5 ? 2 : 1), 1);
  const y = top + (view.laneHeight - thick) / 2;
  const start = Math.max(lastAtOrBefore(at, view.first), 0);
  const width = scale.runner();
  const place = (time) => view.gutter + (width(time) - view.from) * view.unit;
  let x = at.length ? place(Math.max(at[start], 0)) : 0;
  let pending = -1, pendingX = 0, told = -1;
  for (let index = start; index < at.length && x < view.right; index += 1) {
    const end = index + 1 < at.length ? place(at[index + 1]) : view.endX;
    const what = kind[index];
    if (end - x < 1 && index + 1 < at.length) {
      // Thinner than a pixel: the one that matters most of each pixel is drawn.
      if (pending >= 0 && x - pendingX >= 1) {
        bar(pen, pending, 1, pendingX, 1, y, thick, colours);
        pending = -1;
      }
      if (pending < 0) pendingX = x;
      if (pending < 0 || RANK[what] > RANK[pending]) pending = what;
    } else {
      if (pending >= 0) {
        bar(pen, pending, 1, pendingX, Math.max(x - pendingX, 1), y, thick, colours);
        pending = -1;
      }
      const from = Math.max(x, view.gutter - 2);
      const room = Math.min(end, view.right + 2) - from;
      bar(pen, what, owns[index], from, room, y, thick, colours);
      if (what === OWNING && owns[index] !== told && thick >= 9 && room > 24) {
        // How many partitions it owns is said where that changes.
        told = owns[index];
        count(pen, told, from, y, thick, colours);
      }
      if (what === GONE && index) cap(pen, FATES[owns[index]], x, top, view.laneHeight, colours);
    }
    x = end;
  }
  if (pending >= 0) bar(pen, pending, 1, pendingX, 1, y, thick, colours);
  if (view.laneHeight >= 8) {
    pen.fillStyle = colours.bad;
    for (const time of one.lost) if (time >= view.first && time <= view.last) pen.fillRect(view.x(time) - 0.75, top + 1, 1.5, view.laneHeight - 2);
  }
  for (const fault of one.faults) if (fault.last >= view.first && fault.at <= view.last) bolt(pen, view.x(fault.at), view.x(fault.last), top, view.laneHeight, colours);
}

function bar(pen, what, owns, x, width, y, thick, colours) {
  if (what === GONE) return;
  const thin = Math.max(thick * 0.5, 1);
  if (what === OWNING) {
    pen.fillStyle = owns ? colours["lane-owning"] : colours["lane-idle"];
    if (owns) pen.fillRect(x, y, width, thick);
    else pen.fillRect(x, y + thick - Math.max(thick * 0.25, 1), width, Math.max(thick * 0.25, 1));
  } else if (what === SILENT) {
    pen.fillStyle = colours.hatch;
    pen.fillRect(x, y, width, thick);
  } else {
    const isCalm = what === JOINED || what === SYNCED;
    pen.fillStyle = colours[{ [JOINING]: "lane-joining", [JOINED]: "lane-joined", [SYNCING]: "lane-syncing", [SYNCED]: "lane-synced" }[what]];
    pen.fillRect(x, isCalm ? y + (thick - thin) / 2 : y, width, isCalm ? thin : thick);
  }
}

function count(pen, owns, x, y, thick, colours) {
  if (owns <= 0) return;
  pen.fillStyle = "#fff";
  pen.font = `600 ${Math.min(thick - 1, 11)}px ${colours.sans}`;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillText(String(owns), x + 5, y + thick / 2 + 0.5);
}

/** The end of a member: a cross if it was removed, a line if it left. */
function cap(pen, fate, x, top, height, colours) {
  const middle = top + height / 2;
  const arm = Math.min(height / 2 - 2, 4);
  if (arm < 1.5) return;
  pen.beginPath();
  if (fate === "left" || fate === "replaced") {
    pen.strokeStyle = colours.muted;
    pen.moveTo(x + 1, top + 2);
    pen.lineTo(x + 1, top + height - 2);
  } else {
    pen.strokeStyle = colours.bad;
    pen.moveTo(x + 3, middle - arm);
    pen.lineTo(x + 3 + 2 * arm, middle + arm);
    pen.moveTo(x + 3 + 2 * arm, middle - arm);
    pen.lineTo(x + 3, middle + arm);
  }
  pen.lineWidth = 1.8;
  pen.stroke();
}

/** Whom the broker names: a frame around the culprit of a rebalance, and a flag where its trigger began it. */
function blamed(pen, data, view, seen, colours) {
  const height = Math.max(view.laneHeight - 2, 1);
  for (const { kind, start, end, culprit, trigger } of seen) {
    if (kind !== "rebalance") continue;
    const from = view.x(start), width = Math.max(view.x(end < 0 ? data.until : end) - from, 2.5);
    if (culprit >= 0) {
      const top = rowTop(view, view.rows[culprit]) + 1;
      pen.strokeStyle = pen.fillStyle = colours.bad;
      pen.lineWidth = 2;
      if (width >= 6 && height >= 5) pen.strokeRect(from + 1, top + 0.5, width - 2, height - 1);
      else pen.fillRect(from, top, width, height);
    }
    if (trigger >= 0) flag(pen, from, rowTop(view, view.rows[trigger]) + 1 + height / 2, Math.min(height, 12) / 2, colours);
  }
}

function flag(pen, x, y, arm, colours) {
  pen.fillStyle = colours.trigger;
  pen.strokeStyle = colours.surface;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(x - 1, y - arm);
  pen.lineTo(x - 1 + 1.5 * arm, y);
  pen.lineTo(x - 1, y + arm);
  pen.closePath();
  pen.fill();
  if (arm > 3) pen.stroke();
}

/** What a fault did: a flash where it did so first, and a line to where it did last. */
function bolt(pen, x, lastX, top, height, colours) {
  const tall = Math.min(height, 14), wide = tall * 0.4;
  const y = top + (height - tall) / 2;
  pen.fillStyle = colours.text;
  pen.strokeStyle = colours.surface;
  pen.lineWidth = 1;
  if (lastX - x > 2) pen.fillRect(x, top + height - 2, lastX - x, 2);
  pen.beginPath();
  for (const [across, down] of [[0.4, 0], [-1, 0.6], [-0.1, 0.6], [-0.4, 1], [1, 0.4], [0.1, 0.4]]) pen.lineTo(x + across * wide, y + down * tall);
  pen.closePath();
  pen.fill();
  if (height > 7) pen.stroke();
}

/** A line through all lanes where the broker started. */
function restarts(pen, view, seen, colours) {
  pen.fillStyle = colours.focus;
  for (const mark of seen) {
    if (mark.kind !== "loaded") continue;
    for (let y = HEAD; y < view.bottom; y += 8) pen.fillRect(view.x(mark.start) - 0.5, y, 1.5, 5);
  }
}

function gutter(pen, data, view, colours, chosen) {
  pen.fillStyle = colours.surface;
  pen.fillRect(0, 0, view.gutter, view.height);
  clip(pen, 0, HEAD, view.gutter, view.bottom - HEAD, () => {
    const size = Math.min(view.laneHeight - 1, 12);
    const mark = data.marks[chosen.mark];
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    const first = Math.max(Math.floor(view.top / view.laneHeight), 0);
    const last = Math.min(Math.ceil((view.top + view.bottom - HEAD) / view.laneHeight), view.order.length);
    for (let row = first; row < last; row += 1) {
      const one = view.order[row];
      const top = rowTop(view, row);
      if (chosen.lane === one.index) {
        pen.fillStyle = colours["band-selected"];
        pen.fillRect(0, top, view.gutter, view.laneHeight);
      }
      if (view.laneHeight < 10) {
        if (one.held) {
          pen.fillStyle = colours["lane-joining"];
          const length = (one.heldMs / view.mostHeld) * (view.gutter - 16);
          pen.fillRect(view.gutter - 6 - length, top + 1, length, Math.max(view.laneHeight - 2, 1));
        }
        continue;
      }
      pen.font = `${chosen.lane === one.index ? "600 " : ""}${size}px ${colours.sans}`;
      pen.fillStyle = one.isPresent || !data.isLive ? colours.text : colours.faint;
      const text = `${one.isLeader ? "★ " : ""}${printable(one.name)}`;
      const y = top + view.laneHeight / 2 + 0.5;
      const [role, colour] = mark?.culprit === one.index ? ["culprit", colours.bad] : mark?.trigger === one.index ? ["trigger", colours.trigger] : ["", ""];
      const room = role && view.gutter > 120 ? ROLE : 0;
      if (role && !room) pen.fillStyle = colour;
      pen.fillText(shorten(pen, text, view.gutter - 18 - room), 10, y);
      if (!room) continue;
      pen.font = `700 11px ${colours.sans}`;
      pen.fillStyle = colour;
      pen.textAlign = "right";
      pen.fillText(role, view.gutter - 6, y);
      pen.textAlign = "left";
    }
  });
}

/** Text that fits, its beginning and its end kept: names differ at the end. */
function shorten(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let keep = Math.floor((text.length * width) / pen.measureText(text).width) - 1;
  const cut = () => `${text.slice(0, Math.max(Math.floor(keep * 0.4), 1))}…${text.slice(-Math.max(Math.ceil(keep * 0.6), 1))}`;
  while (keep > 3 && pen.measureText(cut()).width > width) keep -= 1;
  return cut();
}

function head(pen, data, view, scale, seen, colours, chosen) {
  pen.fillStyle = colours.surface;
  pen.fillRect(view.gutter, 0, view.width, HEAD);
  pen.textBaseline = "middle";
  pen.font = `11px ${colours.sans}`;
  if (scale.folded) foldedTicks(pen, data, view, scale, seen, colours);
  else ticks(pen, data, view, colours);
  let free = -9;
  for (const mark of seen) {
    const from = view.x(mark.start);
    const to = Math.max(view.x(endOf(mark, data.until)), from + 2);
    if (mark.kind !== "rebalance") {
      if (mark.last > mark.start) {
        pen.fillStyle = colours.bad;
        pen.fillRect(from, HEAD - 9, view.x(mark.last) - from, 2);
      }
      marker(pen, mark.kind, from, chosen.mark === mark.index, colours);
    }
    for (const barrier of mark.barriers) {
      const start = view.x(barrier.opened);
      const end = view.x(barrier.closed < 0 ? data.until : barrier.closed);
      pen.fillStyle = barrier.barrier === "sync" ? colours["lane-syncing"] : barrier.barrier === "join" || WAITS[barrier.barrier] ? colours["lane-joining"] : colours["line-strong"];
      pen.fillRect(start, HEAD - 7, Math.max(end - start, 1), 5);
    }
    if (mark.generation >= 0 && mark.kind === "rebalance") {
      const text = String(mark.generation);
      const width = pen.measureText(text).width;
      const isChosen = chosen.mark === mark.index;
      if (isChosen || (from > free && (from + to) / 2 + width / 2 < view.right)) {
        pen.font = `${isChosen ? 700 : 500} 11px ${colours.sans}`;
        pen.fillStyle = isChosen ? colours.focus : colours.text;
        pen.textAlign = "left";
        pen.fillText(text, from, HEAD - 16);
        free = from + width + 6;
      }
    }
  }
}

/** What is no rebalance: a red triangle for refusals, a diamond for restarts, a dot for a member that was replaced. */
function marker(pen, kind, x, isChosen, colours) {
  const y = HEAD - 8;
  pen.fillStyle = kind === "refusal" ? colours.bad : kind === "loaded" ? colours.focus : colours.accent;
  pen.beginPath();
  if (kind === "refusal") {
    pen.moveTo(x - 6, y - 5);
    pen.lineTo(x + 6, y - 5);
    pen.lineTo(x, y + 6);
  } else if (kind === "loaded") {
    pen.moveTo(x, y - 6);
    pen.lineTo(x + 5, y);
    pen.lineTo(x, y + 6);
    pen.lineTo(x - 5, y);
  } else pen.arc(x, y, 4, 0, 7);
  pen.closePath();
  pen.fill();
  pen.lineWidth = 1.5;
  pen.strokeStyle = isChosen ? colours.text : colours.surface;
  pen.stroke();
}

function ticks(pen, data, view, colours) {
  const step = tickStep(view.last - view.first, Math.max((view.width - view.gutter) / 90, 2));
  const offset = new Date(data.from).getTimezoneOffset() * 60_000;
  const begin = Math.ceil((view.first + data.from - offset) / step) * step - data.from + offset;
  pen.textAlign = "left";
  for (let time = begin; time <= view.last; time += step) {
    const x = view.x(time);
    pen.fillStyle = colours.line;
    pen.fillRect(x, 0, 1, HEAD - 24);
    pen.fillStyle = colours.muted;
    pen.fillText(clock(data.from + time, { seconds: step < 60_000, millis: step < 1_000 }), x + 4, 9);
  }
}

function foldedTicks(pen, data, view, scale, seen, colours) {
  let free = -9;
  pen.textAlign = "left";
  for (const mark of seen) {
    const x = Math.max(view.x(mark.start), view.gutter);
    if (x < free) continue;
    const text = clock(data.from + mark.start);
    pen.fillStyle = colours.line;
    pen.fillRect(x, 0, 1, HEAD - 24);
    pen.fillStyle = colours.muted;
    pen.fillText(text, x + 4, 9);
    free = x + pen.measureText(text).width + 14;
  }
  // Quiet time is said in words, as it is not to scale.
  pen.textAlign = "center";
  pen.fillStyle = colours.faint;
  const begin = Math.max(lastAtOrBefore(scale.gaps.map((gap) => gap[0]), view.first), 0);
  for (let index = begin; index < scale.gaps.length && scale.gaps[index][0] < view.last; index += 1) {
    const [from, to] = scale.gaps[index];
    const start = view.x(from), end = view.x(to);
    const text = duration(to - from);
    if (end - start > pen.measureText(text).width + 16 && to - from > 1000) pen.fillText(text, (start + end) / 2, HEAD - 6);
  }
}

function flow(pen, flow, view, colours) {
  const top = view.height - FLOW;
  const rows = [["commits", flow.commits ?? [], top + 6, 28, colours.commit], ["lag", flow.lag ?? [], top + 42, 30, colours.lag]];
  const first = Math.max(Math.floor((view.first - flow.start) / flow.bucket_ms), 0);
  const last = Math.ceil((view.last - flow.start) / flow.bucket_ms);
  for (const [name, values, y, height, colour] of rows) {
    const shown = values.slice(first, last + 1);
    const most = shown.reduce((a, b) => Math.max(a, b), 0) || 1;
    pen.fillStyle = colour;
    shown.forEach((value, index) => {
      if (value <= 0) return;
      const start = flow.start + (first + index) * flow.bucket_ms;
      const from = view.x(Math.max(start, 0));
      const width = view.x(start + flow.bucket_ms) - from;
      const tall = Math.max((value / most) * height, 1);
      pen.globalAlpha = name === "lag" ? 0.75 : 1;
      pen.fillRect(from, y + height - tall, Math.max(width - (width > 4 ? 1 : 0), 1), tall);
    });
    pen.globalAlpha = 1;
    view[`${name}Most`] = most;
  }
}

function rules(pen, view, colours, { flow, marks }) {
  pen.fillStyle = colours.line;
  pen.fillRect(view.gutter - 1, 0, 1, view.height);
  pen.fillRect(0, HEAD - 1, view.width, 1);
  pen.font = `11px ${colours.sans}`;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillStyle = colours.muted;
  pen.fillText("time", 10, 9);
  pen.fillText(generationWord(marks.at(-1)).toLowerCase(), 10, HEAD - 16);
  if (!flow) return;
  const top = view.height - FLOW;
  pen.fillStyle = colours.line;
  pen.fillRect(0, top, view.width, 1);
  for (const [name, most, y] of [["commits", view.commitsMost, top + 14], ["lag", view.lagMost, top + 50]]) {
    pen.fillStyle = colours.muted;
    pen.fillText(name, 10, y);
    pen.fillStyle = colours.faint;
    const per = name === "commits" ? ` per ${duration(flow.bucket_ms)}` : "";
    if (view.gutter > 120) pen.fillText(`up to ${short(most)}${per}`, 10, y + 14);
    else pen.fillText(`≤ ${short(most)}`, 10, y + 14);
  }
}

/** The whole time in one strip: each rebalance as a line, taller the longer it took, and the window that is seen. */
export function drawStrip(pen, data, scale, width, height, frame, colours) {
  pen.clearRect(0, 0, width, height);
  pen.fillStyle = colours.sunk;
  pen.fillRect(0, 0, width, height);
  const longest = data.marks.reduce((most, mark) => Math.max(most, endOf(mark, data.until) - mark.start), 1);
  const unit = width / (scale.total || 1);
  const place = scale.runner();
  for (const mark of data.marks) {
    const took = endOf(mark, data.until) - mark.start;
    const tall = 4 + (height - 8) * (Math.log2(1 + took) / Math.log2(1 + longest));
    pen.fillStyle = mark.kind === "refusal" ? colours.bad : mark.kind === "loaded" ? colours.focus : mark.kind !== "rebalance" ? colours.accent : mark.barriers.some((one) => one.absent.length) ? colours["lane-silent"] : colours["lane-joining"];
    pen.fillRect(place(mark.start) * unit, height - 2 - tall, Math.max(took && unit * 0.5, 1), tall);
  }
  pen.fillStyle = colours["band-selected"];
  const from = frame.from * unit, to = frame.to * unit;
  pen.fillRect(from, 0, to - from, height);
  pen.strokeStyle = colours.focus;
  pen.lineWidth = 1.5;
  pen.strokeRect(from + 0.75, 0.75, Math.max(to - from - 1.5, 2), height - 1.5);
}
