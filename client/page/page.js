// page.js - draws the page of one capture from the JSON in #data. It loads nothing and sends nothing. Times are ns.
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);

// --- texts and figures ---

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
};
const body = id => document.querySelector(`#${id} .body`);
const hide = id => { document.getElementById(id).hidden = true; };
const significant = value => value >= 100 ? value.toFixed(1) : value >= 10 ? value.toFixed(2) : value.toFixed(3);
const duration = ns => {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${significant(ns / 1e9)} s`;
  if (size >= 1e6) return `${significant(ns / 1e6)} ms`;
  if (size >= 1e3) return `${significant(ns / 1e3)} us`;
  return `${Math.round(ns)} ns`;
};
const count = value => Math.round(value).toLocaleString("en-US");
const bytes = value => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return unit ? `${value.toFixed(1)} ${units[unit]}` : `${value} B`;
};
const percent = value => value > 0 && value < 0.05 ? "<0.1 %" : `${value.toFixed(1)} %`;
const figures = {
  duration, count, bytes, percent,
  number: String,
  flag: value => value ? "yes" : "no",
  speed: value => `${value.toFixed(2)} GFLOP/s`,
  ratio: value => value.toFixed(2),
  rate: value => `${value.toFixed(2)} GB/s`,
};
const show = (value, kind) => value === null || value === undefined ? "-" : figures[kind] && typeof value !== "string" ? figures[kind](value) : String(value);
const median = values => {
  const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

// --- colours: one for each row of the breakdown ---

const colours = {
  compute: "#3b7dd8", communication: "#b5339b", copies: "#12a594",
  "idle input": "#f08c00", "idle sync": "#d92d20", "idle copy": "#f4511e", "idle alloc": "#8e3bb0", "idle compile": "#5f3dc4", "idle garbage": "#9c6644", "idle setup": "#7c6ae0",
  "idle comm": "#d6336c", "idle op": "#e0b000", "idle launch": "#c9a227", "idle call": "#d8c36a", "idle outside": "#8d949c", "idle arrival": "#b9bfc6",
  "idle capture": "#6b7178", "idle gap": "#cdd2d8", "idle device_wait": "#86b7e8", "idle unknown": "#a8a29a", idle: "#b9bfc6",
  input: "#f08c00", forward: "#3b7dd8", backward: "#1c9dbd", optimizer: "#2f9e44", zero_grad: "#83b82a", validation: "#5f3dc4", test: "#845ef7", evaluation: "#7048b6", inference: "#9775d6", comm: "#b5339b", sync: "#d92d20", copy: "#f4511e",
  alloc: "#8e3bb0", compile: "#5f3dc4", garbage: "#9c6644", setup: "#7c6ae0", capture: "#6b7178", operators: "#6fa8e8", outside: "#8d949c", between_steps: "#cdd2d8", unknown: "#a8a29a",
};
const colour = word => colours[word] || "#a8a29a";
const titleOf = (rows, word) => { const row = rows.find(one => one.word === word); return row ? row.title : word; };

// --- tooltip ---

const tip = document.getElementById("tip");
const tell = (event, text) => {
  if (!text) { tip.hidden = true; return; }
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
};
const untell = () => { tip.hidden = true; };

// --- a canvas that draws itself anew when its width or the colour scheme changes ---

const canvases = [];
const canvas = (parent, label, height, draw) => {
  const element = make("canvas", {role: "img", "aria-label": label, tabindex: "0"});
  const one = {
    element, width: 0,
    draw() {
      const ratio = window.devicePixelRatio || 1, tall = height();
      one.width = element.parentNode.clientWidth;
      one.height = tall;
      element.style.height = `${tall}px`;
      element.width = Math.max(1, Math.round(one.width * ratio));
      element.height = Math.max(1, Math.round(tall * ratio));
      const to = element.getContext("2d");
      to.setTransform(ratio, 0, 0, ratio, 0, 0);
      to.clearRect(0, 0, one.width, tall);
      to.font = "12px system-ui, sans-serif";
      to.textBaseline = "middle";
      const style = getComputedStyle(document.documentElement);
      one.front = style.getPropertyValue("--front").trim();
      one.faint = style.getPropertyValue("--faint").trim();
      one.line = style.getPropertyValue("--line").trim();
      one.panel = style.getPropertyValue("--panel").trim();
      draw(to, one);
    },
  };
  parent.append(make("div", {class: "canvas"}, element));
  canvases.push(one);
  return one;
};
const redraw = () => canvases.forEach(one => one.draw());
const fitted = (to, text, width) => {
  if (width < 14) return "";
  if (to.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (to.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1;
  }
  return low > 1 ? text.slice(0, low) + "…" : "";
};

// --- head and verdict ---

const about = data.about;
const stepsName = () => {
  const numbers = data.steps.map(step => step.number).filter(number => number !== null);
  if (!numbers.length) return data.step_count === 1 ? "a window of time" : `${count(data.step_count)} steps`;
  const last = numbers[numbers.length - 1];
  return numbers.length === 1 ? `step ${count(numbers[0])}` : `steps ${count(numbers[0])} to ${count(last)}`;
};
const drawHead = () => {
  const head = document.getElementById("head"), facts = make("div", {class: "facts"});
  const add = (key, value) => { if (value !== null && value !== undefined && value !== "") facts.append(make("span", {}, `${key} `, make("b", {}, String(value)))); };
  head.append(make("h1", {}, `capture ${about.capture_id || ""}: ${about.name || "a process"}, ${stepsName()}`));
  if (about.status && about.status !== "complete") head.append(make("p", {class: "warn"}, `${about.status}${about.reason ? `: ${about.reason}` : ""}`));
  add("pid", about.pid); add("user", about.user); add("host", about.host); add("job", about.job); add("label", about.label);
  if (about.rank !== null && about.rank !== undefined && about.rank >= 0) add("rank", about.world_size > 0 ? `${about.rank} of ${about.world_size}` : about.rank);
  add("recorded", about.started_at ? about.started_at.replace("T", " ").replace(/\.\d+Z$/, " UTC") : null);
  add("torch", about.torch_version); add("devices", data.device_names.join(", ")); add("command", about.command);
  head.append(facts);
  if (data.steps.length) {
    const walls = data.steps.map(step => step.end - step.start);
    let text = walls.length > 1 ? `${duration(median(walls))} a step (median; ${duration(Math.min(...walls))} to ${duration(Math.max(...walls))})` : `${duration(walls[0])}`;
    data.devices.forEach((device, index) => {
      const wall = walls.reduce((sum, wall) => sum + wall, 0);
      const idle = data.steps.reduce((sum, step) => sum + step.devices[index].rows[data.device_rows.findIndex(row => row.word === "idle")], 0);
      if (wall) text += `, device ${device} busy ${percent(100 - idle * 100 / wall)}`;
    });
    head.append(make("p", {class: "big"}, text));
  }
  if (about.simulated) head.append(make("p", {class: "warn"}, "The GPU of this capture was simulated."));
  data.notes.forEach(note => head.append(make("p", {class: "faint"}, note)));
};
const drawVerdict = () => {
  const to = body("verdict"), verdict = data.verdict;
  to.append(make("p", {class: "big"}, verdict.verdict));
  verdict.findings.forEach((finding, index) => {
    const list = make("dl");
    const won = finding.win > 0 ? `${percent(finding.win * 100)} of ${verdict.window ? "the window" : "a step"}, ${duration(finding.win_ns)}` : null;
    for (const [title, text] of [["evidence", finding.evidence], ["try", finding.try], ["at most to win", won]])
      if (text) list.append(make("dt", {}, title), make("dd", {}, text));
    to.append(make("div", {class: "finding"}, make("div", {class: "number"}, String(index + 1)), make("div", {}, make("div", {class: "title"}, finding.what), list)));
  });
  if (verdict.abstains) to.append(make("p", {class: "faint"}, verdict.abstains));
};

// --- breakdown: the mean of the chosen steps ---

let chosen = -1; // a step, or -1: all
const parts = [];
const sideRows = () => {
  const over = chosen < 0 ? data.steps : [data.steps[chosen]], wall = over.reduce((sum, step) => sum + step.end - step.start, 0), sides = [];
  const row = (title, word, values, part, line) => {
    const total = values.reduce((sum, value) => sum + value, 0);
    const shares = values.map((value, index) => value * 100 / (over[index].end - over[index].start || 1));
    return {title, word, part, line, ns: total / over.length, share: wall ? total * 100 / wall : 0, least: Math.min(...shares), most: Math.max(...shares), total};
  };
  data.devices.forEach((device, index) => {
    const rows = [];
    data.device_rows.forEach((one, number) => rows.push(row(one.title, one.word, over.map(step => step.devices[index].rows[number]), false)));
    data.idle_rows.forEach((one, number) => rows.push(row(one.title, `idle ${one.word}`, over.map(step => step.devices[index].idle[number]), true, data.lines?.devices[index].idle[one.word])));
    sides.push({title: `device ${device}`, rows: rows.filter(one => one.total || !one.part && (one.word === "compute" || one.word === "idle"))});
  });
  if (data.has_host) {
    const rows = data.host_rows.map((one, number) => row(one.title, one.word, over.map(step => step.host[number]), false, data.lines?.host[one.word]));
    sides.push({title: "host: the thread that steps", rows: rows.filter(one => one.total)});
  }
  return sides;
};
// At which line of the user's own Python most of a row was, of all steps.
const lineCell = ({line}) => {
  if (!line) return make("td", {class: "line"});
  const file = line.file.slice(line.file.lastIndexOf("/") + 1), place = line.line === null ? file : `${file}:${line.line}`;
  const whole = `${line.file}${line.line === null ? "" : `:${line.line}`}${line.function === null ? "" : `, ${line.function}`}: ${(line.share * 100).toFixed(0)} % of this row`;
  return make("td", {class: "line mono", title: whole}, `${place} ${(line.share * 100).toFixed(0)} %`);
};
const drawBreakdown = () => {
  const to = body("breakdown");
  to.replaceChildren();
  if (!data.steps.length) { hide("breakdown"); return; }
  const picker = make("select", {"aria-label": "which steps", onchange: event => { chosen = Number(event.target.value); drawBreakdown(); redraw(); }});
  picker.append(make("option", {value: "-1"}, `all ${count(data.steps.length)} steps, the mean`));
  data.steps.forEach((step, index) => picker.append(make("option", {value: String(index)}, `step ${step.number !== null ? count(step.number) : index + 1}`)));
  picker.value = String(chosen);
  if (data.steps.length > 1) to.append(make("div", {class: "tools"}, picker));
  const grid = make("div", {class: "sides"});
  for (const side of sideRows()) {
    const table = make("table", {class: "rows"});
    for (const row of side.rows) {
      const bar = make("span", {style: `width: ${Math.max(0.4, row.share)}%; background: ${colour(row.word)}`});
      table.append(make("tr", row.part ? {class: "part"} : {}, make("td", {class: "what"}, row.title), make("td", {class: "figure"}, duration(row.ns)), make("td", {class: "figure"}, percent(row.share)),
        make("td", {class: "figure faint"}, chosen < 0 && data.steps.length > 1 ? `${row.least.toFixed(0)} to ${row.most.toFixed(0)} %` : ""), make("td", {class: "bar"}, bar),
        ...(data.lines && chosen < 0 ? [lineCell(row)] : [])));
    }
    grid.append(make("div", {}, make("h3", {}, side.title), table));
  }
  to.append(grid);
  if (data.doubt) to.append(make("p", {class: "warn"}, `Why the devices were idle is not known: ${data.doubt}`));
};

// --- step by step: a column a step, stacked ---

const stacks = () => {
  const list = data.devices.map((device, index) => ({
    title: `device ${device}`,
    of: step => data.device_rows.filter(row => row.word !== "idle").map((row, number) => [row.word, row.title, step.devices[index].rows[number]])
      .concat(data.idle_rows.map((row, number) => [`idle ${row.word}`, `idle: ${row.title}`, step.devices[index].idle[number]])),
  }));
  if (data.has_host) list.push({title: "host", of: step => data.host_rows.map((row, number) => [row.word, row.title, step.host[number]])});
  return list;
};
const drawSteps = () => {
  const to = body("steps");
  if (data.steps.length < 2) { hide("steps"); return; }
  const most = Math.max(...data.steps.map(step => step.end - step.start)), kinds = stacks();
  let side = 0;
  const buttons = make("div", {class: "tools"});
  const left = 64, high = 190, foot = 18;
  const place = view => ({each: (view.width - left - 4) / data.steps.length, unit: (high - foot - 8) / (most || 1)});
  const view = (() => {
    to.append(buttons);
    return canvas(to, "the time of each step, by row", () => high, (pen, one) => {
      const {each, unit} = place(one), gap = each > 6 ? Math.min(4, each * 0.15) : 0;
      pen.fillStyle = one.faint;
      for (const share of [0, 0.5, 1]) {
        const y = high - foot - most * share * unit;
        pen.fillRect(left, y, one.width - left, 0.5);
        pen.fillText(duration(most * share), 2, Math.max(7, y));
      }
      data.steps.forEach((step, index) => {
        let y = high - foot;
        for (const [word, , ns] of kinds[side].of(step)) {
          pen.fillStyle = colour(word);
          pen.fillRect(left + index * each, y - ns * unit, Math.max(0.7, each - gap), ns * unit);
          y -= ns * unit;
        }
        if (index === chosen) { pen.strokeStyle = one.front; pen.lineWidth = 2; pen.strokeRect(left + index * each, y, Math.max(1, each - gap), high - foot - y); }
        if (each > 40 || index % Math.ceil(46 / each) === 0) { pen.fillStyle = one.faint; pen.fillText(step.number !== null ? count(step.number) : String(index + 1), left + index * each, high - foot / 2); }
      });
    });
  })();
  kinds.forEach((kind, index) => buttons.append(make("button", {"aria-pressed": String(index === 0), onclick: event => {
    side = index;
    for (const one of buttons.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === event.target));
    view.draw();
  }}, kind.title)));
  if (data.step_count > data.steps.length) buttons.append(make("span", {class: "faint"}, `the first ${count(data.steps.length)} of ${count(data.step_count)} steps`));
  const at = event => {
    const box = view.element.getBoundingClientRect(), {each, unit} = place(view), index = Math.floor((event.clientX - box.left - left) / each);
    if (index < 0 || index >= data.steps.length) return null;
    let below = (high - foot - (event.clientY - box.top)) / unit, row = null;
    for (const one of kinds[side].of(data.steps[index])) { if (below >= 0 && below < one[2]) row = one; below -= one[2]; }
    return {index, row};
  };
  view.element.addEventListener("mousemove", event => {
    const hit = at(event), step = hit && data.steps[hit.index];
    tell(event, hit && `step ${step.number ?? hit.index + 1}: ${duration(step.end - step.start)}${hit.row ? `\n${hit.row[1]}: ${duration(hit.row[2])}, ${percent(hit.row[2] * 100 / (step.end - step.start || 1))}` : ""}`);
  });
  view.element.addEventListener("mouseleave", untell);
  view.element.addEventListener("click", event => { const hit = at(event); if (hit) { chosen = hit.index === chosen ? -1 : hit.index; drawBreakdown(); redraw(); } });
};

// --- timeline ---

// "A1f3B22": a letter is a row, what follows is how long it lasts, to the base of 36; "_" is time of which nothing is known.
const unpack = track => {
  const starts = [], rows = [];
  let now = track.start;
  for (const [, letter, digits] of track.pieces.matchAll(/([A-Z_])([0-9a-z]+)/g)) {
    starts.push(now);
    rows.push(letter === "_" ? -1 : letter.charCodeAt(0) - 65);
    now += parseInt(digits, 36);
  }
  starts.push(now);
  return {...track, starts, rows};
};
const search = (sorted, value) => { // the last one that is not above value
  let low = 0, high = sorted.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; if (sorted[middle] <= value) low = middle; else high = middle - 1; }
  return low;
};
const drawStrip = () => {
  const to = body("strip"), tracks = data.strip.tracks.map(unpack);
  if (!tracks.length) { hide("strip"); return; }
  const first = data.strip.start, last = data.strip.end, left = 64, lane = 22, thin = 13, ruler = 20;
  let from = first, until = last;
  const lanes = track => track.labels.reduce((most, label) => Math.max(most, label[3] + 1), 0);
  let y = ruler;
  for (const track of tracks) { track.y = y; track.deep = Math.min(6, lanes(track)); y += lane + track.deep * thin + 8; }
  const high = y + 2;
  const scale = one => (one.width - left) / (until - from || 1);
  const tools = make("div", {class: "tools"},
    make("button", {onclick: () => zoom(0.5, (from + until) / 2)}, "zoom in"), make("button", {onclick: () => zoom(2, (from + until) / 2)}, "zoom out"),
    make("button", {onclick: () => { from = first; until = last; view.draw(); }}, "all"),
    make("span", {class: "faint"}, "wheel with Ctrl or + and - zoom, drag or the arrow keys move, hover tells what it is"));
  to.append(tools);
  const view = canvas(to, "what each device and the thread that steps did, over time", () => high, (pen, one) => {
    const unit = scale(one);
    pen.fillStyle = one.faint;
    const rough = (until - from) * 90 / (one.width - left), power = 10 ** Math.floor(Math.log10(rough || 1)), tick = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough) || power * 10;
    for (let time = Math.ceil((from - first) / tick) * tick; time <= until - first; time += tick) {
      const x = left + (time + first - from) * unit;
      pen.fillRect(x, 0, 0.5, high);
      pen.fillText(duration(time), x + 3, 9);
    }
    for (const track of tracks) {
      pen.fillStyle = one.front;
      pen.fillText(fitted(pen, track.title, left - 6), 2, track.y + lane / 2);
      drawPieces(pen, one, track, unit);
      drawLabels(pen, one, track, unit);
    }
    pen.strokeStyle = one.front;
    pen.lineWidth = 1;
    pen.setLineDash([3, 3]);
    for (const step of data.steps) {
      const x = left + (step.start - from) * unit;
      if (x >= left && x <= one.width) { pen.beginPath(); pen.moveTo(x, ruler - 4); pen.lineTo(x, high); pen.stroke(); }
    }
    pen.setLineDash([]);
  });
  // Of pieces that share a pixel the one that fills most of it is drawn.
  const drawPieces = (pen, one, track, unit) => {
    let pixel = -1, share = new Map();
    const flush = () => {
      let best = -1, most = 0;
      for (const [row, width] of share) if (width > most) { best = row; most = width; }
      if (best >= 0) { pen.fillStyle = colour(track.rows_of[best]); pen.fillRect(left + pixel, track.y, 1, lane); }
      share = new Map();
    };
    for (let i = search(track.starts, from); i < track.rows.length && track.starts[i] < until; i++) {
      const a = Math.max(0, (track.starts[i] - from) * unit), b = Math.min(one.width - left, (track.starts[i + 1] - from) * unit), row = track.rows[i];
      if (b <= a) continue;
      for (let x = a; x < b;) {
        const next = Math.min(b, Math.floor(x) + 1);
        if (Math.floor(x) !== pixel) { flush(); pixel = Math.floor(x); }
        share.set(row, (share.get(row) || 0) + next - x);
        x = next;
        const whole = Math.floor(b) - x;
        if (whole >= 1) {
          flush(); pixel = -1;
          if (row >= 0) { pen.fillStyle = colour(track.rows_of[row]); pen.fillRect(left + x, track.y, Math.floor(b) - x, lane); }
          x = Math.floor(b);
        }
      }
    }
    if (pixel >= 0) flush();
  };
  const drawLabels = (pen, one, track, unit) => {
    for (const [start, long, name, depth] of track.labels) {
      if (start + long < from || start > until || depth >= track.deep) continue;
      const a = Math.max(0, (start - from) * unit), b = Math.min(one.width - left, (start + long - from) * unit);
      if (b - a < 0.2) continue;
      const top = track.y + lane + 1 + depth * thin;
      pen.fillStyle = b - a > 4 ? one.panel : one.faint;
      pen.fillRect(left + a, top, Math.max(0.5, b - a), thin - 1);
      pen.strokeStyle = one.line;
      pen.lineWidth = 0.5;
      if (b - a > 2) pen.strokeRect(left + a, top, b - a, thin - 1);
      const text = fitted(pen, data.strip.names[name], b - a - 5);
      if (text) { pen.fillStyle = one.front; pen.font = "10.5px system-ui, sans-serif"; pen.fillText(text, left + a + 3, top + thin / 2 - 0.5); pen.font = "12px system-ui, sans-serif"; }
    }
  };
  const zoom = (factor, around) => {
    const wide = Math.max(200, Math.min(last - first, (until - from) * factor)), where = (around - from) / (until - from || 1);
    from = Math.max(first, Math.min(last - wide, around - wide * where));
    until = from + wide;
    view.draw();
  };
  const move = by => {
    const shift = Math.max(first - from, Math.min(last - until, by));
    from += shift; until += shift;
    view.draw();
  };
  const timeAt = event => { const box = view.element.getBoundingClientRect(); return from + (event.clientX - box.left - left) / scale(view); };
  let held = null;
  view.element.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
    event.preventDefault();
    if (event.shiftKey) move((event.deltaX || event.deltaY) / scale(view)); else zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
  }, {passive: false});
  view.element.addEventListener("pointerdown", event => { held = event.clientX; view.element.setPointerCapture(event.pointerId); });
  view.element.addEventListener("pointerup", () => { held = null; });
  view.element.addEventListener("dblclick", event => zoom(0.25, timeAt(event)));
  view.element.addEventListener("keydown", event => {
    const step = (until - from) / 10, keys = {"+": () => zoom(0.5, (from + until) / 2), "=": () => zoom(0.5, (from + until) / 2), "-": () => zoom(2, (from + until) / 2), ArrowLeft: () => move(-step), ArrowRight: () => move(step), Home: () => { from = first; until = last; view.draw(); }};
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  view.element.addEventListener("pointermove", event => {
    if (held !== null) { move((held - event.clientX) / scale(view)); held = event.clientX; untell(); return; }
    const box = view.element.getBoundingClientRect(), time = timeAt(event), above = event.clientY - box.top;
    const track = tracks.find(one => above >= one.y && above < one.y + lane + one.deep * thin);
    if (!track || time < from) { untell(); return; }
    const depth = Math.floor((above - track.y - lane - 1) / thin);
    const labels = track.labels.filter(([start, long, , deep]) => start <= time && time < start + long && (depth < 0 || deep === depth));
    const label = labels.length ? labels.reduce((a, b) => b[1] < a[1] ? b : a) : null;
    const lines = [];
    if (depth < 0) {
      const i = search(track.starts, time);
      if (i < track.rows.length && track.rows[i] >= 0 && track.starts[i + 1] > time) lines.push(`${track.titles[track.rows[i]]}: ${duration(track.starts[i + 1] - track.starts[i])}${track.gathered ? ` (pieces under ${duration(track.gathered)} are gathered)` : ""}`);
    }
    if (label) lines.push(`${data.strip.names[label[2]]}: ${duration(label[1])}`);
    lines.push(`at ${duration(time - first)}`);
    tell(event, lines.join("\n"));
  });
  view.element.addEventListener("mouseleave", untell);
  const sides = [tracks.filter(track => track.titles[3].startsWith("idle")), tracks.filter(track => !track.titles[3].startsWith("idle"))];
  for (const side of sides.filter(side => side.length)) {
    const used = new Set(side.flatMap(track => track.rows)), legend = make("div", {class: "legend"}, side === sides[0] ? "devices" : "host");
    side[0].rows_of.forEach((word, row) => { if (used.has(row)) legend.append(make("span", {}, make("span", {class: "key", style: `background: ${colour(word)}`}), side[0].titles[row])); });
    to.append(legend);
  }
  to.append(make("p", {class: "faint"}, `${data.strip.sentence} For single kernels and operators: profd export, and Perfetto.`));
};

// --- icicle ---

const drawTree = () => {
  const to = body("tree"), nodes = data.tree.nodes; // [parent, name, calls, total, self, device], a parent before its children
  if (!nodes.length) { hide("tree"); return; }
  const list = nodes.map(([parent, name, calls, total, self, device]) => ({parent, name: data.tree.names[name], calls, total, self, device, children: [], depth: 0}));
  const root = {name: "all operators", calls: 0, total: 0, self: 0, device: null, children: [], depth: 0, parent: null};
  let measure = "total";
  const value = node => node[measure] || 0;
  for (const node of list) {
    const above = node.parent < 0 ? root : list[node.parent];
    node.above = above;
    node.depth = above.depth + 1;
    above.children.push(node);
  }
  for (const child of root.children) { root.total += child.total; root.calls += child.calls; root.device = (root.device || 0) + (child.device || 0); }
  const row = 19;
  let top = root, boxes = [];
  const deepest = node => node.children.reduce((most, child) => Math.max(most, deepest(child)), node.depth);
  const has = data.tree.device;
  const tools = make("div", {class: "tools"});
  to.append(tools);
  const view = canvas(to, "operators within operators, as wide as their time", () => (Math.min(deepest(top), top.depth + 14) - top.depth + 1) * row + 4, (pen, one) => {
    boxes = [];
    const put = (node, x, width) => {
      const y = (node.depth - top.depth) * row;
      if (width < 0.6 || y > one.height) return;
      boxes.push({node, x, y, width});
      pen.fillStyle = node === root ? one.panel : `hsl(${[...node.name].reduce((hash, letter) => (hash * 31 + letter.charCodeAt(0)) % 360, 7)} 45% 62%)`;
      pen.fillRect(x, y + 1, Math.max(0.5, width - 0.7), row - 2);
      const text = fitted(pen, node.name, width - 6);
      if (text) { pen.fillStyle = node === root ? one.front : "#14171a"; pen.fillText(text, x + 3, y + row / 2); }
      let at = x;
      for (const child of [...node.children].sort((a, b) => value(b) - value(a))) { const wide = width * value(child) / (value(node) || 1); put(child, at, wide); at += wide; }
    };
    put(top, 0, one.width);
  });
  if (has) for (const [word, title] of [["total", "time on the host"], ["device", "time on the device"]])
    tools.append(make("button", {"aria-pressed": String(word === measure), onclick: event => { measure = word; for (const one of tools.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === event.target)); view.draw(); }}, title));
  tools.append(make("span", {class: "faint"}, `click to go in, click the topmost to go out${data.tree.left_out ? `; ${count(data.tree.left_out)} small ones are left out` : ""}${data.tree.shortened ? "; long names are shortened" : ""}`));
  const hit = event => { const box = view.element.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top; return boxes.find(one => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + row); };
  view.element.addEventListener("mousemove", event => {
    const found = hit(event), node = found && found.node;
    tell(event, node && `${node.name}\n${count(node.calls)} calls, ${duration(node.total)} on the host, ${duration(node.self)} of it its own${has ? `\n${duration(node.device || 0)} on the device` : ""}\n${percent(value(node) * 100 / (value(root) || 1))} of all`);
  });
  view.element.addEventListener("mouseleave", untell);
  view.element.addEventListener("click", event => { const found = hit(event); if (found) { top = found.node === top ? top.above || root : found.node; view.draw(); } });
};

// --- tables ---

const drawTable = table => {
  const box = make("details", table.open ? {open: ""} : {}, make("summary", {}, table.heading, " ", make("span", {class: "faint"}, table.absence || `${count(table.total)} ${table.total === 1 ? "row" : "rows"}${table.total > table.rows.length ? `, the first ${count(table.rows.length)} here` : ""}`)));
  if (table.absence || !table.rows.length) return box;
  let order = null, down = true, wanted = "";
  const filter = make("input", {type: "search", "aria-label": `only rows of ${table.heading} with`, oninput: event => { wanted = event.target.value.toLowerCase(); fill(); }});
  const lines = make("tbody"), heads = make("tr");
  const isText = column => column.kind === "text" || column.kind === "list";
  table.columns.forEach((column, index) => heads.append(make("th", isText(column) ? {} : {class: "figure"}, make("button", {onclick: () => { down = order === index ? !down : !isText(column); order = index; fill(); }}, column.title))));
  const fill = () => {
    let rows = table.rows.filter(row => !wanted || row.some((value, index) => show(value, table.columns[index].kind).toLowerCase().includes(wanted)));
    if (order !== null) rows = [...rows].sort((a, b) => {
      const x = a[order], y = b[order];
      if (x === null || y === null) return (x === null) - (y === null);
      return (typeof x === "string" ? x.localeCompare(y) : x - y) * (down ? -1 : 1);
    });
    heads.querySelectorAll("th").forEach((head, index) => head.setAttribute("aria-sort", order === index ? down ? "descending" : "ascending" : "none"));
    lines.replaceChildren(...rows.map(row => make("tr", {}, ...row.map((value, index) => make("td", {class: isText(table.columns[index]) ? "text" : "figure"}, show(value, table.columns[index].kind))))));
  };
  fill();
  if (table.rows.length > 8) box.append(make("label", {class: "tools faint"}, "only rows with ", filter));
  box.append(make("div", {class: "scroll"}, make("table", {class: "data"}, make("thead", {}, heads), lines)));
  table.notes.forEach(note => box.append(make("p", {class: "faint"}, note)));
  return box;
};
const drawTables = () => {
  for (const table of data.tables) body(table.how ? "how" : "tables").append(drawTable(table));
  document.getElementById("foot").append(`${data.generator}, ${data.made}. This page loads nothing from a network. ${data.redacted ? "Paths, commands, host and user were left out." : ""}`);
};

drawHead();
drawVerdict();
drawBreakdown();
drawSteps();
drawStrip();
drawTree();
drawTables();
redraw();
addEventListener("resize", redraw);
addEventListener("beforeprint", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
