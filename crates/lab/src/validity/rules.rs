//! The rules, before and after a row is run.
//!
//! **Called by** plans.

use super::caches::{self, device_read_share};
use super::verdict::{Circumstances, Finding, Findings, Rule, Thresholds, Weight};
use crate::engine::Run;
use crate::limits::SERIES_STEP;
use crate::size::{self, digits};
use crate::stats::{Spread, variation};
use crate::targets::{Engine, Facts, Medium};
use crate::workload::{Sync, Workload};
use std::time::Duration;

/// Findings before the row is run. `region` is the used part of the target, bytes.
#[must_use]
pub fn before(facts: &Facts, w: &Workload, region: u64, t: &Thresholds) -> Vec<Finding> {
    let mut f = Findings(Vec::new());
    if facts.engine == Engine::Synchronous && w.depth > 1 {
        let text = format!(
            "depth {} has no effect: the target does one I/O at a time; use --jobs",
            w.depth
        );
        f.add(Weight::Refuse, Rule::DepthIgnored, text);
    }
    let in_turn = facts.direct == Some(false) && w.writes() && w.sync == Sync::Fua;
    f.flag_if(in_turn && w.depth * w.jobs > 1, Rule::DepthIgnored, || {
        format!(
            "depth {} has no effect: Linux makes durable writes of a file through the page cache one after the other",
            w.depth * w.jobs
        )
    });
    let blocks = region / u64::from(w.block_size);
    f.flag_if(
        blocks < t.blocks_min && facts.medium != Medium::Ram,
        Rule::WorkingSet,
        || format!("only {blocks} different blocks: a cache on the way may hold them"),
    );
    f.flag_if(
        w.writes() && w.fill.is_compressible(),
        Rule::Compressible,
        || {
            "the writes can be compressed or deduplicated, which makes such storage appear faster"
                .into()
        },
    );
    let cached = facts.medium == Medium::Device && facts.direct == Some(false);
    f.flag_if(cached, Rule::NotDirect, || {
        "the page cache is in use: O_DIRECT is not in effect".into()
    });
    f.flag_if(
        cached && region < t.memory * t.memory_multiple,
        Rule::Cached,
        || {
            let (region, memory) = (size::size(region), t.memory >> 20);
            format!(
                "{region} through the page cache of a machine with {memory} MiB: memory is measured"
            )
        },
    );
    f.flag_if(
        w.reads() && facts.holes * 50 > facts.size,
        Rule::Holes,
        || {
            let share = facts.holes as f64 / facts.size as f64 * 100.0;
            format!(
                "{} % of the file was never written: reads of holes need no device (use --precondition to fill it)",
                digits(share)
            )
        },
    );
    f.0
}

/// Findings from the rounds of a row.
#[must_use]
pub fn after(rounds: &[Run], how: Circumstances, t: &Thresholds) -> Vec<Finding> {
    let mut f = Findings(Vec::new());
    let Some(first) = rounds.first() else {
        return f.0;
    };
    length(&mut f, rounds, t);
    steadiness(&mut f, rounds, t);
    depth(&mut f, rounds, t);
    processors(&mut f, rounds, how, t);
    sources(&mut f, rounds, t);
    caches::working_set(&mut f, rounds, t);
    connection(&mut f, first);
    let lost: u64 = rounds.iter().map(|r| r.reconnects).sum();
    f.flag_if(lost > 0, Rule::Fallback, || {
        format!("the connection was lost and made again {lost} times")
    });
    let missed: u64 = rounds.iter().map(|r| r.missed).sum();
    f.flag_if(missed > 0, Rule::RateMissed, || {
        format!(
            "{missed} I/Os were due and never started: the target is slower than the requested rate"
        )
    });
    f.flag_if(
        how.compared && !how.interleaved,
        Rule::NotInterleaved,
        || {
            "the targets were measured one after the other: the machine may have changed in between"
                .into()
        },
    );
    f.0
}

fn length(f: &mut Findings, rounds: &[Run], t: &Thresholds) {
    let time: Duration = rounds.iter().map(|r| r.elapsed).sum();
    let ios: u64 = rounds.iter().map(Run::ios).sum();
    f.flag_if(time < t.time_min, Rule::Short, || {
        format!(
            "{} s measured, at least {} s are required",
            digits(time.as_secs_f64()),
            t.time_min.as_secs_f64()
        )
    });
    f.flag_if(ios < t.ios_min, Rule::Short, || {
        format!("{ios} I/Os measured, at least {} are wanted", t.ios_min)
    });
}

/// The slice of time for the rule about steady rates: a second, or less in a short run.
fn slice(window: Duration) -> Duration {
    if window >= Duration::from_secs(5) {
        Duration::from_secs(1)
    } else {
        SERIES_STEP * 2
    }
}

fn steadiness(f: &mut Findings, rounds: &[Run], t: &Thresholds) {
    let worst = rounds
        .iter()
        .filter_map(|r| variation(&r.series.rates(slice(r.elapsed), r.elapsed)));
    let worst = worst.fold(0.0, f64::max);
    f.flag_if(worst > t.variation_max, Rule::Unsteady, || {
        format!(
            "the rate varied by {} % (standard deviation over mean)",
            digits(worst * 100.0)
        )
    });
    let iops: Vec<f64> = rounds.iter().map(Run::iops).collect();
    f.flag_if(rounds.len() == 1, Rule::OneRound, || {
        "one round: the spread of rounds is unknown (use --rounds 3)".into()
    });
    let spread = Spread::of(&iops).percent().unwrap_or(0.0);
    f.flag_if(spread > t.spread_max_percent, Rule::Unsteady, || {
        format!("the spread of the rounds is ±{} %", digits(spread))
    });
}

fn depth(f: &mut Findings, rounds: &[Run], t: &Thresholds) {
    let Some(first) = rounds.first() else { return };
    let asked = f64::from(first.workload.depth * first.workload.jobs);
    let flight: Vec<f64> = rounds.iter().map(Run::in_flight).collect();
    let flight = Spread::of(&flight).median;
    let ignored =
        first.workload.rate.is_none() && first.ios() > 0 && flight < asked * t.in_flight_min;
    f.flag_if(
        ignored && first.workload.depth > 1,
        Rule::DepthIgnored,
        || {
            format!(
                "{} I/Os were in flight on average, {asked} were requested",
                digits(flight)
            )
        },
    );
}

fn processors(f: &mut Findings, rounds: &[Run], how: Circumstances, t: &Thresholds) {
    let share = |cpu: Duration, r: &Run| {
        cpu.as_secs_f64() / r.workload.runtime.min(r.elapsed).as_secs_f64().max(1e-9)
    };
    let client = rounds
        .iter()
        .flat_map(|r| r.client_cpu.iter().map(move |c| share(*c, r)))
        .fold(0.0, f64::max);
    let synchronous = rounds.iter().any(|r| r.facts.engine == Engine::Synchronous);
    if client > t.client_busy_max {
        let text = format!(
            "a client thread was busy {} % of the time",
            digits(client * 100.0)
        );
        match (how.spins, synchronous) {
            (true, _) => f.add(
                Weight::Note,
                Rule::ClientSaturated,
                format!("{text}: its ring spins, so this is not its load"),
            ),
            (_, true) => f.add(
                Weight::Note,
                Rule::ClientSaturated,
                format!("{text}: the client itself is the target"),
            ),
            _ => f.add(
                Weight::Flag,
                Rule::ClientSaturated,
                format!("{text}: the client is measured, not the target"),
            ),
        }
    }
    let server = rounds
        .iter()
        .filter_map(|r| Some(share(r.server?.cpu, r)))
        .fold(0.0, f64::max);
    if server > t.server_busy_max {
        let text = format!(
            "the server used {} processors: it may be the limit",
            digits(server)
        );
        f.add(Weight::Note, Rule::ServerSaturated, text);
    }
}

/// Checks that the bytes came from the medium.
fn sources(f: &mut Findings, rounds: &[Run], t: &Thresholds) {
    let looked: u64 = rounds.iter().map(|r| r.zeroes.0).sum();
    let zero: u64 = rounds.iter().map(|r| r.zeroes.1).sum();
    f.flag_if(
        zero as f64 > looked as f64 * t.zeroes_max,
        Rule::Holes,
        || {
            format!(
                "{zero} of {looked} sampled reads were all zero: blocks that were never written"
            )
        },
    );
    let Some(first) = rounds.first() else { return };
    if first.facts.medium == Medium::Ram {
        return;
    }
    let share = device_read_share(rounds);
    f.flag_if(share.is_some_and(|s| s < t.device_read_min), Rule::Cached, || {
        let share = digits(share.unwrap_or_default());
        format!("devices read {share} bytes for each byte read: the rest came from memory (use ?medium=ram for a target in memory)")
    });
}

fn connection(f: &mut Findings, run: &Run) {
    let Some(tr) = &run.facts.transport else {
        return;
    };
    f.flag_if(
        tr.congestion != tr.congestion_wanted,
        Rule::Congestion,
        || format!("TCP uses {}, not {}", tr.congestion, tr.congestion_wanted),
    );
    let server = tr.congestion_server.as_ref();
    f.flag_if(
        server.is_some_and(|s| *s != tr.congestion_wanted),
        Rule::Congestion,
        || {
            let (server, wanted) = (server.map_or("", |s| s), &tr.congestion_wanted);
            format!("the server sends with {server}, not {wanted}")
        },
    );
    for text in &tr.fallbacks {
        f.add(Weight::Flag, Rule::Fallback, text.clone());
    }
}
