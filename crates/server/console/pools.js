// Pools: capacity, members, wear, jobs, properties, history.

import { h } from "/dom.js";
import { meter } from "/chart.js";
import { ask, table } from "/table.js";
import { bytes, days, micros, percent, when } from "/format.js";
import { isReader } from "/dialog.js";
import { levelOf, stateOf, wear } from "/overview.js";
import { classesOf, named } from "/classes.js";
import * as act from "/actions.js";
import * as api from "/api.js";

const button = (name, of, onclick, disabled) => h("button", { type: "button", disabled: disabled || isReader(), onclick }, name, of && h("span", { class: "hidden" }, ` ${of}`));
export { button };

export const pools = {
  title: "Pools",
  async load() {
    const [writes, disks] = await Promise.all([api.listWear(), ask("disks", "disks")]);
    return { writes, disks };
  },
  view: ({ status, data, act: perform }) => [
    h("div", { class: "tools" }, button("Create a pool", "", act.createPool), button("Import a pool", "", () => act.findPools(perform))),
    table({
      id: "pools", caption: "Pools", rows: status.pools, key: (p) => p.name, empty: "no pool yet",
      columns: [
        { name: "Pool", text: (p) => p.name, cell: (p) => h("a", { href: `#/pool/${encodeURIComponent(p.name)}` }, p.name) },
        { name: "Health", text: stateOf, cell: (p) => h("span", { class: `state ${levelOf(p)}` }, stateOf(p)) },
        { name: "Used", right: true, sort: (p) => p.used, cell: (p) => meter(p.size - p.free, p.size, `${bytes(p.used)} of ${bytes(p.size)}`) },
        { name: "Wear", text: (p) => wear(data.writes.pools.find((w) => w.name === p.name)) },
        { name: "Dirty", right: true, sort: (p) => p.dirty, cell: (p) => bytes(p.dirty) },
        { name: "", cell: (p) => [button("Scrub", p.name, () => act.startScrub(p.name)), button("Add vdev", p.name, () => act.addVdev(p.name))] },
      ],
    }),
    h("h2", null, "Disks outside of pools"),
    h("div", { class: "tools" }, button("Add a disk", "", act.addDisk)),
    table({
      id: "disks", caption: "Disks outside of pools", part: data.disks, key: (d) => d.name, empty: "none",
      columns: [
        { name: "Disk", field: "name", text: (d) => d.name },
        { name: "Kind", field: "kind", text: (d) => d.kind },
        { name: "State", field: "state", text: (d) => (d.reason ? `${d.state}: ${d.reason}` : d.state) },
        { name: "Size", right: true, field: "size", cell: (d) => bytes(d.size) },
        { name: "Path", field: "path", text: (d) => d.path || "–" },
        { name: "Exported as", text: (d) => d.nqn || d.iqn || "–" },
        { name: "", cell: (d) => [!d.nqn && !d.iqn && [button("NVMe", `export ${d.name}`, () => act.exportNvme(d.name)), button("iSCSI", `export ${d.name}`, () => act.exportIscsi(d.name))], button("Remove", d.name, () => act.removeDisk(d))] },
      ],
    }),
  ],
};

// The members of a pool, each with its vdev and its wear.
function members(pool, writes) {
  const worn = new Map((writes?.disks || []).map((d) => [d.guid, d]));
  return pool.vdevs.flatMap((v) => v.members.map((s) => ({ ...s, vdev: v, worn: worn.get(s.guid) })));
}

function health(m) {
  const { health, forecast } = m.worn || {};
  if (!health) return "unknown";
  const used = health.percentage_used !== null && health.percentage_used !== undefined ? `${percent(health.percentage_used)} used, ` : "";
  return used + (forecast.days !== null && forecast.days !== undefined ? `${days(forecast.days)} left` : `unknown: ${forecast.unknown || health.unknown || "the disk says nothing"}`);
}

// Rows of each list on the page of a pool, which has several.
const SHORT = 20;

const errors = (m) => m.read_errors + m.write_errors + m.checksum_errors;

const spareState = (s) => (s.instead_of ? `in use for ${s.instead_of}` : s.in_pool ? `in use in pool ${s.in_pool}` : s.state === "avail" ? "available" : `unavailable: ${s.reason || "not found"}`);

const sparesTable = (pool) => table({
  id: "spares", caption: `Spares of ${pool.name}`, rows: pool.spares || [], key: (s) => s.guid,
  columns: [
    { name: "Device", text: (s) => s.path || s.guid, cell: (s) => h("code", null, s.path || s.guid) },
    { name: "State", text: spareState, cell: (s) => h("span", { class: `state ${s.state === "avail" ? "good" : "bad"}` }, spareState(s)) },
    { name: "", cell: (s) => [!s.member && button("Remove", s.path || s.guid, () => act.removeSpare(pool.name, s))] },
  ],
});

const membersTable = (pool, writes) => table({
  id: "members", caption: `Members of ${pool.name}`, rows: members(pool, writes), key: (m) => m.guid,
  columns: [
    { name: "Device", text: (m) => m.path || (m.was ? `was ${m.was}` : m.guid), cell: (m) => h("code", null, m.path || (m.was ? `was ${m.was}` : m.guid)) },
    { name: "Vdev", text: (m) => named(m.vdev) },
    { name: "State", text: (m) => m.state + (m.fault ? ` (${m.fault})` : "") + (m.replaced ? ", being replaced" : "") + (m.spare ? ", spare" : ""), cell: (m) => h("span", { class: `state ${m.state === "online" ? "good" : "bad"}` }, m.state, m.fault && ` (${m.fault})`, m.spare && ", spare", m.replaced && ", being replaced") },
    { name: "Errors", right: true, sort: errors, cell: (m) => h("span", { class: errors(m) ? "bad" : "", title: `read ${m.read_errors}, write ${m.write_errors}, checksum ${m.checksum_errors}` }, String(errors(m))) },
    { name: "Repairs", right: true, sort: (m) => m.repairs, cell: (m) => String(m.repairs) },
    { name: "Write p99", right: true, sort: (m) => m.write_times.p99_us, cell: (m) => (m.write_times.count ? micros(m.write_times.p99_us) : "–") },
    { name: "Flush p99", right: true, sort: (m) => m.flush_times.p99_us, cell: (m) => (m.flush_times.count ? micros(m.flush_times.p99_us) : "–") },
    { name: "Wear", text: health },
    { name: "", cell: (m) => {
      const name = m.path || m.was || m.guid;
      return [
        m.state === "offline" || m.state === "faulted" ? button("Online", name, () => act_online(pool.name, m)) : m.vdev.members.length > 1 && button("Offline", name, () => act.offlineMember(pool.name, m)),
        button("Replace", name, () => act.replaceMember(pool.name, m)), m.vdev.layout?.startsWith("raidz") ? button("Expand", m.vdev.name, () => act.expandVdev(pool.name, m.vdev)) : button("Attach", `beside ${name}`, () => act.attachMember(pool.name, m)),
        m.vdev.members.length > 1 && button("Detach", name, () => act.detachMember(pool.name, m)),
      ];
    } },
  ],
});

let act_online = () => {};

// Sizes and times as people read them.
const valueOf = (p) => (p.is_size && /^\d+$/.test(p.value) ? bytes(Number(p.value)) : p.property === "creation" ? when(Number(p.value)) : p.value);

function properties(name, all) {
  return table({
    id: `properties-${name}`, caption: `Properties of ${name}`, rows: all, key: (p) => p.property,
    columns: [
      { name: "Property", text: (p) => p.property },
      { name: "Value", text: valueOf, cell: (p) => [valueOf(p), p.warning && h("p", { class: "warn" }, p.warning)] },
      { name: "Source", text: (p) => (p.inherited_from ? `inherited from ${p.inherited_from}` : p.source) },
      { name: "", cell: (p) => p.settable && button("Set", p.property, () => act.setProperty(name, p.property, p.value)) },
    ],
  });
}
export { properties };

const amplification = (w) => {
  const { client } = w;
  const { data, journal, nodes, labels, repair } = w.written;
  return client ? `${((data + journal + nodes + labels + repair) / client).toFixed(2)} bytes written for each byte of clients` : "no writes of clients yet";
};

const last = (job, kind) => (job ? `${job.state}${job.ended_ms ? ` at ${when(job.ended_ms)}` : ""}${job.repaired ? `, ${job.repaired} repaired` : ""}${job.lost ? `, ${job.lost} lost` : ""}` : `no ${kind} yet`);

export const pool = {
  title: "Pool",
  head: (name) => `Pool ${name}`,
  async load(name) {
    const none = { total: 0, matching: 0, rows: [] };
    const part = (list) => ask(`pool-${list}`, list, { of: name, size: SHORT }).catch(() => none);
    const [writes, history, events, written, all] = await Promise.all([api.listWear(), part("history"), part("events"), part("written"), api.getProperties({ names: [name] }).catch(() => [])]);
    return { writes, history, events, written, all };
  },
  view({ status, data, arg, act: perform }) {
    const p = status.pools.find((one) => one.name === arg);
    if (!p) return h("p", null, "There is no such pool.");
    act_online = (name, m) => perform(`online ${m.path || m.guid}`, () => api.onlineMember({ pool: name, disk: m.guid }));
    const w = data.writes.pools.find((one) => one.name === arg);
    return [
      h("section", { class: "card" },
        h("h2", null, "State", h("span", { class: `state ${levelOf(p)}` }, stateOf(p))),
        p.reason && h("p", { class: "bad" }, p.reason),
        meter(p.size - p.free, p.size, `${bytes(p.used)} used, ${bytes(p.freeing)} being freed, ${bytes(p.free)} free of ${bytes(p.size)}`),
        h("dl", null,
          h("dt", null, "Wear"), h("dd", null, wear(w)),
          h("dt", null, "Amplification"), h("dd", null, w ? amplification(w) : "unknown: the pool is not open"),
          h("dt", null, "Journal"), h("dd", null, w ? `${bytes(w.journal.used)} of ${bytes(w.journal.size)}, full ${w.journal.full} times; last checkpoint ${when(w.journal.checkpoint_ms)}` : "–"),
          h("dt", null, "Record cache"), h("dd", null, p.record_cache.limit ? `${bytes(p.record_cache.bytes)} of ${bytes(p.record_cache.limit)}, ${percent((100 * p.record_cache.hits) / Math.max(1, p.record_cache.hits + p.record_cache.misses))} hits` : "none"),
          h("dt", null, "Dirty"), h("dd", null, bytes(p.dirty)),
          h("dt", null, "Scrub"), h("dd", null, last(p.scrub, "scrub")),
          h("dt", null, "Resilver"), h("dd", null, last(p.resilver, "resilver")),
          h("dt", null, "Trim"), h("dd", null, last(p.trim, "trim"))),
        h("div", { class: "row" },
          button("Scrub", "", () => act.startScrub(p.name)), button("Trim", "", () => act.startTrim(p.name)),
          button("Checkpoint", "", () => perform("checkpoint", () => api.checkpointPool({ name: p.name }))),
          button("Add vdev", "", () => act.addVdev(p.name)), button("Add spare", "", () => act.addSpare(p.name)), button("Add cache", "", () => act.addCache(p.name)), button("Export pool", "", () => act.exportPool(p.name)),
          button("Destroy", "pool", () => perform(`destroy ${p.name}`, () => act.destroyPool(p))))),
      h("h2", null, "Members"), membersTable(p, w), p.spares?.length > 0 && [h("h2", null, "Spares"), sparesTable(p)],
      classesOf(p, w),
      p.damage.length > 0 && [h("h2", { class: "bad" }, "Unreadable ranges"), table({ id: "damage", caption: "Unreadable ranges", rows: p.damage.map((d, i) => ({ ...d, i })), key: (d) => d.i, columns: [{ name: "Dataset", text: (d) => d.dataset }, { name: "File", text: (d) => d.path || "–" }, { name: "Offset", right: true, sort: (d) => d.offset ?? -1, cell: (d) => (d.offset ?? "–").toString() }, { name: "Length", right: true, sort: (d) => d.len ?? -1, cell: (d) => (d.len ? bytes(d.len) : "–") }] })],
      w && [h("h2", null, "Written bytes"), table({ id: "pool-written", caption: "Written bytes by dataset", part: data.written, size: SHORT, key: (d) => d.name, columns: [{ name: "Dataset", field: "name", text: (d) => d.name }, ...["client", "data", "journal", "nodes"].map((c) => ({ name: c, right: true, field: c, cell: (d) => bytes(d[c]) }))] })],
      h("h2", null, "Properties"), properties(p.name, data.all),
      h("h2", null, "History"), table({ id: "pool-history", caption: "Changes of the pool", part: data.history, size: SHORT, key: (e) => `${e.time_ms} ${e.what}`, columns: [{ name: "Time", field: "time_ms", text: (e) => when(e.time_ms) }, { name: "Host", text: (e) => e.host }, { name: "Change", text: (e) => e.what }] }),
      h("h2", null, "Events"), table({ id: "pool-events", caption: "Events of the pool", part: data.events, size: SHORT, key: (e) => e.sequence, columns: [{ name: "Time", field: "time_ms", text: (e) => when(e.time_ms) }, { name: "Class", text: (e) => e.class }, { name: "Event", text: (e) => e.text }] }),
    ];
  },
};
