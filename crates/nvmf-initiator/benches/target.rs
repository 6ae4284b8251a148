//! Processor time of the target: reads and writes of a RAM disk, the target on a thread of its own.
//!
//! Arguments: those of [`load`]. Prints commands per second and the target's CPU per command, everything in its thread
//! included: kernel, runtime, target, copy.

mod load;

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use io::RuntimeConfig;
use io::net::TcpListener;
use io::runtime::{Shard, ShardConfig};
use load::{BLOCK, Bench, LINES, Line, REGION, subsystem};
use nvmf::controller::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, SubsystemConfig, Target,
    TargetConfig, Transports,
};

/// Bytes of buffers of each end.
const BUFFER_LIMIT: usize = 64 << 20;

fn runtime() -> RuntimeConfig {
    RuntimeConfig {
        buffer_limit: BUFFER_LIMIT,
        ..RuntimeConfig::default()
    }
}

/// Starts the target's thread. Returns its address.
fn start_target() -> (Shard, SocketAddr) {
    let shard = Shard::start(ShardConfig {
        name: "target".into(),
        cpu: None,
        runtime: runtime(),
    })
    .expect("io_uring is there");
    let target = Target::new(TargetConfig::default());
    let config = SubsystemConfig {
        nqn: subsystem(),
        serial: "BENCH".into(),
        model: "bench".into(),
        hosts: HostPolicy::Any,
        transports: Transports::ALL,
    };
    let disk = backend::memory::MemoryDisk::new(REGION, BLOCK).expect("a RAM disk");
    let namespace = NamespaceConfig {
        nsid: 1,
        uuid: uuid::Uuid::from_u128(1),
        backend: Arc::new(disk),
        reservations: Arc::new(NoReservationStore),
    };
    target.add_subsystem(config).expect("new");
    target.add_namespace(&subsystem(), namespace).expect("new");
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

fn main() {
    let (shard, addr) = start_target();
    // The first line fills the disk, so that reads find pages of their own.
    let fill = Line::new("fill 128K QD8", true, 128 << 10, 8, false);
    let lines = std::iter::once(fill).chain(LINES).collect();
    let target = shard.clone();
    let bench = Bench {
        addr,
        client: runtime(),
        label: "target CPU",
        cpu: move || cpu_of(&target),
    };
    bench.run(lines);
    shard.stop();
}
