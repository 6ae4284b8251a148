//! The judge of drills, against doubles of a server: honest ones pass, and each kind of liar fails.

use drill::{
    About, Course, Disturbance, Layer, LayerFacts, Load, Plan, Report, Result, Timeline, Watched,
    conclude, html, run,
};
use io::IoBuf;
use lab::targets::{Engine, Facts, Medium, Session};
use nvmf_initiator::LinkState;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const BLOCK: u32 = 4096;
const BLOCKS: u64 = 64;
/// Acknowledged writes before each crash.
const WRITES: u64 = 300;

/// How a double treats acknowledged writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Honest,
    /// Flushes and durable writes are confirmed, and stored in memory only.
    ConfirmsTooEarly,
    /// Some acknowledged writes are stored nowhere.
    DropsSome,
    /// Some writes end in another block.
    Misplaces,
    /// After a crash nothing is answered any more.
    StaysDead,
    /// Some writes are refused.
    Refuses,
}

/// A store with a volatile and a stable copy of each block.
struct Store {
    manner: Manner,
    volatile: RefCell<HashMap<u64, Vec<u8>>>,
    stable: RefCell<HashMap<u64, Vec<u8>>>,
    epoch: Cell<u64>,
    writes: Cell<u64>,
    is_dead: Cell<bool>,
}

impl Store {
    fn new(manner: Manner) -> Rc<Store> {
        Rc::new(Store {
            manner,
            volatile: RefCell::default(),
            stable: RefCell::default(),
            epoch: Cell::new(0),
            writes: Cell::new(0),
            is_dead: Cell::new(false),
        })
    }

    fn crash(&self) {
        *self.volatile.borrow_mut() = self.stable.borrow().clone();
        self.is_dead.set(self.manner == Manner::StaysDead);
    }

    fn restart(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    async fn answers(&self) {
        io::yield_now().await;
        while self.is_dead.get() {
            io::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn stabilize(&self) {
        if self.manner != Manner::ConfirmsTooEarly {
            *self.stable.borrow_mut() = self.volatile.borrow().clone();
        }
    }
}

#[derive(Clone)]
struct Double(Rc<Store>);

impl Session for Double {
    async fn read(&self, mut buf: IoBuf, offset: u64) -> (lab::Result<()>, IoBuf) {
        self.0.answers().await;
        match self.0.volatile.borrow().get(&offset) {
            Some(data) => buf.copy_from_slice(data),
            None => buf.fill(0),
        }
        (Ok(()), buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (lab::Result<()>, IoBuf) {
        let store = &self.0;
        store.answers().await;
        let number = store.writes.get() + 1;
        store.writes.set(number);
        let is_chosen = number.is_multiple_of(50);
        let offset = match store.manner {
            Manner::DropsSome if is_chosen => return (Ok(()), buf),
            Manner::Refuses if is_chosen => {
                return (Err(lab::Error::Status("refused".into())), buf);
            }
            Manner::Misplaces if is_chosen => (offset + 4096) % (BLOCKS * 4096),
            _ => offset,
        };
        store.volatile.borrow_mut().insert(offset, buf.to_vec());
        if durable {
            store.stabilize();
        }
        (Ok(()), buf)
    }

    async fn flush(&self) -> lab::Result<()> {
        self.0.answers().await;
        self.0.stabilize();
        Ok(())
    }

    fn facts(&self) -> Facts {
        Facts {
            size: BLOCKS * u64::from(BLOCK),
            block_size: BLOCK,
            transfer_max: BLOCK,
            engine: Engine::Asynchronous,
            medium: Medium::Ram,
            direct: None,
            holes: 0,
            caches: 0,
            transport: None,
            server_pid: None,
            description: "a double".into(),
        }
    }

    fn epoch(&self) -> u64 {
        self.0.epoch.get()
    }

    async fn close(self) {}
}

impl Watched for Double {
    fn state(&self) -> LinkState {
        LinkState::Live
    }
}

/// A crash after enough writes.
struct Crash {
    store: Rc<Store>,
    load: Rc<Load<Double>>,
    number: u64,
    interrupt: Option<Arc<AtomicBool>>,
}

impl Disturbance for Crash {
    fn name(&self) -> String {
        "crash <1>".into()
    }

    fn length(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn loses_server(&self) -> bool {
        true
    }

    async fn begin(&self) -> Result<()> {
        while self.load.counts().writes < self.number * WRITES && !self.store.is_dead.get() {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        self.store.crash();
        if let Some(interrupt) = &self.interrupt {
            interrupt.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn end(&self) -> Result<()> {
        self.store.restart();
        Ok(())
    }
}

fn drill_of(manner: Manner, is_interrupted: bool) -> Report {
    let runtime = io::Runtime::new(io::RuntimeConfig::default()).expect("a runtime");
    runtime.block_on(async move {
        let store = Store::new(manner);
        let plan = Plan {
            blocks: BLOCKS,
            block_size: BLOCK,
            depth: 4,
            per_second: 1_000_000,
            seed: 7,
        };
        let load = Load::new(Double(store.clone()), plan, Arc::new(Timeline::new()));
        let interrupt = Arc::new(AtomicBool::new(false));
        let crash = |number| Crash {
            store: store.clone(),
            load: load.clone(),
            number,
            interrupt: is_interrupted.then(|| interrupt.clone()),
        };
        let crashes = [crash(1), crash(2), crash(3)];
        let course = Course {
            time: Duration::from_millis(10),
            recovery_max: match manner {
                Manner::StaysDead => Duration::from_millis(100),
                _ => Duration::from_secs(60),
            },
        };
        if manner == Manner::StaysDead {
            // The course waits for the answers of commands in flight: they come after the verdict.
            let store = store.clone();
            drop(io::spawn(async move {
                while !store.is_dead.get() {
                    io::time::sleep(Duration::from_millis(5)).await;
                }
                io::time::sleep(Duration::from_secs(1)).await;
                store.is_dead.set(false);
            }));
        }
        let outcome = run(&load, &crashes, course, &interrupt, |_| {}).await;
        let about = About {
            drill: "a <double>".into(),
            notes: vec!["one & two".into()],
            ..About::default()
        };
        let layers = vec![LayerFacts {
            layer: Layer::Device,
            facts: vec!["<disk>".into()],
        }];
        conclude(about, &load, outcome, layers)
    })
}

fn json(report: &Report) -> Value {
    serde_json::to_value(report).expect("JSON")
}

#[test]
fn an_honest_server_passes() {
    let report = drill_of(Manner::Honest, false);
    assert!(report.passed(), "{}", report.text());
    let json = json(&report);
    assert_eq!(json["bytes_lost"], 0);
    assert_eq!(json["read_back"], BLOCKS);
    assert_eq!(json["disturbances"].as_array().map(Vec::len), Some(3));
    assert!(json["writes"].as_u64() >= Some(3 * WRITES), "{json}");
    assert!(json["events"].as_array().is_some_and(|e| e.len() > 6));
}

#[test]
fn a_server_that_confirms_too_early_fails() {
    let report = drill_of(Manner::ConfirmsTooEarly, false);
    let text = report.text();
    assert!(
        !report.passed() && text.contains("bytes of acknowledged writes are lost"),
        "{text}"
    );
    let json = json(&report);
    assert!(json["lost_durable_blocks"].as_u64() > Some(0), "{json}");
    assert_eq!(
        json["bytes_lost"].as_u64(),
        json["lost_blocks"].as_u64().map(|n| n * 4096)
    );
}

#[test]
fn a_server_that_drops_or_misplaces_writes_fails() {
    let dropped = drill_of(Manner::DropsSome, false);
    assert!(!dropped.passed(), "{}", dropped.text());
    assert!(json(&dropped)["bytes_lost"].as_u64() > Some(0));
    let misplaced = drill_of(Manner::Misplaces, false);
    assert!(!misplaced.passed(), "{}", misplaced.text());
    assert!(json(&misplaced)["bytes_wrong"].as_u64() > Some(0));
}

#[test]
fn a_server_that_does_not_answer_or_refuses_fails() {
    let dead = drill_of(Manner::StaysDead, false);
    assert!(
        !dead.passed() && dead.text().contains("no command was answered"),
        "{}",
        dead.text()
    );
    let refusing = drill_of(Manner::Refuses, false);
    assert!(
        !refusing.passed() && refusing.text().contains("commands failed"),
        "{}",
        refusing.text()
    );
}

#[test]
fn an_interrupted_drill_does_not_pass() {
    let report = drill_of(Manner::Honest, true);
    assert!(
        !report.passed() && report.text().contains("interrupted"),
        "{}",
        report.text()
    );
}

#[test]
fn the_page_is_escaped_and_needs_nothing_from_elsewhere() {
    let page = html(&drill_of(Manner::ConfirmsTooEarly, false));
    for raw in [
        "a <double>",
        "crash <1>",
        "<disk>",
        "one & two",
        "http:",
        "https:",
        "src=",
        "url(",
    ] {
        assert!(!page.contains(raw), "{raw}");
    }
    for there in [
        "a &lt;double&gt;",
        "crash &lt;1&gt;",
        "&lt;disk&gt;",
        "<svg",
        "prefers-color-scheme",
    ] {
        assert!(page.contains(there), "{there}");
    }
}
