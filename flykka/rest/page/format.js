// Figures and states as a reader wants them.

import { h } from "./dom.js";

const GLYPHS = {
  RUNNING: "▶", FINISHED: "✓", COMPLETED: "✓", FAILED: "✕", FAILING: "✕", CANCELED: "⊘", CANCELLING: "⊘",
  CANCELING: "⊘", RESTARTING: "↻", RESTARTED: "↻", CREATED: "○", SCHEDULED: "○", DEPLOYING: "◐",
  INITIALIZING: "◐", IN_PROGRESS: "◐", UNDECIDED: "?",
};
const KINDS = {
  RUNNING: "good", FINISHED: "done", COMPLETED: "good", FAILED: "bad", FAILING: "bad", RESTARTING: "warn",
  RESTARTED: "good", IN_PROGRESS: "busy", DEPLOYING: "busy", INITIALIZING: "busy",
};

export const words = (state) => state.charAt(0) + state.slice(1).toLowerCase().replaceAll("_", " ");

export const kind = (state) => KINDS[state] ?? "still";

export function chip(state, text = words(state)) {
  return h("span", { class: `chip ${kind(state)}` },
    h("span", { "aria-hidden": "true" }, GLYPHS[state] ?? "•"), text);
}

// States with their counts: a bar of shares, and the same in words.
export function tasks(counts) {
  const entries = Object.entries(counts);
  const total = entries.reduce((sum, [, count]) => sum + count, 0);
  const text = entries.map(([state, count]) => `${number(count)} ${words(state).toLowerCase()}`).join(", ");
  return h("span", { class: "tasks" },
    h("span", { class: "bar", "aria-hidden": "true" },
      entries.map(([state, count]) => h("span", { class: kind(state), style: { "flex-grow": String(count) } }))),
    h("span", { class: "words" }, total ? text : "no subtasks"));
}

export function duration(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const seconds = Math.floor(ms / 1000);
  const parts = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([unit]) => seconds >= unit);
  return parts.slice(first, first + 2)
    .map(([unit, name], place) => `${Math.floor((place ? seconds % parts[first][0] : seconds) / unit)} ${name}`)
    .join(" ");
}

export function number(value) {
  return Math.round(value).toLocaleString("en-US");
}

export function rate(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value > 0 && value < 10 ? value.toFixed(1) : number(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit += 1) value /= 1024;
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

const two = (value) => String(value).padStart(2, "0");

export function clock(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function moment(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

// Event time has no zone of the reader: it is shown in UTC.
export function eventTime(ms) {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? String(ms) : at.toISOString().replace("T", " ").replace(/\.\d+Z$/, "");
}
