//! Sessions of random PDUs: nearly valid, in any order, by seed.

use crate::fixture::{DISK, Fixture, simulated};
use io::rng::Prng;
use iscsi::wire::{Bhs, Opcode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SEEDS: u64 = 150;
const PDUS: u64 = 60;

/// A header whose fields are likely to name existing tasks and numbers.
fn header(rng: &mut Prng, cmd_sn: u32) -> Bhs {
    let opcodes = [
        Opcode::ScsiCommand,
        Opcode::ScsiCommand,
        Opcode::ScsiCommand,
        Opcode::ScsiCommand,
        Opcode::ScsiCommand,
        Opcode::DataOut,
        Opcode::TaskManagement,
        Opcode::TextRequest,
        Opcode::Snack,
        Opcode::NopOut,
        Opcode::LogoutRequest,
        Opcode::R2t,
    ];
    // Logouts end a session too soon to be frequent.
    let most = if rng.chance(0.05) { 12 } else { 10 };
    let opcode = opcodes[rng.below(most) as usize];
    let mut b = Bhs::new(opcode);
    b.0[0] |= if rng.chance(0.3) { Bhs::IMMEDIATE } else { 0 };
    b.0[1] = match opcode {
        Opcode::ScsiCommand => [0x80, 0xa1, 0x21, 0xc1, 0xe1][rng.below(5) as usize],
        Opcode::DataOut => rng.below(2) as u8 * 0x80,
        _ => 0x80 | rng.below(10) as u8,
    };
    b.0[19] = 1 + rng.below(24) as u8;
    let ttt = if rng.chance(0.4) {
        u32::MAX
    } else {
        rng.below(8) as u32
    };
    let word20 = match opcode {
        Opcode::ScsiCommand => 512 * rng.below(9) as u32,
        Opcode::TaskManagement => 1 + rng.below(24) as u32,
        _ => ttt,
    };
    b.0[20..24].copy_from_slice(&word20.to_be_bytes());
    b.0[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    if opcode == Opcode::ScsiCommand {
        b.0[32] = [0x00, 0x28, 0x2a, 0x2a, 0x2e, 0x89, 0x41, 0x12][rng.below(8) as usize];
        b.0[37] = rng.below(16) as u8;
        b.0[40] = rng.below(9) as u8;
    } else {
        b.0[39] = rng.below(3) as u8;
        b.0[42] = 2 * rng.below(5) as u8;
        b.0[47] = rng.below(3) as u8;
    }
    b
}

#[test]
fn whatever_is_sent_costs_nobody_else_anything() {
    let (commands, data) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for seed in 0..SEEDS {
        let (commands, data) = (commands.clone(), data.clone());
        simulated(move || async move {
            let mut rng = Prng::new(seed);
            let f = Fixture::new().await;
            let mut i = f.connect().await;
            let level = if seed % 2 == 0 { "1" } else { "0" };
            let solicited = if seed % 3 == 0 { "Yes" } else { "No" };
            let keys = [
                ("ErrorRecoveryLevel", level),
                ("InitialR2T", solicited),
                ("DataDigest", if seed % 5 == 0 { "CRC32C" } else { "None" }),
                ("FirstBurstLength", "1024"),
                ("MaxBurstLength", "1024"),
                ("MaxOutstandingR2T", "2"),
            ];
            i.login(DISK, &keys).await;
            let mut sn = i.cmd_sn;
            for _ in 0..PDUS {
                let b = header(&mut rng, sn.0);
                if b.opcode() != Some(Opcode::DataOut) && !b.is_immediate() && rng.chance(0.9) {
                    sn = sn.next();
                }
                let mut segment = vec![0; 256 * rng.below(5) as usize];
                rng.fill(&mut segment);
                i.damage = rng.chance(0.1);
                if !i.send(b, &segment).await {
                    break;
                }
            }
            io::time::sleep(Duration::from_millis(rng.below(2000))).await;
            drop(i);
            commands.fetch_add(f.target.counters().commands, Ordering::Relaxed);
            data.fetch_add(f.target.counters().bytes_in, Ordering::Relaxed);
            let mut next = f.connect().await;
            next.login(DISK, &[]).await;
            next.clear_attentions().await;
            assert_eq!(next.read(0, 8).await.status, 0, "seed {seed}");
            assert_eq!(next.logout(0, 0).await, 0, "seed {seed}");
            io::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(f.target.counters().open, 0, "seed {seed}");
            assert!(f.target.sessions().is_empty(), "seed {seed}");
        });
    }
    let (commands, data) = (
        commands.load(Ordering::Relaxed),
        data.load(Ordering::Relaxed),
    );
    assert!(
        commands > 5 * SEEDS && data > 8192 * SEEDS,
        "{commands} commands, {data} bytes: too tame"
    );
}
