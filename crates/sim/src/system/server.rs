//! The server of a simulated system: one raw disk, as a namespace of a subsystem or a logical unit of an iSCSI target, or a
//! filesystem of a pool, as an export.

use super::client::{LAST_HOST, host};
use super::export::{ClientFile, NfsServer};
use super::guest::guest;
use super::plan::Plan;
use super::pooled::{PoolPlan, disk_name};
use super::protocol::Protocol;
use crate::classes::caches;
use crate::store::{Wrap, open};
use backend::BlockBackend;
use io::net::{TcpListener, TcpStream};
use io::rdma::{Incoming, RdmaListener};
use io::rng::Prng;
use io::runtime::Shard;
use io::sim::{Node, SimDisk};
use io::spawn;
use io::sync::lock;
use io::time::sleep;
use iscsi::portal as unit_target;
use iscsi::wire::IscsiName;
use nvmf::controller::{
    HostPolicy, NamespaceConfig, PortRole, ReservationStore, SubsystemConfig, Target, TargetConfig,
    Transports,
};
use nvmf::wire::nqn::Nqn;
use pool::Pool;
use scsi::{Device, DeviceConfig, Lun, TargetPort, UnitConfig};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use uuid::Uuid;

const PORT: u16 = 4420;
/// The namespace's identifier.
pub(super) const NSID: u32 = 1;

/// The server's file of reservations, which survives crashes.
#[derive(Debug, Default)]
struct ReservationFile(Mutex<Option<Vec<u8>>>);

impl ReservationFile {
    fn bytes(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        lock(&self.0)
    }
}

impl ReservationStore for ReservationFile {
    fn load(&self) -> Option<Vec<u8>> {
        self.bytes().clone()
    }

    fn save(&self, bytes: &[u8]) -> std::io::Result<()> {
        *self.bytes() = Some(bytes.to_vec());
        Ok(())
    }
}

/// State of one incarnation of the server.
#[derive(Clone)]
struct Life {
    way: Way,
    reservations: Arc<ReservationFile>,
    number: u64,
}

/// The protocol and the target that serve the disk or the filesystem.
#[derive(Clone)]
enum Way {
    Nvme(Target, Arc<dyn BlockBackend>),
    Iscsi(unit_target::Target, Arc<Device>, Arc<dyn BlockBackend>),
    Nfs(NfsServer),
}

/// See the module header.
pub(super) struct Server {
    pub(super) node: Node,
    /// The served disk, or the members of the pool.
    pub(super) disks: Vec<SimDisk>,
    life: Rc<RefCell<Option<Life>>>,
    protocol: Protocol,
    config: TargetConfig,
    block_size: u32,
    /// If set, a pool's volume is served instead of the disk.
    pool: Option<PoolPlan>,
    reservations: Arc<ReservationFile>,
    nfs_clients: Arc<ClientFile>,
    /// Number of simulated shards.
    shards: usize,
    /// Number of starts and ends so far.
    lives: Cell<u64>,
    /// Faults of the pool's cache device.
    faults: RefCell<Prng>,
    wrap: Wrap,
}

/// The logical unit's number.
pub(super) const LUN: u16 = 0;

/// The iSCSI target's name.
pub(super) fn iscsi_target() -> IscsiName {
    IscsiName::new("iqn.2026-01.example:sim").expect("a valid name")
}

fn lun() -> Lun {
    Lun::new(LUN).expect("small")
}

/// The subsystem's name.
pub(super) fn subsystem() -> Nqn {
    Nqn::new("nqn.2026-01.example:sim").expect("a valid name")
}

impl Server {
    /// A server that is not started yet, on a machine with its disks.
    pub(super) fn new(plan: &Plan, wrap: Wrap, protocol: Protocol) -> Server {
        let node = Node::new();
        let classes = plan.pool.as_ref().map(|pool| pool.classes);
        let classes = classes.unwrap_or_default();
        classes.create_disks(node, &plan.disk);
        let faults = caches::create(node, (classes.has_cache, &plan.disk), 0);
        let count = plan.pool.as_ref().map_or(1, |pool| pool.disks);
        let create = |n| node.create_disk(disk_name(n), plan.disk.clone());
        Server {
            node,
            disks: (0..count).map(create).collect(),
            life: Rc::default(),
            protocol,
            config: TargetConfig {
                in_capsule: plan.in_capsule,
                ..TargetConfig::default()
            },
            block_size: plan.block_size,
            pool: plan.pool.clone(),
            reservations: Arc::default(),
            nfs_clients: Arc::default(),
            shards: plan.shards,
            lives: Cell::new(0),
            faults: RefCell::new(faults),
            wrap,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.node.addr(PORT)
    }

    /// Starts an incarnation of the server.
    pub(super) fn start(&self) {
        self.life.replace(None);
        caches::break_device(self.node, &mut self.faults.borrow_mut());
        self.lives.set(self.lives.get() + 1);
        let serve = Serve {
            life: self.life.clone(),
            number: self.lives.get(),
            config: self.config.clone(),
            block_size: self.block_size,
            pool: self.pool.clone(),
            reservations: self.reservations.clone(),
            nfs_clients: self.nfs_clients.clone(),
            shards: self.shards,
            protocol: self.protocol,
            wrap: self.wrap,
        };
        match self.shards {
            1 => drop(self.node.spawn(serve.run())),
            _ => drop(self.node.spawn_on_new_shard(serve.run())),
        }
    }

    /// Records the end of the server's process.
    pub(super) fn ended(&self) {
        self.lives.set(self.lives.get() + 1);
    }

    /// Number of the incarnation, if the server serves.
    pub(super) fn life_number(&self) -> Option<u64> {
        let life = self.life.borrow();
        let is_now = |life: &&Life| self.node.is_on() && life.number == self.lives.get();
        life.as_ref().filter(is_now).map(|life| life.number)
    }

    /// Sets whether the guest may connect. Returns the number of the incarnation that applied it; `None` if the server does
    /// not serve.
    pub(super) fn admit_guest(&self, is_listed: bool) -> Option<u64> {
        self.with_life(|life| life.admit_guest(is_listed));
        self.life_number()
    }

    /// Number of the guest's sessions.
    pub(super) fn guest_sessions(&self) -> usize {
        match &*self.life.borrow() {
            Some(Life {
                way: Way::Nvme(target, _),
                ..
            }) => {
                let sessions = target.sessions();
                sessions.iter().filter(|s| s.host_nqn == guest()).count()
            }
            _ => 0,
        }
    }

    fn with_life(&self, f: impl FnOnce(&Life)) {
        if let Some(life) = &*self.life.borrow() {
            f(life);
        }
    }

    /// Reads the disk's size again, and notifies the hosts of a change.
    pub(super) async fn refresh(&self) {
        let life = self.life.borrow().clone();
        if let Some(disk) = life.and_then(|life| life.disk().cloned())
            && self
                .node
                .spawn(async move { disk.refresh().await })
                .await
                .is_some_and(|r| r.is_ok())
        {
            self.with_life(Life::disk_grew);
        }
    }

    /// Removes the namespace, unit or export for a while. Does nothing more if the server was restarted meanwhile.
    pub(super) async fn bounce(&self, lasts: Duration) {
        let number = self.life.borrow().as_ref().map(|life| life.number);
        self.with_life(Life::withdraw);
        sleep(lasts).await;
        self.with_life(|life| {
            if number == Some(life.number) {
                life.publish();
            }
        });
    }
}

/// One incarnation of the server.
struct Serve {
    life: Rc<RefCell<Option<Life>>>,
    number: u64,
    config: TargetConfig,
    block_size: u32,
    pool: Option<PoolPlan>,
    reservations: Arc<ReservationFile>,
    nfs_clients: Arc<ClientFile>,
    shards: usize,
    protocol: Protocol,
    wrap: Wrap,
}

impl Serve {
    async fn run(self) {
        let this = Life {
            way: self.way().await,
            reservations: self.reservations,
            number: self.number,
        };
        this.publish();
        let way = this.way.clone();
        self.life.replace(Some(this));
        let others = (1..self.shards).map(|_| Node::current().new_shard());
        match self.protocol.is_over_rdma() {
            true => accept_rdma(&way).await,
            false => accept(&way, &others.collect::<Vec<_>>()).await,
        }
    }

    /// Opens the disk or the pool, and makes the target of it.
    async fn way(&self) -> Way {
        let pool = match &self.pool {
            None => None,
            Some(plan) => Some((plan, plan.open(self.number).await)),
        };
        let way = match (self.protocol, &pool) {
            (Protocol::Nfs(_), None) => unreachable!("NFS has a pool"),
            (Protocol::Nfs(_), Some((plan, pool))) => {
                Way::Nfs(NfsServer::open(plan, pool, self.nfs_clients.clone()).await)
            }
            (Protocol::Nvme(_), _) => Way::nvme(self.config.clone(), self.disk(&pool).await),
            (Protocol::Iscsi(_), _) => Way::iscsi(self.disk(&pool).await),
        };
        if let Some((plan, pool)) = pool {
            // it owns the pool
            let pool = Rc::new(pool);
            plan.begin_churn(&pool, self.number);
            drop(spawn(plan.clone().request_checkpoints(pool)));
        }
        way
    }

    async fn disk(&self, pool: &Option<(&PoolPlan, Pool)>) -> Arc<dyn BlockBackend> {
        match pool {
            None => open(self.block_size, self.wrap).await,
            Some((plan, pool)) => (self.wrap)(plan.volume(pool).await),
        }
    }
}

/// Serves connections over RDMA.
async fn accept_rdma(way: &Way) {
    let any = SocketAddr::from(([0, 0, 0, 0], PORT));
    let listener = RdmaListener::bind(any).expect("the port is ours");
    loop {
        let incoming = listener.accept().await.expect("the device stays");
        drop(spawn(way.clone().serve_rdma(incoming)));
    }
}

/// Serves connections; on the other shards in turn, if there are any.
async fn accept(way: &Way, others: &[Shard]) {
    let any = SocketAddr::from(([0, 0, 0, 0], PORT));
    let listener = loop {
        match TcpListener::bind(any) {
            Ok(listener) => break listener,
            // The kernel has not closed the killed process's listener yet.
            Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
            Err(e) => panic!("the port is ours: {e}"),
        }
    };
    let mut next = (0..others.len()).cycle();
    loop {
        let Ok(stream) = listener.accept().await else {
            continue;
        };
        let way = way.clone();
        match next.next() {
            None => drop(spawn(way.serve(stream))),
            Some(shard) => {
                let stream = stream.detach();
                let handed = others[shard].spawn(move || way.serve(stream.attach()));
                handed.expect("a shard lives as long as its machine");
            }
        }
    }
}

impl Way {
    async fn serve(self, stream: TcpStream) {
        match self {
            Way::Nvme(target, _) => target.serve(stream, PortRole::Io).await,
            Way::Iscsi(target, ..) => target.serve(stream).await,
            Way::Nfs(export) => export.service.serve(stream).await,
        }
    }

    async fn serve_rdma(self, incoming: Incoming) {
        match self {
            Way::Nvme(target, _) => target.serve_rdma(incoming, PortRole::Io).await,
            Way::Iscsi(target, ..) => target.serve_rdma(incoming).await,
            Way::Nfs(export) => export.service.serve_rdma(incoming).await,
        }
    }

    fn nvme(config: TargetConfig, disk: Arc<dyn BlockBackend>) -> Way {
        let target = Target::new(config);
        let subsystem = SubsystemConfig {
            nqn: subsystem(),
            serial: "SIM".into(),
            model: "Simulated".into(),
            hosts: HostPolicy::Any,
            transports: Transports::ALL,
        };
        target.add_subsystem(subsystem).expect("it is the first");
        Way::Nvme(target, disk)
    }

    fn iscsi(disk: Arc<dyn BlockBackend>) -> Way {
        let port = TargetPort {
            relative: 1,
            portal_group: 1,
            group: 1,
        };
        let device = Device::new(DeviceConfig {
            name: iscsi_target().as_str().into(),
            vendor: "SIM".into(),
            product: "Simulated".into(),
            revision: "0".into(),
            ports: vec![port],
        })
        .expect("one port");
        let target = unit_target::Target::new(unit_target::Config::default());
        let config = unit_target::TargetConfig {
            name: iscsi_target(),
            alias: None,
            portal_group: 1,
            relative_port: 1,
            acl: unit_target::Acl::Any,
            authentication: unit_target::Authentication::None,
            redirect: None,
            device: device.clone(),
        };
        target.add_target(config).expect("it is the first");
        Way::Iscsi(target, device, disk)
    }
}

impl Life {
    fn disk(&self) -> Option<&Arc<dyn BlockBackend>> {
        match &self.way {
            Way::Nvme(_, disk) | Way::Iscsi(_, _, disk) => Some(disk),
            Way::Nfs(_) => None,
        }
    }

    /// Adds the namespace, unit or export.
    fn publish(&self) {
        let uuid = Uuid::from_u128(0x5e57);
        match &self.way {
            Way::Nvme(target, disk) => {
                let config = NamespaceConfig {
                    nsid: NSID,
                    uuid,
                    backend: disk.clone(),
                    reservations: self.reservations.clone(),
                };
                target
                    .add_namespace(&subsystem(), config)
                    .expect("it is not there");
            }
            Way::Iscsi(_, device, disk) => {
                let config = UnitConfig {
                    backend: disk.clone(),
                    uuid,
                    serial: "SIM".into(),
                    read_only: false,
                    reservations: Arc::new(scsi::NoReservationStore),
                    threshold_percent: None,
                };
                device.add_unit(lun(), config).expect("it is not there");
            }
            Way::Nfs(export) => export.publish(),
        }
    }

    fn admit_guest(&self, is_listed: bool) {
        if let Way::Nvme(target, _) = &self.way {
            let mut hosts: BTreeSet<Nqn> = (0..=LAST_HOST).map(host).collect();
            if is_listed {
                hosts.insert(guest());
            }
            let set = target.set_hosts(&subsystem(), HostPolicy::List(hosts));
            set.expect("it is there");
        }
    }

    /// Removes the namespace, unit or export.
    fn withdraw(&self) {
        match &self.way {
            Way::Nvme(target, _) => target
                .remove_namespace(&subsystem(), NSID)
                .expect("it is there"),
            Way::Iscsi(_, device, _) => device.remove_unit(lun()).expect("it is there"),
            Way::Nfs(export) => export.withdraw(),
        }
    }

    fn disk_grew(&self) {
        match &self.way {
            Way::Nvme(target, _) => target
                .namespace_changed(&subsystem(), NSID)
                .expect("it is there"),
            Way::Iscsi(_, device, _) => device.unit_resized(lun()).expect("it is there"),
            Way::Nfs(_) => {}
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.life.borrow() {
            None => write!(f, "the server does not run"),
            Some(Life { way, .. }) => match way {
                Way::Nvme(target, _) => write!(f, "sessions: {:#?}", target.sessions()),
                Way::Iscsi(target, ..) => write!(f, "sessions: {:#?}", target.sessions()),
                Way::Nfs(export) => write!(f, "clients: {:#?}", export.service.clients()),
            },
        }
    }
}
