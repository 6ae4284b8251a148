// The first page: pools, rates, warnings, the last events.

import { h } from "/dom.js";
import { chart, meter } from "/chart.js";
import { byteRate, bytes, days, micros, percent, rate, when } from "/format.js";
import { jobsOf } from "/jobs.js";
import * as api from "/api.js";

const KEPT = 900;

// The rates of the last half hour; only new ones are asked for.
export async function rates(known) {
  const last = known?.length ? known[known.length - 1].time_ms : 0;
  const more = await api.listRates(last ? { after_ms: last } : {});
  return [...(known || []), ...more].slice(-KEPT);
}

export const charts = (points) => h("div", { class: "cards" },
  chart({ title: "Requests", points, show: rate, series: [{ name: "reads", of: (p) => p.reads }, { name: "writes", of: (p) => p.writes }, { name: "others", of: (p) => p.others }] }),
  chart({ title: "Mean time of a request", points, show: micros, series: [{ name: "all", of: (p) => p.mean_us }] }),
  chart({ title: "Clients", points, show: byteRate, series: [{ name: "to clients", of: (p) => p.bytes_out }, { name: "from clients", of: (p) => p.bytes_in }] }),
  chart({ title: "Disks of pools", points, show: byteRate, series: [{ name: "read", of: (p) => p.disk_read }, { name: "written", of: (p) => p.disk_written }] }),
  chart({ title: "Busiest shard", points, show: percent, series: [{ name: "processor", of: (p) => p.cpu_percent }] }),
  chart({ title: "Used space", points, show: bytes, series: [{ name: "all pools", of: (p) => p.used }] }));

// The shortest forecast of a pool's disks.
export function wear(pool) {
  if (!pool) return "unknown: the pool is not open";
  const known = pool.disks.filter((d) => d.forecast.days !== null && d.forecast.days !== undefined);
  if (!known.length) return `unknown: ${pool.disks[0]?.forecast.unknown || pool.disks[0]?.health.unknown || "no disk says"}`;
  const least = known.reduce((a, b) => (a.forecast.days < b.forecast.days ? a : b));
  const rest = pool.disks.length - known.length;
  return `${days(least.forecast.days)} left (${least.path})${rest ? `, ${rest} unknown` : ""}`;
}

export const stateOf = (pool) => (pool.state === "online" ? pool.health || "online" : pool.state);
export const levelOf = (pool) => (pool.state !== "online" || ["faulted", "suspended"].includes(pool.health) ? "bad" : pool.health === "degraded" ? "warn" : "good");

const card = (pool, writes) => h("article", { class: "card", key: pool.name },
  h("h2", null, h("a", { href: `#/pool/${encodeURIComponent(pool.name)}` }, pool.name), h("span", { class: `state ${levelOf(pool)}` }, stateOf(pool))),
  meter(pool.size - pool.free, pool.size, `${bytes(pool.used)} of ${bytes(pool.size)} used, ${bytes(pool.free)} free`),
  h("dl", null,
    h("dt", null, "Wear"), h("dd", null, wear(writes)),
    h("dt", null, "Jobs"), h("dd", null, jobsOf(pool).map((j) => `${j.kind} ${j.job.state}`).join(", ") || "none running"),
    h("dt", null, "Devices"), h("dd", null, pool.vdevs.map((v) => `${v.name} (${v.members.length})`).join(", ") || "–"),
    pool.reason && [h("dt", null, "Reason"), h("dd", { class: "bad" }, pool.reason)]));

export default {
  title: "Overview",
  async load(_, old) {
    const [writes, events, points] = await Promise.all([api.listWear(), api.listRows({ list: "events", count: 8 }), rates(old?.points)]);
    return { writes, events: events.rows, points };
  },
  view({ status, data, health }) {
    return [
      h("div", { class: "cards" }, status.pools.map((p) => card(p, data.writes.pools.find((w) => w.name === p.name))),
        !status.pools.length && h("p", { class: "card" }, "There is no pool yet: ", h("code", null, "wirepool pool create tank mirror DISK DISK"), " makes one.")),
      health.all.length > 0 && h("section", { class: "card" }, h("h2", null, "Warnings"), h("ul", null, health.all.map((w) => h("li", null, w)))),
      h("h2", null, "The last half hour"),
      charts(data.points),
      h("section", { class: "card" }, h("h2", null, "Last events"),
        data.events.length ? h("ul", null, data.events.map((e) => h("li", { key: e.sequence }, h("span", { class: "quiet" }, when(e.time_ms)), " ", e.pool, ": ", e.text))) : h("p", { class: "quiet" }, "none since the server started")),
    ];
  },
};
