// Exports over NVMe/TCP, iSCSI and NFS, with their clients.

import { h } from "/dom.js";
import { table } from "/table.js";
import { bytes } from "/format.js";
import { button } from "/pools.js";
import * as act from "/actions.js";
import * as api from "/api.js";

// One row for each subsystem, target and exported filesystem.
export function rows(status, sessions) {
  const count = (name) => sessions.filter((s) => s.export === name).length;
  const part = (n, what) => `${what} ${n.disk}, ${n.state}${n.reason ? `: ${n.reason}` : `, ${bytes(n.size)}`}`;
  return [
    ...(status.exports || []).map((e) => ({ protocol: "nvme", name: e.nqn, clients: e.hosts, sessions: e.sessions, parts: e.namespaces.map((n) => part(n, `namespace ${n.nsid}:`)), held: e.namespaces.some((n) => n.state === "held") })),
    ...(status.targets || []).map((t) => ({ protocol: "iscsi", name: t.iqn, clients: t.initiators, sessions: t.sessions ?? count(t.iqn), parts: t.luns.map((l) => part(l, `LUN ${l.lun}:`)), held: t.luns.some((l) => l.state === "held") })),
    ...(status.nfs_exports || []).map((e) => ({ protocol: "nfs", name: e.path, clients: e.clients, sessions: count(e.path), parts: [`filesystem ${e.filesystem}, ${e.state}${e.reason ? `: ${e.reason}` : ""}${e.shared_by ? `, by sharenfs of ${e.shared_by}` : ""}`], held: e.state === "held", tls: e.xprtsec })),
  ];
}

const NAMES = { nvme: "NVMe/TCP", iscsi: "iSCSI", nfs: "NFS" };

export const exports = {
  title: "Exports",
  load: async () => ({ sessions: await api.listSessions() }),
  view({ status, data }) {
    return [
      h("p", { class: "quiet" }, "A volume or filesystem is exported from ", h("a", { href: "#/datasets" }, "Datasets"), "."),
      table({
        id: "exports", caption: "Exports", rows: rows(status, data.sessions), key: (e) => `${e.protocol} ${e.name}`, empty: "no export yet",
        columns: [
          { name: "Protocol", text: (e) => NAMES[e.protocol] },
          { name: "Name", text: (e) => e.name, cell: (e) => h("code", null, e.name) },
          { name: "Serves", text: (e) => e.parts.join("; "), cell: (e) => [h("span", { class: e.held ? "state bad" : "state good" }, e.held ? "held" : "served"), h("ul", null, e.parts.map((p) => h("li", null, p)))] },
          { name: "Clients", text: (e) => e.clients.join(" "), cell: (e) => h("ul", null, e.clients.slice(0, 20).map((c) => h("li", { key: c }, h("code", null, c), " ", button("Deny", `${c} of ${e.name}`, () => act.deny(e.protocol, e.name, c)))), e.clients.length > 20 && h("li", null, `${e.clients.length - 20} more`), !e.clients.length && h("li", { class: "warn" }, "nobody may connect")) },
          { name: "Protection", text: (e) => e.tls || "–" },
          { name: "Sessions", right: true, sort: (e) => e.sessions, cell: (e) => String(e.sessions) },
          { name: "", cell: (e) => [button("Allow", `a client of ${e.name}`, () => act.allow(e.protocol, e.name)), button("Remove", e.name, () => act.removeExport(e.protocol, e.name, e.sessions))] },
        ],
      }),
      h("h2", null, "Addresses"),
      h("ul", null, status.listen.map((l) => h("li", null, h("code", null, l.address), ` ${l.role}`))),
    ];
  },
};
