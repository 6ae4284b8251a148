//! Callbacks over RDMA (RFC 8167): on the connection of the session, with credits of their own.

use crate::client::Client;
use crate::fixture::{Fixture, HOME, NO_ATTRS, open_with, simulated};
use crate::rdma::quiet;
use crate::rdma_link::RdmaLink;
use crate::waiting::{PATH, WRITE_AND_WAIT, is_told, lock_file, open_file};
use nfs::rpc::rdma::chunks::Chunks;
use nfs::rpc::rdma::{Fault, Kind, RdmaHeader};
use nfs::wire::callback::CallbackOp;
use nfs::wire::files::{Claim, CreateHow};
use nfs::wire::{Op, Stateid, Status};
use std::time::Duration;

const CREATE: Option<CreateHow<'static>> = Some(CreateHow::Unchecked(NO_ATTRS));

/// A client over RDMA whose session has a back channel.
async fn called(fixture: &Fixture, callbacks: u32) -> Client {
    let addr = fixture.listen_rdma().await;
    let mut link = RdmaLink::open(addr, true).await;
    link.callbacks = callbacks;
    let mut client = Client::over_rdma(link);
    client.establish_back("holder").await;
    client
}

async fn delegated(client: &mut Client, name: &str) -> Stateid {
    let open = open_with(Claim::Name(name.as_bytes()), CREATE, 1, 0);
    let mut results = client.at(HOME, &[open]).await;
    let (_, kind) = results.open_wishing();
    assert_eq!(kind, 1, "a delegation for reading");
    results.stateid()
}

/// Another client over TCP opens files for writing: their delegations are recalled.
async fn conflict(other: &mut Client, name: &str) -> Status {
    let open = open_with(Claim::Name(name.as_bytes()), CREATE, 2, 0);
    other.at(HOME, &[open]).await.status
}

#[test]
fn a_delegation_is_recalled_over_rdma() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut holder = called(&fixture, 8).await;
        let stateid = delegated(&mut holder, "f").await;
        let mut other = fixture.client("other").await;
        assert_eq!(conflict(&mut other, "f").await, Status::Delay);
        let callback = holder.callback().await;
        let CallbackOp::Recall { stateid: named, .. } = callback.op() else {
            panic!("CB_RECALL, not {:?}", callback.op());
        };
        assert_eq!(named.other, stateid.other);
        holder.answer(&callback, Status::Ok, &[]).await;
        let path = [HOME[0], HOME[1], "f"];
        let back = holder.at(&path, &[Op::DelegReturn { stateid }]).await;
        assert_eq!(back.status, Status::Ok);
        assert_eq!(conflict(&mut other, "f").await, Status::Ok);
        drop((holder, other));
        quiet(&fixture).await;
    });
}

#[test]
fn callbacks_wait_for_the_clients_credits() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut holder = called(&fixture, 2).await;
        for name in ["a", "b", "c", "d"] {
            delegated(&mut holder, name).await;
        }
        let mut other = fixture.client("other").await;
        for name in ["a", "b", "c", "d"] {
            assert_eq!(conflict(&mut other, name).await, Status::Delay);
        }
        let first = holder.callback().await;
        let second = holder.callback().await;
        // The client has room for two.
        assert!(holder.next_call(5).await.is_none());
        holder.answer(&first, Status::Ok, &[]).await;
        let third = holder.callback().await;
        assert!(holder.next_call(1).await.is_none());
        holder.answer(&second, Status::Ok, &[]).await;
        holder.answer(&third, Status::Ok, &[]).await;
        holder.callback().await;
        drop((holder, other));
        quiet(&fixture).await;
    });
}

#[test]
fn an_error_of_the_transport_ends_a_callback() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut holder = called(&fixture, 8).await;
        delegated(&mut holder, "f").await;
        let mut other = fixture.client("other").await;
        assert_eq!(conflict(&mut other, "f").await, Status::Delay);
        let record = holder.next_call(10).await.expect("a callback");
        let header = RdmaHeader {
            xid: crate::rdma::xid(&record),
            credits: 8,
            kind: Kind::Error(Fault::Chunk),
        };
        holder.rdma().message(header.encode());
        io::time::sleep(Duration::from_millis(10)).await;
        holder.run(&[]).await;
        assert_ne!(holder.flags, 0, "the back channel has failed");
        // A second answer to the same call is a reply to no callback.
        let header = RdmaHeader {
            kind: Kind::Inline(Chunks::default()),
            ..header
        };
        let reply = [&record[..4], &[0, 0, 0, 1]].concat();
        holder
            .rdma()
            .message([&header.encode()[..], &reply].concat());
        holder.rdma().ended().await;
        drop((holder, other));
        quiet(&fixture).await;
    });
}

/// How answers to callbacks arrive that are none. The connection carries the client's own calls meanwhile.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    /// None ever comes.
    Silence,
    /// A reply of RPC without the results of a callback.
    NoResults,
    /// Results that end amid a number.
    Short,
    /// A status of the callback that does not exist, in a reply of another session.
    Stranger,
}

impl Wrong {
    /// The reply to a callback; `None` if there is none.
    fn reply(self, xid: &[u8]) -> Option<Vec<u8>> {
        // REPLY, MSG_ACCEPTED, a verifier of AUTH_NONE, SUCCESS.
        let accepted = [xid, &[0, 0, 0, 1], &[0; 16]].concat();
        let results = match self {
            Wrong::Silence => return None,
            Wrong::NoResults => Vec::new(),
            Wrong::Short => vec![0, 0],
            Wrong::Stranger => {
                let mut words = vec![0, 0, 2, 11, 0];
                words.extend([0x5757_5757; 9]);
                words.iter().flat_map(|w: &u32| w.to_be_bytes()).collect()
            }
        };
        Some([accepted, results].concat())
    }
}

/// A client that does not answer its recall, or with garbage, loses the delegation, and keeps its connection and its other calls. It is
/// counted and told.
#[test]
fn answers_that_are_none_cost_the_delegation_only() {
    for wrong in [
        Wrong::Silence,
        Wrong::NoResults,
        Wrong::Short,
        Wrong::Stranger,
    ] {
        simulated(move || async move {
            let fixture = Fixture::new().await;
            let mut holder = called(&fixture, 8).await;
            let stateid = delegated(&mut holder, "f").await;
            let mut other = fixture.client("other").await;
            assert_eq!(conflict(&mut other, "f").await, Status::Delay);
            let record = holder.next_call(60).await.expect("a callback");
            if let Some(reply) = wrong.reply(&record[..4]) {
                let header = RdmaHeader {
                    xid: crate::rdma::xid(&record),
                    credits: 8,
                    kind: Kind::Inline(Chunks::default()),
                };
                let message = [&header.encode()[..], &reply].concat();
                holder.rdma().message(message);
            }
            let before = fixture.service.counters().callback_failures;
            assert_eq!(before, 0, "{wrong:?}");
            let mut opened = conflict(&mut other, "f").await;
            for _ in 0..120 {
                if opened != Status::Delay {
                    break;
                }
                io::time::sleep(Duration::from_secs(1)).await;
                assert_eq!(holder.at(HOME, &[]).await.status, Status::Ok);
                opened = conflict(&mut other, "f").await;
            }
            assert_eq!(opened, Status::Ok, "{wrong:?}: the delegation stays");
            let counters = fixture.service.counters();
            assert!(counters.callback_failures >= 1, "{wrong:?}");
            holder.run(&[]).await;
            assert_ne!(holder.flags, 0, "{wrong:?}: it is told");
            let path = [HOME[0], HOME[1], "f"];
            let back = holder.at(&path, &[Op::DelegReturn { stateid }]).await;
            assert_eq!(back.status, Status::DelegRevoked, "{wrong:?}");
            drop((holder, other));
            quiet(&fixture).await;
        });
    }
}

#[test]
fn a_client_that_waits_for_a_lock_is_told_over_rdma() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut holder = fixture.client("another").await;
        let (of_holder, _) = open_file(&mut holder).await;
        let taken = lock_file(&mut holder, WRITE_AND_WAIT, (0, 10), of_holder).await;
        assert_eq!(taken, Status::Ok);
        let mut waiting = called(&fixture, 8).await;
        let (open, _) = open_file(&mut waiting).await;
        let refused = lock_file(&mut waiting, WRITE_AND_WAIT, (0, 10), open).await;
        assert_eq!(refused, Status::Denied);
        let close = Op::Close { stateid: of_holder };
        assert_eq!(holder.at(&PATH, &[close]).await.status, Status::Ok);
        is_told(&mut waiting).await;
        let taken = lock_file(&mut waiting, WRITE_AND_WAIT, (0, 10), open).await;
        assert_eq!(taken, Status::Ok);
        assert_eq!(fixture.service.counters().lock_notices, 1);
        drop((holder, waiting));
        quiet(&fixture).await;
    });
}
