//! Text output: tables of pools and volumes.
//!
//! **Called by** the commands. **Invariants**: as for all tables; words and columns are those of `zpool` and `zfs`
//! where they mean the same.

use crate::columns::{human, or_dash, rows, table, text, utc};
use crate::tables::{advice, caches, scan};
use server::api::{
    Checkpoint, DiskState, FoundPool, Health, Member, Pool, SYNC_DISABLED, Spare, SpareState,
    SpecialClass, Trial, Vdev, VdevClass, Volume, VolumeSync,
};
use std::fmt::Write;

fn health(h: Health) -> &'static str {
    match h {
        Health::Online => "ONLINE",
        Health::Degraded => "DEGRADED",
        Health::Faulted => "FAULTED",
        Health::Suspended => "SUSPENDED",
    }
}

/// The state of a pool in the words of `zpool`.
pub(crate) fn state(p: &Pool) -> &'static str {
    match (p.state, p.health) {
        (DiskState::Opening, _) => "OPENING",
        (DiskState::Held, _) => "UNAVAIL",
        (DiskState::Online, h) => h.map_or("ONLINE", health),
    }
}

/// A limit in bytes, of which 0 is none.
pub(crate) fn limit(bytes: u64) -> String {
    or_dash((bytes > 0).then(|| human(bytes)))
}

/// The durability of writes in the words of `zfs`.
pub(crate) fn sync(sync: VolumeSync) -> &'static str {
    match sync {
        VolumeSync::Standard => "standard",
        VolumeSync::Always => "always",
        VolumeSync::Disabled => "DISABLED",
    }
}

/// `wirepool pool list`.
pub(crate) fn pools(pools: &[Pool]) -> String {
    if pools.is_empty() {
        return "no pools: `wirepool pool create --help`\n".into();
    }
    let known =
        |p: &Pool, text: String| or_dash(Some(text).filter(|_| p.state == DiskState::Online));
    rows(pools)
        .left("NAME", |p| p.name.clone())
        .right("SIZE", |p| known(p, human(p.size)))
        .right("ALLOC", |p| known(p, human(p.used)))
        .right("FREEING", |p| known(p, human(p.freeing)))
        .right("FREE", |p| known(p, human(p.free)))
        .right("CAP", |p| known(p, format!("{}%", p.used_percent())))
        .left("HEALTH", |p| state(p).to_owned())
        .text()
}

/// `wirepool pool status`.
pub(crate) fn status(pools: &[Pool], verbose: bool) -> String {
    if pools.is_empty() {
        return "no pools: `wirepool pool create --help`\n".into();
    }
    pools
        .iter()
        .map(|p| one(p, verbose))
        .collect::<Vec<_>>()
        .join("\n")
}

fn one(p: &Pool, verbose: bool) -> String {
    let mut out = format!("  pool: {}\n state: {}\n", p.name, state(p));
    if let Some(reason) = &p.reason {
        let _ = writeln!(out, "reason: {reason}");
    }
    if let Some(lost) = &p.lost_changes {
        let _ = writeln!(out, "  lost: {lost}");
    }
    out += &advice::lines(p);
    if p.read_only {
        out += "  mode: read-only\n";
    }
    if p.state != DiskState::Online {
        for d in &p.disks {
            let _ = writeln!(out, "  disk: {}", d.display());
        }
        return out;
    }
    if verbose {
        let _ = writeln!(out, "  guid: {}", p.guid);
        let _ = writeln!(
            out,
            " space: {}: {} used, {} freeing, {} free; {} dirty in memory",
            human(p.size),
            human(p.used),
            human(p.freeing),
            human(p.free),
            human(p.dirty)
        );
        if let Some(moves) = &p.row_moves {
            out += &scan::row_moves(moves);
        }
        out.extend(p.order_moves.as_ref().and_then(scan::order_moves));
        out.extend(p.region_moves.as_ref().and_then(scan::region_moves));
        out.extend(p.balance_moves.as_ref().and_then(scan::balance_moves));
        out.extend(p.special.as_ref().map(special));
        out.extend(p.durable_writes.as_ref().and_then(scan::durable_writes));
    }
    for volume in &p.sync_disabled {
        let _ = writeln!(out, "  WARN: {volume}: {SYNC_DISABLED}");
    }
    out.extend(journal(p));
    out += &cache(p);
    out += &scan::scans(p);
    out.extend(scan::moves(p));
    let mut header = vec!["NAME", "STATE", "READ", "WRITE", "CKSUM"];
    if verbose {
        header.extend(["REPAIRED", "READS", "WRITES", "GUID"]);
    }
    let mut t = table(&header, &[2, 3, 4, 5, 6, 7]);
    t.add_row([p.name.as_str(), state(p)]);
    let of_class = |class| p.vdevs.iter().filter(move |v| v.class == class);
    for v in of_class(VdevClass::Normal) {
        vdev(&mut t, v, verbose);
    }
    for (class, title) in [(VdevClass::Special, "special"), (VdevClass::Log, "logs")] {
        let mut vdevs = of_class(class).peekable();
        if vdevs.peek().is_some() {
            t.add_row([title]);
        }
        for v in vdevs {
            vdev(&mut t, v, verbose);
        }
    }
    caches::rows(&mut t, p, verbose);
    if !p.spares.is_empty() {
        t.add_row(["spares"]);
    }
    for s in &p.spares {
        t.add_row(spare(s, verbose));
    }
    out + "\n" + &text(&t) + &caches::lines(p, verbose) + &scan::damage(p, verbose)
}

/// The lines on the special class.
fn special(s: &SpecialClass) -> String {
    let mut out = format!(
        " special: {}: {} used, {} freeing, {} free",
        human(s.size),
        human(s.used),
        human(s.freeing),
        human(s.free)
    );
    if !s.takes_small_records {
        out += "; small records go to the other vdevs until a quarter of it is free";
    }
    if s.moved > 0 {
        let _ = write!(out, "; {} moved between it and the others", human(s.moved));
    }
    if s.lacks_room {
        out += "; some blocks wait on the others for room";
    }
    out += "\n";
    let of_pool = (s.spilled_of_pool > 0).then_some(("the pool itself", s.spilled_of_pool));
    let of_datasets = s.spilled.iter().map(|of| (of.dataset.as_str(), of.bytes));
    let all = of_datasets.chain(of_pool);
    let all: Vec<String> = all
        .map(|(name, bytes)| format!("{name} {}", human(bytes)))
        .collect();
    if !all.is_empty() {
        let _ = writeln!(
            out,
            "spilled: to the other vdevs since the pool was opened, for lack of room: {}",
            all.join(", ")
        );
    }
    out
}

/// The line on the vdevs that have the journal, if not all have it.
fn journal(p: &Pool) -> Option<String> {
    let with: Vec<&str> = p
        .vdevs
        .iter()
        .filter(|v| v.journal)
        .map(|v| v.name.as_str())
        .collect();
    let is_on_some = (1..p.vdevs.len()).contains(&with.len());
    is_on_some.then(|| format!("journal: on {}\n", with.join(", ")))
}

fn spare(s: &Spare, verbose: bool) -> Vec<String> {
    let path = s.path.as_ref().map(|path| path.display().to_string());
    let state = match (s.state, &s.instead_of, &s.in_pool, &s.reason) {
        (SpareState::Avail, ..) => "AVAIL".to_owned(),
        (SpareState::Inuse, Some(disk), ..) => format!("INUSE (for {disk})"),
        (SpareState::Inuse, None, Some(pool), _) => format!("INUSE (pool {pool})"),
        (SpareState::Inuse, ..) => "INUSE".to_owned(),
        (SpareState::Unavail, .., Some(reason)) => format!("UNAVAIL ({reason})"),
        (SpareState::Unavail, ..) => "UNAVAIL".to_owned(),
    };
    let mut row = vec![format!("  {}", path.unwrap_or(s.guid.clone())), state];
    if verbose {
        row.extend(["", "", "", "", "", "", &s.guid].map(str::to_owned));
    }
    row
}

fn vdev(t: &mut comfy_table::Table, v: &Vdev, verbose: bool) {
    let mut indent = "  ";
    if v.members.len() > 1 {
        t.add_row([format!("  {}", v.name), health(v.health).to_owned()]);
        indent = "    ";
    }
    for s in &v.members {
        t.add_row(member(s, indent, verbose));
    }
}

fn member(s: &Member, indent: &str, verbose: bool) -> Vec<String> {
    let name = match &s.path {
        Some(path) => path.display().to_string(),
        None => match &s.was {
            Some(was) => format!("{} ({})", was.display(), s.guid),
            None => s.guid.clone(),
        },
    };
    let name = match (s.replaced, s.spare) {
        (true, _) => name + " (replaced)",
        (false, true) => name + " (spare)",
        (false, false) => name,
    };
    let mut row = vec![
        format!("{indent}{name}"),
        match &s.fault {
            Some(fault) => format!("{} ({fault})", s.state.to_uppercase()),
            None => s.state.to_uppercase(),
        },
        s.read_errors.to_string(),
        s.write_errors.to_string(),
        s.checksum_errors.to_string(),
    ];
    if verbose {
        let counts = [s.repairs, s.reads, s.writes];
        row.extend(counts.map(|n| n.to_string()));
        row.push(s.guid.clone());
    }
    row
}

/// `wirepool pool import` without a name.
pub(crate) fn found(list: &[FoundPool]) -> String {
    if list.is_empty() {
        return "no pools found\n".into();
    }
    let table = rows(list)
        .left("NAME", |p| p.name.clone())
        .left("GUID", |p| p.guid.clone())
        .left("STATE", |p| p.state.clone())
        .left("HOST", |p| p.host.clone())
        .right("DISKS", |p| p.disks.len().to_string())
        .right("MISSING", |p| p.missing.to_string())
        .text();
    let mut notes = String::new();
    for p in list {
        for note in p.short.iter().chain(&p.reason) {
            let _ = writeln!(notes, "{}: {note}", p.name);
        }
    }
    table + &notes
}

/// `wirepool pool import -n`.
pub(crate) fn trial(t: &Trial) -> String {
    let mut out = format!("  pool: {} ({})\n", t.name, t.guid);
    let _ = writeln!(
        out,
        " state: would be {}",
        t.health.map_or("ONLINE", health)
    );
    let _ = writeln!(
        out,
        "    as: checkpoint {} of {}",
        t.sequence,
        utc(t.time_ms)
    );
    match &t.problem {
        None => _ = writeln!(out, "  with: {}", t.volumes.join(" ")),
        Some(problem) => _ = writeln!(out, " error: it would not open: {problem}"),
    }
    for short in &t.short {
        let _ = writeln!(out, "  less: {short}");
    }
    if let Some(advice) = &t.advice {
        let _ = writeln!(out, "action: {advice}");
    }
    let checkpoints = rows(&t.checkpoints)
        .right("CHECKPOINT", |c| c.sequence.to_string())
        .right("EPOCH", |c| c.epoch.to_string())
        .left("WRITTEN", |c| utc(c.time_ms))
        .left("JOURNAL APPLIED", |c| match c.batches {
            0 => "none".into(),
            n => format!("{n} batches, {}", human(c.bytes)),
        })
        .left("LOST", lost)
        .text();
    out + "\n" + &checkpoints
}

/// The loss if a pool is opened at a checkpoint.
fn lost(c: &Checkpoint) -> String {
    match (&c.reason, c.lost_checkpoints, c.lost_batches) {
        // later writes may take the blocks that the next checkpoint freed
        (Some(reason), 1.., _) => format!("overwritten since, or damaged: {reason}"),
        (Some(reason), ..) => format!("cannot be opened: {reason}"),
        (None, 0, 0) => "nothing".into(),
        (None, 0, batches) => format!("{batches} durable batches of the journal"),
        (None, newer, batches) => format!(
            "what was written since: {newer} newer checkpoints, {batches} batches of the journal"
        ),
    }
}

/// Compression ratio: bytes of records per stored byte.
fn ratio(v: &Volume) -> String {
    match v.referenced {
        0 => "-".into(),
        stored => format!("{:.2}x", v.logical as f64 / stored as f64),
    }
}

/// Hits of the record cache, and hits that more memory would add.
fn cache(p: &Pool) -> String {
    let c = &p.record_cache;
    let asked = (c.hits + c.misses).max(1);
    let percent = |n: u64| n as f64 * 100.0 / asked as f64;
    match c.limit {
        0 => " cache: no memory for records\n".into(),
        limit => format!(
            " cache: {} of {} for records: {:.1}% of {} reads found there; {:.1}% more with twice as much\n",
            human(c.bytes),
            human(limit),
            percent(c.hits),
            c.hits + c.misses,
            percent(c.ghost_hits)
        ),
    }
}

/// `wirepool volume list`.
pub(crate) fn volumes(list: &[Volume]) -> String {
    if list.is_empty() {
        return "no volumes: `wirepool volume create --help`\n".into();
    }
    rows(list)
        .left("NAME", |v| v.name.clone())
        .right("VOLSIZE", |v| human(v.size))
        .right("USED", |v| human(v.used))
        .right("USEDSNAP", |v| human(v.by_snapshots))
        .right("REFER", |v| human(v.referenced))
        .right("RATIO", ratio)
        .right("QUOTA", |v| limit(v.quota))
        .right("RESERV", |v| limit(v.reservation))
        .right("BLOCK", |v| human(v.block_size.into()))
        .right("RECORD", |v| human(v.record_size.into()))
        .left("COMPRESS", |v| v.compression.clone())
        .left("SYNC", |v| sync(v.sync).to_owned())
        .left("EXPORTED AS", |v| or_dash(v.exported_as.words()))
        .text()
}
