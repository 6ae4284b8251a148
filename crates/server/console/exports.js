// Exports over NVMe/TCP, iSCSI and NFS, with their clients.

import { h } from "/dom.js";
import { ask, table } from "/table.js";
import { button } from "/pools.js";
import * as act from "/actions.js";

const held = (e) => e.parts.some((p) => p.state === "held");
const KINDS = { nvme: "namespace", iscsi: "LUN", nfs: "filesystem" };
const part = (e, p) => `${[KINDS[e.protocol], p.number].filter((w) => w !== null).join(" ")}: ${p.disk}, ${p.state}${p.reason ? `: ${p.reason}` : ""}${e.shared_by ? `, by sharenfs of ${e.shared_by}` : ""}`;

const NAMES = { nvme: "NVMe/TCP", iscsi: "iSCSI", nfs: "NFS" };

export const exports = {
  title: "Exports",
  load: async () => ({ list: await ask("exports", "exports", { size: 30 }) }),
  view({ status, data }) {
    return [
      h("p", { class: "quiet" }, "A volume or filesystem is exported from ", h("a", { href: "#/datasets" }, "Datasets"), "."),
      table({
        id: "exports", caption: "Exports", part: data.list, size: 30, key: (e) => `${e.protocol} ${e.name}`, empty: "no export yet",
        columns: [
          { name: "Protocol", field: "protocol", text: (e) => NAMES[e.protocol] },
          { name: "Name", field: "name", text: (e) => e.name, cell: (e) => h("code", null, e.name) },
          { name: "Serves", cell: (e) => [h("span", { class: held(e) ? "state bad" : "state good" }, held(e) ? "held" : "served"), h("ul", null, e.parts.map((p) => h("li", null, part(e, p))))] },
          { name: "Clients", cell: (e) => h("ul", null, e.clients.map((c) => h("li", { key: c }, h("code", null, c), " ", button("Deny", `${c} of ${e.name}`, () => act.deny(e.protocol, e.name, c)))), e.more_clients > 0 && h("li", null, `${e.more_clients} more`), !e.clients.length && h("li", { class: "warn" }, "nobody may connect")) },
          { name: "Protection", field: "protection", text: (e) => e.protection || "–" },
          { name: "Sessions", right: true, field: "sessions", cell: (e) => String(e.sessions) },
          { name: "", cell: (e) => [e.protocol === "iscsi" && [button("CHAP", `of ${e.name}`, () => act.setChap(e.name)), e.protection && button("Remove CHAP", `of ${e.name}`, () => act.removeChap(e.name))], button("Allow", `a client of ${e.name}`, () => act.allow(e.protocol, e.name)), button("Remove", e.name, () => act.removeExport(e.protocol, e.name, e.sessions))] },
        ],
      }),
      h("h2", null, "Addresses"),
      h("ul", null, status.listen.map((l) => h("li", null, h("code", null, l.address), ` ${l.role}`))),
    ];
  },
};
