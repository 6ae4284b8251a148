//! Tests of the engine against targets with known behaviour.

use crate::fake::{Fake, Script};
use io::sim::{Sim, SimConfig};
use io::{Runtime, RuntimeConfig};
use lab::engine::{Run, Setup, precondition, run};
use lab::targets::{AnyTarget, OpenAs, Target};
use lab::workload::{Access, Sync, Workload};
use lab::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn block_on<T: 'static>(f: impl Future<Output = T> + 'static) -> T {
    Runtime::new(RuntimeConfig::default())
        .expect("io_uring is there")
        .block_on(f)
}

fn against(script: Script, w: Workload) -> (Result<Run>, Arc<Script>) {
    let script = Arc::new(script);
    let target = Fake(script.clone());
    (
        block_on(async move { run(&target, &w, &Setup::default()).await }),
        script,
    )
}

/// Runs in virtual time, where every moment is exact.
fn simulated(script: Script, w: Workload) -> (Run, Arc<Script>) {
    let script = Arc::new(script);
    let target = Fake(script.clone());
    let setup = Setup {
        inline: true,
        ..Setup::default()
    };
    let sim = Sim::new(1, SimConfig::default());
    (
        sim.block_on(async move { run(&target, &w, &setup).await })
            .expect("no error"),
        script,
    )
}

/// True if `ns` is `ms` to within the histogram's error and a few steps of the simulator.
fn about(ns: u64, ms: u64) -> bool {
    ns.abs_diff(ms * 1_000_000) <= ms * 2_000 + 1_000_000
}

/// A workload of `ios` I/Os without a time limit.
fn counted(ios: u64) -> Workload {
    Workload {
        bytes: Some(ios * 4096),
        ramp: Duration::ZERO,
        runtime: Duration::from_secs(3600),
        ..Workload::default()
    }
}

/// What an I/O costs beside its own work, counted and not timed: one call of the kernel, and no timer set for it though the
/// end of the run is waited for all the while.
#[test]
fn an_io_enters_the_kernel_once_and_sets_no_timer() {
    let dir = tempfile::tempdir().expect("a directory");
    for (depth, rw) in [
        (1, "randread"),
        (32, "randread"),
        (1, "randwrite"),
        (32, "randwrite"),
    ] {
        let path = dir.path().join(format!("{depth}{rw}"));
        let address = format!("file:{}", path.display())
            .parse()
            .expect("an address");
        const IOS: u64 = 2000;
        let w = Workload {
            depth,
            region: Some(1 << 20),
            ..counted(IOS)
        };
        let w = w.with_mode(rw).expect("a mode");
        let setup = Setup {
            inline: true,
            ..Setup::default()
        };
        let config = RuntimeConfig {
            spin_max: Duration::ZERO,
            ..RuntimeConfig::default()
        };
        let runtime = Runtime::new(config).expect("io_uring is there");
        let (run, calls) = runtime.block_on(async move {
            let open = OpenAs {
                writable: w.writes(),
                create: Some(1 << 20),
            };
            let target = AnyTarget::open(&address, open).await.expect("made");
            let before = io::runtime::kernel_calls();
            let run = run(&target, &w, &setup).await.expect("no error");
            let after = io::runtime::kernel_calls();
            (
                run,
                (after.enters - before.enters, after.timers - before.timers),
            )
        });
        assert_eq!(run.ios(), IOS);
        let (enters, timers) = calls;
        assert!(
            enters <= IOS + IOS / 20,
            "{enters} calls at depth {depth}, {rw}"
        );
        assert!(timers <= 16, "{timers} timers at depth {depth}, {rw}");
    }
}

#[test]
fn exactly_the_bytes_asked_for_are_moved_at_the_depth_asked_for() {
    let w = Workload {
        depth: 8,
        jobs: 3,
        ..counted(1001)
    };
    let (run, script) = against(
        Script {
            delay: Duration::from_micros(100),
            ..Script::default()
        },
        w,
    );
    let run = run.expect("no error");
    assert_eq!(run.ios(), 1001);
    assert_eq!(run.read.bytes, 1001 * 4096);
    assert_eq!(script.ios.load(Ordering::SeqCst), 1001);
    assert!(
        script.deepest.load(Ordering::SeqCst) <= 24,
        "three jobs of depth 8"
    );
    assert_eq!(run.client_cpu.len(), 3);
    assert!(
        run.read.latency.min() >= 100_000,
        "every I/O took at least its delay"
    );
    assert_eq!(run.series.0.iter().map(|s| s.ios).sum::<u64>(), 1001);
}

#[test]
fn an_error_ends_the_run_and_is_told() {
    let (run, script) = against(
        Script {
            fail: Some(10),
            ..Script::default()
        },
        counted(1_000_000),
    );
    assert!(matches!(run.err(), Some(Error::Status(s)) if s == "no"));
    assert!(script.ios.load(Ordering::SeqCst) < 100, "it ended soon");
}

#[test]
fn durability_is_asked_for_as_often_as_said() {
    let base = Workload {
        read_percent: 0,
        ..counted(100)
    };
    let (run, script) = against(
        Script::default(),
        Workload {
            sync: Sync::FlushEvery(10),
            ..base.clone()
        },
    );
    assert_eq!(
        (
            script.flushes.load(Ordering::SeqCst),
            script.durable.load(Ordering::SeqCst)
        ),
        (10, 0)
    );
    assert_eq!(run.expect("no error").flush.count(), 10);
    let (_, script) = against(
        Script::default(),
        Workload {
            sync: Sync::Fua,
            ..base.clone()
        },
    );
    assert_eq!(
        (
            script.flushes.load(Ordering::SeqCst),
            script.durable.load(Ordering::SeqCst)
        ),
        (0, 100)
    );
    let (_, script) = against(Script::default(), base);
    assert_eq!(
        (
            script.flushes.load(Ordering::SeqCst),
            script.durable.load(Ordering::SeqCst)
        ),
        (0, 0)
    );
}

#[test]
fn no_two_writes_carry_the_same_also_when_reads_come_between() {
    let w = Workload {
        read_percent: 50,
        depth: 4,
        ..counted(400)
    };
    let (_, script) = against(Script::default(), w);
    let written = script.written.lock().expect("no panic holds it");
    let heads: BTreeSet<_> = written.iter().map(|w| w.1).collect();
    assert!(written.len() > 100 && heads.len() == written.len());
}

#[test]
fn a_sequential_pass_covers_the_region_once() {
    let w = Workload {
        access: Access::Sequential,
        read_percent: 0,
        jobs: 2,
        region: Some(64 * 4096),
        ..counted(64)
    };
    let (_, script) = against(Script::default(), w);
    let mut offsets: Vec<u64> = script
        .written
        .lock()
        .expect("no panic holds it")
        .iter()
        .map(|w| w.0)
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..64).map(|b| b * 4096).collect::<Vec<_>>());
}

/// The bug that coordinated omission is: a closed loop sees one slow I/O in a stall, though hundreds of users waited.
#[test]
fn an_open_loop_charges_a_stall_to_everyone_it_delayed() {
    let script = || Script {
        stall: Some((50, Duration::from_millis(400))),
        ..Script::default()
    };
    let closed = Workload {
        ramp: Duration::ZERO,
        runtime: Duration::from_millis(600),
        bytes: Some(600 * 4096),
        ..Workload::default()
    };
    let open = Workload {
        rate: Some(1000.0),
        bytes: None,
        ..closed.clone()
    };
    let (closed, _) = simulated(script(), closed);
    assert!(about(closed.latency().max(), 400) && closed.latency().percentile(99.0) < 1_000_000);
    let (open, _) = simulated(script(), open);
    let l = open.latency();
    // Due every millisecond: the I/O due at 50 ms ends at 450 ms, and the 399 due in between wait for it.
    assert_eq!(l.count(), 600, "every I/O that was due is in the histogram");
    assert!(about(l.max(), 400), "{}", l.max());
    assert!(about(l.percentile(75.0), 250), "{}", l.percentile(75.0));
    assert!(
        l.percentile(30.0) < 1_000_000,
        "those before and after the stall did not wait"
    );
    assert!(
        about((open.in_flight() * 1000.0) as u64 * 1_000_000, 133_667),
        "Little's law: {}",
        open.in_flight()
    );
}

#[test]
fn an_open_loop_that_cannot_keep_up_says_what_it_missed() {
    let w = Workload {
        rate: Some(10_000.0),
        ramp: Duration::ZERO,
        runtime: Duration::from_millis(300),
        depth: 2,
        ..Workload::default()
    };
    let (run, script) = simulated(
        Script {
            delay: Duration::from_millis(10),
            ..Script::default()
        },
        w,
    );
    assert_eq!(run.ios(), script.ios.load(Ordering::SeqCst));
    assert!(
        (58..=62).contains(&run.ios()),
        "two at a time, 10 ms each, for 300 ms: {}",
        run.ios()
    );
    assert_eq!(run.missed + run.ios(), 3000);
    assert_eq!(run.latency().count(), 3000);
}

#[test]
fn the_ramp_does_not_count() {
    let w = Workload {
        rate: Some(1000.0),
        ramp: Duration::from_millis(200),
        runtime: Duration::from_millis(100),
        depth: 64,
        ..Workload::default()
    };
    let (run, script) = simulated(Script::default(), w);
    assert_eq!(run.latency().count(), 100);
    assert_eq!(script.ios.load(Ordering::SeqCst), 300);
}

#[test]
fn a_closed_loop_has_its_depth_in_flight() {
    let w = Workload {
        depth: 8,
        ramp: Duration::ZERO,
        runtime: Duration::from_secs(1),
        ..Workload::default()
    };
    let (run, script) = simulated(
        Script {
            delay: Duration::from_millis(1),
            ..Script::default()
        },
        w,
    );
    assert_eq!(script.deepest.load(Ordering::SeqCst), 8);
    assert!((7.9..8.1).contains(&run.in_flight()), "{}", run.in_flight());
    assert!((7800.0..8100.0).contains(&run.iops()), "{}", run.iops());
    assert!(
        run.series
            .rates(Duration::from_millis(100), Duration::from_secs(1))
            .iter()
            .all(|r| (7700.0..8200.0).contains(r))
    );
}

#[test]
fn files_are_filled_read_back_and_told_apart_from_holes() {
    let dir = tempfile::tempdir().expect("a directory");
    let address = format!("file:{}", dir.path().join("disk").display())
        .parse()
        .expect("an address");
    block_on(async move {
        let how = OpenAs {
            writable: true,
            create: Some(8 << 20),
        };
        let t = AnyTarget::open(&address, how).await.expect("open");
        let w = Workload {
            depth: 4,
            ..counted(640)
        };
        let holes = run(&t, &w, &Setup::default())
            .await
            .expect("reads of holes work");
        assert!(t.facts().holes > 0 && holes.zeroes.0 > 10 && holes.zeroes.1 == holes.zeroes.0);
        let filled = precondition::fill(&t, None, 1, &Setup::default())
            .await
            .expect("fill");
        assert_eq!(filled.write.bytes, 8 << 20);
        assert_eq!(t.facts().holes, 0);
        let data = run(&t, &w, &Setup::default()).await.expect("reads");
        assert_eq!(data.zeroes.1, 0);
        assert_eq!(data.read.bytes, 640 * 4096);
        let seq = Workload {
            block_size: 1 << 20,
            access: Access::Sequential,
            ..counted(0)
        };
        let seq = Workload {
            bytes: Some(8 << 20),
            ..seq
        };
        assert_eq!(
            run(&t, &seq, &Setup::default()).await.expect("reads").ios(),
            8
        );
    });
}

#[test]
fn memory_reads_what_was_written_and_refuses_what_lies_beyond() {
    block_on(async {
        let t = AnyTarget::open(&"mem:1M".parse().expect("an address"), OpenAs::default())
            .await
            .expect("open");
        let w = Workload {
            read_percent: 0,
            depth: 2,
            jobs: 2,
            ..counted(512)
        };
        assert_eq!(
            run(&t, &w, &Setup::default()).await.expect("writes").ios(),
            512
        );
        let beyond = Workload {
            block_size: 1 << 20,
            jobs: 2,
            ..counted(1)
        };
        assert!(matches!(
            run(&t, &beyond, &Setup::default()).await.err(),
            Some(Error::Usage { .. })
        ));
    });
}

#[test]
fn a_missing_target_is_named() {
    block_on(async {
        let e = AnyTarget::open(
            &"file:/nowhere/disk".parse().expect("an address"),
            OpenAs::default(),
        )
        .await
        .err();
        assert!(
            e.expect("there is none")
                .to_string()
                .contains("/nowhere/disk")
        );
    });
}
