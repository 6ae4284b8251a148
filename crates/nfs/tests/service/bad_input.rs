//! Clients that break the protocol: they end, and nobody else notices.

use crate::client::Client;
use crate::fixture::{Fixture, HOME, simulated};
use nfs::wire::{Op, Status};
use std::time::Duration;

/// Sends bytes; the server must close the connection, and go on serving others.
async fn is_closed(fixture: &Fixture, bytes: Vec<u8>) {
    let owner = format!("{bytes:?}");
    let mut client = Client::connect(fixture.addr).await;
    client.send_bytes(bytes).await;
    assert_eq!(client.receive().await, None);
    let mut other = fixture.client(&owner[..owner.len().min(100)]).await;
    assert_eq!(other.at(HOME, &[]).await.status, Status::Ok);
}

#[test]
fn records_without_end_are_refused() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        is_closed(&fixture, vec![0; 4 * 100]).await;
        is_closed(&fixture, (2u32 << 20).to_be_bytes().into()).await;
        is_closed(&fixture, vec![0xff; 8]).await;
        is_closed(&fixture, [&[0x80, 0, 0, 8][..], &[1; 8]].concat()).await;
    });
}

#[test]
fn a_request_that_stops_ends_its_connection() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        // Half of a large request, in two fragments: it holds a buffer.
        let mut bytes = 100_000u32.to_be_bytes().to_vec();
        bytes.extend(vec![0; 100_000]);
        bytes.extend([0x80, 1, 0, 0, 5]);
        client.send_bytes(bytes).await;
        let closed = io::timeout(Duration::from_secs(60), client.receive()).await;
        assert_eq!(closed.expect("closed by the deadline"), None);
    });
}

#[test]
fn a_connection_without_a_session_ends() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::connect(fixture.addr).await;
        let closed = io::timeout(Duration::from_secs(60), client.receive()).await;
        assert_eq!(closed.expect("closed by the deadline"), None);
    });
}

#[test]
fn a_request_in_fragments_is_one_request() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let sequence = client.next_sequence(false);
        let record = client.encoded(1, &[sequence, Op::PutRootFh]);
        let mut bytes = Vec::new();
        for part in record.chunks(40) {
            let is_last = part.as_ptr_range().end == record.as_ptr_range().end;
            let header = part.len() as u32 | if is_last { 1 << 31 } else { 0 };
            bytes.extend(header.to_be_bytes());
            bytes.extend(part);
        }
        client.send_bytes(bytes).await;
        assert!(client.receive().await.is_some());
    });
}

#[test]
fn clients_made_in_a_loop_are_bounded() {
    simulated(|| async {
        let config = nfs::service::ServiceConfig {
            clients_max: 20,
            ..crate::fixture::config()
        };
        let fixture = Fixture::with(config).await;
        let mut honest = fixture.client("honest").await;
        let mut flood = Client::connect(fixture.addr).await;
        for i in 0..200u32 {
            flood.exchange(&i.to_be_bytes()).await;
        }
        assert_eq!(fixture.service.state_counts().0, 20);
        assert_eq!(honest.at(HOME, &[]).await.status, Status::Ok);
    });
}
