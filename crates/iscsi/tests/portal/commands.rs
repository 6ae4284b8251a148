//! SCSI commands and their data in every way that was negotiated.

use crate::fixture::{Fixture, simulated};
use crate::initiator::{pattern, rw10};
use iscsi::wire::request::TaskAttribute;
use iscsi::wire::response::{R2t, Residual};
use iscsi::wire::{Itt, Opcode, Ttt};
use std::collections::HashMap;

#[test]
fn data_arrives_whole_whichever_way_was_agreed_to() {
    for case in 0..16u8 {
        simulated(move || async move {
            let yes = |bit: u8| if case >> bit & 1 == 1 { "Yes" } else { "No" };
            let digest = |bit: u8| {
                if case >> bit & 1 == 1 {
                    "CRC32C"
                } else {
                    "None"
                }
            };
            let f = Fixture::new().await;
            let keys = [
                ("InitialR2T", yes(0)),
                ("ImmediateData", yes(1)),
                ("HeaderDigest", digest(2)),
                ("DataDigest", digest(3)),
                ("FirstBurstLength", "16384"),
                ("MaxBurstLength", "32768"),
                ("MaxOutstandingR2T", "2"),
                ("MaxRecvDataSegmentLength", "12288"),
            ];
            let mut i = f.session(&keys).await;
            i.immediate_max = if yes(1) == "Yes" { 5000 } else { 0 };
            let first_burst = if yes(0) == "No" { 16384 } else { 0 };
            for (n, len) in [512usize, 4096, 16384, 17408, 130_048]
                .into_iter()
                .enumerate()
            {
                let data = pattern(len, n as u8);
                let ended = i.write(n as u32 * 300, &data, first_burst).await;
                assert_eq!(
                    (ended.status, ended.residual),
                    (0, Residual::None),
                    "case {case}, {len}"
                );
                let ended = i.read(n as u32 * 300, (len / 512) as u16).await;
                assert!(ended.data == data, "case {case}, {len} bytes came back");
            }
            assert!(i.r2ts.iter().all(|r| r.len <= 32768));
            assert!(!i.r2ts.is_empty(), "the largest needs R2Ts in every case");
        });
    }
}

#[test]
fn as_many_r2ts_as_agreed_are_out_at_a_time() {
    simulated(|| async {
        let f = Fixture::new().await;
        let keys = [("MaxBurstLength", "8192"), ("MaxOutstandingR2T", "3")];
        let mut i = f.session(&keys).await;
        let data = pattern(8192 * 5, 1);
        let c = i.command(&rw10(0x2a, 0, 80), data.len() as u32, true);
        i.send(c.build(), &[]).await;
        let mut r2ts = Vec::new();
        for n in 0..3 {
            let (bhs, _) = i.expect(Opcode::R2t).await;
            let r = R2t::parse(&bhs);
            assert_eq!((r.r2t_sn, r.offset, r.len), (n, n * 8192, 8192));
            r2ts.push(r);
        }
        assert_eq!(i.ping(b"nothing else").await, b"nothing else");
        for r in r2ts {
            i.answer(&r, &data).await;
        }
        let ended = i.finish(&data).await;
        assert_eq!(ended.status, 0);
        assert!(i.read(0, 80).await.data == data);
    });
}

#[test]
fn more_data_than_there_are_buffers_comes_in_all_the_same() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[("InitialR2T", "No")]).await;
        let data = pattern(1 << 20, 1);
        let mut commands = Vec::new();
        // Every command with its unsolicited data, before any R2T is answered.
        for _ in 0..64 {
            let mut c = i.command(&rw10(0x2a, 0, 2048), 1 << 20, true);
            c.last = false;
            i.send(c.build(), &data[..4096]).await;
            i.data_out(c.itt, Ttt::NONE, 4096, &data[4096..65536]).await;
            commands.push(c.itt);
        }
        for _ in commands {
            assert_eq!(i.finish(&data).await.status, 0);
        }
        assert!(i.read(0, 2048).await.data == data);
    });
}

#[test]
fn transfers_longer_than_a_buffer_move_in_pieces() {
    const PIECE: u32 = scsi::limits::PIECE_BYTES_MAX;
    for (burst, level) in [("1048576", "0"), ("700416", "1")] {
        simulated(move || async move {
            let f = Fixture::new().await;
            let keys = [
                ("MaxBurstLength", burst),
                ("ErrorRecoveryLevel", level),
                ("InitialR2T", "No"),
            ];
            let mut i = f.session(&keys).await;
            let data = pattern(7 << 19, 3);
            let blocks = (data.len() / 512) as u16;
            assert_eq!(i.write(100, &data, 8192).await.status, 0);
            let piece_of = |byte: u32| byte / PIECE;
            assert!(
                i.r2ts
                    .iter()
                    .all(|r| piece_of(r.offset) == piece_of(r.offset + r.len - 1))
            );
            let ended = i.read(100, blocks).await;
            assert_eq!((ended.status, ended.residual), (0, Residual::None));
            assert!(ended.data == data, "burst {burst}");

            // Aborted between two pieces.
            let other = pattern(data.len(), 4);
            let c = i.command(&rw10(0x2a, 100, blocks), other.len() as u32, true);
            let (itt, sn) = (c.itt, c.cmd_sn);
            i.send(c.build(), &[]).await;
            loop {
                let (bhs, _) = i.expect(Opcode::R2t).await;
                let r = R2t::parse(&bhs);
                if r.offset >= PIECE {
                    break;
                }
                i.answer(&r, &other).await;
            }
            assert_eq!(i.task_management(1, itt, sn).await, 0);
            let ended = i.read(100, blocks).await;
            let (first, rest) = ended.data.split_at(PIECE as usize);
            assert!(first == &other[..PIECE as usize] && rest == &data[PIECE as usize..]);
        });
    }
}

#[test]
fn many_long_transfers_share_the_buffers() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let data = pattern(7 << 19, 5);
        let blocks = (data.len() / 512) as u16;
        for n in 0..24 {
            let write = n % 2 == 0;
            let opcode = if write { 0x2a } else { 0x28 };
            let c = i.command(&rw10(opcode, 9, blocks), data.len() as u32, write);
            i.send(c.build(), &[]).await;
        }
        let mut read: HashMap<u32, usize> = HashMap::new();
        let mut ended = 0;
        while ended < 24 {
            let (bhs, segment) = i.recv().await.expect("an answer");
            match bhs.opcode() {
                Some(Opcode::R2t) => i.answer(&R2t::parse(&bhs), &data).await,
                Some(Opcode::DataIn) => {
                    let there = read.entry(bhs.u32_at(16)).or_default();
                    assert_eq!(bhs.u32_at(40) as usize, *there, "in order");
                    *there += segment.len();
                    ended += u32::from(bhs.flags() & 1);
                }
                Some(Opcode::ScsiResponse) => {
                    assert_eq!(bhs.0[3], 0);
                    ended += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read.len(), 12);
        assert!(read.values().all(|n| *n == data.len()));
        assert!(i.read(9, blocks).await.data == data);
    });
}

#[test]
fn residuals_say_what_was_not_moved() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let c = i.command(&rw10(0x28, 0, 1), 2048, false);
        i.send(c.build(), &[]).await;
        let ended = i.finish(&[]).await;
        assert_eq!(
            (ended.data.len(), ended.residual),
            (512, Residual::Underflow(1536))
        );
        let c = i.command(&rw10(0x28, 0, 4), 512, false);
        i.send(c.build(), &[]).await;
        let ended = i.finish(&[]).await;
        assert_eq!(
            (ended.data.len(), ended.residual),
            (512, Residual::Overflow(1536))
        );
        let mut both = i.command(&rw10(0x2a, 0, 1), 512, true);
        both.read = true;
        i.send(both.build(), &[]).await;
        let ended = i.finish(&[]).await;
        assert_eq!(
            (ended.status, ended.sense()),
            (2, (5, 0x0e, 0x03)),
            "bidirectional"
        );
    });
}

#[test]
fn commands_outside_of_the_window_are_as_if_they_had_not_come() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let right = i.cmd_sn;
        for wrong in [right.plus(u32::MAX), right.plus(5000)] {
            let mut c = i.command(&[0; 6], 0, false);
            c.cmd_sn = wrong;
            i.send(c.build(), &[]).await;
        }
        i.cmd_sn = right;
        assert_eq!(i.ping(b"").await, b"");
        let c = i.command(&[0; 6], 0, false);
        i.send(c.build(), &[]).await;
        let (bhs, _) = i.expect(Opcode::ScsiResponse).await;
        assert_eq!((bhs.itt(), bhs.exp_sn()), (c.itt, right.next()));
        assert_eq!(f.target.counters().ignored_commands, 2);
    });
}

#[test]
fn early_commands_wait_for_their_turn() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[("ImmediateData", "Yes")]).await;
        i.immediate_max = 512;
        let first = i.command(&rw10(0x28, 9, 1), 512, false);
        let mut second = i.command(&rw10(0x2a, 9, 1), 512, true);
        second.last = true;
        i.send(second.build(), &pattern(512, 3)).await;
        assert_eq!(i.ping(b"quiet").await, b"quiet");
        i.send(first.build(), &[]).await;
        let ended = i.finish(&[]).await;
        assert_eq!(ended.data, vec![0; 512], "the read came first");
        assert_eq!(i.finish(&[]).await.status, 0);
        assert_eq!(i.read(9, 1).await.data, pattern(512, 3));
    });
}

/// The slot of a command that was aborted before its turn stayed in the list of held commands, and the device was given the
/// slot's next command twice.
#[test]
fn a_held_command_that_was_aborted_is_not_delivered() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let before = f.target.counters().commands;
        let first = i.command(&[0; 6], 0, false);
        let aborted = i.command(&[0; 6], 0, false);
        let held = i.command(&rw10(0x28, 0, 1), 512, false);
        i.send(aborted.build(), &[]).await;
        assert_eq!(i.task_management(1, aborted.itt, aborted.cmd_sn).await, 0);
        i.send(held.build(), &[]).await;
        i.send(first.build(), &[]).await;
        assert_eq!(i.expect(Opcode::ScsiResponse).await.0.itt(), first.itt);
        assert_eq!(i.expect(Opcode::DataIn).await.0.itt(), held.itt);
        assert_eq!(i.ping(b"nothing else").await, b"nothing else");
        assert_eq!(f.target.counters().commands - before, 2);
    });
}

#[test]
fn tasks_are_aborted() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let (complete, no_task, allegiance, unsupported) = (0, 1, 4, 5);
        for function in [1, 2, 4, 5, 6] {
            let c = i.command(&rw10(0x2a, 0, 4), 2048, true);
            i.send(c.build(), &[]).await;
            let (bhs, _) = i.expect(Opcode::R2t).await;
            assert_eq!(
                i.task_management(function, c.itt, c.cmd_sn).await,
                complete,
                "{function}"
            );
            // Data that was on its way is dropped.
            i.answer(&R2t::parse(&bhs), &[9; 2048]).await;
            i.clear_attentions().await;
            assert_eq!(i.read(0, 4).await.data, vec![0; 2048]);
        }
        let sn = i.cmd_sn.plus(u32::MAX);
        assert_eq!(i.task_management(1, Itt(0x999), sn).await, no_task);
        assert_eq!(i.task_management(8, Itt(0x999), sn).await, allegiance);
        assert_eq!(i.task_management(3, Itt(0x999), sn).await, unsupported);
        assert_eq!(i.task_management(77, Itt(0x999), sn).await, unsupported);
        let mut r = i.command(&[0; 6], 0, false);
        r.lun = iscsi::wire::Lun([0, 9, 0, 0, 0, 0, 0, 0]);
        i.send(r.build(), &[]).await;
        assert_eq!(i.finish(&[]).await.sense(), (5, 0x25, 0));
    });
}

#[test]
fn a_task_that_is_still_on_its_way_is_aborted_before_it_comes() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let c = i.command(&rw10(0x2a, 0, 1), 512, true);
        assert_eq!(i.task_management(1, c.itt, c.cmd_sn).await, 0);
        i.send(c.build(), &[]).await;
        assert_eq!(i.ping(b"silence").await, b"silence");
        assert_eq!(i.read(0, 1).await.status, 0);
    });
}

#[test]
fn an_ordered_command_waits_for_those_before_it() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f
            .session(&[("InitialR2T", "Yes"), ("ImmediateData", "Yes")])
            .await;
        let (old, new) = (pattern(512, 1), pattern(512, 2));
        // A write whose data is not here yet.
        let write = i.command(&rw10(0x2a, 0, 1), 512, true);
        i.send(write.build(), &[]).await;
        let (bhs, _) = i.expect(Opcode::R2t).await;
        let ttt = R2t::parse(&bhs).ttt;
        // An ordered write with its data, and a read behind it.
        let mut ordered = i.command(&rw10(0x2a, 0, 1), 512, true);
        ordered.attribute = TaskAttribute::Ordered;
        i.send(ordered.build(), &new).await;
        let read = i.command(&rw10(0x28, 0, 1), 512, false);
        i.send(read.build(), &[]).await;
        // No command begins before the first one has ended, except one at the head of the queue.
        assert_eq!(i.ping(b"still").await, b"still");
        let mut head = i.command(&[0; 6], 0, false);
        head.attribute = TaskAttribute::HeadOfQueue;
        i.send(head.build(), &[]).await;
        assert_eq!(i.expect(Opcode::ScsiResponse).await.0.itt(), head.itt);
        i.data_out(write.itt, ttt, 0, &old).await;
        assert_eq!(i.expect(Opcode::ScsiResponse).await.0.itt(), write.itt);
        assert_eq!(i.expect(Opcode::ScsiResponse).await.0.itt(), ordered.itt);
        assert!(i.finish(&[]).await.data == new, "the read comes last");
        // A waiting command can be aborted, and then delays no other command.
        let write = i.command(&rw10(0x2a, 0, 1), 512, true);
        i.send(write.build(), &[]).await;
        i.expect(Opcode::R2t).await;
        let mut ordered = i.command(&rw10(0x28, 0, 1), 512, false);
        ordered.attribute = TaskAttribute::Ordered;
        i.send(ordered.build(), &[]).await;
        assert_eq!(i.task_management(1, ordered.itt, ordered.cmd_sn).await, 0);
        assert!(i.read(0, 1).await.data == new);
    });
}
