//! Scenario `store`: a raw disk without a network, with power cuts and failing media.

use crate::Report;
use crate::access::Direct;
use crate::model::{Model, Violation};
use crate::workload::{Expected, Job, Profile, verify_all};
use backend::BlockBackend;
use backend::raw::{OpenError, RawDisk, RawOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, SimDisk};
use io::time::sleep;
use io::{spawn, timeout};
use pool::Placements;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Wraps the backend; tests of the checker use it to break a promise.
pub type Wrap = fn(Arc<dyn BlockBackend>) -> Arc<dyn BlockBackend>;

/// Parameters that the seed chooses.
#[derive(Debug, Clone)]
struct Plan {
    disk: DiskConfig,
    /// The end of each incarnation of the server except the last.
    lives: Vec<End>,
    jobs: u64,
    profile: Profile,
    faults: Faults,
}

#[derive(Debug, Clone, Copy)]
enum End {
    /// Power cut after this many disk steps, or when the jobs end.
    PowerCut(u64),
    /// Kill of the process after this time, or when the jobs end. The kernel keeps running.
    Kill(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Faults {
    None,
    Errors,
    Full,
    Stalls,
}

impl Plan {
    fn new(rng: &mut Prng) -> Plan {
        let block: u32 = if rng.chance(0.5) { 512 } else { 4096 };
        let blocks = 16 + rng.below(240);
        let faults = match rng.below(8) {
            0 => Faults::Errors,
            1 => Faults::Full,
            2 => Faults::Stalls,
            _ => Faults::None,
        };
        let hot = blocks / (1 + rng.below(8));
        let lives = (0..rng.below(6))
            .map(|_| {
                let longest = 1 << (4 + rng.below(7));
                match rng.below(4) {
                    0 => End::Kill(Duration::from_micros(10 * rng.below(longest))),
                    _ => End::PowerCut(rng.below(longest)),
                }
            })
            .collect();
        let disk = DiskConfig {
            size: blocks * u64::from(block),
            logical_block: block,
            physical_block: 4096,
            atomic_unit: block,
            volatile_cache: rng.chance(0.9),
            ..DiskConfig::default()
        };
        let profile = Profile {
            requests: 5 + rng.below(80) as u32,
            blocks_max: 1 + rng.below(64),
            hot: 0..hot.max(1),
            pause: Duration::from_micros(rng.below(500)),
            fused_max: 4,
            zeroes: true,
            whole: false,
            reserves_space: false,
            latency_max: None,
            expected: Expected {
                media: faults == Faults::Errors,
                no_space: faults == Faults::Full,
                gone: false,
            },
        };
        Plan {
            disk,
            lives,
            jobs: 1 + rng.below(8),
            profile,
            faults,
        }
    }

    fn break_disk(&self, disk: SimDisk, rng: &mut Prng) {
        match self.faults {
            Faults::None => {}
            Faults::Errors => {
                disk.error_rates(
                    rng.below(30) as f64 / 100.0,
                    rng.below(30) as f64 / 100.0,
                    0.1,
                );
            }
            Faults::Full => disk.set_space(Some(rng.below(self.disk.size))),
            Faults::Stalls => disk.stall_next(Duration::from_secs(30)),
        }
    }
}

/// Runs one seed inside the present simulation. Fails with the violation.
pub async fn run(seed: u64, wrap: Wrap) -> Result<Report, Violation> {
    let mut rng = Prng::new(seed ^ 0x5704_e000);
    let plan = Plan::new(&mut rng);
    let node = Node::new();
    let disk = node.create_disk("disk", plan.disk.clone());
    let blocks = plan.disk.size / u64::from(plan.disk.logical_block);
    let model = Rc::new(RefCell::new(Model::new(plan.disk.logical_block, blocks)));
    let mut crashes = 0;
    for life in 0..=plan.lives.len() {
        let end = plan.lives.get(life).copied();
        if let Some(End::PowerCut(steps)) = end {
            node.power_cut_after(steps);
        }
        plan.break_disk(disk, &mut rng);
        let work = node.spawn(live(plan.clone(), model.clone(), rng.u64(), wrap));
        match end {
            Some(End::Kill(after)) => drop(timeout(after, work).await),
            _ => drop(work.await),
        }
        match end {
            Some(End::PowerCut(_)) => {
                if node.is_on() {
                    node.power_cut();
                }
                crashes += 1;
                model.borrow_mut().crash();
                node.power_on();
            }
            // Also after the last incarnation: ends operations that the backend still has in flight.
            Some(End::Kill(_)) | None => {
                node.kill();
            }
        }
        if let Some(v) = model.borrow().violation() {
            return Err(v.clone());
        }
    }
    disk.heal();
    let (m, size) = (model.clone(), plan.disk.logical_block);
    let check =
        node.spawn(async move { verify_all(&Direct(open(size, wrap).await), &m, 64).await });
    check.await;
    let model = model.borrow();
    match model.violation() {
        Some(v) => Err(v.clone()),
        None => Ok(Report {
            answered: model.answered,
            crashes,
            placements: Placements::default(),
        }),
    }
}

/// Opens the disk of this machine.
pub(crate) async fn open(block_size: u32, wrap: Wrap) -> Arc<dyn BlockBackend> {
    let options = RawOptions {
        block_size: Some(block_size),
        ..RawOptions::default()
    };
    loop {
        match RawDisk::open("disk", options.clone()).await {
            Ok(raw) => return wrap(Arc::new(raw)),
            // Requests of a killed process still hold the disk.
            Err(OpenError::Io(io::Error::Busy(_))) => sleep(Duration::from_millis(1)).await,
            Err(e) => panic!("a disk that is there opens: {e}"),
        }
    }
}

/// One incarnation of the server: reads the whole disk, then runs its jobs until they end or the power is cut.
async fn live(plan: Plan, model: Rc<RefCell<Model>>, seed: u64, wrap: Wrap) {
    let access = Direct(open(plan.disk.logical_block, wrap).await);
    if plan.faults != Faults::Errors {
        verify_all(&access, &model, 16).await;
    }
    let jobs: Vec<_> = (0..plan.jobs)
        .map(|i| {
            spawn(
                Job::new(
                    access.clone(),
                    model.clone(),
                    seed.wrapping_add(i),
                    plan.profile.clone(),
                )
                .run(),
            )
        })
        .collect();
    for job in jobs {
        job.await;
    }
}
