// A table that scrolls by itself where the page is narrow.

import { h } from "./dom.js";

export const cells = (...values) => values.map((value) => h("td", {}, value));

export function table(name, columns, rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, rows)));
}
