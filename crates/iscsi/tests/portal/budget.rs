//! Buffer bytes of one connection: commands that need many, and commands that wait for them.

use crate::fairness::serve_with;
use crate::fixture::{Fixture, simulated};
use crate::initiator::{pattern, rw10};
use io::IoBuf;
use iscsi::portal::Config;
use iscsi::wire::Opcode;
use iscsi::wire::response::R2t;
use session::Ledger;
use std::time::Duration;

/// Bytes that the connection may hold.
const BUDGET: usize = 4 << 20;
/// Commands that read the whole disk.
const COMMANDS: usize = 16;

/// VERIFY used to read without counting: all commands of the window read one step each at the same time.
#[test]
fn verifies_read_within_the_budget_and_all_end() {
    simulated(|| async {
        let fx = serve_with(Config {
            connection_budget: BUDGET,
            ..Config::default()
        })
        .await;
        let mut i = fx.session(&[]).await;
        for _ in 0..COMMANDS {
            // VERIFY (10) of 16 MiB, BYTCHK 00b.
            let cdb = [0x2f, 0, 0, 0, 0, 0, 0, 0x80, 0, 0];
            let c = i.command(&cdb, 0, false);
            i.send(c.build(), &[]).await;
        }
        let mut most = 0;
        for _ in 0..200 {
            io::time::sleep(Duration::from_micros(50)).await;
            let held = Ledger::of_shard().stats().held;
            assert!(
                io::pool().stats().used <= held,
                "a read that is not counted"
            );
            most = most.max(held);
        }
        assert_eq!(most, BUDGET);
        for _ in 0..COMMANDS {
            assert_eq!(i.expect(Opcode::ScsiResponse).await.0.0[3], 0);
        }
    });
}

/// A large allocation length of REPORT LUNS ended the process when no buffer was free at once: no buffer is as large.
#[test]
fn an_allocation_length_of_any_size_is_answered() {
    simulated(|| async {
        let fx = serve_with(Config::default()).await;
        let mut i = fx.session(&[]).await;
        for write in [false, true] {
            // REPORT LUNS with an allocation length of 4 GiB less one byte, also as a command that claims to write.
            let cdb = [0xa0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0];
            let c = i.command(&cdb, u32::MAX, write);
            i.send(c.build(), &[]).await;
            let ended = i.finish(&[]).await;
            assert!(write || !ended.data.is_empty(), "{ended:?}");
        }
    });
}

/// The buffer that an aborted write waited for went to the next write, which needs a larger one.
#[test]
fn a_write_behind_an_aborted_one_gets_a_buffer_of_its_own_size() {
    simulated(|| async {
        let fx = Fixture::new().await;
        let mut i = fx.session(&[]).await;
        let (small, large) = (pattern(4096, 1), pattern(64 << 10, 2));
        // The ledger has bytes for both, the pool has no buffer for either.
        let taken: Vec<IoBuf> = std::iter::from_fn(|| io::pool().try_alloc(4096)).collect();
        let first = i.command(&rw10(0x2a, 0, 8), small.len() as u32, true);
        let second = i.command(&rw10(0x2a, 8, 128), large.len() as u32, true);
        i.send(first.build(), &[]).await;
        i.send(second.build(), &[]).await;
        let abort = i.task_management(1, first.itt, first.cmd_sn).await;
        assert_eq!(abort, 0, "function complete");
        drop(taken);
        let r2t = R2t::parse(&i.expect(Opcode::R2t).await.0);
        assert_eq!((r2t.itt, r2t.offset, r2t.len), (second.itt, 0, 64 << 10));
        i.answer(&r2t, &large).await;
        assert_eq!(i.finish(&[]).await.status, 0);
        assert!(i.read(8, 128).await.data == large, "its own data");
        assert!(i.read(0, 8).await.data == [0; 4096], "nothing was written");
    });
}
