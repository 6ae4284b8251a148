//! Logins: authentication, refusals, redirections, discovery.

use crate::pair::{DISK, config, connect, name, run, serve, target, target_config};
use iscsi::login::{Algorithm, ChapPolicy, Credential, Secret};
use iscsi::portal::{
    Authentication, Config as Settings, IscsiTransport, Portal, Redirect, Target, TargetConfig,
};
use iscsi::wire::response::LoginStatus;
use iscsi_initiator::{Chap, Config, Error, Session, discover};
use std::time::Duration;

fn credential(name: &str, secret: &str) -> Credential {
    Credential {
        name: name.into(),
        secret: Secret::new(secret.as_bytes()),
    }
}

fn policy(mutual: bool) -> Authentication {
    Authentication::Shared(ChapPolicy {
        initiator: credential("user", "the initiator's secret"),
        target: mutual.then(|| credential("disk", "the target's own secret")),
    })
}

fn guarded(authentication: Authentication) -> Target {
    let target = Target::new(Settings::default());
    target
        .add_target(target_config(authentication))
        .expect("a new name");
    target
}

#[test]
fn only_the_right_secrets_authenticate() {
    let own = || credential("user", "the initiator's secret");
    let theirs = || Some(credential("disk", "the target's own secret"));
    let chap = |initiator, target| Some(Chap::new(initiator, target));
    run(move || async move {
        let cases = [
            (false, chap(own(), None), true),
            (true, chap(own(), None), true),
            (true, chap(own(), theirs()), true),
            (
                false,
                chap(credential("user", "another secret"), None),
                false,
            ),
            (
                false,
                chap(credential("other", "the initiator's secret"), None),
                false,
            ),
            (false, None, false),
            // The target cannot authenticate itself, has another secret, or both directions have the same secret.
            (false, chap(own(), theirs()), false),
            (
                true,
                chap(own(), Some(credential("disk", "not its secret"))),
                false,
            ),
            (
                true,
                chap(own(), Some(credential("mask", "the target's own secret"))),
                false,
            ),
            (
                true,
                chap(own(), Some(credential("disk", "the initiator's secret"))),
                false,
            ),
        ];
        for (i, (mutual, chap, opens)) in cases.into_iter().enumerate() {
            let c = Config {
                chap,
                ..config(serve(&guarded(policy(mutual))))
            };
            let got = Session::connect(c).await.map(drop);
            assert_eq!(got.is_ok(), opens, "case {i}: {got:?}");
            if let Err(error) = got {
                let refused = Error::LoginRefused(LoginStatus::AUTHENTICATION_FAILURE);
                let unproven = matches!(error, Error::Authentication(_));
                assert!(unproven || error == refused, "case {i}: {error}");
            }
        }
    });
}

#[test]
fn every_digest_proves_a_secret() {
    run(|| async {
        for algorithm in Algorithm::ALL {
            let own = credential("user", "the initiator's secret");
            let theirs = credential("disk", "the target's own secret");
            let c = Config {
                chap: Some(Chap {
                    algorithms: vec![algorithm],
                    ..Chap::new(own, Some(theirs))
                }),
                ..config(serve(&guarded(policy(true))))
            };
            connect(c).await.0.log_out().await;
        }
    });
}

#[test]
fn a_secret_is_offered_to_a_target_without_one_but_not_needed() {
    run(|| async {
        let mut chap = Chap::new(credential("user", "the initiator's secret"), None);
        let addr = serve(&target(Settings::default()));
        let c = Config {
            chap: Some(chap.clone()),
            ..config(addr)
        };
        connect(c).await.0.log_out().await;
        chap.target = Some(credential("disk", "the target's own secret"));
        let c = Config {
            chap: Some(chap),
            ..config(addr)
        };
        assert!(Session::connect(c).await.is_err(), "it must prove itself");
    });
}

#[test]
fn unknown_targets_are_refused() {
    run(|| async {
        let addr = serve(&target(Settings::default()));
        let c = Config {
            target: name("iqn.2026-11.test:other"),
            ..config(addr)
        };
        let got = Session::connect(c).await.map(drop);
        assert_eq!(got, Err(Error::LoginRefused(LoginStatus::NOT_FOUND)));
    });
}

#[test]
fn redirections_are_followed_and_circles_refused() {
    run(|| async {
        let here = serve(&target(Settings::default()));
        let moved = |address: String| {
            let target = Target::new(Settings::default());
            let redirect = Some(Redirect {
                address,
                permanently: false,
            });
            let config = TargetConfig {
                redirect,
                ..target_config(Authentication::None)
            };
            target.add_target(config).expect("a new name");
            target
        };
        let there = serve(&moved(format!("{here},1")));
        let (session, _unit) = connect(config(there)).await;
        assert_eq!(session.link().expect("connected").portal, here);
        let lost = serve(&moved("disks.example:3260".into()));
        let got = Session::connect(config(lost)).await.map(drop);
        assert!(
            matches!(got, Err(Error::Malformed(_))),
            "names are not looked up: {got:?}"
        );
    });
}

#[test]
fn discovery_names_targets_and_portals() {
    run(|| async {
        let target = target(Settings::default());
        let second = TargetConfig {
            name: name("iqn.2026-11.test:second"),
            ..target_config(Authentication::None)
        };
        target.add_target(second).expect("a new name");
        let addr = serve(&target);
        target.set_portals(vec![Portal {
            address: addr,
            group: 1,
            transport: IscsiTransport::Tcp,
        }]);
        let me = name("iqn.2026-11.test:initiator");
        let limit = Duration::from_secs(5);
        let found = discover(addr, &me, None, limit).await.expect("answered");
        let names: Vec<&str> = found.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, [DISK, "iqn.2026-11.test:second"]);
        assert_eq!(found[0].portals(addr), [addr]);
    });
}
