// Volumes, filesystems and snapshots.

import { h } from "/dom.js";
import { meter } from "/chart.js";
import { table } from "/table.js";
import { bytes, when } from "/format.js";
import { button, properties } from "/pools.js";
import { show } from "/dialog.js";
import * as act from "/actions.js";
import * as api from "/api.js";

const link = (name) => h("a", { href: `#/dataset/${encodeURIComponent(name)}` }, name);
const openPools = (status) => status.pools.filter((p) => p.state === "online");
const names = (status) => [...status.volumes, ...status.filesystems].map((d) => d.name);
const nfsOf = (status, name) => (status.nfs_exports || []).find((e) => e.filesystem === name);
const exportedAs = (status, d) => d.nqn || d.iqn || nfsOf(status, d.name)?.path;
const isVolume = (d) => d.block_size !== undefined;

function rowButtons(status, d, perform) {
  const volume = isVolume(d);
  return [
    button("Snapshot", `of ${d.name}`, () => act.createSnapshot(d.name)),
    volume && !d.nqn && !d.iqn && [button("NVMe", `export ${d.name}`, () => act.exportNvme(d.name)), button("iSCSI", `export ${d.name}`, () => act.exportIscsi(d.name))],
    !volume && !nfsOf(status, d.name) && button("NFS", `export ${d.name}`, () => act.exportNfs(d.name)),
    volume && button("Resize", d.name, () => act.resize(d)),
    !volume && (d.mount ? button("Unmount", d.name, () => perform(`unmount ${d.name}`, () => api.unmountFilesystem({ name: d.name }))) : button("Mount", d.name, () => act.mount(d.name))),
    button("Destroy", d.name, () => perform(`destroy ${d.name}`, async () => { await act.destroyDataset(d, volume, names(status)); return ""; })),
  ];
}

export const datasets = {
  title: "Datasets",
  view: ({ status, act: perform }) => [
    h("div", { class: "tools" }, button("Create a volume", "", () => act.createVolume(openPools(status)), !openPools(status).length), button("Create a filesystem", "", () => act.createFilesystem(openPools(status)), !openPools(status).length)),
    h("h2", null, "Volumes"),
    table({
      id: "volumes", caption: "Volumes", rows: status.volumes, key: (v) => v.name, empty: "no volume yet",
      columns: [
        { name: "Volume", text: (v) => v.name, cell: (v) => link(v.name) },
        { name: "Size", right: true, sort: (v) => v.size, cell: (v) => bytes(v.size) },
        { name: "Used", right: true, sort: (v) => v.used, cell: (v) => bytes(v.used) },
        { name: "Snapshots hold", right: true, sort: (v) => v.by_snapshots, cell: (v) => bytes(v.by_snapshots) },
        { name: "Sync", text: (v) => v.sync, cell: (v) => h("span", { class: v.sync === "disabled" ? "warn" : "" }, v.sync) },
        { name: "Exported as", text: (v) => exportedAs(status, v) || "–", cell: (v) => h("code", null, exportedAs(status, v) || "–") },
        { name: "", cell: (v) => rowButtons(status, v, perform) },
      ],
    }),
    h("h2", null, "Filesystems"),
    table({
      id: "filesystems", caption: "Filesystems", rows: status.filesystems, key: (f) => f.name, empty: "no filesystem yet",
      columns: [
        { name: "Filesystem", text: (f) => f.name, cell: (f) => link(f.name) },
        { name: "Used", right: true, sort: (f) => f.used, cell: (f) => bytes(f.used) },
        { name: "Available", right: true, sort: (f) => f.available, cell: (f) => bytes(f.available) },
        { name: "Snapshots hold", right: true, sort: (f) => f.by_snapshots, cell: (f) => bytes(f.by_snapshots) },
        { name: "Mounted at", text: (f) => (f.mount ? `${f.mount.at}${f.mount.state === "held" ? ` (held: ${f.mount.reason})` : ""}` : "–") },
        { name: "Exported as", text: (f) => exportedAs(status, f) || "–", cell: (f) => h("code", null, exportedAs(status, f) || "–") },
        { name: "", cell: (f) => rowButtons(status, f, perform) },
      ],
    }),
  ],
};

export const dataset = {
  title: "Dataset",
  head: (name) => name,
  async load(name) {
    const [all, list] = await Promise.all([api.getProperties({ names: [name] }), api.listSnapshots({ volume: name })]);
    return { all, list };
  },
  view({ status, data, arg, act: perform }) {
    const d = [...status.volumes, ...status.filesystems].find((one) => one.name === arg);
    if (!d) return h("p", null, "There is no such volume or filesystem.");
    const volume = isVolume(d);
    const total = volume ? d.size : d.used + d.available;
    return [
      h("section", { class: "card" },
        h("h2", null, volume ? "Volume" : "Filesystem"),
        meter(d.referenced, total, `${bytes(d.referenced)} stored, ${bytes(d.logical)} before compression, of ${bytes(total)}`),
        h("dl", null,
          h("dt", null, "With snapshots"), h("dd", null, `${bytes(d.used)}, of which snapshots alone hold ${bytes(d.by_snapshots)}`),
          h("dt", null, "Exported as"), h("dd", null, exportedAs(status, d) || "not exported"),
          d.origin && [h("dt", null, "Clone of"), h("dd", null, d.origin)],
          d.mount && [h("dt", null, "Mounted at"), h("dd", null, `${d.mount.at} (${d.mount.state}${d.mount.reason ? `: ${d.mount.reason}` : ""}), ${d.mount.open_files} open files`)],
          h("dt", null, "Made"), h("dd", null, when(d.created_ms))),
        h("div", { class: "row" }, rowButtons(status, d, perform), button("Rename", d.name, () => act.rename(d.name, volume)),
          d.origin && button("Promote", d.name, () => perform(`promote ${d.name}`, () => (volume ? api.promoteVolume : api.promoteFilesystem)({ name: d.name }))))),
      h("h2", null, "Snapshots"), snapshotTable(status, data.list, perform),
      h("h2", null, "Properties"), properties(d.name, data.all),
    ];
  },
};

const snapshotTable = (status, list, perform) => {
  const volumes = new Set(status.volumes.map((v) => v.name));
  const of = (s) => s.name.split("@")[0];
  const newest = new Map(list.map((s) => [of(s), s.name]));
  return table({
    id: "snapshots", caption: "Snapshots", rows: list, key: (s) => s.name, empty: "no snapshot yet",
    columns: [
      { name: "Snapshot", text: (s) => s.name },
      { name: "Made", text: (s) => when(s.created_ms) },
      { name: "Stored", right: true, sort: (s) => s.referenced, cell: (s) => bytes(s.referenced) },
      { name: "Clones", text: (s) => s.clones.join(", ") || "–" },
      { name: "", cell: (s) => [
        button("Clone", s.name, () => act.clone(s)),
        newest.get(of(s)) === s.name && button("Roll back", `to ${s.name}`, () => act.rollback(s, volumes.has(of(s)))),
        !volumes.has(of(s)) && button("Changes", `since ${s.name}`, () => perform(`changes since ${s.name}`, () => changes(s.name))),
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
  load: async () => ({ list: await api.listSnapshots({}) }),
  view: ({ status, data, act: perform }) => snapshotTable(status, data.list, perform),
};
