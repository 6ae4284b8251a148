//! One connection of a scripted peer: the controller's side of the protocol, which obeys or violates it as the test requires.
//! It shares only the wire formats with the server.

use crate::initiator::fake::Behavior;
use io::net::{TcpOptions, TcpStream};
use io::{RecvBuf, SendBatch};
use nvmf::wire::command::{Cid, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::pdu::{
    DataPdu, Decoded, Digests, Encoder, HEADER_LEN_MAX, IcResp, Pda, Pdu, Phase, R2t, Receiver,
    RxRules, TermReq, decode, encode,
};
use nvmf::wire::status::Status;
use session::digest::crc32c;
use std::collections::VecDeque;

/// One connection of the peer.
pub(crate) struct Peer {
    stream: TcpStream,
    staging: RecvBuf,
    rules: RxRules,
    pub(crate) encoder: Encoder,
    /// Capsules that arrived while the script awaited another PDU.
    early: VecDeque<(Sqe, Vec<u8>)>,
}

impl Peer {
    pub(crate) async fn initialize(stream: TcpStream, behavior: &Behavior) -> Option<Peer> {
        stream.set_options(&TcpOptions::default()).expect("options");
        let mut peer = Peer {
            stream,
            staging: RecvBuf::new(1 << 20),
            rules: RxRules::connecting(Receiver::Controller),
            encoder: Encoder {
                digests: Digests::default(),
                pda: Pda::DWORD,
            },
            early: VecDeque::new(),
        };
        let (pdu, _) = peer.pdu().await?;
        let Pdu::IcReq(req) = pdu else {
            panic!("{pdu:?}")
        };
        let digests = behavior.digests.and(req.digests);
        let mut out = [0; HEADER_LEN_MAX];
        let resp = IcResp {
            cpda: behavior.cpda,
            digests,
            max_h2c_data: behavior.max_h2c_data,
        };
        let n = encode::ic_resp(&resp, &mut out);
        peer.send(&out[..n]).await;
        peer.encoder = Encoder {
            digests,
            pda: req.hpda,
        };
        peer.rules = RxRules {
            phase: Phase::Established,
            digests,
            pda: behavior.cpda,
            capsule_data_max: 8192,
            data_max: behavior.max_h2c_data,
            ..peer.rules
        };
        Some(peer)
    }

    /// Receives the next PDU and its data; `None` at the end of the stream. Panics if the PDU violates the rules.
    pub(crate) async fn pdu(&mut self) -> Option<(Pdu, Vec<u8>)> {
        loop {
            if let Decoded::Frame(f) =
                decode(self.staging.readable(), &self.rules).expect("the initiator is right")
                && self.staging.readable().len() >= f.pdu_len()
            {
                let data = self.staging.readable()
                    [f.data_offset..f.data_offset + f.data_len as usize]
                    .to_vec();
                if f.data_digest {
                    let digest = &self.staging.readable()[f.pdu_len() - 4..f.pdu_len()];
                    assert_eq!(
                        digest,
                        crc32c(&data).to_le_bytes(),
                        "the initiator's data digest"
                    );
                }
                self.staging.consume(f.pdu_len());
                return Some((f.pdu, data));
            }
            let mut taken = std::mem::replace(&mut self.staging, RecvBuf::new(0));
            assert!(taken.make_room(taken.capacity()) > 0);
            let (result, back) = self.stream.recv(taken).await;
            self.staging = back;
            match result {
                Ok(n) if n > 0 => {}
                _ => return None,
            }
        }
    }

    /// Receives the next command; `None` at the end of the stream.
    pub(crate) async fn capsule(&mut self) -> Option<(Sqe, Vec<u8>)> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        match self.pdu().await? {
            (Pdu::CapsuleCmd(sqe), data) => Some((sqe, data)),
            (other, _) => panic!("a command was due: {other:?}"),
        }
    }

    /// Receives a termination request, which must be next, and the end of the stream.
    pub(crate) async fn term_req(&mut self) -> TermReq {
        let term = loop {
            match self
                .pdu()
                .await
                .expect("a termination request before the end")
            {
                (Pdu::H2cTermReq(term), _) => break term,
                (Pdu::CapsuleCmd(_), _) => {}
                (other, _) => panic!("{other:?}"),
            }
        };
        assert!(
            self.pdu().await.is_none(),
            "nothing follows a termination request"
        );
        term
    }

    /// Requests a command's data with R2Ts and collects it; `None` if the stream ends first.
    pub(crate) async fn collect(&mut self, cid: Cid, length: u32, r2t_max: u32) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        while (data.len() as u32) < length {
            let offset = data.len() as u32;
            let want = (length - offset).min(r2t_max);
            let r2t = R2t {
                cccid: cid,
                ttag: 9,
                offset,
                length: want,
            };
            self.r2t(&r2t).await;
            let mut got = 0;
            while got < want {
                match self.pdu().await? {
                    (Pdu::H2cData(header), bytes) => {
                        let place = (header.cccid, header.ttag, header.offset);
                        assert_eq!(place, (cid, 9, offset + got));
                        got += bytes.len() as u32;
                        assert_eq!(header.last, got == want, "LAST on the last PDU of an R2T");
                        data.extend(bytes);
                    }
                    (Pdu::CapsuleCmd(sqe), bytes) => self.early.push_back((sqe, bytes)),
                    (other, _) => panic!("{other:?}"),
                }
            }
        }
        Some(data)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let mut batch = SendBatch::new();
        batch.put(bytes);
        // If the initiator has closed the connection, the next receive reports it.
        let _ = self.stream.send(batch).await;
    }

    pub(crate) async fn complete(&mut self, cqe: Cqe) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder.capsule_resp(&cqe, &mut out);
        self.send(&out[..n]).await;
    }

    pub(crate) async fn r2t(&mut self, r2t: &R2t) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder.r2t(r2t, &mut out);
        self.send(&out[..n]).await;
    }

    /// Sends a C2HData. Its digest is XORed with `digest_xor`.
    pub(crate) async fn c2h(&mut self, header: &DataPdu, data: &[u8], digest_xor: u32) {
        let mut out = vec![0; HEADER_LEN_MAX];
        let n = self.encoder.c2h_data(header, data.len() as u32, &mut out);
        out.truncate(n);
        out.extend_from_slice(data);
        if self.encoder.data_digest() {
            out.extend_from_slice(&(crc32c(data) ^ digest_xor).to_le_bytes());
        }
        self.send(&out).await;
    }

    /// Sends the data and the end of a read, as `behavior` says.
    pub(crate) async fn read_reply(&mut self, cid: Cid, data: &[u8], behavior: &Behavior) {
        let mut at = 0;
        while at < data.len() {
            let end = data.len().min(at.saturating_add(behavior.c2h_max));
            let last = end == data.len();
            let success = last && behavior.success;
            let header = DataPdu {
                cccid: cid,
                ttag: 0,
                offset: at as u32,
                last,
                success,
            };
            self.c2h(&header, &data[at..end], 0).await;
            at = end;
        }
        if !behavior.success {
            self.complete(Cqe::new(cid, Status::SUCCESS)).await;
        }
    }
}
