//! Text output: progress of scrub, resilver and trim; damage.
//!
//! **Called by** the tables of pools. **Invariants**: as for all tables.

use crate::columns::{duration, human, micros};
use io::printable::printable;
use server::api::{
    BalanceMoves, ClassReason, Damage, DurableWrites, Expansion, OrderMoves, Pool, RegionMoves,
    Removal, Resilver, RowMoves, ScanState, Scrub, Trim,
};
use std::fmt::Write;

/// Bytes per second and the remaining time, if they are known.
fn pace(done: u64, of: u64, active_ms: u64) -> Option<(u64, String)> {
    let rate = done.saturating_mul(1000).checked_div(active_ms)?;
    let left_ms = of
        .saturating_sub(done)
        .saturating_mul(1000)
        .checked_div(rate)?;
    Some((rate, duration(left_ms)))
}

/// The lines on resilver, scrub and trim.
pub(crate) fn scans(p: &Pool) -> String {
    let expansions = p
        .vdevs
        .iter()
        .filter_map(|v| Some((v, v.expansion.as_ref()?)));
    let expansions: String = expansions.map(|(v, e)| expansion(&v.name, e)).collect();
    let resilver = p.resilver.as_ref().map(resilver);
    let scrub = p.scrub.as_ref().map(scrub);
    let trim = p.trim.as_ref().map(trim);
    let removal = p.removal.as_ref().map(removal);
    let scans = removal.into_iter().chain(resilver);
    let scans = scans.chain(scrub).chain(trim);
    std::iter::once(expansions).chain(scans).collect()
}

/// The line on records that are being moved, and why. `None` if none are.
pub(crate) fn moves(p: &Pool) -> Option<String> {
    let rows = p.row_moves.as_ref().filter(|m| m.is_moving);
    let rows = rows.map(|m| match m.is_awaited {
        true => "rows run short, and a write waits for them".to_owned(),
        false => "rows run short".to_owned(),
    });
    let order = p.order_moves.as_ref().filter(|m| m.is_moving);
    let order = || order.map(|m| format!("{} are read in order, and lie apart", human(m.waiting)));
    let balance = p.balance_moves.as_ref().filter(|m| m.is_moving);
    let balance = || balance.map(|m| format!("{} too much on the fuller vdevs", human(m.surplus)));
    let regions = p.region_moves.as_ref().filter(|m| m.is_moving);
    let regions = || regions.map(|_| "free space lies in short runs".to_owned());
    let class = || Some(class(p.special.as_ref()?.moves?));
    let why = rows.or_else(order).or_else(regions).or_else(class);
    let why = why.or_else(balance)?;
    Some(format!(" moves: records are written again: {why}\n"))
}

/// Why blocks are moved between the special class and the other vdevs.
fn class(reason: ClassReason) -> String {
    let why = match reason {
        ClassReason::Opened => "earlier moves did not end",
        ClassReason::Added => "a special vdev was added",
        ClassReason::Threshold => "special_small_blocks changed",
        ClassReason::Room => "the special vdevs have room again",
    };
    format!("blocks move between the special vdevs and the others: {why}")
}

/// The line on the row mover.
pub(crate) fn row_moves(m: &RowMoves) -> String {
    let now = match (m.is_moving, m.is_awaited) {
        (true, true) => "moving records: a write waits for free rows; ",
        (true, false) => "moving records: few rows are free; ",
        (false, _) => "",
    };
    let (moved, dead) = (human(m.moved), human(m.dead));
    format!("  rows: {now}{moved} moved, {dead} without a block in used rows\n")
}

/// The line on the order mover. `None` if it has nothing to say.
pub(crate) fn order_moves(m: &OrderMoves) -> Option<String> {
    let now = match (m.is_short, m.is_moving || m.waiting > 0) {
        (true, _) => "nothing is moved: less than a sixteenth of the pool is free; ".to_owned(),
        (false, true) => format!("{} apart to be moved; ", human(m.waiting)),
        (false, false) => String::new(),
    };
    let held = match m.held {
        0 => String::new(),
        held => format!("; {} stay apart: snapshots hold them", human(held)),
    };
    let is_idle = *m == OrderMoves::default();
    (!is_idle).then(|| format!("  order: {now}{} moved{held}\n", human(m.moved)))
}

/// The line on the region mover. `None` if it has nothing to say.
pub(crate) fn region_moves(m: &RegionMoves) -> Option<String> {
    let now = match (m.is_full, m.has_none) {
        (true, _) => {
            "; blocks that snapshots hold stay: there are as many relocations as a pool may have"
        }
        (false, true) => {
            "; nothing to empty: regions are more than three quarters full, or could not be emptied"
        }
        (false, false) => "",
    };
    let relocated = match (m.relocated, m.relocations) {
        (0, 0) => String::new(),
        (bytes, count) => format!(
            " ({} of them held by snapshots, nodes or fragments), {count} relocations",
            human(bytes)
        ),
    };
    let (moved, emptied, fragments) = (human(m.moved), m.emptied, m.in_fragments);
    (*m != RegionMoves::default()).then(|| {
        format!(
            "regions: {emptied} emptied, {moved} moved{relocated}; {fragments} records in fragments{now}\n"
        )
    })
}

/// The line on the balance mover. `None` if it has nothing to say.
pub(crate) fn balance_moves(m: &BalanceMoves) -> Option<String> {
    let surplus = human(m.surplus);
    let now = match (m.is_moving, m.is_stuck) {
        (true, _) => format!("{surplus} too much on the fuller vdevs; "),
        (false, true) => format!(
            "{surplus} too much on the fuller vdevs stay there, because snapshots hold them or autodefrag is off; "
        ),
        (false, false) => String::new(),
    };
    (m.is_moving || m.is_stuck || m.moved > 0)
        .then(|| format!("balance: {now}{} moved\n", human(m.moved)))
}

/// The line on small durable writes. `None` before there was one.
pub(crate) fn durable_writes(d: &DurableWrites) -> Option<String> {
    let blocks = d.blocks_us.map(|us| format!("{} to blocks", micros(us)))?;
    let journal = match d.journal_us {
        Some(us) => format!(", {} through the journal", micros(us)),
        None => String::new(),
    };
    let journaled = match d.journaled {
        0 => String::new(),
        _ => format!("; {} went through the journal", human(d.journaled_bytes)),
    };
    let waits = match d.waits.count {
        0 => String::new(),
        count => format!(
            "; clients waited {count} times, {} at the median",
            micros(d.waits.p50_us)
        ),
    };
    Some(format!(
        "  small durable writes: {blocks}{journal}{journaled}{waits}\n"
    ))
}

/// The lines on the removal of a vdev.
fn removal(r: &Removal) -> String {
    let (copied, left) = (human(r.copied), human(r.left));
    if r.is_stopping {
        return format!(
            "  scan: removal of {} is given up: copies of {copied} are being freed\n",
            r.vdev
        );
    }
    let rate = pace(r.copied_now, r.copied_now + r.left, r.active_ms);
    let rate = match (&r.waits_for, rate) {
        (Some(reason), _) => format!("waits: {reason}"),
        (None, Some((rate, left))) => format!("{}/s, {left} left", human(rate)),
        (None, None) => "in progress".to_owned(),
    };
    format!(
        "  scan: removal of {}: {copied} copied, {left} left; {rate}\n",
        r.vdev
    )
}

/// The lines on an expansion.
fn expansion(name: &str, e: &Expansion) -> String {
    let percent = e.done.saturating_mul(100).checked_div(e.of).unwrap_or(100);
    let mut out = format!(
        "  scan: expansion of {name}: {} of {} of each disk ({}%)",
        human(e.done),
        human(e.of),
        percent.min(100)
    );
    let (done, of) = e.since_start();
    match (&e.waits_for, pace(done, of, e.active_ms)) {
        (Some(reason), _) => _ = write!(out, ", waits: {reason}"),
        (None, Some((rate, left))) => _ = write!(out, " at {}/s, {left} left", human(rate)),
        (None, None) => {}
    }
    let _ = write!(out, "\n        until it ends, the vdev has its old size; ");
    out += &match e.may_fail {
        0 => "data is lost if a disk of the vdev fails".to_owned(),
        1 => "1 disk of the vdev may fail".to_owned(),
        more => format!("{more} disks of the vdev may fail"),
    };
    out + "\n"
}

fn trim(t: &Trim) -> String {
    let trimmed = human(t.trimmed);
    let percent = t.done.saturating_mul(100).checked_div(t.of).unwrap_or(100);
    let so_far = format!("{trimmed} trimmed, {}% done", percent.min(100));
    let reason = t
        .reason
        .as_ref()
        .map_or(String::new(), |r| format!(": {r}"));
    match t.state {
        ScanState::Running => {
            let mut out = format!("  trim: {so_far}");
            if let Some((_, left)) = pace(t.done, t.of, t.active_ms) {
                let _ = write!(out, ", {left} left");
            }
            if let Some(most) = t.rate_max {
                let _ = write!(out, ", at most {}/s", human(most));
            }
            out + "\n"
        }
        ScanState::Paused => format!("  trim: paused{reason}: {so_far}\n"),
        ScanState::Stopped => format!("  trim: stopped: {so_far}\n"),
        ScanState::Finished => {
            format!("  trim: {trimmed} in {}\n", duration(t.active_ms))
        }
    }
}

/// What is at risk until a resilver ends.
fn risk(may_fail: u64) -> String {
    match may_fail {
        0 => "until it ends, data is lost if another disk of the vdev fails".to_owned(),
        1 => "until it ends, 1 more disk of the vdev may fail".to_owned(),
        more => format!("until it ends, {more} more disks of the vdev may fail"),
    }
}

fn resilver(r: &Resilver) -> String {
    let copied = format!("{} blocks copied", r.copied);
    let place = r.of.map_or("counting blocks".to_owned(), |of| {
        let percent = r.done.saturating_mul(100).checked_div(of).unwrap_or(100);
        format!("{} of {} ({}%)", human(r.done), human(of), percent.min(100))
    });
    let so_far = format!("{}: {place}", r.member);
    let reason = r
        .reason
        .as_ref()
        .map_or(String::new(), |r| format!(": {r}"));
    match r.state {
        ScanState::Running => {
            let mut out = format!("  scan: resilver of {so_far}");
            if let Some((rate, left)) = r.of.and_then(|of| pace(r.done, of, r.active_ms)) {
                let _ = write!(out, " at {}/s, {left} left", human(rate));
            }
            if let Some(most) = r.rate_max {
                let _ = write!(out, ", at most {}/s", human(most));
            }
            let _ = write!(out, ", {copied}");
            if let Some(may_fail) = r.may_fail {
                let _ = write!(out, "\n        {}", risk(may_fail));
            }
            out + "\n"
        }
        ScanState::Paused => {
            format!("  scan: resilver will be retried{reason}: {so_far}, {copied}\n")
        }
        ScanState::Stopped => format!("  scan: resilver ended early: {so_far}, {copied}\n"),
        ScanState::Finished => format!(
            "  scan: resilvered {} of {} in {}: {copied}\n",
            human(r.done),
            r.member,
            duration(r.active_ms)
        ),
    }
}

fn scrub(s: &Scrub) -> String {
    let took = duration(s.active_ms);
    let result = format!("{} repaired, {} lost", s.repaired, s.lost);
    let percent = s.done.saturating_mul(100).checked_div(s.of).unwrap_or(100);
    let so_far = format!(
        "{} of {} ({}%)",
        human(s.done),
        human(s.of),
        percent.min(100)
    );
    let reason = s
        .reason
        .as_ref()
        .map_or(String::new(), |r| format!(": {r}"));
    match s.state {
        ScanState::Running => {
            let mut out = format!("  scan: scrub: {so_far}");
            if let Some((rate, left)) = pace(s.done, s.of, s.active_ms) {
                let _ = write!(out, " at {}/s, {left} left", human(rate));
            }
            if let Some(most) = s.rate_max {
                let _ = write!(out, ", at most {}/s", human(most));
            }
            out + ", " + &result + "\n"
        }
        ScanState::Paused => format!("  scan: scrub paused{reason}: {so_far}, {result}\n"),
        ScanState::Stopped => format!("  scan: scrub stopped: {so_far}, {result}\n"),
        ScanState::Finished => {
            format!("  scan: scrubbed {} in {took}: {result}\n", human(s.done))
        }
    }
}

/// The unreadable ranges.
pub(crate) fn damage(p: &Pool, verbose: bool) -> String {
    let ranges = p.damage.len();
    if ranges == 0 {
        let known = if p.more_damage {
            "more than is kept"
        } else {
            "no known data errors"
        };
        return format!("\nerrors: {known}\n");
    }
    let least = if p.more_damage { "at least " } else { "" };
    let word = if ranges == 1 { "range" } else { "ranges" };
    if !verbose {
        return format!(
            "\nerrors: {least}{ranges} {word} cannot be read: `wirepool pool status -v {}` lists them\n",
            p.name
        );
    }
    let mut out = format!(
        "\nerrors: {least}{ranges} {word} cannot be read; restore them from a copy, or destroy these datasets:\n"
    );
    for d in &p.damage {
        let _ = writeln!(out, "  {}", range(d));
    }
    out
}

/// The dataset, and the objects of a filesystem.
fn part(d: &Damage) -> String {
    let (dataset, path) = (&d.dataset, d.path.as_deref());
    match (path, d.first_object, d.end_object) {
        (Some(path), ..) => format!("{dataset} {}", printable(path)),
        (None, Some(first), Some(u64::MAX)) => format!("{dataset} objects from {first} on"),
        (None, Some(first), Some(end)) if first + 1 == end => format!("{dataset} object {first}"),
        (None, Some(first), Some(end)) => format!("{dataset} objects {first} to {}", end - 1),
        _ => dataset.clone(),
    }
}

fn range(d: &Damage) -> String {
    match (d.offset, d.len) {
        (Some(offset), Some(len)) => {
            format!("{}: {} at {offset}", part(d), human(len))
        }
        _ if d.first_object.is_some() => format!("{}: names, attributes or contents", part(d)),
        _ => format!("{}: parts of the pool's own trees", d.dataset),
    }
}
