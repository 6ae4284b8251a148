//! Requests that are repeated, because their reply was lost.

use super::client::{Results, at, mode, with_mount};
use crate::client::Client;
use nfs::rpc::Reply;
use nfs::v3::wire::{Arguments, CreateHow, Status};
use nfs::xdr::Reader;

/// Sends a record over another connection, and returns the whole reply.
async fn repeat(to: &mut Client, record: &[u8]) -> Vec<u8> {
    to.send(record.to_vec()).await;
    to.receive().await.expect("a reply")
}

fn status_of(record: &[u8]) -> Status {
    let mut reader = Reader::new(record);
    let (_, reply) = Reply::decode(&mut reader).expect("a reply");
    assert_eq!(reply, Reply::Success);
    Results::new(reader.rest().to_vec()).status
}

#[test]
fn a_change_that_is_repeated_after_a_reconnect_gets_the_first_answer() {
    with_mount(|fixture, mut client, root| async move {
        let set = mode(0o700);
        let file = client.create_v3(&root, "f").await;
        for arguments in [
            Arguments::MkDir {
                at: at(&root, "d"),
                set,
            },
            Arguments::Create {
                at: at(&root, "g"),
                how: CreateHow::Guarded(set),
            },
            Arguments::SymLink {
                at: at(&root, "s"),
                set,
                path: b"x",
            },
            Arguments::MkNod {
                at: at(&root, "p"),
                node: nfs::v3::wire::NewNode::Fifo(set),
            },
            Arguments::Link {
                object: &file,
                to: at(&root, "h"),
            },
            Arguments::Rename {
                from: at(&root, "g"),
                to: at(&root, "k"),
            },
            Arguments::Remove(at(&root, "k")),
            Arguments::RmDir(at(&root, "d")),
            Arguments::SetAttr {
                object: &file,
                set,
                guard: None,
            },
            Arguments::Write {
                file: &file,
                offset: 0,
                count: 1,
                stable: 2,
                data: b"x",
            },
        ] {
            let record = client.encoded_v3(&arguments);
            let first = repeat(&mut client, &record).await;
            assert_eq!(status_of(&first), Status::Ok, "{arguments:?}");
            let replays = fixture.service.counters().replays;
            let mut other = Client::connect(fixture.addr).await;
            assert_eq!(repeat(&mut other, &record).await, first, "{arguments:?}");
            assert_eq!(fixture.service.counters().replays, replays + 1);
        }
        // The same request with another number is another one.
        assert_eq!(
            client.refused(&Arguments::Remove(at(&root, "k"))).await,
            Status::Noent
        );
    });
}

#[test]
fn another_request_with_the_same_number_is_executed() {
    with_mount(|fixture, mut client, root| async move {
        for name in ["a", "b"] {
            client.create_v3(&root, name).await;
        }
        let first = client.encoded_v3(&Arguments::Remove(at(&root, "a")));
        let mut second = client.encoded_v3(&Arguments::Remove(at(&root, "b")));
        second[..4].copy_from_slice(&first[..4]);
        let mut other = Client::connect(fixture.addr).await;
        assert_eq!(status_of(&repeat(&mut client, &first).await), Status::Ok);
        assert_eq!(status_of(&repeat(&mut other, &second).await), Status::Ok);
        for name in ["a", "b"] {
            assert_eq!(
                client.refused(&Arguments::Remove(at(&root, name))).await,
                Status::Noent
            );
        }
    });
}

#[test]
fn a_request_that_arrives_four_times_is_executed_once() {
    with_mount(|fixture, mut client, root| async move {
        let mkdir = Arguments::MkDir {
            at: at(&root, "d"),
            set: mode(0o700),
        };
        let record = client.encoded_v3(&mkdir);
        let mut others = Vec::new();
        for _ in 0..4 {
            let other = Client::connect(fixture.addr).await;
            other.send(record.clone()).await;
            others.push(other);
        }
        let mut replies = Vec::new();
        for other in &mut others {
            replies.push(other.receive().await.expect("a reply"));
        }
        assert_eq!(status_of(&replies[0]), Status::Ok);
        assert!(replies.iter().all(|reply| *reply == replies[0]));
        assert_eq!(fixture.service.counters().replays, 3);
    });
}
