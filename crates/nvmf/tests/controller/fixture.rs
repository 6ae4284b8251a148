//! A target to test: on loopback ports, with one subsystem.

use crate::host::{BLOCK, Host, nqn};
use io::net::TcpListener;
use io::spawn;
use nvmf::controller::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, ReservationStore, SubsystemConfig,
    Target, TargetConfig, Transports,
};
use nvmf::wire::pdu::Digests;
use std::net::SocketAddr;
use std::sync::Arc;

/// A target on a loopback port with one subsystem.
pub(crate) struct Fixture {
    pub(crate) target: Target,
    pub(crate) addr: SocketAddr,
    pub(crate) discovery: SocketAddr,
}

/// A namespace of its own kind.
pub(crate) fn namespace(nsid: u32, backend: Arc<dyn backend::BlockBackend>) -> NamespaceConfig {
    namespace_kept(nsid, backend, Arc::new(NoReservationStore))
}

pub(crate) fn namespace_kept(
    nsid: u32,
    backend: Arc<dyn backend::BlockBackend>,
    reservations: Arc<dyn ReservationStore>,
) -> NamespaceConfig {
    NamespaceConfig {
        nsid,
        uuid: uuid::Uuid::from_u128(u128::from(nsid) + 0x5150),
        backend,
        reservations,
    }
}

pub(crate) fn ram(bytes: u64) -> Arc<dyn backend::BlockBackend> {
    Arc::new(backend::memory::MemoryDisk::new(bytes, BLOCK as u32).expect("a RAM disk"))
}

/// A subsystem for every host.
pub(crate) fn subsystem() -> SubsystemConfig {
    SubsystemConfig {
        nqn: nqn(),
        serial: "WP0001".into(),
        model: "Wirepool test".into(),
        hosts: HostPolicy::Any,
        transports: Transports::ALL,
    }
}

impl Fixture {
    /// A 4 MiB RAM disk behind namespace 1.
    pub(crate) fn new() -> Fixture {
        Fixture::with(TargetConfig::default(), Some(ram(4 << 20)))
    }

    pub(crate) fn with(
        config: TargetConfig,
        disk: Option<Arc<dyn backend::BlockBackend>>,
    ) -> Fixture {
        let target = Target::new(config);
        target.add_subsystem(subsystem()).expect("a new subsystem");
        if let Some(disk) = disk {
            target
                .add_namespace(&nqn(), namespace(1, disk))
                .expect("a new namespace");
        }
        let addr = listen(&target, PortRole::Io);
        let discovery = listen(&target, PortRole::DiscoveryOnly);
        Fixture {
            target,
            addr,
            discovery,
        }
    }

    /// A connection that has exchanged ICReq and ICResp.
    pub(crate) async fn host(&self) -> Host {
        Host::initialized(self.addr, Digests::default()).await
    }

    /// An enabled admin queue.
    pub(crate) async fn admin(&self, host: u8) -> Host {
        let mut h = self.host().await;
        h.connect_admin(&nqn(), host).await;
        h
    }

    /// An admin queue and one I/O queue.
    pub(crate) async fn io(&self, host: u8) -> (Host, Host) {
        self.io_with(host, Digests::default(), false).await
    }

    pub(crate) async fn io_with(
        &self,
        host: u8,
        digests: Digests,
        no_flow_control: bool,
    ) -> (Host, Host) {
        let mut admin = Host::initialized(self.addr, digests).await;
        admin.connect_admin(&nqn(), host).await;
        let mut io = Host::initialized(self.addr, digests).await;
        let cqe = io.connect_io(&admin, 1, no_flow_control).await;
        assert!(cqe.status().is_success(), "{}", cqe.status());
        (admin, io)
    }
}

fn listen(target: &Target, role: PortRole) -> SocketAddr {
    listen_at("127.0.0.1:0".parse().expect("an address"), target, role)
}

pub(crate) fn listen_at(addr: SocketAddr, target: &Target, role: PortRole) -> SocketAddr {
    let listener = TcpListener::bind(addr).expect("a free port");
    let addr = listener.local_addr();
    let target = target.clone();
    drop(spawn(async move {
        while let Ok(stream) = listener.accept().await {
            let target = target.clone();
            drop(spawn(async move { target.serve(stream, role).await }));
        }
    }));
    addr
}
