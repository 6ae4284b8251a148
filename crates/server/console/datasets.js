// Volumes, filesystems and snapshots.

import { h } from "/dom.js";
import { meter } from "/chart.js";
import { ask, table } from "/table.js";
import { bytes, when } from "/format.js";
import { button, properties } from "/pools.js";
import { show } from "/dialog.js";
import * as act from "/actions.js";
import * as api from "/api.js";

// Rows of a page, each with several buttons.
const SOME = 30;
const link = (name) => h("a", { href: `#/dataset/${encodeURIComponent(name)}` }, name);
const openPools = (status) => status.pools.filter((p) => p.state === "online");
const exportedAs = (d) => d.nqn || d.iqn || d.export;
const isVolume = (d) => d.block_size !== undefined;

function rowButtons(d, perform) {
  const volume = isVolume(d);
  return [
    button("Snapshot", `of ${d.name}`, () => act.createSnapshot(d.name)),
    volume && !d.nqn && !d.iqn && [button("NVMe", `export ${d.name}`, () => act.exportNvme(d.name)), button("iSCSI", `export ${d.name}`, () => act.exportIscsi(d.name))],
    !volume && !d.export && button("NFS", `export ${d.name}`, () => act.exportNfs(d.name)),
    volume && button("Resize", d.name, () => act.resize(d)),
    !volume && (d.mount ? button("Unmount", d.name, () => perform(`unmount ${d.name}`, () => api.unmountFilesystem({ name: d.name }))) : button("Mount", d.name, () => act.mount(d.name))),
    button("Destroy", d.name, () => perform(`destroy ${d.name}`, () => act.destroyDataset(d, volume))),
  ];
}

export const datasets = {
  title: "Datasets",
  async load() {
    const [volumes, filesystems] = await Promise.all([
      ask("volumes", "volumes", { fields: ["name", "size", "used", "by_snapshots", "sync", "nqn", "iqn", "block_size"], size: SOME }),
      ask("filesystems", "filesystems", { fields: ["name", "used", "available", "by_snapshots", "mount", "export", "logical", "referenced"], size: SOME }),
    ]);
    return { volumes, filesystems };
  },
  view: ({ status, data, act: perform }) => [
    h("div", { class: "tools" }, button("Create a volume", "", () => act.createVolume(openPools(status)), !openPools(status).length), button("Create a filesystem", "", () => act.createFilesystem(openPools(status)), !openPools(status).length)),
    h("h2", null, "Volumes"),
    table({
      id: "volumes", caption: "Volumes", part: data.volumes, size: SOME, key: (v) => v.name, empty: "no volume yet",
      columns: [
        { name: "Volume", field: "name", text: (v) => v.name, cell: (v) => link(v.name) },
        { name: "Size", right: true, field: "size", cell: (v) => bytes(v.size) },
        { name: "Used", right: true, field: "used", cell: (v) => bytes(v.used) },
        { name: "Snapshots hold", right: true, field: "by_snapshots", cell: (v) => bytes(v.by_snapshots) },
        { name: "Sync", field: "sync", text: (v) => v.sync, cell: (v) => h("span", { class: v.sync === "disabled" ? "warn" : "" }, v.sync) },
        { name: "Exported as", text: (v) => exportedAs(v) || "–", cell: (v) => h("code", null, exportedAs(v) || "–") },
        { name: "", cell: (v) => rowButtons(v, perform) },
      ],
    }),
    h("h2", null, "Filesystems"),
    table({
      id: "filesystems", caption: "Filesystems", part: data.filesystems, size: SOME, key: (f) => f.name, empty: "no filesystem yet",
      columns: [
        { name: "Filesystem", field: "name", text: (f) => f.name, cell: (f) => link(f.name) },
        { name: "Used", right: true, field: "used", cell: (f) => bytes(f.used) },
        { name: "Available", right: true, field: "available", cell: (f) => bytes(f.available) },
        { name: "Snapshots hold", right: true, field: "by_snapshots", cell: (f) => bytes(f.by_snapshots) },
        { name: "Mounted at", text: (f) => (f.mount ? `${f.mount.at}${f.mount.state === "held" ? ` (held: ${f.mount.reason})` : ""}` : "–") },
        { name: "Exported as", text: (f) => exportedAs(f) || "–", cell: (f) => h("code", null, exportedAs(f) || "–") },
        { name: "", cell: (f) => rowButtons(f, perform) },
      ],
    }),
  ],
};

export const dataset = {
  title: "Dataset",
  head: (name) => name,
  async load(name) {
    const one = (list) => api.listRows({ list, of: name });
    const [all, list, volumes, filesystems] = await Promise.all([api.getProperties({ names: [name] }), ask("snapshots", "snapshots", { of: name, size: SOME }), one("volumes"), one("filesystems")]);
    return { all, list, found: volumes.rows[0] || filesystems.rows[0] };
  },
  view({ data, act: perform }) {
    const d = data.found;
    if (!d) return h("p", null, "There is no such volume or filesystem.");
    const volume = isVolume(d);
    const total = volume ? d.size : d.used + d.available;
    return [
      h("section", { class: "card" },
        h("h2", null, volume ? "Volume" : "Filesystem"),
        meter(d.referenced, total, `${bytes(d.referenced)} stored, ${bytes(d.logical)} before compression, of ${bytes(total)}`),
        h("dl", null,
          h("dt", null, "With snapshots"), h("dd", null, `${bytes(d.used)}, of which snapshots alone hold ${bytes(d.by_snapshots)}`),
          h("dt", null, "Exported as"), h("dd", null, exportedAs(d) || "not exported"),
          d.origin && [h("dt", null, "Clone of"), h("dd", null, d.origin)],
          d.mount && [h("dt", null, "Mounted at"), h("dd", null, `${d.mount.at} (${d.mount.state}${d.mount.reason ? `: ${d.mount.reason}` : ""}), ${d.mount.open_files} open files`)],
          h("dt", null, "Made"), h("dd", null, when(d.created_ms))),
        h("div", { class: "row" }, rowButtons(d, perform), button("Rename", d.name, () => act.rename(d.name, volume)),
          d.origin && button("Promote", d.name, () => perform(`promote ${d.name}`, () => (volume ? api.promoteVolume : api.promoteFilesystem)({ name: d.name }))))),
      h("h2", null, "Snapshots"), snapshotTable(data.list, perform),
      h("h2", null, "Properties"), properties(d.name, data.all),
    ];
  },
};

const snapshotTable = (list, perform) => {
  return table({
    id: "snapshots", caption: "Snapshots", part: list, size: SOME, key: (s) => s.name, empty: "no snapshot yet",
    columns: [
      { name: "Snapshot", field: "name", text: (s) => s.name },
      { name: "Made", field: "created_ms", text: (s) => when(s.created_ms) },
      { name: "Stored", right: true, field: "referenced", cell: (s) => bytes(s.referenced) },
      { name: "Clones", text: (s) => s.clones.join(", ") || "–" },
      { name: "", cell: (s) => [
        button("Clone", s.name, () => act.clone(s)),
        s.newest && button("Roll back", `to ${s.name}`, () => act.rollback(s, s.is_volume)),
        !s.is_volume && button("Changes", `since ${s.name}`, () => perform(`changes since ${s.name}`, () => changes(s.name))),
        button("Hold", s.name, () => act.hold(s, false)), button("Release", s.name, () => act.hold(s, true)), button("Rename", s.name, () => act.renameSnapshot(s.name)),
        button("Destroy", s.name, () => act.destroySnapshot(s)),
      ] },
    ],
  });
};

// The files that differ from a snapshot. Their names come from clients.
async function changes(from) {
  const all = await api.diffFilesystem({ from });
  const rows = all.slice(0, 500);
  show(`Changes since ${from}`, rows.length ? [
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Changed files" }, h("table", null, h("thead", null, h("tr", null, ["Change", "Kind", "Path", "New path"].map((n) => h("th", { scope: "col" }, n)))),
      h("tbody", null, rows.map((d) => h("tr", null, h("td", null, d.change), h("td", null, d.file), h("td", null, d.path), h("td", null, d.new_path || "–")))))),
    all.length > rows.length && h("p", { class: "quiet" }, `${all.length - rows.length} more`)] : h("p", null, "Nothing has changed."));
  return "";
}

export const snapshots = {
  title: "Snapshots",
  load: async () => ({ list: await ask("snapshots", "snapshots", { size: SOME }) }),
  view: ({ data, act: perform }) => snapshotTable(data.list, perform),
};
