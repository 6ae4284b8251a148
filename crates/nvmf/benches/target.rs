//! Processor time of the target: reads and writes of a RAM disk, the target on a thread of its own.
//!
//! Arguments: seconds per line (1), and part of a line's name to choose lines. Prints commands per second and the
//! target's CPU per command, everything in its thread included: kernel, runtime, target, copy.

use io::net::TcpListener;
use io::runtime::{Shard, ShardConfig};
use io::{Runtime, RuntimeConfig};
use nvmf::controller::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, SubsystemConfig, Target,
    TargetConfig,
};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::pdu::Digests;
use nvmf_initiator::{Config, Controller, Namespace, Offer, WriteOptions};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const DISK: u64 = 1 << 30;
const BLOCK: u32 = 4096;

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).expect("valid")
}

fn start_target() -> (Shard, SocketAddr) {
    let runtime = RuntimeConfig {
        buffer_limit: 64 << 20,
        ..RuntimeConfig::default()
    };
    let shard = Shard::start(ShardConfig {
        name: "target".into(),
        cpu: None,
        runtime,
    })
    .expect("io_uring is there");
    let target = Target::new(TargetConfig::default());
    let subsystem = SubsystemConfig {
        nqn: nqn("nqn.2026-11.bench:disk"),
        serial: "BENCH".into(),
        model: "bench".into(),
        hosts: HostPolicy::Any,
    };
    let disk = backend::memory::MemoryDisk::new(DISK, BLOCK).expect("a RAM disk");
    let namespace = NamespaceConfig {
        nsid: 1,
        uuid: uuid::Uuid::from_u128(1),
        backend: Arc::new(disk),
        reservations: Arc::new(NoReservationStore),
    };
    target.add_subsystem(subsystem).expect("new");
    target
        .add_namespace(&nqn("nqn.2026-11.bench:disk"), namespace)
        .expect("new");
    let (tx, rx) = mpsc::channel();
    let serve = move || async move {
        let listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
        tx.send(listener.local_addr()).expect("main waits");
        while let Ok(stream) = listener.accept().await {
            let target = target.clone();
            drop(io::spawn(async move {
                target.serve(stream, PortRole::Io).await
            }));
        }
    };
    shard.spawn(serve).expect("the shard lives");
    (shard, rx.recv().expect("an address"))
}

fn cpu_of(shard: &Shard) -> Duration {
    let (tx, rx) = mpsc::channel();
    shard
        .spawn(move || async move { tx.send(io::linux::thread_cpu_time()).expect("main waits") })
        .expect("the shard lives");
    rx.recv().expect("a time")
}

struct Line {
    name: &'static str,
    write: bool,
    len: usize,
    depth: usize,
    digests: bool,
}

async fn measure(addr: SocketAddr, line: &Line, runtime: Duration, target: &Shard) {
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
        ..Config::new(addr, nqn("nqn.2026-11.bench:disk"), host, HostId([1; 16]))
    };
    let controller = Controller::connect(config).await.expect("connect");
    let namespace = Rc::new(controller.namespace(Nsid(1)).await.expect("namespace"));
    let stop = Rc::new(Cell::new(false));
    let (start, cpu) = (io::time::now(), cpu_of(target));
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
        (cpu_of(target) - cpu).as_secs_f64(),
    );
    println!(
        "{:<24} {:>9.0} IOPS {:>8.2} us each {:>7.2} us target CPU each {:>8.0} MiB/s",
        line.name,
        done as f64 / wall,
        wall * 1e6 * line.depth as f64 / done as f64,
        cpu * 1e6 / done as f64,
        done as f64 * line.len as f64 / wall / 1048576.0,
    );
    controller.shutdown().await;
}

async fn job(ns: Rc<Namespace>, write: bool, len: usize, seed: u64, stop: Rc<Cell<bool>>) -> u64 {
    let mut buf = io::pool().alloc(len).await;
    let data = Arc::new(io::pool().alloc(len).await);
    let mut rng = io::rng::Prng::new(seed);
    let blocks = len as u64 / u64::from(BLOCK);
    let mut done = 0;
    while !stop.get() {
        let slba = rng.below(DISK / len as u64) * blocks;
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

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let seconds: f64 = arguments
        .iter()
        .find_map(|arg| arg.parse().ok())
        .unwrap_or(1.0);
    let wanted = arguments
        .into_iter()
        .find(|arg| arg.parse::<f64>().is_err())
        .unwrap_or_default();
    let line = |name, write, len, depth, digests| Line {
        name,
        write,
        len,
        depth,
        digests,
    };
    let lines = [
        // The first line fills the disk, so that reads find pages of their own.
        line("fill 128K QD8", true, 128 << 10, 8, false),
        line("read 4K QD1", false, 4096, 1, false),
        line("read 4K QD32", false, 4096, 32, false),
        line("read 4K QD128", false, 4096, 128, false),
        line("read 4K QD32 digests", false, 4096, 32, true),
        line("write 4K QD1", true, 4096, 1, false),
        line("write 4K QD32", true, 4096, 32, false),
        line("read 128K QD8", false, 128 << 10, 8, false),
        line("write 128K QD8", true, 128 << 10, 8, false),
    ];
    let (shard, addr) = start_target();
    let target = shard.clone();
    let client = Runtime::new(RuntimeConfig {
        buffer_limit: 64 << 20,
        ..RuntimeConfig::default()
    });
    client.expect("io_uring is there").block_on(async move {
        for line in lines
            .iter()
            .filter(|line| line.name.contains(wanted.as_str()))
        {
            measure(addr, line, Duration::from_secs_f64(seconds), &target).await;
        }
    });
    shard.stop();
}
