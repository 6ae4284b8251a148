// Background work of all pools: always on the screen while it runs.

import { h } from "/dom.js";
import { meter } from "/chart.js";
import { isReader } from "/dialog.js";
import { bytes, percent, span } from "/format.js";
import * as api from "/api.js";

// The jobs of a pool that run or are paused: { pool, kind, words, done, of, job }.
export function jobsOf(pool) {
  const expanding = (pool.vdevs || []).filter((v) => v.expansion).map((v) => {
    const { waits_for, ...job } = v.expansion;
    return [`expansion of ${v.name}`, { ...job, state: waits_for ? "paused" : "running", reason: waits_for }];
  });
  const all = [["scrub", pool.scrub], ["resilver", pool.resilver], ["trim", pool.trim], ...expanding];
  return all.filter(([, job]) => job && (job.state === "running" || job.state === "paused")).map(([kind, job]) => ({ pool: pool.name, kind, job }));
}

function words({ kind, job }) {
  const of = job.of || 0;
  const done = of ? percent(Math.min(100, (job.done / of) * 100)) : "counting";
  const parts = [`${job.state}, ${done}`];
  if (kind !== "trim" && of) parts.push(`${bytes(job.done)} of ${bytes(of)}`);
  const moved = job.done - (job.began_at || 0);
  if (job.state === "running" && of && moved > 0 && job.active_ms > 2000) parts.push(`about ${span((job.active_ms / moved) * Math.max(0, of - job.done))} left`);
  if (job.repaired) parts.push(`${job.repaired} repaired`);
  if (job.lost) parts.push(`${job.lost} lost`);
  if (job.reason) parts.push(job.reason);
  return parts.join(", ");
}

export function jobs(status, act) {
  const all = status.pools.flatMap(jobsOf);
  return all.length > 0 && h("section", { class: "jobs", key: "jobs", "aria-label": "Running jobs" }, all.map((j) => {
    const start = j.kind === "scrub" ? api.scrubPool : api.trimPool;
    const does = (action, name) => h("button", { type: "button", disabled: isReader(), onclick: () => act(`${name} ${j.kind} of ${j.pool}`, () => start({ name: j.pool, action })) }, name, h("span", { class: "hidden" }, ` ${j.kind} of ${j.pool}`));
    return h("div", { class: "job", key: `${j.pool}-${j.kind}` }, h("strong", null, `${j.kind} of ${j.pool}`),
      meter(j.job.done, j.job.of || 0, words(j)),
      (j.kind === "scrub" || j.kind === "trim") && [j.job.state === "running" ? does("pause", "Pause") : does("start", "Resume"), does("stop", "Stop")]);
  }));
}
