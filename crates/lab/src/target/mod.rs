//! What is measured: a file or block device here, memory here, a namespace over NVMe/TCP, a logical unit over iSCSI, a
//! volume of a pool here.
//!
//! **Owns** the seam between the engine and a target: [`Target`] is opened once and [`Target::connect`]ed by each
//! job on its own thread; a [`Session`] does the I/O. **Called by** the engine and verify. **Invariants**: a
//! session's futures are local to its shard; [`Facts`] tell what is in effect, not what was asked for.

pub mod address;
pub mod any;
pub mod file;
pub mod iscsi;
pub mod iscsi_address;
pub mod memory;
pub mod nvme;
pub mod volume;

pub use address::Address;
pub use any::{AnySession, AnyTarget, OpenAs};

use crate::Result;
use io::IoBuf;
use io::linux::listener;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

/// The congestion control of measured connections: the kernel's default may pace, which is no property of the target.
const CONGESTION: &str = "cubic";

/// Something to measure. Shared by all jobs.
pub trait Target: Clone + Send + Sync + 'static {
    /// What a job works with.
    type Session: Session;

    /// What is known before anything is measured.
    fn facts(&self) -> Facts;

    /// A session of its own for a job that keeps up to `depth` I/Os in flight. Called on the job's shard.
    fn connect(&self, depth: u32) -> impl Future<Output = Result<Self::Session>>;
}

/// A job's way to its target. Offsets and lengths are bytes, multiples of the target's block size.
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

    /// Makes every write that ended before this call stable.
    fn flush(&self) -> impl Future<Output = Result<()>>;

    /// What is in effect on this session.
    fn facts(&self) -> Facts;

    /// Changes whenever the connection was lost and made again.
    fn epoch(&self) -> u64;

    /// Ends the session in an orderly way.
    fn close(self) -> impl Future<Output = ()>;
}

/// Whether a target works on several I/Os at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// It does: queue depth means something.
    Asynchronous,
    /// Each I/O is done before the next begins, whatever the queue depth.
    Synchronous,
}

/// Where the bytes end up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Memory, and meant to be.
    Ram,
    /// A device.
    Device,
    /// The other side did not say.
    Unknown,
}

/// What is known about a target or a session. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Size.
    pub size: u64,
    /// What offsets and lengths are multiples of.
    pub block_size: u32,
    /// Largest I/O it takes.
    pub transfer_max: u32,
    /// Whether it works on several I/Os at once.
    pub engine: Engine,
    /// Where the bytes end up.
    pub medium: Medium,
    /// The page cache of this machine is bypassed; `None` where it is not involved.
    pub direct: Option<bool>,
    /// Bytes that were never written, as far as the file system tells.
    pub holes: u64,
    /// Memory of this process that may hold blocks of the target, bytes: a pool's record cache and dirty records.
    pub caches: u64,
    /// What carries the I/Os, for targets that are not here.
    pub transport: Option<Transport>,
    /// The process that serves it, if it is on this machine and not us.
    pub server_pid: Option<u32>,
    /// One line for people.
    pub description: String,
}

impl Facts {
    /// What is known of a target that others serve at an address, before it is connected to; `ram` if it is memory, and
    /// meant to be.
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
            server_pid: at.ip().is_loopback().then(|| listener(at)).flatten(),
            description: description.into(),
        }
    }
}

/// What carries the I/Os, as it is in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transport {
    /// `tcp`.
    pub kind: String,
    /// Congestion control in use.
    pub congestion: String,
    /// Congestion control asked for.
    pub congestion_wanted: String,
    /// Congestion control under which the server sends; `None` if it is not on this machine, and so not known.
    pub congestion_server: Option<String>,
    /// Header and data digests in use.
    pub digests: (bool, bool),
    /// I/O queues of each job.
    pub queues: u32,
    /// Commands in flight each queue takes.
    pub depth: u32,
    /// What was asked for and is not in effect, in words; empty if nothing.
    pub fallbacks: Vec<String>,
}

impl Transport {
    /// The congestion control of both directions, in words.
    #[must_use]
    pub fn congestions(&self) -> String {
        let server = self.congestion_server.as_deref().unwrap_or("unknown");
        format!("{} to the server, {server} from it", self.congestion)
    }
}

/// The congestion control under which the server at `at` sends, if it is on this machine.
fn congestion_of(at: SocketAddr) -> Option<String> {
    at.ip()
        .is_loopback()
        .then(|| io::linux::congestion_at(at))
        .flatten()
}

/// The buffer of a write that ended. A connection that broke may still hold it: then a copy.
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
