//! The server of a simulated system: one raw disk, as a namespace of a subsystem or a logical unit of an iSCSI target.

use super::Protocol;
use super::plan::Plan;
use crate::store::{Wrap, open};
use backend::BlockBackend;
use io::net::TcpListener;
use io::sim::{Node, SimDisk};
use io::spawn;
use io::time::sleep;
use iscsi::target as unit_target;
use iscsi::wire::IscsiName;
use nvmf::target::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, SubsystemConfig, Target,
    TargetConfig,
};
use nvmf::wire::nqn::Nqn;
use scsi::{Device, DeviceConfig, Lun, TargetPort, UnitConfig};
use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const PORT: u16 = 4420;
/// The namespace.
pub(super) const NSID: u32 = 1;

/// What a life of the server has.
#[derive(Clone)]
struct Life {
    way: Way,
    backend: Arc<dyn BlockBackend>,
}

/// How the disk is served.
#[derive(Clone)]
enum Way {
    Nvme(Target),
    Iscsi(unit_target::Target, Arc<Device>),
}

/// See the module header.
pub(super) struct Server {
    pub(super) node: Node,
    life: Rc<RefCell<Option<Life>>>,
    protocol: Protocol,
    config: TargetConfig,
    block_size: u32,
    wrap: Wrap,
}

/// The logical unit.
pub(super) const LUN: u16 = 0;

/// The iSCSI target.
pub(super) fn iscsi_target() -> IscsiName {
    IscsiName::new("iqn.2026-01.example:sim").expect("a valid name")
}

fn lun() -> Lun {
    Lun::new(LUN).expect("small")
}

/// The subsystem.
pub(super) fn subsystem() -> Nqn {
    Nqn::new("nqn.2026-01.example:sim").expect("a valid name")
}

impl Server {
    pub(super) fn new(plan: &Plan, wrap: Wrap, protocol: Protocol) -> Server {
        Server {
            node: Node::new(),
            life: Rc::default(),
            protocol,
            config: TargetConfig {
                in_capsule: plan.in_capsule,
                ..TargetConfig::default()
            },
            block_size: plan.disk.logical_block,
            wrap,
        }
    }

    pub(super) fn create_disk(&self, plan: &Plan) -> SimDisk {
        self.node.create_disk("disk", plan.disk.clone())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.node.addr(PORT)
    }

    /// A new life of the server.
    pub(super) fn start(&self) {
        self.life.replace(None);
        let (life, config, block_size, wrap, protocol) = (
            self.life.clone(),
            self.config.clone(),
            self.block_size,
            self.wrap,
            self.protocol,
        );
        let serve = async move {
            let backend = open(block_size, wrap).await;
            let way = match protocol {
                Protocol::Nvme => Way::nvme(config),
                Protocol::Iscsi => Way::iscsi(),
            };
            let this = Life { way, backend };
            this.add_disk();
            let way = this.way.clone();
            life.replace(Some(this));
            let any = SocketAddr::from(([0, 0, 0, 0], PORT));
            let listener = loop {
                match TcpListener::bind(any) {
                    Ok(listener) => break listener,
                    // The kernel has not closed the killed process's yet.
                    Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
                    Err(e) => panic!("the port is ours: {e}"),
                }
            };
            loop {
                if let Ok(stream) = listener.accept().await {
                    let way = way.clone();
                    spawn(async move {
                        match way {
                            Way::Nvme(target) => target.serve(stream, PortRole::Io).await,
                            Way::Iscsi(target, _) => target.serve(stream).await,
                        }
                    });
                }
            }
        };
        drop(self.node.spawn(serve));
    }

    fn with_life(&self, f: impl FnOnce(&Life)) {
        if let Some(life) = &*self.life.borrow() {
            f(life);
        }
    }

    /// Notices that the disk's size changed, and tells the hosts.
    pub(super) async fn refresh(&self) {
        let life = self.life.borrow().clone();
        if let Some(life) = life
            && self
                .node
                .spawn(async move { life.backend.refresh().await })
                .await
                .is_some_and(|r| r.is_ok())
        {
            self.with_life(Life::disk_grew);
        }
    }

    /// Takes the namespace away for a while; a server that started meanwhile has its own.
    pub(super) async fn bounce_namespace(&self, lasts: Duration) {
        let life = self.life.borrow().clone();
        self.with_life(Life::remove_disk);
        sleep(lasts).await;
        let same = |l: &Life| life.is_some_and(|before| Arc::ptr_eq(&before.backend, &l.backend));
        self.with_life(|l| {
            if same(l) {
                l.add_disk();
            }
        });
    }
}

impl Way {
    fn nvme(config: TargetConfig) -> Way {
        let target = Target::new(config);
        let subsystem = SubsystemConfig {
            nqn: subsystem(),
            serial: "SIM".into(),
            model: "Simulated".into(),
            hosts: HostPolicy::Any,
        };
        target.add_subsystem(subsystem).expect("it is the first");
        Way::Nvme(target)
    }

    fn iscsi() -> Way {
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
        Way::Iscsi(target, device)
    }
}

impl Life {
    fn add_disk(&self) {
        let backend = self.backend.clone();
        let uuid = Uuid::from_u128(0x5e57);
        match &self.way {
            Way::Nvme(target) => {
                let config = NamespaceConfig {
                    nsid: NSID,
                    uuid,
                    backend,
                    reservations: Arc::new(NoReservationStore),
                };
                target
                    .add_namespace(&subsystem(), config)
                    .expect("it is not there");
            }
            Way::Iscsi(_, device) => {
                let config = UnitConfig {
                    backend,
                    uuid,
                    serial: "SIM".into(),
                    read_only: false,
                    reservations: Arc::new(scsi::NoReservationStore),
                    threshold_percent: None,
                };
                device.add_unit(lun(), config).expect("it is not there");
            }
        }
    }

    fn remove_disk(&self) {
        match &self.way {
            Way::Nvme(target) => target
                .remove_namespace(&subsystem(), NSID)
                .expect("it is there"),
            Way::Iscsi(_, device) => device.remove_unit(lun()).expect("it is there"),
        }
    }

    fn disk_grew(&self) {
        match &self.way {
            Way::Nvme(target) => target
                .namespace_changed(&subsystem(), NSID)
                .expect("it is there"),
            Way::Iscsi(_, device) => device.unit_resized(lun()).expect("it is there"),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.life.borrow() {
            None => write!(f, "the server does not run"),
            Some(Life { way, .. }) => match way {
                Way::Nvme(target) => write!(f, "sessions: {:#?}", target.sessions()),
                Way::Iscsi(target, _) => write!(f, "sessions: {:#?}", target.sessions()),
            },
        }
    }
}
