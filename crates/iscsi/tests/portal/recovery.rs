//! Digest errors and lost PDUs at error recovery levels 0 and 1.

use crate::fixture::{Fixture, simulated};
use crate::initiator::{Initiator, pattern, rw10};
use iscsi::portal::CloseReason;
use iscsi::wire::request::{Snack, SnackKind};
use iscsi::wire::response::{R2t, RejectReason};
use iscsi::wire::{Itt, Lun, Opcode, Ttt};

const LEVEL_1: [(&str, &str); 4] = [
    ("ErrorRecoveryLevel", "1"),
    ("DataDigest", "CRC32C"),
    ("HeaderDigest", "CRC32C"),
    ("MaxRecvDataSegmentLength", "1024"),
];

fn snack(i: &Initiator, kind: SnackKind, itt: Itt, begin: u32, run: u32) -> Snack {
    Snack {
        kind: kind as u8,
        lun: Lun::default(),
        itt,
        ttt: Ttt::NONE,
        exp_stat_sn: i.exp_stat_sn,
        begin,
        run,
    }
}

#[test]
fn damaged_data_is_asked_for_again_at_level_1() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&LEVEL_1).await;
        i.segment_max = 512;
        let data = pattern(2048, 5);
        let c = i.command(&rw10(0x2a, 0, 4), 2048, true);
        i.send(c.build(), &[]).await;
        let (bhs, _) = i.expect(Opcode::R2t).await;
        i.damage = true;
        i.answer(&R2t::parse(&bhs), &data).await;
        let (bhs, _) = i.expect(Opcode::Reject).await;
        assert_eq!(bhs.0[2], RejectReason::DATA_DIGEST_ERROR.0);
        let (bhs, _) = i.expect(Opcode::R2t).await;
        let again = R2t::parse(&bhs);
        assert_eq!(
            (again.offset, again.len, again.r2t_sn),
            (0, 512, 1),
            "the first segment only"
        );
        i.answer(&again, &data).await;
        assert_eq!(i.finish(&data).await.status, 0);
        assert!(i.read(0, 4).await.data == data);
        assert_eq!(f.target.counters().data_digest_errors, 1);
    });
}

#[test]
fn a_damaged_command_is_sent_again_at_level_1() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&LEVEL_1).await;
        let data = pattern(512, 5);
        let c = i.command(&rw10(0x2a, 0, 1), 512, true);
        i.damage = true;
        i.send(c.build(), &data).await;
        i.expect(Opcode::Reject).await;
        i.send(c.build(), &data).await;
        assert_eq!(i.finish(&data).await.status, 0);
        assert!(i.read(0, 1).await.data == data);
    });
}

#[test]
fn a_damaged_digest_ends_the_connection_at_level_0() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[("DataDigest", "CRC32C")]).await;
        let c = i.command(&rw10(0x2a, 0, 1), 512, true);
        i.damage = true;
        i.send(c.build(), &[1; 512]).await;
        i.expect(Opcode::Reject).await;
        assert!(i.recv().await.is_none());
        assert_eq!(f.target.counters().closed_for(CloseReason::Digest), 1);
        // A header cannot be trusted at any level.
        let mut i = f.session(&LEVEL_1).await;
        let c = i.command(&[0; 6], 0, false);
        let mut bytes = i.encode(c.build(), &[]);
        bytes[20] ^= 1;
        i.send_bytes(bytes).await;
        assert!(i.recv().await.is_none());
        assert_eq!(f.target.counters().header_digest_errors, 1);
    });
}

#[test]
fn what_was_lost_is_sent_again_on_request() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&LEVEL_1).await;
        let data = pattern(4096, 1);
        assert_eq!(i.write(0, &data, 0).await.status, 0);
        let c = i.command(&rw10(0x28, 0, 8), 4096, false);
        i.send(c.build(), &[]).await;
        let acknowledged = i.exp_stat_sn;
        assert!(i.finish(&[]).await.data == data);
        // The third and the last segment are lost.
        i.exp_stat_sn = acknowledged;
        let ask = snack(&i, SnackKind::Data, c.itt, 2, 2);
        i.send(ask.build(), &[]).await;
        for n in 2..4 {
            let (bhs, part) = i.expect(Opcode::DataIn).await;
            assert_eq!(bhs.u32_at(36), n);
            assert!(part == data[n as usize * 1024..][..1024]);
        }
        // A response without data.
        let c = i.command(&[0; 6], 0, false);
        i.send(c.build(), &[]).await;
        let (first, _) = i.expect(Opcode::ScsiResponse).await;
        let ask = snack(&i, SnackKind::Status, Itt::NONE, first.sn().0, 1);
        i.send(ask.build(), &[]).await;
        let (again, _) = i.expect(Opcode::ScsiResponse).await;
        assert_eq!((again.sn(), again.itt()), (first.sn(), c.itt));
        // A run of numbers that were never used.
        let ask = snack(&i, SnackKind::Data, Itt(0x4242), 0, 1);
        i.send(ask.build(), &[]).await;
        let (bhs, _) = i.expect(Opcode::Reject).await;
        assert_eq!(bhs.0[2], RejectReason::SNACK_REJECT.0);
    });
}

#[test]
fn an_r2t_is_sent_again_on_request() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&LEVEL_1).await;
        let c = i.command(&rw10(0x2a, 0, 1), 512, true);
        i.send(c.build(), &[]).await;
        let (first, _) = i.expect(Opcode::R2t).await;
        let ask = snack(&i, SnackKind::Data, c.itt, 0, 0);
        i.send(ask.build(), &[]).await;
        let (again, _) = i.expect(Opcode::R2t).await;
        assert_eq!(R2t::parse(&first), R2t::parse(&again));
        i.answer(&R2t::parse(&again), &[7; 512]).await;
        assert_eq!(i.finish(&[]).await.status, 0);
    });
}
