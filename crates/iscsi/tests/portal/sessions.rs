//! Sessions of several connections, their ends and their successors.

use crate::fixture::{DISK, Fixture, simulated, target_config};
use crate::initiator::{pattern, rw10};
use iscsi::portal::{CloseReason, Config, ConnectionState};
use iscsi::wire::request::NopOut;
use iscsi::wire::response::LoginStatus;
use iscsi::wire::{Itt, Lun, Opcode};
use std::time::Duration;

#[test]
fn connections_of_a_session_share_its_order() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut a = f.session(&[("MaxConnections", "2")]).await;
        let mut b = f.connect().await;
        (b.tsih, b.cid, b.cmd_sn) = (a.tsih, 1, a.cmd_sn);
        b.login(DISK, &[]).await;
        assert_eq!(b.tsih, a.tsih);
        let mut c = f.connect().await;
        (c.tsih, c.cid, c.cmd_sn) = (a.tsih, 2, a.cmd_sn);
        let (response, _) = c.try_login(DISK, &[]).await;
        assert_eq!(response.status, LoginStatus::TOO_MANY_CONNECTIONS);
        // The write on one connection comes before the read on the other, which arrives first.
        let data = pattern(512, 8);
        let write = a.command(&rw10(0x2a, 0, 1), 512, true);
        b.cmd_sn = a.cmd_sn;
        let read = b.command(&rw10(0x28, 0, 1), 512, false);
        b.send(read.build(), &[]).await;
        assert_eq!(b.ping(b"waiting").await, b"waiting");
        a.send(write.build(), &data).await;
        assert_eq!(a.finish(&data).await.status, 0);
        assert!(b.finish(&[]).await.data == data);
        assert_eq!(f.target.sessions()[0].connections.len(), 2);
        // One connection logs the other out.
        assert_eq!(a.logout(1, 1).await, 0);
        assert!(b.recv().await.is_none());
        assert_eq!(a.logout(1, 9).await, 1, "no such connection");
        a.cmd_sn = read.cmd_sn.next();
        assert_eq!(a.read(0, 1).await.status, 0);
        assert_eq!(
            a.logout(2, 0).await,
            2,
            "recovery of connections is level 2"
        );
    });
}

#[test]
fn a_reset_reaches_tasks_on_the_other_connection() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut a = f.session(&[("MaxConnections", "2")]).await;
        let mut b = f.connect().await;
        (b.tsih, b.cid, b.cmd_sn) = (a.tsih, 1, a.cmd_sn);
        b.login(DISK, &[]).await;
        let write = b.command(&rw10(0x2a, 0, 1), 512, true);
        b.send(write.build(), &[]).await;
        b.expect(Opcode::R2t).await;
        a.cmd_sn = b.cmd_sn;
        assert_eq!(a.task_management(5, Itt::NONE, a.cmd_sn).await, 0);
        let info = &f.target.sessions()[0];
        assert!(info.connections.iter().all(|c| c.in_flight <= 1));
        b.data_out(write.itt, iscsi::wire::Ttt(0), 0, &[1; 512])
            .await;
        assert_eq!(b.ping(b"alive").await, b"alive");
        assert_eq!(f.target.counters().discarded_data, 1);
    });
}

#[test]
fn a_newer_login_of_the_same_port_takes_the_place_of_the_older() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut old = f.session(&[]).await;
        let mut new = f.session(&[]).await;
        assert_ne!(old.tsih, new.tsih);
        assert!(old.recv().await.is_none());
        assert_eq!(f.target.sessions().len(), 1);
        assert_eq!(f.target.counters().closed_for(CloseReason::Reinstated), 1);
        assert_eq!(new.read(0, 1).await.status, 0);
        // A login with the CID of an existing connection.
        let mut again = f.connect().await;
        (again.tsih, again.cmd_sn) = (new.tsih, new.cmd_sn);
        again.login(DISK, &[]).await;
        assert!(new.recv().await.is_none());
        // Another port of the same initiator has a session of its own.
        let mut other = f.connect().await;
        other.isid.0[5] = 77;
        other.login(DISK, &[]).await;
        assert_eq!(f.target.sessions().len(), 2);
    });
}

#[test]
fn the_silent_are_asked_and_then_given_up() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let (bhs, _) = i.expect(Opcode::NopIn).await;
        assert_eq!(bhs.itt(), Itt::NONE);
        let answer = NopOut {
            immediate: true,
            lun: Lun::default(),
            itt: Itt::NONE,
            ttt: bhs.ttt(),
            cmd_sn: i.cmd_sn,
            exp_stat_sn: i.exp_stat_sn,
        };
        i.send(answer.build(), &[]).await;
        i.expect(Opcode::NopIn).await;
        assert!(i.recv().await.is_none());
        assert_eq!(f.target.counters().closed_for(CloseReason::Silent), 1);
    });
}

#[test]
fn draining_asks_for_a_logout_and_serves_until_then() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let mut rude = f.connect().await;
        rude.isid.0[0] = 1;
        rude.login(DISK, &[]).await;
        let target = f.target.clone();
        let drained = io::spawn(async move { target.drain(Duration::from_secs(30)).await });
        let (bhs, _) = i.expect(Opcode::AsyncMessage).await;
        assert_eq!((bhs.0[36], bhs.u16_at(42)), (1, 2));
        assert_eq!(
            f.target
                .counters()
                .in_state(ConnectionState::LogoutRequested),
            2
        );
        assert_eq!(i.read(0, 1).await.status, 0);
        assert_eq!(i.logout(0, 0).await, 0);
        assert!(i.recv().await.is_none());
        drained.await;
        let c = f.target.counters();
        assert_eq!((c.open, c.closed_for(CloseReason::Drained)), (0, 1));
    });
}

/// Immediate data of a write that came after the request to log out was dropped, and the write ended with GOOD.
#[test]
fn a_write_with_immediate_data_is_whole_after_the_request_to_log_out() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        i.immediate_max = 4096;
        let target = f.target.clone();
        let drained = io::spawn(async move { target.drain(Duration::from_secs(30)).await });
        i.expect(Opcode::AsyncMessage).await;
        let data = pattern(16 << 10, 3);
        assert_eq!(i.write(0, &data, 0).await.status, 0);
        assert!(i.read(0, 32).await.data == data);
        assert_eq!(i.logout(0, 0).await, 0);
        drained.await;
    });
}

#[test]
fn whoever_is_sent_away_is_told() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        f.target.disconnect(i.tsih).expect("there");
        let (bhs, _) = i.expect(Opcode::AsyncMessage).await;
        assert_eq!(bhs.0[36], 3, "all connections of the session are dropped");
        assert!(i.recv().await.is_none());
        let mut i = f.session(&[]).await;
        assert_eq!(
            i.task_management(7, Itt::NONE, i.cmd_sn).await,
            0,
            "cold reset"
        );
        assert!(i.recv().await.is_none());
        assert_eq!(f.target.counters().closed_for(CloseReason::Reset), 1);
        let mut i = f.session(&[]).await;
        f.target
            .remove_target(&crate::fixture::name(DISK))
            .expect("there");
        i.expect(Opcode::AsyncMessage).await;
        assert!(f.target.remove_target(&crate::fixture::name(DISK)).is_err());
        io::time::sleep(Duration::from_secs(5)).await;
        assert!(f.target.sessions().is_empty());
    });
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    simulated(|| async {
        let config = Config {
            connections_max: 1,
            ..Config::default()
        };
        let f = Fixture::with(config, target_config(DISK)).await;
        let _first = f.session(&[]).await;
        let mut i = f.connect().await;
        i.isid.0[5] = 77;
        let (response, _) = i.try_login(DISK, &[]).await;
        assert_eq!(response.status, LoginStatus::OUT_OF_RESOURCES);
    });
}
