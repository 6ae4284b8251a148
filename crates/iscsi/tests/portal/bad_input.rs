//! Invalid input from initiators: it is refused and counted, and other initiators do not notice.

use crate::fixture::{DISK, Fixture, simulated, target_config};
use crate::initiator::{INITIATOR, Initiator, rw10, text};
use iscsi::portal::{CloseReason, Config, ConnectionState};
use iscsi::wire::response::{LoginStatus, R2t, RejectReason};
use iscsi::wire::{Bhs, Itt, Opcode, Ttt};
use std::time::Duration;

/// Checks that the target serves another initiator.
async fn unharmed(f: &Fixture) {
    let mut i = f.connect().await;
    i.isid.0[1] = 0xee;
    i.login(DISK, &[]).await;
    i.clear_attentions().await;
    assert_eq!(i.read(0, 1).await.status, 0);
    i.logout(0, 0).await;
}

#[test]
fn logins_that_never_end() {
    simulated(|| async {
        let f = Fixture::new().await;
        // Continuation without end: 8 KiB each.
        let mut i = f.connect().await;
        let mut r = i.login_request(1, None);
        r.more = true;
        let mut last = LoginStatus::SUCCESS;
        for _ in 0..5 {
            last = i.login_step(r, &[b'x'; 8192]).await.0.status;
            if last != LoginStatus::SUCCESS {
                break;
            }
        }
        assert_eq!(last, LoginStatus::INITIATOR_ERROR);
        // More requests than a login may have.
        let mut i = f.connect().await;
        let names = text(&[("InitiatorName", INITIATOR), ("TargetName", DISK)]);
        i.login_step(i.login_request(0, None), &names).await;
        let mut n = 1;
        while i.login_step(i.login_request(0, None), &[]).await.0.status == LoginStatus::SUCCESS {
            n += 1;
            assert!(n < 100);
        }
        // A key of 100 kB: more than a login PDU may have.
        let mut i = f.connect().await;
        let r = i.login_request(1, Some(3));
        let sent = i.encode(r.build(), &vec![b'k'; 100_000]);
        i.send_bytes(sent).await;
        assert!(i.recv().await.is_none());
        // An empty request.
        let mut i = f.connect().await;
        assert!(i.recv().await.is_none());
        assert_eq!(f.target.counters().closed_for(CloseReason::LoginTimeout), 1);
        unharmed(&f).await;
    });
}

#[test]
fn login_headers_that_contradict_each_other() {
    simulated(|| async {
        let f = Fixture::new().await;
        let names = text(&[("InitiatorName", INITIATOR), ("TargetName", DISK)]);
        for case in 0..8 {
            let mut i = f.connect().await;
            i.login_step(i.login_request(0, None), &names).await;
            let mut r = i.login_request(0, Some(1));
            match case {
                0 => r.isid.0[0] ^= 1,
                1 => r.tsih = 7,
                2 => r.cid = 7,
                3 => r.itt = Itt(7),
                4 => r.csg = 1,
                5 => r.nsg = 2,
                6 => (r.csg, r.nsg) = (0, 0),
                _ => r.more = true,
            }
            let (response, _) = i.login_step(r, &[]).await;
            assert_eq!(response.status, LoginStatus::INITIATOR_ERROR, "case {case}");
            assert!(i.recv().await.is_none());
        }
        let mut i = f.connect().await;
        i.login_step(i.login_request(0, None), &names).await;
        let keys = text(&[("InitialR2T", "No"), ("InitialR2T", "No")]);
        let (response, _) = i.login_step(i.login_request(0, Some(1)), &keys).await;
        assert_eq!(response.status, LoginStatus::INITIATOR_ERROR, "a key twice");
        let mut i = f.connect().await;
        i.login_step(i.login_request(0, None), &names).await;
        let c = i.command(&[0; 6], 0, false);
        i.send(c.build(), &[]).await;
        let (bhs, _) = i.expect(Opcode::LoginResponse).await;
        assert_eq!(bhs.u16_at(36), LoginStatus::INVALID_DURING_LOGIN.0);
        unharmed(&f).await;
    });
}

#[test]
fn thousands_of_half_open_logins() {
    simulated(|| async {
        let config = Config {
            logins_max: 256,
            ..Config::default()
        };
        let f = Fixture::with(config, target_config(DISK)).await;
        let mut all = Vec::new();
        for _ in 0..1000 {
            all.push(Initiator::connect(f.addr).await);
        }
        io::time::sleep(Duration::from_secs(1)).await;
        let c = f.target.counters();
        assert_eq!(c.in_state(ConnectionState::Login), 256);
        assert_eq!(c.closed_for(CloseReason::Limit), 744);
        // They keep no other initiator out, and the newest of them stay.
        unharmed(&f).await;
        assert!(all.remove(0).recv().await.is_none());
        let newest = all.last_mut().expect("a thousand");
        newest.login(DISK, &[]).await;
        newest.logout(0, 0).await;
        io::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(f.target.counters().open, 0);
        unharmed(&f).await;
    });
}

#[test]
fn data_that_nobody_asked_for() {
    simulated(|| async {
        let f = Fixture::new().await;
        // Data beyond the R2T.
        let mut i = f.session(&[]).await;
        let c = i.command(&rw10(0x2a, 0, 1), 512, true);
        i.send(c.build(), &[]).await;
        let (bhs, _) = i.expect(Opcode::R2t).await;
        let r = R2t::parse(&bhs);
        i.data_out(c.itt, r.ttt, 0, &[1; 1024]).await;
        let ended = i.finish(&[]).await;
        assert_eq!(ended.sense(), (0x0b, 0x0c, 0x0d));
        // Less data than the R2T asked for.
        let c = i.command(&rw10(0x2a, 0, 2), 1024, true);
        i.send(c.build(), &[]).await;
        let (bhs, _) = i.expect(Opcode::R2t).await;
        i.data_out(c.itt, R2t::parse(&bhs).ttt, 0, &[1; 512]).await;
        assert_eq!(i.finish(&[]).await.sense(), (0x0b, 0x0c, 0x0d));
        // Data of no task.
        i.data_out(Itt(0x7777), Ttt(0), 0, &[1; 512]).await;
        assert_eq!(i.ping(b"alive").await, b"alive");
        // Unsolicited data that was not negotiated.
        let mut c = i.command(&rw10(0x2a, 0, 1), 512, true);
        c.last = false;
        i.send(c.build(), &[]).await;
        assert_eq!(i.finish(&[]).await.sense(), (0x0b, 0x0c, 0x0c));
        let c = i.command(&rw10(0x28, 0, 1), 512, false);
        i.send(c.build(), &[1; 512]).await;
        assert_eq!(i.finish(&[]).await.sense(), (0x0b, 0x0c, 0x0c));
        assert_eq!(
            i.read(0, 2).await.data,
            vec![0; 1024],
            "nothing was written"
        );
        // Data of a task, but of no R2T.
        let c = i.command(&rw10(0x2a, 0, 1), 512, true);
        i.send(c.build(), &[]).await;
        i.expect(Opcode::R2t).await;
        i.data_out(c.itt, Ttt(0x7777), 0, &[1; 512]).await;
        i.expect(Opcode::Reject).await;
        assert!(i.recv().await.is_none());
        unharmed(&f).await;
    });
}

#[test]
fn data_that_never_comes() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let c = i.command(&rw10(0x2a, 0, 1), 512, true);
        i.send(c.build(), &[]).await;
        i.expect(Opcode::R2t).await;
        for _ in 0..4 {
            io::time::sleep(Duration::from_secs(10)).await;
            if !i.send(Bhs::new(Opcode::NopOut), &[]).await {
                break;
            }
        }
        assert_eq!(f.target.counters().closed_for(CloseReason::DataTimeout), 1);
        unharmed(&f).await;
    });
}

#[test]
fn pdus_that_make_no_sense() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let command = i.command(&[0; 6], 0, false);
        let mut attribute = command.build();
        attribute.0[1] |= 7;
        let mut untagged = command.build();
        untagged.set_itt(Itt::NONE);
        let mut login = Bhs::new(Opcode::LoginRequest);
        login.0[1] = 0x87;
        let mut unknown = Bhs::new(Opcode::NopOut);
        unknown.0[0] = 0x1e;
        let snack = Bhs::new(Opcode::Snack);
        let table = [
            (attribute, RejectReason::INVALID_PDU_FIELD),
            (untagged, RejectReason::INVALID_PDU_FIELD),
            (login, RejectReason::PROTOCOL_ERROR),
            (unknown, RejectReason::COMMAND_NOT_SUPPORTED),
            (Bhs::new(Opcode::R2t), RejectReason::COMMAND_NOT_SUPPORTED),
            (snack, RejectReason::PROTOCOL_ERROR),
        ];
        for (bad, reason) in table {
            i.send(bad, &[]).await;
            let (bhs, header) = i.expect(Opcode::Reject).await;
            assert_eq!(bhs.0[2], reason.0, "{bad:?}");
            assert_eq!(header[16..], bad.0[16..]);
            assert!(f.target.counters().rejected_for(reason) > 0);
        }
        // Additional header segments with a wrong length.
        let mut ahs = command.build().0.to_vec();
        ahs[4] = 1;
        ahs.extend([0xff, 0xff, 1, 0]);
        i.send_bytes(ahs).await;
        i.expect(Opcode::Reject).await;
        // The same tag twice.
        let write = i.command(&rw10(0x2a, 0, 1), 512, true);
        let mut twin = i.command(&[0; 6], 0, false);
        i.cmd_sn = command.cmd_sn;
        let (mut write, sn) = (write, command.cmd_sn);
        write.cmd_sn = sn;
        (twin.itt, twin.cmd_sn) = (write.itt, sn.next());
        i.send(write.build(), &[]).await;
        i.expect(Opcode::R2t).await;
        i.send(twin.build(), &[]).await;
        let (bhs, _) = i.expect(Opcode::Reject).await;
        assert_eq!(bhs.0[2], RejectReason::TASK_IN_PROGRESS.0);
        // A data segment longer than was declared.
        let mut long = Bhs::new(Opcode::NopOut);
        long.set_data_len(0xff_ffff);
        i.send_bytes(long.0.to_vec()).await;
        i.expect(Opcode::Reject).await;
        assert!(i.recv().await.is_none());
        unharmed(&f).await;
    });
}

#[test]
fn text_without_end() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let mut ttt = Ttt::NONE;
        for n in 0.. {
            let r = i.text_request(ttt, true);
            i.send(r.build(), &[b'x'; 4096]).await;
            let (bhs, _) = i.recv().await.expect("an answer");
            if bhs.opcode() == Some(Opcode::Reject) {
                assert_eq!((bhs.0[2], n), (RejectReason::NEGOTIATION_RESET.0, 4));
                break;
            }
            ttt = bhs.ttt();
        }
        assert_eq!(i.read(0, 1).await.status, 0);
    });
}
