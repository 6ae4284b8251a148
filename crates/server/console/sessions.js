// Sessions, and the truth about their transport.

import { h } from "/dom.js";
import { ask, table } from "/table.js";
import { bytes, count, micros, plural, span, when } from "/format.js";
import { button } from "/pools.js";
import * as act from "/actions.js";
import * as api from "/api.js";

const digests = (s) => [s.header_digest && "header", s.data_digest && "data"].filter(Boolean).join("+") || "none";

// Rows of a page, and what it shows of them: sessions have many fields.
const FEW = 25;
const FIELDS = ["id", "client", "export", "kind", "protocol", "transport", "peer", "state", "io_queues", "depth", "header_digest", "data_digest", "rtt_us", "retransmits", "bytes_in", "bytes_out", "errors", "connected_at_ms"];

export const sessions = {
  title: "Sessions",
  every: 4000,
  load: async () => ({ list: await ask("sessions", "sessions", { fields: FIELDS, size: FEW }) }),
  view: ({ data }) => table({
    id: "sessions", caption: "Sessions", part: data.list, size: FEW, key: (s) => s.id, empty: "no client is connected",
    columns: [
      { name: "Host", field: "client", text: (s) => s.client || "–", cell: (s) => h("a", { href: `#/session/${s.id}` }, s.client || `session ${s.id}`) },
      { name: "Export", field: "export", text: (s) => s.export || s.kind },
      { name: "Protocol", field: "protocol", text: (s) => `${s.protocol} ${s.transport}` },
      { name: "From", field: "peer", text: (s) => s.peer || "–" },
      { name: "State", field: "state", text: (s) => s.state },
      { name: "Queues", right: true, field: "io_queues", cell: (s) => (s.depth ? `${s.io_queues} × ${s.depth}` : String(s.io_queues)) },
      { name: "Digests", text: digests },
      { name: "RTT", right: true, field: "rtt_us", cell: (s) => micros(s.rtt_us) },
      { name: "Resent", right: true, field: "retransmits", cell: (s) => h("span", { class: s.retransmits ? "warn" : "" }, count(s.retransmits)) },
      { name: "In", right: true, field: "bytes_in", cell: (s) => bytes(s.bytes_in) },
      { name: "Out", right: true, field: "bytes_out", cell: (s) => bytes(s.bytes_out) },
      { name: "Errors", right: true, field: "errors", cell: (s) => count(s.errors) },
      { name: "Connected", right: true, field: "connected_at_ms", cell: (s) => span(Date.now() - s.connected_at_ms) },
    ],
  }),
};

// What is in use, and what is not as fast or as safe as it could be.
function truth(s) {
  const all = [];
  const add = (level, text) => all.push({ level, text });
  const tls = s.nfs?.tls?.length ? s.nfs.tls.map((t) => `TLS ${t.version} ${t.cipher}${t.certificate ? `, certificate ${t.certificate}` : ""}`) : [];
  add(tls.length ? "good" : "", tls.length ? tls.join("; ") : "not encrypted");
  const overRdma = s.transport.includes("rdma");
  if (overRdma) add("good", `transport ${s.transport}${s.device ? ` on ${s.device}` : ""}`);
  else add(s.not_rdma ? "warn" : "", `transport ${s.transport}: TCP, not RDMA${s.not_rdma ? `: ${s.not_rdma}` : ""}`);
  if (s.protocol !== "nfs") add("", `digests: ${digests(s)}`);
  const mtu = s.queues.map((q) => q.path_mtu).filter(Boolean);
  const mss = s.queues.map((q) => q.mss).filter(Boolean);
  if (mtu.length) add(Math.min(...mtu) !== Math.max(...mtu) ? "warn" : "", `path MTU ${[...new Set(mtu)].join(", ")}${mss.length ? `, largest segment ${[...new Set(mss)].join(", ")}` : ""} bytes`);
  if (!overRdma) add(s.retransmits ? "warn" : "good", s.retransmits ? `${s.retransmits} segments were sent again` : "no segment was sent again");
  if (s.reconnects) add("warn", `it reconnected ${s.reconnects} times since the server started`);
  if (s.keep_alive_timeout_ms) add("", `keep alive: heard ${span(s.keep_alive_age_ms)} ago, limit ${span(s.keep_alive_timeout_ms)}`);
  return all;
}

export const session = {
  title: "Session",
  head: (id) => `Session ${id}`,
  load: (id) => api.showSession({ id: Number(id) }),
  view({ data: s }) {
    return [
      h("section", { class: "card" },
        h("h2", null, s.client || "a host without a name"),
        h("dl", null, [["Export", s.export || "–"], ["Protocol", `${s.protocol}, ${s.kind}, ${s.state}`], ["From", s.peer || "–"], ["Host ID", s.host_id || "–"], ["Since", `${when(s.connected_at_ms)} (${span(Date.now() - s.connected_at_ms)})`], ["Received", bytes(s.bytes_in)], ["Sent", bytes(s.bytes_out)], ...(s.nfs ? [["NFS", `version ${s.nfs.version || "unknown"}, ${plural(s.nfs.sessions, "session")} of ${plural(s.nfs.slots, "slot")}`], ["State", `${plural(s.nfs.opens, "open file")}, ${plural(s.nfs.locks, "lock")}, ${plural(s.nfs.delegations, "delegation")}`], ["May use", s.nfs.exports?.length ? s.nfs.exports.join(", ") : "no export"]] : []), ["Commands", `${count(s.commands)}, ${count(s.errors)} failed`]].map(([k, v]) => [h("dt", null, k), h("dd", null, v)])),
        button("End session", "", () => act.endSession(s))),
      h("section", { class: "card" }, h("h2", null, "The truth about its transport"), h("ul", null, truth(s).map((t) => h("li", { class: t.level }, t.text)))),
      h("h2", null, "Connections"),
      table({ id: "queues", caption: "Connections of the session", rows: s.queues, key: (q) => `${q.qid} ${q.peer}`, columns: [
        { name: "Number", right: true, sort: (q) => q.qid, cell: (q) => String(q.qid) }, { name: "From", text: (q) => q.peer }, { name: "To", text: (q) => q.local }, { name: "Shard", text: (q) => q.shard },
        { name: "Depth", right: true, sort: (q) => q.depth, cell: (q) => String(q.depth || "–") }, { name: "MSS", right: true, sort: (q) => q.mss, cell: (q) => String(q.mss) }, { name: "MTU", right: true, sort: (q) => q.path_mtu, cell: (q) => String(q.path_mtu) },
        { name: "RTT", right: true, sort: (q) => q.rtt_us, cell: (q) => `${micros(q.rtt_us)} ± ${micros(q.rtt_var_us)}` }, { name: "Resent", right: true, sort: (q) => q.retransmits, cell: (q) => String(q.retransmits) }, { name: "Congestion control", text: (q) => q.congestion || "–" }] }),
      h("h2", null, "Latencies"),
      table({ id: "latencies", caption: "Latencies by command", rows: s.latencies, key: (l) => l.command, empty: "no command has ended yet", columns: [
        { name: "Command", text: (l) => l.command }, { name: "Count", right: true, sort: (l) => l.count, cell: (l) => count(l.count) },
        ...[["Mean", "mean_us"], ["p50", "p50_us"], ["p90", "p90_us"], ["p99", "p99_us"], ["p99.9", "p999_us"], ["Most", "max_us"]].map(([name, field]) => ({ name, right: true, sort: (l) => l[field], cell: (l) => micros(l[field]) }))] }),
    ];
  },
};
