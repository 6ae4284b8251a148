//! Logins, discovery, and the reasons of §11.13.5.

use crate::fixture::{DISK, Fixture, name, simulated, target_config};
use crate::initiator::{INITIATOR, text};
use iscsi::portal::{Acl, Config, IscsiTransport, Portal, Redirect, TargetConfig};
use iscsi::wire::response::LoginStatus;
use iscsi::wire::text::Pairs;
use iscsi::wire::{Opcode, Ttt};

#[test]
fn a_login_negotiates_and_says_who_it_is() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.connect().await;
        let keys = [
            ("InitialR2T", "No"),
            ("MaxBurstLength", "16384"),
            ("X-unknown", "1"),
        ];
        let (response, pairs) = i.try_login(DISK, &keys).await;
        assert_eq!(
            (response.status, response.csg, response.nsg),
            (LoginStatus::SUCCESS, 1, 3)
        );
        for (key, value) in [
            ("TargetPortalGroupTag", "1"),
            ("TargetAlias", "a disk"),
            ("InitialR2T", "No"),
            ("MaxBurstLength", "16384"),
            ("X-unknown", "NotUnderstood"),
            ("MaxRecvDataSegmentLength", "262144"),
        ] {
            assert_eq!(pairs.get(key), Some(value), "{key}");
        }
        let s = &f.target.sessions()[0];
        assert_eq!(
            (s.initiator.as_str(), s.parameters.max_burst),
            (INITIATOR, 16384)
        );
        assert_eq!(s.connections.len(), 1);
        assert_eq!(i.logout(0, 0).await, 0);
        assert!(i.recv().await.is_none());
        assert!(f.target.sessions().is_empty());
    });
}

#[test]
fn text_may_come_in_many_pdus() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.connect().await;
        let data = text(&[("InitiatorName", INITIATOR), ("TargetName", DISK)]);
        for chunk in data.chunks(20) {
            let mut r = i.login_request(1, None);
            r.more = true;
            let (response, pairs) = i.login_step(r, chunk).await;
            assert!(!response.transit && pairs.is_empty());
        }
        let (response, _) = i.login_step(i.login_request(1, Some(3)), &[]).await;
        assert_eq!(
            (response.status, response.transit),
            (LoginStatus::SUCCESS, true)
        );
    });
}

#[test]
fn refusals_name_their_reason() {
    simulated(|| async {
        let closed = TargetConfig {
            acl: Acl::List([name("iqn.2026-11.test:other")].into()),
            ..target_config("iqn.2026-11.test:closed")
        };
        let f = Fixture::with(Config::default(), closed).await;
        f.target.add_target(target_config(DISK)).expect("new");
        for (permanently, status) in [
            (false, LoginStatus::MOVED_TEMPORARILY),
            (true, LoginStatus::MOVED_PERMANENTLY),
        ] {
            let moved = format!("iqn.2026-11.test:moved{}", status.0);
            f.target
                .add_target(TargetConfig {
                    redirect: Some(Redirect {
                        address: "192.0.2.1:3260,1".into(),
                        permanently,
                    }),
                    ..target_config(&moved)
                })
                .expect("new");
            let mut i = f.connect().await;
            let (response, pairs) = i.try_login(&moved, &[]).await;
            assert_eq!(response.status, status);
            assert_eq!(pairs.get("TargetAddress"), Some("192.0.2.1:3260,1"));
            assert!(i.recv().await.is_none());
        }
        let me = ("InitiatorName", INITIATOR);
        let table: [(&[(&str, &str)], LoginStatus); 7] = [
            (
                &[me, ("TargetName", "iqn.2026-11.test:none")],
                LoginStatus::NOT_FOUND,
            ),
            (&[me, ("TargetName", "no name")], LoginStatus::NOT_FOUND),
            (
                &[me, ("TargetName", "iqn.2026-11.test:closed")],
                LoginStatus::NOT_FOUND,
            ),
            (&[me], LoginStatus::MISSING_PARAMETER),
            (&[("TargetName", DISK)], LoginStatus::MISSING_PARAMETER),
            (
                &[me, ("SessionType", "Odd")],
                LoginStatus::SESSION_TYPE_NOT_SUPPORTED,
            ),
            (
                &[me, ("TargetName", DISK), ("TargetAddress", "x")],
                LoginStatus::INITIATOR_ERROR,
            ),
        ];
        for (keys, status) in table {
            let mut i = f.connect().await;
            let (response, _) = i.login_step(i.login_request(1, Some(3)), &text(keys)).await;
            assert_eq!(response.status, status, "{keys:?}");
            assert!(i.recv().await.is_none(), "{keys:?}");
            assert!(f.target.counters().refused_with(status) > 0);
        }
        let mut i = f.connect().await;
        i.tsih = 99;
        let (response, _) = i.try_login(DISK, &[]).await;
        assert_eq!(response.status, LoginStatus::SESSION_DOES_NOT_EXIST);
        let mut i = f.connect().await;
        let mut r = i.login_request(1, Some(3));
        r.version_min = 1;
        let (response, _) = i.login_step(r, &[]).await;
        assert_eq!(response.status, LoginStatus::UNSUPPORTED_VERSION);
    });
}

#[test]
fn discovery_lists_what_is_open_in_as_many_pieces_as_asked_for() {
    simulated(|| async {
        let f = Fixture::new().await;
        for n in 0..30 {
            f.target
                .add_target(target_config(&format!("iqn.2026-11.test:disk{n:02}")))
                .expect("new");
        }
        let hidden = TargetConfig {
            acl: Acl::List([].into()),
            ..target_config("iqn.2026-11.test:hidden")
        };
        f.target.add_target(hidden).expect("new");
        let portal = |address, group| Portal {
            address,
            group,
            transport: IscsiTransport::Tcp,
        };
        f.target.set_portals(vec![
            portal(f.addr, 1),
            portal("192.0.2.9:3260".parse().expect("an address"), 2),
        ]);
        let mut i = f.connect().await;
        let keys = [
            ("InitiatorName", INITIATOR),
            ("SessionType", "Discovery"),
            ("MaxRecvDataSegmentLength", "512"),
        ];
        let (response, _) = i
            .login_step(i.login_request(1, Some(3)), &text(&keys))
            .await;
        assert_eq!(response.status, LoginStatus::SUCCESS);
        let mut all = Vec::new();
        let mut request = i.text_request(Ttt::NONE, false);
        let mut data = text(&[("SendTargets", "All")]);
        loop {
            i.send(request.build(), &data).await;
            let (bhs, part) = i.expect(Opcode::TextResponse).await;
            assert!(part.len() <= 512);
            all.extend(part);
            if bhs.is_final() {
                assert_eq!(bhs.ttt(), Ttt::NONE);
                break;
            }
            request = i.text_request(bhs.ttt(), false);
            data.clear();
        }
        let all = String::from_utf8(all).expect("text");
        assert_eq!(all.matches("TargetName=").count(), 31);
        assert_eq!(
            all.matches(&format!("TargetAddress={},1\0", f.addr))
                .count(),
            31
        );
        assert!(!all.contains("hidden") && !all.contains("192.0.2.9"));
        let request = i_text(&mut i);
        i.send(request, &text(&[("SendTargets", DISK)])).await;
        let (_, one) = i.expect(Opcode::TextResponse).await;
        assert_eq!(
            Pairs::parse(&one).expect("text").get("TargetName"),
            Some(DISK)
        );
    });
}

fn i_text(i: &mut crate::initiator::Initiator) -> iscsi::wire::Bhs {
    i.text_request(Ttt::NONE, false).build()
}
