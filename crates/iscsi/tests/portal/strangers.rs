//! Strangers: silent connections, discovery sessions and unlisted initiators keep no listed initiator out; a change of access
//! also applies to a login under way; a forbidden name looks like a name that does not exist.

use crate::fixture::{DISK, Fixture, name, simulated, target_config};
use crate::initiator::{INITIATOR, Initiator, text};
use io::sim::Node;
use iscsi::portal::{Acl, Authentication, Config, Target, TargetConfig};
use iscsi::wire::Isid;
use iscsi::wire::response::{LoginResponse, LoginStatus};
use std::net::SocketAddr;
use std::time::Duration;

/// Pause of an attacker before it connects again.
const AGAIN: Duration = Duration::from_secs(1);
const OPEN: &str = "iqn.2026-11.test:open";

/// A disk for one listed initiator, and a disk for all initiators.
async fn serve(config: Config) -> (Target, SocketAddr) {
    let listed = TargetConfig {
        acl: Acl::List([name(INITIATOR)].into()),
        ..target_config(DISK)
    };
    let f = Fixture::with(config, listed).await;
    f.target.add_target(target_config(OPEN)).expect("new");
    (f.target, f.addr)
}

/// The listed initiator logs in and reads a block.
async fn works(from: Node, addr: SocketAddr) {
    from.spawn(async move {
        let mut i = Initiator::connect(addr).await;
        i.isid = Isid([0x80, 9, 9, 9, 9, 9]);
        i.login(DISK, &[]).await;
        i.clear_attentions().await;
        assert_eq!(i.read(0, 1).await.status, 0);
        assert_eq!(i.logout(0, 0).await, 0);
    })
    .await
    .expect("not killed");
}

fn isid(n: usize) -> Isid {
    Isid([0x80, 0, 0, 7, (n >> 8) as u8, n as u8])
}

/// Logs in under a name on no list, to a target or for discovery.
async fn stranger(addr: SocketAddr, n: usize, target: Option<&str>) -> (Initiator, LoginResponse) {
    let mut i = Initiator::connect(addr).await;
    i.isid = isid(n);
    let name = format!("iqn.2026-11.test:stranger{n}");
    let to = match target {
        Some(t) => ("TargetName", t),
        None => ("SessionType", "Discovery"),
    };
    let keys = text(&[("InitiatorName", &name), to]);
    let (response, _) = i.login_step(i.login_request(1, Some(3)), &keys).await;
    (i, response)
}

#[test]
fn thousands_of_silent_connections_keep_no_listed_initiator_out() {
    simulated(|| async {
        let (_target, addr) = serve(Config::default()).await;
        let attacker = Node::new();
        for _ in 0..6000 {
            drop(attacker.spawn(async move {
                loop {
                    if let Some(mut i) = Initiator::try_connect(addr).await {
                        drop(i.recv().await);
                    }
                    io::time::sleep(AGAIN).await;
                }
            }));
        }
        io::time::sleep(Duration::from_secs(1)).await;
        works(Node::new(), addr).await;
        works(attacker, addr).await;
        attacker.kill();
    });
}

#[test]
fn refused_logins_that_linger_keep_no_listed_initiator_out() {
    simulated(|| async {
        let (_target, addr) = serve(Config {
            connections_max: 64,
            ..Config::default()
        })
        .await;
        let attacker = Node::new();
        for n in 0..400 {
            drop(attacker.spawn(async move {
                loop {
                    if let Some(mut i) = Initiator::try_connect(addr).await {
                        i.isid = isid(n);
                        let request = i.login_request(1, Some(3)).build();
                        i.send(request, &text(&[("InitiatorName", "x")])).await;
                        // The connection is refused, and stays open for the linger time.
                        while i.recv().await.is_some() {}
                    }
                    io::time::sleep(AGAIN).await;
                }
            }));
        }
        io::time::sleep(Duration::from_secs(1)).await;
        works(Node::new(), addr).await;
        attacker.kill();
    });
}

#[test]
fn discovery_sessions_take_no_places_of_normal_ones() {
    simulated(|| async {
        let (target, addr) = serve(Config::default()).await;
        let attacker = Node::new();
        let held = attacker.spawn(async move {
            let mut held = Vec::new();
            for n in 0..1500 {
                held.push(stranger(addr, n, None).await.0);
            }
            held
        });
        let held = held.await.expect("not killed");
        works(Node::new(), addr).await;
        assert!(
            target.sessions().len() <= 256,
            "{}",
            target.sessions().len()
        );
        let newest = stranger(addr, 1500, None).await.1;
        assert_eq!(newest.status, LoginStatus::SUCCESS);
        drop(held);
    });
}

#[test]
fn initiators_on_no_list_leave_a_reserve_for_those_on_one() {
    simulated(|| async {
        let (target, addr) = serve(Config {
            sessions_max: 64,
            ..Config::default()
        })
        .await;
        let mut held = Vec::new();
        for n in 0..80 {
            held.push(stranger(addr, n, Some(OPEN)).await.0);
        }
        assert_eq!(target.sessions().len(), 56);
        works(Node::new(), addr).await;
    });
}

/// A login to the disk after its security stage.
async fn amid_login(f: &Fixture) -> Initiator {
    let mut i = f.connect().await;
    let names = [
        ("InitiatorName", INITIATOR),
        ("TargetName", DISK),
        ("AuthMethod", "None"),
    ];
    let (response, _) = i
        .login_step(i.login_request(0, Some(1)), &text(&names))
        .await;
    assert_eq!(response.status, LoginStatus::SUCCESS);
    i
}

async fn finish(i: &mut Initiator) -> LoginStatus {
    let (response, _) = i.login_step(i.login_request(1, Some(3)), &[]).await;
    response.status
}

#[test]
fn an_initiator_that_is_denied_amid_its_login_stays_out() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = amid_login(&f).await;
        let nobody = Acl::List([].into());
        f.target
            .set_access(&name(DISK), nobody, Authentication::None)
            .expect("there");
        assert_ne!(finish(&mut i).await, LoginStatus::SUCCESS);
        assert!(f.target.sessions().is_empty());
    });
}

#[test]
fn a_target_that_asks_for_a_secret_amid_a_login_gets_one() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = amid_login(&f).await;
        let secret = Authentication::Shared(crate::chap::policy("a secret that is new"));
        f.target
            .set_access(&name(DISK), Acl::Any, secret)
            .expect("there");
        assert_eq!(finish(&mut i).await, LoginStatus::AUTHENTICATION_FAILURE);
        assert!(f.target.sessions().is_empty());
    });
}

#[test]
fn a_target_that_went_and_came_amid_a_login_is_another() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = amid_login(&f).await;
        f.target.remove_target(&name(DISK)).expect("there");
        let closed = TargetConfig {
            acl: Acl::List([].into()),
            ..target_config(DISK)
        };
        f.target.add_target(closed).expect("new");
        assert_ne!(finish(&mut i).await, LoginStatus::SUCCESS);
        assert!(f.target.sessions().is_empty());
    });
}

#[test]
fn initiators_without_a_secret_any_more_lose_their_sessions() {
    simulated(|| async {
        let f = Fixture::new().await;
        let mut i = f.session(&[]).await;
        let each = Authentication::Each([].into());
        f.target
            .set_access(&name(DISK), Acl::Any, each)
            .expect("there");
        i.recv().await.expect("told");
        assert!(i.recv().await.is_none());
        assert!(f.target.sessions().is_empty());
    });
}

#[test]
fn a_forbidden_target_looks_like_none() {
    simulated(|| async {
        let f = Fixture::new().await;
        let closed = TargetConfig {
            acl: Acl::List([].into()),
            ..target_config("iqn.2026-11.test:closed")
        };
        let unnamed = TargetConfig {
            authentication: Authentication::Each([].into()),
            ..target_config("iqn.2026-11.test:secret")
        };
        for hidden in [closed, unnamed] {
            f.target.add_target(hidden).expect("new");
        }
        let mut seen = Vec::new();
        for target in ["closed", "secret", "missing"] {
            let mut i = f.connect().await;
            let target = format!("iqn.2026-11.test:{target}");
            let names = [("InitiatorName", INITIATOR), ("TargetName", &target)];
            i.send(i.login_request(1, Some(3)).build(), &text(&names))
                .await;
            let (mut bhs, data) = i.recv().await.expect("an answer");
            // Each connection begins with a StatSN of its own.
            bhs.0[24..28].fill(0);
            seen.push((bhs.0, data));
        }
        assert!(seen[0] == seen[2] && seen[1] == seen[2], "{seen:?}");
        let c = f.target.counters();
        // The server's counters have the real reasons.
        assert_eq!(c.refused_with(LoginStatus::AUTHORIZATION_FAILURE), 1);
        assert_eq!(c.refused_with(LoginStatus::AUTHENTICATION_FAILURE), 1);
        assert_eq!(c.refused_with(LoginStatus::NOT_FOUND), 1);
        let (hosts, _) = f.target.refused();
        let mut asked: Vec<_> = hosts.iter().map(|(h, _)| (&*h.name, &*h.export)).collect();
        asked.sort_unstable();
        let of = |target| (INITIATOR, target);
        assert_eq!(
            asked,
            [of("iqn.2026-11.test:closed"), of("iqn.2026-11.test:secret")]
        );
    });
}
