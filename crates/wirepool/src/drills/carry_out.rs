//! One drill from its scratch volume to its report.
//!
//! **Owns** the order: scratch volume, observer, relay, load, disturbances, removal, report. **Called by** the kinds of drill.
//! **Invariants**: the scratch volume is removed also after an error or an interruption; a volume that cannot be removed is an error that
//! names it.

use super::ground::Ground;
use super::observer::Observer;
use super::scratch::{NewScratch, SPACE, Scratch};
use crate::cli::drill::Common;
use anyhow::Result;
use drill::{
    About, Client, Course, Disturbance, Layer, LayerFacts, Load, Outcome, Plan, Relay, Report,
    Timeline, conclude,
};
use io::{Runtime, RuntimeConfig};
use server::ByteSize;
use server::api::VolumeSync;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes of a block of the load.
const BLOCK: u32 = 4096;
/// Commands in flight.
const DEPTH: u32 = 8;
/// Longest wait for an answer after a disturbance.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// A kind of drill, with its options.
pub(super) struct Exercise<'a> {
    /// Its name.
    pub(super) kind: &'static str,
    /// Name of the scratch volume below the pool; by default a reserved one.
    pub(super) volume: Option<&'a str>,
    pub(super) sync: Option<VolumeSync>,
    pub(super) common: &'a Common,
    /// Further facts that limit the meaning of the result.
    pub(super) notes: Vec<String>,
    /// Set by Ctrl-C.
    pub(super) interrupt: Arc<AtomicBool>,
}

/// Parts of a drill that its disturbances act on.
pub(super) struct Means {
    pub(super) relay: Rc<Relay>,
    pub(super) timeline: Arc<Timeline>,
    /// The scratch volume.
    pub(super) volume: String,
}

/// Bytes that a scratch volume of this size may take.
pub(super) fn quota(size: ByteSize) -> ByteSize {
    ByteSize(size.0 * SPACE)
}

/// Carries out a drill. `disturbances` makes its disturbances.
pub(super) fn carry_out<D: Disturbance + 'static>(
    exercise: Exercise<'_>,
    ground: &Ground,
    disturbances: impl FnOnce(Means) -> Vec<D> + 'static,
) -> Result<Report> {
    let common = exercise.common;
    let new = NewScratch {
        pool: ground.pool(),
        name: exercise.volume,
        size: common.size,
        quota: quota(common.size),
        sync: exercise.sync,
    };
    let scratch = Scratch::make(ground.client(), &new)?;
    let result = with_volume(exercise, ground, &scratch, disturbances);
    let removed = scratch.remove();
    let report = result?;
    removed?;
    Ok(report)
}

fn with_volume<D: Disturbance + 'static>(
    exercise: Exercise<'_>,
    ground: &Ground,
    scratch: &Scratch,
    disturbances: impl FnOnce(Means) -> Vec<D> + 'static,
) -> Result<Report> {
    let (mark, common) = (scratch.mark(), exercise.common);
    let timeline = Arc::new(Timeline::new());
    let observer = Observer::start(ground.client(), ground.pool(), mark, timeline.clone())?;
    let about = About {
        drill: exercise.kind.to_owned(),
        object: format!(
            "volume {} ({}) on {}",
            scratch.volume(),
            common.size.human(),
            ground.server()
        ),
        path: ground.path(mark),
        load: format!(
            "{DEPTH} commands of {BLOCK} bytes in flight, at most {} per second, every block checked",
            common.rate
        ),
        notes: [vec![ground.note().to_owned()], exercise.notes].concat(),
    };
    let attempt = Attempt {
        size: common.size,
        rate: common.rate,
        volume: scratch.volume().to_owned(),
        course: Course {
            time: common.time,
            recovery_max: RECOVERY_MAX,
        },
        client: Client {
            at: ground.nvme(),
            nqn: mark.subsystem(),
            nsid: 1,
            host_nqn: mark.host(),
        },
        interrupt: exercise.interrupt,
        timeline,
    };
    let own = ground.own_server().cloned();
    let runtime = Runtime::new(RuntimeConfig {
        spin_max: Duration::ZERO,
        ..RuntimeConfig::default()
    })?;
    let finished = Rc::new(RefCell::new(Some(observer)));
    let observer = finished.clone();
    let report = runtime.block_on(async move {
        attempt
            .run(disturbances, about, move || {
                let mut layers = Vec::new();
                if let Some(own) = own {
                    layers.push(LayerFacts {
                        layer: Layer::Server,
                        facts: own.borrow().facts(),
                    });
                }
                let observer = observer.borrow_mut().take();
                layers.extend(observer.into_iter().flat_map(Observer::finish));
                layers
            })
            .await
    });
    // Still there if the load could not be started.
    if let Some(observer) = finished.borrow_mut().take() {
        observer.finish();
    }
    report
}

/// Called on the runtime, which has the randomness.
fn plan(size: ByteSize, rate: u32) -> Plan {
    Plan {
        blocks: size.0 / u64::from(BLOCK),
        block_size: BLOCK,
        depth: DEPTH,
        per_second: rate,
        seed: io::rng::u64(),
    }
}

/// The part of a drill that runs on the runtime.
struct Attempt {
    size: ByteSize,
    rate: u32,
    volume: String,
    course: Course,
    /// The server; the relay's address takes its place.
    client: Client,
    interrupt: Arc<AtomicBool>,
    timeline: Arc<Timeline>,
}

impl Attempt {
    async fn run<D: Disturbance>(
        self,
        disturbances: impl FnOnce(Means) -> Vec<D>,
        about: About,
        observations: impl FnOnce() -> Vec<LayerFacts>,
    ) -> Result<Report> {
        let timeline = self.timeline;
        let relay = Rc::new(Relay::start(self.client.at, timeline.clone())?);
        let client = Client {
            at: relay.address(),
            ..self.client
        };
        let session = drill::connect(&client, DEPTH).await?;
        let load = Load::new(session, plan(self.size, self.rate), timeline.clone());
        let disturbances = disturbances(Means {
            relay: relay.clone(),
            timeline: timeline.clone(),
            volume: self.volume,
        });
        let progress = |text: &str| eprintln!("[{:6.1} s] {text}", timeline.now().as_secs_f64());
        let outcome =
            drill::run(&load, &disturbances, self.course, &self.interrupt, progress).await;
        let mut layers = client_facts(&relay, &outcome);
        layers.extend(observations());
        let report = conclude(about, &load, outcome, layers);
        load.close().await;
        Ok(report)
    }
}

fn client_facts(relay: &Relay, outcome: &Outcome) -> Vec<LayerFacts> {
    let reconnected = outcome.ended.iter().filter(|e| e.reconnected).count();
    let traffic = relay.traffic();
    vec![
        LayerFacts {
            layer: Layer::Initiator,
            facts: vec![
                Client::patience(),
                format!(
                    "{reconnected} of {} disturbances made it reconnect; it repeated unanswered commands by itself",
                    outcome.ended.len()
                ),
            ],
        },
        LayerFacts {
            layer: Layer::Cable,
            facts: vec![format!(
                "{} connections, {} cut, {} refused; {} bytes to the server, {} bytes from it",
                traffic.connections,
                traffic.cut,
                traffic.refused,
                traffic.bytes_to_server,
                traffic.bytes_from_server
            )],
        },
    ]
}
