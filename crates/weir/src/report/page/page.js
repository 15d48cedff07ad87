// SPDX-License-Identifier: Apache-2.0 OR MIT
// Draws the page of the reports in it: one run, or several side by side. Their format is
// docs/report.schema.json, plus the name of the run.
"use strict";

const runs = JSON.parse(document.getElementById("reports").textContent);
const several = runs.length > 1;
const SECOND = 1e9;

// Small helpers -------------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);
const colour = (n) => getComputedStyle(document.documentElement).getPropertyValue(n).trim();
const line = (i) => colour(`--c${i % 6}`);
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [14, 4]];

/** An element with attributes and children; text is set as text, never as markup. */
function make(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "line", "path", "text", "tspan", "circle", "title"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

function fill(id, ...children) {
  $(id).replaceChildren(...children.filter((child) => child !== null));
}

const digits = (x) => (x === 0 ? "0" : x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1).replace(/\.0$/, "") : String(Number(x.toPrecision(2))));
const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

/** A suitable unit for the largest of some figures: [factor, name]. */
function unit(most, steps) {
  return steps.find(([factor]) => most >= factor) ?? steps[steps.length - 1];
}
const TIME = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const RATE = [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]];
const inUnit = (value, steps) => { const [factor, name] = unit(value, steps); return `${digits(value / factor)}\u00a0${name}`; };
const time = (ns) => inUnit(ns, TIME);
const rate = (bits) => inUnit(bits, RATE);

const seconds = (run) => run.traffic ? (run.traffic.to_ns - run.traffic.from_ns) / SECOND : 0;
const device = (run, name) => run.devices.find((d) => d.name === name);
const sum = (list) => list.reduce((all, one) => all + one, 0);
const faults = (d) => sum(d.drops.filter((x) => x.class === "fault").map((x) => x.packets));
const moved = (d) => d.rx.packets + d.tx.packets;
const bits = (d, octets) => (run) => seconds(run) > 0 ? octets(d) * 8 / seconds(run) : 0;

// Headline figures ----------------------------------------------------------------------------------

/** The device whose packets wait longest: the bottleneck of a run. */
function bottleneck() {
  const waiting = runs[0].devices.filter((d) => d.sojourn);
  return waiting.sort((a, b) => b.sojourn.p95_ns - a.sojourn.p95_ns)[0]?.name;
}

/** `526 → 2.4 ms`: one figure per run, with the unit once if they share it. */
function across(values, show) {
  const texts = values.map(show);
  if (texts.every((text) => text === texts[0])) return texts[0];
  const units = texts.map((text) => text.replace(/^[\d.\u202f]+/, ""));
  const same = units.every((one) => one === units[0]);
  return texts.map((text, i) => same && i + 1 < texts.length ? text.slice(0, text.length - units[i].length) : text).join(" → ");
}

function headline() {
  const figures = [];
  const figure = (text, about) => figures.push(make("div", { class: "figure" }, make("b", {}, text), make("span", {}, about)));
  const at = bottleneck();
  const of = (get) => runs.map((run) => get(device(run, at)));
  if (at && of((d) => d?.sojourn).every(Boolean) && of((d) => d.sojourn.p95_ns).some((ns) => ns > 0)) {
    figure(across(of((d) => d.sojourn.p50_ns), time), `median wait in the queues of ${at}`);
    figure(across(of((d) => d.sojourn.p95_ns), time), `95th percentile of the wait there`);
    figure(across(runs.map((run) => bits(device(run, at), (d) => d.tx.octets)(run)), rate), `sent by ${at} while traffic flowed`);
  } else {
    const busiest = [...runs[0].devices].sort((a, b) => b.tx.octets - a.tx.octets)[0];
    const sent = (run) => { const d = device(run, busiest.name); return d ? bits(d, (d) => d.tx.octets)(run) : 0; };
    if (busiest?.tx.octets) figure(across(runs.map(sent), rate), `sent by ${busiest.name}, the busiest device`);
  }
  const read = runs.map((run) => sum(run.inputs.map((input) => input.frames)));
  if (read.some((n) => n > 0)) figure(across(read, count), "frames received from captures and generators");
  const lost = runs.map((run) => sum(run.devices.map(faults)) + sum(run.gone.filter((x) => x.class === "fault").map((x) => x.packets)));
  figure(across(lost, count), "packets lost to a fault or a full queue");
  fill("headline", ...figures);

  const run = runs[0];
  const traffic = run.traffic ? `traffic from ${time(run.traffic.from_ns)} to ${time(run.traffic.to_ns)}` : "no traffic";
  const names = several ? `${runs.map((run) => run.run).join(" → ")} · ` : "";
  const partial = runs.some((run) => run.partial) ? " · interrupted: these are the results so far" : "";
  fill("facts", `${names}${traffic} of ${run.virtual_time ? "virtual" : "real"} time · seed ${run.seed} · Weir ${run.weir}${partial}`);
}

// Selection
// -----------------------------------------------------------------------------------------

const shown = { run: 0, device: bottleneck() };

function choice() {
  if (!several) return;
  const select = (label, options, chosen, change) => {
    const list = make("select", {}, ...options.map(([value, text]) => make("option", { value }, text)));
    list.value = chosen;
    list.addEventListener("change", () => { change(list.value); draw(); });
    return make("label", {}, `${label} `, list);
  };
  const busy = runs[0].devices.filter((d) => runs.some((run) => device(run, d.name)?.series));
  shown.device ??= busy[0]?.name;
  fill("choice",
    select("Plots of", busy.map((d) => [d.name, d.name]), shown.device, (value) => { shown.device = value; }),
    select("Drawing and tables of", runs.map((run, i) => [i, run.run]), shown.run, (value) => { shown.run = Number(value); }));
}

// Topology ------------------------------------------------------------------------------------------

const NODES = 24;

/** Namespaces with traffic, and the pairs of devices that join them. */
function graph(run) {
  const spaceOf = (name) => name.includes("/") ? name.split("/")[0] : "";
  const spaces = new Map();
  const links = [];
  for (const d of run.devices) {
    const space = spaceOf(d.name);
    if (!spaces.has(space)) spaces.set(space, { name: space || "initial", devices: [], traffic: 0 });
    const node = spaces.get(space);
    node.traffic += moved(d);
    const peer = d.link && device(run, d.link);
    if (peer && peer.link === d.name) {
      if (d.name < peer.name) links.push({ a: d, b: peer, from: space, to: spaceOf(peer.name) });
    } else if (d.kind !== "loopback" && moved(d)) {
      node.devices.push(d);
    }
  }
  const linked = new Set(links.flatMap((l) => [l.from, l.to]));
  const all = [...spaces.entries()].filter(([key, node]) => node.traffic || linked.has(key));
  all.sort((a, b) => b[1].traffic - a[1].traffic);
  const kept = new Map(all.slice(0, NODES));
  return { nodes: kept, links: links.filter((l) => kept.has(l.from) && kept.has(l.to)), left: all.length - kept.size };
}

/** Layers by distance from the namespace with most frames from outside. */
function layers({ nodes, links }) {
  const near = new Map([...nodes.keys()].map((key) => [key, []]));
  for (const l of links) if (l.from !== l.to) { near.get(l.from).push(l.to); near.get(l.to).push(l.from); }
  const outside = (key) => sum(nodes.get(key).devices.map((d) => d.rx.packets));
  const rest = [...nodes.keys()].sort((a, b) => (near.get(a).length > 0 ? 0 : 1) - (near.get(b).length > 0 ? 0 : 1) || outside(b) - outside(a));
  const layer = new Map();
  for (const start of rest) {
    if (layer.has(start)) continue;
    layer.set(start, 0);
    for (let queue = [start]; queue.length > 0; queue = queue.flatMap((key) => near.get(key).filter((next) => !layer.has(next) && layer.set(next, layer.get(key) + 1)))) ;
  }
  const result = [];
  for (const [key, at] of layer) (result[at] ??= []).push(key);
  return result;
}

function topology() {
  const run = runs[shown.run];
  const found = graph(run);
  if (found.nodes.size === 0) return fill("topology");
  const width = Math.max(280, Math.min(1088, $("topology").clientWidth));
  const rows = layers(found);
  const across = rows.length * 230 + (rows.length - 1) * 180 <= width;
  const w = across ? 230 : Math.min(230, rows.every((keys) => keys.length === 1) ? width : (width - 20) / 2);
  const fits = Math.max(1, Math.floor((width + 16) / (w + 16)));
  const place = new Map();
  const high = (key) => 30 + 17 * Math.max(1, found.nodes.get(key).devices.length);
  let height = 0;
  if (across) {
    const gap = rows.length > 1 ? (width - w * rows.length) / (rows.length - 1) : 0;
    const column = (keys) => sum(keys.map((key) => high(key) + 20)) - 20;
    height = Math.max(...rows.map(column)) + 16;
    rows.forEach((keys, i) => {
      let y = (height - column(keys)) / 2;
      for (const key of keys) { place.set(key, { x: i * (w + gap), y, h: high(key) }); y += high(key) + 20; }
    });
  } else {
    for (const keys of rows) {
      for (let i = 0; i < keys.length; i += fits) {
        const part = keys.slice(i, i + fits);
        const left = (width - part.length * w - (part.length - 1) * 16) / 2;
        part.forEach((key, n) => place.set(key, { x: left + n * (w + 16), y: height + 8, h: high(key) }));
        height += Math.max(...part.map(high)) + (i + fits < keys.length ? 16 : 74);
      }
    }
    height -= 50;
  }
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Namespaces and the links between them, with rates and drops" });
  const most = Math.max(1, ...found.links.flatMap((l) => [l.a.tx.octets, l.b.tx.octets]));
  const words = found.links.length <= 12;
  const labels = [];
  for (const l of found.links) {
    const [p, q] = [place.get(l.from), place.get(l.to)];
    if (l.from === l.to) continue;
    const [x1, y1, x2, y2] = across
      ? [p.x + (p.x < q.x ? w : 0), p.y + p.h / 2, q.x + (p.x < q.x ? 0 : w), q.y + q.h / 2]
      : [p.x + w / 2, p.y + (p.y < q.y ? p.h : 0), q.x + w / 2, q.y + (p.y < q.y ? 0 : q.h)];
    const half = (d) => d.tx.packets > 0 ? `${d.name.split("/").pop()}: ${rate(bits(d, (d) => d.tx.octets)(run))}` : null;
    const texts = [half(l.a), half(l.b)].filter(Boolean);
    const lost = faults(l.a) + faults(l.b);
    const thick = 1 + 4 * Math.max(l.a.tx.octets, l.b.tx.octets) / most;
    svg.append(make("line", { class: "edge", x1, y1, x2, y2, "stroke-width": thick.toFixed(1) },
      make("title", {}, [`${l.a.name} and ${l.b.name}`, ...texts, lost ? `${count(lost)} lost` : "nothing lost"].join("\n"))));
    if (!words) continue;
    const lines = texts.map((text) => [text, "halo"]);
    if (lost) lines.push([`✕ ${count(lost)} lost`, "halo bad"]);
    const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
    lines.forEach(([text, kind], i) => labels.push(make("text", { class: kind, x, y: y + 4 + (i - (lines.length - 1) / 2) * 16 - (across ? 2 : 0), "text-anchor": "middle" }, text)));
  }
  for (const [key, p] of place) {
    const node = found.nodes.get(key);
    const group = make("g", {}, make("rect", { class: "node", x: p.x + 0.5, y: p.y, width: w - 1, height: p.h, rx: 8 }),
      make("text", { x: p.x + 10, y: p.y + 19, "font-weight": 650, style: "font-weight:650" }, cut(node.name, (w - 20) / 7)));
    if (node.devices.length === 0) group.append(make("text", { class: "soft", x: p.x + 10, y: p.y + 37 }, "only links"));
    node.devices.forEach((d, i) => {
      const lost = faults(d);
      const text = `${d.name.split("/").pop()} ${brief(d.rx.packets)} in, ${brief(d.tx.packets)} out${lost ? `, ✕ ${brief(lost)}` : ""}`;
      group.append(make("text", { class: lost ? "bad" : "soft", x: p.x + 10, y: p.y + 37 + 17 * i }, make("title", {}, `${d.name}: ${count(d.rx.packets)} packets in, ${count(d.tx.packets)} out, ${count(lost)} lost`), cut(text, (w - 16) / 5.9)));
    });
    svg.append(group);
  }
  svg.append(...labels);
  const more = found.left > 0 ? ` The ${NODES} busiest of ${count(NODES + found.left)} namespaces.` : "";
  fill("topology", make("h2", {}, "Topology"), make("p", { class: "about" }, `Boxes are namespaces with their devices; lines are links with the mean rate of each end while traffic flowed.${more}`), svg);
}

const cut = (text, room) => text.length <= room ? text : `${text.slice(0, Math.max(1, room - 1))}…`;
const brief = (n) => n < 1e4 ? count(n) : inUnit(n, [[1e9, "G"], [1e6, "M"], [1e3, "k"]]).replace("\u00a0", "");

// Over time -----------------------------------------------------------------------------------------

/** The lines of the plots: {name, series, interval}. */
function lines() {
  if (several) {
    return runs.map((run) => ({ name: run.run, run, ...device(run, shown.device) })).filter((d) => d.series).map((d) => ({ name: d.name, label: d.run.run, series: d.series, run: d.run }));
  }
  const busy = runs[0].devices.filter((d) => d.series && d.kind !== "loopback");
  busy.sort((a, b) => b.tx.octets - a.tx.octets);
  return busy.slice(0, 6).map((d) => ({ label: d.name, series: d.series, run: runs[0] }));
}

const charts = [];

/** The key of the colours. */
function key(labels) {
  return make("div", { class: "key" }, ...labels.map((label, i) => {
    const mark = make("i");
    mark.style.borderTopColor = line(i);
    mark.style.borderTopStyle = ["solid", "dashed", "dotted", "dashed", "dashed", "dashed"][i % 6];
    return make("span", {}, mark, label);
  }));
}

function chart(section, title, about, all, get, steps, bars) {
  const runsOfTime = all.map((l) => l.run);
  const step = Math.max(...runsOfTime.map((run) => run.interval_ns)) / SECOND;
  const first = Math.min(...runsOfTime.map((run) => run.traffic?.from_ns ?? 0)) / SECOND;
  const last = Math.max(...runsOfTime.map((run) => run.traffic?.to_ns ?? run.now_ns)) / SECOND;
  const from = Math.max(0, Math.floor(first / step));
  const ends = Math.max(from + 2, Math.ceil(last / step) + 1);
  const xs = Array.from({ length: ends - from }, (_, i) => (i + from) * step);
  const columns = all.map((l) => {
    const own = l.run.interval_ns / SECOND;
    const values = get(l.series, own);
    return xs.map((x) => values[Math.round(x / own)] ?? 0);
  });
  const most = Math.max(0, ...columns.flat());
  if (most === 0) return false;
  const [factor, name] = unit(most, steps);
  const data = [xs, ...columns.map((ys) => ys.map((y) => y / factor))];
  const box = make("div", { class: "chart" });
  const tip = make("div", { class: "tip", role: "status" });
  section.append(make("h3", {}, `${title}, ${name}`), about ? make("p", { class: "about" }, about) : "", key(all.map((l) => l.label)), box);
  const width = section.clientWidth || 600;
  const wide = width >= 640;
  const axis = (extra) => ({ stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui", ...extra });
  const plot = new uPlot({
    width, height: 220, padding: [8, wide ? 120 : 12, 0, 0], legend: { show: false },
    scales: { x: { time: false, range: [xs[0], xs[xs.length - 1]] }, y: { range: (_, low, high) => [0, (high || 1) * 1.05] } },
    cursor: { sync: { key: "time" }, y: false, points: { size: 6 } },
    series: [{}, ...all.map((l, i) => ({ label: l.label, stroke: line(i), fill: bars ? line(i) : undefined, width: bars ? 0 : 2, dash: bars ? undefined : DASHES[i % 6], points: { show: false }, paths: bars ? uPlot.paths.bars({ size: [0.9 / all.length], align: 1 }) : uPlot.paths.stepped({ align: 1 }) }))],
    axes: [axis({ label: "time, s", labelSize: 18, labelFont: "12px system-ui", size: 32 }), axis({ size: 58, values: (_, ticks) => ticks.map((t) => digits(t)) })],
    hooks: { draw: [wide ? (u) => endLabels(u, all) : () => {}], setCursor: [(u) => tell(u, tip, all, name)] },
  }, data, box);
  box.append(tip);
  box.addEventListener("mouseleave", () => { tip.style.display = "none"; });
  charts.push(plot);
  return true;
}

/** Labels at the ends of the lines, spaced so that they do not overlap. */
function endLabels(u, all) {
  const scale = devicePixelRatio;
  const at = all.map((l, i) => ({ label: l.label, i, y: u.valToPos(u.data[i + 1].at(-2) ?? 0, "y", true) }));
  at.sort((a, b) => a.y - b.y);
  for (let i = 1; i < at.length; i++) at[i].y = Math.max(at[i].y, at[i - 1].y + 14 * scale);
  const over = at.length ? Math.max(0, at.at(-1).y - (u.bbox.top + u.bbox.height)) : 0;
  u.ctx.save();
  u.ctx.font = `${12 * scale}px system-ui`;
  u.ctx.textBaseline = "middle";
  u.ctx.textAlign = "left";
  for (const one of at) {
    u.ctx.fillStyle = line(one.i);
    u.ctx.fillText(cut(one.label, 17), u.bbox.left + u.bbox.width + 6 * scale, one.y - over);
  }
  u.ctx.restore();
}

function tell(u, tip, all, name) {
  const at = u.cursor.idx;
  if (at == null || u.cursor.left < 0) { tip.style.display = "none"; return; }
  const rows = all.map((l, i) => make("div", {}, `${l.label}: ${digits(u.data[i + 1][at] ?? 0)} ${name}`));
  tip.replaceChildren(make("div", { class: "soft" }, `${digits(u.data[0][at])} s`), ...rows);
  tip.style.display = "block";
  const left = u.cursor.left + 70;
  tip.style.left = `${left + tip.offsetWidth > u.width ? Math.max(0, left - tip.offsetWidth - 24) : left}px`;
  tip.style.top = "12px";
}

function series() {
  while (charts.length > 0) charts.pop().destroy();
  const section = $("series");
  const all = lines();
  if (all.length === 0 || !all[0].run.interval_ns) return fill("series");
  fill("series", make("h2", {}, several ? `Over time at ${shown.device}` : "Over time"),
    make("p", { class: "about" }, several ? `A line for each run; all plots share the time axis.` : "The busiest devices; all plots share the time axis."));
  const per = (column) => (s, own) => s[column].map((n) => n * 8 / own);
  const plain = [[1e9, "billion packets"], [1e6, "million packets"], [1e4, "thousand packets"], [1, "packets"]].map(([f, n]) => [n.startsWith("thousand") ? 1e3 : f, n]);
  chart(section, "Sent", "", all, per("tx_octets"), RATE, false);
  const octets = (column) => Math.max(...all.map((l) => sum(l.series[column])));
  if (octets("rx_octets") > octets("tx_octets") / 100) chart(section, "Received", "", all, per("rx_octets"), RATE, false);
  chart(section, "Waiting in the qdiscs", "The most in each interval.", all, (s) => s.waiting, plain, false);
  const dropped = chart(section, "Dropped in each interval", "", all, (s) => s.drops, plain, true);
  if (!dropped) section.append(make("h3", {}, "Dropped"), make("p", { class: "about" }, "Nothing was dropped here."));
}

// Waits by flow -------------------------------------------------------------------------------------

/** Flows whose packets waited: the label of each, and its quantiles in each run. */
function flows() {
  const rows = new Map();
  const add = (label, run, sojourn) => {
    if (!rows.has(label)) rows.set(label, { label, most: 0, of: [] });
    const row = rows.get(label);
    row.most = Math.max(row.most, sojourn.p95_ns);
    row.of.push({ run, ...sojourn });
  };
  for (const run of runs) {
    for (const d of several ? [device(run, shown.device)] : run.devices) {
      for (const flow of (d?.flows ?? []).filter((flow) => flow.sojourn.max_ns > 0)) {
        add(several ? flow.name : `${d.name}: ${flow.name}`, run, flow.sojourn);
      }
    }
  }
  return [...rows.values()].sort((a, b) => b.most - a.most);
}

function waits() {
  const all = flows();
  const rows = all.slice(0, 24);
  if (rows.length === 0) return fill("waits");
  const width = Math.max(280, Math.min(1088, $("waits").clientWidth));
  const names = width < 640 ? 0 : 340;
  const [left, right] = [names + 12, width - 24];
  const quantiles = rows.flatMap((row) => row.of);
  const low = Math.floor(Math.log10(Math.max(1e3, Math.min(...quantiles.map((q) => q.p50_ns)))));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...quantiles.map((q) => q.p95_ns), 10))));
  const x = (ns) => left + (right - left) * (Math.min(high, Math.max(low, Math.log10(Math.max(ns, 1)))) - low) / (high - low);
  const row_height = (row) => (names ? 10 : 26) + 14 * row.of.length;
  const height = sum(rows.map(row_height)) + 36;
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Median and 95th percentile of the wait by flow" });
  const every = Math.ceil(60 * (high - low) / (right - left));
  for (let power = low; power <= high; power++) {
    const at = x(10 ** power);
    svg.append(make("line", { class: "tick", x1: at, x2: at, y1: 4, y2: height - 24 }));
    if ((high - power) % every > 0) continue;
    svg.append(make("text", { class: "soft", x: at, y: height - 8, "text-anchor": power === low && !names ? "start" : "middle" }, `${power === low ? "≤ " : ""}${time(10 ** power)}`));
  }
  let top = 4;
  for (const row of rows) {
    svg.append(make("text", { x: names ? 0 : left, y: names ? top + row_height(row) / 2 + 4 : top + 14 }, make("title", {}, row.label), cut(row.label, names ? 50 : (right - left) / 6.6)));
    row.of.forEach((q, i) => {
      const y = top + (names ? 5 : 21) + 14 * i + 7;
      const own = line(runs.indexOf(q.run));
      const title = `${row.label}${several ? ` · ${q.run.run}` : ""}: ${count(q.packets)} packets, median ${time(q.p50_ns)}, 95% ${time(q.p95_ns)}, 99% ${time(q.p99_ns)}, longest ${time(q.max_ns)}`;
      svg.append(make("g", {}, make("title", {}, title),
        make("line", { x1: x(q.p50_ns), x2: x(q.p95_ns), y1: y, y2: y, stroke: own, "stroke-width": 3, "stroke-dasharray": DASHES[runs.indexOf(q.run) % 6].join(" ") }),
        make("circle", { cx: x(q.p50_ns), cy: y, r: 5, fill: own }),
        make("rect", { x: x(q.p95_ns) - 2, y: y - 6, width: 4, height: 12, fill: own })));
    });
    top += row_height(row);
  }
  const where = several ? `at ${shown.device}` : "by device and flow";
  const few = rows.length < all.length ? ` The ${rows.length} of ${count(all.length)} that waited longest.` : "";
  fill("waits", make("h2", {}, `How long packets wait, ${where}`),
    make("p", { class: "about" }, `A dot is the median, a bar the 95th percentile; the axis is logarithmic. A packet waits from its arrival at the root qdisc to its departure.${few}`),
    several ? key(runs.map((run) => run.run)) : null, svg);
}

// Tables --------------------------------------------------------------------------------------------

/** Columns are [heading, get, isNumber]. */
function table(id, title, about, rows, columns) {
  if (rows.length === 0) return fill(id);
  const head = make("tr", {}, ...columns.map(([text, , number]) => make("th", number ? { class: "number", scope: "col" } : { scope: "col" }, text)));
  const body = rows.map((row) => make("tr", {}, ...columns.map(([text, get, number]) => make("td", { "data-label": text, ...(number ? { class: "number" } : {}) }, String(get(row))))));
  fill(id, make("h2", {}, title), about ? make("p", { class: "about" }, about) : null, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

const MEANING = { fault: "a fault", rule: "a rule", "not-for-us": "not for this host" };

function tables() {
  const run = runs[shown.run];
  const of = several ? ` of ${run.run}` : "";
  const drops = run.devices.flatMap((d) => d.drops.map((x) => ({ device: d.name, ...x })));
  drops.push(...run.gone.map((x) => ({ device: "gone", ...x })));
  drops.sort((a, b) => b.packets - a.packets);
  table("drops", `Drops${of}`, "", drops.slice(0, 100), [
    ["Packets", (x) => count(x.packets), true], ["Device", (x) => x.device], ["Place", (x) => x.place], ["Reason", (x) => x.reason], ["What it means", (x) => x.meaning ?? ""], ["Kind", (x) => MEANING[x.class]]]);
  const busy = run.devices.filter((d) => moved(d) > 0);
  table("devices", `Devices${of}`, busy.length > 100 ? `The first 100 of ${count(busy.length)} with traffic.` : "", busy.slice(0, 100), [
    ["Device", (d) => d.name], ["Kind", (d) => d.kind], ["Packets in", (d) => count(d.rx.packets), true], ["Rate in", (d) => rate(bits(d, (d) => d.rx.octets)(run)), true],
    ["Packets out", (d) => count(d.tx.packets), true], ["Rate out", (d) => rate(bits(d, (d) => d.tx.octets)(run)), true], ["Lost", (d) => count(faults(d)), true]]);
  const queues = run.devices.flatMap((d) => d.qdiscs.flatMap((q) => [
    { at: d.name, what: `${q.kind} ${q.handle}`, ...q, sojourn: q.parent === "root" ? d.sojourn : null },
    ...q.classes.filter((c) => c.packets || c.drops).map((c) => ({ at: d.name, what: `class ${c.classid}`, ...c }))]));
  table("queues", `Qdiscs and classes${of}`, "", queues.filter((q) => (q.packets ?? 0) + q.drops > 0).slice(0, 200), [
    ["Device", (q) => q.at], ["Qdisc or class", (q) => q.what], ["Packets", (q) => count(q.packets ?? 0), true], ["Drops", (q) => count(q.drops), true], ["Over limit", (q) => count(q.overlimits), true],
    ["Median wait", (q) => q.sojourn ? time(q.sojourn.p50_ns) : "–", true], ["95% wait", (q) => q.sojourn ? time(q.sojourn.p95_ns) : "–", true]]);
}

// Drawing -------------------------------------------------------------------------------------------

function draw() {
  topology();
  series();
  waits();
  tables();
}

headline();
choice();
draw();
let width = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === width) return;
  width = document.documentElement.clientWidth;
  draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
