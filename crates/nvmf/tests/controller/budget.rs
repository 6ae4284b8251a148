//! The cost of one small command: reads of Verify, flushes of shutdowns.

use crate::disk::Scripted;
use crate::fixture::Fixture;
use crate::host::{blocks, run};
use io::time::sleep;
use nvmf::controller::TargetConfig;
use nvmf::wire::fabrics::{Cc, Property, property};
use nvmf::wire::opcode::io as nvm;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Blocks that Verify reads at once.
const STEP: u32 = 2048;

/// Waits until a condition holds; the test's own time limit ends the wait.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        sleep(Duration::from_millis(1)).await;
    }
}

/// A disk of 4 MiB that hangs, in a target.
fn hanging(config: TargetConfig) -> (Fixture, Arc<Scripted>) {
    let disk = Scripted::new(true);
    disk.hang.store(true, Ordering::SeqCst);
    (Fixture::with(config, Some(disk.clone())), disk)
}

#[test]
fn verify_reads_nothing_more_when_its_connection_is_gone() {
    run(async {
        let (fx, disk) = hanging(TargetConfig::default());
        let (admin, mut io) = fx.io(1).await;
        io.submit(blocks(nvm::VERIFY, 0, 4 * STEP), &[]).await;
        until(|| disk.reads.load(Ordering::SeqCst) == 1).await;
        io.close();
        admin.close();
        until(|| fx.target.counters().open == 0).await;
        disk.hang.store(false, Ordering::SeqCst);
        // Another host's Verify takes its turns behind the reads of the first one.
        let (_admin, mut other) = fx.io(2).await;
        let all = other.command(blocks(nvm::VERIFY, 0, 4 * STEP), &[]).await;
        assert!(all.status.is_success());
        assert_eq!(disk.reads.load(Ordering::SeqCst), 1 + 4);
    });
}

#[test]
fn verifies_read_within_the_budget_and_all_end() {
    run(async {
        let config = TargetConfig {
            connection_budget: 2 << 20,
            ..TargetConfig::default()
        };
        let (fx, disk) = hanging(config);
        let (mut admin, mut io) = fx.io(1).await;
        let mut cids = Vec::new();
        for _ in 0..8 {
            cids.push(io.submit(blocks(nvm::VERIFY, 0, STEP), &[]).await);
        }
        // The admin queue answers later than the I/O queue has taken the earlier commands.
        until(|| disk.reads.load(Ordering::SeqCst) >= 2).await;
        for _ in 0..8 {
            let csts = Property::get(property::CSTS, false);
            assert!(admin.command(csts, &[]).await.status.is_success());
        }
        assert_eq!(disk.reads.load(Ordering::SeqCst), 2);
        disk.hang.store(false, Ordering::SeqCst);
        let mut ended = Vec::new();
        for _ in &cids {
            ended.push(io.any_answer().await);
        }
        ended.sort_unstable();
        assert_eq!(ended, cids);
        assert_eq!(disk.reads.load(Ordering::SeqCst), 8);
    });
}

#[test]
fn shutdowns_of_a_controller_flush_once_at_a_time() {
    run(async {
        let (fx, disk) = hanging(TargetConfig::default());
        let mut admin = fx.admin(1).await;
        for _ in 0..50 {
            for shn in [1, 0] {
                let cc = u64::from(Cc::enabled(0).bits()) | shn << 14;
                let set = Property::set(property::CC, false, cc);
                assert!(admin.command(set, &[]).await.status.is_success());
            }
        }
        assert_eq!(disk.flushes.load(Ordering::SeqCst), 1);
        disk.hang.store(false, Ordering::SeqCst);
        loop {
            let csts = Property::get(property::CSTS, false);
            // SHST 10b: the last shutdown is complete.
            if admin.command(csts, &[]).await.result >> 2 & 3 == 2 {
                break;
            }
        }
        assert_eq!(disk.flushes.load(Ordering::SeqCst), 2);
    });
}
