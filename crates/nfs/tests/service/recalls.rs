//! How long a client has to return a delegation.

use crate::client::{Client, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, config, open_with, simulated};
use nfs::limits::RECALL_MAX;
use nfs::wire::files::{Claim, CreateHow};
use nfs::wire::{Op, Stateid, Status};
use std::time::Duration;

const PATH: [&str; 3] = [HOME[0], HOME[1], "f"];
const REVOKED: u32 = 0x40;
const STEP: Duration = Duration::from_secs(30);

fn delegation(mut results: Results) -> Stateid {
    let (_, kind) = results.open_wishing();
    assert_eq!(kind, 2, "a write delegation");
    results.stateid()
}

/// A client with a write delegation whose recall it has answered, and the one that is in its way.
async fn recalled(fixture: &Fixture) -> (Client, Stateid, Client) {
    let mut holder = Client::with_back_channel(fixture, "holder").await;
    let create = Some(CreateHow::Unchecked(NO_ATTRS));
    let open = open_with(Claim::Name(b"f"), create, 3, 0);
    let stateid = delegation(holder.at(HOME, &[open]).await);
    let mut other = fixture.client("other").await;
    assert_eq!(wanted(&mut other).await, Status::Delay);
    let callback = holder.callback().await;
    holder.answer(&callback, Status::Ok, &[]).await;
    (holder, stateid, other)
}

async fn wanted(other: &mut Client) -> Status {
    let open = open_with(Claim::Name(b"f"), None, 2 | 0x400, 0);
    other.at(HOME, &[open]).await.status
}

/// The holder writes data back.
async fn flush(holder: &mut Client, stateid: Stateid) -> Status {
    let write = Op::Write {
        stateid,
        offset: 0,
        stable: 2,
        data: b"x",
    };
    holder.at(&PATH, &[write]).await.status
}

/// A client with much data to write back lost its delegation, and the data, after 60 s, although it never stopped writing.
#[test]
fn a_client_that_writes_back_keeps_its_delegation() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut holder, stateid, mut other) = recalled(&fixture).await;
        for _ in 0..10 {
            io::time::sleep(STEP).await;
            assert_eq!(flush(&mut holder, stateid).await, Status::Ok);
            assert_eq!(wanted(&mut other).await, Status::Delay);
        }
        let back = Op::DelegReturn { stateid };
        assert_eq!(holder.at(&PATH, &[back]).await.status, Status::Ok);
        io::time::sleep(STEP).await;
        assert_eq!(wanted(&mut other).await, Status::Ok);
        assert_eq!(fixture.service.counters().revocations, 0);
    });
}

#[test]
fn a_client_that_only_answers_has_a_lease() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut holder, _, mut other) = recalled(&fixture).await;
        let step = config().lease / 3;
        for _ in 0..2 {
            io::time::sleep(step).await;
            holder.run(&[]).await;
        }
        // More than the time of a client that does not answer.
        io::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(wanted(&mut other).await, Status::Delay);
        io::time::sleep(step).await;
        assert_eq!(wanted(&mut other).await, Status::Ok);
        holder.run(&[]).await;
        assert_eq!(holder.flags & REVOKED, REVOKED);
    });
}

#[test]
fn a_client_that_never_ends_writing_loses_its_delegation() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut holder, stateid, mut other) = recalled(&fixture).await;
        let mut flushed = 0;
        while flush(&mut holder, stateid).await == Status::Ok {
            flushed += 1;
            io::time::sleep(STEP).await;
            assert!(STEP * flushed < RECALL_MAX + 2 * STEP, "it goes on");
        }
        assert!(STEP * flushed > RECALL_MAX / 2);
        assert_eq!(flush(&mut holder, stateid).await, Status::DelegRevoked);
        assert_eq!(wanted(&mut other).await, Status::Ok);
    });
}
