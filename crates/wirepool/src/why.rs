//! `wirepool why`: where the time of requests goes, and what limits an export.
//!
//! **Called by** `commands`, and by `top` for its readings. **Invariants**: two readings of a server and [`server::why::judge`] are all that it is made of.

use crate::ask::Ask;
use crate::client::Client;
use crate::columns::rows;
use anyhow::{Result, bail};
use server::api::{GetStages, GetStatus, ListSessions, SlowRequest};
use server::why::{Part, Reading, Verdict, Why, judge};
use std::fmt::Write;
use std::time::Duration;

/// Characters of the longest bar.
const BAR: usize = 40;

/// Watches the server for `time`, then prints a page for each export that had requests, or for the one of this name.
pub(crate) fn why(ask: &Ask, export: Option<String>, time: Duration) -> Result<String> {
    let pages = watch(ask, export, time)?;
    ask.print(&pages, |pages| page(pages, time))
}

/// Watches the server for `time`, and judges each export that had requests, or the one of this name.
pub(crate) fn watch(ask: &Ask, export: Option<String>, time: Duration) -> Result<Vec<Why>> {
    let before = read(&ask.client)?;
    let wanted = export.map(|name| resolve(&before, &name)).transpose()?;
    std::thread::sleep(time);
    let after = read(&ask.client)?;
    Ok(judge(&before, &after, wanted.as_deref()))
}

/// Asks the server for one reading.
pub(crate) fn read(client: &Client) -> Result<Reading> {
    Ok(Reading {
        status: client.ask(&GetStatus {})?,
        sessions: client.ask(&ListSessions {})?,
        stages: client.ask(&GetStages {})?,
    })
}

/// The export of a disk, volume or filesystem, or the export of this name.
fn resolve(reading: &Reading, name: &str) -> Result<String> {
    let status = &reading.status;
    let disks = status.disks.iter().map(|d| (&d.name, &d.exported_as));
    let volumes = status.volumes.iter().map(|v| (&v.name, &v.exported_as));
    if let Some((_, exported)) = disks.chain(volumes).find(|(n, _)| *n == name) {
        match exported.name() {
            Some(export) => return Ok(export.to_owned()),
            None => bail!("{name} is not exported: see `wirepool export --help`"),
        }
    }
    let shared = status.exports.nfs.nfs_exports.iter();
    let is_shared = shared.map(|e| &e.path).any(|path| path == name);
    if is_shared || status.filesystems.iter().any(|f| f.name == name) {
        return Ok("nfs".to_owned());
    }
    if !reading.has_export(name) {
        bail!(
            "there is no export, disk, volume or filesystem {name}: `wirepool export list` has them"
        );
    }
    Ok(name.to_owned())
}

fn page(pages: &[Why], time: Duration) -> String {
    if pages.is_empty() {
        let seconds = time.as_secs_f64();
        return format!("no export had a request within {seconds:.0} s\n");
    }
    let pages: Vec<String> = pages.iter().map(of_export).collect();
    pages.join("\n")
}

fn of_export(why: &Why) -> String {
    let mut out = format!("{} ({}), {:.1} s\n", why.export, why.protocol, why.seconds);
    let Some(limit) = &why.limit else {
        out.push_str("  no requests\n");
        return out;
    };
    let commands = rows(&why.commands)
        .left("COMMAND", |c| c.command.clone())
        .right("PER SECOND", |c| format!("{:.0}", c.per_second))
        .right("MEAN", |c| format!("{:.0} µs", c.mean_us))
        .left("MOST OF IT", |c| most(&c.stages))
        .text();
    let _ = writeln!(out, "{commands}");
    for part in &why.stages {
        let bar = "#".repeat((part.percent / 100.0 * BAR as f64).round() as usize);
        let _ = writeln!(
            out,
            "  {:<10} {bar:<BAR$} {:>3.0} %  mean {:.1} µs, 99 % within {:.1} µs",
            part.stage, part.percent, part.mean_us, part.p99_us
        );
    }
    let _ = writeln!(
        out,
        "\n  {:.1} requests in the server at a time; the busiest shard uses {:.0} % of a core",
        why.in_flight, why.busiest_shard_percent
    );
    verdict(&mut out, limit);
    if !why.slowest.is_empty() {
        out.push_str("\n  slowest requests of the last minute\n");
        for request in &why.slowest {
            let _ = writeln!(out, "    {}", slow(request));
        }
    }
    out
}

/// The two longest stages.
fn most(stages: &[Part]) -> String {
    let mut parts: Vec<&Part> = stages.iter().collect();
    parts.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    let most = parts.iter().take(2);
    let most: Vec<String> = most
        .map(|p| format!("{} {:.0} %", p.stage, p.percent))
        .collect();
    most.join(", ")
}

fn verdict(out: &mut String, limit: &Verdict) {
    let _ = writeln!(out, "\n  limit: {}", limit.summary);
    for line in &limit.evidence {
        let _ = writeln!(out, "    - {line}");
    }
    out.push_str("  would help:\n");
    for line in &limit.helps {
        let _ = writeln!(out, "    - {line}");
    }
}

fn slow(r: &SlowRequest) -> String {
    let parts: Vec<String> = r
        .stages
        .iter()
        .map(|(stage, us)| format!("{stage} {us}"))
        .collect();
    format!(
        "{} {} µs, {} s ago, from {}: {}",
        r.command,
        r.total_us,
        r.age_ms / 1000,
        r.peer,
        parts.join(", ")
    )
}
