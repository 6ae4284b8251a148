//! Tests of verify runs against media that lose, damage, misplace and forget writes.

use io::{IoBuf, Runtime, RuntimeConfig};
use lab::engine::Setup;
use lab::targets::{Facts, Session, Target};
use lab::verify::Outcome;
use lab::verify::check::Shape;
use lab::verify::journal::{self, Header, Journal};
use lab::verify::run::{self, Plan};
use lab::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BS: usize = 512;
const BLOCKS: u64 = 64;

/// The fault of a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fault {
    #[default]
    None,
    /// The write of this number is acknowledged and dropped.
    DropWrite(u64),
    /// The write of this number goes to the block before.
    Misdirect(u64),
    /// The write of this number flips a bit.
    Flip(u64),
    /// From this I/O on everything fails.
    Die(u64),
}

#[derive(Default)]
struct Medium {
    /// What is stable, and what only the cache has.
    stable: BTreeMap<u64, Vec<u8>>,
    cache: BTreeMap<u64, Vec<u8>>,
    fault: Fault,
    writes: u64,
    ios: u64,
    epoch: u64,
    /// Flushes and FUA promise and do nothing.
    lies: bool,
}

impl Medium {
    /// The power goes: of the cache, every other block survives.
    fn power_cut(&mut self) {
        for (i, (at, data)) in std::mem::take(&mut self.cache).into_iter().enumerate() {
            if i % 2 == 0 && !self.lies {
                self.stable.insert(at, data);
            }
        }
        self.epoch += 1;
        self.fault = Fault::None;
    }
}

#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Medium>>);

struct ShelfSession(Shelf);

impl Shelf {
    fn with(fault: Fault) -> Shelf {
        let s = Shelf::default();
        s.0.lock().expect("no panic holds it").fault = fault;
        s
    }

    fn change(&self, f: impl FnOnce(&mut Medium)) {
        f(&mut self.0.lock().expect("no panic holds it"));
    }
}

impl Target for Shelf {
    type Session = ShelfSession;

    fn facts(&self) -> Facts {
        crate::fake::facts()
    }

    async fn connect(&self, _depth: u32) -> Result<ShelfSession> {
        Ok(ShelfSession(self.clone()))
    }
}

impl ShelfSession {
    fn turn(&self) -> Result<()> {
        let mut m = self.0.0.lock().expect("no panic holds it");
        m.ios += 1;
        if matches!(m.fault, Fault::Die(at) if m.ios > at) {
            Err(Error::Status("gone".into()))
        } else {
            Ok(())
        }
    }
}

impl Session for ShelfSession {
    async fn read(&self, mut buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        io::yield_now().await;
        let r = self.turn();
        let m = self.0.0.lock().expect("no panic holds it");
        match m.cache.get(&offset).or_else(|| m.stable.get(&offset)) {
            Some(data) => buf.copy_from_slice(data),
            None => buf.fill(0),
        }
        drop(m);
        (r, buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (Result<()>, IoBuf) {
        io::yield_now().await;
        let r = self.turn();
        if r.is_ok() {
            let mut m = self.0.0.lock().expect("no panic holds it");
            m.writes += 1;
            let (mut at, mut data) = (offset, buf.to_vec());
            match m.fault {
                Fault::DropWrite(n) if n == m.writes => return (r, buf),
                Fault::Misdirect(n) if n == m.writes => {
                    at = (offset + (BLOCKS - 1) * BS as u64) % (BLOCKS * BS as u64)
                }
                Fault::Flip(n) if n == m.writes => data[100] ^= 4,
                _ => {}
            }
            if durable && !m.lies {
                m.cache.remove(&at);
                m.stable.insert(at, data);
            } else {
                m.cache.insert(at, data);
            }
        }
        (r, buf)
    }

    async fn flush(&self) -> Result<()> {
        io::yield_now().await;
        self.turn()?;
        let mut m = self.0.0.lock().expect("no panic holds it");
        if !m.lies {
            let cache = std::mem::take(&mut m.cache);
            m.stable.extend(cache);
        }
        Ok(())
    }

    fn facts(&self) -> Facts {
        crate::fake::facts()
    }

    fn epoch(&self) -> u64 {
        self.0.0.lock().expect("no panic holds it").epoch
    }

    async fn close(self) {}
}

fn plan(jobs: u32) -> Plan {
    Plan {
        shape: Shape {
            seed: 11,
            block_size: BS as u32,
        },
        blocks: BLOCKS,
        jobs,
        depth: 4,
        runtime: Duration::from_millis(50),
        read_percent: 30,
        fua_percent: 25,
        flush_every: 8,
        lossy: false,
    }
}

fn run_on(shelf: &Shelf, plan: Plan, journal: Journal) -> Result<Outcome> {
    let shelf = shelf.clone();
    let rt = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    rt.block_on(async move { run::run(&shelf, &plan, &Setup::default(), Arc::new(journal)).await })
}

fn check_on(shelf: &Shelf, state: &Path) -> Outcome {
    let (header, ledgers) = journal::read(state).expect("a journal");
    let (shelf, plan) = (shelf.clone(), plan(header.jobs));
    let rt = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    let done =
        rt.block_on(async move { run::check(&shelf, &plan, &Setup::default(), ledgers).await });
    done.expect("no I/O error")
}

fn header(jobs: u32) -> Header {
    Header {
        address: "mem:1M".into(),
        seed: 11,
        block_size: BS as u32,
        blocks: BLOCKS,
        jobs,
    }
}

#[test]
fn a_faithful_medium_passes() {
    for jobs in [1, 3] {
        let out = run_on(&Shelf::default(), plan(jobs), Journal::none()).expect("no I/O error");
        assert_eq!((out.wrong, out.unknown), (0, 0), "{:?}", out.mismatches);
        assert!(
            out.writes > BLOCKS && out.checked >= BLOCKS && out.flushes >= 2 && out.durable > 0
        );
    }
}

#[test]
fn each_fault_is_found_and_named() {
    // The 40th write belongs to the phase that writes each block once; a misdirected one hits the block before it,
    // which no later write repairs.
    for (fault, word) in [
        (Fault::DropWrite(40), "found zeroes"),
        (Fault::Misdirect(40), "in the wrong place"),
        (Fault::Flip(40), "torn or damaged"),
    ] {
        let still = Plan {
            runtime: Duration::ZERO,
            ..plan(1)
        };
        let out = run_on(&Shelf::with(fault), still, Journal::none()).expect("no I/O error");
        assert!(out.wrong > 0, "{fault:?}");
        assert!(
            out.mismatches.iter().any(|m| m.to_string().contains(word)),
            "{fault:?}: {:?}",
            out.mismatches
        );
    }
}

#[test]
fn whatever_the_moment_of_a_power_cut_what_was_durable_is_there() {
    for die in [1, 10, 64, 65, 100, 150, 200, 333] {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        let shelf = Shelf::with(Fault::Die(die));
        let journal = Journal::create(&state, &header(2)).expect("new");
        let e = run_on(
            &shelf,
            Plan {
                runtime: Duration::from_secs(60),
                ..plan(2)
            },
            journal,
        )
        .err();
        assert!(matches!(e, Some(Error::Status(_))), "it died");
        shelf.change(Medium::power_cut);
        let out = check_on(&shelf, &state);
        assert_eq!(out.wrong, 0, "after {die} I/Os: {:?}", out.mismatches);
        assert_eq!(out.checked + out.unknown, BLOCKS);
    }
}

#[test]
fn a_medium_that_promises_and_forgets_is_found_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let shelf = Shelf::with(Fault::Die(200));
    shelf.change(|m| m.lies = true);
    let journal = Journal::create(&state, &header(1)).expect("new");
    assert!(
        run_on(
            &shelf,
            Plan {
                runtime: Duration::from_secs(60),
                ..plan(1)
            },
            journal
        )
        .is_err()
    );
    shelf.change(Medium::power_cut);
    let out = check_on(&shelf, &state);
    assert_eq!(
        out.wrong, BLOCKS,
        "every block was flushed once and is gone"
    );
    assert!(
        out.mismatches[0]
            .to_string()
            .contains("or newer, found zeroes")
    );
}

#[test]
fn a_block_that_rotted_after_the_run_is_found_by_the_check() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let shelf = Shelf::default();
    run_on(
        &shelf,
        plan(2),
        Journal::create(&state, &header(2)).expect("new"),
    )
    .expect("no I/O error");
    assert_eq!(check_on(&shelf, &state).wrong, 0);
    shelf.change(|m| {
        m.cache.clear();
        m.stable.get_mut(&(7 * BS as u64)).expect("written")[300] ^= 1;
    });
    let out = check_on(&shelf, &state);
    assert_eq!(out.wrong, 1);
    assert_eq!(
        (out.mismatches[0].block, out.mismatches[0].offset),
        (7, 7 * BS as u64)
    );
}
