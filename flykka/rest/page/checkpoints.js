// Checkpoints as a timeline of bars, one of them in figures, its vertices and their subtasks where they are asked for.

import { request } from "./api.js";
import { h, s } from "./dom.js";
import { bytes, chip, clock, duration, moment, number, words } from "./format.js";
import { cells, table } from "./table.js";

const HEIGHT = 120;
const TOP = 18;
const ROWS = 200;
// What the height of a bar may be.
const MEASURES = {
  Duration: [(each) => each.duration, duration], Size: [(each) => each.size, bytes],
  Written: [(each) => each.written, bytes], "Longest alignment": [(each) => each.alignment, duration],
};

export class Checkpoints {
  constructor(jobId, redraw) {
    this.jobId = jobId;
    this.path = `/jobs/${jobId}/checkpoints/details/`;
    this.redraw = redraw;
    this.measure = "Duration";
    this.pointed = null;
    this.chosen = null;
    this.tasks = null;
    this.status = null;
    this.vertex = null;
    this.failure = null;
  }

  render(job, width) {
    const { history, ...counts } = job.checkpoints;
    if (!history.length) return [h("p", { class: "empty" }, "No checkpoint yet.")];
    const shown = this.shown(history);
    const chosen = history.find(({ id }) => id === this.chosen);
    // What one in progress has measured is told when it has ended.
    if (chosen !== undefined && this.status !== chosen.status) this.askForVertices(chosen);
    return [
      h("p", { class: "facts" },
        `${number(counts.completed)} completed, ${number(counts.failed)} failed, ${counts.inProgress} in progress; `
        + `${duration(counts.averageMs)} on average`
        + (counts.restored === null ? "" : `; restored from ${counts.restored}`)),
      h("label", { class: "choice" }, "Height ", h("select", { onchange: (event) => {
        this.measure = event.target.value;
        this.redraw();
      } }, Object.keys(MEASURES).map((name) => h("option", { selected: name === this.measure }, name)))),
      this.timeline(history, shown, width),
      h("p", { class: "legend" },
        h("span", {}, h("i", { class: "swatch good" }), "completed"),
        h("span", {}, h("i", { class: "swatch bad" }), "✕ failed"),
        h("span", {}, h("i", { class: "swatch busy" }), "in progress"), h("span", {}, "◆ savepoint"),
        h("span", { class: "hint" }, "Arrow keys move, Enter shows vertices.")),
      this.figures(shown),
      this.details(job, shown),
    ];
  }

  shown(history) {
    return history.find(({ id }) => id === (this.pointed ?? this.chosen)) ?? history.at(-1);
  }

  timeline(history, shown, width) {
    const [value, told] = MEASURES[this.measure];
    const most = Math.max(1, ...history.map((each) => value(each) ?? 0));
    const left = 64;
    const step = Math.min(26, (width - left) / history.length);
    const drawn = Math.max(width, 200);
    const lines = [0, 0.5, 1].map((part) => {
      const y = TOP + HEIGHT * (1 - part);
      return [s("line", { class: "grid", x1: left, x2: drawn, y1: y, y2: y }),
        s("text", { class: "axis", x: left - 8, y: y + 4, "text-anchor": "end" }, told(Math.round(most * part)))];
    });
    const bars = history.map((each, place) => {
      const part = value(each) === null || each.status === "IN_PROGRESS" ? null : value(each) / most;
      return this.bar(each, left + place * step, step, part, each === shown);
    });
    return h("div", { class: "timeline", tabindex: "0", role: "listbox", "aria-label": "Checkpoints, the oldest first",
      "aria-activedescendant": `checkpoint-${shown.id}`,
      onkeydown: (event) => this.key(event, history), onmouseleave: () => this.point(null) },
    s("svg", { width: drawn, height: TOP + HEIGHT + 22, role: "presentation" }, lines, bars,
      s("text", { class: "axis", x: left, y: TOP + HEIGHT + 17 }, clock(history[0].at)),
      history.length * step > 170 && s("text", { class: "axis", x: left + history.length * step, y: TOP + HEIGHT + 17,
        "text-anchor": "end" }, clock(history.at(-1).at))));
  }

  // `part` of the height is null of what is not known yet.
  bar(each, x, step, part, isShown) {
    const failed = each.status === "FAILED";
    const tall = part === null ? HEIGHT / 3 : Math.max(3, HEIGHT * part);
    const wide = Math.max(1.5, step - Math.min(4, step / 4));
    const y = TOP + HEIGHT - tall;
    const kind = failed ? "bad" : each.status === "IN_PROGRESS" ? "busy" : "good";
    const mark = failed ? "✕" : each.isSavepoint ? "◆" : "";
    return s("g", { key: each.id, id: `checkpoint-${each.id}`, role: "option", "aria-selected": String(isShown),
      class: `checkpoint ${kind}${isShown ? " shown" : ""}`,
      "aria-label": `${each.isSavepoint ? "Savepoint" : "Checkpoint"} ${each.id}, ${each.status.toLowerCase()}, `
        + duration(each.duration),
      onmouseenter: () => this.point(each.id), onclick: () => this.choose(each.id) },
    s("rect", { class: "reach", x, y: 0, width: step, height: TOP + HEIGHT }),
    s("rect", { class: "fill", x, y, width: wide, height: tall, rx: Math.min(2, wide / 3) }),
    mark && s("text", { class: "mark", x: x + wide / 2, y: y - 4, "text-anchor": "middle" }, mark));
  }

  figures(each) {
    const facts = [
      ["Triggered", moment(each.at)], ["Duration", duration(each.duration)], ["Size", bytes(each.size)],
      ["Written", bytes(each.written)], ["Longest alignment", duration(each.alignment)],
      ["Slowest vertex", each.slowest === null ? "–" : `${each.slowest} (${duration(each.slowestMs)})`],
      ["Acknowledged", `${number(each.acknowledged)} of ${number(each.subtasks)}`],
    ];
    if (each.failure) facts.push(["Failure", each.failure]);
    else if (each.reason !== null) facts.push(["Reason", words(each.reason)]);
    return h("div", { class: "figures" },
      h("h3", {}, `${each.isSavepoint ? "Savepoint" : "Checkpoint"} ${each.id} `, chip(each.status)),
      h("dl", { class: "pairs wide" },
        facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      h("div", { class: "buttons" },
        h("button", { type: "button", "aria-expanded": String(this.chosen === each.id),
          onclick: () => this.choose(this.chosen === each.id ? null : each.id) },
        this.chosen === each.id ? "Hide its vertices" : "Show its vertices"),
        h("a", { class: "story", href: `#/jobs/${this.jobId}/checkpoints/${each.id}` }, "Story")));
  }

  details(job, shown) {
    if (this.chosen === null || shown.id !== this.chosen) return null;
    if (this.failure !== null) return h("p", { class: "empty" }, this.failure);
    if (this.tasks === null) return h("p", { class: "empty" }, "Asking …");
    if (!Object.keys(this.tasks).length) return h("p", { class: "empty" }, "No subtask has acknowledged it yet.");
    const rows = job.vertices.filter(({ id }) => id in this.tasks).map(({ id, name }) => {
      const task = this.tasks[id];
      return h("tr", { key: id }, h("td", { class: "wrap" }, h("button", { class: "plain", type: "button",
        "aria-expanded": String(this.vertex?.id === id), onclick: () => this.open(id) }, name)),
      cells(`${number(task.num_acknowledged_subtasks)} / ${number(task.num_subtasks)}`,
        duration(task.end_to_end_duration), bytes(task.state_size), bytes(task.checkpointed_size),
        bytes(task.processed_data)));
    });
    return h("div", { class: "nested" }, table(`Vertices of checkpoint ${this.chosen}`,
      ["Vertex", "Acknowledged", "Duration", "Size", "Written", "Processed"], rows), this.subtasks(job));
  }

  subtasks(job) {
    if (this.vertex === null) return null;
    const all = this.vertex.subtasks;
    const slow = [...all].sort((a, b) => (b.end_to_end_duration ?? Infinity) - (a.end_to_end_duration ?? Infinity));
    const rows = slow.slice(0, ROWS).map((each) => h("tr", { key: each.index }, cells(
      each.index, each.status, duration(each.end_to_end_duration), bytes(each.state_size),
      duration(each.alignment?.duration), duration(each.start_delay), duration(each.checkpoint?.sync),
      duration(each.checkpoint?.async))));
    const left = all.length - rows.length;
    const { name } = job.vertices.find(({ id }) => id === this.vertex.id);
    const some = left > 0 ? ` (${ROWS} of ${number(all.length)})` : "";
    return [h("h4", {}, `Subtasks of ${name}, the slowest first${some}`),
      table("Subtasks", ["Subtask", "State", "Duration", "Size", "Alignment", "Start delay", "Sync", "Async"], rows)];
  }

  key(event, history) {
    const shown = this.shown(history);
    const at = history.indexOf(shown);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: history.length - 1 }[event.key];
    if (to !== undefined) this.point(history[Math.min(history.length - 1, Math.max(0, to))].id);
    else if (event.key === "Enter" || event.key === " ") this.choose(shown.id);
    else return;
    event.preventDefault();
  }

  point(id) {
    if (this.pointed === id) return;
    this.pointed = id;
    this.redraw();
  }

  choose(id) {
    this.chosen = id;
    this.tasks = this.status = this.vertex = this.failure = null;
    this.redraw();
  }

  async askForVertices({ id, status }) {
    this.status = status;
    await this.ask(`${this.path}${id}`, id, (found) => { this.tasks = found.tasks; });
    if (this.chosen !== id || this.tasks === null || this.vertex !== null) return;
    // What has taken longest is what the reader looks for.
    const took = (vertexId) => this.tasks[vertexId].end_to_end_duration;
    const [slowest] = Object.keys(this.tasks).sort((a, b) => took(b) - took(a));
    if (slowest !== undefined) this.open(slowest);
  }

  async open(vertexId) {
    if (this.vertex?.id === vertexId) {
      this.vertex = null;
      this.redraw();
      return;
    }
    await this.ask(`${this.path}${this.chosen}/subtasks/${encodeURIComponent(vertexId)}`, this.chosen, (found) => {
      this.vertex = { id: vertexId, subtasks: found.subtasks };
    });
  }

  // What comes after another checkpoint was chosen is not shown.
  async ask(path, chosen, take) {
    try {
      const found = await request(path);
      if (this.chosen === chosen) take(found);
    } catch (failure) {
      if (this.chosen === chosen) this.failure = failure.message;
    }
    this.redraw();
  }
}
