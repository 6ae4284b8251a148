//! Targets: a local file or block device, memory, a namespace over NVMe/TCP or NVMe/RDMA, a logical unit over iSCSI or iSER,
//! a file over NFS, a volume of a local pool.
//!
//! **Owns** the interface between the engine and a target: [`Target`] is opened once and [`Target::connect`]ed by
//! each job on its own thread; a [`Session`] does the I/O. **Called by** the engine and verify. **Invariants**: a
//! session's futures are local to its shard; [`Facts`] describe the values in effect, not the requested ones.

pub mod address;
pub(crate) mod address_text;
pub mod any;
pub mod file;
pub mod iscsi;
pub mod iscsi_address;
pub mod memory;
pub mod nfs;
pub mod nfs_address;
pub mod nvme;
pub mod nvme_address;
pub mod volume;

pub use address::Address;
pub use any::{AnySession, AnyTarget};

use crate::Result;
use io::IoBuf;
use io::linux::listener;
use io::rdma::RdmaInfo;
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// The congestion control of measured connections: the kernel's default may pace, and its effect would be measured as
/// a property of the target.
const CONGESTION: &str = "cubic";

/// Options for opening a target.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenAs {
    /// Whether it will be written.
    pub writable: bool,
    /// Size with which a missing or empty file is created, bytes.
    pub create: Option<u64>,
}

/// A target. Shared by all jobs.
pub trait Target: Clone + Send + Sync + 'static {
    /// The session of a job.
    type Session: Session;

    /// Facts that are known before a measurement.
    fn facts(&self) -> Facts;

    /// A session of its own for a job that keeps up to `depth` I/Os in flight. Called on the job's shard.
    fn connect(&self, depth: u32) -> impl Future<Output = Result<Self::Session>>;
}

/// A job's connection to its target. Offsets and lengths are bytes, multiples of the target's block size.
pub trait Session: 'static {
    /// Fills `buf` from `offset` on.
    fn read(&self, buf: IoBuf, offset: u64) -> impl Future<Output = (Result<()>, IoBuf)>;

    /// Writes `buf` at `offset`; with `durable` it is on stable storage when this ends.
    fn write(
        &self,
        buf: IoBuf,
        offset: u64,
        durable: bool,
    ) -> impl Future<Output = (Result<()>, IoBuf)>;

    /// Makes every write durable that ended before this call.
    fn flush(&self) -> impl Future<Output = Result<()>>;

    /// Facts in effect on this session.
    fn facts(&self) -> Facts;

    /// Changes with each reconnection.
    fn epoch(&self) -> u64;

    /// Ends the session in an orderly way.
    fn close(self) -> impl Future<Output = ()>;
}

/// Whether a target executes several I/Os concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// It does: queue depth has an effect.
    Asynchronous,
    /// It executes one I/O at a time, for any queue depth.
    Synchronous,
}

/// Medium of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Memory on purpose.
    Ram,
    /// A device.
    Device,
    /// Unknown: the server did not report it.
    Unknown,
}

/// Facts about a target or a session. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Size.
    pub size: u64,
    /// Granularity of offsets and lengths.
    pub block_size: u32,
    /// Largest I/O.
    pub transfer_max: u32,
    /// Whether it executes several I/Os concurrently.
    pub engine: Engine,
    /// The medium.
    pub medium: Medium,
    /// Whether the page cache of this machine is bypassed; `None` if it is not involved.
    pub direct: Option<bool>,
    /// Bytes that were never written, as reported by the file system.
    pub holes: u64,
    /// Memory of this process that may hold blocks of the target, bytes: a pool's record cache and dirty records.
    pub caches: u64,
    /// The transport of a remote target.
    pub transport: Option<Transport>,
    /// The process of the server, if it is on this machine and not this process.
    pub server_pid: Option<u32>,
    /// One line for people.
    pub description: String,
}

impl Facts {
    /// Facts about a remote target before it is connected; `ram` if it is memory on purpose.
    fn remote(at: SocketAddr, ram: bool, description: &str) -> Self {
        Self {
            size: 0,
            block_size: 512,
            transfer_max: 0,
            engine: Engine::Asynchronous,
            medium: match ram {
                true => Medium::Ram,
                false => Medium::Unknown,
            },
            direct: None,
            holes: 0,
            caches: 0,
            transport: None,
            server_pid: is_here(at).then(|| listener(at)).flatten(),
            description: description.into(),
        }
    }
}

/// The transport in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transport {
    /// `tcp` or `rdma`.
    pub kind: String,
    /// The queue pair of the first I/O queue, over RDMA.
    pub rdma: Option<RdmaInfo>,
    /// Congestion control in use; empty over RDMA.
    pub congestion: String,
    /// Requested congestion control; empty over RDMA.
    pub congestion_wanted: String,
    /// Congestion control with which the server sends; `None` if it is unknown, because the server is on another
    /// machine, and over RDMA.
    pub congestion_server: Option<String>,
    /// Header and data digests in use.
    pub digests: (bool, bool),
    /// I/O queues of each job.
    pub queues: u32,
    /// Commands in flight per queue.
    pub depth: u32,
    /// Requested properties that are not in effect, in words.
    pub fallbacks: Vec<String>,
}

impl Transport {
    /// The connection in words: the congestion control of both directions, or the device and the path MTU.
    #[must_use]
    pub fn connection(&self) -> String {
        if let Some(rdma) = &self.rdma {
            return format!("device {}, path MTU {}", rdma.device, rdma.path_mtu);
        }
        let server = self.congestion_server.as_deref().unwrap_or("unknown");
        format!("{} to the server, {server} from it", self.congestion)
    }
}

/// The congestion control with which the server at `at` sends, if it is on this machine.
fn congestion_of(at: SocketAddr) -> Option<String> {
    is_here(at).then(|| io::linux::congestion_at(at)).flatten()
}

/// Whether an address is one of this machine: a socket can be bound to it. RDMA devices have no loopback address, so a server on this machine
/// is named by another one.
fn is_here(at: SocketAddr) -> bool {
    at.ip().is_loopback() || UdpSocket::bind((at.ip(), 0)).is_ok()
}

/// The buffer of a write that ended. A broken connection may still hold it: then a copy.
async fn whole(data: Arc<IoBuf>) -> IoBuf {
    match Arc::try_unwrap(data) {
        Ok(buf) => buf,
        Err(held) => {
            let mut copy = io::pool().alloc(held.len()).await;
            copy.copy_from_slice(&held);
            copy
        }
    }
}
