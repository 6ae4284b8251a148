//! Output of `wirepool inspect`, as text and as JSON.
//!
//! **Called by** `inspect`. **Invariants**: both have the same information; damage comes last, a line each.

use crate::columns::{human, table, text};
use crate::inspect::Said;
use io::printable::printable;
use pool::format::{
    DatasetKind, DatasetProperty, Freeing, Membership, PoolState, Settings, TextProperty, Value,
    VdevKind,
};
use pool::inspect::{
    Contents, Finding, Findings, Flaw, Image, Inspected, JournalEnd, SeenBatch, SeenDataset,
    SeenJournal, TreeEntry, TreeStats,
};
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::path::Path;

/// A limit; zero means no limit.
fn limit(bytes: u64) -> String {
    match bytes {
        0 => "-".to_owned(),
        bytes => human(bytes),
    }
}

/// A name of the pool's disks, escaped for a terminal.
fn shown(name: &str) -> String {
    printable(name).into_owned()
}

/// A disk's path, escaped for a terminal.
pub(crate) fn path(path: &Path) -> String {
    shown(&path.display().to_string())
}

fn hex(guid: u64) -> String {
    format!("{guid:016x}")
}

fn damage_json(finding: &Finding) -> Json {
    json!({
        "kind": finding.kind.name(),
        "vdev": finding.at.map(|at| at.vdev.0),
        "offset": finding.at.map(|at| at.offset.0),
        "disk": finding.disk,
        "dataset": finding.dataset,
        "first_block": finding.blocks.as_ref().map(|b| b.start),
        "end_block": finding.blocks.as_ref().map(|b| b.end),
        "first_object": finding.file.as_ref().map(|f| f.objects.start),
        "end_object": finding.file.as_ref().map(|f| f.objects.end),
        "first_byte": finding.file.as_ref().and_then(|f| f.bytes.as_ref()).map(|b| b.start),
        "end_byte": finding.file.as_ref().and_then(|f| f.bytes.as_ref()).map(|b| b.end),
        "lost": finding.lost,
        "text": finding.text,
    })
}

/// Adds the findings.
fn said(mut text: String, mut json: Json, findings: &Findings) -> Said {
    for note in &findings.notes {
        let _ = writeln!(text, "note: {}", printable(note));
    }
    for finding in &findings.damage {
        let _ = writeln!(text, "{}", printable(&finding.to_string()));
    }
    if findings.more > 0 {
        let _ = writeln!(text, "and {} more", findings.more);
    }
    let damage: Vec<_> = findings.damage.iter().map(damage_json).collect();
    json["damage"] = damage.into();
    json["more_damage"] = findings.more.into();
    json["notes"] = json!(findings.notes);
    Said {
        text,
        json,
        damaged: !findings.damage.is_empty(),
    }
}

/// The inspected disks that are spares: lines and JSON.
fn spare_disks(image: &Image) -> (String, Json) {
    let mut lines = String::new();
    let mut list = Vec::new();
    for (path, label) in &image.spares {
        let pools: Vec<_> = label.pools.iter().map(|pool| &pool.name[..]).collect();
        let guid = hex(label.spare.0);
        let _ = writeln!(
            lines,
            "  {}: spare {guid} of pool {}",
            self::path(path),
            shown(&pools.join(", "))
        );
        list.push(json!({"path": path, "guid": guid, "pools": pools}));
    }
    (lines, list.into())
}

/// The spares of a checkpoint: lines and JSON.
fn spares(contents: &Contents) -> (String, Json) {
    let mut lines = String::new();
    let mut list = Vec::new();
    for (guid, spare) in &contents.spares {
        let (guid, size) = (hex(guid.0), human(spare.size));
        let _ = match spare.used {
            None => writeln!(lines, "spare {guid} ({size}): available"),
            Some(used) => writeln!(
                lines,
                "spare {guid} ({size}): in use as member {}, for member {}",
                hex(used.member.0),
                hex(used.instead_of.0)
            ),
        };
        list.push(
            json!({"guid": guid, "size": spare.size, "member": spare.used.map(|u| hex(u.member.0)),
            "instead_of": spare.used.map(|u| hex(u.instead_of.0))}),
        );
    }
    (lines, list.into())
}

pub(crate) fn labels(image: &Image, findings: &Findings) -> Said {
    let label = &image.label;
    let state = match label.state {
        PoolState::Active => "active",
        PoolState::Exported => "exported",
    };
    let mut out = format!(
        "pool {} ({}), {state}, label epoch {}, last opened by {}\n",
        printable(&label.name),
        hex(label.pool.0),
        label.epoch.0,
        printable(&label.host.name)
    );
    let mut vdevs = Vec::new();
    for (index, vdev) in image.vdevs.iter().enumerate() {
        let kind = match vdev.entry.kind {
            VdevKind::Disk => "disk",
            VdevKind::Mirror => "mirror",
            VdevKind::Raidz { parity: 1 } => "raidz1",
            VdevKind::Raidz { parity: 2 } => "raidz2",
            VdevKind::Raidz { .. } => "raidz3",
        };
        let _ = writeln!(
            out,
            "  vdev {index}: {kind}, {} of data, sectors of {}",
            human(vdev.entry.data_size),
            vdev.entry.sector()
        );
        let expansion = vdev.entry.expansion;
        if let Some(expansion) = expansion {
            let _ = writeln!(
                out,
                "    being expanded: {} rows are moved{}",
                expansion.position,
                if expansion.has_scratch {
                    ", the last ones in scratch areas"
                } else {
                    ""
                }
            );
        }
        let expansion =
            expansion.map(|e| json!({"rows": e.position, "has_scratch": e.has_scratch}));
        let mut members = Vec::new();
        for member in &vdev.members {
            let membership = match member.membership {
                Membership::In => "in",
                Membership::Stale => "stale",
                Membership::Offline => "offline",
            };
            let path = member.disk.map(|disk| image.seen[disk].path.clone());
            let shown = path.as_ref().map_or("missing".into(), |p| self::path(p));
            let _ = writeln!(out, "    {} {membership} {shown}", hex(member.guid.0));
            members
                .push(json!({"guid": hex(member.guid.0), "membership": membership, "path": path}));
        }
        vdevs.push(json!({"kind": kind, "data_size": vdev.entry.data_size, "expansion": expansion, "members": members}));
    }
    let (lines, spares) = spare_disks(image);
    out.push_str(&lines);
    let mut t = table(&["DISK", "COPY", "OFFSET", "EPOCH", "STATE"], &[1, 2, 3]);
    let mut copies = Vec::new();
    for disk in &image.seen {
        if disk.labels.is_empty() {
            let _ = writeln!(out, "  {}: too small for labels", path(&disk.path));
        }
        for (area, copy) in disk.labels.iter().enumerate() {
            let (epoch, state) = match &copy.label {
                Ok(label) => (Some(label.epoch.0), "whole".to_owned()),
                Err(flaw) => (None, flaw.to_string()),
            };
            t.add_row([
                path(&disk.path),
                area.to_string(),
                copy.offset.to_string(),
                epoch.map_or("-".into(), |e| e.to_string()),
                state.clone(),
            ]);
            copies.push(
                json!({"disk": disk.path, "copy": area, "offset": copy.offset, "epoch": epoch,
                "state": state}),
            );
        }
    }
    out.push_str(&text(&t));
    let json = json!({"pool": label.name, "guid": hex(label.pool.0), "state": state,
        "epoch": label.epoch.0, "host": label.host.name, "vdevs": vdevs, "spares": spares, "copies": copies});
    said(out, json, findings)
}

pub(crate) fn uberblocks(image: &Image, chosen: u64) -> Said {
    let header = [
        "",
        "SEQ",
        "EPOCH",
        "TIME",
        "LABELS",
        "JOURNAL FROM",
        "ROOT",
        "COPIES",
    ];
    let mut t = table(&header, &[1, 2, 3, 4, 5, 7]);
    let mut list = Vec::new();
    for u in &image.uberblocks {
        let slots = || image.seen.iter().flat_map(|disk| &disk.slots);
        let copies = slots().filter(|s| s.uberblock == Ok(*u)).count();
        let root = u.root.map(|ptr| ptr.address().to_string());
        let mark = if u.sequence == chosen { "*" } else { "" };
        t.add_row([
            mark.to_owned(),
            u.sequence.to_string(),
            u.epoch.0.to_string(),
            (u.time / 1_000_000_000).to_string(),
            u.label_epoch.0.to_string(),
            u.journal.sequence.0.to_string(),
            root.clone().unwrap_or_else(|| "empty".into()),
            copies.to_string(),
        ]);
        list.push(
            json!({"sequence": u.sequence, "epoch": u.epoch.0, "time_ns": u.time,
            "label_epoch": u.label_epoch.0, "journal_sequence": u.journal.sequence.0, "root": root,
            "copies": copies}),
        );
    }
    let mut out = text(&t);
    let mut bad = Vec::new();
    for disk in &image.seen {
        for slot in &disk.slots {
            let Err(flaw) = slot.uberblock else {
                continue;
            };
            if flaw == Flaw::Blank {
                continue;
            }
            let (area, number) = (slot.area, slot.slot);
            let _ = writeln!(
                out,
                "{} copy {area} slot {number}: {flaw}",
                path(&disk.path)
            );
            bad.push(json!({"disk": disk.path, "copy": area, "slot": number,
                "offset": slot.offset, "state": flaw.to_string()}));
        }
    }
    let json = json!({"uberblocks": list, "chosen": chosen, "bad_copies": bad});
    said(out, json, &Findings::default())
}

fn batch_json(batch: &SeenBatch) -> Json {
    let [fresh, contents, puts, deletes, ranges, freezes, states] = batch.counts;
    let lacking: Vec<_> = batch.lacking.iter().map(|(disk, _)| disk).collect();
    json!({"sequence": batch.header.sequence.0, "epoch": batch.header.epoch.0,
        "durable_up_to": batch.header.durable_up_to.0, "segment": batch.position.segment,
        "offset": batch.position.offset, "bytes": batch.size, "put_blocks": fresh, "put_contents": contents, "puts": puts,
        "deletes": deletes, "delete_ranges": ranges, "freezes": freezes, "states": states,
        "lacking": lacking})
}

pub(crate) fn journal(journal: &SeenJournal) -> Said {
    let header = [
        "SEQ", "EPOCH", "SEGMENT", "OFFSET", "BYTES", "BLOCKS", "CONTENTS", "PUTS", "DELETES",
        "RANGES", "FREEZES", "STATES", "LACKING",
    ];
    let mut t = table(&header, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    for batch in &journal.batches {
        let mut row = vec![
            batch.header.sequence.0.to_string(),
            batch.header.epoch.0.to_string(),
            batch.position.segment.to_string(),
            batch.position.offset.to_string(),
            batch.size.to_string(),
        ];
        row.extend(batch.counts.iter().map(ToString::to_string));
        let lacking = batch.lacking.iter().map(|(disk, _)| path(disk));
        row.push(lacking.collect::<Vec<_>>().join(" "));
        t.add_row(row);
    }
    let end = match journal.end {
        JournalEnd::Nothing => "nothing follows".to_owned(),
        JournalEnd::DataMissing { sequence, at } => format!(
            "batch {} follows, but its block at {at} is on no disk: it was not acknowledged as durable",
            sequence.0
        ),
        JournalEnd::Moved => {
            "the journal has moved to other vdevs since this checkpoint: LOST".to_owned()
        }
        JournalEnd::Lost { sequence } => {
            format!("batch {} was durable and is on no disk: LOST", sequence.0)
        }
    };
    let mut out = text(&t);
    let _ = writeln!(
        out,
        "{} batches, {} of {}; flushed up to {}; ends in segment {} at {}: {end}",
        journal.batches.len(),
        human(journal.used),
        human(journal.size),
        journal.durable.0,
        journal.head.segment,
        journal.head.offset
    );
    if !journal.given_up.is_empty() {
        let _ = writeln!(
            out,
            "{} whole batches behind the end do not count",
            journal.given_up.len()
        );
    }
    let batches: Vec<_> = journal.batches.iter().map(batch_json).collect();
    let given_up: Vec<_> = journal.given_up.iter().map(batch_json).collect();
    let json = json!({"batches": batches, "given_up": given_up, "used": journal.used,
        "size": journal.size, "durable_up_to": journal.durable.0, "end": end,
        "end_segment": journal.head.segment, "end_offset": journal.head.offset});
    let mut said = said(out, json, &Findings::default());
    said.damaged = matches!(journal.end, JournalEnd::Lost { .. } | JournalEnd::Moved);
    said
}

/// The name of a kind of dataset.
fn kind_name(kind: DatasetKind) -> &'static str {
    match kind {
        DatasetKind::Volume => "volume",
        DatasetKind::Snapshot => "snapshot of a volume",
        DatasetKind::Filesystem => "filesystem",
        DatasetKind::FilesystemSnapshot => "snapshot of a filesystem",
    }
}

/// The own values of a dataset or of the pool, by property.
fn settings_json(settings: &Settings) -> Json {
    let source = |is_received| if is_received { "received" } else { "local" };
    let own = DatasetProperty::all().filter_map(|property| {
        let setting = settings.get(property)?;
        let source = source(setting.is_received);
        let value = json!({"value": property.show(setting.value), "source": source});
        Some((property.name().to_owned(), value))
    });
    let texts = TextProperty::all().filter_map(|property| {
        let setting = settings.text(property)?;
        let value = json!({"value": setting.text, "source": source(setting.is_received)});
        Some((property.name().to_owned(), value))
    });
    Json::Object(own.chain(texts).collect())
}

fn dataset_json(seen: &SeenDataset) -> Json {
    let (id, name, d) = (seen.id.0, &seen.name, &seen.dataset);
    let holds = seen.holds.iter();
    let holds = holds.map(|hold| json!({"tag": hold.tag, "created_ns": hold.created}));
    json!({"id": id, "name": name, "kind": kind_name(d.kind), "size": d.size, "block_size": d.block_size,
        "record_size": d.record_size, "referenced": seen.root.referenced,
        "logical": seen.root.logical, "compression": d.compression.to_string(),
        "checksum": d.checksum.to_string(),
        "allocated": seen.root.allocated, "list": d.list.0, "holds": holds.collect::<Vec<_>>(),
        "birth": d.birth.0,
        "created_ns": d.created, "sync": format!("{:?}", d.sync).to_lowercase(),
        "of": d.of.map(|id| id.0), "previous": d.previous.map(|id| id.0),
        "origin": d.origin.map(|id| id.0), "quota": d.quota, "reservation": d.reservation,
        "settings": settings_json(&d.settings), "guid": hex(d.guid)})
}

/// The datasets of some kinds.
pub(crate) fn datasets(
    contents: &Contents,
    is_shown: impl Fn(DatasetKind) -> bool,
    findings: &Findings,
) -> Said {
    let header = [
        "ID", "NAME", "KIND", "SIZE", "REFER", "LOGICAL", "ALLOC", "BLOCK", "RECORD", "COMPRESS",
        "CHECKSUM", "SYNC", "BIRTH", "LIST", "QUOTA", "RESERV", "HOLDS", "ORIGIN",
    ];
    let mut t = table(&header, &[0, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16]);
    let mut list = Vec::new();
    for seen in contents
        .datasets
        .values()
        .filter(|d| is_shown(d.dataset.kind))
    {
        let d = &seen.dataset;
        let origin = d.origin.and_then(|id| contents.datasets.get(&id));
        t.add_row([
            seen.id.0.to_string(),
            shown(&seen.name),
            kind_name(d.kind).to_owned(),
            human(d.size),
            human(seen.root.referenced),
            human(seen.root.logical),
            human(seen.root.allocated),
            d.block_size.to_string(),
            d.record_size.to_string(),
            d.compression.to_string(),
            d.checksum.to_string(),
            format!("{:?}", d.sync).to_lowercase(),
            d.birth.0.to_string(),
            d.list.0.to_string(),
            limit(d.quota),
            limit(d.reservation),
            seen.holds.len().to_string(),
            origin.map_or("-".into(), |o| shown(&o.name)),
        ]);
        list.push(dataset_json(seen));
    }
    let mut out = text(&t);
    out.push_str("as of the checkpoint; later changes are in the journal\n");
    let on = contents
        .properties
        .iter()
        .map(|p| format!("{p:?}").to_lowercase());
    let on: Vec<_> = on.collect();
    if !on.is_empty() {
        out += &format!("on: {}\n", on.join(", "));
    }
    let settings = settings_json(&contents.settings);
    let json = json!({"datasets": list, "on": on, "settings": settings});
    said(out, json, findings)
}

pub(crate) fn trees(trees: &[(String, u64, TreeStats)], findings: &Findings) -> Said {
    let header = [
        "TREE",
        "NAME",
        "LEVELS",
        "NODES",
        "NODE BYTES",
        "ENTRIES",
        "BLOCKS",
        "BLOCK BYTES",
    ];
    let mut t = table(&header, &[0, 2, 3, 4, 5, 6, 7]);
    let mut list = Vec::new();
    for (name, id, stats) in trees {
        t.add_row([
            id.to_string(),
            shown(name),
            stats.levels.len().to_string(),
            stats.levels.iter().sum::<u64>().to_string(),
            human(stats.node_bytes),
            stats.entries.to_string(),
            stats.blocks.to_string(),
            human(stats.block_bytes),
        ]);
        list.push(
            json!({"id": id, "name": name, "nodes_by_level": stats.levels,
            "node_bytes": stats.node_bytes, "entries": stats.entries, "blocks": stats.blocks,
            "block_bytes": stats.block_bytes}),
        );
    }
    said(text(&t), json!({"trees": list}), findings)
}

pub(crate) fn entries((entries, more): (Vec<TreeEntry>, bool), findings: &Findings) -> Said {
    let header = [
        "KEY", "BIRTH", "PLACED", "STORED", "BYTES", "PARTS", "WHERE",
    ];
    let mut t = table(&header, &[1, 2, 3, 4, 5]);
    let mut list = Vec::new();
    for TreeEntry { key, value } in &entries {
        let name = format!("{key:?}");
        match value {
            Value::Block(block) => {
                let ptr = block.ptr();
                t.add_row([
                    name.clone(),
                    ptr.birth.0.to_string(),
                    ptr.placed.0.to_string(),
                    ptr.physical_size.to_string(),
                    ptr.logical_size.to_string(),
                    match block.parts() {
                        0 => "-".to_owned(),
                        parts => parts.to_string(),
                    },
                    ptr.address().to_string(),
                ]);
                list.push(
                    json!({"key": name, "birth": ptr.birth.0, "placed": ptr.placed.0, "stored": ptr.physical_size,
                    "bytes": ptr.logical_size, "parts": block.parts(), "vdev": ptr.vdev.0, "offset": ptr.offset.0}),
                );
            }
            Value::Inline(bytes) => {
                let len = bytes.len().to_string();
                let none = || "-".to_owned();
                let at = "inline".to_owned();
                t.add_row([name.clone(), none(), none(), none(), len, none(), at]);
                list.push(json!({"key": name, "bytes": bytes.len()}));
            }
        }
    }
    let mut out = text(&t);
    if more {
        out.push_str("and more: ask for a smaller range\n");
    }
    said(out, json!({"entries": list, "more": more}), findings)
}

/// Pending destroys, a line each.
fn freeing(contents: &Contents, found: &Inspected) -> (String, Vec<Json>) {
    let (mut out, mut list) = (String::new(), Vec::new());
    for (number, job) in &contents.freeing {
        let bytes = found.freeing.get(number).copied().unwrap_or(0);
        match job {
            Freeing::Tree {
                root, floor, from, ..
            } => {
                let _ = writeln!(
                    out,
                    "being freed: the tree at {}, from key {from:?} on, born after {}: {bytes} bytes",
                    root.address(),
                    floor.0
                );
                list.push(
                    json!({"number": number, "kind": "tree", "vdev": root.vdev.0,
                    "offset": root.offset.0, "from": format!("{from:?}"), "floor": floor.0,
                    "bytes": bytes}),
                );
            }
            Freeing::List { list: id, prev } => {
                let to = prev.list.map(|to| to.0);
                let rest = to.map_or("is forgotten".to_owned(), |to| format!("goes to list {to}"));
                let _ = writeln!(
                    out,
                    "being freed: list {}, born after {}: {bytes} bytes; the rest {rest}",
                    id.0, prev.floor.0
                );
                list.push(
                    json!({"number": number, "kind": "list", "list": id.0, "to": to,
                    "floor": prev.floor.0, "bytes": bytes}),
                );
            }
        }
    }
    (out, list)
}

pub(crate) fn account(
    image: &Image,
    contents: &Contents,
    found: &Inspected,
    everything: bool,
) -> Said {
    let header = [
        "NAME", "REFER", "USED", "UNIQUE", "DEAD", "OWNED", "QUOTA", "RESERV",
    ];
    let mut t = table(&header, &[1, 2, 3, 4, 5, 6, 7]);
    let mut list = Vec::new();
    for d in &found.datasets {
        t.add_row([
            shown(&d.name),
            human(d.referenced),
            human(d.used),
            human(d.unique),
            human(d.dead),
            limit(d.owned),
            limit(d.quota),
            limit(d.reservation),
        ]);
        list.push(
            json!({"id": d.id.0, "name": d.name, "kind": kind_name(d.kind), "referenced": d.referenced, "logical": d.logical, "used": d.used,
            "unique": d.unique, "dead": d.dead, "owned": d.owned, "quota": d.quota,
            "reservation": d.reservation}),
        );
    }
    let (freeing, jobs) = freeing(contents, found);
    let datasets: u64 = found.datasets.iter().map(|d| d.used).sum();
    let (spares, spare_list) = spares(contents);
    let mut out = text(&t);
    out.push_str(&spares);
    out.push_str(&freeing);
    let _ = writeln!(
        out,
        "{datasets} bytes of datasets, {} being freed, {} of lists of dead blocks, {} of the pool's own tree, {} only in the journal",
        found.freeing.values().sum::<u64>(),
        found.lists,
        found.pool_tree,
        found.journal
    );
    let _ = writeln!(
        out,
        "{} bytes are taken; the bitmaps of the checkpoint have {}; {} are leaked",
        found.taken, found.saved, found.leaked
    );
    if everything {
        let wrong = found.findings.damage.len() as u64 + found.findings.more;
        let what = match wrong {
            0 => "nothing is wrong".to_owned(),
            1 => "1 defect:".to_owned(),
            n => format!("{n} defects:"),
        };
        let (name, blocks) = (shown(&image.label.name), found.blocks);
        let _ = writeln!(
            out,
            "pool {name}: {blocks} blocks on every disk that should have them; {what}"
        );
    }
    let sizes = contents.list_sizes.iter();
    let sizes: Vec<_> = sizes
        .map(|(list, bytes)| json!({"list": list.0, "bytes": bytes}))
        .collect();
    let json = json!({"pool": image.label.name, "datasets": list, "lists": found.lists,
        "spares": spare_list, "freeing": jobs, "list_sizes": sizes,
        "pool_tree": found.pool_tree, "journal": found.journal, "saved": found.saved,
        "taken": found.taken, "leaked": found.leaked, "blocks": found.blocks,
        "records_read": found.read_records});
    said(out, json, &found.findings)
}
