// Attempts as bars over time, by TaskManager; of a job with many subtasks those of one vertex.

import { request } from "./api.js";
import { h, s } from "./dom.js";
import { clock, duration, kind, number, words } from "./format.js";
import { Work } from "./work.js";

const ALL_UP_TO = 2000;
const ROW = 14;
const LANES = 24;

export class Attempts {
  constructor(jobId, redraw) {
    this.work = new Work(jobId, redraw);
    this.path = `/jobs/${jobId}/vertices/`;
    this.redraw = redraw;
    this.vertex = "";
    this.found = null;
    this.seen = null;
    this.failure = null;
    this.shown = null;
    this.hasEnded = false;
  }

  // Asked again when the states of tasks or the number of restarts have changed.
  update(job) {
    const many = job.vertices.reduce((sum, each) => sum + each.parallelism, 0) > ALL_UP_TO;
    if (many && !this.vertex) this.vertex = job.vertices[0].id;
    const wanted = job.vertices.filter(({ id }) => !this.vertex || id === this.vertex);
    const seen = JSON.stringify([this.vertex, job.restarts, job.vertices.map(({ tasks }) => tasks)]);
    if (seen === this.seen) return;
    this.seen = seen;
    this.ask(wanted, seen);
  }

  async ask(wanted, seen) {
    try {
      const paths = wanted.map(({ id }) => `${this.path}${encodeURIComponent(id)}/attempts`);
      const found = await Promise.all(paths.map((path) => request(path)));
      if (this.seen !== seen) return;
      this.found = found;
      this.failure = null;
    } catch (failure) {
      this.failure = failure.message;
    }
    this.redraw();
  }

  render(job, width, now) {
    // Its stages are forgotten then.
    this.hasEnded = job.duration !== null;
    if (this.failure !== null) return [h("p", { class: "empty" }, this.failure)];
    if (this.found === null) return [h("p", { class: "empty" }, "Asking …")];
    const all = this.found.flatMap((of) => of.attempts.map((each) => ({ ...each, vertex: of.name, of: of.id })));
    const total = this.found.reduce((sum, each) => sum + each.total, 0);
    const left = total > all.length ? `; the newest ${number(all.length)} are drawn` : "";
    return [
      this.choice(job),
      all.length ? this.drawn(all, width, job.ended ?? now) : h("p", { class: "empty" }, "No attempt yet."),
      h("p", { class: "facts", "aria-live": "polite" },
        this.shown ?? `${number(total)} attempts${left}. Point at one, or move with Tab and arrow keys`
          + (this.hasEnded ? "." : "; a click or Enter shows its last stages.")),
      h("p", { class: "legend" }, ["RUNNING", "FINISHED", "FAILED", "CANCELED"].map((state) =>
        h("span", {}, h("i", { class: `swatch ${kind(state)}` }), words(state).toLowerCase()))),
      this.work.render(),
    ];
  }

  choice(job) {
    const many = job.vertices.reduce((sum, each) => sum + each.parallelism, 0) > ALL_UP_TO;
    return h("label", { class: "choice" }, "Vertex ", h("select", { onchange: (event) => {
      this.vertex = event.target.value;
      this.update(job);
    } }, many ? null : h("option", { value: "" }, "all"),
    job.vertices.map(({ id, name }) => h("option", { value: id, selected: id === this.vertex }, name))));
  }

  drawn(all, width, now) {
    const from = Math.min(...all.map(({ begun }) => begun));
    const until = Math.max(from + 1000, now, ...all.map(({ ended }) => ended ?? 0));
    const left = Math.min(150, width * 0.3);
    const scale = (at) => left + ((at - from) / (until - from)) * (width - left - 4);
    const groups = new Map();
    for (const each of all) {
      const name = each.taskManager ?? "unassigned";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(each);
    }
    let y = 4;
    const parts = [...groups].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })).map(([name, several]) => {
      const lanes = packed(several, until);
      const top = y;
      y += lanes.length * ROW + 12;
      return s("g", { key: name },
        s("line", { class: "grid", x1: 0, x2: width, y1: y - 6, y2: y - 6 }),
        s("text", { class: "axis name", x: 0, y: top + 11 }, name),
        lanes.flatMap((lane, row) => lane.map((each) => this.bar(each, scale, top + row * ROW, until))));
    });
    const ticks = [0, 0.5, 1].map((part) => {
      const at = from + part * (until - from);
      const anchor = ["start", "middle", "end"][part * 2];
      return s("text", { class: "axis", y: y + 12, x: scale(at), "text-anchor": anchor }, clock(at));
    });
    return h("div", { class: "timeline attempts", tabindex: "0", role: "group", "aria-label": "Attempts by TaskManager",
      onkeydown: (event) => move(event), onmouseleave: () => this.show(null) },
    s("svg", { width, height: y + 18, role: "presentation" }, parts, ticks));
  }

  bar(each, scale, y, until) {
    const [x, end] = [scale(each.begun), scale(each.ended ?? until)];
    const state = words(each.state).toLowerCase();
    const label = `${each.vertex}, subtask ${each.subtask}, attempt ${each.number}: ${state}, `
      + `from ${clock(each.begun)} ${each.ended === null ? "on" : `to ${clock(each.ended)}`}, `
      + duration((each.ended ?? until) - each.begun) + (each.failure ? `, ${each.failure}` : "");
    return s("g", { key: `${each.of}/${each.subtask}/${each.number}`, class: `attempt ${kind(each.state)}`,
      tabindex: "-1", role: "button", "aria-label": label, onclick: () => this.hasEnded || this.work.choose(each),
      onmouseenter: () => this.show(label), onfocus: () => this.show(label) },
    s("rect", { x, y, width: Math.max(2, end - x - 1), height: ROW - 3, rx: 2 }),
    each.state === "FAILED" && s("text", { class: "mark", x: Math.max(x, end - 11), y: y + 9 }, "✕"));
  }

  show(label) {
    if (this.shown === label) return;
    this.shown = label;
    this.redraw();
  }
}

// Each in the first lane that is free by then; what finds none lies over the last.
function packed(several, until) {
  const lanes = [];
  const free = [];
  for (const each of several) {
    let lane = free.findIndex((at) => at <= each.begun);
    if (lane < 0) lane = Math.min(lanes.length, LANES - 1);
    (lanes[lane] ??= []).push(each);
    free[lane] = each.ended ?? until;
  }
  return lanes;
}

function move(event) {
  const all = [...event.currentTarget.querySelectorAll(".attempt")];
  if (event.key === "Enter") document.activeElement.dispatchEvent(new MouseEvent("click"));
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const at = all.indexOf(document.activeElement);
  all[Math.min(all.length - 1, Math.max(0, at + step))]?.focus();
}
