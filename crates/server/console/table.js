// Tables that are sorted, filtered and shown page by page, so that ten thousand rows cost as much as fifty.

import { h } from "/dom.js";
import { plural } from "/format.js";

const PAGE = 50;
const states = new Map();

let redraw = () => {};
export const onTable = (f) => {
  redraw = f;
};

// columns: { name, text(row), cell(row), sort(row), right }. text or sort decides the order; cell is shown if it is there.
export function table({ id, caption, columns, rows, key, empty }) {
  const state = states.get(id) || { sort: -1, down: false, page: 0, filter: "" };
  states.set(id, state);
  const change = (fields) => {
    Object.assign(state, fields);
    redraw();
  };
  const text = (row) => columns.map((c) => (c.text ? c.text(row) : "")).join("\u0001").toLowerCase();
  const words = state.filter.toLowerCase().split(" ").filter(Boolean);
  let shown = words.length ? rows.filter((row) => words.every((w) => text(row).includes(w))) : rows;
  const by = columns[state.sort];
  if (by) {
    const value = by.sort || by.text;
    const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
    shown = shown.map((row) => [value(row), row]).sort((a, b) => order(a[0], b[0]) * (state.down ? -1 : 1)).map((pair) => pair[1]);
  }
  const pages = Math.max(1, Math.ceil(shown.length / PAGE));
  const page = Math.min(state.page, pages - 1);
  const part = shown.slice(page * PAGE, (page + 1) * PAGE);
  const head = columns.map((c, i) => {
    if (!c.text && !c.sort) return h("th", { scope: "col" }, c.name || h("span", { class: "hidden" }, "actions"));
    const sorted = state.sort === i;
    return h("th", { scope: "col", class: c.right && "right", "aria-sort": sorted ? (state.down ? "descending" : "ascending") : undefined },
      h("button", { type: "button", class: "sort", onclick: () => change({ sort: i, down: sorted ? !state.down : !!c.right, page: 0 }) },
        c.name, h("span", { "aria-hidden": "true" }, sorted ? (state.down ? " ▾" : " ▴") : "")));
  });
  const filters = rows.length > 8 || state.filter;
  return h("section", { class: "table", key: `table-${id}` },
    filters && h("div", { class: "tools" },
      h("label", null, h("span", { class: "hidden" }, `Filter: ${caption}`),
        h("input", { type: "search", placeholder: "Filter", class: "filter", value: state.filter || undefined, oninput: (e) => change({ filter: e.target.value, page: 0 }) })),
      h("span", { class: "quiet" }, words.length ? `${shown.length} of ${rows.length}` : plural(rows.length, "row"))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      h("table", null,
        h("caption", { class: "hidden" }, caption),
        h("thead", null, h("tr", null, head)),
        h("tbody", null,
          part.map((row) => h("tr", { key: key(row) }, columns.map((c) => h("td", { class: c.right && "right", "data-name": c.name || undefined }, c.cell ? c.cell(row) : c.text(row))))),
          !part.length && h("tr", { key: "\u0000none" }, h("td", { colspan: columns.length, class: "quiet" }, words.length ? "no row has these words" : empty || "nothing here yet"))))),
    pages > 1 && h("nav", { class: "pages", "aria-label": `Pages: ${caption}` },
      h("button", { type: "button", disabled: page === 0, onclick: () => change({ page: 0 }) }, "First"),
      h("button", { type: "button", disabled: page === 0, onclick: () => change({ page: page - 1 }) }, "Back"),
      h("span", null, `page ${page + 1} of ${pages}`),
      h("button", { type: "button", disabled: page === pages - 1, onclick: () => change({ page: page + 1 }) }, "Next"),
      h("button", { type: "button", disabled: page === pages - 1, onclick: () => change({ page: pages - 1 }) }, "Last")));
}
