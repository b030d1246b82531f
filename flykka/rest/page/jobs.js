// The list of jobs.

import { request } from "./api.js";
import { h } from "./dom.js";
import { bytes, chip, duration, moment, number, tasks } from "./format.js";

export class Jobs {
  constructor(redraw) {
    this.redraw = redraw;
    this.cluster = null;
    this.taskManagers = [];
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
    this.taskManagers = (await request("/taskmanagers").catch(() => ({ taskmanagers: this.taskManagers }))).taskmanagers;
    this.redraw();
  }

  render({ jobs, historyOf }, width, now) {
    return [
      h("div", { class: "head" }, h("h1", {}, historyOf === null ? "Jobs" : `History of ${historyOf}`),
        this.slots()),
      this.taskManagers.map(resources),
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

// What a TaskManager has declared, and what no slot has of it; nothing where it has declared nothing.
function resources({ id, totalResource: total, freeResource: free, memoryConfiguration: memory }) {
  const parts = [
    total.cpuCores && `${free.cpuCores} of ${total.cpuCores} cores free`,
    memory.managedMemory && `${mib(free.managedMemory)} of ${bytes(memory.managedMemory)} managed memory free`,
    memory.networkMemory && `${bytes(memory.networkMemory)} for the network`,
    memory.taskHeap && `${mib(free.taskHeapMemory)} of ${bytes(memory.taskHeap)} for the rest free`,
  ].filter(Boolean);
  return parts.length ? h("p", { class: "facts", key: id }, `${id}: ${parts.join(", ")}`) : null;
}

const mib = (value) => bytes(value * 1024 * 1024);

function row(job, now) {
  const took = job.duration ?? (job.started === null ? null : now - job.started);
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("li", { key: job.id }, h("a", { href: `#/jobs/${job.id}`, class: "job" },
    h("span", { class: "title" }, h("strong", {}, job.name), chip(job.state)),
    h("dl", { class: "pairs wide" },
      fact("Begun", moment(job.started)), fact("Duration", duration(took)), fact("Restarts", number(job.restarts)),
      fact("Tasks", tasks(job.tasks)))));
}
