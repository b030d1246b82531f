// What the recorder of the cluster holds, and the trace of it.

import { download, request } from "./api.js";
import { notice } from "./actions.js";
import { AskedView } from "./asked_view.js";
import { h } from "./dom.js";
import { bytes, moment, number, duration } from "./format.js";

const ASK_AGAIN_MS = 2000;

export class Recorder extends AskedView {
  constructor(redraw) {
    super(redraw, ASK_AGAIN_MS);
    this.writing = false;
  }

  title() {
    return "Recorder";
  }

  async look() {
    return request("/recorder");
  }

  async save() {
    this.writing = true;
    this.redraw();
    try {
      await download("/recorder/trace", "flight-record.trace");
    } catch (failure) {
      notice(`Trace: ${failure.message}`, "bad");
    }
    this.writing = false;
    this.redraw();
  }

  render() {
    this.update();
    return [h("div", { class: "head" }, h("h1", {}, "Recorder")),
      h("section", { class: "panel", "aria-label": "What is held" },
        this.failure !== null ? h("p", { class: "empty" }, this.failure)
          : this.found === null ? h("p", { class: "empty" }, "Asking …") : this.told())];
  }

  told() {
    const found = this.found;
    if (found.kind === "none") {
      return h("p", { class: "empty" }, "This cluster records nothing: it was started with flight_recorder_turns=0.");
    }
    const about = found.kind === "memory"
      ? "The flight recorder keeps the last turns of all actors in memory: each message, and what its turn did."
      : "Every turn of every actor is written to a file: each message, and what its turn did.";
    return [
      h("p", { class: "facts" }, `${about} The story of a checkpoint is told from it, on the page of its job.`),
      h("dl", { class: "pairs wide held" }, facts(found).map(([name, value]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      h("div", { class: "buttons" }, h("button", { class: "primary", type: "button", disabled: this.writing,
        onclick: () => this.save() }, this.writing ? "Writing …" : "Download the trace")),
      h("p", { class: "facts" }, "Read it with ", h("code", {}, "flykka trace show flight-record.trace"), ", or ",
        h("code", {}, "trace stats"), ", ", h("code", {}, "trace story"), ", ", h("code", {}, "trace diagram"),
        replays(found) ? [". All of the run is in it: ", h("code", {}, "flykka replay flight-record.trace"),
          " takes every turn again."]
          : ". The first turns are not in it any more, so it cannot be replayed; what --record or --ring writes can."),
    ];
  }
}

const replays = (found) => found.kind === "file" || found.notKept === 0;

function facts(found) {
  if (found.kind === "file") return [["File", found.path], ["Size", bytes(found.bytes)]];
  return [
    ["Held", `${number(found.records)} turns, of ${number(found.limit)} at most`],
    ["Not kept", found.notKept ? `${number(found.notKept)} before them` : "none"],
    ["From", moment(found.begins)], ["To", moment(found.ends)],
    ["Covers", found.begins === null ? "–" : duration(found.ends - found.begins)],
  ];
}
