// The failures of a job: of the newest the end of the stack at once, of each all of it where it is opened.

import { request } from "./api.js";
import { h } from "./dom.js";
import { chip, moment, number } from "./format.js";

const HEAD = 2;
const TAIL = 6;

export class Exceptions {
  constructor(jobId, redraw) {
    this.path = `/jobs/${jobId}/exceptions?maxExceptions=20`;
    this.redraw = redraw;
    this.entries = [];
    this.seen = null;
    this.failure = null;
  }

  update(job) {
    const seen = JSON.stringify(job.exceptions);
    if (seen === this.seen) return;
    this.seen = seen;
    if (job.exceptionCount) this.ask(seen);
  }

  async ask(seen) {
    try {
      const found = await request(this.path);
      if (this.seen !== seen) return;
      this.entries = found.exceptionHistory.entries;
      this.failure = null;
    } catch (failure) {
      this.failure = failure.message;
    }
    this.redraw();
  }

  render(job) {
    if (!job.exceptionCount) return [h("p", { class: "empty" }, "None: nothing has failed.")];
    if (this.failure !== null) return [h("p", { class: "empty" }, this.failure)];
    const more = job.exceptionCount - this.entries.length;
    return [
      this.entries.map((entry, place) => one(entry, job.exceptions[place], place === 0)),
      this.entries.length && more > 0 ? h("p", { class: "facts" }, `${number(more)} older ones are not shown.`) : null,
    ];
  }
}

function one(entry, outcome, isNewest) {
  const lines = entry.stacktrace.trimEnd().split("\n");
  const left = lines.length - HEAD - TAIL;
  const short = left > 1 ? [...lines.slice(0, HEAD), `    … ${left} lines …`, ...lines.slice(-TAIL)] : lines;
  return h("article", { class: "failure", key: `${entry.timestamp}-${outcome?.number}` },
    h("header", {}, h("h3", {}, entry.exceptionName), outcome ? chip(outcome.outcome) : null,
      outcome && outcome.times > 1 ? h("span", { class: "count" }, `${outcome.times} times`) : null),
    h("p", { class: "facts" }, [moment(entry.timestamp), entry.taskName, entry.taskManagerId, told(outcome), labels(outcome)]
      .filter(Boolean).join(" · ")),
    outcome?.message ? h("p", { class: "message" }, outcome.message) : null,
    left > 1
      ? h("details", {},
        h("summary", {}, h("span", { class: "toggle" }, "Whole stack"), isNewest && stack(short, "short")),
        stack(lines))
      : stack(lines),
    entry.concurrentExceptions.length ? h("details", {}, h("summary", {},
      `${entry.concurrentExceptions.length} failed with it`),
    entry.concurrentExceptions.map((each) => stack(each.stacktrace.trimEnd().split("\n")))) : null);
}

const stack = (lines, more = "") => h("pre", { class: `stack ${more}`, tabindex: more ? null : "0" }, lines.join("\n"));

function labels(outcome) {
  return Object.entries(outcome?.labels ?? {}).map(([key, value]) => `${key}: ${value}`).join(", ");
}

function told(outcome) {
  if (!outcome) return "";
  if (outcome.whyNot) return outcome.whyNot;
  if (outcome.restartedAt === null) return "";
  return outcome.restored === null ? "restarted from the beginning" : `restarted from checkpoint ${outcome.restored}`;
}
