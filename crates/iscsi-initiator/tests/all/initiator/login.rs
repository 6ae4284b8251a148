//! Targets that violate the login protocol, and endless discoveries.

use crate::initiator::fake::{Fake, Peer};
use crate::initiator::{config, name, run};
use iscsi::login::{Credential, Secret};
use iscsi::wire::response::{LoginResponse, LoginStatus, nop_in, text_response};
use iscsi::wire::{Itt, Lun, Opcode, Ttt};
use iscsi_initiator::{Chap, Config, Error, ProtocolError, Session, discover};
use std::time::Duration;

/// Answers the login request of each number with a response and a text.
fn answers(
    how: impl Fn(usize, LoginResponse) -> (LoginResponse, Vec<u8>) + Clone + 'static,
) -> Fake {
    Fake::start(false, move |_, mut peer: Peer| {
        let how = how.clone();
        async move {
            let mut n = 0;
            while peer.login_request().await.is_some() {
                let (response, text) = how(n, peer.login_response());
                peer.send(response.build(), &text).await;
                n += 1;
            }
        }
    })
}

fn fails(
    expected: impl Into<Error>,
    how: impl Fn(usize, LoginResponse) -> (LoginResponse, Vec<u8>) + Clone + 'static,
) {
    let expected = expected.into();
    run(move || {
        let (how, expected) = (how.clone(), expected.clone());
        async move {
            let fake = answers(how);
            let got = Session::connect(config(&fake)).await.map(drop);
            assert_eq!(got, Err(expected));
        }
    });
}

#[test]
fn logins_without_end() {
    let limit = ProtocolError::Limit("a login without end");
    fails(limit, |_, r| {
        (
            LoginResponse {
                transit: false,
                ..r
            },
            Vec::new(),
        )
    });
    fails(limit, |n, r| {
        let transit = r.transit && n == 0;
        (LoginResponse { transit, ..r }, b"X-a=1\0".to_vec())
    });
}

#[test]
fn texts_without_end() {
    let fake_text = |len: usize| {
        move || async move {
            let fake = Fake::start(false, move |_, mut peer: Peer| async move {
                while peer.login_request().await.is_some() {
                    let response = LoginResponse {
                        transit: false,
                        ..peer.login_response()
                    };
                    let mut bhs = response.build();
                    // C: more text follows.
                    bhs.0[1] |= 0x40;
                    peer.send(bhs, &vec![b'a'; len]).await;
                }
            });
            let got = Session::connect(config(&fake)).await.map(drop);
            let limits = [
                ProtocolError::Limit("a login text without end"),
                ProtocolError::Limit("a login without end"),
            ];
            let limits = limits.map(|l| Err(Error::from(l)));
            assert!(limits.contains(&got), "{got:?}");
        }
    };
    for len in [0, 1, 8000] {
        run(fake_text(len));
    }
}

#[test]
fn responses_that_do_not_fit_the_request() {
    fails(ProtocolError::NoTask, |_, r| {
        (LoginResponse { itt: Itt(5), ..r }, Vec::new())
    });
    let stage = ProtocolError::Unexpected("a login stage that was not asked for");
    fails(stage, |_, r| (LoginResponse { csg: 1, ..r }, Vec::new()));
    fails(stage, |_, r| (LoginResponse { nsg: 3, ..r }, Vec::new()));
    let handle = ProtocolError::Unexpected("a session without a handle");
    fails(handle, |_, r| (LoginResponse { tsih: 0, ..r }, Vec::new()));
    let malformed = ProtocolError::Text(iscsi::wire::text::TextError::Malformed);
    fails(malformed, |_, r| (r, b"no pair\0".to_vec()));
    for status in [
        LoginStatus::NOT_FOUND,
        LoginStatus::SERVICE_UNAVAILABLE,
        LoginStatus::MOVED_TEMPORARILY,
        LoginStatus(0x0777),
    ] {
        fails(Error::LoginRefused(status), move |_, r| {
            (LoginResponse { status, ..r }, Vec::new())
        });
    }
}

#[test]
fn answers_that_were_not_offered() {
    for (key, value) in [
        ("HeaderDigest", "CRC32C"),
        ("DataDigest", "MD5"),
        ("MaxRecvDataSegmentLength", "0"),
        ("MaxRecvDataSegmentLength", "99999999"),
        ("MaxBurstLength", "16777215"),
        ("FirstBurstLength", "1"),
        ("MaxOutstandingR2T", "0"),
        ("ErrorRecoveryLevel", "2"),
        ("MaxConnections", "8"),
        ("DataPDUInOrder", "No"),
        ("DefaultTime2Wait", "-1"),
        ("InitialR2T", "Perhaps"),
    ] {
        fails(ProtocolError::Key(key), move |_, r| {
            let text = if r.csg == 1 {
                format!("{key}={value}\0").into_bytes()
            } else {
                Vec::new()
            };
            (r, text)
        });
    }
}

#[test]
fn a_redirection_without_end_is_not_followed() {
    run(|| async {
        let fake = Fake::start(false, |_, mut peer: Peer| async move {
            if peer.login_request().await.is_some() {
                let status = LoginStatus::MOVED_PERMANENTLY;
                let response = LoginResponse {
                    status,
                    transit: false,
                    ..peer.login_response()
                };
                let here = peer.local();
                let text = format!("TargetAddress={here},1\0");
                peer.send(response.build(), text.as_bytes()).await;
            }
        });
        let got = Session::connect(config(&fake)).await.map(drop);
        let limit = ProtocolError::Limit("redirections without end");
        assert_eq!(got, Err(limit.into()));
        assert_eq!(fake.connections.get(), 5);
    });
}

/// A target that answers the security stage with `texts`, one per request, to an initiator that requires mutual
/// authentication.
fn unproven(texts: &'static [&'static str], transit: bool) {
    run(move || async move {
        let fake = answers(move |n, r| {
            let text = texts.get(n).unwrap_or(&"");
            let transit = r.transit && transit;
            (
                LoginResponse { transit, ..r },
                text.replace('|', "\0").into_bytes(),
            )
        });
        let credential = |name: &str, secret: &str| Credential {
            name: name.into(),
            secret: Secret::new(secret.as_bytes()),
        };
        let theirs = credential("disk", "the target's own secret");
        let chap = Chap::new(credential("user", "the initiator's secret"), Some(theirs));
        let c = Config {
            chap: Some(chap),
            ..config(&fake)
        };
        let got = Session::connect(c).await.map(drop);
        assert!(
            matches!(got, Err(Error::Authentication(_))),
            "{texts:?}: {got:?}"
        );
    });
}

#[test]
fn targets_that_do_not_prove_themselves() {
    const CHALLENGE: &str = "CHAP_A=7|CHAP_I=1|CHAP_C=0x0102030405060708|";
    unproven(&["AuthMethod=None|"], true);
    unproven(&["AuthMethod=KRB5|"], true);
    unproven(
        &["AuthMethod=CHAP|", "CHAP_A=99|CHAP_I=1|CHAP_C=0x01|"],
        true,
    );
    unproven(
        &["AuthMethod=CHAP|", "CHAP_A=7|CHAP_I=256|CHAP_C=0x01|"],
        true,
    );
    unproven(
        &["AuthMethod=CHAP|", "CHAP_A=7|CHAP_I=1|CHAP_C=nothing|"],
        true,
    );
    unproven(&["AuthMethod=CHAP|", "CHAP_A=7|"], true);
    unproven(&["AuthMethod=CHAP|", CHALLENGE, ""], true);
    unproven(
        &["AuthMethod=CHAP|", CHALLENGE, "CHAP_N=disk|CHAP_R=0x00|"],
        true,
    );
    unproven(&["AuthMethod=CHAP|", CHALLENGE, ""], false);
}

#[test]
fn discoveries_without_end_and_without_sense() {
    let discovers = |how: fn(usize, Itt) -> (bool, Ttt, Vec<u8>)| {
        move || async move {
            let fake = Fake::start(false, move |_, mut peer: Peer| async move {
                peer.log_in().await;
                let mut n = 0;
                while let Some((bhs, _)) = peer.recv().await {
                    if bhs.opcode() == Some(Opcode::NopOut) {
                        continue;
                    }
                    let (last, ttt, text) = how(n, bhs.itt());
                    peer.send(text_response(bhs.itt(), last, !last, ttt), &text)
                        .await;
                    peer.send(nop_in(Itt::NONE, Ttt(n as u32), Lun::default()), &[])
                        .await;
                    n += 1;
                }
            });
            let me = name("iqn.2026-11.test:initiator");
            let limit = Duration::from_secs(60);
            let got = discover(fake.addr, &me, None, limit).await;
            assert!(
                matches!(got, Err(Error::Protocol(_) | Error::Malformed(_))),
                "{got:?}"
            );
        }
    };
    run(discovers(|_, _| (false, Ttt(1), b"X-a=1\0".to_vec())));
    run(discovers(|_, _| (false, Ttt(1), Vec::new())));
    run(discovers(|_, _| (false, Ttt(1), vec![b'x'; 60_000])));
    run(discovers(|_, _| (false, Ttt::NONE, b"X-a=1\0".to_vec())));
    run(discovers(|_, _| {
        (true, Ttt::NONE, b"TargetName=nonsense\0".to_vec())
    }));
    run(discovers(|_, _| {
        (true, Ttt::NONE, b"TargetAddress=1.2.3.4\0".to_vec())
    }));
}
