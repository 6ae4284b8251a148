// Why, history, doctor, and stored reports of drills and measurements.

import { h } from "/dom.js";
import { bars } from "/chart.js";
import { ask, table } from "/table.js";
import { bytes, micros, percent, plural, rate, when } from "/format.js";
import { charts, rates } from "/overview.js";
import * as api from "/api.js";

const SECONDS = 2;

const part = (p) => ({ name: p.stage, percent: p.percent, words: `mean ${micros(p.mean_us)}, 99 % within ${micros(p.p99_us)}` });

const one = (w) => h("article", { class: "card", key: `${w.protocol} ${w.export}` },
  h("h2", null, h("code", null, w.export), h("span", { class: "quiet" }, `${w.protocol}, ${w.seconds.toFixed(1)} s`)),
  w.limit ? [
    h("p", null, h("strong", null, "Limit: "), w.limit.summary),
    bars(w.stages.map(part)),
    h("p", { class: "quiet" }, `${w.in_flight.toFixed(1)} requests in the server at a time; the busiest shard uses ${percent(w.busiest_shard_percent)} of a core`),
    h("h3", null, "Evidence"), h("ul", null, w.limit.evidence.map((e) => h("li", null, e))),
    h("h3", null, "Would help"), h("ul", null, w.limit.helps.map((e) => h("li", null, e))),
    h("h3", null, "Commands"),
    w.commands.map((c) => h("details", { key: c.command }, h("summary", null, `${c.command}: ${rate(c.per_second)}, mean ${micros(c.mean_us)}`), bars(c.stages.map(part)))),
    w.slowest.length > 0 && [h("h3", null, "Slowest of the last minute"), h("ul", null, w.slowest.slice(0, 8).map((s) => h("li", null, `${s.command} ${micros(s.total_us)}, ${Math.round(s.age_ms / 1000)} s ago, from ${s.peer}: ${s.stages.map(([name, us]) => `${name} ${micros(us)}`).join(", ")}`)))],
  ] : h("p", null, "no requests"));

export const why = {
  title: "Why",
  load: async () => ({ all: await api.askWhy({ seconds: SECONDS }) }),
  view: ({ data }) => [
    h("p", { class: "quiet" }, `Where the time of requests went in the last ${SECONDS} seconds, what limits each export, and what would help.`),
    data.all.length ? data.all.map(one) : h("p", { class: "card" }, "No export had a request."),
  ],
};

let day = false;

export const history = {
  title: "History",
  async load(_, old) {
    const [points, events, minutes] = await Promise.all([rates(old?.points), ask("events", "events"), day ? api.listRates({ day: true }) : []]);
    return { points, events, minutes };
  },
  view({ data, read }) {
    const choose = (value) => () => {
      day = value;
      read();
    };
    return [
      h("div", { class: "tools", role: "group", "aria-label": "Length" }, h("button", { type: "button", "aria-pressed": String(!day), class: day ? "" : "main", onclick: choose(false) }, "Half an hour"), h("button", { type: "button", "aria-pressed": String(day), class: day ? "main" : "", onclick: choose(true) }, "One day")),
      day && !data.minutes.length ? h("p", { class: "quiet" }, "The day begins with the first full minute of the server.") : charts(day ? data.minutes : data.points),
      h("h2", null, "Events since the server started"),
      table({ id: "events", caption: "Events", part: data.events, key: (e) => e.sequence, empty: "none since the server started", columns: [{ name: "Time", field: "time_ms", text: (e) => when(e.time_ms) }, { name: "Pool", field: "pool", text: (e) => e.pool }, { name: "Class", text: (e) => e.class }, { name: "Event", text: (e) => e.text }] }),
    ];
  },
};

function step(s) {
  if (s.do === "run") return ["run ", h("code", null, s.argv.join(" "))];
  if (s.do === "set") return ["write ", h("code", null, s.value), " to ", h("code", null, s.path)];
  if (s.do === "file") return ["file ", h("code", null, s.path), ": ", s.lines.map((l) => h("div", null, h("code", null, l)))];
  return s.text;
}

const LEVELS = { critical: "bad", warning: "warn", note: "" };

export const doctor = {
  title: "Doctor",
  every: 0,
  load: () => api.getDoctor(),
  view({ data, read }) {
    const count = (severity) => data.findings.filter((f) => f.severity === severity).length;
    const reasons = new Map();
    for (const n of data.not_checked) reasons.set(n.reason, [...(reasons.get(n.reason) || []), n.object ? `${n.check} (${n.object})` : n.check]);
    return [
      h("p", null, `${data.checks} checks: ${count("critical")} critical, ${plural(count("warning"), "warning")}, ${plural(count("note"), "note")}; ${data.not_checked.length} not checked, which does not mean that they are fine. Nothing on the machine is changed. `, h("button", { type: "button", onclick: () => read() }, "Examine again")),
      data.remarks.map((r) => h("p", { key: r }, r)),
      data.findings.map((f) => h("article", { class: "card", key: `${f.check} ${f.object}` },
        h("h2", null, h("span", { class: `state ${LEVELS[f.severity]}` }, f.severity), h("span", null, f.object || f.check)),
        h("dl", null, h("dt", null, "Check"), h("dd", null, h("code", null, f.check)), h("dt", null, "Found"), h("dd", null, f.evidence), h("dt", null, "Why"), h("dd", null, f.why), h("dt", null, "Mend"), h("dd", null, h("ul", null, f.steps.map((s) => h("li", null, step(s))))), h("dt", null, "Risk"), h("dd", null, f.risk)))),
      h("h2", null, "Not checked"),
      table({ id: "unchecked", caption: "Checks that lacked a fact", rows: [...reasons].map(([reason, checks]) => ({ reason, checks })), key: (r) => r.reason, empty: "every check had its facts", columns: [{ name: "Reason", text: (r) => r.reason }, { name: "Checks", text: (r) => r.checks.join(", ") }] }),
    ];
  },
};

export const log = {
  title: "Log",
  load: async () => ({ list: await ask("log", "log") }),
  view: ({ data }) => [
    h("p", { class: "quiet" }, "The last lines of the server's log, newest first, since it started. The journal of the machine has all of them."),
    table({ id: "log", caption: "Lines of the log", part: data.list, key: (l) => l.sequence, empty: "no line yet", columns: [{ name: "Number", field: "sequence", right: true, text: (l) => String(l.sequence) }, { name: "Line", cell: (l) => h("span", { class: /\bERROR\b/.test(l.text) ? "bad" : /\bWARN\b/.test(l.text) ? "warn" : "" }, l.text) }] }),
  ],
};

export const reports = {
  title: "Reports",
  every: 10000,
  load: async () => ({ list: await api.listReports() }),
  view: ({ data }) => [
    h("p", null, "Pages of drills and measurements. They are files of the server's report directory: ", h("code", null, "wirepool drill cable tank --html DIR/cable.html"), " and ", h("code", null, "wirepool bench report … --html DIR/bench.html"), " write them."),
    table({
      id: "reports", caption: "Stored reports", rows: data.list, key: (r) => r.name, empty: "no report is stored",
      columns: [
        { name: "Report", text: (r) => r.title, cell: (r) => h("a", { href: `/reports/${encodeURIComponent(r.name)}`, target: "_blank", rel: "noopener" }, r.title) },
        { name: "Kind", text: (r) => (r.title.startsWith("Drill") ? "drill" : "measurement") },
        { name: "File", text: (r) => r.name },
        { name: "Made", sort: (r) => r.modified_ms, cell: (r) => when(r.modified_ms) },
        { name: "Size", right: true, sort: (r) => r.size, cell: (r) => bytes(r.size) },
      ],
    }),
  ],
};
