//! Files and block devices of this machine.
//!
//! **Owns** one open disk, shared by all jobs; each job's ring does its own I/O on it.

use super::{Address, Engine, Facts, Medium, Session, Target};
use crate::limits::BLOCK_SIZE_MAX;
use crate::stats::process::file_system;
use crate::{Error, Result};
use io::disk::{Disk, DiskKind, OpenOptions};
use io::{IoBuf, SharedBuf};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file or block device.
#[derive(Clone)]
pub struct FileTarget {
    disk: Disk,
    facts: Facts,
}

impl FileTarget {
    /// Opens `path`; with `create` a missing file is created with this size. Errors: `Target`.
    pub async fn open(path: &Path, options: OpenOptions) -> Result<FileTarget> {
        let name = path.display();
        let disk = Disk::open(path, options)
            .await
            .map_err(|e| Error::target(name, e))?;
        let info = disk.info();
        let kind = file_system(path);
        let in_ram = matches!(kind.as_deref(), Some("tmpfs" | "ramfs"));
        let how = if info.direct {
            "O_DIRECT"
        } else {
            "page cache"
        };
        let what = match info.kind {
            DiskKind::File => format!(
                "file on {}",
                kind.as_deref().unwrap_or("an unknown file system")
            ),
            DiskKind::Block if info.rotational => "block device, rotational".into(),
            DiskKind::Block => "block device".into(),
        };
        let facts = Facts {
            size: info.size,
            block_size: info.logical_block.max(512),
            transfer_max: BLOCK_SIZE_MAX,
            engine: Engine::Asynchronous,
            medium: if in_ram { Medium::Ram } else { Medium::Device },
            direct: (!in_ram).then_some(info.direct),
            holes: 0,
            caches: 0,
            transport: None,
            server_pid: None,
            description: format!("{what}, {how}, io_uring"),
        };
        Ok(FileTarget { disk, facts })
    }

    /// The options of an address.
    #[must_use]
    pub fn options(address: &Address, writable: bool, create: Option<u64>) -> OpenOptions {
        let (buffered, shared) = match address {
            Address::File {
                buffered, shared, ..
            } => (*buffered, *shared),
            Address::Memory(_) | Address::Nvme(_) | Address::Iscsi(_) | Address::Nfs(_) => {
                (false, false)
            }
        };
        OpenOptions {
            read_only: !writable,
            create_size: create,
            buffered,
            shared,
        }
    }
}

impl Target for FileTarget {
    type Session = FileSession;

    fn facts(&self) -> Facts {
        let info = self.disk.info();
        let stored = match info.kind {
            DiskKind::File => std::fs::metadata(&info.path).map_or(info.size, |m| m.blocks() * 512),
            DiskKind::Block => info.size,
        };
        Facts {
            holes: info.size.saturating_sub(stored),
            ..self.facts.clone()
        }
    }

    async fn connect(&self, _depth: u32) -> Result<FileSession> {
        Ok(FileSession(self.clone()))
    }
}

/// A job's use of a file.
pub struct FileSession(FileTarget);

impl Session for FileSession {
    async fn read(&self, buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        let (r, buf) = self.0.disk.read(buf, offset).await;
        (r.map_err(Error::from), buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (Result<()>, IoBuf) {
        let data = SharedBuf::from(buf);
        let written = match durable {
            true => (self.0.disk.write_through(data.clone(), offset).await).map(drop),
            false => self.0.disk.write(data.clone(), offset).await,
        };
        let buf = data.into_inner().expect("the write is done");
        (written.map_err(Error::from), buf)
    }

    async fn flush(&self) -> Result<()> {
        self.0.disk.flush().await.map(drop).map_err(Error::from)
    }

    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn epoch(&self) -> u64 {
        0
    }

    async fn close(self) {}
}
