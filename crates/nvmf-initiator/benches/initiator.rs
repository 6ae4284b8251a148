//! Processor time of the initiator alone: reads and writes against a peer on another thread that answers every command at
//! once, without looking at its data.
//!
//! Arguments: those of [`load`]. Prints commands per second and this thread's processor time per command.

mod load;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;

use io::net::{TcpListener, TcpOptions, TcpStream};
use io::runtime::{Shard, ShardConfig};
use io::{IoBuf, Payload, RecvBuf, RuntimeConfig, SendBatch};
use load::{Bench, LINES};
use nvmf::wire::command::{Sgl, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::fabrics::{Cap, Csts, Property, property};
use nvmf::wire::identify::{IdentifyController, IdentifyNamespace, cns};
use nvmf::wire::opcode::{self, admin, fabrics};
use nvmf::wire::pdu::{
    DataPdu, Decoded, Digests, Encoder, HEADER_LEN_MAX, IcResp, Pda, Pdu, Phase, R2t, Receiver,
    RxRules, decode, encode,
};
use nvmf::wire::status::Status;
use session::digest::crc32c;
use zerocopy::{FromZeros, IntoBytes};

const DATA_MAX: usize = 1 << 20;

/// A connection that answers every command.
struct Peer {
    stream: TcpStream,
    staging: RecvBuf,
    rules: RxRules,
    encoder: Encoder,
    out: SendBatch,
    source: Arc<IoBuf>,
}

impl Peer {
    async fn serve(stream: TcpStream) {
        stream.set_options(&TcpOptions::default()).expect("options");
        let source = Arc::new(io::pool().alloc(DATA_MAX).await);
        let mut peer = Peer {
            stream,
            staging: RecvBuf::new(2 * DATA_MAX),
            rules: RxRules::connecting(Receiver::Controller),
            encoder: Encoder {
                digests: Digests::default(),
                pda: Pda::DWORD,
            },
            out: SendBatch::new(),
            source,
        };
        loop {
            peer.answer_all();
            let (result, back) = peer.stream.send(std::mem::take(&mut peer.out)).await;
            peer.out = back;
            let mut staging = std::mem::replace(&mut peer.staging, RecvBuf::new(0));
            staging.make_room(DATA_MAX);
            let (received, staging) = peer.stream.recv(staging).await;
            peer.staging = staging;
            if result.is_err() || !matches!(received, Ok(1..)) {
                return;
            }
        }
    }

    fn answer_all(&mut self) {
        while let Decoded::Frame(f) =
            decode(self.staging.readable(), &self.rules).expect("the initiator is right")
            && self.staging.readable().len() >= f.pdu_len()
        {
            match f.pdu {
                Pdu::IcReq(req) => {
                    let resp = IcResp {
                        cpda: Pda::DWORD,
                        digests: req.digests,
                        max_h2c_data: DATA_MAX as u32,
                    };
                    self.put(|_, out| encode::ic_resp(&resp, out));
                    self.encoder.digests = req.digests;
                    self.rules = RxRules {
                        phase: Phase::Established,
                        digests: req.digests,
                        capsule_data_max: 8192,
                        data_max: DATA_MAX as u32,
                        ..self.rules
                    };
                }
                Pdu::CapsuleCmd(sqe) => self.answer(&sqe),
                Pdu::H2cData(data) if data.last => {
                    self.complete(Cqe::new(data.cccid, Status::SUCCESS))
                }
                _ => {}
            }
            self.staging.consume(f.pdu_len());
        }
    }

    fn answer(&mut self, sqe: &Sqe) {
        let cid = sqe.cid();
        match (sqe.opcode, sqe.sgl.parse()) {
            (admin::IDENTIFY, _) => self.identify(sqe),
            (admin::ASYNC_EVENT_REQUEST, _) => {}
            (opcode::io::READ, Sgl::Transport { length }) => {
                self.data(sqe, Payload::shared(self.source.clone()), length)
            }
            (opcode::io::WRITE, Sgl::Transport { length }) => {
                let r2t = R2t {
                    cccid: cid,
                    ttag: 0,
                    offset: 0,
                    length,
                };
                self.put(|encoder, out| encoder.r2t(&r2t, out));
            }
            (opcode::FABRICS, _) => {
                let value = match (sqe.fabrics_type(), Property::from_sqe(sqe).offset) {
                    (fabrics::PROPERTY_GET, property::CAP) => {
                        Cap::new(1023, 1, Cap::NVM_COMMAND_SET).bits()
                    }
                    (fabrics::PROPERTY_GET, _) => {
                        u64::from((Csts::READY | Csts::SHUTDOWN_COMPLETE).bits())
                    }
                    _ => 1,
                };
                self.complete(Cqe::with_result(cid, Status::SUCCESS, value));
            }
            _ => self.complete(Cqe::new(cid, Status::SUCCESS)),
        }
    }

    fn identify(&mut self, sqe: &Sqe) {
        let bytes = if sqe.identify_cns() == cns::CONTROLLER {
            let mut controller = IdentifyController::new_zeroed();
            controller.ioccsz = ((64 + 8192) / 16).into();
            controller.as_bytes().to_vec()
        } else {
            let mut namespace = IdentifyNamespace::new_zeroed();
            namespace.nsze = (1u64 << 30).into();
            namespace.lbaf[0].data_size = 12;
            namespace.as_bytes().to_vec()
        };
        self.data(sqe, Payload::from(bytes), 4096);
    }

    fn data(&mut self, sqe: &Sqe, payload: Payload, length: u32) {
        let header = DataPdu {
            cccid: sqe.cid(),
            ttag: 0,
            offset: 0,
            last: true,
            success: true,
        };
        self.put(|encoder, out| encoder.c2h_data(&header, length, out));
        let payload = payload.sub(0, length as usize);
        let digest = payload
            .as_slice()
            .map(crc32c)
            .filter(|_| self.encoder.data_digest());
        self.out.put_payload(payload);
        if let Some(digest) = digest {
            self.out.put(&digest.to_le_bytes());
        }
    }

    fn complete(&mut self, cqe: Cqe) {
        self.put(|encoder, out| encoder.capsule_resp(&cqe, out));
    }

    fn put(&mut self, write: impl FnOnce(&Encoder, &mut [u8]) -> usize) {
        let mut out = [0; HEADER_LEN_MAX];
        let len = write(&self.encoder, &mut out);
        self.out.put(&out[..len]);
    }
}

/// Starts the peer's thread. Returns its address.
fn start_peer() -> (Shard, SocketAddr) {
    let config = ShardConfig {
        name: "peer".into(),
        cpu: None,
        runtime: RuntimeConfig::default(),
    };
    let shard = Shard::start(config).expect("io_uring is there");
    let (tx, rx) = mpsc::channel();
    shard
        .spawn(move || async move {
            let listener =
                TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
            tx.send(listener.local_addr()).expect("main waits");
            while let Ok(stream) = listener.accept().await {
                drop(io::spawn(Peer::serve(stream)));
            }
        })
        .expect("the shard lives");
    (shard, rx.recv().expect("an address"))
}

fn main() {
    let (peer, addr) = start_peer();
    let bench = Bench {
        addr,
        client: RuntimeConfig::default(),
        label: "CPU",
        cpu: io::linux::thread_cpu_time,
    };
    bench.run(LINES.into());
    peer.stop();
}
