// The drawing. Only the rows on the screen are drawn, so that their number costs nothing.
"use strict";

const canvas = document.querySelector("canvas");
const pen = canvas.getContext("2d");
const tip = document.getElementById("tip");
// Of a digit in the gutter, where turns have their numbers and seconds.
const DIGIT = 6.7;
const NUMBERS = 16 + DIGIT * longest(TURN, String), GUTTER = NUMBERS + 14 + DIGIT * longest(MS, seconds);
const OVERVIEW = 14, OUTSIDE = 26;
const view = { top: 0, left: 0, row: 24, lane: 168, width: 0, height: 0, selected: null, hovered: null, chain: new Set() };

function longest(field, told) {
  return trace.rows.reduce((most, row) => Math.max(most, told(row[field]).length), 5);
}

function headHeight() {
  return view.lane >= 96 ? 46 : 132;
}

function laneX(actor) {
  return GUTTER + OUTSIDE + (shown.laneOf.get(actor) + 0.5) * view.lane - view.left;
}

function rowY(place) {
  return headHeight() + (place + 0.7) * view.row - view.top;
}

function placeAt(y) {
  const place = Math.floor((y - headHeight() + view.top) / view.row);
  return y > headHeight() && place >= 0 && place < shown.rows.length ? place : null;
}

function keepInside() {
  const rows = shown.rows.length * view.row + 60, lanes = shown.lanes.length * view.lane + OUTSIDE + 40;
  view.top = Math.max(0, Math.min(view.top, rows - (view.height - headHeight())));
  view.left = Math.max(0, Math.min(view.left, lanes - (view.width - GUTTER - OVERVIEW)));
}

let wanted = false;
function redraw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => { wanted = false; draw(); });
}

let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["page", "card", "text", "faint", "line", "edge", "accent", "bad", "mark", "light"];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function colourOf(row) {
  if (row[FAILURE] !== null || row[KIND] === "killed" || row[KIND] === "dead letter") return colours.bad;
  return `hsl(${hue(row[TYPE])} 62% ${colours.light})`;
}

function resize() {
  const box = canvas.parentElement.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  view.width = box.width;
  view.height = box.height;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  keepInside();
  redraw();
}

function fitted(text, width) {
  if (width < 14) return "";
  if (pen.measureText(text).width <= width) return text;
  let few = 0, many = text.length;
  while (few < many) {
    const middle = (few + many + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) few = middle; else many = middle - 1;
  }
  return few ? `${text.slice(0, few)}…` : "";
}

// The end of a name tells attempts of one task apart: what is left out is in the middle.
function fittedName(name, width) {
  if (pen.measureText(name).width <= width) return name;
  let kept = name.length - 1;
  while (kept > 4 && pen.measureText(`${name.slice(0, kept >> 1)}…${name.slice(-(kept - (kept >> 1)))}`).width > width) kept--;
  return `${name.slice(0, kept >> 1)}…${name.slice(-(kept - (kept >> 1)))}`;
}

function draw() {
  readColours();
  pen.fillStyle = colours.page;
  pen.fillRect(0, 0, view.width, view.height);
  pen.save();
  pen.beginPath();
  pen.rect(0, headHeight(), view.width - OVERVIEW, view.height - headHeight());
  pen.clip();
  const first = Math.max(0, Math.floor(view.top / view.row) - 1);
  const last = Math.min(shown.rows.length, Math.ceil((view.top + view.height - headHeight()) / view.row) + 1);
  drawMarks(first, last);
  drawLifelines();
  for (let place = first; place < last; place++) drawRow(place);
  drawGutter(first, last);
  pen.restore();
  drawHeads();
  drawOverview();
}

function drawMarks(first, last) {
  for (let place = first; place < last; place++) {
    const index = shown.rows[place];
    const marked = index === view.selected || (shown.found.has(index) && !filters.onlyFound);
    if (!marked && index !== view.hovered && !view.chain.has(index)) continue;
    pen.globalAlpha = marked ? 1 : 0.45;
    pen.fillStyle = colours.mark;
    pen.fillRect(0, rowY(place) - view.row * 0.7, view.width, Math.max(view.row, 2));
    pen.globalAlpha = 1;
  }
}

function drawLifelines() {
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const actor of shown.lanes) {
    const x = Math.round(laneX(actor)) + 0.5;
    if (x < GUTTER || x > view.width) continue;
    pen.moveTo(x, headHeight());
    pen.lineTo(x, view.height);
  }
  pen.stroke();
}

function drawRow(place) {
  const index = shown.rows[place], row = trace.rows[index], y = rowY(place);
  const dimmed = shown.found.size > 0 && !shown.found.has(index) && !view.chain.has(index) && index !== view.selected;
  pen.globalAlpha = dimmed ? 0.28 : 1;
  if (row[TYPE] === COLLAPSED) drawCollapsed(row, y);
  else drawArrow(row, y, index === view.selected || view.chain.has(index));
  pen.globalAlpha = 1;
}

function drawCollapsed(row, y) {
  const xs = row[FIELDS].map(laneX), left = Math.min(...xs) - 12, right = Math.max(...xs) + 12;
  pen.strokeStyle = colours.faint;
  pen.setLineDash([2, 4]);
  pen.beginPath();
  pen.moveTo(left, y);
  pen.lineTo(right, y);
  pen.stroke();
  pen.setLineDash([]);
  if (view.row >= 13) label(row[TEXT], left, Math.max(right - left, 220), y, colours.faint);
}

function drawArrow(row, y, strong) {
  const to = laneX(row[RECIPIENT]), timer = row[KIND] === "timer" || row[SENDER] === row[RECIPIENT];
  const from = row[SENDER] === NOBODY ? GUTTER + 8 - Math.min(view.left, 0) : laneX(row[SENDER]);
  const colour = colourOf(row), side = to >= from ? -1 : 1;
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = strong ? 2.4 : Math.max(0.4, Math.min(1.3, view.row * 0.3));
  if (row[KIND] === "killed") return drawKill(row, to, y, colour);
  if (timer) return drawLoop(row, to, y, colour);
  pen.setLineDash(row[KIND] === "message" ? [] : [5, 3]);
  pen.beginPath();
  pen.moveTo(from, y);
  pen.lineTo(to, y);
  pen.stroke();
  pen.setLineDash([]);
  if (row[SENDER] === NOBODY) dot(from, y);
  head(to, y, side, row[KIND] === "dead letter");
  if (view.row >= 13) label(words(row), Math.min(from, to) + 8, Math.max(Math.abs(to - from) - 16, 60), y, colour);
}

function drawLoop(row, x, y, colour) {
  const reach = Math.min(26, view.lane * 0.3), rise = Math.min(7, view.row * 0.35);
  pen.setLineDash(row[KIND] === "timer" ? [3, 2] : []);
  pen.beginPath();
  pen.moveTo(x, y - rise);
  pen.bezierCurveTo(x + reach, y - rise, x + reach, y + rise / 2, x, y);
  pen.stroke();
  pen.setLineDash([]);
  head(x, y, 1, false);
  if (view.row >= 13) label(words(row), x + reach, Math.max(view.lane - reach - 6, 60), y + 2, colour);
}

function drawKill(row, x, y, colour) {
  const size = Math.max(3, Math.min(7, view.row * 0.3));
  pen.lineWidth = 2.4;
  cross(x, y, size);
  if (view.row >= 13) label(words(row), x + 12, view.lane, y + 4, colour);
}

function words(row) {
  return row[TEXT] + (row[FAILURE] === null ? "" : ` ✗ ${row[FAILURE]}`);
}

function label(text, x, width, y, colour) {
  pen.font = `${view.row >= 20 ? 12 : 10}px system-ui, sans-serif`;
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  const short = fitted(text, width);
  pen.lineWidth = 3;
  pen.strokeStyle = colours.page;
  pen.strokeText(short, x, y - 3);
  pen.fillStyle = colour;
  pen.fillText(short, x, y - 3);
}

function dot(x, y) {
  pen.beginPath();
  pen.arc(x, y, Math.max(1.5, Math.min(3, view.row * 0.2)), 0, 7);
  pen.fill();
}

function head(x, y, side, lost) {
  const size = Math.max(2, Math.min(6, view.row * 0.3));
  if (lost) return cross(x + side * size, y, size);
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + side * size * 1.4, y - size * 0.7);
  pen.lineTo(x + side * size * 1.4, y + size * 0.7);
  pen.fill();
}

function cross(x, y, size) {
  pen.beginPath();
  pen.moveTo(x - size, y - size);
  pen.lineTo(x + size, y + size);
  pen.moveTo(x - size, y + size);
  pen.lineTo(x + size, y - size);
  pen.stroke();
}

function drawGutter(first, last) {
  pen.fillStyle = colours.card;
  pen.fillRect(0, headHeight(), GUTTER, view.height);
  pen.font = "11px ui-monospace, monospace";
  pen.textBaseline = "alphabetic";
  const step = Math.max(1, Math.ceil(14 / view.row));
  for (let place = first - (first % step); place < last; place += step) {
    const row = trace.rows[shown.rows[place]], y = rowY(place) + 3;
    pen.textAlign = "right";
    pen.fillStyle = colours.faint;
    pen.fillText(String(row[TURN]), NUMBERS, y);
    pen.fillStyle = colours.text;
    pen.fillText(seconds(row[MS]), GUTTER - 6, y);
  }
}

function drawHeads() {
  const height = headHeight();
  pen.fillStyle = colours.card;
  pen.fillRect(0, 0, view.width, height);
  pen.fillStyle = colours.edge;
  pen.fillRect(0, height - 1, view.width, 1);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, 0, view.width - GUTTER - OVERVIEW, height);
  pen.clip();
  if (view.lane >= 12) shown.lanes.forEach((actor) => drawHead(actor, height));
  pen.restore();
  pen.fillStyle = colours.faint;
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "right";
  pen.textBaseline = "alphabetic";
  pen.fillText("turn", NUMBERS, height - 8);
  pen.fillText("s", GUTTER - 6, height - 8);
}

function drawHead(actor, height) {
  const x = laneX(actor), name = trace.names[actor];
  if (x < GUTTER - view.lane || x > view.width + view.lane) return;
  pen.fillStyle = filters.actor === actor ? colours.accent : colours.text;
  pen.font = "12px system-ui, sans-serif";
  if (view.lane < 96) {
    pen.save();
    pen.translate(x + 4, height - 8);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
    pen.fillText(fittedName(name, height - 16), 0, 0);
    pen.restore();
    return;
  }
  pen.textAlign = "center";
  pen.textBaseline = "alphabetic";
  const cut = name.length > 1 ? name.lastIndexOf("/") : -1, over = name.slice(0, cut + 1);
  pen.fillText(fittedName(name.slice(cut + 1), view.lane - 12), x, height - 12);
  if (over === "") return;
  pen.fillStyle = colours.faint;
  pen.fillText(fittedName(over, view.lane - 12), x, height - 28);
}

// On the right edge the whole of it: where something failed, what was found, and which part is on the screen.
function drawOverview() {
  const x = view.width - OVERVIEW, top = headHeight(), height = view.height - top, all = shown.rows.length || 1;
  pen.fillStyle = colours.card;
  pen.fillRect(x, top, OVERVIEW, height);
  shown.rows.forEach((index, place) => {
    const row = trace.rows[index], bad = row[FAILURE] !== null || row[KIND] === "killed" || row[KIND] === "dead letter";
    if (!bad && !shown.found.has(index)) return;
    pen.fillStyle = bad ? colours.bad : colours.accent;
    pen.fillRect(x + 2, top + (place / all) * height, OVERVIEW - 4, 2);
  });
  const from = view.top / (all * view.row), part = (view.height - top) / (all * view.row);
  pen.strokeStyle = colours.faint;
  pen.lineWidth = 1;
  pen.strokeRect(x + 0.5, top + from * height + 0.5, OVERVIEW - 1, Math.max(6, Math.min(1, part) * height - 1));
}
