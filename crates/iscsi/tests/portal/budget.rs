//! What one small command may cost.

use crate::fairness::serve_with;
use crate::fixture::simulated;
use iscsi::portal::Config;
use iscsi::wire::Opcode;
use session::Ledger;
use std::time::Duration;

/// Bytes that the connection may hold.
const BUDGET: usize = 4 << 20;
/// Commands that read the whole disk.
const COMMANDS: usize = 16;

/// VERIFY used to read without counting: as many commands as the window has, each a step at a time.
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

/// The allocation length of REPORT LUNS ended the process when nothing was free at once: no buffer is as large.
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
