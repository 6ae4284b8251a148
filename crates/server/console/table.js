// Tables that are sorted, filtered and shown page by page, so that ten thousand rows cost as much as fifty; long lists by the server.

import { h } from "/dom.js";
import { plural } from "/format.js";

import * as api from "/api.js";

const PAGE = 50;
const states = new Map();

let redraw = () => {};
let reread = () => {};
export const onTable = (draw, read) => {
  redraw = draw;
  reread = read;
};

function stateOf(id) {
  if (!states.has(id)) states.set(id, { sort: -1, field: "", down: false, page: 0, filter: "" });
  return states.get(id);
}

// The part of a list of the server that the table `id` shows now: its page, of the rows with the words of its filter, in its order.
export function ask(id, list, { size = PAGE, ...more } = {}) {
  const { field, down, page, filter } = stateOf(id);
  const order = field ? { sort: field, down } : {};
  return api.listRows({ list, words: filter, first: page * size, count: size, ...order, ...more });
}

// columns: { name, text(row), cell(row), sort(row), field, right }. cell is shown if it is there, else text. The rows are all rows, and then text or
// sort decides the order; or `part` is a part of a list that the server filtered and ordered, by `field`.
export function table({ id, caption, columns, rows, part, size = PAGE, key, empty }) {
  const state = stateOf(id);
  const change = (fields) => {
    Object.assign(state, fields);
    (part ? reread : redraw)();
  };
  const words = state.filter.toLowerCase().split(" ").filter(Boolean);
  const { total, matching, shown } = part ? { total: part.total, matching: part.matching, shown: part.rows } : local(state, columns, rows, words, size);
  const pages = Math.max(1, Math.ceil(matching / size));
  const page = Math.min(state.page, pages - 1);
  if (part && page < state.page) change({ page });
  const head = columns.map((c, i) => {
    if (part ? !c.field : !c.text && !c.sort) return h("th", { scope: "col" }, c.name || h("span", { class: "hidden" }, "actions"));
    const sorted = state.sort === i;
    return h("th", { scope: "col", class: c.right && "right", "aria-sort": sorted ? (state.down ? "descending" : "ascending") : undefined },
      h("button", { type: "button", class: "sort", onclick: () => change({ sort: i, field: c.field, down: sorted ? !state.down : !!c.right, page: 0 }) },
        c.name, h("span", { "aria-hidden": "true" }, sorted ? (state.down ? " ▾" : " ▴") : "")));
  });
  const filters = total > 8 || state.filter;
  return h("section", { class: "table", key: `table-${id}` },
    filters && h("div", { class: "tools" },
      h("label", null, h("span", { class: "hidden" }, `Filter: ${caption}`),
        h("input", { type: "search", placeholder: "Filter", class: "filter", value: state.filter || undefined, oninput: (e) => change({ filter: e.target.value, page: 0 }) })),
      h("span", { class: "quiet" }, words.length ? `${matching} of ${total}` : plural(total, "row"))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      h("table", null,
        h("caption", { class: "hidden" }, caption),
        h("thead", null, h("tr", null, head)),
        h("tbody", null,
          shown.map((row) => h("tr", { key: key(row) }, columns.map((c) => h("td", { class: c.right && "right", "data-name": c.name || undefined }, c.cell ? c.cell(row) : c.text(row))))),
          !shown.length && h("tr", { key: "\u0000none" }, h("td", { colspan: columns.length, class: "quiet" }, words.length ? "no row has these words" : empty || "nothing here yet"))))),
    pages > 1 && h("nav", { class: "pages", "aria-label": `Pages: ${caption}` },
      h("button", { type: "button", disabled: page === 0, onclick: () => change({ page: 0 }) }, "First"),
      h("button", { type: "button", disabled: page === 0, onclick: () => change({ page: page - 1 }) }, "Back"),
      h("span", null, `page ${page + 1} of ${pages}`),
      h("button", { type: "button", disabled: page === pages - 1, onclick: () => change({ page: page + 1 }) }, "Next"),
      h("button", { type: "button", disabled: page === pages - 1, onclick: () => change({ page: pages - 1 }) }, "Last")));
}

// The page of the rows that have the words.
function local(state, columns, rows, words, size) {
  const text = (row) => columns.map((c) => (c.text ? c.text(row) : "")).join("\u0001").toLowerCase();
  let shown = words.length ? rows.filter((row) => words.every((w) => text(row).includes(w))) : rows;
  const by = columns[state.sort];
  if (by) {
    const value = by.sort || by.text;
    const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
    shown = shown.map((row) => [value(row), row]).sort((a, b) => order(a[0], b[0]) * (state.down ? -1 : 1)).map((pair) => pair[1]);
  }
  const page = Math.min(state.page, Math.max(0, Math.ceil(shown.length / size) - 1));
  return { total: rows.length, matching: shown.length, shown: shown.slice(page * size, (page + 1) * size) };
}
