//! A target of any kind, chosen by its address.

use super::file::{FileSession, FileTarget};
use super::iscsi::{IscsiSession, IscsiTarget};
use super::memory::{MemorySession, MemoryTarget};
use super::nfs::{NfsSession, NfsTarget};
use super::nvme::{NvmeSession, NvmeTarget};
use super::volume::{VolumeSession, VolumeTarget};
use super::{Address, Facts, OpenAs, Session, Target};
use crate::Result;
use io::IoBuf;
use io::net::TcpInfo;

/// A target of any kind.
#[derive(Clone)]
pub enum AnyTarget {
    /// A file or block device.
    File(FileTarget),
    /// Memory.
    Memory(MemoryTarget),
    /// NVMe over TCP or RDMA.
    Nvme(NvmeTarget),
    /// iSCSI.
    Iscsi(IscsiTarget),
    /// A file over NFS.
    Nfs(NfsTarget),
    /// A volume of a local pool.
    Volume(VolumeTarget),
}

impl AnyTarget {
    /// Opens the target of `address`. Errors: `Target`, `Usage`.
    pub async fn open(address: &Address, how: OpenAs) -> Result<AnyTarget> {
        Ok(match address {
            Address::File { path, .. } => AnyTarget::File(
                FileTarget::open(path, FileTarget::options(address, how.writable, how.create))
                    .await?,
            ),
            Address::Memory(bytes) => AnyTarget::Memory(MemoryTarget::new(*bytes)?),
            Address::Nvme(t) => AnyTarget::Nvme(NvmeTarget::open(t).await?),
            Address::Iscsi(t) => AnyTarget::Iscsi(IscsiTarget::open(t).await?),
            Address::Nfs(t) => AnyTarget::Nfs(NfsTarget::open(t, how).await?),
        })
    }
}

impl Target for AnyTarget {
    type Session = AnySession;

    fn facts(&self) -> Facts {
        match self {
            AnyTarget::File(t) => t.facts(),
            AnyTarget::Memory(t) => t.facts(),
            AnyTarget::Nvme(t) => t.facts(),
            AnyTarget::Iscsi(t) => t.facts(),
            AnyTarget::Nfs(t) => t.facts(),
            AnyTarget::Volume(t) => t.facts(),
        }
    }

    async fn connect(&self, depth: u32) -> Result<AnySession> {
        Ok(match self {
            AnyTarget::File(t) => AnySession::File(t.connect(depth).await?),
            AnyTarget::Memory(t) => AnySession::Memory(t.connect(depth).await?),
            AnyTarget::Nvme(t) => AnySession::Nvme(t.connect(depth).await?),
            AnyTarget::Iscsi(t) => AnySession::Iscsi(t.connect(depth).await?),
            AnyTarget::Nfs(t) => AnySession::Nfs(t.connect(depth).await?),
            AnyTarget::Volume(t) => AnySession::Volume(t.connect(depth).await?),
        })
    }
}

impl AnySession {
    /// Exchanges the smallest request of the protocol with the server: NVMe Keep Alive, a NOP-Out of iSCSI, SEQUENCE of NFS.
    /// It reaches the server's protocol code, and no storage. `None` without a network.
    pub async fn keep_alive(&self) -> Option<Result<()>> {
        match self {
            AnySession::Nvme(s) => Some(s.keep_alive().await),
            AnySession::Iscsi(s) => Some(s.keep_alive().await),
            AnySession::Nfs(s) => Some(s.keep_alive().await),
            AnySession::File(_) | AnySession::Memory(_) | AnySession::Volume(_) => None,
        }
    }

    /// The kernel's statistics of the connection that carries reads and writes. `None` without a network or a connection, and over RDMA.
    #[must_use]
    pub fn tcp(&self) -> Option<TcpInfo> {
        match self {
            AnySession::Nvme(s) => s.tcp(),
            AnySession::Iscsi(s) => s.tcp(),
            AnySession::Nfs(s) => s.tcp(),
            AnySession::File(_) | AnySession::Memory(_) | AnySession::Volume(_) => None,
        }
    }
}

/// A session of any kind.
pub enum AnySession {
    /// A file or block device.
    File(FileSession),
    /// Memory.
    Memory(MemorySession),
    /// NVMe over TCP or RDMA.
    Nvme(NvmeSession),
    /// iSCSI.
    Iscsi(IscsiSession),
    /// A file over NFS.
    Nfs(NfsSession),
    /// A volume of a local pool.
    Volume(VolumeSession),
}

impl Session for AnySession {
    async fn read(&self, buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        match self {
            AnySession::File(s) => s.read(buf, offset).await,
            AnySession::Memory(s) => s.read(buf, offset).await,
            AnySession::Nvme(s) => s.read(buf, offset).await,
            AnySession::Iscsi(s) => s.read(buf, offset).await,
            AnySession::Nfs(s) => s.read(buf, offset).await,
            AnySession::Volume(s) => s.read(buf, offset).await,
        }
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (Result<()>, IoBuf) {
        match self {
            AnySession::File(s) => s.write(buf, offset, durable).await,
            AnySession::Memory(s) => s.write(buf, offset, durable).await,
            AnySession::Nvme(s) => s.write(buf, offset, durable).await,
            AnySession::Iscsi(s) => s.write(buf, offset, durable).await,
            AnySession::Nfs(s) => s.write(buf, offset, durable).await,
            AnySession::Volume(s) => s.write(buf, offset, durable).await,
        }
    }

    async fn flush(&self) -> Result<()> {
        match self {
            AnySession::File(s) => s.flush().await,
            AnySession::Memory(s) => s.flush().await,
            AnySession::Nvme(s) => s.flush().await,
            AnySession::Iscsi(s) => s.flush().await,
            AnySession::Nfs(s) => s.flush().await,
            AnySession::Volume(s) => s.flush().await,
        }
    }

    fn facts(&self) -> Facts {
        match self {
            AnySession::File(s) => s.facts(),
            AnySession::Memory(s) => s.facts(),
            AnySession::Nvme(s) => s.facts(),
            AnySession::Iscsi(s) => s.facts(),
            AnySession::Nfs(s) => s.facts(),
            AnySession::Volume(s) => s.facts(),
        }
    }

    fn epoch(&self) -> u64 {
        match self {
            AnySession::File(s) => s.epoch(),
            AnySession::Memory(s) => s.epoch(),
            AnySession::Nvme(s) => s.epoch(),
            AnySession::Iscsi(s) => s.epoch(),
            AnySession::Nfs(s) => s.epoch(),
            AnySession::Volume(s) => s.epoch(),
        }
    }

    async fn close(self) {
        match self {
            AnySession::File(s) => s.close().await,
            AnySession::Memory(s) => s.close().await,
            AnySession::Nvme(s) => s.close().await,
            AnySession::Iscsi(s) => s.close().await,
            AnySession::Nfs(s) => s.close().await,
            AnySession::Volume(s) => s.close().await,
        }
    }
}
