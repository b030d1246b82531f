// The last work of the newest attempt of a subtask: its stages, snapshots and commits, with the Spark jobs of each.

import { request } from "./api.js";
import { h } from "./dom.js";
import { clock, duration, number } from "./format.js";
import { cells, table } from "./table.js";

export class Work {
  constructor(jobId, redraw) {
    this.path = `/jobs/${jobId}/vertices/`;
    this.redraw = redraw;
    this.chosen = null;
    this.found = null;
    this.failure = null;
  }

  choose(attempt) {
    this.chosen = attempt;
    this.found = this.failure = null;
    if (attempt !== null) this.ask();
    this.redraw();
  }

  async ask() {
    const chosen = this.chosen;
    try {
      const found = await request(`${this.path}${encodeURIComponent(chosen.of)}/subtasks/${chosen.subtask}/work`);
      if (this.chosen !== chosen) return;
      this.found = found;
      this.failure = null;
    } catch (failure) {
      if (this.chosen !== chosen) return;
      this.failure = failure.message;
    }
    this.redraw();
  }

  render() {
    if (this.chosen === null) return null;
    const { vertex, subtask } = this.chosen;
    return h("div", { class: "figures", id: "work" },
      h("h3", {}, `Work of ${vertex}, subtask ${subtask}, newest attempt`),
      h("div", { "aria-live": "polite" }, this.told()),
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => this.ask() }, "Ask again"),
        h("button", { type: "button", onclick: () => this.choose(null) }, "Hide it")));
  }

  told() {
    if (this.failure !== null) return h("p", { class: "empty" }, capital(this.failure));
    if (this.found === null) return h("p", { class: "empty" }, "Asking …");
    const { sparkUi, work } = this.found;
    if (!work.length) return h("p", { class: "empty" }, "It has not begun to work.");
    return [
      table("Stages, snapshots and commits, the newest first",
        ["What", "Begun", "Duration", "Rows in", "Rows out", "Spark jobs"], work.map((each) => row(each, sparkUi))),
      h("p", { class: "facts" }, sparkUi === null
        ? "Spark's own page is off: with spark.ui.enabled the Spark jobs are links to it."
        : ["Spark's own page: ", h("a", { href: sparkUi, target: "_blank", rel: "noreferrer" }, sparkUi)]),
    ];
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const rows = (value) => (value === null ? "–" : number(value));

function row(each, sparkUi) {
  const jobs = each.sparkJobs.map((id, place) => [place ? ", " : "", sparkUi === null ? String(id)
    : h("a", { href: `${sparkUi}/jobs/job/?id=${id}`, target: "_blank", rel: "noreferrer" }, String(id))]);
  const state = each.took === null ? "at work" : `${duration(each.took)}${each.failed ? " ✕ failed" : ""}`;
  return h("tr", { class: each.failed ? "bad" : null },
    h("td", { class: "wrap" }, each.what),
    cells(clock(each.begun), state, rows(each.rowsIn), rows(each.rowsOut), jobs.length ? jobs : "–"));
}
