// Device classes of a pool: the capacity of each, the bytes that the special class had no room for, and cache devices.

import { h } from "/dom.js";
import { meter } from "/chart.js";
import { table } from "/table.js";
import { bytes, percent } from "/format.js";
import { isReader } from "/dialog.js";
import * as act from "/actions.js";

// The class of a vdev behind its name.
export const named = (vdev) => vdev.name + (vdev.class === "special" || vdev.class === "log" ? `, ${vdev.class}` : "");

const sum = (all, of) => all.reduce((total, one) => total + of(one), 0);
const share = (part, c) => (c.hits + c.misses ? percent((100 * part) / (c.hits + c.misses)) : "–");

// One row for each class that the pool has.
function classes(p, writes) {
  const of = (name) => p.vdevs.filter((v) => (v.class || "normal") === name);
  const names = (vdevs) => vdevs.map((v) => v.name).join(", ");
  const rows = [{ name: "data", has: names(of("normal")), used: p.size - p.free, size: p.size }];
  const spilled = p.special ? sum(p.special.spilled, (s) => s.bytes) + p.special.spilled_of_pool : 0;
  if (p.special) rows.push({ name: "special", has: names(of("special")), used: p.special.size - p.special.free, size: p.special.size, spilled, note: p.special.takes_small_records ? "" : "no room for small records" });
  if (of("log").length) rows.push({ name: "log", has: names(of("log")), used: writes?.journal.used || 0, size: writes?.journal.size || 0 });
  const caches = p.caches || [];
  if (caches.length) rows.push({ name: "cache", has: caches.map((c) => c.path).join(", "), used: sum(caches, (c) => c.used), size: sum(caches, (c) => c.size) });
  return rows;
}

const classesTable = (p, writes) => table({
  id: "classes", caption: `Device classes of ${p.name}`, rows: classes(p, writes), key: (c) => c.name,
  columns: [
    { name: "Class", text: (c) => c.name },
    { name: "Devices", text: (c) => c.has, cell: (c) => h("code", null, c.has) },
    { name: "Used", right: true, sort: (c) => c.used, cell: (c) => meter(c.used, c.size, `${bytes(c.used)} of ${bytes(c.size)}`) },
    { name: "Spilled", right: true, sort: (c) => c.spilled || 0, cell: (c) => (c.spilled === undefined ? "–" : h("span", { class: c.spilled ? "bad" : "" }, bytes(c.spilled))) },
    { name: "Note", text: (c) => c.note || "" },
  ],
});

function spilledTable(p) {
  const rows = [...p.special.spilled, ...(p.special.spilled_of_pool ? [{ dataset: `${p.name} itself`, bytes: p.special.spilled_of_pool }] : [])];
  return rows.length > 0 && [
    h("h2", null, "Spilled from the special class"),
    h("p", { class: "quiet" }, "Bytes of metadata and small records that went to the other vdevs for lack of room, since the pool was opened."),
    table({ id: "spilled", caption: "Spilled bytes by dataset", rows, key: (s) => s.dataset, columns: [{ name: "Dataset", text: (s) => s.dataset }, { name: "Bytes", right: true, sort: (s) => s.bytes, cell: (s) => bytes(s.bytes) }] }),
  ];
}

const cachesTable = (p) => table({
  id: "caches", caption: `Cache devices of ${p.name}`, rows: p.caches, key: (c) => c.path,
  columns: [
    { name: "Device", text: (c) => c.path, cell: (c) => h("code", null, c.path) },
    { name: "State", text: (c) => c.reason || "online", cell: (c) => h("span", { class: `state ${c.reason ? "bad" : "good"}` }, c.reason || "online") },
    { name: "Used", right: true, sort: (c) => c.used, cell: (c) => meter(c.used, c.size, `${bytes(c.used)} of ${bytes(c.size)}`) },
    { name: "Found", right: true, sort: (c) => c.hits, cell: (c) => h("span", { title: `${c.hits} of ${c.hits + c.misses} blocks that memory did not have` }, share(c.hits, c)) },
    { name: "With twice its size", right: true, sort: (c) => c.hits_of_twice, cell: (c) => share(c.hits + Math.min(c.hits_of_twice, c.misses), c) },
    { name: "Written in 24 h", right: true, sort: (c) => c.written_today, cell: (c) => meter(c.written_today, c.daily, `${bytes(c.written_today)} of ${bytes(c.daily)}`) },
    { name: "Wrong", right: true, sort: (c) => c.wrong + c.read_errors, cell: (c) => h("span", { class: c.wrong + c.read_errors ? "bad" : "", title: `${c.wrong} wrong blocks, ${c.read_errors} failed reads: all were read from the other disks` }, String(c.wrong + c.read_errors)) },
    { name: "", cell: (c) => h("button", { type: "button", disabled: isReader(), onclick: () => act.removeCache(p.name, c) }, "Remove", h("span", { class: "hidden" }, ` ${c.path}`)) },
  ],
});

// Nothing for a pool that has data vdevs only.
export const classesOf = (p, writes) => (p.special || p.caches?.length > 0 || p.vdevs.some((v) => v.class === "log")) && [
  h("h2", null, "Device classes"), classesTable(p, writes),
  p.special && spilledTable(p),
  p.caches?.length > 0 && [h("h2", null, "Cache devices"), cachesTable(p)],
];
