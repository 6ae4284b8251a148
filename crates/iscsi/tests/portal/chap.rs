//! CHAP: all digests, both directions, wrong answers.

use crate::fixture::{DISK, Fixture, simulated, target_config};
use crate::initiator::{INITIATOR, Initiator, text};
use iscsi::login::{Algorithm, ChapPolicy, Credential, Secret};
use iscsi::portal::{Acl, Authentication, Config, TargetConfig};
use iscsi::wire::response::LoginStatus;
use iscsi::wire::text::{Pairs, binary, number, to_hex};

fn credential(name: &str, secret: &str) -> Credential {
    Credential {
        name: name.into(),
        secret: Secret::new(secret),
    }
}

/// Authentication in both directions.
pub(crate) fn policy(secret: &str) -> ChapPolicy {
    ChapPolicy {
        initiator: credential("user", secret),
        target: Some(credential("disk", "what the disk knows")),
    }
}

async fn fixture() -> Fixture {
    let config = TargetConfig {
        authentication: Authentication::Shared(policy("what the user knows")),
        ..target_config(DISK)
    };
    Fixture::with(Config::default(), config).await
}

/// Begins a login correctly. Returns the target's challenge.
async fn challenged(f: &Fixture, digests: &str) -> (Initiator, Pairs) {
    let mut i = f.connect().await;
    let names = [
        ("InitiatorName", INITIATOR),
        ("TargetName", DISK),
        ("AuthMethod", "CHAP,None"),
    ];
    let (_, pairs) = i
        .login_step(i.login_request(0, Some(1)), &text(&names))
        .await;
    assert_eq!(pairs.get("AuthMethod"), Some("CHAP"));
    let (response, pairs) = i
        .login_step(i.login_request(0, None), &text(&[("CHAP_A", digests)]))
        .await;
    assert!(!response.transit);
    (i, pairs)
}

fn answer(pairs: &Pairs, secret: &str) -> String {
    let chosen = number(pairs.get("CHAP_A").expect("chosen"));
    let algorithm = Algorithm::ALL
        .into_iter()
        .find(|a| Some(*a as u64) == chosen)
        .expect("known");
    let identifier = number(pairs.get("CHAP_I").expect("an identifier")).expect("a number") as u8;
    let challenge = binary(pairs.get("CHAP_C").expect("a challenge"), 1024).expect("binary");
    to_hex(&algorithm.response(identifier, &Secret::new(secret), &challenge))
}

#[test]
fn every_digest_proves_both_ends() {
    simulated(|| async {
        let f = fixture().await;
        for (digests, algorithm) in [
            ("5", Algorithm::Md5),
            ("99,6", Algorithm::Sha1),
            ("7,5", Algorithm::Sha256),
            ("8,7,6,5", Algorithm::Sha3),
        ] {
            let (mut i, pairs) = challenged(&f, digests).await;
            assert_eq!(pairs.get("CHAP_A"), Some(&*(algorithm as u8).to_string()));
            let keys = [
                ("CHAP_N", "user"),
                ("CHAP_R", &answer(&pairs, "what the user knows")),
                ("CHAP_I", "9"),
                ("CHAP_C", "0x0102030405"),
            ];
            let (response, pairs) = i
                .login_step(i.login_request(0, Some(1)), &text(&keys))
                .await;
            assert!(response.transit, "{algorithm:?}");
            let own = algorithm.response(9, &Secret::new("what the disk knows"), &[1, 2, 3, 4, 5]);
            assert_eq!(pairs.get("CHAP_R"), Some(&*to_hex(&own)));
            assert_eq!(pairs.get("CHAP_N"), Some("disk"));
            let (response, _) = i.login_step(i.login_request(1, Some(3)), &[]).await;
            assert!(response.transit && response.tsih != 0);
            assert!(f.target.sessions()[0].authenticated);
        }
    });
}

#[test]
fn whoever_does_not_prove_itself_stays_out() {
    simulated(|| async {
        let f = fixture().await;
        let (_, first) = challenged(&f, "7").await;
        let stale = answer(&first, "what the user knows");
        for (user, response, reflects) in [
            ("user", None, false),
            ("other", None, false),
            ("user", Some(stale), false),
            ("user", Some("0x00".to_owned()), false),
            ("user", None, true),
        ] {
            let (mut i, pairs) = challenged(&f, "7").await;
            let right = answer(&pairs, "what the user knows");
            let wrong = answer(&pairs, "what nobody knows");
            let own = pairs.get("CHAP_C").expect("a challenge").to_owned();
            let r = match (user, response, reflects) {
                (_, Some(r), _) => r,
                ("other", ..) | (_, _, true) => right,
                _ => wrong,
            };
            let mut keys = vec![("CHAP_N", user), ("CHAP_R", &r)];
            if reflects {
                keys.extend([("CHAP_I", "1"), ("CHAP_C", &own)]);
            }
            let (response, pairs) = i
                .login_step(i.login_request(0, Some(1)), &text(&keys))
                .await;
            assert_eq!(response.status, LoginStatus::AUTHENTICATION_FAILURE);
            assert!(pairs.get("CHAP_R").is_none());
            assert!(i.recv().await.is_none());
        }
        // A login that leaves the security stage out.
        let mut i = f.connect().await;
        let (response, _) = i.try_login(DISK, &[]).await;
        assert_eq!(response.status, LoginStatus::AUTHENTICATION_FAILURE);
        assert!(f.target.sessions().is_empty());
    });
}

#[test]
fn too_many_wrong_secrets_are_not_even_challenged_for_a_while() {
    simulated(|| async {
        let f = fixture().await;
        for n in 0..5 {
            let (mut i, pairs) = challenged(&f, "5").await;
            let wrong = answer(&pairs, "wrong");
            let keys = match n {
                // A malformed answer does not clear the wrong answers before it.
                3 => text(&[("CHAP_N", "user")]),
                _ => text(&[("CHAP_N", "user"), ("CHAP_R", &wrong)]),
            };
            i.login_step(i.login_request(0, Some(1)), &keys).await;
        }
        let try_again = || async {
            let mut i = f.connect().await;
            let names = [
                ("InitiatorName", INITIATOR),
                ("TargetName", DISK),
                ("AuthMethod", "CHAP"),
            ];
            i.login_step(i.login_request(0, None), &text(&names)).await;
            i.login_step(i.login_request(0, None), &text(&[("CHAP_A", "5")]))
                .await
                .0
                .status
        };
        assert_eq!(try_again().await, LoginStatus::AUTHENTICATION_FAILURE);
        io::time::sleep(std::time::Duration::from_secs(2)).await;
        assert_eq!(try_again().await, LoginStatus::SUCCESS);
    });
}

#[test]
fn a_secret_that_is_replaced_amid_a_login_is_the_old_one() {
    simulated(|| async {
        let f = fixture().await;
        let (mut i, pairs) = challenged(&f, "7").await;
        let new = Authentication::Shared(policy("what the user knows now"));
        f.target
            .set_access(&crate::fixture::name(DISK), Acl::Any, new)
            .expect("there");
        let keys = [
            ("CHAP_N", "user"),
            ("CHAP_R", &*answer(&pairs, "what the user knows")),
        ];
        let (response, _) = i
            .login_step(i.login_request(0, Some(3)), &text(&keys))
            .await;
        assert_eq!(response.status, LoginStatus::AUTHENTICATION_FAILURE);
        assert!(f.target.sessions().is_empty());
        // The new secret is right, and a session that proved the old one stays.
        let (mut i, pairs) = challenged(&f, "7").await;
        let keys = [
            ("CHAP_N", "user"),
            ("CHAP_R", &*answer(&pairs, "what the user knows now")),
        ];
        let (response, _) = i
            .login_step(i.login_request(0, Some(3)), &text(&keys))
            .await;
        assert_eq!(response.status, LoginStatus::SUCCESS);
        let newer = Authentication::Shared(policy("what the user knows next"));
        f.target
            .set_access(&crate::fixture::name(DISK), Acl::Any, newer)
            .expect("there");
        assert_eq!(f.target.sessions().len(), 1);
    });
}
