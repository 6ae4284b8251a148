//! Work with attributes, names and directories over NFS.
//!
//! **Owns** the loops of the client, on a shard of their own. **Called by** the table. **Invariants**: latency and processor time are
//! of operations that ended within the measured time; the first error ends a measurement.

use crate::bench::Bench;
use crate::peers::Share;
use crate::point::{Point, us};
use crate::rows::Task;
use io::linux::process_cpu_time;
use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use io::time::{Instant, now};
use io::{IoBuf, RuntimeConfig};
use lab::stats::Latency;
use lab::{Error, Result};
use nfs_initiator::{Config, FileHandle, OpenOptions, Session, Stable};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Operations in flight.
const DEPTH: u32 = 32;
/// Names that are looked up.
const NAMES: u32 = 1000;
/// The directory that is listed.
const LIST: &str = "list";

pub(super) fn failed(e: nfs_initiator::Error) -> Error {
    Error::Status(e.to_string())
}

pub(super) async fn connect(at: SocketAddr, slots: u16) -> Result<Session> {
    let config = Config {
        slots,
        ..Config::new(at)
    };
    Session::connect(config).await.map_err(failed)
}

/// Runs work on a shard of the client's processor.
async fn on_shard<T: Send + 'static, F: Future<Output = Result<T>> + 'static>(
    bench: &Bench,
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T> {
    let shard = Shard::start(ShardConfig {
        name: "names".into(),
        cpu: bench.setup.cpus.first().copied(),
        runtime: RuntimeConfig {
            spin_max: bench.setup.spin,
            ..RuntimeConfig::default()
        },
    })?;
    let (done, result) = oneshot::channel();
    shard.spawn(move || async move { done.send(work().await) })?;
    let result = result.await.ok_or(Error::Io(io::Error::Cancelled));
    shard.stop();
    result?
}

const NEW: OpenOptions = OpenOptions {
    write: true,
    create: true,
};

async fn create_empty(session: &Session, dir: &FileHandle, name: &str) -> Result<()> {
    let file = session.open(dir, name, NEW).await.map_err(failed)?;
    file.close().await.map_err(failed)
}

/// Makes the directory that is listed.
pub(super) async fn prepare(bench: &Bench, share: Share) -> Result<()> {
    let (Share { at, path }, files) = (share, bench.extent.entries);
    on_shard(bench, move || async move {
        let session = connect(at, 64).await?;
        let home = session.walk(path).await.map_err(failed)?;
        let dir = session
            .create_directory(&home, LIST)
            .await
            .map_err(failed)?;
        fan_out(DEPTH, move |slot| {
            let (session, dir) = (session.clone(), dir.clone());
            async move {
                for n in (slot..files).step_by(DEPTH as usize) {
                    create_empty(&session, &dir, &format!("a file number {n}")).await?;
                }
                Ok(())
            }
        })
        .await
    })
    .await
}

async fn fan_out<F: Future<Output = Result<()>> + 'static>(
    slots: u32,
    work: impl Fn(u32) -> F,
) -> Result<()> {
    let tasks: Vec<_> = (0..slots).map(|slot| io::spawn(work(slot))).collect();
    let mut result = Ok(());
    for task in tasks {
        let ended = task.await.unwrap_or(Err(Error::Io(io::Error::Cancelled)));
        result = result.and(ended);
    }
    result
}

/// State of a measurement that its slots share.
struct Loops {
    session: Session,
    dir: FileHandle,
    task: Task,
    data: Arc<IoBuf>,
    next: Cell<u32>,
    from: Instant,
    until: Instant,
    latency: RefCell<Latency>,
}

impl Loops {
    async fn slot(self: Rc<Self>) -> Result<()> {
        let mut at = now();
        while at < self.until {
            let n = self.next.replace(self.next.get() + 1);
            self.once(n).await?;
            let ended = now();
            if at >= self.from && ended <= self.until {
                self.latency.borrow_mut().record(ended.since(at));
            }
            at = ended;
        }
        Ok(())
    }

    async fn once(&self, n: u32) -> Result<()> {
        let s = &self.session;
        let ended = match self.task {
            Task::Attributes => s.attributes(&self.dir).await.map(drop),
            Task::Lookup => {
                let name = format!("file {}", n % NAMES);
                s.lookup(&self.dir, &name).await.map(drop)
            }
            Task::Create => self.create(n).await,
        };
        ended.map_err(failed)
    }

    async fn create(&self, n: u32) -> nfs_initiator::Result<()> {
        let name = format!("new {n}");
        let file = self.session.open(&self.dir, &name, NEW).await?;
        file.write(0, self.data.clone(), Stable::Unstable).await?;
        file.commit().await?;
        file.close().await
    }
}

/// One round of a task: operations a second, median latency, the server's processor time of an operation.
pub(super) async fn measure(
    bench: &Bench,
    (Share { at, path }, pid): (Share, u32),
    task: Task,
    round: u32,
) -> Result<Point> {
    let runtime = bench.extent.runtime;
    on_shard(bench, move || async move {
        let session = connect(at, 64).await?;
        let home = session.walk(path).await.map_err(failed)?;
        let name = format!("{task:?} {round}");
        let dir = session
            .create_directory(&home, &name)
            .await
            .map_err(failed)?;
        if task == Task::Lookup {
            for n in 0..NAMES {
                create_empty(&session, &dir, &format!("file {n}")).await?;
            }
        }
        let mut data = io::pool().alloc(4096).await;
        io::rng::fill(&mut data);
        let from = now() + runtime / 5;
        let loops = Rc::new(Loops {
            session,
            dir,
            task,
            data: Arc::new(data),
            next: Cell::new(0),
            from,
            until: from + runtime,
            latency: RefCell::default(),
        });
        let before = io::spawn(async move {
            io::time::sleep_until(from).await;
            process_cpu_time(pid)
        });
        let after = io::spawn(async move {
            io::time::sleep_until(from + runtime).await;
            process_cpu_time(pid)
        });
        fan_out(DEPTH, |_| loops.clone().slot()).await?;
        let cpu = before
            .await
            .flatten()
            .zip(after.await.flatten())
            .map(|(b, a)| a.saturating_sub(b));
        let latency = loops.latency.borrow();
        let count = latency.count().max(1) as f64;
        Ok(Point {
            rate: Some(count / runtime.as_secs_f64()),
            time_us: Some(latency.percentile(50.0) as f64 / 1e3),
            cpu_us: cpu.map(|cpu| us(cpu) / count),
            ..Point::default()
        })
    })
    .await
}

/// One listing of the large directory, with the attributes and handles that a kernel asks for.
pub(super) async fn list(bench: &Bench, (Share { at, path }, pid): (Share, u32)) -> Result<Point> {
    let files = bench.extent.entries;
    on_shard(bench, move || async move {
        let session = connect(at, 64).await?;
        let dir = session
            .walk(&format!("{path}/{LIST}"))
            .await
            .map_err(failed)?;
        let (before, start) = (process_cpu_time(pid), now());
        let (mut page, mut entries) = (None, 0);
        loop {
            let next = session.read_directory(&dir, page.as_ref()).await;
            let next = next.map_err(failed)?;
            entries += next.entries.len();
            if next.is_end {
                break;
            }
            page = Some(next);
        }
        let took = start.elapsed();
        if entries < files as usize {
            let why = format!("{entries} of {files} entries");
            return Err(Error::target(LIST, why));
        }
        let cpu = before
            .zip(process_cpu_time(pid))
            .map(|(b, a)| a.saturating_sub(b));
        Ok(Point {
            time_us: Some(us(took)),
            cpu_us: cpu.map(|cpu| us(cpu) / entries as f64),
            ..Point::default()
        })
    })
    .await
}
