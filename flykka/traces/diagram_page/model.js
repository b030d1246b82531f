// What is shown of the trace: the rows that the filters leave, and how turns have caused each other.
"use strict";

const trace = JSON.parse(document.getElementById("trace").textContent);

// A row is [turn, ms, kind, sender, recipient, type, cause, text, fields, effects, failure]; a collapsed one has the
// numbers of its first and last turn, the type -1, its text, and in the place of the fields its actors.
const TURN = 0, MS = 1, KIND = 2, SENDER = 3, RECIPIENT = 4, TYPE = 5, CAUSE = 6, TEXT = 7, FIELDS = 8, EFFECTS = 9, FAILURE = 10;
const COLLAPSED = -1;
const NOBODY = -1;

const rowOfTurn = new Map();
const causedBy = new Map();
trace.rows.forEach((row, index) => {
  if (row[TYPE] === COLLAPSED) return;
  rowOfTurn.set(row[TURN], index);
  if (row[CAUSE] === null) return;
  if (!causedBy.has(row[CAUSE])) causedBy.set(row[CAUSE], []);
  causedBy.get(row[CAUSE]).push(index);
});

const filters = { hidden: new Set(), actor: null, words: "", onlyFound: false };
const shown = { rows: [], lanes: [], laneOf: new Map(), found: new Set(), foundAt: [] };

// The words that a row is searched by, made when they are first needed.
const haystacks = new Array(trace.rows.length);
function haystack(index) {
  if (haystacks[index] === undefined) {
    const row = trace.rows[index];
    const names = [row[SENDER], row[RECIPIENT]].filter((actor) => actor >= 0).map((actor) => trace.actors[actor]);
    const type = row[TYPE] === COLLAPSED ? "" : trace.types[row[TYPE]];
    haystacks[index] = [`#${row[TURN]}`, type, row[TEXT], row[FAILURE] || "", ...names].join(" ").toLowerCase();
  }
  return haystacks[index];
}

function actorsOf(row) {
  if (row[TYPE] === COLLAPSED) return row[FIELDS];
  return row[SENDER] === NOBODY ? [row[RECIPIENT]] : [row[SENDER], row[RECIPIENT]];
}

function applyFilters() {
  const words = filters.words.toLowerCase().split(/\s+/).filter(Boolean);
  const lanes = new Set();
  Object.assign(shown, { rows: [], found: new Set(), foundAt: [] });
  trace.rows.forEach((row, index) => {
    if (filters.hidden.has(row[TYPE])) return;
    if (filters.actor !== null && !actorsOf(row).includes(filters.actor)) return;
    const found = words.length > 0 && words.every((word) => haystack(index).includes(word));
    if (filters.onlyFound && words.length > 0 && !found) return;
    if (found) {
      shown.found.add(index);
      shown.foundAt.push(shown.rows.length);
    }
    shown.rows.push(index);
    actorsOf(row).forEach((actor) => lanes.add(actor));
  });
  shown.lanes = trace.actors.map((_, actor) => actor).filter((actor) => lanes.has(actor));
  shown.laneOf = new Map(shown.lanes.map((actor, lane) => [actor, lane]));
}

// The turns that led to this one, the nearest first, as far as they are in the drawing.
function causesOf(index) {
  const chain = [];
  let cause = trace.rows[index][CAUSE];
  while (cause !== null && rowOfTurn.has(cause) && chain.length < 200) {
    chain.push(rowOfTurn.get(cause));
    cause = trace.rows[rowOfTurn.get(cause)][CAUSE];
  }
  return chain;
}

function seconds(ms) {
  return `${ms < 0 ? "-" : "+"}${(Math.abs(ms) / 1000).toFixed(3)}`;
}

function hue(type) {
  return (type * 137.508 + 205) % 360;
}
