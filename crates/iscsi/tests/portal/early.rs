//! Limits of unsolicited data.

use crate::fixture::{DISK, Fixture, simulated, target_config};
use crate::initiator::{pattern, rw10};
use iscsi::portal::Config;
use iscsi::wire::Opcode;
use session::Ledger;
use session::limits::SMALL_BYTES;

/// Bytes of each command, all immediate.
const LEN: usize = 128 << 10;
/// Commands that wait for an earlier CmdSN.
const COMMANDS: usize = 100;
/// Bytes that the connection may hold of the pool.
const BUDGET: usize = 4 << 20;
/// TASK SET FULL.
const FULL: u8 = 0x28;

/// Each command of the window used to get memory of its own.
#[test]
fn commands_beyond_the_room_for_early_data_are_to_be_sent_again() {
    simulated(|| async {
        let config = Config {
            connection_budget: BUDGET,
            ..Config::default()
        };
        let fx = Fixture::with(config, target_config(DISK)).await;
        let len = LEN.to_string();
        let keys = [("ImmediateData", "Yes"), ("FirstBurstLength", len.as_str())];
        let mut i = fx.session(&keys).await;
        let data = pattern(LEN, 1);
        // The first command is sent last: until then all others must be held.
        let first = i.command(&[0; 6], 0, false);
        for _ in 0..COMMANDS {
            let c = i.command(&rw10(0x2a, 0, (LEN / 512) as u16), LEN as u32, true);
            i.send(c.build(), &data).await;
        }
        i.send(first.build(), &[]).await;
        let mut statuses = Vec::new();
        while statuses.len() < 1 + COMMANDS {
            let (bhs, _) = i.expect(Opcode::ScsiResponse).await;
            statuses.push(bhs.0[3]);
        }
        let good = statuses.iter().filter(|s| **s == 0).count();
        let full = statuses.iter().filter(|s| **s == FULL).count();
        assert_eq!(good + full, 1 + COMMANDS, "{statuses:?}");
        assert!(good > BUDGET / LEN, "{good} were kept");
        assert!(full >= COMMANDS - 2 * BUDGET / LEN - 1, "{full} were not");
        // Commands that could not be held are taken now.
        i.immediate_max = LEN;
        assert_eq!(i.write(0, &data, LEN).await.status, 0);
        assert!(i.read(0, (LEN / 512) as u16).await.data == data);
        assert_eq!(Ledger::of_shard().stats().held, 0);
    });
}

/// Immediate data of a small write takes its place in the ledger until the write has ended.
#[test]
fn early_data_is_counted_for_its_host() {
    simulated(|| async {
        let fx = Fixture::new().await;
        let mut i = fx.session(&[("ImmediateData", "Yes")]).await;
        let first = i.command(&[0; 6], 0, false);
        let second = i.command(&rw10(0x2a, 0, 8), 4096, true);
        i.send(second.build(), &[7; 4096]).await;
        while Ledger::of_shard().stats().held == 0 {
            io::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert!(Ledger::of_shard().stats().held <= SMALL_BYTES);
        i.send(first.build(), &[]).await;
        for _ in 0..2 {
            assert_eq!(i.expect(Opcode::ScsiResponse).await.0.0[3], 0);
        }
        assert_eq!(Ledger::of_shard().stats().held, 0);
    });
}
