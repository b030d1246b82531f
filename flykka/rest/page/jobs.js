// The list of jobs.

import { request } from "./api.js";
import { h } from "./dom.js";
import { chip, duration, moment, number, tasks } from "./format.js";

export class Jobs {
  constructor(redraw) {
    this.redraw = redraw;
    this.cluster = null;
  }

  path() {
    return "/events";
  }

  title() {
    return null;
  }

  async update({ historyOf }) {
    if (historyOf !== null) return;
    this.cluster = await request("/overview").catch(() => this.cluster);
    this.redraw();
  }

  render({ jobs, historyOf }, width, now) {
    return [
      h("div", { class: "head" }, h("h1", {}, historyOf === null ? "Jobs" : `History of ${historyOf}`),
        this.slots()),
      jobs.length ? h("ul", { class: "jobs" }, jobs.map((job) => row(job, now)))
        : h("p", { class: "empty" }, historyOf === null ? "No job yet." : "No archive of a job yet."),
    ];
  }

  slots() {
    if (this.cluster === null) return null;
    const { taskmanagers, "slots-available": free, "slots-total": total } = this.cluster;
    return h("p", { class: "facts" }, `${number(taskmanagers)} ${taskmanagers === 1 ? "TaskManager" : "TaskManagers"}, `
      + `${number(free)} of ${number(total)} slots free`);
  }
}

function row(job, now) {
  const took = job.duration ?? (job.started === null ? null : now - job.started);
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("li", { key: job.id }, h("a", { href: `#/jobs/${job.id}`, class: "job" },
    h("span", { class: "title" }, h("strong", {}, job.name), chip(job.state)),
    h("dl", { class: "pairs wide" },
      fact("Begun", moment(job.started)), fact("Duration", duration(took)), fact("Restarts", number(job.restarts)),
      fact("Tasks", tasks(job.tasks)))));
}
