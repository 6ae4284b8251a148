//! The client library of SPDK as the target sees it (`spdk_nvme_perf`, `spdk_nvme_identify`, bdev_nvme, SPDK's fio
//! engine): each PDU that it sends from attach to detach, built here byte by byte and in its order.
//!
//! Two habits matter. Command identifiers are places of a last-in-first-out list, so commands one after the other
//! all have the same one. Detach first takes the outstanding Async Event Requests back without telling the target, and
//! then reads and writes properties under the identifier of the last one. Programs that are given no host NQN send an
//! empty one.

use crate::fixture::{Fixture, namespace, ram};
use crate::host::{Answer, BLOCK, Host, nqn, pattern, run};
use nvmf::controller::{HostPolicy, SessionState};
use nvmf::wire::fabrics::{ConnectAccepted, ConnectFault};
use nvmf::wire::identify::{IdentifyController, NamespaceList};
use nvmf::wire::log::DiscoveryLog;
use nvmf::wire::nqn::Nqn;
use nvmf::wire::pdu::{Digests, IcReq, Pda};
use nvmf::wire::status::Status;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use zerocopy::FromBytes;

const FABRICS: u8 = 0x7f;
const PROPERTY_SET: u8 = 0x00;
const CONNECT: u8 = 0x01;
const PROPERTY_GET: u8 = 0x04;
const IDENTIFY: u8 = 0x06;
const SET_FEATURES: u8 = 0x09;
const GET_FEATURES: u8 = 0x0a;
const GET_LOG_PAGE: u8 = 0x02;
const ASYNC_EVENT_REQUEST: u8 = 0x0c;
const KEEP_ALIVE: u8 = 0x18;
const READ: u8 = 0x02;
const WRITE: u8 = 0x01;

const CAP: u32 = 0x00;
const VS: u32 = 0x08;
const CC: u32 = 0x14;
const CSTS: u32 = 0x1c;

/// Entries of its admin queue (`DEFAULT_ADMIN_QUEUE_SIZE`).
const ADMIN_ENTRIES: u16 = 32;
/// Its least keep alive timeout, and that of its programs.
const KATO_MS: u32 = 10_000;
/// Most Async Event Requests that it sends.
const ASYNC_EVENTS: usize = 8;
/// The identifier that a process makes up when it starts.
const HOST_ID: [u8; 16] = [0xa7; 16];

/// A command as SPDK fills it in, without its identifier and its data pointer.
#[derive(Clone)]
struct Sqe([u8; 64]);

impl Sqe {
    fn new(opcode: u8, nsid: u32) -> Sqe {
        let mut sqe = Sqe([0; 64]);
        sqe.0[0] = opcode;
        sqe.0[4..8].copy_from_slice(&nsid.to_le_bytes());
        sqe
    }

    fn dwords(mut self, from: usize, values: &[u32]) -> Sqe {
        for (n, v) in (from..).zip(values) {
            self.0[4 * n..4 * n + 4].copy_from_slice(&v.to_le_bytes());
        }
        self
    }

    fn connect(qid: u16, sqsize: u16) -> Sqe {
        let mut sqe = Sqe::new(FABRICS, 0).dwords(12, &[KATO_MS]);
        sqe.0[4] = CONNECT;
        sqe.0[42..44].copy_from_slice(&qid.to_le_bytes());
        sqe.0[44..46].copy_from_slice(&sqsize.to_le_bytes());
        sqe
    }

    /// Property Get; `wide` for 8 bytes.
    fn get(offset: u32, wide: bool) -> Sqe {
        let mut sqe = Sqe::new(FABRICS, 0).dwords(11, &[offset]);
        sqe.0[4] = PROPERTY_GET;
        sqe.0[40] = u8::from(wide);
        sqe
    }

    fn set(offset: u32, value: u32) -> Sqe {
        let mut sqe = Sqe::new(FABRICS, 0).dwords(11, &[offset, value]);
        sqe.0[4] = PROPERTY_SET;
        sqe
    }

    fn identify(cns: u32, nsid: u32, csi: u32) -> Sqe {
        Sqe::new(IDENTIFY, nsid).dwords(10, &[cns, csi << 24])
    }

    fn log_page(lid: u32, nsid: u32, len: u32) -> Sqe {
        Sqe::new(GET_LOG_PAGE, nsid).dwords(10, &[lid | (len / 4 - 1) << 16])
    }
}

/// The data transfer of a command.
enum Data<'a> {
    None,
    /// Bytes in the capsule.
    Out(&'a [u8]),
    /// This number of bytes to the host.
    In(u32),
}

/// One of its queue pairs.
struct Qpair {
    host: Host,
    /// Free identifiers; the last one is taken next.
    free: Vec<u16>,
}

impl Qpair {
    async fn open(addr: SocketAddr, entries: u16) -> Qpair {
        let mut host = Host::raw(addr).await;
        let mut icreq = [0; 128];
        icreq[2] = 128;
        icreq[4] = 128;
        host.send(&icreq).await;
        host.established(&IcReq {
            hpda: Pda::DWORD,
            digests: Digests::default(),
            max_r2t: 1,
        })
        .await;
        // One entry of a queue always stays empty.
        let free = (0..entries - 1).rev().collect();
        Qpair { host, free }
    }

    /// Sends a command; returns its identifier.
    async fn submit(&mut self, mut sqe: Sqe, data: &Data<'_>) -> u16 {
        let cid = self.free.pop().expect("the queue has a free entry");
        // PSDT: SGL; the descriptor is there with no data too.
        sqe.0[1] = 0x40;
        sqe.0[2..4].copy_from_slice(&cid.to_le_bytes());
        let (bytes, len, kind): (&[u8], u32, u8) = match data {
            Data::None => (&[], 0, 0x5a),
            Data::In(len) => (&[], *len, 0x5a),
            Data::Out(bytes) => (bytes, bytes.len() as u32, 0x01),
        };
        sqe.0[32..36].copy_from_slice(&len.to_le_bytes());
        sqe.0[39] = kind;
        let mut pdu = vec![0x04, 0, 72, if bytes.is_empty() { 0 } else { 72 }];
        pdu.extend((72 + bytes.len() as u32).to_le_bytes());
        pdu.extend(sqe.0);
        pdu.extend(bytes);
        self.host.send(&pdu).await;
        cid
    }

    async fn call(&mut self, sqe: Sqe, data: Data<'_>) -> Answer {
        let cid = self.submit(sqe, &data).await;
        let answer = self.host.answer(cid).await;
        self.free.push(cid);
        answer
    }

    /// A command that must succeed.
    async fn done(&mut self, sqe: Sqe, data: Data<'_>) -> Answer {
        let answer = self.call(sqe.clone(), data).await;
        assert!(
            answer.status.is_success(),
            "{} for {:02x?}",
            answer.status,
            sqe.0
        );
        answer
    }

    async fn identify(&mut self, cns: u32, nsid: u32) -> Vec<u8> {
        self.done(Sqe::identify(cns, nsid, 0), Data::In(4096))
            .await
            .data
    }
}

/// Connect's data; `hostnqn` may be empty.
fn connect_data(cntlid: u16, subnqn: &str, hostnqn: &str) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[..16].copy_from_slice(&HOST_ID);
    data[16..18].copy_from_slice(&cntlid.to_le_bytes());
    data[256..256 + subnqn.len()].copy_from_slice(subnqn.as_bytes());
    data[512..512 + hostnqn.len()].copy_from_slice(hostnqn.as_bytes());
    data
}

/// An attached controller.
struct Attached {
    admin: Qpair,
    /// Outstanding Async Event Requests, oldest first.
    events: Vec<u16>,
    cntlid: u16,
    cap: u64,
    identity: IdentifyController,
}

async fn connect_admin(addr: SocketAddr, subnqn: &str, hostnqn: &str) -> (Qpair, Answer) {
    let mut admin = Qpair::open(addr, ADMIN_ENTRIES).await;
    let data = connect_data(0xffff, subnqn, hostnqn);
    let answer = admin
        .call(Sqe::connect(0, ADMIN_ENTRIES - 1), Data::Out(&data))
        .await;
    (admin, answer)
}

/// The steps that I/O and discovery controllers share: to the keep alive timer.
async fn attach(addr: SocketAddr, subnqn: &str, hostnqn: &str, aer_config: u32) -> Attached {
    let (mut admin, answer) = connect_admin(addr, subnqn, hostnqn).await;
    assert!(answer.status.is_success(), "{}", answer.status);
    let cntlid = ConnectAccepted::from_result(answer.result).cntlid;
    admin.done(Sqe::get(VS, false), Data::None).await;
    let cap = admin.done(Sqe::get(CAP, true), Data::None).await.result;
    let cc = admin.done(Sqe::get(CC, false), Data::None).await.result;
    assert_eq!(cc & 1, 0, "not enabled yet");
    let csts = admin.done(Sqe::get(CSTS, false), Data::None).await.result;
    assert_eq!(csts & 1, 0, "not ready yet");
    // CSS is 6 where CAP says that I/O command sets are selected; entries of 64 and 16 bytes.
    let css = if cap >> 37 & 0x40 != 0 { 6 } else { 0 };
    let cc = 1 | css << 4 | 6 << 16 | 4 << 20;
    admin.done(Sqe::set(CC, cc), Data::None).await;
    let csts = admin.done(Sqe::get(CSTS, false), Data::None).await.result;
    assert_eq!(csts & 3, 1, "ready and not failed");
    let identity = admin.identify(1, 0).await;
    let identity = IdentifyController::read_from_bytes(&identity).expect("4096 bytes");
    let config = Sqe::new(SET_FEATURES, 0).dwords(10, &[0x0b, aer_config]);
    admin.done(config, Data::None).await;
    let mut events = Vec::new();
    for _ in 0..ASYNC_EVENTS.min(usize::from(identity.aerl) + 1) {
        let request = Sqe::new(ASYNC_EVENT_REQUEST, 0);
        events.push(admin.submit(request, &Data::None).await);
    }
    let kato = Sqe::new(GET_FEATURES, 0).dwords(10, &[0x0f]);
    let kato = admin.done(kato, Data::None).await.result;
    assert_eq!(kato as u32, KATO_MS, "the timeout it asked for");
    Attached {
        admin,
        events,
        cntlid,
        cap,
        identity,
    }
}

impl Attached {
    /// The rest of an I/O controller's attach, as its programs do it, and their first Keep Alive.
    async fn learn(&mut self) -> Vec<u32> {
        let admin = &mut self.admin;
        for csi in [0, 2, 1] {
            // Answers of NVM, zoned and key-value: command sets that do not exist fail, and it goes on.
            let sqe = Sqe::identify(6, 0, csi);
            let answer = admin.call(sqe, Data::In(4096)).await;
            assert_eq!(answer.status.is_success(), csi == 0, "command set {csi}");
        }
        let queues = Sqe::new(SET_FEATURES, 0).dwords(10, &[0x07, 1023 | 1023 << 16]);
        let granted = admin.done(queues, Data::None).await.result as u32;
        assert!(granted & 0xffff < 1023, "fewer than the 1,024 it asks for");
        let list = admin.identify(2, 0).await;
        let list = NamespaceList::read_from_bytes(&list).expect("4096 bytes");
        let list: Vec<u32> = list.iter().map(|n| n.0).collect();
        for nsid in &list {
            admin.identify(0, *nsid).await;
        }
        for nsid in &list {
            admin.identify(3, *nsid).await;
        }
        if self.identity.cmic & 8 != 0 {
            let groups = self.identity.nanagrpid.get();
            let len = 16 + groups * 32 + 4 * list.len() as u32;
            let page = Sqe::log_page(0x0c, u32::MAX, len);
            let page = admin.done(page, Data::In(len)).await.data;
            assert_eq!(page.len(), len as usize, "as many bytes as it asks for");
        }
        admin.done(Sqe::new(KEEP_ALIVE, 0), Data::None).await;
        list
    }

    async fn io_queue(&self, addr: SocketAddr, qid: u16, hostnqn: &str) -> (Qpair, Answer) {
        let entries = (self.cap & 0xffff) as u16 + 1;
        let mut io = Qpair::open(addr, entries).await;
        let data = connect_data(self.cntlid, nqn().as_str(), hostnqn);
        let mut sqe = Sqe::connect(qid, entries - 1);
        sqe = sqe.dwords(12, &[KATO_MS]);
        let answer = io.call(sqe, Data::Out(&data)).await;
        (io, answer)
    }

    /// Detach: takes its requests for events back, shuts the controller down and waits until that is complete.
    async fn detach(mut self) -> Qpair {
        // They end in the order they were sent, so the last one's identifier is the next to be used.
        self.admin.free.append(&mut self.events);
        let admin = &mut self.admin;
        let cc = admin.done(Sqe::get(CC, false), Data::None).await.result as u32;
        assert_eq!(cc & 1, 1, "still enabled");
        let normal = cc & !(3 << 14) | 1 << 14;
        admin.done(Sqe::set(CC, normal), Data::None).await;
        loop {
            let csts = admin.done(Sqe::get(CSTS, false), Data::None).await.result;
            if csts >> 2 & 3 == 2 {
                return self.admin;
            }
            io::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

/// Critical warnings, and changes of namespaces and of paths.
const IO_EVENTS: u32 = 0x1d | 1 << 8 | 1 << 11;
const DISCOVERY_EVENTS: u32 = 1 << 31;

#[test]
fn spdk_nvme_perf_attaches_without_a_host_nqn_does_its_io_and_detaches() {
    run(async {
        let fx = Fixture::new();
        let mut a = attach(fx.addr, nqn().as_str(), "", IO_EVENTS).await;
        assert_eq!(a.learn().await, [1]);
        let (mut io, answer) = a.io_queue(fx.addr, 1, "").await;
        assert!(answer.status.is_success(), "{}", answer.status);
        let bytes = pattern(8 * BLOCK, 3);
        let write = Sqe::new(WRITE, 1).dwords(10, &[64, 0, 7]);
        io.done(write, Data::Out(&bytes)).await;
        let read = Sqe::new(READ, 1).dwords(10, &[64, 0, 7]);
        let len = bytes.len() as u32;
        assert_eq!(io.done(read, Data::In(len)).await.data, bytes);
        let sessions = fx.target.sessions();
        assert_eq!(sessions.len(), 1);
        assert_eq!(sessions[0].host_nqn.as_str(), "");
        assert_eq!(sessions[0].host_id.0, HOST_ID);
        // It closes its I/O queues before it shuts down.
        io.host.close();
        let admin = a.detach().await;
        assert_eq!(fx.target.sessions()[0].state, SessionState::ShutDown);
        admin.host.close();
    });
}

#[test]
fn each_property_command_of_a_detach_takes_an_abandoned_request_for_events() {
    run(async {
        let fx = Fixture::new();
        let mut a = attach(fx.addr, nqn().as_str(), "", IO_EVENTS).await;
        let last = a.events.pop().expect("it has requests outstanding");
        a.admin.free.push(last);
        a.admin.done(Sqe::get(CC, false), Data::None).await;
        // The other requests stand. An event answers the oldest of them, and nothing the abandoned one.
        fx.target
            .add_namespace(&nqn(), namespace(5, ram(1 << 20)))
            .expect("added");
        let oldest = a.events.remove(0);
        assert!(a.admin.host.answer(oldest).await.status.is_success());
        // Only properties may take one over: anything else under such an identifier is a conflict.
        let standing = a.events.pop().expect("one more");
        a.admin.free.push(standing);
        let answer = a.admin.call(Sqe::new(KEEP_ALIVE, 0), Data::None).await;
        assert!(answer.status.is(Status::COMMAND_ID_CONFLICT));
    });
}

#[test]
fn an_abandoned_request_for_events_leaves_its_place_to_another() {
    run(async {
        let fx = Fixture::new();
        let mut a = attach(fx.addr, nqn().as_str(), "", IO_EVENTS).await;
        let all = a.events.len();
        a.admin.free.append(&mut a.events);
        for _ in 0..all {
            // Under each identifier in turn.
            let cid = a.admin.submit(Sqe::get(CC, false), &Data::None).await;
            assert!(a.admin.host.answer(cid).await.status.is_success());
            a.events.push(cid);
        }
        a.admin.free.append(&mut a.events);
        for _ in 0..all {
            let request = Sqe::new(ASYNC_EVENT_REQUEST, 0);
            a.events.push(a.admin.submit(request, &Data::None).await);
        }
        // Were one of the first requests still held, the last of these would be one too many.
        a.admin.done(Sqe::new(KEEP_ALIVE, 0), Data::None).await;
    });
}

#[test]
fn a_host_without_a_name_gets_only_where_every_host_may_go() {
    run(async {
        let fx = Fixture::new();
        // Not even where a name made of its identifier is on the list.
        let own = format!(
            "nqn.2014-08.org.nvmexpress:uuid:{}",
            uuid::Uuid::from_bytes(HOST_ID)
        );
        let own = Nqn::new(&own).expect("a name");
        let list = HostPolicy::List(BTreeSet::from([own]));
        fx.target.set_hosts(&nqn(), list.clone()).expect("there");
        let (_, answer) = connect_admin(fx.addr, nqn().as_str(), "").await;
        assert!(
            answer.status.is(Status::CONNECT_INVALID_PARAMETERS),
            "{}",
            answer.status
        );
        fx.target.set_hosts(&nqn(), HostPolicy::Any).expect("there");
        let a = attach(fx.addr, nqn().as_str(), "", IO_EVENTS).await;
        // A queue that names a host is not this controller's.
        let (_, answer) = a
            .io_queue(fx.addr, 1, "nqn.2026-11.io.wirepool:host1")
            .await;
        assert!(answer.status.is(Status::CONNECT_INVALID_PARAMETERS));
        assert_eq!(
            ConnectFault::from_result(answer.result),
            ConnectFault::data(512)
        );
        // When the list comes back, the session ends.
        fx.target.set_hosts(&nqn(), list).expect("there");
        let mut admin = a.admin;
        assert!(admin.host.closed().await);
    });
}

#[test]
fn spdk_discovers_without_a_host_nqn() {
    run(async {
        let fx = Fixture::new();
        let name = nvmf::wire::nqn::DISCOVERY_NQN;
        fx.target.set_ports(vec![nvmf::controller::PortInfo {
            transport: nvmf::controller::Transport::Tcp,
            id: 1,
            addr: fx.addr,
            role: nvmf::controller::PortRole::Io,
        }]);
        for (policy, seen) in [
            (HostPolicy::Any, true),
            (HostPolicy::List(BTreeSet::new()), false),
        ] {
            fx.target.set_hosts(&nqn(), policy).expect("there");
            let mut a = attach(fx.discovery, name, "", DISCOVERY_EVENTS).await;
            a.admin.identify(1, 0).await;
            let page = Sqe::log_page(0x70, 0, 4096);
            let page = a.admin.done(page, Data::In(4096)).await.data;
            let records = u64::from_le_bytes(page[8..16].try_into().expect("8 bytes"));
            let whole = 1024 * (records as usize + 1);
            let log = DiscoveryLog::parse(&page[..whole]).expect("a page");
            let shows = |e: &nvmf::wire::log::DiscoveryEntry| e.subnqn.parse() == Ok(nqn());
            assert_eq!(log.entries.iter().any(shows), seen);
            a.detach().await;
        }
    });
}
