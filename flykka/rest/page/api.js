// Requests with the token where the server wants one, and streams of events.

import { h } from "./dom.js";

const KEY = "flykka-token";
let asking = null;

// The link that `flykka run` prints has the token in its fragment, which no server is sent; the address bar and the
// history of the browser do not keep it.
export function takeToken() {
  const [, token] = /^#token=([\w-]+)$/.exec(location.hash) ?? [];
  if (token === undefined) return;
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", "#/");
}

// The token is asked for once, however many requests wait for it.
function askForToken(wasRefused) {
  asking ??= new Promise((resolve) => {
    const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": "token-title" },
      h("form", { onsubmit: (event) => {
        event.preventDefault();
        sessionStorage.setItem(KEY, field.value.trim());
        dialog.remove();
        asking = null;
        resolve();
      } },
      h("h2", { id: "token-title" }, "Token"),
      h("p", {}, wasRefused ? "The server has refused this token." : "This needs the token of the server:"
        + " `flykka token` prints it, or it is in the file that the server was started with. It is kept for this tab"
        + " alone."),
      h("label", { for: "token" }, "Token"), field,
      h("div", { class: "buttons" }, h("button", { class: "primary", type: "submit" }, "Use it"))));
    dialog.oncancel = (event) => event.preventDefault();
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

async function send(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const answer = await fetch(path, { ...options, headers }).catch((failure) => {
      throw failure.name === "AbortError" ? failure : new Error("The server does not answer.");
    });
    if (answer.status !== 401) return answer;
    // Another request may have been given a token while this one was on its way.
    if (sessionStorage.getItem(KEY) === token) await askForToken(token !== null);
  }
}

async function reason(answer) {
  const said = await answer.json().catch(() => ({}));
  return said.errors?.join(" ") || `The server answers with ${answer.status}.`;
}

export async function request(path, method = "GET", body = undefined) {
  const answer = await send(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!answer.ok) throw new Error(await reason(answer));
  return answer.json();
}

export async function requestText(path) {
  const answer = await send(path);
  if (!answer.ok) throw new Error(await reason(answer));
  return answer.text();
}

// A file of the server, kept by the browser: a link could not bear the token.
export async function download(path, name) {
  const answer = await send(path);
  if (!answer.ok) throw new Error(await reason(answer));
  const url = URL.createObjectURL(await answer.blob());
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

// Events until `stop` is called: a connection that is lost is made again, later each time.
export function follow(path, { onEvent, onLink, onGone }) {
  const control = new AbortController();
  const read = async () => {
    let wait = 500;
    while (!control.signal.aborted) {
      try {
        const answer = await send(path, { signal: control.signal });
        if (answer.status === 404 || answer.status === 400) return onGone(await reason(answer));
        if (!answer.ok) throw new Error(await reason(answer));
        onLink("live");
        wait = 500;
        for await (const { name, data } of frames(answer.body)) {
          if (name === "failed") throw new Error(data.errors.join(" "));
          onEvent(data);
        }
        throw new Error("the connection has ended");
      } catch (failure) {
        if (control.signal.aborted) return undefined;
        onLink("lost", failure.message);
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, 8000);
    }
    return undefined;
  };
  read();
  return () => control.abort();
}

async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n");
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data");
      if (data !== undefined) yield { name: field("event"), data: JSON.parse(data) };
    }
  }
}
