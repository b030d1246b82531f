// The graph of a job: vertices in layers, edges between them.

import { h, s } from "./dom.js";
import { chip, clock, duration, eventTime, number, rate, tasks } from "./format.js";

const WIDTH = 256;
const HEIGHT = 186;
const NARROW = 720;

// Of an edge that passes layers by: a place of its own in each of them, so that it runs behind no vertex.
const PASSING = 0.2;

// Places of vertices, and of edges on their way: a vertex stands one layer behind the last of its inputs, and across
// near the middle of them; sides are counted in vertices.
export function layout(vertices, edges) {
  const depth = new Map();
  for (const { id } of vertices) {
    const before = edges.filter((edge) => edge.to === id).map((edge) => depth.get(edge.from) ?? -1);
    depth.set(id, Math.max(-1, ...before) + 1);
  }
  const rows = [];
  const inputs = new Map();
  const put = (id, layer, size) => (rows[layer] ??= []).push({ id, size });
  for (const { id } of vertices) put(id, depth.get(id), 1);
  const ways = edges.map((edge, place) => {
    const way = [edge.from];
    for (let layer = depth.get(edge.from) + 1; layer < depth.get(edge.to); layer += 1) {
      way.push(`${place} passes ${layer}`);
      put(way.at(-1), layer, PASSING);
    }
    way.push(edge.to);
    way.slice(1).forEach((id, at) => inputs.set(id, [...(inputs.get(id) ?? []), way[at]]));
    return way;
  });
  const side = new Map();
  const wanted = (id, place) => mean(inputs.get(id)?.map((from) => side.get(from)) ?? [place]);
  for (const row of rows) arrange(row, wanted, side);
  const first = Math.min(...side.values());
  const spots = new Map(rows.flatMap((row, layer) => row.map(({ id }) => [id, { layer, side: side.get(id) - first }])));
  return { layers: rows.length, spots, ways };
}

const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;

// As near as may be to where each wants to be, none over another.
function arrange(row, wanted, side) {
  const wishes = new Map(row.map(({ id }, place) => [id, wanted(id, place)]));
  row.sort((a, b) => wishes.get(a.id) - wishes.get(b.id));
  let free = -Infinity;
  for (const { id, size } of row) {
    const at = Math.max(wishes.get(id), free + size / 2);
    side.set(id, at);
    free = at + size / 2;
  }
  const off = mean(row.map(({ id }) => side.get(id) - wishes.get(id)));
  for (const { id } of row) side.set(id, side.get(id) - off);
}

export function graph(job, width) {
  const { layers, spots, ways } = layout(job.vertices, job.edges);
  const down = width < NARROW;
  const gap = down ? 52 : 100;
  const [along, across] = down ? [HEIGHT + gap, WIDTH + 20] : [WIDTH + gap, HEIGHT + 20];
  const at = new Map([...spots].map(([id, { layer, side }]) =>
    [id, down ? { x: side * across, y: layer * along } : { x: layer * along, y: side * across }]));
  const most = Math.max(...[...spots.values()].map(({ side }) => side)) + 1;
  const [long, wide] = [layers * along - gap, most * across - 20];
  const size = down ? { width: wide, height: long } : { width: long, height: wide };
  const hops = ways.map((way) => way.slice(1).map((id, place) => [at.get(way[place]), at.get(id)]));
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Graph of the job" },
    h("div", { class: "graph", style: { width: `${size.width}px`, height: `${size.height}px` } },
      s("svg", { width: size.width, height: size.height, "aria-hidden": "true" }, hops.map((way) => line(way, down))),
      job.edges.map((edge, place) => label(edge, ...hops[place].at(-1), down)),
      job.vertices.map((vertex) => card(vertex, at.get(vertex.id)))));
}

function ends(from, to, down) {
  return down
    ? [from.x + WIDTH / 2, from.y + HEIGHT, to.x + WIDTH / 2, to.y]
    : [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
}

function line(way, down) {
  let path = "";
  for (const [from, to] of way) {
    const [x1, y1, x2, y2] = ends(from, to, down);
    const bend = (down ? y2 - y1 : x2 - x1) / 2;
    const [c1, c2] = down ? [`${x1} ${y1 + bend}`, `${x2} ${y2 - bend}`] : [`${x1 + bend} ${y1}`, `${x2 - bend} ${y2}`];
    // Straight past a layer.
    path += `${path ? "L" : "M"}${x1} ${y1}C${c1} ${c2} ${x2} ${y2}`;
  }
  const [, , x, y] = ends(...way.at(-1), down);
  path += down ? `M${x - 4} ${y - 7}L${x} ${y}L${x + 4} ${y - 7}` : `M${x - 7} ${y - 4}L${x} ${y}L${x - 7} ${y + 4}`;
  return s("path", { class: "edge", d: path });
}

function label(edge, from, to, down) {
  const [x1, y1, x2, y2] = ends(from, to, down);
  // Near the reader: there edges of one source are apart.
  const [x, y] = down ? [(x1 + x2) / 2, (y1 + y2) / 2] : [x2 - 50, y1 + (y2 - y1) / 2];
  return h("span", { class: "strategy", style: { left: `${x}px`, top: `${y}px` } }, edge.strategy.toLowerCase());
}

function card(vertex, { x, y }) {
  const name = vertex.operators.join(" → ") || vertex.name;
  return h("article", { class: "vertex", key: vertex.id, id: `vertex-${vertex.id}`, tabindex: "-1",
    "aria-label": `Vertex ${vertex.name}`,
    style: { left: `${x}px`, top: `${y}px`, width: `${WIDTH}px`, height: `${HEIGHT}px` } },
  h("header", {}, h("h3", { title: name }, name), chip(vertex.state)),
  h("dl", { class: "pairs" },
    moved(vertex.isSource ? "Read" : "In", vertex, vertex.inPerSecond, vertex.rowsIn),
    vertex.isSink ? pair("Visible", number(vertex.published), `${number(vertex.staged)} wait for a checkpoint`)
      : moved("Out", vertex, vertex.outPerSecond, vertex.rowsOut),
    pair("Watermark", watermark(vertex), [heldBack(vertex.heldBackBy),
      vertex.late ? `${number(vertex.late)} rows came late` : ""].filter(Boolean).join("; ")),
    pair("Lag", vertex.lag === null ? "–" : duration(vertex.lag))),
  shares(vertex.shares, Boolean(vertex.tasks.RUNNING)),
  tasks(vertex.tasks));
}

// The rate while some of it runs, and all rows where nothing does.
function moved(name, vertex, perSecond, total) {
  const all = `${number(total)} rows`;
  return vertex.tasks.RUNNING ? pair(name, `${rate(perSecond)} rows/s`, `${all} in all`) : pair(name, all);
}

function pair(name, value, more = "") {
  return h("div", { title: more || null }, h("dt", {}, name), h("dd", {}, value));
}

// Event time stands still for what has been silent.
function heldBack(by) {
  if (!by) return "";
  const what = by.partition ? `partition ${by.partition} of subtask ${by.subtask}` : `subtask ${by.subtask}`;
  return `waits for ${what}, silent since ${clock(by.since)}`;
}

function watermark(vertex) {
  if (vertex.eventTimeEnded) return "end of input";
  return vertex.watermark === null ? "none yet" : eventTime(vertex.watermark);
}

// Three shares of time: each has a pattern of its own, and its figure in words.
function shares(parts, runs) {
  if (parts === null) return h("p", { class: "shares none" }, runs ? "not measured yet" : "not running");
  const names = ["busy", "blocked", "idle"];
  const text = parts.map((part, place) => `${names[place]} ${Math.round(part * 100)} %`);
  return h("div", { class: "shares", title: "Shares of the last seconds; blocked is back-pressured" },
    h("div", { class: "bar", "aria-hidden": "true" },
      parts.map((part, place) => h("span", { class: names[place], style: { "flex-grow": String(part) } }))),
    h("span", { class: "words" }, text.map((each, place) => h("span", {}, h("i", { class: names[place] }), each))));
}
