// The story of a checkpoint, as the recorder holds it: phase by phase, with the turns.

import { request } from "./api.js";
import { h } from "./dom.js";
import { number, words } from "./format.js";
import { table } from "./table.js";

export class Story {
  constructor(jobId, checkpoint, redraw) {
    this.jobId = jobId;
    this.checkpoint = checkpoint;
    this.redraw = redraw;
    this.found = null;
    this.failure = null;
    this.asking = false;
    this.ask();
  }

  path() {
    return `/jobs/${this.jobId}/events`;
  }

  title() {
    return `Story of checkpoint ${this.checkpoint}`;
  }

  parent(job) {
    return [`#/jobs/${this.jobId}`, job?.name ?? this.jobId];
  }

  update() {}

  async ask() {
    this.asking = true;
    try {
      this.found = await request(`/jobs/${this.jobId}/checkpoints/details/${this.checkpoint}/story`);
      this.failure = null;
    } catch (failure) {
      this.failure = failure.message;
    }
    this.asking = false;
    this.redraw();
  }

  render() {
    return [
      h("div", { class: "head" }, h("h1", {}, this.title()), h("div", { class: "buttons" },
        h("button", { type: "button", disabled: this.asking, onclick: () => this.again() },
          this.asking ? "Asking …" : "Tell it again"))),
      h("section", { class: "panel", "aria-label": "Story" }, this.told()),
    ];
  }

  again() {
    this.ask();
    this.redraw();
  }

  told() {
    if (this.failure !== null) return h("p", { class: "empty" }, this.failure);
    if (this.found === null) return h("p", { class: "empty" }, "Asking …");
    const { outcome, notes, steps } = this.found;
    const phases = [...new Set(steps.map(({ phase }) => phase))];
    return [
      h("p", { class: "answer" }, outcome),
      notes.map((note) => h("p", { class: "facts" }, note)),
      table("Steps", ["After", "Turn", "Step"], phases.flatMap((phase) => [
        h("tr", { class: "phase" }, h("th", { colspan: "3", scope: "rowgroup" }, words(phase.toUpperCase()))),
        ...steps.filter((step) => step.phase === phase).map(row)])),
    ];
  }
}

const seconds = (ms) => `+${(ms / 1000).toFixed(3)} s`;

function row(step) {
  return h("tr", { class: step.failed ? "bad" : null },
    h("td", {}, seconds(step.ms)), h("td", {}, number(step.turn)),
    h("td", { class: "wrap long" }, step.failed ? "✕ " : "", step.text));
}
