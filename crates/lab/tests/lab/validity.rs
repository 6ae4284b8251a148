//! Tests of every validity rule: a passing and a failing run.

use crate::fake;
use lab::engine::{Direction, Run};
use lab::stats::process::{Traffic, Usage};
use lab::stats::{Latency, Series};
use lab::targets::{Engine, Facts, Medium, Transport};
use lab::validity::{Circumstances, Rule, Thresholds, Verdict, Weight, after, before};
use lab::workload::fill::Fill;
use lab::workload::{Sync, Workload};
use std::time::Duration;

const HOW: Circumstances = Circumstances {
    compared: false,
    interleaved: true,
    spins: false,
};

fn thresholds() -> Thresholds {
    Thresholds::for_memory(1 << 30)
}

/// A disk that no cache holds.
fn facts() -> Facts {
    Facts {
        size: 64 << 30,
        ..fake::facts()
    }
}

/// A valid run: five seconds at 2000 reads per second, 100 µs each, one in flight at a time.
fn good() -> Run {
    let (mut read, mut series) = (Direction::default(), Series::default());
    for i in 0..10_000u64 {
        read.latency.record(Duration::from_micros(500));
        read.bytes += 4096;
        series.record(Duration::from_micros(i * 500), 4096);
    }
    let device = Some(Traffic {
        read: read.bytes,
        written: 0,
    });
    Run {
        workload: Workload::default(),
        facts: facts(),
        read,
        write: Direction::default(),
        flush: Latency::default(),
        elapsed: Duration::from_secs(5),
        series,
        client_cpu: vec![Duration::from_millis(500)],
        server: None,
        own: Some(Usage {
            cpu: Duration::ZERO,
            device,
        }),
        zeroes: (300, 0),
        missed: 0,
        reconnects: 0,
    }
}

/// The verdict over two rounds like this one.
fn found(run: Run) -> Verdict {
    Verdict(after(&[run.clone(), run], HOW, &thresholds()))
}

fn found_before(facts: &Facts, w: &Workload, region: u64) -> Verdict {
    Verdict(before(facts, w, region, &thresholds()))
}

fn flags(v: &Verdict, rule: Rule) {
    assert!(v.has(rule), "{rule:?} is not in {v:?}");
    assert_eq!(v.weight(), Some(Weight::Flag), "{v:?}");
}

#[test]
fn a_good_run_is_valid() {
    assert_eq!(found(good()), Verdict::default());
    assert_eq!(
        found_before(&facts(), &Workload::default(), 64 << 20),
        Verdict::default()
    );
    assert_eq!(Verdict::default().to_string(), "valid");
}

#[test]
fn a_depth_that_a_synchronous_target_ignores_is_refused() {
    let sync = Facts {
        engine: Engine::Synchronous,
        ..facts()
    };
    let deep = Workload {
        depth: 32,
        ..Workload::default()
    };
    let v = found_before(&sync, &deep, 64 << 20);
    assert_eq!(v.to_string(), "refused: depth-ignored");
    assert_eq!(
        found_before(&sync, &Workload::default(), 64 << 20).weight(),
        None
    );
    assert_eq!(found_before(&facts(), &deep, 64 << 20).weight(), None);
    let buffered = Facts {
        direct: Some(false),
        ..facts()
    };
    let durable = |depth| Workload {
        read_percent: 0,
        sync: Sync::Fua,
        depth,
        ..Workload::default()
    };
    let is_ignored = |facts: &Facts, depth| {
        found_before(facts, &durable(depth), 64 << 20).has(Rule::DepthIgnored)
    };
    assert!(
        is_ignored(&buffered, 32),
        "one after the other in the kernel"
    );
    assert!(!is_ignored(&buffered, 1));
    assert!(!is_ignored(&facts(), 32), "direct writes are concurrent");
}

#[test]
fn a_depth_that_was_never_in_flight_is_flagged() {
    let mut run = good();
    run.workload.depth = 32;
    flags(&found(run.clone()), Rule::DepthIgnored);
    run.workload.rate = Some(2000.0);
    assert!(
        !found(run).has(Rule::DepthIgnored),
        "an open loop has no depth to fill"
    );
}

#[test]
fn the_page_cache_is_flagged_unless_the_file_is_far_larger() {
    let cached = Facts {
        direct: Some(false),
        size: 8 << 30,
        ..facts()
    };
    let v = found_before(&cached, &Workload::default(), 64 << 20);
    assert!(v.has(Rule::NotDirect) && v.has(Rule::Cached), "{v:?}");
    let large = found_before(&cached, &Workload::default(), 2 << 30);
    assert!(large.has(Rule::NotDirect) && !large.has(Rule::Cached));
    let ram = Facts {
        medium: Medium::Ram,
        direct: None,
        ..facts()
    };
    assert_eq!(
        found_before(&ram, &Workload::default(), 64 << 20).weight(),
        None
    );
}

#[test]
fn reads_that_no_device_served_are_flagged() {
    let mut run = good();
    run.own = Some(Usage {
        cpu: Duration::ZERO,
        device: Some(Traffic::default()),
    });
    flags(&found(run.clone()), Rule::Cached);
    run.facts.medium = Medium::Ram;
    assert!(!found(run.clone()).has(Rule::Cached), "memory by intent");
    run.facts.medium = Medium::Device;
    run.own = Some(Usage {
        cpu: Duration::ZERO,
        device: None,
    });
    assert!(
        !found(run).has(Rule::Cached),
        "what cannot be seen is not judged"
    );
}

#[test]
fn few_blocks_are_flagged() {
    flags(
        &found_before(&facts(), &Workload::default(), 999 * 4096),
        Rule::WorkingSet,
    );
    assert!(!found_before(&facts(), &Workload::default(), 1000 * 4096).has(Rule::WorkingSet));
}

#[test]
fn compressible_writes_are_flagged_and_reads_do_not_care() {
    for (fill, read_percent, wrong) in [
        (Fill::Zero, 0, true),
        (Fill::Compressible(50), 50, true),
        (Fill::Random, 0, false),
        (Fill::Zero, 100, false),
    ] {
        let w = Workload {
            fill,
            read_percent,
            ..Workload::default()
        };
        assert_eq!(
            found_before(&facts(), &w, 64 << 20).has(Rule::Compressible),
            wrong,
            "{fill:?}"
        );
    }
}

#[test]
fn short_runs_are_flagged() {
    let mut run = good();
    run.elapsed = Duration::from_secs(1);
    flags(&found(run), Rule::Short);
    let mut run = good();
    run.read.latency = Latency::default();
    (0..499).for_each(|_| run.read.latency.record(Duration::from_micros(500)));
    flags(&found(run), Rule::Short);
    let mut half = good();
    half.elapsed = Duration::from_secs(2);
    assert!(
        !Verdict(after(&[half.clone(), half], HOW, &thresholds())).has(Rule::Short),
        "two rounds add up"
    );
}

#[test]
fn unsteady_rates_are_flagged() {
    let mut run = good();
    run.series = Series::default();
    // Every other second nothing happens.
    let busy = (0..10_000u64).filter(|i| i / 2000 % 2 == 0);
    busy.for_each(|i| run.series.record(Duration::from_micros(i * 500), 4096));
    flags(&found(run), Rule::Unsteady);
}

#[test]
fn rounds_far_apart_are_flagged() {
    let mut slow = good();
    slow.elapsed = Duration::from_secs(10);
    let rounds = [good(), slow];
    assert!(Verdict(after(&rounds, HOW, &thresholds())).has(Rule::Unsteady));
    assert!(!Verdict(after(&[good(), good()], HOW, &thresholds())).has(Rule::Unsteady));
}

#[test]
fn a_busy_client_is_flagged_but_not_where_it_spins_or_is_the_target() {
    let mut run = good();
    run.client_cpu = vec![Duration::from_millis(10), Duration::from_millis(4900)];
    flags(&found(run.clone()), Rule::ClientSaturated);
    let spins = Circumstances { spins: true, ..HOW };
    assert_eq!(
        Verdict(after(&[run.clone(), run.clone()], spins, &thresholds())).weight(),
        None
    );
    run.facts.engine = Engine::Synchronous;
    assert_eq!(found(run).weight(), None);
}

#[test]
fn a_busy_server_is_a_note() {
    let mut run = good();
    run.server = Some(Usage {
        cpu: Duration::from_millis(4900),
        device: None,
    });
    let v = found(run);
    assert!(v.has(Rule::ServerSaturated) && v.weight().is_none());
}

#[test]
fn holes_are_flagged_by_the_file_system_and_by_what_was_read() {
    let sparse = Facts {
        holes: 32 << 30,
        ..facts()
    };
    flags(
        &found_before(&sparse, &Workload::default(), 64 << 20),
        Rule::Holes,
    );
    let writes = Workload {
        read_percent: 0,
        ..Workload::default()
    };
    assert!(
        !found_before(&sparse, &writes, 64 << 20).has(Rule::Holes),
        "writes fill them"
    );
    let mut run = good();
    run.zeroes = (300, 100);
    flags(&found(run), Rule::Holes);
}

fn over_tcp() -> Run {
    let transport = Transport {
        kind: "tcp".into(),
        rdma: None,
        congestion: "cubic".into(),
        congestion_wanted: "cubic".into(),
        congestion_server: None,
        digests: (false, false),
        queues: 1,
        depth: 128,
        fallbacks: Vec::new(),
    };
    let mut run = good();
    run.facts.transport = Some(transport);
    run
}

#[test]
fn connections_that_are_not_what_was_asked_for_are_flagged() {
    assert_eq!(found(over_tcp()).weight(), None);
    let mut run = over_tcp();
    run.facts.transport.as_mut().expect("there").congestion = "bbr".into();
    flags(&found(run), Rule::Congestion);
    let mut run = over_tcp();
    let transport = run.facts.transport.as_mut().expect("there");
    transport.congestion_server = Some("cubic".into());
    assert_eq!(found(run.clone()).weight(), None);
    let transport = run.facts.transport.as_mut().expect("there");
    transport.congestion_server = Some("bbr".into());
    flags(&found(run), Rule::Congestion);
    let mut run = over_tcp();
    run.facts
        .transport
        .as_mut()
        .expect("there")
        .fallbacks
        .push("no data digests, though asked for".into());
    flags(&found(run), Rule::Fallback);
    let mut run = over_tcp();
    run.reconnects = 1;
    flags(&found(run), Rule::Fallback);
}

#[test]
fn what_is_compared_must_take_turns() {
    let apart = Circumstances {
        compared: true,
        interleaved: false,
        ..HOW
    };
    flags(
        &Verdict(after(&[good()], apart, &thresholds())),
        Rule::NotInterleaved,
    );
    let turns = Circumstances {
        compared: true,
        ..HOW
    };
    assert_eq!(
        Verdict(after(&[good(), good()], turns, &thresholds())).weight(),
        None
    );
    let alone = Circumstances {
        interleaved: false,
        ..HOW
    };
    assert_eq!(
        Verdict(after(&[good(), good()], alone, &thresholds())).weight(),
        None
    );
}

#[test]
fn a_rate_that_was_not_kept_is_flagged() {
    let mut run = good();
    run.missed = 1;
    flags(&found(run), Rule::RateMissed);
}

#[test]
fn one_round_is_flagged_since_nothing_is_known_of_the_spread() {
    let v = Verdict(after(&[good()], HOW, &thresholds()));
    assert_eq!(v.to_string(), "flagged: one-round");
}

fn working_set(run: Run) -> bool {
    found(run).has(Rule::WorkingSet)
}

#[test]
fn a_working_set_that_a_device_may_hold_is_flagged() {
    for (mib, wrong) in [
        (10, true),
        (64, true),
        (511, true),
        (512, false),
        (4096, false),
    ] {
        let mut run = good();
        run.workload.region = Some(mib << 20);
        assert_eq!(working_set(run.clone()), wrong, "{mib} MiB of a disk");
        run.workload.region = None;
        run.facts.size = mib << 20;
        assert_eq!(working_set(run.clone()), wrong, "a disk of {mib} MiB");
        run.facts.medium = Medium::Ram;
        assert!(!working_set(run), "memory by intent");
    }
}

#[test]
fn a_working_set_that_a_server_may_hold_is_flagged_unless_devices_read_it() {
    let mut run = over_tcp();
    run.facts.medium = Medium::Unknown;
    run.own = None;
    // This machine has 1 GiB, and no more is known of the server's.
    run.workload.region = Some(1000 << 20);
    assert!(working_set(run.clone()));
    run.workload.region = Some(1 << 30);
    assert!(!working_set(run.clone()));
    run.workload.region = Some(1000 << 20);
    run.server = good().own;
    assert!(
        !working_set(run.clone()),
        "the server's devices read it all"
    );
    run.workload.region = Some(100 << 20);
    assert!(
        working_set(run.clone()),
        "but may have it in their own memory"
    );
    run.workload.region = Some(1000 << 20);
    run.workload.read_percent = 0;
    run.write = std::mem::take(&mut run.read);
    assert!(
        working_set(run.clone()),
        "writes end in the server's memory"
    );
    run.workload.sync = Sync::Fua;
    assert!(!working_set(run), "durable ones do not");
}

#[test]
fn a_working_set_that_the_pools_own_memory_holds_is_flagged() {
    let mut run = good();
    run.own = None;
    run.facts.caches = 2 << 30;
    run.workload.region = Some(1 << 30);
    assert!(working_set(run.clone()));
    run.workload.region = Some(2 << 30);
    assert!(!working_set(run));
}
