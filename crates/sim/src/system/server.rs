//! The server of a simulated system: one subsystem with one namespace on one raw disk.

use super::plan::Plan;
use crate::store::{Wrap, open};
use backend::BlockBackend;
use io::net::TcpListener;
use io::sim::{Node, SimDisk};
use io::spawn;
use io::time::sleep;
use nvmf::target::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, SubsystemConfig, Target,
    TargetConfig,
};
use nvmf::wire::nqn::Nqn;
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
    target: Target,
    backend: Arc<dyn BlockBackend>,
}

/// See the module header.
pub(super) struct Server {
    pub(super) node: Node,
    life: Rc<RefCell<Option<Life>>>,
    config: TargetConfig,
    block_size: u32,
    wrap: Wrap,
}

/// The subsystem.
pub(super) fn subsystem() -> Nqn {
    Nqn::new("nqn.2026-01.example:sim").expect("a valid name")
}

impl Server {
    pub(super) fn new(plan: &Plan, wrap: Wrap) -> Server {
        Server {
            node: Node::new(),
            life: Rc::default(),
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
        let (life, config, block_size, wrap) = (
            self.life.clone(),
            self.config.clone(),
            self.block_size,
            self.wrap,
        );
        let serve = async move {
            let backend = open(block_size, wrap).await;
            let target = Target::new(config);
            let subsystem = SubsystemConfig {
                nqn: subsystem(),
                serial: "SIM".into(),
                model: "Simulated".into(),
                hosts: HostPolicy::Any,
            };
            target.add_subsystem(subsystem).expect("it is the first");
            let this = Life {
                target: target.clone(),
                backend,
            };
            this.add_namespace();
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
                    let target = target.clone();
                    spawn(async move { target.serve(stream, PortRole::Io).await });
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
            self.with_life(|l| {
                l.target
                    .namespace_changed(&subsystem(), NSID)
                    .expect("it is there")
            });
        }
    }

    /// Takes the namespace away for a while; a server that started meanwhile has its own.
    pub(super) async fn bounce_namespace(&self, lasts: Duration) {
        let life = self.life.borrow().clone();
        self.with_life(|l| {
            l.target
                .remove_namespace(&subsystem(), NSID)
                .expect("it is there")
        });
        sleep(lasts).await;
        let same = |l: &Life| life.is_some_and(|before| Arc::ptr_eq(&before.backend, &l.backend));
        self.with_life(|l| {
            if same(l) {
                l.add_namespace();
            }
        });
    }
}

impl Life {
    fn add_namespace(&self) {
        let config = NamespaceConfig {
            nsid: NSID,
            uuid: Uuid::from_u128(0x5e57),
            backend: self.backend.clone(),
            reservations: Arc::new(NoReservationStore),
        };
        self.target
            .add_namespace(&subsystem(), config)
            .expect("it is not there");
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.life.borrow() {
            None => write!(f, "the server does not run"),
            Some(l) => write!(f, "sessions: {:#?}", l.target.sessions()),
        }
    }
}
