// The cluster: its TaskManagers with their slots and buffers, its process with its memory, its log, its threads.

import { request, requestText } from "./api.js";
import { AskedView } from "./asked_view.js";
import { h } from "./dom.js";
import { bytes, clock, number } from "./format.js";
import { cells, table } from "./table.js";

const ASK_AGAIN_MS = 3000;
const SHOWN = 50;
const LINES = 200;
const BUFFERS = "Status.Shuffle.Netty.";
const MEMORY = "Status.JVM.Memory.";
const OF_TASK_MANAGER = ["numRunningTasks", `${BUFFERS}UsedMemorySegments`, `${BUFFERS}TotalMemorySegments`];
const OF_PROCESS = [
  "Status.Python.Memory.Resident.Used", "Status.Python.Threads.Count", `${MEMORY}Heap.Used`, `${MEMORY}Heap.Max`,
  `${MEMORY}NonHeap.Used`, "Status.JVM.Threads.Count",
];

export class Cluster extends AskedView {
  constructor(redraw) {
    super(redraw, ASK_AGAIN_MS);
    this.threads = null;
    this.threadsAt = null;
  }

  title() {
    return "Cluster";
  }

  async look() {
    const { taskmanagers: all } = await request("/taskmanagers");
    const [process, log, ...metrics] = await Promise.all([
      measured("/jobmanager", OF_PROCESS), requestText("/jobmanager/log"),
      ...all.slice(0, SHOWN).map(({ id }) => measured(`/taskmanagers/${encodeURIComponent(id)}`, OF_TASK_MANAGER)),
    ]);
    return { all, process, log, metrics };
  }

  async dump() {
    try {
      this.threads = (await request("/jobmanager/thread-dump")).threadInfos;
      this.threadsAt = Date.now();
    } catch (failure) {
      this.failure = failure.message;
    }
    this.redraw();
  }

  render() {
    this.update();
    const head = h("div", { class: "head" }, h("h1", {}, "Cluster"));
    if (this.failure !== null) return [head, h("p", { class: "empty" }, this.failure)];
    if (this.found === null) return [head, h("p", { class: "empty" }, "Asking …")];
    const { all, process, log, metrics } = this.found;
    return [head, panel("TaskManagers", taskManagers(all, metrics)), panel("Process", facts(process)),
      panel("Log", logged(log)), panel("Threads", this.dumped())];
  }

  dumped() {
    return [
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => this.dump() }, this.threads === null ? "Look" : "Look again"),
        this.threadsAt === null ? null : h("span", { class: "facts" }, `seen at ${clock(this.threadsAt)}`)),
      (this.threads ?? []).map((each, place) => h("details", { key: `${place}-${each.threadName}` },
        h("summary", {}, h("span", { class: "toggle" }, each.threadName)), text(each.stringifiedThreadInfo))),
    ];
  }
}

async function measured(path, names) {
  const told = await request(`${path}/metrics?get=${names.join(",")}`);
  return new Map(told.map(({ id, value }) => [id, Number(value)]));
}

function panel(name, content) {
  const id = `section-${name.toLowerCase()}`;
  return h("section", { class: "panel", key: name, "aria-labelledby": id }, h("h2", { id }, name), content);
}

function taskManagers(all, metrics) {
  if (!all.length) return h("p", { class: "empty" }, "None is registered.");
  const rows = metrics.map((found, place) => {
    const [tasks, used, total] = OF_TASK_MANAGER.map((name) => found.get(name));
    const { id, slotsNumber, freeSlots } = all[place];
    return h("tr", { key: id }, cells(id, `${number(freeSlots)} of ${number(slotsNumber)} free`, number(tasks ?? 0),
      total === undefined ? number(used ?? 0) : `${number(used ?? 0)} of ${number(total)}`,
      budget(all[place]).map((part) => h("div", {}, part))));
  });
  const left = all.length - rows.length;
  return [table("TaskManagers", ["TaskManager", "Slots", "Tasks", "Network buffers in use", "Declared"], rows),
    left > 0 ? h("p", { class: "facts" }, `and ${number(left)} more TaskManagers`) : null];
}

// What a TaskManager has declared, and what no slot has of it.
function budget({ totalResource: total, freeResource: free, memoryConfiguration: memory }) {
  const parts = [
    total.cpuCores && `${free.cpuCores} of ${total.cpuCores} cores free`,
    memory.managedMemory && `${mib(free.managedMemory)} of ${bytes(memory.managedMemory)} managed memory free`,
    memory.networkMemory && `${bytes(memory.networkMemory)} for the network`,
    memory.taskHeap && `${mib(free.taskHeapMemory)} of ${bytes(memory.taskHeap)} for the rest free`,
  ].filter(Boolean);
  return parts.length ? parts : ["nothing"];
}

const mib = (value) => bytes(value * 1024 * 1024);

function facts(process) {
  const [resident, threads, heap, most, other, ofJvm] = OF_PROCESS.map((name) => process.get(name));
  const each = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("dl", { class: "pairs wide held" },
    each("Memory of Python", bytes(resident)), each("Threads of Python", number(threads ?? 0)),
    heap === undefined ? null : [
      each("Heap of Spark's JVM", `${bytes(heap)} of ${bytes(most)}`), each("Its other memory", bytes(other)),
      each("Its threads", number(ofJvm ?? 0))]);
}

function logged(log) {
  const lines = log.trimEnd().split("\n");
  if (!log.trim()) return h("p", { class: "empty" }, "Nothing was logged yet.");
  const left = lines.length - LINES;
  return [left > 0 ? h("p", { class: "facts" }, `The last ${LINES} lines; ${number(left)} are before them.`) : null,
    text(lines.slice(-LINES).join("\n"))];
}

const text = (content) => h("pre", { class: "stack", tabindex: "0" }, content.trimEnd());
