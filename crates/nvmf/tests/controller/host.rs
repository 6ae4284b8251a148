//! A small scripted host: it sends exactly the bytes a test wants and shows exactly the bytes that it receives.

use io::net::TcpStream;
use io::{RecvBuf, Runtime, RuntimeConfig, SendBatch};
use nvmf::wire::command::{Nsid, Sgl, SglDescriptor, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::fabrics::{
    Cc, Connect, ConnectAccepted, ConnectAttributes, ConnectData, Property, property,
};
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::opcode::io as nvm;
use nvmf::wire::pdu::{
    DataPdu, Decoded, Digests, Encoder, Frame, IcReq, IcResp, Pda, Pdu, Phase, R2t, Receiver,
    RxRules, TermReq, decode, encode,
};
use nvmf::wire::status::Status;
use session::digest::crc32c;
use std::net::SocketAddr;
use std::time::Duration;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

pub(crate) const BLOCK: usize = 512;

/// Runs a test on a runtime of its own; it may take up to a minute.
pub(crate) fn run<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    let rt = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    rt.block_on(async {
        io::timeout(Duration::from_secs(60), test)
            .await
            .expect("the test came to an end")
    })
}

pub(crate) fn nqn() -> Nqn {
    Nqn::new("nqn.2026-11.io.wirepool:test").expect("a valid name")
}

pub(crate) fn host_nqn(n: u8) -> Nqn {
    Nqn::new(&format!("nqn.2026-11.io.wirepool:host{n}")).expect("a valid name")
}

pub(crate) fn host_id(n: u8) -> HostId {
    HostId([n; 16])
}

/// A PDU from the target.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) frame: Frame,
    pub(crate) data: Vec<u8>,
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) result: u64,
    pub(crate) data: Vec<u8>,
    /// The reply came as the SUCCESS flag of the data.
    pub(crate) by_flag: bool,
    pub(crate) sqhd: u16,
}

pub(crate) struct Host {
    stream: TcpStream,
    /// Bytes that were received and not parsed yet.
    arrived: Vec<u8>,
    pub(crate) rules: RxRules,
    pub(crate) encoder: Encoder,
    next_cid: u16,
    pub(crate) cntlid: u16,
    pub(crate) id: u8,
    pub(crate) ic_resp: Option<IcResp>,
}

impl Host {
    /// A TCP connection and nothing more.
    pub(crate) async fn raw(addr: SocketAddr) -> Host {
        Host::try_raw(addr).await.expect("the target listens")
    }

    /// A TCP connection, if the target's machine takes one.
    pub(crate) async fn try_raw(addr: SocketAddr) -> Option<Host> {
        let stream = TcpStream::connect(addr).await.ok()?;
        let rules = RxRules {
            data_max: 4 << 20,
            ..RxRules::connecting(Receiver::Host)
        };
        Some(Host {
            stream,
            arrived: Vec::new(),
            rules,
            encoder: Encoder {
                digests: Digests::default(),
                pda: Pda::DWORD,
            },
            next_cid: 0,
            cntlid: 0xffff,
            id: 1,
            ic_resp: None,
        })
    }

    pub(crate) async fn initialized(addr: SocketAddr, digests: Digests) -> Host {
        let mut h = Host::raw(addr).await;
        h.initialize(IcReq {
            hpda: Pda::DWORD,
            digests,
            max_r2t: 1,
        })
        .await;
        h
    }

    /// Sends ICReq, which the target may refuse.
    pub(crate) async fn try_initialize(&mut self) {
        let mut out = [0; 256];
        let req = IcReq {
            hpda: Pda::DWORD,
            digests: Digests::default(),
            max_r2t: 1,
        };
        let n = encode::ic_req(&req, &mut out);
        self.send(&out[..n]).await;
        let _ = self.recv().await;
    }

    pub(crate) async fn initialize(&mut self, req: IcReq) {
        let mut out = [0; 256];
        let n = encode::ic_req(&req, &mut out);
        self.send(&out[..n]).await;
        self.established(&req).await;
    }

    /// Waits for the ICResp to `req`, and speaks by both from here on.
    pub(crate) async fn established(&mut self, req: &IcReq) {
        let got = self.recv().await.expect("an answer to ICReq");
        let Pdu::IcResp(resp) = got.frame.pdu else {
            panic!("{:?} is no ICResp", got.frame.pdu)
        };
        self.rules = RxRules {
            phase: Phase::Established,
            digests: resp.digests,
            pda: req.hpda,
            data_max: 4 << 20,
            ..self.rules
        };
        self.encoder = Encoder {
            digests: resp.digests,
            pda: resp.cpda,
        };
        self.ic_resp = Some(resp);
    }

    /// Sends bytes; false if the connection is gone. Earlier PDUs of the target are still to be read.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        let mut batch = SendBatch::new();
        batch.put(bytes);
        self.stream.send(batch).await.0.is_ok()
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        self.stream.shutdown();
    }

    /// The next PDU, or `None` at the end of the stream.
    pub(crate) async fn recv(&mut self) -> Option<Received> {
        loop {
            match decode(&self.arrived, &self.rules).expect("the target speaks the protocol") {
                Decoded::Frame(frame) if self.arrived.len() >= frame.pdu_len() => {
                    let bytes = &self.arrived[..frame.pdu_len()];
                    let end = frame.data_offset + frame.data_len as usize;
                    let data = bytes[frame.data_offset..end].to_vec();
                    if frame.data_digest {
                        assert_eq!(
                            bytes[end..],
                            crc32c(&data).to_le_bytes(),
                            "the data digest is right"
                        );
                    }
                    self.arrived.drain(..frame.pdu_len());
                    return Some(Received { frame, data });
                }
                _ => {}
            }
            let (result, back) = self.stream.recv(RecvBuf::new(64 << 10)).await;
            self.arrived.extend_from_slice(back.readable());
            if !matches!(result, Ok(n) if n > 0) {
                return None;
            }
        }
    }

    /// The termination request that ends the connection.
    pub(crate) async fn terminated(&mut self) -> TermReq {
        loop {
            let got = self
                .recv()
                .await
                .expect("a termination request before the end");
            if let Pdu::C2hTermReq(term) = got.frame.pdu {
                return term;
            }
        }
    }

    /// True if the target closes without another word.
    pub(crate) async fn closed(&mut self) -> bool {
        self.recv().await.is_none()
    }

    pub(crate) fn cid(&mut self) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1);
        self.next_cid
    }

    /// A command capsule's bytes.
    pub(crate) fn capsule(&self, sqe: &Sqe, data: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 256];
        let n = self.encoder.capsule_cmd(sqe, data.len() as u32, &mut out);
        out.truncate(n);
        self.with_data(out, data)
    }

    pub(crate) fn with_data(&self, mut out: Vec<u8>, data: &[u8]) -> Vec<u8> {
        out.extend_from_slice(data);
        if self.encoder.data_digest() && !data.is_empty() {
            out.extend_from_slice(&crc32c(data).to_le_bytes());
        }
        out
    }

    pub(crate) fn h2c(&self, r2t: &R2t, offset: u32, data: &[u8], last: bool) -> Vec<u8> {
        let header = DataPdu {
            cccid: r2t.cccid,
            ttag: r2t.ttag,
            offset,
            last,
            success: false,
        };
        let mut out = vec![0; 256];
        let n = self.encoder.h2c_data(&header, data.len() as u32, &mut out);
        out.truncate(n);
        self.with_data(out, data)
    }

    /// Sends a command; returns its CID.
    pub(crate) async fn submit(&mut self, mut sqe: Sqe, data: &[u8]) -> u16 {
        let cid = self.cid();
        sqe.cid = U16::new(cid);
        if !data.is_empty() {
            sqe.sgl = SglDescriptor::new(Sgl::InCapsule {
                offset: 0,
                length: data.len() as u32,
            });
        }
        let bytes = self.capsule(&sqe, data);
        self.send(&bytes).await;
        cid
    }

    /// Waits for the reply to a command. Another PDU before it is an error.
    pub(crate) async fn answer(&mut self, cid: u16) -> Answer {
        let mut data = Vec::new();
        loop {
            let got = self.recv().await.expect("an answer");
            match got.frame.pdu {
                Pdu::C2hData(d) if d.cccid.0 == cid => {
                    assert_eq!(d.offset as usize, data.len());
                    data.extend(got.data);
                    if d.success {
                        return Answer {
                            status: Status::SUCCESS,
                            result: 0,
                            data,
                            by_flag: true,
                            sqhd: 0,
                        };
                    }
                }
                Pdu::CapsuleResp(cqe) if cqe.cid.get() == cid => {
                    return Answer {
                        status: cqe.status(),
                        result: cqe.result(),
                        data,
                        by_flag: false,
                        sqhd: cqe.sqhd.get(),
                    };
                }
                other => panic!("{other:?} instead of the answer to {cid}"),
            }
        }
    }

    /// Waits for the successful reply to whichever command ends next; returns its CID.
    pub(crate) async fn any_answer(&mut self) -> u16 {
        let got = self.recv().await.expect("an answer");
        match got.frame.pdu {
            Pdu::CapsuleResp(cqe) if cqe.status().is_success() => cqe.cid.get(),
            other => panic!("{other:?} is no successful reply"),
        }
    }

    /// A command with at most in-capsule data.
    pub(crate) async fn command(&mut self, sqe: Sqe, data: &[u8]) -> Answer {
        let cid = self.submit(sqe, data).await;
        self.answer(cid).await
    }

    /// A command that brings data to the host.
    pub(crate) async fn fetch(&mut self, mut sqe: Sqe, len: u32) -> Answer {
        sqe.sgl = SglDescriptor::new(Sgl::Transport { length: len });
        self.command(sqe, &[]).await
    }

    /// A command whose data goes by R2T.
    pub(crate) async fn transfer(&mut self, mut sqe: Sqe, data: &[u8]) -> Answer {
        sqe.sgl = SglDescriptor::new(Sgl::Transport {
            length: data.len() as u32,
        });
        let cid = self.submit(sqe, &[]).await;
        let r2t = match self.r2t(cid).await {
            Ok(r2t) => r2t,
            Err(cqe) => {
                return Answer {
                    status: cqe.status(),
                    result: cqe.result(),
                    data: Vec::new(),
                    by_flag: false,
                    sqhd: 0,
                };
            }
        };
        assert_eq!((r2t.offset, r2t.length), (0, data.len() as u32));
        let max = self.ic_resp.expect("initialized").max_h2c_data as usize;
        let mut at = 0;
        while at < data.len() {
            let end = (at + max).min(data.len());
            let bytes = self.h2c(&r2t, at as u32, &data[at..end], end == data.len());
            self.send(&bytes).await;
            at = end;
        }
        self.answer(cid).await
    }

    pub(crate) async fn r2t(&mut self, cid: u16) -> Result<R2t, Cqe> {
        let got = self.recv().await.expect("an R2T");
        match got.frame.pdu {
            Pdu::R2t(r2t) if r2t.cccid.0 == cid => Ok(r2t),
            Pdu::CapsuleResp(cqe) if cqe.cid.get() == cid => Err(cqe),
            other => panic!("{other:?} is no R2T"),
        }
    }

    /// A Connect and its answer.
    pub(crate) async fn connect(&mut self, connect: Connect, data: &ConnectData) -> Answer {
        self.command(connect.to_sqe(), data.as_bytes()).await
    }

    pub(crate) async fn connect_admin(&mut self, subnqn: &Nqn, host: u8) {
        self.connect_keep_alive(subnqn, host, 0).await;
    }

    pub(crate) async fn connect_keep_alive(&mut self, subnqn: &Nqn, host: u8, kato_ms: u32) {
        self.id = host;
        let data = ConnectData::new(host_id(host), 0xffff, subnqn, &host_nqn(host));
        let answer = self.connect(connect(0, 31, kato_ms), &data).await;
        assert!(answer.status.is_success(), "{}", answer.status);
        self.cntlid = ConnectAccepted::from_result(answer.result).cntlid;
        let answer = self
            .command(
                Property::set(property::CC, false, u64::from(Cc::enabled(0).bits())),
                &[],
            )
            .await;
        assert!(answer.status.is_success());
        let csts = self
            .command(Property::get(property::CSTS, false), &[])
            .await;
        assert_eq!(csts.result & 1, 1, "the controller is ready");
    }

    pub(crate) async fn connect_io(
        &mut self,
        admin: &Host,
        qid: u16,
        no_flow_control: bool,
    ) -> Cqe {
        let data = ConnectData::new(host_id(admin.id), admin.cntlid, &nqn(), &host_nqn(admin.id));
        let mut c = connect(qid, 127, 0);
        if no_flow_control {
            c.attributes = ConnectAttributes::NO_SQ_FLOW_CONTROL;
        }
        let a = self.connect(c, &data).await;
        Cqe::with_result(nvmf::wire::command::Cid(0), a.status, a.result)
    }
}

pub(crate) fn connect(qid: u16, sqsize: u16, kato_ms: u32) -> Connect {
    Connect {
        record_format: 0,
        qid,
        sqsize,
        attributes: ConnectAttributes::empty(),
        kato_ms,
    }
}

/// A command over `blocks` blocks from `slba` on of namespace 1.
pub(crate) fn blocks(opcode: u8, slba: u64, blocks: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode, Nsid(1));
    sqe.set_slba(slba);
    sqe.cdw12 = U32::new(blocks - 1);
    sqe
}

pub(crate) fn read(slba: u64, n: u32) -> Sqe {
    let mut sqe = blocks(nvm::READ, slba, n);
    sqe.sgl = SglDescriptor::new(Sgl::Transport {
        length: n * BLOCK as u32,
    });
    sqe
}

pub(crate) fn write(slba: u64, n: u32) -> Sqe {
    let mut sqe = blocks(nvm::WRITE, slba, n);
    sqe.sgl = SglDescriptor::new(Sgl::Transport {
        length: n * BLOCK as u32,
    });
    sqe
}

/// Bytes that tell where they belong.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u64).wrapping_mul(0x9e37_79b9).to_le_bytes()[1] ^ seed)
        .collect()
}
