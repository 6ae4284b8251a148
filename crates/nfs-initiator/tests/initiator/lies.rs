//! Servers that break the protocol, and bytes that arrive in pieces.

use super::RUNS;
use super::fake::{Called, Peer, SESSION, reply, sequenced, start};
use initiator::LinkState;
use nfs::wire::operation;
use nfs::xdr::Writer;
use nfs_initiator::{Config, Error, OpenOptions, ProtocolError, Result, Session};
use std::net::SocketAddr;
use testkit::empty;

async fn connect(addr: SocketAddr) -> Result<Session> {
    Session::connect(Config {
        slots: 4,
        ..Config::new(addr)
    })
    .await
}

/// What a session says after its first call was answered by `script`.
async fn answered<F: Future<Output = ()> + 'static>(
    script: impl Fn(Peer, Called) -> F + Clone + 'static,
) -> Error {
    let addr = start(4, move |mut peer| {
        let script = script.clone();
        async move {
            if let Some(call) = peer.called().await {
                script(peer, call).await;
            }
        }
    });
    let session = connect(addr).await.expect("a session");
    let error = session.walk("/").await.expect_err("a lie");
    assert_eq!(session.state(), LinkState::Lost, "{error}");
    error
}

#[test]
fn replies_that_lie_end_the_session() {
    RUNS.simulated(async || {
        let wrong = answered(|mut peer, call| async move {
            peer.send(reply(call.xid ^ 1 << 20, 0, 0)).await;
        });
        assert_eq!(wrong.await, ProtocolError::NoCall.into());
        let wrong = answered(|mut peer, call| async move {
            let mut all = reply(call.xid, 0, 1);
            sequenced(&mut all, (call.slot.0, call.slot.1 + 1));
            peer.send(all).await;
        });
        assert_eq!(wrong.await, ProtocolError::Sequence.into());
        // A record beyond the limit, of which nothing more comes.
        let wrong = answered(|mut peer, _| async move {
            peer.send_bytes(0xffff_ffff_u32.to_be_bytes().to_vec())
                .await;
        });
        let wrong = wrong.await;
        assert!(wrong.to_string().contains("longer than"), "{wrong}");
        let wrong = answered(|peer, _| async move { drop(peer) });
        assert_eq!(wrong.await, Error::Disconnected);
    });
}

#[test]
fn the_result_of_another_operation_is_an_error() {
    RUNS.simulated(async || {
        let addr = start(4, |mut peer| async move {
            let call = peer.called().await.expect("a call");
            let mut all = reply(call.xid, 0, 2);
            sequenced(&mut all, call.slot);
            all.u32(operation::GETFH);
            peer.send(all).await;
        });
        let session = connect(addr).await.expect("a session");
        let wrong = ProtocolError::Operation(operation::GETFH, operation::PUTROOTFH);
        assert_eq!(session.walk("/").await, Err(wrong.into()));
    });
}

#[test]
fn a_refusal_of_the_whole_call_names_its_reason() {
    RUNS.simulated(async || {
        let addr = start(4, |mut peer| async move {
            while let Some(call) = peer.called().await {
                // NFS4ERR_BADSESSION of SEQUENCE.
                let mut refused = reply(call.xid, 10052, 1);
                refused.u32(operation::SEQUENCE);
                refused.u32(10052);
                peer.send(refused).await;
            }
        });
        let session = connect(addr).await.expect("a session");
        let refused = session.walk("/").await.expect_err("refused");
        assert!(refused.to_string().contains("restarted"), "{refused}");
        assert_eq!(session.state(), LinkState::Live, "other calls go on");
    });
}

#[test]
fn a_session_without_slots_is_refused() {
    RUNS.simulated(async || {
        for slots in [0, 5] {
            let addr = start(slots, |_| async {});
            let refused = connect(addr).await.map(drop).expect_err("out of range");
            assert!(matches!(refused, Error::Protocol(_)), "{refused}");
        }
    });
}

/// Answers an OPEN.
async fn opened(peer: &mut Peer) {
    let call = peer.called().await.expect("an OPEN");
    let mut all = reply(call.xid, 0, 5);
    sequenced(&mut all, call.slot);
    [operation::PUTFH, 0, operation::OPEN, 0]
        .iter()
        .for_each(|w| all.u32(*w));
    all.fixed(&SESSION);
    // Change information, flags, no attributes, no delegation.
    all.fixed(&[0; 20]);
    [0, 0, 0].iter().for_each(|w| all.u32(*w));
    [operation::GETFH, 0].iter().for_each(|w| all.u32(*w));
    all.opaque(b"file");
    [operation::GETATTR, 0, 0, 0]
        .iter()
        .for_each(|w| all.u32(*w));
    peer.send(all).await;
}

/// Answers a READ with `data`, whose length is claimed to be `claimed`.
fn read(call: &Called, claimed: u32, data: &[u8]) -> Writer {
    let mut all = reply(call.xid, 0, 3);
    sequenced(&mut all, call.slot);
    [operation::PUTFH, 0, operation::READ, 0, 0, claimed]
        .iter()
        .for_each(|w| all.u32(*w));
    all.fixed(data);
    all
}

async fn read_answered<F: Future<Output = ()> + 'static>(
    script: impl Fn(Peer, Called) -> F + Clone + 'static,
) -> (Result<usize>, Vec<u8>) {
    let addr = start(4, move |mut peer| {
        let script = script.clone();
        async move {
            opened(&mut peer).await;
            let call = peer.called().await.expect("a READ");
            script(peer, call).await;
        }
    });
    let session = connect(addr).await.expect("a session");
    let home = nfs_initiator::FileHandle::new(b"home").expect("short");
    let file = session.open(&home, "file", OpenOptions::default()).await;
    let (read, buf) = file.expect("opened").read(0, empty(8192).await).await;
    (read, buf.to_vec())
}

#[test]
fn data_that_does_not_fit_is_not_taken() {
    RUNS.simulated(async || {
        // More than the buffer has; more than the record has; less than it has.
        for (claimed, len) in [(8196, 8196), (4096, 4000), (4000, 4096), (u32::MAX, 8)] {
            let (result, _) = read_answered(move |mut peer, call| async move {
                peer.send(read(&call, claimed, &vec![1; len])).await;
            })
            .await;
            let error = result.expect_err("a lie");
            assert!(matches!(error, Error::Protocol(_)), "{claimed}: {error}");
        }
        let (result, _) = read_answered(|mut peer, call| async move {
            let record = read(&call, 8, &[1; 8]).to_vec();
            let cut = &record[..record.len() - 12];
            let bytes = [&nfs::rpc::record::mark(cut.len())[..], cut].concat();
            peer.send_bytes(bytes).await;
        })
        .await;
        let none = ProtocolError::Transfer("a READ without data");
        assert_eq!(result, Err(none.into()));
    });
}

#[test]
fn data_arrives_in_fragments_and_pieces() {
    RUNS.simulated(async || {
        for pieces in [1, 7, 1000] {
            let (result, buf) = read_answered(move |mut peer, call| async move {
                let record = read(&call, 8192, &[5; 8192]).to_vec();
                // Three fragments, the last one marked.
                let mut bytes = Vec::new();
                for (n, part) in record.chunks(record.len() / 3 + 1).enumerate() {
                    let last = if n == 2 { 1 << 31 } else { 0 };
                    bytes.extend((part.len() as u32 | last).to_be_bytes());
                    bytes.extend(part);
                }
                for piece in bytes.chunks(bytes.len() / pieces + 1) {
                    peer.send_bytes(piece.to_vec()).await;
                }
                // Until the client closes.
                let _ = peer.called().await;
            })
            .await;
            assert_eq!(result, Ok(8192));
            assert_eq!(buf, [5; 8192]);
        }
    });
}

#[test]
fn a_call_without_an_answer_times_out() {
    RUNS.simulated(async || {
        let addr = start(4, |mut peer| async move {
            while peer.called().await.is_some() {}
        });
        let session = connect(addr).await.expect("a session");
        assert_eq!(session.walk("/").await, Err(Error::Timeout));
        assert_eq!(session.walk("/").await, Err(Error::Timeout));
    });
}
