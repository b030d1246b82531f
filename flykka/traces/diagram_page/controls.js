// What the reader does: pan, zoom, point, choose, search, filter; and the panel that tells of the turn chosen.
"use strict";

const panel = document.querySelector("aside");
const search = document.querySelector("input[type=search]");
const counted = document.getElementById("counted");

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made[name] = value;
  return made;
}

function zoomRows(factor, y) {
  const place = (y - headHeight() + view.top) / view.row;
  const least = Math.min(24, (view.height - headHeight() - 60) / Math.max(1, shown.rows.length));
  view.row = Math.max(least, Math.min(64, view.row * factor));
  view.top = place * view.row - y + headHeight();
  keepInside();
  redraw();
}

function zoomLanes(factor, x) {
  const lane = (x - GUTTER - OUTSIDE + view.left) / view.lane;
  view.lane = Math.max(3, Math.min(420, view.lane * factor));
  view.left = lane * view.lane - x + GUTTER + OUTSIDE;
  keepInside();
  redraw();
}

function fitAll() {
  view.lane = Math.max(3, Math.min(168, (view.width - GUTTER - OUTSIDE - OVERVIEW - 30) / Math.max(1, shown.lanes.length)));
  view.row = Math.min(24, (view.height - headHeight() - 60) / Math.max(1, shown.rows.length));
  view.top = view.left = 0;
  redraw();
}

function select(index) {
  view.selected = index;
  view.chain = new Set(index === null || trace.rows[index][TYPE] === COLLAPSED ? [] : causesOf(index));
  // In the frame of a notebook's cell the page has no address of its own.
  const addressed = location.protocol !== "about:";
  if (addressed && index !== null && trace.rows[index][TYPE] !== COLLAPSED) history.replaceState(null, "", `#turn=${trace.rows[index][TURN]}`);
  tell(index);
  redraw();
}

function goTo(index) {
  const place = shown.rows.indexOf(index);
  if (place >= 0) {
    view.row = Math.max(view.row, 16);
    view.top = place * view.row - (view.height - headHeight()) / 3;
    const row = trace.rows[index], x = row[TYPE] === COLLAPSED ? GUTTER : laneX(row[RECIPIENT]);
    if (x < GUTTER + 60 || x > view.width - 120) view.left += x - view.width / 2;
    keepInside();
  }
  select(index);
}

function link(index) {
  const row = trace.rows[index], line = element("li");
  const told = `${row[TURN]} ${trace.types[row[TYPE]]} → ${trace.names[row[RECIPIENT]]}`;
  line.append(element("a", told, { onclick: () => goTo(index) }));
  return line;
}

function list(title, indices) {
  if (!indices.length) return [];
  const lines = element("ul");
  lines.append(...indices.slice(0, 100).map(link));
  if (indices.length > 100) lines.append(element("li", `and ${indices.length - 100} more`, { className: "faint" }));
  return [element("h3", title), lines];
}

function tell(index) {
  if (index === null) return panel.replaceChildren(...legend());
  const row = trace.rows[index], back = element("p");
  back.append(element("a", "← types of messages", { onclick: () => select(null) }));
  if (row[TYPE] === COLLAPSED) {
    return panel.replaceChildren(back, element("h2", `turns from ${row[TURN]} on, collapsed`), element("p", row[TEXT]));
  }
  const parts = [back, element("h2", trace.types[row[TYPE]]), element("p", `turn ${row[TURN]}, ${row[KIND]}, ${seconds(row[MS])} s`)];
  parts.push(element("p", row[SENDER] === NOBODY ? "" : `from ${trace.actors[row[SENDER]]}`, { className: "faint" }));
  parts.push(element("p", `to ${trace.actors[row[RECIPIENT]]}`, { className: "faint" }));
  if (row[FAILURE] !== null) parts.push(element("p", row[FAILURE], { className: "bad" }));
  if (row[FIELDS] !== null) parts.push(element("h3", "message"), element("pre", JSON.stringify(row[FIELDS], null, 1)));
  if (row[EFFECTS].length) parts.push(element("h3", "what came of it"), element("pre", row[EFFECTS].join("\n")));
  parts.push(...list("caused by", causesOf(index)), ...list("led to", causedBy.get(row[TURN]) || []));
  if (row[CAUSE] !== null && !rowOfTurn.has(row[CAUSE])) {
    parts.push(element("h3", "caused by"), element("p", `turn ${row[CAUSE]}, which is not drawn here`));
  }
  panel.replaceChildren(...parts);
  panel.scrollTop = 0;
}

function legend() {
  const counts = new Map();
  trace.rows.forEach((row) => counts.set(row[TYPE], (counts.get(row[TYPE]) || 0) + 1));
  counts.delete(COLLAPSED);
  const types = [...counts].sort((one, other) => other[1] - one[1]);
  const lines = element("ul");
  for (const [type, count] of types) {
    const line = element("li"), label = element("label"), box = element("input", "", { type: "checkbox" });
    const colour = element("i");
    colour.style.background = `hsl(${hue(type)} 62% ${colours.light || "50%"})`;
    box.checked = !filters.hidden.has(type);
    box.onchange = () => { filters.hidden[box.checked ? "delete" : "add"](type); refresh(); };
    label.append(box, colour, element("span", trace.types[type], { title: trace.types[type] }), element("b", count.toLocaleString("en")));
    line.append(label);
    lines.append(line);
  }
  const both = element("p"), all = element("a", "all"), none = element("a", "none");
  all.onclick = () => { filters.hidden.clear(); refresh(); tell(null); };
  none.onclick = () => { types.forEach(([type]) => filters.hidden.add(type)); refresh(); tell(null); };
  both.append(all, " · ", none);
  return [element("h2", "types of messages"), both, lines, ...help()];
}

function help() {
  const keys = [["drag, wheel", "move"], ["Ctrl + wheel", "zoom the turns"], ["Alt + wheel", "zoom the actors"],
    ["click", "tell of a turn, or keep one actor"], ["↑ ↓", "previous, next turn"], ["←", "its cause"], ["/", "search"], ["0", "all of it"], ["Esc", "back"]];
  const lines = element("ul");
  for (const [key, does] of keys) {
    const line = element("li");
    line.append(element("kbd", key), ` ${does}`);
    lines.append(line);
  }
  return [element("h3", "how"), lines];
}

function refresh() {
  const middle = shown.rows[Math.floor((view.top + (view.height - headHeight()) / 3) / view.row)];
  applyFilters();
  const place = shown.rows.findIndex((index) => index >= (view.selected ?? middle ?? 0));
  if (place >= 0 && middle !== undefined) view.top = place * view.row - (view.height - headHeight()) / 3;
  counted.textContent = filters.words ? `${shown.foundAt.length.toLocaleString("en")} found` : `${shown.rows.length.toLocaleString("en")} of ${trace.rows.length.toLocaleString("en")} lines`;
  keepInside();
  redraw();
}

function nextFound(step) {
  if (!shown.foundAt.length) return;
  const now = shown.rows.indexOf(view.selected);
  const ahead = shown.foundAt.filter((place) => (step > 0 ? place > now : place < now || now < 0));
  const place = ahead.length ? ahead[step > 0 ? 0 : ahead.length - 1] : shown.foundAt[step > 0 ? 0 : shown.foundAt.length - 1];
  goTo(shown.rows[place]);
}

function step(by) {
  const now = shown.rows.indexOf(view.selected), place = now < 0 ? Math.floor(view.top / view.row) : now + by;
  if (place < 0 || place >= shown.rows.length) return;
  const y = rowY(place);
  if (y < headHeight() + view.row || y > view.height - view.row) goTo(shown.rows[place]); else select(shown.rows[place]);
}

function point(event) {
  const x = event.offsetX, y = event.offsetY, place = x < view.width - OVERVIEW ? placeAt(y) : null;
  view.hovered = place === null ? null : shown.rows[place];
  let text = "";
  if (place !== null) {
    const row = trace.rows[view.hovered];
    text = row[TYPE] === COLLAPSED ? row[TEXT] : `${row[TURN]}  ${row[TEXT]}`;
  } else if (y <= headHeight() && x > GUTTER) {
    const actor = shown.lanes[Math.floor((x - GUTTER - OUTSIDE + view.left) / view.lane)];
    text = actor === undefined ? "" : trace.actors[actor];
  }
  tip.hidden = text === "";
  tip.textContent = text;
  tip.style.left = `${Math.min(x + 14, Math.max(0, view.width - 470))}px`;
  tip.style.top = `${y + 18 > view.height - 80 ? y - 60 : y + 18}px`;
  redraw();
}

let drag = null;
canvas.onpointerdown = (event) => {
  drag = { x: event.clientX, y: event.clientY, top: view.top, left: view.left, moved: false, far: event.offsetX >= view.width - OVERVIEW };
  canvas.setPointerCapture(event.pointerId);
  if (drag.far) jump(event.offsetY);
};
canvas.onpointermove = (event) => {
  if (drag === null) return point(event);
  if (drag.far) return jump(event.offsetY);
  drag.moved ||= Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 4;
  if (!drag.moved) return;
  canvas.classList.add("dragging");
  tip.hidden = true;
  view.top = drag.top - event.clientY + drag.y;
  view.left = drag.left - event.clientX + drag.x;
  keepInside();
  redraw();
};
canvas.onpointerup = (event) => {
  const clicked = drag !== null && !drag.moved && !drag.far;
  drag = null;
  canvas.classList.remove("dragging");
  if (!clicked) return;
  const place = placeAt(event.offsetY);
  if (place !== null || event.offsetY > headHeight()) return select(place === null ? null : shown.rows[place]);
  const actor = shown.lanes[Math.floor((event.offsetX - GUTTER - OUTSIDE + view.left) / view.lane)];
  filters.actor = actor === undefined || filters.actor === actor ? null : actor;
  refresh();
};
canvas.onpointerleave = () => { view.hovered = null; tip.hidden = true; redraw(); };
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 18 : 1, turned = event.deltaY * unit;
  if (event.ctrlKey || event.metaKey) return zoomRows(Math.exp(-turned / 300), event.offsetY);
  if (event.altKey) return zoomLanes(Math.exp(-turned / 300), event.offsetX);
  view.top += event.shiftKey ? 0 : turned;
  view.left += event.deltaX * unit + (event.shiftKey ? turned : 0);
  keepInside();
  redraw();
}, { passive: false });

function jump(y) {
  const part = (y - headHeight()) / (view.height - headHeight());
  view.top = part * shown.rows.length * view.row - (view.height - headHeight()) / 2;
  keepInside();
  redraw();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { search.blur(); filters.actor = null; refresh(); return select(null); }
  if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
  const page = view.height - headHeight() - 40, cause = view.selected === null ? [] : causesOf(view.selected);
  const does = {
    "/": () => search.focus(), 0: fitAll, "+": () => zoomRows(1.25, view.height / 2), "-": () => zoomRows(0.8, view.height / 2),
    ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowLeft: () => cause.length && goTo(cause[0]),
    PageDown: () => { view.top += page; keepInside(); redraw(); }, PageUp: () => { view.top -= page; keepInside(); redraw(); },
    Home: () => { view.top = 0; redraw(); }, End: () => { view.top = Infinity; keepInside(); redraw(); },
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});

search.oninput = () => { filters.words = search.value; refresh(); };
document.querySelector("form").onsubmit = (event) => { event.preventDefault(); nextFound(event.submitter?.value === "back" ? -1 : 1); };
search.onkeydown = (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  nextFound(event.shiftKey ? -1 : 1);
};
document.getElementById("only").onclick = (event) => {
  filters.onlyFound = !filters.onlyFound;
  event.currentTarget.setAttribute("aria-pressed", filters.onlyFound);
  refresh();
};
document.getElementById("larger").onclick = () => zoomRows(1.4, headHeight());
document.getElementById("smaller").onclick = () => zoomRows(1 / 1.4, headHeight());
document.getElementById("wider").onclick = () => zoomLanes(1.3, GUTTER + OUTSIDE);
document.getElementById("narrower").onclick = () => zoomLanes(1 / 1.3, GUTTER + OUTSIDE);
document.getElementById("fit").onclick = fitAll;
document.getElementById("theme").onclick = () => {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--page").trim() === "#14171c";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  readColours();
  tell(view.selected);
  redraw();
};

window.addEventListener("resize", resize);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); tell(view.selected); redraw(); });

readColours();
resize();
refresh();
view.lane = Math.max(100, Math.min(view.lane, (view.width - GUTTER - OUTSIDE - OVERVIEW - 30) / shown.lanes.length));
tell(null);
const asked = rowOfTurn.get(Number(new URLSearchParams(location.hash.slice(1)).get("turn")));
if (asked !== undefined) goTo(asked);
