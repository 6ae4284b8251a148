//! The server that a drill runs on: the running one, or one of the drill's own.
//!
//! **Owns** the choice, and the server of the drill's own. **Called by** drills. **Invariants**: of a running server only its
//! control API is used; a drill that kills takes only a server of its own.

use super::mark::Mark;
use super::own::{OwnServer, POOL};
use crate::client::Client;
use anyhow::{Context, Result};
use server::ByteSize;
use server::api::{GetStatus, ListenRole, NvmfRole, Status};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Smallest disk of a server of the drill's own, and its size in sizes of the scratch volume.
const DISK_MIN: u64 = 256 << 20;
const DISK_VOLUMES: u64 = 16;

/// A server with a pool for the scratch volume.
pub(super) struct Ground {
    client: Arc<Client>,
    pool: String,
    nvme: SocketAddr,
    server: String,
    note: &'static str,
    own: Option<Rc<RefCell<OwnServer>>>,
}

impl Ground {
    /// The running server, with one of its pools. Errors: it does not answer, or has no NVMe/TCP address.
    pub(super) fn running(control: Option<PathBuf>, pool: &str) -> Result<Ground> {
        let client = Arc::new(Client::new(control, false));
        let status = client.ask(&GetStatus {})?;
        Ok(Ground {
            nvme: address(&status)?,
            client,
            pool: pool.to_owned(),
            server: format!(
                "the running server (process {}) at {}",
                status.pid,
                status.control.display()
            ),
            note: "the drill runs on the server's machine: its connections cross the kernel's TCP, not a network card or switch",
            own: None,
        })
    }

    /// A new server of the drill's own, with a mirror of file disks for a volume of this size.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn own(parent: Option<&Path>, volume: ByteSize) -> Result<Ground> {
        Ground::start(OwnServer::make(parent, false)?, volume, false)
    }

    /// The same, and the server records its writes to disks, for power cuts.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn recorded(parent: Option<&Path>, volume: ByteSize) -> Result<Ground> {
        Ground::start(OwnServer::make(parent, true)?, volume, false)
    }

    /// The same without a recording, and the pool also has a special mirror, a log and a cache device.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn with_classes(parent: Option<&Path>, volume: ByteSize) -> Result<Ground> {
        Ground::start(OwnServer::make(parent, false)?, volume, true)
    }

    fn start(mut server: OwnServer, volume: ByteSize, has_classes: bool) -> Result<Ground> {
        let nvme = server.spawn()?.wait()?;
        server.make_pool(disk_size(volume), has_classes)?;
        let disks = match has_classes {
            true => "a mirror, a special mirror, a log and a cache device of files",
            false => "a mirror of two files",
        };
        Ok(Ground {
            client: server.client(),
            pool: POOL.to_owned(),
            nvme,
            server: format!(
                "a server of the drill's own: {disks} in {}",
                server.dir().display()
            ),
            note: "no pool of yours was used: the result holds for this program on the file system of that directory",
            own: Some(Rc::new(RefCell::new(server))),
        })
    }

    /// The running server if a pool is named, else one of the drill's own.
    ///
    /// # Errors
    /// As for both.
    pub(super) fn choose(
        control: Option<PathBuf>,
        pool: Option<&str>,
        parent: Option<&Path>,
        volume: ByteSize,
    ) -> Result<Ground> {
        match pool {
            Some(pool) => Ground::running(control, pool),
            None => Ground::own(parent, volume),
        }
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(super) fn pool(&self) -> &str {
        &self.pool
    }

    /// Address of NVMe/TCP.
    pub(super) fn nvme(&self) -> SocketAddr {
        self.nvme
    }

    /// The server, for people.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// The limit of a result on this ground.
    pub(super) fn note(&self) -> &'static str {
        self.note
    }

    /// The server of the drill's own.
    pub(super) fn own_server(&self) -> Option<&Rc<RefCell<OwnServer>>> {
        self.own.as_ref()
    }

    /// The subsystem, for people.
    pub(super) fn path(&self, mark: Mark) -> String {
        format!(
            "NVMe/TCP to {} at {} through a relay in the drill's process",
            mark.subsystem(),
            self.nvme
        )
    }
}

/// Size of each disk of a server of the drill's own, for a scratch volume of this size.
pub(super) fn disk_size(volume: ByteSize) -> ByteSize {
    ByteSize(DISK_MIN.max(volume.0 * DISK_VOLUMES))
}

/// The first address of NVMe/TCP for I/O; loopback if the server listens on all addresses.
fn address(status: &Status) -> Result<SocketAddr> {
    let io = ListenRole::Nvmf(NvmfRole::Io);
    let listen = status.listen.iter().find(|l| l.role == io);
    let mut address = listen.map(|l| l.address).context(
        "the server has no NVMe/TCP address: a drill needs [nvmf] listen in its configuration",
    )?;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(address)
}
