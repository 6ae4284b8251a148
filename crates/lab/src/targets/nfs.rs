//! A file over NFS 4.1 or 4.2, through the userspace initiator.
//!
//! **Owns** one session and one open file per job, on the job's shard. **Invariants**: the congestion control is set on every
//! socket and read back; slots that the server did not grant are in [`Transport::fallbacks`]; a write that is not durable is
//! UNSTABLE, and counts as lost if the server's write verifier changed before its COMMIT.

use super::nfs_address::Nfs;
use super::{CONGESTION, Facts, OpenAs, Session, Target, Transport, congestion_of, whole};
use crate::limits::BLOCK_SIZE_MAX;
use crate::{Error, Result};
use io::IoBuf;
use io::net::{TcpInfo, TcpOptions};
use nfs_initiator::limits::SLOTS_MAX;
use nfs_initiator::{Config, File, Kind, NfsTransport, OpenOptions, Stable};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Granularity of offsets and lengths, bytes: as that of disks, so that the targets can be compared.
const BLOCK_SIZE: u32 = 512;
/// The fewest slots to ask for.
const SLOTS_MIN: u32 = 16;

/// A file of a server.
#[derive(Clone)]
pub struct NfsTarget {
    address: Nfs,
    at: SocketAddr,
    is_writable: bool,
    /// Bytes without storage, when the last session began or ended.
    holes: Arc<AtomicU64>,
    facts: Facts,
}

impl NfsTarget {
    /// Opens the file once; a missing or empty one is created with the size of `how`, sparse. Errors: `Target`.
    pub async fn open(address: &Nfs, how: OpenAs) -> Result<NfsTarget> {
        let at = address.resolve()?;
        let facts = Facts::remote(at, address.ram, "NFS, userspace initiator");
        let mut target = NfsTarget {
            address: address.clone(),
            at,
            is_writable: how.writable,
            holes: Arc::default(),
            facts,
        };
        let probe = target.start(1, how.create).await?;
        target.facts = probe.facts();
        probe.close().await;
        Ok(target)
    }

    fn config(&self, depth: u32) -> Config {
        let (uid, gid) = self.address.caller();
        let slots = depth.clamp(SLOTS_MIN, SLOTS_MAX.into());
        Config {
            minor: self.address.minor,
            connections: self.address.connections,
            slots: u16::try_from(slots).expect("just clamped"),
            uid,
            gid,
            tcp: TcpOptions {
                congestion: Some(CONGESTION.into()),
                ..TcpOptions::default()
            },
            transport: self.address.transport,
            ..Config::new(self.at)
        }
    }

    fn transport(&self, session: &nfs_initiator::Session, depth: u32) -> Transport {
        let slots = session.slots();
        let mut fallbacks = Vec::new();
        if slots < depth {
            fallbacks.push(format!(
                "the session has {slots} slots, {depth} were requested"
            ));
        }
        let links = session.links();
        let congestion = links.first().map(|link| link.congestion.clone());
        let is_tcp = self.address.transport == NfsTransport::Tcp;
        let over_tcp = |word: &str| if is_tcp { word } else { "" }.to_owned();
        Transport {
            kind: self.address.transport.word().into(),
            rdma: session.queue_pairs().into_iter().next(),
            congestion: congestion.unwrap_or_default(),
            congestion_wanted: over_tcp(CONGESTION),
            congestion_server: is_tcp.then(|| congestion_of(self.at)).flatten(),
            digests: (false, false),
            queues: self.address.connections.into(),
            depth: slots,
            fallbacks,
        }
    }

    async fn start(&self, depth: u32, create: Option<u64>) -> Result<NfsSession> {
        let name = self.address.to_string();
        let failed = |e: nfs_initiator::Error| Error::target(&name, e);
        let session = nfs_initiator::Session::connect(self.config(depth)).await;
        let session = session.map_err(failed)?;
        let (dir, file) = self.address.parts();
        let dir = session.walk(dir).await.map_err(failed)?;
        let how = OpenOptions {
            write: self.is_writable || create.is_some(),
            create: create.is_some(),
        };
        let mut file = session.open(&dir, file, how).await.map_err(failed)?;
        if file.attributes.kind != Kind::File {
            return Err(Error::target(&name, "this is no file"));
        }
        if let Some(size) = create.filter(|_| file.attributes.size == 0) {
            file.set_size(size).await.map_err(failed)?;
        }
        let of = &file.attributes;
        if of.size < u64::from(BLOCK_SIZE) {
            let why = "the file is empty: name its size with --create";
            return Err(Error::target(&name, why));
        }
        let limit = session.transfer_max().min(BLOCK_SIZE_MAX);
        let own = |max: u64| u32::try_from(max).unwrap_or(u32::MAX).max(BLOCK_SIZE);
        let facts = Facts {
            size: of.size - of.size % u64::from(BLOCK_SIZE),
            block_size: BLOCK_SIZE,
            transfer_max: limit.min(own(of.read_max)).min(own(of.write_max)),
            transport: Some(self.transport(&session, depth)),
            ..self.facts.clone()
        };
        self.holes.store(of.size.saturating_sub(of.used), Relaxed);
        Ok(NfsSession {
            session,
            file,
            is_writable: self.is_writable,
            holes: self.holes.clone(),
            facts,
        })
    }
}

impl Target for NfsTarget {
    type Session = NfsSession;

    fn facts(&self) -> Facts {
        Facts {
            holes: self.holes.load(Relaxed),
            ..self.facts.clone()
        }
    }

    async fn connect(&self, depth: u32) -> Result<NfsSession> {
        self.start(depth, None).await
    }
}

/// A job's session and its file.
pub struct NfsSession {
    session: nfs_initiator::Session,
    file: File,
    is_writable: bool,
    holes: Arc<AtomicU64>,
    facts: Facts,
}

impl NfsSession {
    /// One SEQUENCE without further operations.
    pub(super) async fn keep_alive(&self) -> Result<()> {
        self.session.call(&[]).await.map(drop).map_err(answered)
    }

    /// Statistics of the session's first connection.
    pub(super) fn tcp(&self) -> Option<TcpInfo> {
        self.session.links().into_iter().next()
    }
}

fn answered(e: nfs_initiator::Error) -> Error {
    Error::Status(e.to_string())
}

fn all(transferred: usize, wanted: usize) -> Result<()> {
    match transferred == wanted {
        true => Ok(()),
        false => Err(Error::Status(format!(
            "{transferred} of {wanted} bytes: the file was shortened, or the server transfers less at a time"
        ))),
    }
}

impl Session for NfsSession {
    async fn read(&self, buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        let wanted = buf.len();
        let (read, buf) = self.file.read(offset, buf).await;
        (read.map_err(answered).and_then(|n| all(n, wanted)), buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (Result<()>, IoBuf) {
        let stable = match durable {
            true => Stable::File,
            false => Stable::Unstable,
        };
        let (wanted, data) = (buf.len(), Arc::new(buf));
        let written = self.file.write(offset, data.clone(), stable).await;
        let written = written.map_err(answered).and_then(|n| all(n, wanted));
        (written, whole(data).await)
    }

    async fn flush(&self) -> Result<()> {
        let before = self.file.verifier_changes();
        self.file.commit().await.map_err(answered)?;
        match self.file.verifier_changes() == before {
            true => Ok(()),
            false => Err(Error::Status(
                "the server may have lost writes that were not durable: it was restarted".into(),
            )),
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            holes: self.holes.load(Relaxed),
            ..self.facts.clone()
        }
    }

    fn epoch(&self) -> u64 {
        self.file.verifier_changes()
    }

    async fn close(self) {
        if self.is_writable {
            // Storage is known when the data is durable. An error was the run's own, or is the next one's.
            let _ = self.file.commit().await;
            if let Ok(of) = self.session.attributes(self.file.handle()).await {
                self.holes.store(of.size.saturating_sub(of.used), Relaxed);
            }
        }
        // The server ends the open with its client otherwise.
        let _ = self.file.close().await;
        self.session.close().await;
    }
}
