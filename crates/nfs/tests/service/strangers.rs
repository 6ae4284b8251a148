//! Hosts that no export admits, and hosts whose rules cannot be resolved now.

use crate::client::{Client, FORE};
use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, config, export, open, simulated};
use io::sim::Node;
use nfs::export::{ExportConfig, Hosts, Rule};
use nfs::service::ServiceConfig;
use nfs::wire::channel::{Channel, CreateSession, ExchangeId, StateProtection};
use nfs::wire::files::CreateHow;
use nfs::wire::{Op, Status};
use std::net::IpAddr;

/// The address of a machine.
fn address(machine: Node) -> IpAddr {
    machine.addr(1).ip()
}

/// An export that only this address may use.
fn home_of(address: IpAddr) -> ExportConfig {
    let hosts = Hosts::Network(address, 32);
    export(
        1,
        "/tank/home",
        Rule {
            hosts,
            ..all_rights()
        },
    )
}

/// The status of operations on the object of a path, in the session.
async fn status_at(client: &mut Client, path: &[&str], operations: &[Op<'_>]) -> Status {
    let mut all = vec![client.next_sequence(false), Op::PutRootFh];
    let names = path.iter().map(|name| Op::Lookup {
        name: name.as_bytes(),
    });
    all.extend(names);
    all.extend_from_slice(operations);
    client.compound(&all).await.status
}

/// A client that asks for a session of 64 slots. Returns the status of the first operation that failed, and the granted slots.
async fn ask_for_session(client: &mut Client, owner: &[u8]) -> (Status, u32) {
    let exchange = ExchangeId {
        verifier: [1; 8],
        owner,
        flags: 0,
        protection: StateProtection::None,
        implementation: None,
    };
    let mut results = client.compound(&[Op::ExchangeId(Box::new(exchange))]).await;
    if results.status != Status::Ok {
        return (results.status, 0);
    }
    results.skip(8);
    client.id = results.u64();
    let create = CreateSession {
        client: client.id,
        sequence: results.u32(),
        flags: 0,
        fore: Channel { slots: 64, ..FORE },
        back: client.back,
        callback_program: 1,
        security: Vec::new(),
    };
    let mut results = client
        .compound(&[Op::CreateSession(Box::new(create))])
        .await;
    if results.status != Status::Ok {
        return (results.status, 0);
    }
    results.skip(8);
    client.session = results.read(|r| r.array().expect("a session ID"));
    client.sequence = 0;
    // Sequence number, flags, and five limits of the fore channel.
    results.skip(4 * 7);
    (Status::Ok, results.u32())
}

/// Regression: an address in no export made 1,059 clients with sessions of 64 slots in 0.2 s. Until their leases ended, every new
/// client of an export was told NFS4ERR_DELAY.
#[test]
fn strangers_do_not_lock_out_clients_of_exports() {
    simulated(|| async {
        let (good, bad) = (Node::new(), Node::new());
        let config = ServiceConfig {
            clients_max: 256,
            slots_max: 1024,
            ..config()
        };
        let fixture = Fixture::of(home_of(address(good)), config).await;
        let addr = fixture.addr;
        let flood = bad.spawn(async move {
            let mut client = Client::connect(addr).await;
            for n in 0..600_u32 {
                let (status, slots) = ask_for_session(&mut client, &n.to_be_bytes()).await;
                assert_eq!((status, slots), (Status::Ok, 1));
            }
            // Its own newest session works, and it sees nothing.
            assert_eq!(status_at(&mut client, &["tank"], &[]).await, Status::Noent);
        });
        flood.await.expect("not killed");
        let (refused, totals) = fixture.service.refused();
        assert_eq!((refused.len(), totals[0].1), (1, 600));
        assert_eq!(refused[0].0.address, address(bad));
        let got_in = good.spawn(async move {
            for n in 0..8_u8 {
                let mut client = Client::connect(addr).await;
                let (status, slots) = ask_for_session(&mut client, &[n]).await;
                assert_eq!((status, slots), (Status::Ok, 64), "client {n}");
            }
        });
        got_in.await.expect("not killed");
    });
}

/// A stranger cannot act for a client of an export, even if it knows its numbers.
#[test]
fn strangers_have_no_hold_on_clients_of_exports() {
    simulated(|| async {
        let (good, bad) = (Node::new(), Node::new());
        let fixture = Fixture::of(home_of(address(good)), config()).await;
        let addr = fixture.addr;
        let client = good.spawn(async move { Client::with_session(addr, b"good").await });
        let mut client = client.await.expect("not killed");
        let (id, session) = (client.id, client.session);
        let attacked = bad.spawn(async move {
            let mut client = Client::connect(addr).await;
            let destroyed = client.compound(&[Op::DestroySession(session)]).await;
            assert_eq!(destroyed.status, Status::Badsession);
            let destroyed = client.compound(&[Op::DestroyClientId(id)]).await;
            assert_eq!(destroyed.status, Status::StaleClientid);
            let (status, _) = ask_for_session(&mut client, b"good").await;
            assert_eq!(status, Status::ClidInuse);
            client.session = session;
            for sequence in [0, 1] {
                client.sequence = sequence;
                let status = status_at(&mut client, &[], &[]).await;
                assert_eq!(status, Status::Badsession, "SEQUENCE");
            }
            assert_eq!(client.bind(3).await, Err(Status::Badsession));
        });
        attacked.await.expect("not killed");
        let works = good.spawn(async move { status_at(&mut client, HOME, &[]).await });
        assert_eq!(works.await, Some(Status::Ok));
    });
}

/// A host that an export begins to admit comes again, and gets what clients of exports get.
#[test]
fn a_stranger_that_is_admitted_begins_anew() {
    simulated(|| async {
        let fixture = Fixture::of(home_of([192, 0, 2, 1].into()), config()).await;
        let mut client = Client::connect(fixture.addr).await;
        assert_eq!(ask_for_session(&mut client, b"a").await, (Status::Ok, 1));
        fixture
            .service
            .set_rules("/tank/home", vec![all_rights()])
            .expect("it is there");
        assert_eq!(status_at(&mut client, HOME, &[]).await, Status::Badsession);
        assert_eq!(ask_for_session(&mut client, b"a").await, (Status::Ok, 64));
        assert_eq!(status_at(&mut client, HOME, &[]).await, Status::Ok);
    });
}

/// Regression: when a resolver failed, open handles of clients that a name admits became stale, and a client whose own rule is
/// narrower got the rights of a rule of its network.
#[test]
fn clients_wait_while_their_rule_is_unresolved() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let set = |rules| {
            let set = fixture.service.set_rules("/tank/home", rules);
            set.expect("it is there");
        };
        let mut client = fixture.client("a").await;
        let create = CreateHow::Unchecked(NO_ATTRS);
        let made = [open("f", Some(create))];
        assert_eq!(status_at(&mut client, HOME, &made).await, Status::Ok);
        let read_only = |hosts| Rule {
            hosts,
            is_read_only: true,
            ..all_rights()
        };
        // The name is lost, and the rule behind it grants more.
        set(vec![read_only(Hosts::Unresolved), all_rights()]);
        assert_eq!(status_at(&mut client, HOME, &[]).await, Status::Delay);
        set(vec![read_only(Hosts::Unresolved)]);
        assert_eq!(status_at(&mut client, HOME, &[]).await, Status::Delay);
        let way = status_at(&mut client, &["tank"], &[]).await;
        assert_eq!(way, Status::Ok, "the way there may be seen");
        // The name is back.
        set(vec![read_only(Hosts::Any), all_rights()]);
        assert_eq!(
            status_at(&mut client, HOME, &[open("f", None)]).await,
            Status::Rofs
        );
        // Without the rule, nothing is there.
        set(vec![]);
        assert_eq!(status_at(&mut client, HOME, &[]).await, Status::Noent);
    });
}
