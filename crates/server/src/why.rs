//! Why an export is as fast as it is: the stage or resource that limits it, with evidence and advice.
//!
//! **Owns** the judgement. **Called by** `wirepool why`, with two readings of a server. **Invariants**: pure, and without a clock; a
//! verdict names the numbers that it follows from; counters that went back, because an export was published anew, count from
//! zero.

mod devices;

use crate::api::{ExportStages, RequestStages, SessionSummary, SlowRequest, Stages, Status};
use io::histogram::Times;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that a judgement looks at, at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct Reading {
    /// Time of requests by stage.
    pub stages: Stages,
    /// State of the server.
    pub status: Status,
    /// Its sessions.
    pub sessions: Vec<SessionSummary>,
}

impl Reading {
    /// Whether there is an export of this name: a subsystem, a target, or `nfs`.
    #[must_use]
    pub fn has_export(&self, name: &str) -> bool {
        self.stages.exports.iter().any(|e| e.export == name)
    }
}

/// One export, over an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// `nvme`, `iscsi` or `nfs`.
    pub protocol: String,
    /// The name of the subsystem or target.
    pub export: String,
    /// Length of the interval, s.
    pub seconds: f64,
    /// Requests by command.
    pub commands: Vec<Command>,
    /// All requests by stage, in the order of a request's way.
    pub stages: Vec<Part>,
    /// Requests that were in the server at a time, on average.
    pub in_flight: f64,
    /// Processor time of the busiest shard, % of a core.
    pub busiest_shard_percent: f64,
    /// The verdict; none if there were no requests.
    pub limit: Option<Verdict>,
    /// The slowest requests of the last minute.
    pub slowest: Vec<SlowRequest>,
}

/// Requests of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyCommand")]
pub struct Command {
    /// `read`, `write`, `flush` or `other`.
    pub command: String,
    /// Requests per second.
    pub per_second: f64,
    /// Mean time from a request's arrival to the end of its reply, µs.
    pub mean_us: f64,
    /// Its parts, in the order of a request's way.
    pub stages: Vec<Part>,
}

/// A stage's part of the time of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyPart")]
pub struct Part {
    /// The stage.
    pub stage: String,
    /// Its part of all time, %.
    pub percent: f64,
    /// Mean over all requests, whether they were in it or not, µs.
    pub mean_us: f64,
    /// The time that 99 % of the requests that were in it did not exceed, µs.
    pub p99_us: f64,
}

/// What limits an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyVerdict")]
pub struct Verdict {
    /// The limiting resource.
    pub limit: Limit,
    /// The limit in words.
    pub summary: String,
    /// The numbers that it follows from.
    pub evidence: Vec<String>,
    /// Changes that would help.
    pub helps: Vec<String>,
}

/// A limiting resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyLimit")]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The client sends too few requests at a time.
    ClientDepth,
    /// One core of the server.
    Core,
    /// The devices, reading or writing.
    Device,
    /// The devices, making data stable.
    Flush,
    /// The pool's journal: batches wait for each other.
    Journal,
    /// Memory: buffers, or room for unwritten data.
    Memory,
    /// Free space of the pool.
    Space,
    /// Changes of the same place come one after the other.
    Order,
    /// Round trips between client and server.
    RoundTrip,
    /// The network from the client, or the client's sending.
    NetworkIn,
    /// The network to the client, or the client's receiving.
    NetworkOut,
}

/// A shard that is busier than this, in % of a core, is the limit.
const BUSY_PERCENT: f64 = 90.0;
/// With fewer requests in the server at a time, the client or the network is the limit.
const IN_FLIGHT_MIN: f64 = 0.5;
/// With fewer requests in the server at a time, the client waits for the answer to one before it sends the next.
const ONE_AT_A_TIME: f64 = 1.05;
/// Round trips that take this many times as long as the shortest one, and this much longer, µs, wait in a queue of the network.
const QUEUED_TIMES: u32 = 8;
const QUEUED_US: u32 = 500;
/// Requests that wait in such a queue at least.
const QUEUED_MIN: f64 = 2.0;
/// A pool fuller than this, in %, slows writes down.
const FULL_PERCENT: u64 = 95;

/// Judges the exports that had requests between two readings; all of these exports, or the one of this name.
#[must_use]
pub fn judge(before: &Reading, after: &Reading, export: Option<&str>) -> Vec<Why> {
    let wanted = |e: &&ExportStages| export.is_none_or(|name| e.export == name);
    let all = after.stages.exports.iter().filter(wanted);
    all.map(|now| why(before, after, now))
        .filter(|why| export.is_some() || !why.commands.is_empty())
        .collect()
}

fn why(before: &Reading, after: &Reading, now: &ExportStages) -> Why {
    let same = |e: &&ExportStages| e.protocol == now.protocol && e.export == now.export;
    let old = before.stages.exports.iter().find(same);
    let ms = after.stages.at_ms.saturating_sub(before.stages.at_ms);
    let seconds = (ms as f64 / 1e3).max(1e-3);
    let mut commands = Vec::new();
    let mut total = Interval::default();
    for requests in &now.requests {
        let old = old.and_then(|e| e.requests.iter().find(|r| r.command == requests.command));
        let interval = Interval::between(old, requests);
        if interval.count > 0 {
            commands.push(Command {
                command: requests.command.clone(),
                per_second: interval.count as f64 / seconds,
                mean_us: interval.total_ns() as f64 / 1e3 / interval.count as f64,
                stages: interval.parts(),
            });
        }
        total.add(interval);
    }
    let in_flight = total.total_ns() as f64 / 1e9 / seconds;
    let mut why = Why {
        protocol: now.protocol.clone(),
        export: now.export.clone(),
        seconds,
        commands,
        stages: total.parts(),
        in_flight,
        busiest_shard_percent: busiest(before, after, seconds),
        limit: None,
        slowest: now.slowest.clone(),
    };
    why.limit = (total.count > 0).then(|| verdict(&why, before, after));
    why
}

/// Requests of an interval.
#[derive(Default)]
struct Interval {
    count: u64,
    /// By stage, in the order of a request's way: sum in ns, and requests by upper bound in ns.
    stages: Vec<(String, u64, BTreeMap<u64, u64>)>,
}

impl Interval {
    fn between(old: Option<&RequestStages>, now: &RequestStages) -> Interval {
        let old = old.filter(|old| old.count <= now.count);
        let stages = now.stages.iter().map(|s| {
            let old = old.and_then(|old| old.stages.iter().find(|o| o.stage == s.stage));
            let before: BTreeMap<u64, u64> =
                old.map_or_else(BTreeMap::new, |o| o.buckets.iter().copied().collect());
            let more = s.buckets.iter().map(|(bound, count)| {
                let had = before.get(bound).copied().unwrap_or(0);
                (*bound, count.saturating_sub(had))
            });
            let sum = s.sum_ns.saturating_sub(old.map_or(0, |o| o.sum_ns));
            (s.stage.clone(), sum, more.filter(|(_, n)| *n > 0).collect())
        });
        Interval {
            count: now.count - old.map_or(0, |old| old.count),
            stages: stages.collect(),
        }
    }

    fn add(&mut self, other: Interval) {
        self.count += other.count;
        for (stage, sum, buckets) in other.stages {
            match self.stages.iter_mut().find(|(s, ..)| *s == stage) {
                Some((_, all, counts)) => {
                    *all += sum;
                    for (bound, count) in buckets {
                        *counts.entry(bound).or_default() += count;
                    }
                }
                None => self.stages.push((stage, sum, buckets)),
            }
        }
    }

    fn total_ns(&self) -> u64 {
        self.stages.iter().map(|(_, sum, _)| sum).sum()
    }

    fn parts(&self) -> Vec<Part> {
        let total = self.total_ns().max(1) as f64;
        let mut parts: Vec<Part> = self
            .stages
            .iter()
            .filter(|(_, sum, _)| *sum > 0)
            .map(|(stage, sum, buckets)| {
                let times = Times {
                    counts: buckets.iter().map(|(bound, n)| (*bound, *n)).collect(),
                    sum: *sum,
                };
                Part {
                    stage: stage.clone(),
                    percent: *sum as f64 * 100.0 / total,
                    mean_us: *sum as f64 / 1e3 / self.count.max(1) as f64,
                    p99_us: times.quantile(0.99) as f64 / 1e3,
                }
            })
            .collect();
        let order: Vec<String> = io::stage::Stage::ALL
            .iter()
            .map(crate::word::word)
            .collect();
        parts.sort_by_key(|part| order.iter().position(|stage| *stage == part.stage));
        parts
    }
}

/// Processor time of the busiest shard, % of a core.
fn busiest(before: &Reading, after: &Reading, seconds: f64) -> f64 {
    let old = |shard: usize| before.status.shards.iter().find(|s| s.shard == shard);
    let used = after.status.shards.iter().map(|s| {
        let since = old(s.shard).map_or(0, |o| o.cpu_ms);
        s.cpu_ms.saturating_sub(since) as f64 / 10.0 / seconds
    });
    used.fold(0.0, f64::max)
}

fn verdict(why: &Why, before: &Reading, now: &Reading) -> Verdict {
    if why.busiest_shard_percent >= BUSY_PERCENT {
        return core(why, now);
    }
    let session = busiest_session(why, before, now);
    if why.in_flight < IN_FLIGHT_MIN {
        return outside(why, session, before);
    }
    let largest = why
        .stages
        .iter()
        .max_by(|a, b| a.percent.total_cmp(&b.percent));
    let Some(part) = largest else {
        return outside(why, session, before);
    };
    let is_here = session.is_some_and(is_on_this_machine);
    let on_processor = match part.stage.as_str() {
        "device" | "flush" | "journal" | "memory" | "queue" => false,
        // without a network, a reply waits for processor time
        "receive" | "send" => is_here,
        _ => true,
    };
    if on_processor && why.in_flight <= ONE_AT_A_TIME {
        return client_depth(vec![format!(
            "on average {:.2} requests are in the server, and the busiest shard uses {:.0} % of a core",
            why.in_flight, why.busiest_shard_percent
        )]);
    }
    if on_processor {
        return core(why, now);
    }
    let share = format!(
        "{:.0} % of a request's time in the server is in stage {}: {:.0} µs on average, 99 % within {:.0} µs",
        part.percent, part.stage, part.mean_us, part.p99_us
    );
    let (limit, summary, helps): (Limit, &str, &[&str]) = match part.stage.as_str() {
        "device" => (
            Limit::Device,
            "the devices: reading and writing takes most of the time",
            &[
                "more requests at a time, if the devices are not busy: `wirepool pool iostat -v 1` shows them",
                "faster devices, or more vdevs",
            ],
        ),
        "flush" => (
            Limit::Flush,
            "the devices: making data stable takes most of the time",
            &[
                "devices with power-loss protection, whose flushes take microseconds",
                "more durable writes at a time: one flush serves all of them",
            ],
        ),
        "journal" => (
            Limit::Journal,
            "the pool's journal: writes wait for the batches before theirs",
            &["fewer, larger durable writes", "devices that flush faster"],
        ),
        "memory" => return memory(share, before, now),
        "queue" => (
            Limit::Order,
            "order: changes of the same blocks, or the same directory, wait for each other",
            &["clients that change different places"],
        ),
        "receive" => (
            Limit::NetworkIn,
            "the network from the client: the data of writes arrives slowly",
            &[link_truth(session), "a faster link, or larger MTU"],
        ),
        "send" => (
            Limit::NetworkOut,
            "the network to the client: replies wait for the socket",
            &[link_truth(session), "a faster link, or more connections"],
        ),
        _ => return core(why, now),
    };
    let mut evidence = vec![share];
    if matches!(limit, Limit::Device | Limit::Flush) {
        evidence.extend(devices::slowest(&before.status.pools, &now.status.pools));
    }
    let mut helps: Vec<String> = helps.iter().map(|&s| s.to_owned()).collect();
    if matches!(limit, Limit::Device | Limit::Flush | Limit::Journal) {
        let (before, now) = (&before.status.pools, &now.status.pools);
        helps.extend(devices::log_advice(
            until_stable(&why.commands),
            before,
            now,
        ));
    }
    if limit == Limit::Device {
        let (before, now) = (&before.status.pools, &now.status.pools);
        helps.extend(devices::special_advice(waited_us(why), before, now));
        helps.extend(devices::cache_advice(before, now));
    }
    Verdict {
        limit,
        summary: summary.to_owned(),
        evidence,
        helps,
    }
}

/// Part of the time of requests, %, in which they wait until data is stable, and its mean over all requests, µs. A durable write is in stage device
/// until data and batch are written.
fn until_stable(commands: &[Command]) -> (f64, f64) {
    let (mut stable, mut all, mut rate) = (0.0, 0.0, 0.0);
    for command in commands {
        let of = |names: &[&str]| -> f64 {
            let parts = command.stages.iter();
            let parts = parts.filter(|p| names.contains(&p.stage.as_str()));
            parts.map(|p| p.mean_us).sum()
        };
        let confirmed = of(&["flush", "journal"]);
        if confirmed > 0.0 && command.command != "read" {
            stable += command.per_second * (confirmed + of(&["device"]));
        }
        all += command.per_second * command.mean_us;
        rate += command.per_second;
    }
    match rate > 0.0 {
        true => (stable * 100.0 / all, stable / rate),
        false => (0.0, 0.0),
    }
}

/// Time in which requests that write nothing waited for devices, summed over the interval, µs.
fn waited_us(why: &Why) -> f64 {
    let of = |c: &Command| {
        let on_devices = c.stages.iter().filter(|p| p.stage == "device");
        on_devices.map(|p| p.mean_us).sum::<f64>() * c.per_second * why.seconds
    };
    let reads = why.commands.iter();
    let reads = reads.filter(|c| !matches!(c.command.as_str(), "write" | "flush"));
    reads.map(of).sum()
}

fn core(why: &Why, now: &Reading) -> Verdict {
    let shards = now.status.shards.len();
    Verdict {
        limit: Limit::Core,
        summary: "the processor: a thread of the server works on requests".to_owned(),
        evidence: vec![
            format!(
                "the busiest of {shards} shards uses {:.0} % of a core",
                why.busiest_shard_percent
            ),
            format!("{:.1} requests are in the server at a time", why.in_flight),
        ],
        helps: vec![
            "more connections (NVMe: nr_io_queues, NFS: nconnect), which other shards serve"
                .to_owned(),
            "more shards, if the machine has idle cores".to_owned(),
            "no digests, compression or strong checksums, if they are on and not needed".to_owned(),
        ],
    }
}

/// The verdict of an export whose requests are outside of the server most of the time: between client and server, or not sent yet.
/// Requests at a time on the network are their rate times the round trip (Little's law).
fn outside(why: &Why, session: Option<&SessionSummary>, before: &Reading) -> Verdict {
    let mut evidence = vec![format!(
        "on average {:.2} requests are in the server",
        why.in_flight
    )];
    let rate: f64 = why.commands.iter().map(|c| c.per_second).sum();
    if session.is_some_and(is_on_this_machine) {
        evidence.push("the client runs on this machine: there is no network between".to_owned());
    } else if let Some(session) = session.filter(|s| s.rtt_us > 0) {
        let rtt_us = session.rtt_us;
        let on_network = rate * f64::from(rtt_us) / 1e6;
        evidence.push(format!(
            "a round trip to the client takes {rtt_us} µs: on average {on_network:.2} requests are on the network"
        ));
        if on_network >= IN_FLIGHT_MIN && on_network > why.in_flight {
            return match queued(session, before, rate) {
                Some(queued) => narrow(queued, evidence),
                None => round_trips(session, evidence),
            };
        }
    } else if session.is_some_and(is_over_rdma) {
        evidence.push("the client uses RDMA, whose round trips are not measured".to_owned());
    }
    client_depth(evidence)
}

/// The verdict of an export whose requests are on the network most of the time.
fn round_trips(session: &SessionSummary, evidence: Vec<String>) -> Verdict {
    let mut helps = vec![
        "a shorter path: client and server at one switch, interrupt coalescing (`wirepool doctor` on both machines)".to_owned(),
        "more requests at a time from the client (queue depth, threads), which share the round trips".to_owned(),
    ];
    if let Some(reason) = &session.not_rdma {
        helps.push(format!("RDMA, which the client cannot use: {reason}"));
    }
    Verdict {
        limit: Limit::RoundTrip,
        summary: "the network: round trips take most of the time".to_owned(),
        evidence,
        helps,
    }
}

/// Whether a connection of a session is over RDMA.
fn is_over_rdma(session: &SessionSummary) -> bool {
    session.device.is_some()
}

/// Where the state of a session's link is.
fn link_truth(session: Option<&SessionSummary>) -> &'static str {
    match session.is_some_and(is_over_rdma) {
        true => "`wirepool session show ID` has queue pairs and the state of their port",
        false => "`wirepool session show ID` has RTT, MSS and retransmits",
    }
}

/// The verdict of an export whose client sends too little.
fn client_depth(evidence: Vec<String>) -> Verdict {
    Verdict {
        limit: Limit::ClientDepth,
        summary: "the client: it sends few requests at a time, or its own processor is busy"
            .to_owned(),
        evidence,
        helps: vec![
            "more requests at a time from the client (queue depth, threads)".to_owned(),
            "a client that spends less time between two requests".to_owned(),
        ],
    }
}

/// A network in which replies, or requests, wait in a queue.
struct Queued {
    limit: Limit,
    rtt_min_us: u32,
    bytes_per_interval: u64,
}

/// The queue before the narrowest link, if round trips take much longer than an empty network, and several requests of `rate` a second wait
/// in the difference: then its rate is the limit, not its length. A single request cannot queue; its path has become longer.
fn queued(session: &SessionSummary, before: &Reading, rate: f64) -> Option<Queued> {
    let (rtt, least) = (session.rtt_us, session.rtt_min_us);
    let is_slower = least > 0 && rtt / least >= QUEUED_TIMES && rtt - least >= QUEUED_US;
    let is_queued = is_slower && rate * f64::from(rtt - least) / 1e6 >= QUEUED_MIN;
    let old = before.sessions.iter().find(|old| old.id == session.id);
    let since = |now: u64, of: fn(&SessionSummary) -> u64| now.saturating_sub(old.map_or(0, of));
    let bytes_in = since(session.bytes_in, |s| s.bytes_in);
    let bytes_out = since(session.bytes_out, |s| s.bytes_out);
    is_queued.then_some(Queued {
        limit: match bytes_in > bytes_out {
            true => Limit::NetworkIn,
            false => Limit::NetworkOut,
        },
        rtt_min_us: least,
        bytes_per_interval: bytes_in.max(bytes_out),
    })
}

fn narrow(queued: Queued, mut evidence: Vec<String>) -> Verdict {
    evidence.push(format!(
        "an empty network takes {} µs: data waits in front of the narrowest link, {} MiB of it went through in this time",
        queued.rtt_min_us,
        queued.bytes_per_interval >> 20
    ));
    let direction = match queued.limit {
        Limit::NetworkIn => "from",
        _ => "to",
    };
    Verdict {
        limit: queued.limit,
        summary: format!("the network {direction} the client: its narrowest link is full"),
        evidence,
        helps: vec![
            "`wirepool session show ID` has RTT, MSS and retransmits".to_owned(),
            "a faster link, or several links with one connection each".to_owned(),
        ],
    }
}

fn is_on_this_machine(session: &SessionSummary) -> bool {
    session.peer.is_some_and(|peer| peer.ip().is_loopback())
}

/// The session with the most commands of the interval.
fn busiest_session<'r>(
    why: &Why,
    before: &Reading,
    now: &'r Reading,
) -> Option<&'r SessionSummary> {
    let of_export = |s: &&SessionSummary| {
        s.export == why.export || why.protocol == "nfs" && s.protocol == "nfs"
    };
    let commands = |s: &&SessionSummary| {
        let old = before.sessions.iter().find(|old| old.id == s.id);
        s.commands - old.map_or(0, |old| old.commands.min(s.commands))
    };
    now.sessions.iter().filter(of_export).max_by_key(commands)
}

fn memory(share: String, before: &Reading, now: &Reading) -> Verdict {
    let mut evidence = vec![share];
    let mut pools = now.status.pools.iter();
    if let Some(full) = pools.find(|p| p.used_percent() >= FULL_PERCENT) {
        let percent = full.used_percent();
        evidence.push(format!("pool {} is {percent} % full", full.name));
        return Verdict {
            limit: Limit::Space,
            summary: "space: the pool is almost full, and writes wait for space to be freed"
                .to_owned(),
            evidence,
            helps: vec!["more space: `wirepool pool add`, or fewer snapshots".to_owned()],
        };
    }
    for pool in now.status.pools.iter().filter(|p| p.dirty > 0) {
        evidence.push(format!(
            "pool {} has {} bytes that are not written yet",
            pool.name, pool.dirty
        ));
    }
    evidence.extend(devices::slowest(&before.status.pools, &now.status.pools));
    Verdict {
        limit: Limit::Memory,
        summary: "memory: requests wait for buffers, or for unwritten data to reach the devices"
            .to_owned(),
        evidence,
        helps: vec![
            "devices that write faster, because unwritten data is limited".to_owned(),
            "larger `buffers` in the configuration, if the devices are idle".to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests;
