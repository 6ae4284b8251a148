//! Load on a raw file or on a volume, from this thread.
//!
//! **Invariants**: the same loop drives both on the same ring as the pool, so that the ratio depends only on the
//! pool; acknowledged writes are made durable within the measured time.

use crate::point::{Point, Sample, sample, us};
use crate::rows::{Act, BLOCK, LARGE};
use backend::{BlockBackend, Extent, Lba};
use io::disk::Disk;
use io::linux::process_cpu_time;
use io::rng::Prng;
use io::sync::Semaphore;
use io::time::{Instant, now};
use lab::stats::process::Usage;
use lab::{Error, Result};
use pool::Volume;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Columns: the comparison, and the volume.
pub(super) const OTHER: usize = 0;
pub(super) const OURS: usize = 1;
/// The volume's measurement, with a remark.
pub(super) fn ours(remark: String, point: Point) -> Sample {
    Sample {
        way: remark,
        ..sample(OURS, point)
    }
}

/// Depth of the asynchronous writes that are compared with other files.
pub(super) const DEPTH: u64 = 32;

/// Interval at which a running load is polled.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The measured target.
#[derive(Clone)]
pub(super) enum Target {
    Raw(Disk),
    Volume(Volume),
}

impl Act {
    /// Each method to make a raw file's writes durable, with its name; a volume is compared with the fastest.
    pub(super) const DURABLE: [(Act, &'static str); 3] = [
        (Act::SyncWrite, "a flush for each"),
        (Act::WriteThrough, "O_DSYNC"),
        (Act::GroupedWrite, "one flush for all that wait"),
    ];
}

/// Flushes that each cover all writes that ended before they begin; one is in flight at a time.
struct GroupFlush {
    turn: Semaphore,
    begun: Cell<u64>,
    ended: Cell<u64>,
}

impl GroupFlush {
    fn new() -> Self {
        Self {
            turn: Semaphore::new(1),
            begun: Cell::new(0),
            ended: Cell::new(0),
        }
    }

    /// Waits until a flush that began after this call has ended.
    async fn wait(&self, target: &Target) -> Result<()> {
        let mine = self.begun.get() + 1;
        let _turn = self.turn.acquire(1).await;
        if self.ended.get() < mine {
            let number = self.begun.get() + 1;
            self.begun.set(number);
            target.make_durable().await?;
            self.ended.set(number);
        }
        Ok(())
    }
}

/// The load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) act: Act,
    /// Bytes of each request.
    pub(super) bytes: u64,
    pub(super) depth: u64,
    pub(super) is_sequential: bool,
    /// Bytes of the target that are used.
    pub(super) region: u64,
    /// Approximate number of requests after which the load ends.
    pub(super) most: u64,
}

impl Plan {
    /// Random requests of 4 KiB.
    pub(super) fn small(act: Act, depth: u64, region: u64) -> Self {
        Self {
            act,
            bytes: BLOCK,
            depth,
            is_sequential: false,
            region,
            most: u64::MAX,
        }
    }
}

/// State of the requests in flight.
struct InFlight {
    next: Cell<u64>,
    done: Cell<u64>,
    slowest: Cell<Duration>,
    stop: Cell<bool>,
    flushes: GroupFlush,
    failed: RefCell<Option<Error>>,
}

/// A load that runs until it is ended.
pub(super) struct Running {
    target: Target,
    plan: Plan,
    state: Rc<InFlight>,
    begun: Instant,
    before: (Duration, Option<u64>),
    jobs: Vec<io::JoinHandle<()>>,
}

fn said(e: backend::StorageError) -> Error {
    Error::Status(e.to_string())
}

/// Processor time, and bytes that devices wrote.
fn spent() -> (Duration, Option<u64>) {
    let me = std::process::id();
    let written = Usage::of(me).and_then(|u| u.device).map(|d| d.written);
    (process_cpu_time(me).unwrap_or_default(), written)
}

impl Target {
    /// One request.
    pub(super) async fn act(&self, act: Act, at: u64, bytes: u64, rng: &mut Prng) -> Result<()> {
        let (start, blocks) = (Lba(at / BLOCK), bytes / BLOCK);
        let mut buf = match (self, act) {
            (Target::Volume(volume), Act::Read) => {
                volume.read(Extent { start, blocks }).await.map_err(said)?;
                return Ok(());
            }
            _ => io::pool().alloc(bytes as usize).await,
        };
        if let (Target::Raw(disk), Act::Read) = (self, act) {
            return Ok(disk.read(buf, at).await.0?);
        }
        // the old contents, with every block made different
        for block in buf.chunks_mut(BLOCK as usize) {
            block[..8].copy_from_slice(&rng.u64().to_le_bytes());
        }
        match self {
            Target::Raw(disk) if act == Act::WriteThrough => {
                let _durable = disk.write_through(buf, at).await?;
            }
            Target::Raw(disk) => {
                disk.write(buf, at).await?;
                if act == Act::SyncWrite {
                    let _flushed = disk.flush().await?;
                }
            }
            Target::Volume(volume) if act == Act::SyncWrite => {
                let _durable = volume.write_durable(start, buf).await.map_err(said)?;
            }
            Target::Volume(volume) => volume.write(start, buf).await.map_err(said)?,
        }
        Ok(())
    }

    /// Makes all writes durable.
    pub(super) async fn make_durable(&self) -> Result<()> {
        match self {
            Target::Raw(disk) => drop(disk.flush().await?),
            Target::Volume(volume) => drop(volume.flush().await.map_err(said)?),
        }
        Ok(())
    }

    /// Writes the first `size` bytes with incompressible data.
    pub(super) async fn fill(&self, size: u64) -> Result<()> {
        let mut rng = Prng::new(7);
        let mut noise = vec![0; LARGE as usize];
        for at in (0..size).step_by(LARGE as usize) {
            rng.fill(&mut noise);
            let mut buf = io::pool().alloc(noise.len()).await;
            buf.copy_from_slice(&noise);
            match self {
                Target::Raw(disk) => disk.write(buf, at).await?,
                Target::Volume(volume) => {
                    volume.write(Lba(at / BLOCK), buf).await.map_err(said)?;
                }
            }
        }
        self.make_durable().await
    }

    /// Starts `plan`.
    pub(super) fn begin(&self, plan: Plan, seed: u64) -> Running {
        let state = Rc::new(InFlight {
            next: Cell::new(0),
            done: Cell::new(0),
            slowest: Cell::new(Duration::ZERO),
            stop: Cell::new(false),
            flushes: GroupFlush::new(),
            failed: RefCell::new(None),
        });
        let (begun, before) = (now(), spent());
        let jobs = (0..plan.depth).map(|job| {
            let (this, state) = (self.clone(), state.clone());
            io::spawn(async move {
                let mut rng = Prng::new(seed + job);
                while !state.stop.get() && state.done.get() < plan.most {
                    if let Err(e) = this.request(plan, &state, &mut rng).await {
                        state.failed.borrow_mut().get_or_insert(e);
                        state.stop.set(true);
                    }
                }
            })
        });
        Running {
            jobs: jobs.collect(),
            target: self.clone(),
            plan,
            state,
            begun,
            before,
        }
    }

    async fn request(&self, plan: Plan, state: &InFlight, rng: &mut Prng) -> Result<()> {
        let places = plan.region / plan.bytes;
        let place = match plan.is_sequential {
            true => state.next.replace(state.next.get() + 1) % places,
            false => rng.below(places),
        };
        let begun = now();
        self.act(plan.act, place * plan.bytes, plan.bytes, rng)
            .await?;
        if plan.act == Act::GroupedWrite {
            state.flushes.wait(self).await?;
        }
        state.slowest.set(state.slowest.get().max(begun.elapsed()));
        state.done.set(state.done.get() + 1);
        // a request that memory accepts does not wait
        io::yield_now().await;
        Ok(())
    }

    /// Visits each place of `plan`'s region once, in order.
    pub(super) async fn pass(&self, plan: Plan) -> Result<()> {
        let mut rng = Prng::new(1);
        for at in (0..plan.region).step_by(plan.bytes as usize) {
            self.act(plan.act, at, plan.bytes, &mut rng).await?;
        }
        Ok(())
    }

    /// Runs `plan` for `time`.
    pub(super) async fn measure(&self, plan: Plan, time: Duration, seed: u64) -> Result<Point> {
        let running = self.begin(plan, seed);
        let until = now() + time;
        while now() < until && running.state.done.get() < plan.most {
            io::time::sleep(LOOK_EVERY.min(time)).await;
        }
        running.end().await
    }
}

impl Running {
    /// Ends the load. Errors: those of its requests.
    pub(super) async fn end(self) -> Result<Point> {
        self.state.stop.set(true);
        for job in self.jobs {
            job.await;
        }
        if let Some(e) = self.state.failed.take() {
            return Err(e);
        }
        if self.plan.act == Act::Write {
            self.target.make_durable().await?;
        }
        let done = self.state.done.get() as f64;
        let ((cpu, written), (cpu_before, written_before)) = (spent(), self.before);
        let bytes = done * self.plan.bytes as f64;
        let seconds = self.begun.elapsed().as_secs_f64();
        let written = written
            .zip(written_before)
            .filter(|_| self.plan.act != Act::Read);
        Ok(Point {
            rate: Some(done / seconds),
            bytes_per_s: Some(bytes / seconds),
            cpu_us: Some(us(cpu.saturating_sub(cpu_before)) / done.max(1.0)),
            written: written.map(|(now, then)| (now - then) as f64 / bytes.max(1.0)),
            slowest_us: Some(us(self.state.slowest.get())),
            ..Point::default()
        })
    }
}
