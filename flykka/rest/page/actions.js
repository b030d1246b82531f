// Savepoint, stop and cancel: asked for in a dialog, and what came of it in a notice.

import { request } from "./api.js";
import { h } from "./dom.js";

const ENDED = ["FINISHED", "FAILED", "CANCELED"];
const POLL_MS = 400;

const ACTIONS = {
  savepoint: {
    label: "Savepoint", title: "Take a savepoint?", say: "The job goes on.", directory: true,
    act: (path, directory) => operation(path, "savepoints", directory ? { "target-directory": directory } : {}),
    done: (location) => `The savepoint is at ${location}`,
  },
  stop: {
    label: "Stop", title: "Stop the job?", say: "It ends with a savepoint, from which it can go on.", directory: true,
    act: (path, directory) => operation(path, "stop", directory ? { targetDirectory: directory } : {}),
    done: (location) => `The job has stopped; its savepoint is at ${location}`,
  },
  cancel: {
    label: "Cancel", title: "Cancel the job?", say: "It ends at once, without a savepoint.", directory: false,
    act: (path) => request(`${path}?mode=cancel`, "PATCH"),
    done: () => "The job is being cancelled",
  },
};

async function operation(path, name, body) {
  const { "request-id": id } = await request(`${path}/${name}`, "POST", body);
  for (;;) {
    const found = await request(`${path}/savepoints/${id}`);
    if (found.status.id === "COMPLETED") {
      const cause = found.operation["failure-cause"];
      if (cause) throw new Error(cause["stack-trace"]);
      return found.operation.location;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const GLYPHS = { good: "✓", bad: "✕", busy: "◐" };

// What has come of something, until it is dismissed; gives its removal.
export function notice(text, kind = "good") {
  const box = h("div", { class: `notice ${kind}` },
    h("span", { "aria-hidden": "true" }, GLYPHS[kind]), h("p", {}, text),
    h("button", { type: "button", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  document.getElementById("notices").append(box);
  return () => box.remove();
}

export function buttons(job) {
  const off = ENDED.includes(job.state);
  return h("div", { class: "buttons", role: "group", "aria-label": "Actions" },
    Object.entries(ACTIONS).map(([name, action]) => h("button", { type: "button", disabled: off,
      class: name === "cancel" ? "danger" : "", onclick: () => confirm(job, action) }, `${action.label} …`)));
}

function confirm(job, action) {
  const field = h("input", { id: "directory", autocomplete: "off", placeholder: "the job's own" });
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "confirm-title", onclose: () => dialog.remove() },
    h("form", { onsubmit: (event) => {
      event.preventDefault();
      dialog.close();
      run(job, action, field.value.trim());
    } },
    h("h2", { id: "confirm-title" }, action.title), h("p", {}, h("strong", {}, job.name)), h("p", {}, action.say),
    action.directory ? [h("label", { for: "directory" }, "Directory for the savepoint"), field] : null,
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"),
      h("button", { type: "submit", class: action.directory ? "primary" : "danger solid" },
        action.title.slice(0, -1)))));
  document.body.append(dialog);
  dialog.showModal();
}

async function run(job, action, directory) {
  const end = notice(`${action.label} of ${job.name} …`, "busy");
  try {
    notice(action.done(await action.act(`/jobs/${job.id}`, directory)));
  } catch (failure) {
    notice(`${action.label}: ${failure.message}`, "bad");
  }
  end();
}
