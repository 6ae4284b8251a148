// Drawings: lines over time, capacity, parts of a whole.

import { h } from "/dom.js";
import { percent, when } from "/format.js";

const WIDTH = 360;
const HEIGHT = 96;

// series: [{ name, of(point) }]; show formats a value.
export function chart({ title, points, series, show }) {
  const last = points[points.length - 1];
  const now = series.map((s) => `${s.name} ${last ? show(s.of(last)) : "–"}`).join(", ");
  const top = Math.max(1e-9, ...points.flatMap((p) => series.map((s) => s.of(p))));
  const from = points.length ? points[0].time_ms : 0;
  const length = Math.max(1, (last ? last.time_ms : 1) - from);
  const x = (p) => (((p.time_ms - from) / length) * WIDTH).toFixed(1);
  const y = (v) => (HEIGHT - 2 - (v / top) * (HEIGHT - 14)).toFixed(1);
  return h("figure", { class: "chart", key: title },
    h("figcaption", null, h("strong", null, title), " ", series.map((s, i) => h("span", { class: `key k${i}` }, `${s.name} ${last ? show(s.of(last)) : "–"}`))),
    h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: now ${now}; most ${points.length ? show(top) : "–"}` },
      h("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 2, y2: HEIGHT - 2 }),
      points.length > 1 && series.map((s, i) => h("polyline", { class: `line k${i}`, points: points.map((p) => `${x(p)},${y(s.of(p))}`).join(" ") }))),
    h("div", { class: "quiet ends" }, h("span", null, points.length ? when(from).slice(11) : "no readings yet"), h("span", null, points.length > 1 ? `most ${show(top)}` : ""), h("span", null, last ? when(last.time_ms).slice(11) : "")));
}

// A used part of a whole, with its words beside it.
export function meter(part, whole, words) {
  const used = whole > 0 ? Math.min(100, (part / whole) * 100) : 0;
  return h("div", { class: "meter" },
    h("div", { class: "track", "aria-hidden": "true" }, h("div", { class: used > 90 ? "fill bad" : used > 75 ? "fill warn" : "fill", style: { width: `${used}%` } })),
    h("span", null, words || percent(used)));
}

// Rows of parts: name, percent, words.
export const bars = (parts) => h("div", { class: "bars" }, parts.map((p) => h("div", { class: "bar", key: p.name },
  h("span", { class: "name" }, p.name),
  h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", style: { width: `${Math.max(0.5, p.percent)}%` } })),
  h("span", { class: "words" }, `${percent(p.percent)} · ${p.words}`))));
