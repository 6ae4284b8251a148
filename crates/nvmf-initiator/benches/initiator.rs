//! Processor time of the initiator alone: reads and writes against a peer on another thread that answers every command at
//! once, without looking at its data.
//!
//! Arguments: seconds per line (1), and a part of a line's name to select lines. Prints commands per second and this thread's
//! processor time per command.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use io::net::{TcpListener, TcpOptions, TcpStream};
use io::runtime::{Shard, ShardConfig};
use io::{IoBuf, Payload, RecvBuf, Runtime, RuntimeConfig, SendBatch};
use nvmf::wire::command::{Nsid, Sgl, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::fabrics::{Cap, Csts, Property, property};
use nvmf::wire::identify::{IdentifyController, IdentifyNamespace, cns};
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::opcode::{self, admin, fabrics};
use nvmf::wire::pdu::{
    DataPdu, Decoded, Digests, Encoder, HEADER_LEN_MAX, IcResp, Pda, Pdu, Phase, R2t, Receiver,
    RxRules, decode, encode,
};
use nvmf::wire::status::Status;
use nvmf_initiator::{Config, Controller, Namespace, Offer, WriteOptions};
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

struct Line {
    name: &'static str,
    write: bool,
    len: usize,
    depth: usize,
    digests: bool,
}

async fn measure(addr: SocketAddr, line: &Line, runtime: Duration) {
    let nqn = |s: &str| Nqn::new(s).expect("valid");
    let digests = Digests {
        header: line.digests,
        data: line.digests,
    };
    let config = Config {
        offer: Offer {
            digests,
            ..Offer::default()
        },
        queue_depth: 256,
        ..Config::new(
            addr,
            nqn("nqn.2026-11.bench:disk"),
            nqn("nqn.2026-11.bench:host"),
            HostId([1; 16]),
        )
    };
    let controller = Controller::connect(config).await.expect("connect");
    let namespace = Rc::new(controller.namespace(Nsid(1)).await.expect("namespace"));
    let stop = Rc::new(Cell::new(false));
    let (start, cpu) = (io::time::now(), io::linux::thread_cpu_time());
    let jobs: Vec<_> = (0..line.depth)
        .map(|i| {
            io::spawn(job(
                namespace.clone(),
                line.write,
                line.len,
                i as u64,
                stop.clone(),
            ))
        })
        .collect();
    io::time::sleep(runtime).await;
    stop.set(true);
    let mut done = 0u64;
    for job in jobs {
        done += job.await.expect("not killed");
    }
    let (wall, cpu) = (
        start.elapsed().as_secs_f64(),
        (io::linux::thread_cpu_time() - cpu).as_secs_f64(),
    );
    println!(
        "{:<24} {:>9.0} IOPS {:>8.2} us each {:>7.2} us CPU each {:>8.0} MiB/s",
        line.name,
        done as f64 / wall,
        wall * 1e6 * line.depth as f64 / done as f64,
        cpu * 1e6 / done as f64,
        done as f64 * line.len as f64 / wall / 1048576.0,
    );
    controller.shutdown().await;
}

async fn job(ns: Rc<Namespace>, write: bool, len: usize, seed: u64, stop: Rc<Cell<bool>>) -> u64 {
    let mut buf = io::pool().alloc(len).await;
    let data = Arc::new(io::pool().alloc(len).await);
    let mut rng = io::rng::Prng::new(seed);
    let mut done = 0;
    while !stop.get() {
        let slba = rng.below(1 << 20);
        if write {
            ns.write(slba, data.clone(), WriteOptions::default())
                .await
                .expect("write");
        } else {
            let (result, back) = ns.read(slba, buf).await;
            result.expect("read");
            buf = back;
        }
        done += 1;
    }
    done
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let seconds: f64 = arguments
        .iter()
        .find_map(|arg| arg.parse().ok())
        .unwrap_or(1.0);
    let wanted = arguments
        .into_iter()
        .find(|arg| arg.parse::<f64>().is_err())
        .unwrap_or_default();
    let line = |name, write, len, depth, digests| Line {
        name,
        write,
        len,
        depth,
        digests,
    };
    let lines = [
        line("read 4K QD1", false, 4096, 1, false),
        line("read 4K QD32", false, 4096, 32, false),
        line("read 4K QD128", false, 4096, 128, false),
        line("read 4K QD32 digests", false, 4096, 32, true),
        line("write 4K QD1", true, 4096, 1, false),
        line("write 4K QD32", true, 4096, 32, false),
        line("read 128K QD8", false, 128 << 10, 8, false),
        line("write 128K QD8", true, 128 << 10, 8, false),
    ];
    let (peer, addr) = start_peer();
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    runtime.block_on(async move {
        for line in lines
            .iter()
            .filter(|line| line.name.contains(wanted.as_str()))
        {
            measure(addr, line, Duration::from_secs_f64(seconds)).await;
        }
    });
    peer.stop();
}
