//! A peer that behaves like a controller with a disk in memory, unless a script takes over a connection.

use crate::initiator::peer::Peer;
use io::net::{TcpListener, TcpStream};
use io::spawn;
use nvmf::wire::command::{Cid, Fuse, Nsid, Sgl, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::fabrics::{
    Cap, Cc, Connect, ConnectAccepted, ConnectData, Csts, Property, property,
};
use nvmf::wire::features::{AsyncEvent, NumberOfQueues, fid};
use nvmf::wire::identify::{IdentifyController, IdentifyNamespace, NamespaceList, cns};
use nvmf::wire::log::{DiscoveryLog, GetLogPage, lid};
use nvmf::wire::opcode;
use nvmf::wire::opcode::fabrics;
use nvmf::wire::pdu::{Digests, Pda};
use nvmf::wire::status::Status;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use zerocopy::{FromZeros, IntoBytes};

/// Bytes of a block of the peer's disk.
pub(crate) const BLOCK: usize = 512;
/// Blocks of the peer's disk.
pub(crate) const BLOCKS: usize = 8192;

/// Parameters that the peer negotiates and announces.
#[derive(Clone)]
pub(crate) struct Behavior {
    pub(crate) digests: Digests,
    pub(crate) cpda: Pda,
    pub(crate) max_h2c_data: u32,
    /// In-capsule data of I/O commands, bytes.
    pub(crate) capsule_data: u32,
    /// Whether reads end with SUCCESS instead of a response capsule.
    pub(crate) success: bool,
    /// Most data in a C2HData.
    pub(crate) c2h_max: usize,
    /// Most data asked for by an R2T.
    pub(crate) r2t_max: u32,
    pub(crate) traffic_based_keep_alive: bool,
    pub(crate) answers_keep_alive: bool,
    pub(crate) queues: u32,
    pub(crate) mqes: u16,
    /// Number of CSTS polls until the peer is ready.
    pub(crate) ready_after: u32,
}

impl Default for Behavior {
    fn default() -> Self {
        Behavior {
            digests: Digests::default(),
            cpda: Pda::DWORD,
            max_h2c_data: 8192,
            capsule_data: 4096,
            success: true,
            c2h_max: usize::MAX,
            r2t_max: u32::MAX,
            traffic_based_keep_alive: false,
            answers_keep_alive: true,
            queues: 64,
            mqes: 127,
            ready_after: 2,
        }
    }
}

type Script = Box<dyn FnOnce(Peer) -> Pin<Box<dyn Future<Output = ()>>>>;

/// A peer that behaves like a controller, unless a script takes over an I/O connection.
pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    pub(crate) behavior: Behavior,
    pub(crate) disk: RefCell<Vec<u8>>,
    /// Opcodes received on I/O queues served without a script.
    pub(crate) seen: RefCell<Vec<u8>>,
    pub(crate) keep_alives: Cell<u32>,
    pub(crate) admin_connections: Cell<u32>,
    pub(crate) shutdowns: Cell<u32>,
    pub(crate) discovery: RefCell<DiscoveryLog>,
    /// Events to be sent in answer to the next event requests.
    pub(crate) events: RefCell<VecDeque<AsyncEvent>>,
    /// While true, no connection is accepted.
    pub(crate) refusing: Cell<bool>,
    scripts: RefCell<VecDeque<Script>>,
}

impl Fake {
    /// Starts a peer on a free port.
    pub(crate) fn start(behavior: Behavior) -> Rc<Fake> {
        Fake::listen(behavior, "127.0.0.1:0".parse().expect("an address"))
    }

    /// Starts a peer on `addr`.
    pub(crate) fn listen(behavior: Behavior, addr: SocketAddr) -> Rc<Fake> {
        let listener = TcpListener::bind(addr).expect("bind");
        let fake = Rc::new(Fake {
            addr: listener.local_addr(),
            behavior,
            disk: RefCell::new(vec![0; BLOCK * BLOCKS]),
            seen: RefCell::default(),
            keep_alives: Cell::new(0),
            admin_connections: Cell::new(0),
            shutdowns: Cell::new(0),
            discovery: RefCell::new(DiscoveryLog {
                generation: 1,
                entries: vec![],
            }),
            events: RefCell::default(),
            refusing: Cell::new(false),
            scripts: RefCell::default(),
        });
        let serving = fake.clone();
        drop(spawn(async move {
            loop {
                let stream = listener.accept().await.expect("accept");
                if !serving.refusing.get() {
                    drop(spawn(serving.clone().serve(stream)));
                }
            }
        }));
        fake
    }

    /// Runs `script` on the next I/O connection, after its Connect.
    pub(crate) fn script<F: Future<Output = ()> + 'static>(
        &self,
        script: impl FnOnce(Peer) -> F + 'static,
    ) {
        self.scripts
            .borrow_mut()
            .push_back(Box::new(|peer| Box::pin(script(peer))));
    }

    async fn serve(self: Rc<Self>, stream: TcpStream) {
        let Some(mut peer) = Peer::initialize(stream, &self.behavior).await else {
            return;
        };
        let Some((sqe, data)) = peer.capsule().await else {
            return;
        };
        assert_eq!(
            (sqe.opcode, sqe.fabrics_type()),
            (opcode::FABRICS, fabrics::CONNECT),
            "Connect comes first"
        );
        let connect = Connect::from_sqe(&sqe);
        let data = ConnectData::parse(&data).expect("connect data in the capsule");
        data.names().expect("valid names");
        assert!(connect.qid == 0 || connect.sqsize <= self.behavior.mqes);
        let accepted = ConnectAccepted {
            cntlid: 7,
            auth_required: 0,
        };
        peer.complete(Cqe::with_result(
            sqe.cid(),
            Status::SUCCESS,
            accepted.to_result(),
        ))
        .await;
        if connect.qid == 0 {
            self.admin_connections.set(self.admin_connections.get() + 1);
            return self.serve_admin(peer).await;
        }
        assert_eq!(data.cntlid.get(), 7, "I/O queues name the controller");
        let script = self.scripts.borrow_mut().pop_front();
        match script {
            Some(script) => script(peer).await,
            None => self.serve_io(peer).await,
        }
    }

    async fn serve_admin(&self, mut peer: Peer) {
        let (mut cc, mut polls) = (0u64, 0);
        let mut event_requests: VecDeque<Cid> = VecDeque::new();
        while let Some((sqe, _)) = peer.capsule().await {
            let cid = sqe.cid();
            let ok = |result: u64| Cqe::with_result(cid, Status::SUCCESS, result);
            let reply = match sqe.opcode {
                opcode::FABRICS => {
                    let p = Property::from_sqe(&sqe);
                    match (sqe.fabrics_type(), p.offset) {
                        (fabrics::PROPERTY_GET, property::CAP) => ok(Cap::new(
                            self.behavior.mqes,
                            20,
                            Cap::CONTIGUOUS_QUEUES | Cap::NVM_COMMAND_SET,
                        )
                        .bits()),
                        (fabrics::PROPERTY_GET, property::VS) => ok(0x2_0000),
                        (fabrics::PROPERTY_GET, property::CC) => ok(cc),
                        (fabrics::PROPERTY_GET, property::CSTS) => {
                            polls += 1;
                            let mut csts = Csts::empty();
                            csts.set(
                                Csts::READY,
                                polls > self.behavior.ready_after && cc & 1 != 0,
                            );
                            csts.set(
                                Csts::SHUTDOWN_COMPLETE,
                                Cc::from_bits_retain(cc as u32).shn() != 0,
                            );
                            ok(u64::from(csts.bits()))
                        }
                        (fabrics::PROPERTY_SET, property::CC) => {
                            cc = p.value;
                            if Cc::from_bits_retain(cc as u32).shn() != 0 {
                                self.shutdowns.set(self.shutdowns.get() + 1);
                            }
                            ok(0)
                        }
                        _ => Cqe::new(cid, Status::INVALID_FIELD.dnr()),
                    }
                }
                opcode::admin::IDENTIFY => match self.identify(&sqe) {
                    Some(data) => {
                        peer.read_reply(cid, &data, &self.behavior).await;
                        continue;
                    }
                    None => Cqe::new(cid, Status::INVALID_FIELD.dnr()),
                },
                opcode::admin::GET_LOG_PAGE => match self.log_page(&GetLogPage::from_sqe(&sqe)) {
                    Some(data) => {
                        peer.read_reply(cid, &data, &self.behavior).await;
                        continue;
                    }
                    None => Cqe::new(cid, Status::INVALID_LOG_PAGE.dnr()),
                },
                opcode::admin::SET_FEATURES if sqe.feature_id() == fid::NUMBER_OF_QUEUES => {
                    let n = NumberOfQueues {
                        submission: self.behavior.queues,
                        completion: self.behavior.queues,
                    };
                    ok(u64::from(n.to_dword()))
                }
                opcode::admin::SET_FEATURES => ok(0),
                opcode::admin::GET_FEATURES => ok(u64::from(sqe.feature_id()) + 0x100),
                opcode::admin::ABORT => ok(1),
                opcode::admin::KEEP_ALIVE => {
                    self.keep_alives.set(self.keep_alives.get() + 1);
                    if !self.behavior.answers_keep_alive {
                        continue;
                    }
                    ok(0)
                }
                opcode::admin::ASYNC_EVENT_REQUEST => {
                    event_requests.push_back(cid);
                    continue;
                }
                _ => Cqe::new(cid, Status::INVALID_OPCODE.dnr()),
            };
            peer.complete(reply).await;
            self.send_events(&mut peer, &mut event_requests).await;
        }
    }

    async fn send_events(&self, peer: &mut Peer, requests: &mut VecDeque<Cid>) {
        while !requests.is_empty() {
            let Some(event) = self.events.borrow_mut().pop_front() else {
                return;
            };
            let cid = requests.pop_front().expect("not empty");
            peer.complete(Cqe::with_result(
                cid,
                Status::SUCCESS,
                u64::from(event.to_dword()),
            ))
            .await;
        }
    }

    fn identify(&self, sqe: &Sqe) -> Option<Vec<u8>> {
        match sqe.identify_cns() {
            cns::CONTROLLER => {
                let mut c = IdentifyController::new_zeroed();
                c.cntlid = 7.into();
                c.ioccsz = ((64 + self.behavior.capsule_data) / 16).into();
                c.iorcsz = 1.into();
                c.mdts = 8;
                c.kas = 1.into();
                c.aerl = 3;
                c.oaes = (1u32 << 8 | 1 << 31).into();
                c.nn = 1.into();
                c.ctratt = (u32::from(self.behavior.traffic_based_keep_alive) << 6).into();
                Some(c.as_bytes().to_vec())
            }
            cns::NAMESPACE if sqe.nsid() == Nsid(1) => {
                let mut n = IdentifyNamespace::new_zeroed();
                n.nsze = (BLOCKS as u64).into();
                n.lbaf[0].data_size = 9;
                Some(n.as_bytes().to_vec())
            }
            cns::ACTIVE_NAMESPACES => Some(NamespaceList::new([Nsid(1)]).as_bytes().to_vec()),
            _ => None,
        }
    }

    fn log_page(&self, get: &GetLogPage) -> Option<Vec<u8>> {
        let mut page = match get.lid {
            lid::DISCOVERY => self.discovery.borrow().to_bytes(),
            lid::SMART => vec![0x11; 512],
            lid::CHANGED_NAMESPACES => NamespaceList::new([Nsid(1)]).as_bytes().to_vec(),
            _ => return None,
        };
        let end = (get.offset + get.len) as usize;
        page.resize(page.len().max(end), 0);
        Some(page[get.offset as usize..end].to_vec())
    }

    /// Serves reads, writes and the like from the disk in memory.
    pub(crate) async fn serve_io(&self, mut peer: Peer) {
        let mut compared = true;
        while let Some((sqe, mut data)) = peer.capsule().await {
            self.seen.borrow_mut().push(sqe.opcode);
            let cid = sqe.cid();
            if let Sgl::Transport { length } = sqe.sgl.parse()
                && opcode::DataDirection::of(sqe.opcode) == opcode::DataDirection::HostToController
                && length > 0
            {
                let Some(collected) = peer.collect(cid, length, self.behavior.r2t_max).await else {
                    return;
                };
                data = collected;
            }
            let (at, len) = (
                sqe.slba() as usize * BLOCK,
                sqe.block_count() as usize * BLOCK,
            );
            let status = match sqe.opcode {
                opcode::io::FLUSH | opcode::io::VERIFY => Status::SUCCESS,
                opcode::io::READ => {
                    if at + len > BLOCK * BLOCKS {
                        Status::LBA_OUT_OF_RANGE.dnr()
                    } else {
                        let bytes = self.disk.borrow()[at..at + len].to_vec();
                        peer.read_reply(cid, &bytes, &self.behavior).await;
                        continue;
                    }
                }
                opcode::io::WRITE if sqe.fuse() == Fuse::Second && !compared => {
                    Status::ABORTED_FAILED_FUSED
                }
                opcode::io::WRITE => {
                    assert_eq!(data.len(), len);
                    self.disk.borrow_mut()[at..at + len].copy_from_slice(&data);
                    Status::SUCCESS
                }
                opcode::io::COMPARE => {
                    compared = self.disk.borrow()[at..at + len] == data[..];
                    if compared {
                        Status::SUCCESS
                    } else {
                        Status::COMPARE_FAILURE
                    }
                }
                opcode::io::WRITE_ZEROES => {
                    self.disk.borrow_mut()[at..at + len].fill(0);
                    Status::SUCCESS
                }
                opcode::io::DATASET_MANAGEMENT => {
                    for range in
                        nvmf::wire::dsm::parse_ranges(&data, nvmf::wire::dsm::range_count(&sqe))
                            .expect("whole")
                    {
                        let at = range.slba.get() as usize * BLOCK;
                        self.disk.borrow_mut()[at..at + range.block_count.get() as usize * BLOCK]
                            .fill(0);
                    }
                    Status::SUCCESS
                }
                _ => Status::INVALID_OPCODE.dnr(),
            };
            peer.complete(Cqe::new(cid, status)).await;
        }
    }
}
