//! A peer that violates the protocol gets a termination request, the connection ends, and the command fails. Nothing hangs.

use std::time::Duration;

use nvmf::wire::command::{Cid, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::pdu::{
    DataPdu, Digests, FatalErrorStatus, HEADER_LEN_MAX, PduType, R2t, TermReq, encode,
};
use nvmf::wire::status::Status;
use nvmf_initiator::{Config, Error, LinkState, Offer, WriteOptions};

use crate::initiator::fake::{Behavior, Fake};
use crate::initiator::peer::Peer;
use crate::initiator::{config, connect, empty, pattern, run, run_real};

const DIGESTS: Digests = Digests {
    header: true,
    data: true,
};

/// A script that violates the protocol on one connection, in its answer to one command.
type Lie = fn(Peer, Sqe) -> std::pin::Pin<Box<dyn Future<Output = Peer>>>;

macro_rules! lie {
    (|$peer:ident, $sqe:ident| $body:block) => {{
        let lie: Lie = |mut $peer, $sqe| {
            Box::pin(async move {
                $body;
                $peer
            })
        };
        lie
    }};
}

fn data(cid: Cid, offset: u32, last: bool, success: bool) -> DataPdu {
    DataPdu {
        cccid: cid,
        ttag: 0,
        offset,
        last,
        success,
    }
}

/// `lie` answers one 4 KiB read. The initiator must fail the read and terminate with `fes`.
fn read_lie(digests: Digests, fes: FatalErrorStatus, lie: Lie) {
    run(move || async move {
        let fake = Fake::start(Behavior {
            digests,
            ..Behavior::default()
        });
        fake.script(move |mut peer| async move {
            let (sqe, _) = peer.capsule().await.expect("the read");
            let mut peer = lie(peer, sqe).await;
            let TermReq { fes: said, .. } = peer.term_req().await;
            assert_eq!(FatalErrorStatus::from_code(said), Some(fes));
        });
        let offer = Offer {
            digests,
            ..Offer::default()
        };
        let (controller, ns) = connect(Config {
            offer,
            ..config(&fake)
        })
        .await;
        let (result, buf) = ns.read(0, empty(4096).await).await;
        assert!(
            matches!(result, Err(Error::Protocol(e)) if e.fes == fes),
            "{result:?}"
        );
        assert_eq!(buf.len(), 4096, "the buffer comes back");
        while controller.state() != LinkState::Lost {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ns.flush().await, Err(Error::Disconnected));
    });
}

/// `lie` answers one 4 KiB write without in-capsule data. The initiator must fail the write and terminate with `fes`.
fn write_lie(fes: FatalErrorStatus, lie: Lie) {
    run(move || write_lie_once(fes, 1, lie));
}

async fn write_lie_once(fes: FatalErrorStatus, max_r2t: u32, lie: Lie) {
    let fake = Fake::start(Behavior {
        capsule_data: 0,
        ..Behavior::default()
    });
    fake.script(move |mut peer| async move {
        let (sqe, _) = peer.capsule().await.expect("the write");
        let mut peer = lie(peer, sqe).await;
        let TermReq { fes: said, .. } = peer.term_req().await;
        assert_eq!(FatalErrorStatus::from_code(said), Some(fes));
    });
    let offer = Offer {
        max_r2t,
        ..Offer::default()
    };
    let (_controller, ns) = connect(Config {
        offer,
        ..config(&fake)
    })
    .await;
    let result = ns
        .write(0, pattern(4096, 1).await, WriteOptions::default())
        .await;
    assert!(
        matches!(result, Err(Error::Protocol(e)) if e.fes == fes),
        "{result:?}"
    );
}

#[test]
fn a_completion_of_an_unknown_command() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::SequenceError,
        lie!(|peer, sqe| {
            peer.complete(Cqe::new(Cid(sqe.cid().0 ^ 1), Status::SUCCESS))
                .await
        }),
    );
}

#[test]
fn a_completion_of_an_earlier_generation() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::SequenceError,
        lie!(|peer, sqe| {
            peer.complete(Cqe::new(Cid(sqe.cid().0 ^ 1 << 10), Status::SUCCESS))
                .await
        }),
    );
}

#[test]
fn a_command_completed_twice() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        fake.script(|mut peer| async move {
            let (sqe, _) = peer.capsule().await.expect("the read");
            peer.read_reply(sqe.cid(), &[1; 512], &Behavior::default())
                .await;
            peer.complete(Cqe::new(sqe.cid(), Status::SUCCESS)).await;
            let TermReq { fes, .. } = peer.term_req().await;
            assert_eq!(
                FatalErrorStatus::from_code(fes),
                Some(FatalErrorStatus::SequenceError)
            );
        });
        let (controller, ns) = connect(config(&fake)).await;
        assert_eq!(
            ns.read(0, empty(512).await).await.0,
            Ok(()),
            "the first answer counts"
        );
        while controller.state() != LinkState::Lost {
            io::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn success_without_data() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::DataOutOfRange,
        lie!(|peer, sqe| { peer.complete(Cqe::new(sqe.cid(), Status::SUCCESS)).await }),
    );
}

#[test]
fn success_with_half_of_the_data() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::DataOutOfRange,
        lie!(|peer, sqe| {
            peer.c2h(&data(sqe.cid(), 0, true, true), &[1; 2048], 0)
                .await
        }),
    );
}

#[test]
fn more_data_than_asked_for() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::DataOutOfRange,
        lie!(|peer, sqe| {
            peer.c2h(&data(sqe.cid(), 0, true, true), &[1; 4100], 0)
                .await
        }),
    );
}

#[test]
fn data_out_of_order() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::DataOutOfRange,
        lie!(|peer, sqe| {
            peer.c2h(&data(sqe.cid(), 2048, true, true), &[1; 2048], 0)
                .await
        }),
    );
}

#[test]
fn data_twice() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::DataOutOfRange,
        lie!(|peer, sqe| {
            peer.c2h(&data(sqe.cid(), 0, false, false), &[1; 2048], 0)
                .await;
            peer.c2h(&data(sqe.cid(), 0, true, true), &[1; 2048], 0)
                .await
        }),
    );
}

#[test]
fn data_for_an_unknown_command() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::SequenceError,
        lie!(|peer, sqe| {
            peer.c2h(&data(Cid(sqe.cid().0 ^ 3), 0, true, true), &[1; 4096], 0)
                .await
        }),
    );
}

#[test]
fn an_r2t_for_a_read() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::SequenceError,
        lie!(|peer, sqe| {
            peer.r2t(&R2t {
                cccid: sqe.cid(),
                ttag: 0,
                offset: 0,
                length: 512,
            })
            .await
        }),
    );
}

#[test]
fn a_wrong_header_digest() {
    read_lie(
        DIGESTS,
        FatalErrorStatus::HeaderDigest,
        lie!(|peer, sqe| {
            let mut out = [0; HEADER_LEN_MAX];
            let n = peer
                .encoder
                .capsule_resp(&Cqe::new(sqe.cid(), Status::SUCCESS), &mut out);
            out[n - 1] ^= 1;
            peer.send(&out[..n]).await
        }),
    );
}

#[test]
fn a_pdu_of_an_unknown_type() {
    read_lie(
        Digests::default(),
        FatalErrorStatus::InvalidHeaderField,
        lie!(|peer, _sqe| { peer.send(&[0x5a; 64]).await }),
    );
}

#[test]
fn an_r2t_beyond_the_transfer() {
    write_lie(
        FatalErrorStatus::DataOutOfRange,
        lie!(|peer, sqe| {
            peer.r2t(&R2t {
                cccid: sqe.cid(),
                ttag: 0,
                offset: 0,
                length: 8192,
            })
            .await
        }),
    );
}

#[test]
fn an_r2t_at_the_wrong_offset() {
    write_lie(
        FatalErrorStatus::DataOutOfRange,
        lie!(|peer, sqe| {
            peer.r2t(&R2t {
                cccid: sqe.cid(),
                ttag: 0,
                offset: 512,
                length: 512,
            })
            .await
        }),
    );
}

#[test]
fn more_r2ts_than_allowed() {
    // Two R2Ts in one segment: both are outstanding before any data can have been sent.
    let lie = lie!(|peer, sqe| {
        let mut both = vec![0; 2 * HEADER_LEN_MAX];
        let r2t = |offset| R2t {
            cccid: sqe.cid(),
            ttag: 0,
            offset,
            length: 512,
        };
        let first = peer.encoder.r2t(&r2t(0), &mut both);
        let second = peer.encoder.r2t(&r2t(512), &mut both[first..]);
        peer.send(&both[..first + second]).await
    });
    run_real(move || write_lie_once(FatalErrorStatus::LimitExceeded, 1, lie));
}

#[test]
fn data_for_a_write() {
    write_lie(
        FatalErrorStatus::SequenceError,
        lie!(|peer, sqe| {
            peer.c2h(&data(sqe.cid(), 0, true, true), &[1; 4096], 0)
                .await
        }),
    );
}

#[test]
fn a_write_that_succeeds_without_its_data() {
    write_lie(
        FatalErrorStatus::DataOutOfRange,
        lie!(|peer, sqe| { peer.complete(Cqe::new(sqe.cid(), Status::SUCCESS)).await }),
    );
}

#[test]
fn a_write_may_fail_before_its_r2t() {
    run(|| async {
        let fake = Fake::start(Behavior {
            capsule_data: 0,
            ..Behavior::default()
        });
        fake.script(|mut peer| async move {
            let (sqe, _) = peer.capsule().await.expect("the write");
            peer.complete(Cqe::new(sqe.cid(), Status::WRITE_PROTECTED.dnr()))
                .await;
            assert!(peer.capsule().await.is_none());
        });
        let (controller, ns) = connect(config(&fake)).await;
        let result = ns
            .write(0, pattern(4096, 1).await, WriteOptions::default())
            .await;
        assert_eq!(result, Err(Error::Refused(Status::WRITE_PROTECTED.dnr())));
        assert_eq!(controller.state(), LinkState::Live);
    });
}

#[test]
fn a_wrong_data_digest_in_small_and_in_large_payloads() {
    for len in [512usize, 512 << 10] {
        run(move || async move {
            let fake = Fake::start(Behavior {
                digests: DIGESTS,
                ..Behavior::default()
            });
            fake.script(move |mut peer| async move {
                let (sqe, _) = peer.capsule().await.expect("the read");
                peer.c2h(&data(sqe.cid(), 0, true, true), &vec![5; len], 1)
                    .await;
                assert!(peer.capsule().await.is_none(), "the connection is cut");
            });
            let offer = Offer {
                digests: DIGESTS,
                ..Offer::default()
            };
            let (_controller, ns) = connect(Config {
                offer,
                ..config(&fake)
            })
            .await;
            let (result, buf) = ns.read(0, empty(len).await).await;
            assert_eq!((result, buf.len()), (Err(Error::DataDigest), len));
        });
    }
}

#[test]
fn a_peer_that_terminates_or_hangs_up() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        fake.script(|mut peer| async move {
            peer.capsule().await.expect("the read");
            let mut out = [0; 152];
            let fes = FatalErrorStatus::LimitExceeded;
            let n = encode::term_req(PduType::C2hTermReq, fes, 4, &[4; 72], &mut out);
            peer.send(&out[..n]).await;
            assert!(peer.capsule().await.is_none());
        });
        let (_controller, ns) = connect(config(&fake)).await;
        let (result, _) = ns.read(0, empty(512).await).await;
        assert_eq!(result, Err(Error::Terminated { fes: 5, fei: 4 }));

        fake.script(|mut peer| async move {
            let (sqe, _) = peer.capsule().await.expect("the read");
            // Half of a large payload, then the end.
            let mut out = vec![0; HEADER_LEN_MAX];
            let n = peer
                .encoder
                .c2h_data(&data(sqe.cid(), 0, true, true), 256 << 10, &mut out);
            out.truncate(n);
            out.resize(n + (128 << 10), 7);
            peer.send(&out).await;
        });
        let (_controller, ns) = connect(config(&fake)).await;
        let (result, buf) = ns.read(0, empty(256 << 10).await).await;
        assert_eq!((result, buf.len()), (Err(Error::Disconnected), 256 << 10));
    });
}

#[test]
fn a_peer_that_never_answers() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        fake.script(|mut peer| async move { while peer.capsule().await.is_some() {} });
        let command_timeout = Duration::from_millis(100);
        let (_controller, ns) = connect(Config {
            command_timeout,
            ..config(&fake)
        })
        .await;
        let (result, _) = ns.read(0, empty(512).await).await;
        assert_eq!(result, Err(Error::Timeout));
    });
}

#[test]
fn no_listener_and_a_silent_listener() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        fake.refusing.set(true);
        let result = nvmf_initiator::Controller::connect(config(&fake)).await;
        assert_eq!(result.err(), Some(Error::Disconnected));
        let free =
            io::net::TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
        let addr = free.local_addr();
        let connect_timeout = Duration::from_millis(50);
        let result = nvmf_initiator::Controller::connect(Config {
            addr,
            connect_timeout,
            ..config(&fake)
        })
        .await;
        assert_eq!(
            result.err(),
            Some(Error::Timeout),
            "a peer that accepts and is silent"
        );
        drop(free);
        let result = nvmf_initiator::Controller::connect(Config {
            addr,
            ..config(&fake)
        })
        .await;
        assert!(matches!(result.err(), Some(Error::Unreachable(_))));
    });
}

#[test]
fn a_dropped_read_leaves_the_queue_in_order() {
    run(|| async {
        let fake = Fake::start(Behavior {
            mqes: 31,
            ..Behavior::default()
        });
        fake.script(|mut peer| async move {
            let (first, _) = peer.capsule().await.expect("the read that is dropped");
            let (second, _) = peer.capsule().await.expect("the read that is not");
            let behavior = Behavior::default();
            peer.read_reply(first.cid(), &[1; 512], &behavior).await;
            peer.read_reply(second.cid(), &[2; 512], &behavior).await;
            assert!(peer.capsule().await.is_none());
        });
        let (_controller, ns) = connect(config(&fake)).await;
        let dropped = io::timeout(Duration::from_millis(10), ns.read(0, empty(512).await)).await;
        assert!(dropped.is_err());
        let (result, buf) = ns.read(1, empty(512).await).await;
        result.expect("read");
        assert!(buf.iter().all(|b| *b == 2));
    });
}
