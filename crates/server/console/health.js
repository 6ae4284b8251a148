// Health of the server in one sentence, from the state in short.

import { plural } from "/format.js";

// Returns { level: "good" | "warn" | "bad", text }.
export function health(status) {
  const bad = [];
  const warn = [];
  if (status.state !== "serving") warn.push("the server is shutting down");
  for (const pool of status.pools) {
    if (pool.state === "held") bad.push(`pool ${pool.name} is not open (${pool.reason || "no reason is known"})`);
    else if (pool.state === "opening") warn.push(`pool ${pool.name} is being opened`);
    else if (pool.health === "faulted") bad.push(`pool ${pool.name} has lost a vdev`);
    else if (pool.health === "suspended") bad.push(`pool ${pool.name} takes no writes (${pool.reason})`);
    else if (pool.health === "degraded") warn.push(degraded(pool));
    if (pool.damage.length) bad.push(`pool ${pool.name} has ${pool.more_damage ? "more than " : ""}${plural(pool.damage.length, "unreadable range")}`);
    if (pool.size && pool.free / pool.size < 0.05) warn.push(`pool ${pool.name} is almost full`);
    if (pool.sync_disabled.length) warn.push(`${pool.sync_disabled.join(", ")} confirm${pool.sync_disabled.length > 1 ? "" : "s"} flushes that are not durable`);
  }
  for (const disk of status.held_disks) bad.push(`disk ${disk.name} is not open (${disk.reason || "no reason is known"})`);
  for (const mount of status.held_mounts) warn.push(`${mount.name} is not mounted (${mount.reason || "no reason is known"})`);
  for (const text of status.warnings) if (![...bad, ...warn].some((w) => text.includes(w))) warn.push(text);
  if (status.more_warnings) warn.push(`${plural(status.more_warnings, "further warning")}: see wirepool status`);
  const all = [...bad, ...warn];
  if (all.length) {
    const more = all.length > 1 ? ` And ${plural(all.length - 1, "more warning")}.` : "";
    return { level: bad.length ? "bad" : "warn", text: `${sentence(all[0])}.${more}`, all };
  }
  const pools = status.pools.length ? `${plural(status.pools.length, "pool")} online` : "no pool yet";
  return { level: "good", text: `All is well: ${pools}, ${plural(status.exports, "export")}, ${plural(status.sessions, "session")}.`, all };
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function degraded(pool) {
  const members = pool.vdevs.flatMap((v) => v.members.filter((s) => s.state !== "online").map((s) => `${s.path || s.was || s.guid} is ${s.state}`));
  const running = pool.resilver?.state === "running" ? "; a resilver is running" : "";
  return `pool ${pool.name} is degraded: ${members[0] || "a member is missing"}, and the others have all data${running}`;
}
