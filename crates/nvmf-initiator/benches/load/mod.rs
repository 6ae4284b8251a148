//! Load of the benches: reads and writes of a namespace through the initiator, and one line of results for each kind.
//!
//! **Owns** the lines, the jobs and the arguments of the command: seconds per line (1), and a part of a line's name to select
//! lines. **Called by** the benches of this folder, which start the measured end.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::{Runtime, RuntimeConfig};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::pdu::Digests;
use nvmf_initiator::{Config, Controller, Namespace, Offer, WriteOptions};

/// Bytes of a block of the namespace.
pub(crate) const BLOCK: u32 = 4096;
/// Bytes of the namespace that are read and written.
pub(crate) const REGION: u64 = 1 << 30;

/// The name of the subsystem.
pub(crate) fn subsystem() -> Nqn {
    nqn("nqn.2026-11.bench:disk")
}

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).expect("valid")
}

/// The measured end of the connections.
pub(crate) struct Bench<C> {
    /// Its address.
    pub(crate) addr: SocketAddr,
    /// The client's runtime.
    pub(crate) client: RuntimeConfig,
    /// Whose processor time is measured, such as `target CPU`.
    pub(crate) label: &'static str,
    /// The processor time of the measured thread up to now.
    pub(crate) cpu: C,
}

/// Commands of one kind.
pub(crate) struct Line {
    name: &'static str,
    write: bool,
    /// Bytes of a command.
    len: usize,
    depth: usize,
    digests: bool,
}

impl Line {
    pub(crate) const fn new(
        name: &'static str,
        write: bool,
        len: usize,
        depth: usize,
        digests: bool,
    ) -> Self {
        Self {
            name,
            write,
            len,
            depth,
            digests,
        }
    }
}

/// The lines that all benches measure.
pub(crate) const LINES: [Line; 8] = [
    Line::new("read 4K QD1", false, 4096, 1, false),
    Line::new("read 4K QD32", false, 4096, 32, false),
    Line::new("read 4K QD128", false, 4096, 128, false),
    Line::new("read 4K QD32 digests", false, 4096, 32, true),
    Line::new("write 4K QD1", true, 4096, 1, false),
    Line::new("write 4K QD32", true, 4096, 32, false),
    Line::new("read 128K QD8", false, 128 << 10, 8, false),
    Line::new("write 128K QD8", true, 128 << 10, 8, false),
];

impl<C: Fn() -> Duration + 'static> Bench<C> {
    /// Measures the lines that the arguments of the command select, and prints a line of results for each.
    pub(crate) fn run(self, lines: Vec<Line>) {
        let arguments: Vec<String> = std::env::args()
            .skip(1)
            .filter(|arg| !arg.starts_with("--"))
            .collect();
        let seconds = arguments.iter().find_map(|arg| arg.parse().ok());
        let runtime = Duration::from_secs_f64(seconds.unwrap_or(1.0));
        let mut words = arguments.into_iter();
        let wanted = words.find(|arg| arg.parse::<f64>().is_err());
        let wanted = wanted.unwrap_or_default();
        let client = Runtime::new(self.client).expect("io_uring is there");
        client.block_on(async move {
            for line in lines.iter().filter(|line| line.name.contains(&wanted)) {
                self.measure(line, runtime).await;
            }
        });
    }

    async fn measure(&self, line: &Line, runtime: Duration) {
        let digests = Digests {
            header: line.digests,
            data: line.digests,
        };
        let host = nqn("nqn.2026-11.bench:host");
        let config = Config {
            offer: Offer {
                digests,
                ..Offer::default()
            },
            queue_depth: 256,
            ..Config::new(self.addr, subsystem(), host, HostId([1; 16]))
        };
        let controller = Controller::connect(config).await.expect("connect");
        let namespace = Rc::new(controller.namespace(Nsid(1)).await.expect("namespace"));
        let stop = Rc::new(Cell::new(false));
        let (start, cpu) = (io::time::now(), (self.cpu)());
        let jobs: Vec<_> = (0..line.depth)
            .map(|i| {
                io::spawn(job(
                    namespace.clone(),
                    line.write,
                    line.len,
                    i as u64,
                    stop.clone(),
                ))
            })
            .collect();
        io::time::sleep(runtime).await;
        stop.set(true);
        let mut done = 0u64;
        for job in jobs {
            done += job.await.expect("not killed");
        }
        let (wall, cpu) = (
            start.elapsed().as_secs_f64(),
            ((self.cpu)() - cpu).as_secs_f64(),
        );
        println!(
            "{:<24} {:>9.0} IOPS {:>8.2} us each {:>7.2} us {} each {:>8.0} MiB/s",
            line.name,
            done as f64 / wall,
            wall * 1e6 * line.depth as f64 / done as f64,
            cpu * 1e6 / done as f64,
            self.label,
            done as f64 * line.len as f64 / wall / 1048576.0,
        );
        controller.shutdown().await;
    }
}

async fn job(ns: Rc<Namespace>, write: bool, len: usize, seed: u64, stop: Rc<Cell<bool>>) -> u64 {
    let mut buf = io::pool().alloc(len).await;
    let data = Arc::new(io::pool().alloc(len).await);
    let mut rng = io::rng::Prng::new(seed);
    let blocks = len as u64 / u64::from(BLOCK);
    let mut done = 0;
    while !stop.get() {
        let slba = rng.below(REGION / len as u64) * blocks;
        if write {
            ns.write(slba, data.clone(), WriteOptions::default())
                .await
                .expect("write");
        } else {
            let (result, back) = ns.read(slba, buf).await;
            result.expect("read");
            buf = back;
        }
        done += 1;
    }
    done
}
