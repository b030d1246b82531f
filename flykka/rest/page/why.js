// Why the job makes no progress, or its current work: requested on demand, because every actor of the job is asked.

import { request } from "./api.js";
import { h } from "./dom.js";
import { chip, clock, number, words } from "./format.js";
import { cells, table } from "./table.js";

export class Why {
  constructor(jobId, redraw) {
    this.path = `/jobs/${jobId}/diagnosis`;
    this.redraw = redraw;
    this.found = null;
    this.at = this.then = null;
    this.failure = null;
    this.asking = false;
  }

  async ask(state) {
    if (this.asking) return;
    this.asking = true;
    this.redraw();
    try {
      this.found = await request(this.path);
      this.at = Date.now();
      this.then = state;
      this.failure = null;
    } catch (failure) {
      this.failure = failure.message;
    }
    this.asking = false;
    this.redraw();
  }

  render({ state }) {
    const text = this.asking ? "Asking …" : this.found === null ? "Ask why" : "Ask again";
    return [
      h("div", { "aria-live": "polite" },
        this.failure !== null ? h("p", { class: "empty" }, this.failure)
          : this.found === null ? h("p", { class: "facts" }, "What the job does, or waits for: its actors are asked.")
            : h("p", { class: "answer" }, capital(this.found.answer))),
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => this.ask(state) }, text),
        this.at === null ? null : h("span", { class: "facts" },
          `asked at ${clock(this.at)}`, this.then !== state && `, when the job was ${words(this.then).toLowerCase()}`)),
      this.found === null ? null : [facts(this.found.facts), attempts(this.found)],
    ];
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function facts(all) {
  return h("dl", { class: "labelled" }, all.map(([label, text]) =>
    [h("dt", {}, label ? capital(label) : ""), h("dd", {}, text)]));
}

function attempts({ attempts: all, leftOut }) {
  if (!all.length) return null;
  const rows = all.map((each) => h("tr", { key: each.name },
    h("td", { class: "wrap" },
      h("button", { class: "plain", type: "button", onclick: () => goTo(each.vertex) }, each.name)),
    h("td", {}, chip(each.state)),
    cells(each.taskManager, each.is, each.for),
    h("td", { class: "wrap" }, each.waitsFor)));
  return [table("Tasks and what they wait for", ["Task", "State", "On", "Is", "For", "Waits for"], rows),
    leftOut ? h("p", { class: "facts" }, `and ${number(leftOut)} more tasks`) : null];
}

// The card of a vertex, in the graph.
function goTo(vertex) {
  const card = document.getElementById(`vertex-${vertex}`);
  card.scrollIntoView({ block: "center", inline: "center" });
  card.focus();
}
