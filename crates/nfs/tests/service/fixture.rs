//! A service to test, on a machine of the simulated world.

use crate::client::Client;
use backend::file::FileBackend;
use backend::file::memory::{MemoryFiles, MemoryOptions};
use io::rdma::RdmaListener;
use io::sim::{Node, Sim, SimConfig};
use nfs::export::{ExportConfig, Hosts, Rule, Squash};
use nfs::service::{Service, ServiceConfig};
use nfs::wire::files::{Claim, CreateHow, Open};
use nfs::wire::{Attrs, Bitmap, Op, Owner};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The path of the export.
pub(crate) const HOME: &[&str] = &["tank", "home"];
pub(crate) const NO_ATTRS: Attrs<'static> = Attrs {
    mask: Bitmap::of(&[]),
    values: &[],
};

/// A service with one export, `/tank/home`.
pub(crate) struct Fixture {
    pub(crate) service: Service,
    pub(crate) addr: SocketAddr,
    /// The machine of the service.
    pub(crate) machine: Node,
    /// The files of the export.
    pub(crate) files: Arc<dyn FileBackend>,
}

/// Every host may read and write, as every user.
pub(crate) fn all_rights() -> Rule {
    Rule {
        squash: Squash::None,
        ..Rule::read_write(Hosts::Any)
    }
}

pub(crate) fn export(id: u32, path: &str, rule: Rule) -> ExportConfig {
    let options = MemoryOptions {
        filesystem: u64::from(id),
        ..MemoryOptions::default()
    };
    ExportConfig {
        id,
        path: path.into(),
        files: Arc::new(MemoryFiles::new(options)),
        rules: vec![rule],
    }
}

pub(crate) fn config() -> ServiceConfig {
    ServiceConfig {
        handle_key: [7; 16],
        ..ServiceConfig::default()
    }
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        Fixture::with(config()).await
    }

    pub(crate) async fn with(config: ServiceConfig) -> Fixture {
        Fixture::of(export(1, "/tank/home", all_rights()), config).await
    }

    /// A service with this export.
    pub(crate) async fn of(home: ExportConfig, config: ServiceConfig) -> Fixture {
        let machine = Node::new();
        let addr = machine.addr(2049);
        let service = Service::new(config);
        let files = home.files.clone();
        service.add_export(home).expect("a new export");
        let served = service.clone();
        let serve = move || {
            testkit::listen(addr, move |stream| {
                let service = served.clone();
                async move { service.serve(stream).await }
            })
        };
        machine
            .spawn(async move { serve() })
            .await
            .expect("not killed");
        Fixture {
            service,
            addr,
            machine,
            files,
        }
    }

    /// Serves over RDMA, too. Returns the address.
    pub(crate) async fn listen_rdma(&self) -> SocketAddr {
        let (machine, service) = (self.machine, self.service.clone());
        let listening = machine.spawn(async move {
            let listener = RdmaListener::bind(machine.addr(20049)).expect("a free port");
            let addr = listener.local_addr();
            drop(io::spawn(async move {
                while let Ok(incoming) = listener.accept().await {
                    let service = service.clone();
                    drop(io::spawn(async move { service.serve_rdma(incoming).await }));
                }
            }));
            addr
        });
        listening.await.expect("not killed")
    }

    /// The address of [`Fixture::listen_rdma`].
    pub(crate) fn listening(&self) -> SocketAddr {
        self.machine.addr(20049)
    }

    pub(crate) async fn client(&self, owner: &str) -> Client {
        Client::with_session(self.addr, owner.as_bytes()).await
    }
}

/// OPEN of a name for reading and writing.
pub(crate) fn open<'a>(name: &'a str, create: Option<CreateHow<'a>>) -> Op<'a> {
    open_with(Claim::Name(name.as_bytes()), create, 3, 0)
}

pub(crate) fn open_with<'a>(
    claim: Claim<'a>,
    create: Option<CreateHow<'a>>,
    access: u32,
    deny: u32,
) -> Op<'a> {
    Op::Open(Box::new(Open {
        seqid: 0,
        access,
        deny,
        owner: Owner {
            client: 0,
            name: b"owner",
        },
        create,
        claim,
    }))
}

/// Runs a test in the simulated world, on a machine of its own.
pub(crate) fn simulated<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + 'static) {
    Sim::new(7, SimConfig::default()).block_on(async move {
        Node::new()
            .spawn(async move { test().await })
            .await
            .expect("not killed");
        // Remaining connections have missed their deadlines; all buffers are back.
        io::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
    });
}
