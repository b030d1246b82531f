// Elements from descriptions, and a live tree that takes the shape of a new one without losing focus or scroll.

const SVG = "http://www.w3.org/2000/svg";

// An element: attributes, `style` as an object, `on...` as functions, `key` for its identity among its siblings.
export function h(tag, attributes = {}, ...children) {
  return made(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

function made(element, attributes, children) {
  element.handlers = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") element.key = String(value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name.startsWith("on")) element.handlers[name] = element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

// The children of `live` become those given.
export function show(live, ...children) {
  morphChildren(live, children.flat(Infinity).filter((each) => each instanceof Node));
}

function morph(live, wanted) {
  if (live.nodeType === Node.TEXT_NODE) {
    if (live.data !== wanted.data) live.data = wanted.data;
    return;
  }
  morphAttributes(live, wanted);
  for (const name of Object.keys(live.handlers ?? {})) if (!(name in wanted.handlers)) live[name] = null;
  for (const [name, value] of Object.entries(wanted.handlers ?? {})) live[name] = value;
  live.handlers = wanted.handlers;
  morphChildren(live, [...wanted.childNodes]);
}

function morphAttributes(live, wanted) {
  for (const { name, value } of wanted.attributes) {
    if (live.getAttribute(name) === value) continue;
    if (name === "style") live.style.cssText = wanted.style.cssText;
    else live.setAttribute(name, value);
  }
  for (const name of live.getAttributeNames()) {
    // What the user has opened stays open.
    if (!wanted.hasAttribute(name) && name !== "open") live.removeAttribute(name);
  }
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.key === b.key;
}

function morphChildren(live, wanted) {
  const keyed = new Map();
  for (const child of live.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let at = live.firstChild;
  for (const next of wanted) {
    const same = next.key === undefined ? at : keyed.get(next.key);
    if (same && alike(same, next)) {
      if (same === at) at = at.nextSibling;
      else live.insertBefore(same, at);
      morph(same, next);
    } else {
      live.insertBefore(next, at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}
