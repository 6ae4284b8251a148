//! The four tables: their columns, and their rows from two readings.
//!
//! **Called by** the screen and `--once`. **Invariants**: a rate is the growth of a counter between the two readings; without the
//! first reading, or for an object that is not in it, rates are unknown; sessions are matched by number and time of connection.

use super::reading::Reading;
use super::table::{All, Column, Kind, Table, Value};
use crate::columns::duration;
use crate::protocols;
use crate::protocols::protocol::host_name;
use crate::tables::iostat::{Iostat, Load, PoolLoad, growth, per_second};
use crate::tables::pools;
use server::api::{
    DiskState, Member, NamespaceState, Pool, ScanState, ServerState, SessionSummary, SpecialClass,
};
use server::why::{Why, judge};
use std::collections::HashMap;
use std::time::Duration;

const fn column(
    title: &'static str,
    key: &'static str,
    letter: Option<char>,
    kind: Kind,
) -> Column {
    Column {
        title,
        key,
        letter,
        kind,
    }
}

const POOLS: &[Column] = &[
    column("POOL", "pool", Some('N'), Kind::Text),
    column("STATE", "state", Some('S'), Kind::Text),
    column("SIZE", "size", None, Kind::Bytes),
    column("ALLOC", "used", Some('A'), Kind::Bytes),
    column("FREE", "free", Some('F'), Kind::Bytes),
    column("CAP", "used_percent", Some('C'), Kind::Percent),
    column("READS/S", "reads_per_second", None, Kind::Count),
    column("WRITES/S", "writes_per_second", None, Kind::Count),
    column("READ", "read_bytes_per_second", Some('R'), Kind::BytesRate),
    column(
        "WRITTEN",
        "written_bytes_per_second",
        Some('W'),
        Kind::BytesRate,
    ),
    column("CACHED", "cache_hit_percent", None, Kind::Percent),
    column("ON CACHE", "cache_device_hit_percent", None, Kind::Percent),
    column("SPECIAL", "special_used_percent", None, Kind::Percent),
    column("SPILLED", "special_spilled", None, Kind::Bytes),
    column("DIRTY", "dirty", Some('D'), Kind::Bytes),
    column("ERRORS", "errors", Some('E'), Kind::Count),
    column("JOB", "job", Some('J'), Kind::Text),
];

const DEVICES: &[Column] = &[
    column("DEVICE", "device", Some('N'), Kind::Text),
    column("POOL", "pool", Some('P'), Kind::Text),
    column("VDEV", "vdev", Some('V'), Kind::Text),
    column("STATE", "state", Some('S'), Kind::Text),
    column("READS/S", "reads_per_second", None, Kind::Count),
    column("WRITES/S", "writes_per_second", None, Kind::Count),
    column("READ", "read_bytes_per_second", Some('R'), Kind::BytesRate),
    column(
        "WRITTEN",
        "written_bytes_per_second",
        Some('W'),
        Kind::BytesRate,
    ),
    column("READ WAIT", "read_us", Some('T'), Kind::Micros),
    column("WRITE WAIT", "write_us", None, Kind::Micros),
    column("FLUSH WAIT", "flush_us", Some('F'), Kind::Micros),
    column("ERRORS", "errors", Some('E'), Kind::Count),
];

const EXPORTS: &[Column] = &[
    column("EXPORT", "export", Some('N'), Kind::Text),
    column("PROTOCOL", "protocol", Some('P'), Kind::Text),
    column("STATE", "state", Some('S'), Kind::Text),
    column("SESSIONS", "sessions", None, Kind::Count),
    column("COMMANDS/S", "commands_per_second", Some('C'), Kind::Count),
    column(
        "IN",
        "received_bytes_per_second",
        Some('I'),
        Kind::BytesRate,
    ),
    column("OUT", "sent_bytes_per_second", Some('O'), Kind::BytesRate),
    column("ERRORS", "errors", Some('E'), Kind::Count),
    column("MEAN", "mean_us", Some('M'), Kind::Micros),
    column("MOST OF IT", "longest_stage", Some('T'), Kind::Text),
    column("DISKS", "disks", Some('D'), Kind::Text),
];

const SESSIONS: &[Column] = &[
    column("ID", "id", Some('N'), Kind::Count),
    column("PROTOCOL", "protocol", Some('P'), Kind::Text),
    column("HOST", "host", Some('H'), Kind::Text),
    column("PEER", "peer", None, Kind::Text),
    column("STATE", "state", Some('S'), Kind::Text),
    column("COMMANDS/S", "commands_per_second", Some('C'), Kind::Count),
    column(
        "IN",
        "received_bytes_per_second",
        Some('I'),
        Kind::BytesRate,
    ),
    column("OUT", "sent_bytes_per_second", Some('O'), Kind::BytesRate),
    column("RTT", "rtt_us", Some('T'), Kind::Micros),
    column("RETRANS", "retransmits", Some('R'), Kind::Count),
    column("ERRORS", "errors", Some('E'), Kind::Count),
    column("QUEUES", "queues", Some('Q'), Kind::Count),
    column("LAST HEARD", "last_heard_ms", Some('L'), Kind::Millis),
    column("RECONNECTS", "reconnects", None, Kind::Count),
    column("EXPORT", "export", Some('X'), Kind::Text),
];

/// The number of tables.
pub(super) const TABLES: usize = 4;
/// The column that each table is sorted by at first: names of pools and devices; the busiest exports and sessions.
pub(super) const SORTED_BY: [usize; TABLES] = [0, 0, 4, 5];

/// The tables of a reading, with the rates since the one before.
pub(super) fn all(before: Option<&Reading>, now: &Reading) -> All {
    let time = before.map(|b| now.at.saturating_duration_since(b.at));
    // Two readings at the same moment have no rate.
    let time = time.filter(|t| !t.is_zero());
    let before = before.filter(|_| time.is_some());
    let status = &now.facts.status;
    let state = match status.state {
        ServerState::Serving => "serving",
        ServerState::Draining => "draining",
    };
    let rates = Rates::new(before, now, time);
    All {
        head: format!(
            "wirepool {}, {state} for {}, process {}",
            status.version,
            duration(status.uptime_s * 1000),
            status.pid
        ),
        warnings: status.warnings.clone(),
        seconds: time.map(|t| t.as_secs_f64()),
        tables: vec![
            table("Pools", POOLS, "no pools", pools(&rates, now)),
            table("Devices", DEVICES, "no devices", devices(&rates, now)),
            table("Exports", EXPORTS, "no exports", exports(&rates, now)),
            table("Sessions", SESSIONS, "no sessions", sessions(&rates, now)),
        ],
    }
}

fn table(
    title: &'static str,
    columns: &'static [Column],
    empty: &'static str,
    rows: Vec<Vec<Value>>,
) -> Table {
    assert!(rows.iter().all(|r| r.len() == columns.len()));
    Table {
        title,
        columns,
        rows,
        empty,
    }
}

/// Growth of a session's counters.
#[derive(Default, Clone, Copy)]
struct Flow {
    commands: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// Rates per second between two readings.
struct Rates {
    /// For each pool of the present reading; `None` if it was not there before.
    pools: Vec<Option<PoolLoad>>,
    /// For each session of the present reading.
    sessions: Vec<Option<Flow>>,
    /// For each export with requests.
    times: Vec<Why>,
}

impl Rates {
    fn new(before: Option<&Reading>, now: &Reading, time: Option<Duration>) -> Rates {
        let (Some(before), Some(time)) = (before, time) else {
            return Rates {
                pools: now.facts.status.pools.iter().map(|_| None).collect(),
                sessions: vec![None; now.facts.sessions.len()],
                times: Vec::new(),
            };
        };
        let loads =
            Iostat::between(&before.facts.status.pools, &now.facts.status.pools, time).pools;
        let was_open = |p: &Pool| before.facts.status.pools.iter().any(|b| b.guid == p.guid);
        let pools = now.facts.status.pools.iter().zip(loads);
        let key = |s: &SessionSummary| (s.id, s.connected_at_ms);
        let earlier: HashMap<_, _> = before.facts.sessions.iter().map(|s| (key(s), s)).collect();
        let flow = |s: &SessionSummary| {
            let b = earlier.get(&key(s))?;
            let rate = |before, now| per_second(growth(before, now), Some(time));
            Some(Flow {
                commands: rate(b.commands, s.commands),
                bytes_in: rate(b.bytes_in, s.bytes_in),
                bytes_out: rate(b.bytes_out, s.bytes_out),
            })
        };
        Rates {
            pools: pools.map(|(p, load)| was_open(p).then_some(load)).collect(),
            sessions: now.facts.sessions.iter().map(flow).collect(),
            times: judge(&before.facts, &now.facts, None),
        }
    }
}

fn members(p: &Pool) -> impl Iterator<Item = (&str, &Member)> {
    let vdevs = p.vdevs.iter();
    vdevs.flat_map(|v| v.members.iter().map(|s| (v.name.as_str(), s)))
}

fn errors(s: &Member) -> u64 {
    s.read_errors + s.write_errors + s.checksum_errors
}

/// The work in progress of a pool, with its percentage.
fn job(p: &Pool) -> Value {
    let percent = |done: u64, of: u64| match done.saturating_mul(100).checked_div(of) {
        Some(percent) => format!(" {}%", percent.min(100)),
        None => String::new(),
    };
    let word = |state, name: &str, done, of| match state {
        ScanState::Running => Some(format!("{name}{}", percent(done, of))),
        ScanState::Paused => Some(format!("{name}{}, paused", percent(done, of))),
        ScanState::Stopped | ScanState::Finished => None,
    };
    let resilver = p.resilver.as_ref();
    let jobs = [
        resilver.and_then(|r| word(r.state, "resilver", r.done, r.of.unwrap_or(0))),
        p.scrub
            .as_ref()
            .and_then(|s| word(s.state, "scrub", s.done, s.of)),
        p.trim
            .as_ref()
            .and_then(|t| word(t.state, "trim", t.done, t.of)),
    ];
    let jobs: Vec<String> = jobs.into_iter().flatten().collect();
    (!jobs.is_empty()).then(|| jobs.join(", ")).into()
}

fn pools(rates: &Rates, now: &Reading) -> Vec<Vec<Value>> {
    let row = |(p, load): (&Pool, &Option<PoolLoad>)| {
        let known = |n: u64| (p.state == DiskState::Online).then_some(n);
        let rate = |of: fn(&Load) -> u64| Value::from(load.as_ref().map(|l| of(&l.load)));
        let cached = load.as_ref().and_then(|l| {
            let lookups = l.cache_hits + l.cache_misses;
            (l.cache_hits * 100).checked_div(lookups)
        });
        let on_devices = load.as_ref().and_then(|l| {
            let lookups = l.cache_device_hits + l.cache_device_misses;
            (l.cache_device_hits * 100).checked_div(lookups)
        });
        let special = p.special.as_ref();
        let special_used = special.and_then(|s| {
            let used = (s.size - s.free.min(s.size)).saturating_mul(100);
            used.checked_div(s.size)
        });
        let percent = p.used.saturating_mul(100).checked_div(p.size);
        vec![
            p.name.as_str().into(),
            pools::state(p).into(),
            known(p.size).into(),
            known(p.used).into(),
            known(p.free).into(),
            known(percent.unwrap_or(0)).into(),
            rate(|l| l.reads),
            rate(|l| l.writes),
            rate(|l| l.read_bytes),
            rate(|l| l.written_bytes),
            cached.into(),
            on_devices.into(),
            special_used.into(),
            special.map(SpecialClass::spilled_bytes).into(),
            known(p.dirty).into(),
            known(members(p).map(|(_, s)| errors(s)).sum()).into(),
            job(p),
        ]
    };
    now.facts
        .status
        .pools
        .iter()
        .zip(&rates.pools)
        .map(row)
        .collect()
}

/// The members of all pools, their cache devices, then the disks that are in no pool.
fn devices(rates: &Rates, now: &Reading) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (p, load) in now.facts.status.pools.iter().zip(&rates.pools) {
        for (i, (vdev, s)) in members(p).enumerate() {
            let load = load.as_ref().and_then(|l| l.disks.get(i));
            let rate = |of: fn(&Load) -> u64| Value::from(load.map(|d| of(&d.load)));
            let path = s.path.as_ref().or(s.was.as_ref());
            let path = path.map(|p| p.display().to_string());
            let state = match &s.fault {
                Some(fault) => format!("{}, {fault}", s.state),
                None => s.state.clone(),
            };
            rows.push(vec![
                path.unwrap_or_else(|| s.guid.clone()).into(),
                p.name.as_str().into(),
                vdev.into(),
                state.into(),
                rate(|l| l.reads),
                rate(|l| l.writes),
                rate(|l| l.read_bytes),
                rate(|l| l.written_bytes),
                rate(|l| l.read_us),
                rate(|l| l.write_us),
                rate(|l| l.flush_us),
                errors(s).into(),
            ]);
        }
    }
    for p in &now.facts.status.pools {
        for cache in &p.caches {
            let mut row: Vec<Value> = vec![
                cache.path.display().to_string().into(),
                p.name.as_str().into(),
                "cache".into(),
                match cache.reason {
                    None => "online",
                    Some(_) => "out",
                }
                .into(),
            ];
            row.resize(DEVICES.len(), Value::Unknown);
            rows.push(row);
        }
    }
    for d in &now.facts.status.disks {
        let state = match d.state {
            DiskState::Opening => "opening",
            DiskState::Online => "online",
            DiskState::Held => "held",
        };
        let mut row: Vec<Value> = vec![
            d.name.as_str().into(),
            Value::Unknown,
            d.kind.as_str().into(),
        ];
        row.push(state.into());
        row.resize(DEVICES.len(), Value::Unknown);
        rows.push(row);
    }
    rows
}

/// The name of no export.
const UNNAMED: &str = "\n";

/// Mean time of the requests of an export, µs.
fn mean_us(why: &Why) -> u64 {
    why.stages.iter().map(|p| p.mean_us).sum::<f64>().round() as u64
}

/// The stage with most of the time of an export's requests.
fn longest_stage(why: &Why) -> Option<String> {
    let mut stages = why.stages.iter();
    let first = stages.next()?;
    let longest = stages.fold(first, |a, b| if b.percent > a.percent { b } else { a });
    Some(format!("{} {:.0}%", longest.stage, longest.percent))
}

/// The present sessions of an export, added up.
#[derive(Default)]
struct Sum {
    flow: Option<Flow>,
    errors: u64,
}

fn exports(rates: &Rates, now: &Reading) -> Vec<Vec<Value>> {
    let mut sums: HashMap<(&str, &str), Sum> = HashMap::new();
    for (s, flow) in now.facts.sessions.iter().zip(&rates.sessions) {
        let sum = sums
            .entry((s.protocol.as_str(), s.export.as_str()))
            .or_default();
        sum.errors += s.errors;
        if let Some(flow) = flow {
            let all = sum.flow.get_or_insert_default();
            all.commands += flow.commands;
            all.bytes_in += flow.bytes_in;
            all.bytes_out += flow.bytes_out;
        }
    }
    let mut rows = Vec::new();
    for protocol in protocols::ALL {
        let summaries = protocol.summaries(&now.facts.status.exports);
        let is_alone = summaries.len() == 1;
        for e in summaries {
            // Sessions that use all exports of a protocol are those of one export only if it is the only one.
            let (name, timed) = match e.sessions {
                Some(_) => (e.name.as_str(), e.name.as_str()),
                None if is_alone => ("", protocol.word()),
                None => (UNNAMED, UNNAMED),
            };
            let sum = sums.get(&(protocol.word(), name));
            let flow = sum.and_then(|s| s.flow);
            let mut times = rates.times.iter();
            let times = times.find(|w| w.protocol == protocol.word() && w.export == timed);
            let served = e.disks.iter().filter(|(_, s)| *s == NamespaceState::Served);
            let state = match (served.count(), e.disks.len()) {
                (_, 0) => "empty".to_owned(),
                (n, all) if n == all => "served".to_owned(),
                (0, _) => "held".to_owned(),
                (n, all) => format!("{n} of {all} served"),
            };
            let disks: Vec<&str> = e.disks.iter().map(|(d, _)| d.as_str()).collect();
            rows.push(vec![
                e.name.as_str().into(),
                protocol.word().into(),
                state.into(),
                e.sessions.map(|n| n as u64).into(),
                flow.map(|f| f.commands).into(),
                flow.map(|f| f.bytes_in).into(),
                flow.map(|f| f.bytes_out).into(),
                sum.map(|s| s.errors).into(),
                times.map(mean_us).into(),
                times.and_then(longest_stage).into(),
                disks.join(" ").into(),
            ]);
        }
    }
    rows
}

fn sessions(rates: &Rates, now: &Reading) -> Vec<Vec<Value>> {
    let row = |(s, flow): (&SessionSummary, &Option<Flow>)| {
        let has_queues = protocols::of_session(s).has_queues();
        vec![
            u64::from(s.id).into(),
            s.protocol.as_str().into(),
            host_name(s).into(),
            s.peer.map(|p| p.to_string()).into(),
            s.state.as_str().into(),
            flow.map(|f| f.commands).into(),
            flow.map(|f| f.bytes_in).into(),
            flow.map(|f| f.bytes_out).into(),
            u64::from(s.rtt_us).into(),
            s.retransmits.into(),
            s.errors.into(),
            (s.io_queues as u64).into(),
            has_queues.then_some(s.keep_alive_age_ms).into(),
            s.reconnects.into(),
            s.export.as_str().into(),
        ]
    };
    now.facts
        .sessions
        .iter()
        .zip(&rates.sessions)
        .map(row)
        .collect()
}
