//! Limits of states: who makes room, and what the others are told.

use crate::client::Client;
use crate::fixture::{Fixture, HOME, NO_ATTRS, config, open_with, simulated};
use nfs::service::ServiceConfig;
use nfs::wire::files::{Claim, CreateHow};
use nfs::wire::{Op, Stateid, Status};

const STATES: usize = 200;
/// Most states of a client that is alone: it has fewer than are free.
const SHARE: usize = STATES / 2;

/// Opens files until it is refused, or has `most`. Returns the stateids and the status.
async fn fill(client: &mut Client, most: usize) -> (Vec<Stateid>, Status) {
    let mut opened = Vec::new();
    while opened.len() < most {
        let name = format!("f{}", opened.len());
        let create = Some(CreateHow::Unchecked(NO_ATTRS));
        let open = open_with(Claim::Name(name.as_bytes()), create, 1 | 0x400, 0);
        let mut results = client.at(HOME, &[open]).await;
        if results.status != Status::Ok {
            return (opened, results.status);
        }
        opened.push(results.open_wishing().0);
    }
    (opened, Status::Ok)
}

async fn fixture() -> Fixture {
    Fixture::with(ServiceConfig {
        states_max: STATES,
        ..config()
    })
    .await
}

/// 16 dead clients with 16,384 opens each had every OPEN of every other client answered with NFS4ERR_DELAY for a day.
#[test]
fn dead_clients_make_room_for_opens_of_others() {
    simulated(|| async {
        let fixture = fixture().await;
        let (mut first, mut second) = (fixture.client("a").await, fixture.client("b").await);
        fill(&mut first, SHARE).await;
        fill(&mut second, SHARE / 2).await;
        io::time::sleep(config().lease + config().lease / 2).await;
        // The second one comes back, and has its state as a courtesy.
        second.run(&[]).await;
        let mut third = fixture.client("c").await;
        let (opened, status) = fill(&mut third, SHARE).await;
        assert_eq!((opened.len(), status), (SHARE * 3 / 4, Status::Serverfault));
        second.run(&[]).await;
        let sequence = first.next_sequence(false);
        let gone = first.compound(&[sequence]).await.status;
        assert_eq!(gone, Status::Badsession, "the first one has made room");
    });
}

/// A client at its limit is told so, and not to ask again for ever; others have room.
#[test]
fn a_client_may_have_as_many_states_as_it_leaves() {
    simulated(|| async {
        let fixture = fixture().await;
        let (mut first, mut second) = (fixture.client("a").await, fixture.client("b").await);
        let (opened, status) = fill(&mut first, STATES).await;
        assert_eq!((opened.len(), status), (SHARE, Status::Serverfault));
        let (others, _) = fill(&mut second, STATES).await;
        assert_eq!(others.len(), 64, "the least share");
        let close = Op::Close { stateid: opened[7] };
        let path = [HOME[0], HOME[1], "f7"];
        assert_eq!(first.at(&path, &[close]).await.status, Status::Ok);
    });
}
