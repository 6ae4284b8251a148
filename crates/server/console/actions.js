// What a person can do: each action is a dialog with its fields; what destroys says what will be lost and asks for the name.

import { ask } from "/dialog.js";
import { bytes, plural } from "/format.js";
import * as api from "/api.js";

const size = (name, label, help, required) => ({ name, label, help: help || "Such as 100G or 1.5T.", required, placeholder: "100G" });
const COMPRESSION = ["", "lz4", "off", "zstd-1", "zstd-3", "zstd-9"];
const SYNC = ["", "standard", "always", "disabled"];
const poolField = (pools) => ({ name: "pool", label: "Pool", options: pools.map((p) => p.name), value: pools[0]?.name, required: true });
const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, v]) => v !== undefined && v !== ""));
const list = (text) => (text || "").split(/[\s,]+/).filter(Boolean);

export const createVolume = (pools) => ask({
  title: "Create a volume", button: "Create",
  fields: [poolField(pools), { name: "name", label: "Name below the pool", required: true, placeholder: "vm1" }, size("size", "Size for clients", "", true), { name: "compression", label: "Compression", options: COMPRESSION }, { name: "sync", label: "Durability of writes (sync)", options: SYNC }, size("reservation", "Reservation", "Space that is kept for it; none if empty."), size("quota", "Quota", "Most space of it and its snapshots; none if empty.")],
  action: ({ pool, name, ...rest }) => api.createVolume(given({ name: `${pool}/${name}`, ...rest })).then((v) => `volume ${v.name} is there`),
});

export const createFilesystem = (pools) => ask({
  title: "Create a filesystem", button: "Create",
  fields: [poolField(pools), { name: "name", label: "Name below the pool", required: true, placeholder: "home" }, { name: "compression", label: "Compression", options: COMPRESSION }, { name: "sync", label: "Durability of writes (sync)", options: SYNC }, size("quota", "Quota", "Most space of it and its snapshots; none if empty."), size("reservation", "Reservation", "Space that is kept for it; none if empty."), { name: "parents", label: "Also create the missing filesystems above it", type: "checkbox" }],
  action: ({ pool, name, ...rest }) => api.createFilesystem(given({ name: `${pool}/${name}`, ...rest })).then((f) => `filesystem ${f.name} is there`),
});

const stamp = () => new Date().toISOString().slice(0, 16).replace(":", "");

export const createSnapshot = (dataset) => ask({
  title: `Snapshot of ${dataset}`, button: "Create",
  fields: [{ name: "name", label: "Name of the snapshot", required: true, value: stamp() }, { name: "recursive", label: "Also of all datasets below it, at the same moment", type: "checkbox" }],
  action: ({ name, recursive }) => api.createSnapshot(given({ name: `${dataset}@${name}`, recursive })).then((s) => `snapshot ${s.name} is there`),
});

export const resize = (volume) => ask({
  title: `Resize ${volume.name}`, button: "Resize", text: [`It has ${bytes(volume.size)} now. Clients see the new size at once.`],
  fields: [size("size", "New size", "", true), { name: "shrink", label: "Allow a smaller size: data beyond it is lost", type: "checkbox" }],
  action: (fields) => api.resizeVolume({ name: volume.name, ...fields }),
});

export const rename = (name, isVolume) => ask({
  title: `Rename ${name}`, button: "Rename", text: ["It must not be exported or mounted."],
  fields: [{ name: "new", label: "New name, in the same pool", required: true, value: name }],
  action: (fields) => (isVolume ? api.renameVolume : api.renameFilesystem)({ name, ...fields }),
});

export const renameSnapshot = (name) => ask({
  title: `Rename ${name}`, button: "Rename", fields: [{ name: "new", label: "New name", required: true, value: name.split("@")[1] }],
  action: (fields) => api.renameSnapshot({ name, ...fields }),
});

export const setProperty = (name, property, value) => ask({
  title: `Set ${property} of ${name}`, button: "Set", fields: [{ name: "value", label: property, required: true, value }],
  action: ({ value }) => api.setProperty({ name, property, value }).then((p) => p.warning || `${property} of ${name} is ${p.value}`),
});

export const exportNvme = (disk) => ask({
  title: `Export ${disk} over NVMe/TCP`, button: "Export",
  fields: [{ name: "hosts", label: "Hosts that may connect", help: "Host NQNs separated by spaces, or any.", required: true, placeholder: "nqn.2014-08.org.nvmexpress:uuid:…" }, { name: "nqn", label: "Subsystem", help: "Made from the volume's identity if empty." }],
  action: ({ hosts, nqn }) => api.exportNvme(given({ disk, nqn, hosts: list(hosts) })).then((e) => `${disk} is exported as ${e.nqn}`),
});

export const exportIscsi = (disk) => ask({
  title: `Export ${disk} over iSCSI`, button: "Export",
  fields: [{ name: "initiators", label: "Initiators that may log in", help: "Names separated by spaces, or any.", required: true, placeholder: "iqn.1993-08.org.debian:01:…" }, { name: "iqn", label: "Target", help: "Made from the volume's identity if empty." }, { name: "read_only", label: "Read-only", type: "checkbox" }],
  action: ({ initiators, iqn, read_only }) => api.exportIscsi(given({ disk, iqn, read_only, initiators: list(initiators) })).then((t) => `${disk} is exported as ${t.iqn}`),
});

export const exportNfs = (filesystem) => ask({
  title: `Export ${filesystem} over NFS`, button: "Export",
  fields: [{ name: "clients", label: "Clients with their rights", help: "Separated by spaces, such as 10.0.0.0/24:rw @lab:ro.", required: true, placeholder: "10.0.0.0/24:rw" }, { name: "path", label: "Path that clients mount", help: "The filesystem's name if empty." }],
  action: ({ clients, path }) => api.exportNfs(given({ filesystem, path, clients: list(clients) })).then((e) => `${filesystem} is exported as ${e.path}`),
});

export const mount = (name) => ask({
  title: `Mount ${name} on the server`, button: "Mount", fields: [{ name: "at", label: "Mount point", help: "An empty directory; the one of the configuration if empty." }, { name: "options", label: "Options", placeholder: "ro,noexec" }],
  action: (fields) => api.mountFilesystem({ name, ...fields }),
});

const ACCESS = { nvme: [api.allowHost, "nqn", "host", "Host NQN, or any"], iscsi: [api.allowInitiator, "iqn", "initiator", "Initiator's name, or any"], nfs: [api.allowNfs, "export", "client", "Client with rights, such as 10.0.0.7:rw"] };
export const allow = (protocol, name) => {
  const [call, of, field, label] = ACCESS[protocol];
  return ask({ title: `Allow a client: ${name}`, button: "Allow", fields: [{ name: field, label, required: true }], action: (fields) => call({ [of]: name, ...fields }) });
};

const DENY = { nvme: [api.denyHost, "nqn", "host"], iscsi: [api.denyInitiator, "iqn", "initiator"], nfs: [api.denyNfs, "export", "client"] };
export const deny = (protocol, name, client) => {
  const [call, of, field] = DENY[protocol];
  const who = protocol === "nfs" ? client.split(":").slice(0, client.startsWith("[") ? undefined : 1).join(":") : client;
  return ask({ title: `Deny ${client}`, button: "Deny", text: [`${client} loses its access to ${name}; its sessions end.`], action: () => call({ [of]: name, [field]: who }) });
};

const REMOVE = { nvme: (name) => api.removeExport({ nqn: name }), iscsi: (name) => api.removeTarget({ iqn: name }), nfs: (name) => api.removeNfs({ export: name }) };
export const removeExport = (protocol, name, sessions) => ask({
  title: `Remove the export ${name}`, button: "Remove", confirm: name,
  text: ["The data stays."], loss: [`the access of ${plural(sessions, "session")}, at once`, "its access list"],
  action: () => REMOVE[protocol](name),
});

const secret = (name, label, help) => ({ name, label, help, type: "password" });
const CHAP = [{ name: "user", label: "Name of the initiators", required: true }, { ...secret("secret", "Their secret", "12 to 255 bytes. It is stored on the server, and never shown again."), required: true }, { name: "mutual", label: "Name of this server, for mutual CHAP", help: "None if empty." }, secret("mutual_secret", "Its secret", "It must differ from the initiators' secret.")];
const chapOf = ({ user, secret, mutual, mutual_secret }) => ({ user, secret, ...(mutual ? { mutual: { user: mutual, secret: mutual_secret || "" } } : {}) });

export const setChap = (iqn) => ask({
  title: `CHAP of ${iqn}`, button: "Set", text: ["Initiators must prove that they know the secret. Sessions that exist stay."], fields: CHAP,
  action: (fields) => api.setChap({ iqn, chap: chapOf(fields) }).then(() => `logins to ${iqn} need the secret`),
});

export const removeChap = (iqn) => ask({
  title: `Remove CHAP of ${iqn}`, button: "Remove", confirm: iqn, loss: ["the proof of initiators: their names alone decide"],
  action: () => api.setChap({ iqn }).then(() => `logins to ${iqn} need no secret`),
});

const snapshotsOf = async (name) => (await api.listSnapshots({})).filter((s) => s.name.startsWith(`${name}@`) || s.name.startsWith(`${name}/`));

const datasetNames = async () => (await Promise.all([api.listVolumes(), api.listFilesystems()])).flat().map((d) => d.name);

export async function destroyDataset({ name }, isVolume) {
  const [snapshots, others, found] = await Promise.all([snapshotsOf(name), datasetNames(), api.listRows({ list: isVolume ? "volumes" : "filesystems", of: name })]);
  const dataset = found.rows[0] || {};
  const below = others.filter((o) => o.startsWith(`${name}/`));
  const recursive = snapshots.length > 0 || below.length > 0;
  ask({
    title: `Destroy ${name}`, button: "Destroy", confirm: name,
    loss: [`${isVolume ? "volume" : "filesystem"} ${name} with ${bytes(dataset.logical || dataset.referenced)} of data`, snapshots.length && `${plural(snapshots.length, "snapshot")}: ${snapshots.slice(0, 5).map((s) => s.name).join(", ")}${snapshots.length > 5 ? ", …" : ""}`, below.length && `${plural(below.length, "dataset")} below it: ${below.slice(0, 5).join(", ")}${below.length > 5 ? ", …" : ""}`].filter(Boolean),
    text: ["It cannot be brought back. It must not be exported or mounted."],
    action: () => (isVolume ? api.destroyVolume : api.destroyFilesystem)({ name, force: true, recursive }).then(() => `${name} is destroyed`),
  });
  return "";
}

export const destroySnapshot = (s) => ask({
  title: `Destroy ${s.name}`, button: "Destroy", confirm: s.name, loss: [`the state of ${s.name.split("@")[0]} at that time`],
  action: () => api.destroySnapshot({ name: s.name }).then(() => `${s.name} is destroyed`),
});

export const rollback = (s, isVolume) => ask({
  title: `Roll back to ${s.name}`, button: "Roll back", confirm: s.name.split("@")[0], loss: [`every change of ${s.name.split("@")[0]} since the snapshot was made`], text: ["It must be the newest snapshot, and the dataset must not be exported or mounted."],
  action: () => (isVolume ? api.rollbackVolume : api.rollbackFilesystem)({ snapshot: s.name, force: true }),
});

export const clone = (s) => ask({
  title: `Clone ${s.name}`, button: "Clone", fields: [{ name: "clone", label: "Name of the clone, in the same pool", required: true, value: `${s.name.split("@")[0]}-clone` }],
  action: (fields) => api.cloneSnapshot({ snapshot: s.name, ...fields }),
});

export const hold = (s, release) => ask({
  title: `${release ? "Release" : "Hold"} ${s.name}`, button: release ? "Release" : "Hold", fields: [{ name: "tag", label: "Tag", required: true, placeholder: "backup" }],
  action: (fields) => (release ? api.releaseSnapshot : api.holdSnapshot)({ name: s.name, ...fields }),
});

const LAYOUTS = { name: "layout", label: "Layout", options: ["mirror", "raidz1", "raidz2", "raidz3", "disk"], value: "mirror", help: "A mirror keeps its data until its last disk fails; a raidz1, raidz2 or raidz3 when one, two or three of its disks fail; a single disk never." };

// A request that the server refuses because something would be overwritten or risked: its words are shown, and only the typed name is a consent.
async function withConsent(name, title, risk, request, consent) {
  try {
    return await request({});
  } catch (e) {
    if (e.code !== "conflict" || !/-f\b|force/.test(e.message)) throw e;
    // The end of the message is for the command line.
    const reason = e.message.replace(/[.;:] [^.]*\buse -f\b.*$/s, "");
    ask({ title, button: "Do it nevertheless", confirm: name, text: ["The server refused this:", reason], loss: [risk], action: () => request(consent) });
    return "";
  }
}

export const createPool = () => ask({
  title: "Create a pool", button: "Create", text: ["The disks become those of the pool. A disk that holds something is not overwritten without a further question."],
  fields: [{ name: "name", label: "Name", required: true, placeholder: "tank" }, LAYOUTS, { name: "disks", label: "Paths of its disks, separated by spaces", required: true, help: "Paths in /dev/disk/by-id stay the same." }, { name: "spares", label: "Paths of hot spares" }, size("size", "Create missing files with this size")],
  action: ({ name, layout, disks, spares, ...rest }) => withConsent(name, `Overwrite the disks of ${name}?`, `everything on ${disks}${spares ? ` ${spares}` : ""}`,
    (consent) => api.createPool({ name, vdevs: [{ layout, members: list(disks) }], spares: list(spares), ...rest, ...consent }).then((p) => `pool ${p.name} is there`), { force: true }),
});

const importFound = (pool, disks) => ask({
  title: `Import ${pool.name}`, button: "Import",
  text: [`Last used by ${pool.host || "an unknown host"}, ${pool.state}; ${plural(pool.disks.length, "disk")} present, ${pool.missing} missing.`, ...(pool.reason ? [pool.reason] : [])],
  fields: [{ name: "rename", label: "New name", help: "Its own if empty." }, { name: "read_only", label: "Open it read-only", type: "checkbox" }],
  action: (fields) => withConsent(pool.name, `Import ${pool.name} nevertheless?`, "the pool, if another host still writes to it",
    (consent) => api.importPool({ name: pool.guid, disks, ...fields, ...consent }).then((p) => `pool ${p.name} is imported`), { force: true }),
});

export const findPools = (perform) => ask({
  title: "Import a pool", button: "Look for pools", text: ["Reads the labels of disks, and changes nothing."],
  fields: [{ name: "disks", label: "Disks, or directories with disks, separated by spaces", help: "The search directories of the configuration if empty." }],
  action: async ({ disks }) => {
    const places = list(disks);
    const found = await api.scanPools({ disks: places });
    if (!found.length) throw new Error("No pool was found there that is not open already.");
    const name = (p) => `${p.name} (${p.guid})`;
    const choose = () => ask({ title: "Import a pool", button: "Go on", fields: [{ name: "pool", label: "Pool", options: found.map(name), value: name(found[0]), required: true }],
      action: async ({ pool }) => { importFound(found.find((p) => name(p) === pool), places); return ""; } });
    if (found.length > 1) choose();
    else importFound(found[0], places);
    return "";
  },
});

export async function destroyPool(pool) {
  const [volumes, filesystems] = (await Promise.all([api.listVolumes(), api.listFilesystems()])).map((all) => all.filter((d) => d.name.startsWith(`${pool.name}/`)).length);
  ask({
    title: `Destroy pool ${pool.name}`, button: "Destroy", confirm: pool.name,
    loss: [`${bytes(pool.used)} of data on ${plural(pool.disks.length, "disk")}`, `${plural(volumes, "volume")}, ${plural(filesystems, "filesystem")} and all of their snapshots`],
    action: () => api.destroyPool({ name: pool.name, force: true }).then(() => `pool ${pool.name} is destroyed`),
  });
  return "";
}

export const exportPool = (name) => ask({
  title: `Export pool ${name}`, button: "Export", confirm: name, text: ["The pool is closed, so that another machine can import it. Its data stays; its volumes must not be exported."],
  action: () => api.exportPool({ name }),
});

export const startScrub = (name) => ask({
  title: `Scrub ${name}`, button: "Start", text: ["Reads every block of every member, and repairs what is wrong."], fields: [size("rate", "Most bytes per second", "No limit if empty.")],
  action: (fields) => api.scrubPool({ name, ...fields }).then(() => `the scrub of ${name} runs`),
});

export const startTrim = (name) => ask({
  title: `Trim ${name}`, button: "Start", text: ["Tells the devices which space is free."], fields: [size("rate", "Most bytes per second", "No limit if empty.")],
  action: (fields) => api.trimPool({ name, ...fields }).then(() => `the trim of ${name} runs`),
});

export const replaceMember = (pool, member) => ask({
  title: `Replace ${member.path || member.was || member.guid}`, button: "Replace", text: ["The new disk is resilvered, then the old one is detached."],
  fields: [{ name: "new", label: "Path of the new disk", help: "The old disk's path if empty." }, size("size", "Create the file with this size, if it is missing")],
  action: (fields) => api.replaceMember({ pool, disk: member.guid, ...fields }),
});

export const attachMember = (pool, member) => ask({
  title: `Attach a disk beside ${member.path || member.guid}`, button: "Attach", text: ["It becomes a member of the same mirror, and is resilvered at once."],
  fields: [{ name: "new", label: "Path of the new disk", required: true }, size("size", "Create the file with this size, if it is missing")],
  action: (fields) => api.attachMember({ pool, disk: member.guid, ...fields }),
});

export const expandVdev = (pool, vdev) => ask({
  title: `Expand ${vdev.name} by a disk`, button: "Expand", text: ["The disk becomes a member for good. All data is moved in the background; the vdev has its new size when that ends."],
  fields: [{ name: "new", label: "Path of the new disk", required: true }, size("size", "Create the file with this size, if it is missing")],
  action: (fields) => api.attachMember({ pool, disk: vdev.name, ...fields }),
});

export const detachMember = (pool, member) => ask({
  title: `Detach ${member.path || member.was || member.guid}`, button: "Detach", confirm: pool, loss: ["one copy of the data: the mirror has a member less"],
  action: () => api.detachMember({ pool, disk: member.guid }),
});

export const offlineMember = (pool, member) => ask({
  title: `Take ${member.path || member.guid} offline`, button: "Take offline", text: ["The mirror works without it until it is online again."],
  action: () => api.offlineMember({ pool, disk: member.guid }),
});

export const addVdev = (pool) => ask({
  title: `Add a vdev to ${pool}`, button: "Add", text: ["New writes use it at once. The pool is lost with a special vdev; a log has the journal alone."],
  fields: [{ name: "class", label: "Class", options: ["normal", "special", "log"], value: "normal", help: "special: metadata and small records. log: durable writes. Both are for devices that are faster than those with the data." }, { name: "layout", label: "Layout", options: ["mirror", "raidz1", "raidz2", "raidz3", "disk"], value: "mirror", help: "A raidz1, raidz2 or raidz3 keeps its data when one, two or three of its disks fail." }, { name: "disks", label: "Paths of its disks, separated by spaces", required: true }, size("size", "Create missing files with this size")],
  action: ({ layout, class: of, disks, ...rest }) => api.addVdevs({ pool, vdevs: [{ layout, class: of, members: list(disks) }], ...rest }),
});

export const addSpare = (pool) => ask({
  title: `Add a hot spare to ${pool}`, button: "Add", text: ["It takes the place of a disk that fails. Pools of this server may share it."],
  fields: [{ name: "disks", label: "Paths of its disks, separated by spaces", required: true }, size("size", "Create missing files with this size")],
  action: ({ disks, ...rest }) => api.addVdevs({ pool, spares: list(disks), ...rest }),
});

export const addCache = (pool) => ask({
  title: `Add a cache device to ${pool}`, button: "Add", text: ["Blocks that are read often are read from it when memory does not have them. It is never needed: the pool has all data without it."],
  fields: [{ name: "disks", label: "Paths of its disks, separated by spaces", required: true }, size("size", "Create missing files with this size")],
  action: ({ disks, ...rest }) => api.addVdevs({ pool, caches: list(disks), ...rest }),
});

export const removeCache = (pool, cache) => ask({
  title: `Remove the cache device ${cache.path}`, button: "Remove", text: ["Its blocks are read from the other disks then. No data is lost."],
  action: () => api.removeDevice({ pool, disk: cache.path }),
});

export const removeSpare = (pool, spare) => ask({
  title: `Remove the spare ${spare.path || spare.guid}`, button: "Remove", text: ["Nothing takes the place of a disk of this pool that fails then, unless there are other spares."],
  action: () => api.removeDevice({ pool, disk: spare.guid }),
});

export const addDisk = () => ask({
  title: "Add a disk", button: "Add", text: ["A disk outside of pools, to be exported by itself."],
  fields: [{ name: "name", label: "Name", required: true }, { name: "kind", label: "Kind", options: ["file", "block", "mem"], value: "file" }, { name: "path", label: "Path", help: "Of a file or a block device." }, size("size", "Size", "Of a missing file, or of a RAM disk.")],
  action: ({ name, kind, path, size }) => api.addDisk({ name, medium: given({ kind, path, size }) }),
});

export const removeDisk = (disk) => ask({ title: `Remove disk ${disk.name}`, button: "Remove", confirm: disk.name, text: [disk.kind === "mem" ? "" : "Its data stays."], loss: disk.kind === "mem" ? [`all ${bytes(disk.size)} of the RAM disk`] : [], action: () => api.removeDisk({ name: disk.name }) });

export const endSession = (s) => ask({ title: `End session ${s.id}`, button: "End", text: [`${s.client || s.peer} may connect again.`], action: () => api.endSession({ id: s.id }) });
