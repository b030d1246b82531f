// One job: its figures, graph, checkpoints, attempts and failures.

import { buttons } from "./actions.js";
import { Attempts } from "./attempts.js";
import { Checkpoints } from "./checkpoints.js";
import { h, s } from "./dom.js";
import { Exceptions } from "./exceptions.js";
import { chip, duration, moment, number, rate } from "./format.js";
import { graph } from "./graph.js";
import { Why } from "./why.js";

// Seconds whose mean is the rate of now: a source reads by fits and starts.
const RECENT = 5;

export class Job {
  constructor(id, redraw) {
    this.id = id;
    this.why = new Why(id, redraw);
    this.checkpoints = new Checkpoints(id, redraw);
    this.attempts = new Attempts(id, redraw);
    this.exceptions = new Exceptions(id, redraw);
  }

  path() {
    return `/jobs/${this.id}/events`;
  }

  title(job) {
    return job?.name ?? this.id;
  }

  update(job) {
    this.attempts.update(job);
    this.exceptions.update(job);
  }

  render(job, width, now) {
    const inner = width - 34;
    return [
      h("div", { class: "head" },
        h("h1", {}, job.name, chip(job.state, job.isStopped ? "Stopped" : undefined)),
        job.historyOf === null ? buttons(job) : null),
      facts(job, now),
      section("Graph", graph(job, inner)),
      section("Why", this.why.render(job)),
      section("Checkpoints", this.checkpoints.render(job, inner)),
      section("Attempts", this.attempts.render(job, inner, now)),
      section("Exceptions", this.exceptions.render(job), job.exceptionCount),
    ];
  }
}

function section(name, content, count = 0) {
  const id = `section-${name.toLowerCase()}`;
  return h("section", { class: "panel", key: name, "aria-labelledby": id },
    h("h2", { id }, name, count ? h("span", { class: "count" }, number(count)) : null), content);
}

function facts(job, now) {
  const took = job.duration ?? (job.started === null ? null : now - job.started);
  const each = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const values = job.throughput.values;
  const last = values.slice(-RECENT);
  const recent = last.reduce((sum, value) => sum + (value ?? 0), 0) / Math.max(1, last.length);
  return h("dl", { class: "facts-bar" },
    each("Duration", duration(took)), each("Begun", moment(job.started)), each("Restarts", number(job.restarts)),
    each("Checkpoints", number(job.checkpoints.completed)),
    h("div", { class: "spark" }, h("dt", {}, "Rows read, last minutes"),
      h("dd", {}, job.duration === null ? `${rate(recent)} /s` : `${rate(Math.max(0, ...values))} /s at most`,
        spark(values))),
    job.keptCheckpoint ? each("Can go on from", h("code", {}, job.keptCheckpoint)) : null);
}

function spark(values) {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const step = 160 / Math.max(1, values.length - 1);
  const height = (value) => 27 - 25 * ((value ?? 0) / most);
  const points = values.map((value, place) => `${(place * step).toFixed(1)},${height(value).toFixed(1)}`);
  return s("svg", { width: 160, height: 28, viewBox: "0 0 160 28", "aria-hidden": "true" },
    values.length > 1 && s("polyline", { points: points.join(" ") }));
}
