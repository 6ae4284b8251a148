//! The time of commands by stage, over disks and networks with known times.

use std::sync::Arc;
use std::time::Duration;

use backend::raw::{RawDisk, RawOptions};
use io::sim::{DiskConfig, Latency, Node};
use io::stage::Stage;
use nvmf::controller::{CommandKind, NamespaceConfig, NoReservationStore, Target, TargetConfig};
use nvmf_initiator::WriteOptions;
use session::stages::KindStages;

use crate::pair::{config, connect, nqn, pattern, read, run_simulated, serve, subsystem};

/// Time of each operation of the disk.
const DISK: Duration = Duration::from_micros(300);
/// More than the commands' own data, so that the host sends it when it is asked for.
const LONG: usize = 256 << 10;
const COMMANDS: u64 = 20;

/// A server with a disk whose operations all take [`DISK`].
async fn slow_target(node: Node) -> Target {
    let latency = Latency {
        base: DISK,
        jitter: Duration::ZERO,
        tail_chance: 0.0,
        tail: Duration::ZERO,
    };
    let disk = DiskConfig {
        latency,
        read_latency: None,
        flush_latency: None,
        size: 64 << 20,
        short: 0.0,
        ..DiskConfig::default()
    };
    node.create_disk("slow", disk);
    let disk = RawDisk::open("slow", RawOptions::default()).await;
    let namespace = NamespaceConfig {
        nsid: 1,
        uuid: uuid::Uuid::from_u128(1),
        backend: Arc::new(disk.expect("the disk is there")),
        reservations: Arc::new(NoReservationStore),
    };
    let target = Target::new(TargetConfig::default());
    target.add_subsystem(subsystem("disk")).expect("a new name");
    let added = target.add_namespace(&nqn("disk"), namespace);
    added.expect("a new ID");
    target
}

fn mean_us(kind: &KindStages, stage: Stage) -> u64 {
    let times = kind.stages.iter().find(|(s, _)| *s == stage);
    times.map_or(0, |(_, times)| times.sum / kind.requests / 1000)
}

#[test]
fn the_stages_of_a_command_add_up_to_its_time() {
    run_simulated(|| async {
        let node = Node::new();
        let work = node.spawn(async move {
            let target = slow_target(node).await;
            let (controller, ns) = connect(config(serve(&target))).await;
            let began = io::time::now();
            for at in 0..COMMANDS {
                let data = pattern(LONG, at).await;
                let written = ns.write(at * 64, data, WriteOptions { fua: false }).await;
                written.expect("write");
            }
            let writing = began.elapsed();
            for at in 0..COMMANDS {
                read(&ns, at * 64, 4096).await;
            }
            ns.flush().await.expect("flush");
            // The counts of a turn are published at its end.
            io::time::sleep(Duration::from_millis(10)).await;
            let [(name, counters)] = &target.stages()[..] else {
                panic!("there is one subsystem");
            };
            assert_eq!(*name, nqn("disk"));
            let kinds = counters.read();
            let of = |kind| kinds.iter().find(|k| k.kind == kind).expect("it was used");
            let (reads, writes) = (of(CommandKind::Read), of(CommandKind::Write));
            assert_eq!((reads.requests, writes.requests), (COMMANDS, COMMANDS));
            let disk = DISK.as_micros() as u64;
            assert_eq!(mean_us(reads, Stage::Device), disk);
            assert_eq!(mean_us(writes, Stage::Device), disk);
            assert_eq!(mean_us(of(CommandKind::Flush), Stage::Flush), disk);
            assert!(
                mean_us(writes, Stage::Receive) > 0,
                "the data came after the command"
            );
            let sum = |kind: &KindStages| -> u64 {
                let server = kind.stages.iter().filter(|(s, _)| *s != Stage::Send);
                server.map(|(_, times)| times.sum / 1000).sum()
            };
            let totals = target.subsystem_totals();
            let latencies = &totals[0].latencies;
            for kind in [reads, writes] {
                let told = latencies.iter().find(|l| l.kind == kind.kind);
                let told = told.expect("all kinds are there").sum_us;
                let sum = sum(kind);
                assert!(sum >= told && sum - told <= COMMANDS, "{sum} of {told} µs");
            }
            assert!(Duration::from_micros(sum(writes)) <= writing);
            let slowest = counters.slowest(io::time::now());
            assert_eq!(slowest[0].kind, CommandKind::Write);
            drop(controller);
        });
        work.await.expect("the power stays on");
    });
}
