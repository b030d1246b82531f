// What the address names is shown, and drawn again when an event comes.

import { follow, takeToken } from "./api.js";
import { Cluster } from "./cluster.js";
import { h, show } from "./dom.js";
import { clock } from "./format.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";
import { Recorder } from "./recorder.js";
import { Story } from "./story.js";

const main = document.getElementById("main");
const link = document.getElementById("link");
const trail = document.getElementById("trail");
// A window may have no width for a moment.
const NARROWEST = 280;
let view = null;
let event = null;
let offset = 0;
let lostAt = null;
let stop = () => {};
let drawing = false;

// Many causes of one frame are one drawing.
function redraw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    draw();
  });
}

function draw() {
  const title = view.title(event);
  const above = title === null ? [] : [["#/", "Jobs"], ...(view.parent ? [view.parent(event)] : [])];
  show(trail, above.map(([href, name]) => [h("a", { href }, name), h("span", { "aria-hidden": "true" }, "/")]),
    title === null ? null : h("span", { "aria-current": "page" }, title));
  document.title = title === null ? "flykka" : `${title} · flykka`;
  if (event === null) return;
  const style = getComputedStyle(main);
  const width = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  show(main, view.render(event, Math.max(NARROWEST, Math.floor(width)), (lostAt ?? Date.now()) + offset));
}

function setLink(state, text = "") {
  // What is shown stays that of then.
  lostAt = state === "live" ? null : lostAt ?? Date.now();
  link.className = `link ${state}`;
  link.textContent = state === "live" ? "● live" : `○ no connection since ${clock(lostAt)}`;
  link.title = text;
}

function named(hash) {
  if (hash === "#/cluster") return new Cluster(redraw);
  if (hash === "#/recorder") return new Recorder(redraw);
  const [, id, checkpoint] = /^#\/jobs\/([0-9a-f]{32})(?:\/checkpoints\/(\d+))?$/.exec(hash) ?? [];
  if (checkpoint !== undefined) return new Story(id, checkpoint, redraw);
  return id === undefined ? new Jobs(redraw) : new Job(id, redraw);
}

function open() {
  stop();
  event = null;
  const opened = view = named(location.hash);
  show(main, h("p", { class: "empty" }, "Asking …"));
  draw();
  stop = follow(view.path(), {
    onEvent: (data) => {
      if (view !== opened) return;
      event = data;
      offset = data.now - Date.now();
      document.body.classList.toggle("history", data.historyOf !== null);
      view.update(data);
      redraw();
    },
    onLink: setLink,
    onGone: (text) => {
      event = null;
      setLink("live");
      show(main, h("p", { class: "empty" }, text));
    },
  });
}

document.getElementById("skip").onclick = (clicked) => {
  clicked.preventDefault();
  main.focus();
};
addEventListener("hashchange", () => {
  takeToken();
  open();
  // The link that was followed is gone: the keyboard goes on from the top of what it has opened.
  main.focus();
});
addEventListener("resize", redraw);
// Durations go on between events.
setInterval(() => event !== null && !document.hidden && redraw(), 1000);
takeToken();
open();
