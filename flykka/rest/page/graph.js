// The graph of a job: vertices in layers, edges behind them.

import { h, s } from "./dom.js";
import { chip, duration, eventTime, number, rate, tasks } from "./format.js";

const WIDTH = 256;
const HEIGHT = 186;
const NARROW = 720;

// A vertex stands one layer behind the last of its inputs; within a layer near the middle of them.
export function layers(vertices, edges) {
  const inputs = new Map(vertices.map(({ id }) => [id, edges.filter((edge) => edge.to === id)]));
  const depth = new Map();
  for (const { id } of vertices) {
    depth.set(id, Math.max(-1, ...inputs.get(id).map((edge) => depth.get(edge.from) ?? -1)) + 1);
  }
  const rows = [];
  for (const vertex of vertices) (rows[depth.get(vertex.id)] ??= []).push(vertex);
  const place = new Map();
  for (const row of rows) {
    const middle = new Map(row.map(({ id }) => {
      const from = inputs.get(id).map((edge) => place.get(edge.from) ?? 0);
      return [id, from.length ? from.reduce((sum, each) => sum + each, 0) / from.length : 0];
    }));
    row.sort((a, b) => middle.get(a.id) - middle.get(b.id));
    row.forEach(({ id }, at) => place.set(id, at - (row.length - 1) / 2));
  }
  return rows;
}

export function graph(job, width) {
  const rows = layers(job.vertices, job.edges);
  const down = width < NARROW;
  const most = Math.max(1, ...rows.map((row) => row.length));
  const gap = down ? 52 : 100;
  const [along, across] = down ? [HEIGHT + gap, WIDTH + 20] : [WIDTH + gap, HEIGHT + 20];
  const at = new Map();
  rows.forEach((row, layer) => row.forEach(({ id }, place) => {
    const [far, side] = [layer * along, (place + (most - row.length) / 2) * across];
    at.set(id, down ? { x: side, y: far } : { x: far, y: side });
  }));
  const [long, wide] = [rows.length * along - gap, most * across - 20];
  const size = down ? { width: wide, height: long } : { width: long, height: wide };
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Graph of the job" },
    h("div", { class: "graph", style: { width: `${size.width}px`, height: `${size.height}px` } },
      s("svg", { width: size.width, height: size.height, "aria-hidden": "true" },
        job.edges.map((edge) => line(at.get(edge.from), at.get(edge.to), down))),
      job.edges.map((edge) => label(edge, at.get(edge.from), at.get(edge.to), down)),
      job.vertices.map((vertex) => card(vertex, at.get(vertex.id), job))));
}

function ends(from, to, down) {
  return down
    ? [from.x + WIDTH / 2, from.y + HEIGHT, to.x + WIDTH / 2, to.y]
    : [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
}

function line(from, to, down) {
  const [x1, y1, x2, y2] = ends(from, to, down);
  const bend = (down ? y2 - y1 : x2 - x1) / 2;
  const [c1, c2] = down ? [`${x1} ${y1 + bend}`, `${x2} ${y2 - bend}`] : [`${x1 + bend} ${y1}`, `${x2 - bend} ${y2}`];
  const tip = down
    ? `M${x2 - 4} ${y2 - 7}L${x2} ${y2}L${x2 + 4} ${y2 - 7}`
    : `M${x2 - 7} ${y2 - 4}L${x2} ${y2}L${x2 - 7} ${y2 + 4}`;
  return s("path", { class: "edge", d: `M${x1} ${y1}C${c1} ${c2} ${x2} ${y2}${tip}` });
}

function label(edge, from, to, down) {
  const [x1, y1, x2, y2] = ends(from, to, down);
  // Near the reader: there edges of one source are apart.
  const [x, y] = down ? [(x1 + x2) / 2, (y1 + y2) / 2] : [x2 - 50, y1 + (y2 - y1) / 2];
  return h("span", { class: "strategy", style: { left: `${x}px`, top: `${y}px` } }, edge.strategy.toLowerCase());
}

function card(vertex, { x, y }, job) {
  const name = vertex.operators.join(" → ") || vertex.name;
  return h("article", { class: "vertex", key: vertex.id, id: `vertex-${vertex.id}`, tabindex: "-1",
    "aria-label": `Vertex ${vertex.name}`,
    style: { left: `${x}px`, top: `${y}px`, width: `${WIDTH}px`, height: `${HEIGHT}px` } },
  h("header", {}, h("h3", { title: name }, name), chip(vertex.state)),
  h("dl", { class: "pairs" },
    pair(vertex.isSource ? "Read" : "In", `${rate(vertex.inPerSecond)} rows/s`, `${number(vertex.rowsIn)} rows in all`),
    vertex.isSink ? pair("Visible", number(vertex.published), `${number(vertex.staged)} wait for a checkpoint`)
      : pair("Out", `${rate(vertex.outPerSecond)} rows/s`, `${number(vertex.rowsOut)} rows in all`),
    pair("Watermark", watermark(vertex), vertex.late ? `${number(vertex.late)} rows came late` : ""),
    pair("Lag", vertex.lag === null ? "–" : duration(vertex.lag))),
  shares(vertex.shares, job.state === "RUNNING"),
  tasks(vertex.tasks));
}

function pair(name, value, more = "") {
  return h("div", { title: more || null }, h("dt", {}, name), h("dd", {}, value));
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
