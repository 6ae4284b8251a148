//! Opening and flushing of the configured disks.
//!
//! **Owns** the state of each disk, its opening and its last flush. **Called by** [`crate::server`] and [`crate::change`]. **Invariants**: a disk is opened
//! once; a disk that cannot be opened has a reason.

use crate::config::{DiskConfig, Medium};
use crate::limits::{BUSY_POLL, BUSY_WAIT_MAX, DISK_WAIT_MAX, FLUSH_MAX};
use backend::memory::MemoryDisk;
use backend::null::NullDisk;
use backend::raw::{OpenError, RawDisk, RawOptions};
use backend::{BlockBackend, StorageError, Usage};
use io::JoinHandle;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// State of a disk.
pub(crate) enum DiskState {
    /// It is being opened for the first time.
    Opening,
    /// It is open.
    Online(OnlineDisk),
    /// It could not be opened, for this reason; the server tries again periodically.
    Held(String),
}

impl DiskState {
    /// The disk, if it is open.
    fn online(&self) -> Option<&OnlineDisk> {
        match self {
            DiskState::Online(disk) => Some(disk),
            DiskState::Opening | DiskState::Held(_) => None,
        }
    }
}

/// A disk and its supervisor task, which ends when this is dropped.
pub(crate) struct DiskEntry {
    state: DiskState,
    /// None for a volume that is held back: its pool has one.
    supervisor: Option<JoinHandle<()>>,
}

impl Drop for DiskEntry {
    fn drop(&mut self) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.abort();
        }
    }
}

/// Disks and volumes by name; names of volumes have a slash.
#[derive(Default)]
pub(crate) struct Disks(BTreeMap<String, DiskEntry>);

impl Disks {
    /// Adds a disk that its supervisor keeps open.
    pub(crate) fn keep(&mut self, name: &str, state: DiskState, supervisor: JoinHandle<()>) {
        let supervisor = Some(supervisor);
        let entry = DiskEntry { state, supervisor };
        self.0.insert(name.to_owned(), entry);
    }

    /// A disk was opened, or could not be opened for this reason. Returns whether the reason is a new one; `None` if the disk was
    /// removed meanwhile.
    pub(crate) fn opened(
        &mut self,
        name: &str,
        result: Result<Arc<dyn BlockBackend>, String>,
    ) -> Option<bool> {
        let entry = self.0.get_mut(name)?;
        let new = match result {
            Ok(backend) => DiskState::Online(OnlineDisk::new(backend)),
            Err(reason) => DiskState::Held(reason),
        };
        let is_known = matches!((&entry.state, &new), (DiskState::Held(old), DiskState::Held(new)) if old == new);
        entry.state = new;
        Some(!is_known)
    }

    /// Sets the reason why a volume is not open.
    pub(crate) fn hold_volume(&mut self, name: &str, reason: &str) {
        let entry = DiskEntry {
            state: DiskState::Held(reason.to_owned()),
            supervisor: None,
        };
        self.0.insert(name.to_owned(), entry);
    }

    /// The state of a disk.
    pub(crate) fn state(&self, name: &str) -> Option<&DiskState> {
        self.0.get(name).map(|entry| &entry.state)
    }

    /// A disk, if it is open.
    pub(crate) fn online(&self, name: &str) -> Option<&OnlineDisk> {
        self.state(name)?.online()
    }

    /// See [`Disks::online`].
    pub(crate) fn online_mut(&mut self, name: &str) -> Option<&mut OnlineDisk> {
        match &mut self.0.get_mut(name)?.state {
            DiskState::Online(disk) => Some(disk),
            DiskState::Opening | DiskState::Held(_) => None,
        }
    }

    /// All open disks, with their names.
    pub(crate) fn all_online(&self) -> impl Iterator<Item = (&str, &OnlineDisk)> {
        let all = self.0.iter();
        all.filter_map(|(name, entry)| Some((name.as_str(), entry.state.online()?)))
    }

    /// Whether one of them is being opened for the first time.
    pub(crate) fn is_one_opening(&self) -> bool {
        let mut states = self.0.values().map(|entry| &entry.state);
        states.any(|state| matches!(state, DiskState::Opening))
    }

    /// Removes a disk. The caller drops it when the state is no longer borrowed: its users may end with it.
    #[must_use]
    pub(crate) fn remove(&mut self, name: &str) -> Option<DiskEntry> {
        self.0.remove(name)
    }

    /// Removes the volumes of a pool.
    pub(crate) fn remove_volumes(&mut self, pool: &str) {
        let is_of = |disk: &str| disk.split_once('/').is_some_and(|(p, _)| p == pool);
        self.0.retain(|disk, _| !is_of(disk));
    }
}

/// An open disk.
pub(crate) struct OnlineDisk {
    pub(crate) backend: Arc<dyn BlockBackend>,
    /// The generation of the geometry that clients know.
    pub(crate) generation: u64,
    /// Allocated space at the last check.
    pub(crate) usage: Option<Usage>,
    /// The error of the last check, if it failed.
    pub(crate) trouble: Option<String>,
}

impl OnlineDisk {
    pub(crate) fn new(backend: Arc<dyn BlockBackend>) -> OnlineDisk {
        let generation = backend.generation();
        OnlineDisk {
            backend,
            generation,
            usage: None,
            trouble: None,
        }
    }

    /// Its size, bytes.
    pub(crate) fn size(&self) -> u64 {
        let g = self.backend.geometry();
        g.blocks.saturating_mul(u64::from(g.block_size))
    }
}

/// Makes all acknowledged writes of a disk durable. Errors: what happened to the disk, for people.
pub(crate) async fn flush(backend: &dyn BlockBackend) -> Result<(), String> {
    if backend.geometry().read_only {
        return Ok(());
    }
    match io::timeout(FLUSH_MAX, backend.flush()).await {
        Ok(Ok(_durable)) => Ok(()),
        Ok(Err(e)) => Err(format!("could not be flushed: {e}")),
        Err(_) => Err(format!("was not flushed within {} s", FLUSH_MAX.as_secs())),
    }
}

/// Opens a disk. Errors: the reason and the remedy, for people.
pub(crate) async fn open(disk: &DiskConfig) -> Result<Arc<dyn BlockBackend>, String> {
    match io::timeout(DISK_WAIT_MAX, open_medium(disk)).await {
        Ok(result) => result,
        Err(_) => Err(format!(
            "it does not answer within {} s",
            DISK_WAIT_MAX.as_secs()
        )),
    }
}

async fn open_medium(disk: &DiskConfig) -> Result<Arc<dyn BlockBackend>, String> {
    let options = |create: Option<u64>, buffered| RawOptions {
        block_size: disk.block_size,
        read_only: disk.read_only,
        create_size: create,
        buffered,
    };
    match &disk.medium {
        Medium::File {
            path,
            create,
            buffered,
        } => open_raw(path, options(create.map(|s| s.0), *buffered)).await,
        Medium::Block { path } => open_raw(path, options(None, false)).await,
        Medium::Memory { size } => {
            let made = MemoryDisk::new(size.0, ram_block_size(disk, size.0));
            made.map(|d| Arc::new(d) as Arc<dyn BlockBackend>)
                .map_err(|e| no_memory(size.0, e))
        }
        Medium::Null { size } => {
            let made = NullDisk::new(size.0, ram_block_size(disk, size.0));
            made.map(|d| Arc::new(d) as Arc<dyn BlockBackend>)
                .map_err(|e| no_memory(size.0, e))
        }
    }
}

fn ram_block_size(disk: &DiskConfig, bytes: u64) -> u32 {
    disk.block_size.unwrap_or(if bytes.is_multiple_of(4096) {
        4096
    } else {
        512
    })
}

fn no_memory(bytes: u64, e: StorageError) -> String {
    format!("no memory for {}: {e}", crate::ByteSize(bytes).human())
}

/// Opens a raw disk. The locks of a killed server survive it for a moment, until the kernel has released its rings.
/// So a disk that is in use is tried again for a while; otherwise a restart would serve without it, and clients would
/// lose their devices.
async fn open_raw(path: &Path, options: RawOptions) -> Result<Arc<dyn BlockBackend>, String> {
    let started = io::time::now();
    loop {
        match RawDisk::open(path, options.clone()).await {
            Ok(d) => return Ok(Arc::new(d)),
            Err(OpenError::Io(io::Error::Busy(_))) if started.elapsed() < BUSY_WAIT_MAX => {
                io::time::sleep(BUSY_POLL).await;
            }
            Err(e) => return Err(explain(path, e)),
        }
    }
}

/// The message for a disk that cannot be opened.
pub(crate) fn explain(path: &Path, e: OpenError) -> String {
    let path = path.display();
    match e {
        OpenError::Io(io::Error::NotFound) => format!("{path} does not exist"),
        OpenError::Io(io::Error::Busy(_)) => format!(
            "{path} is in use: mounted, held by the system or open in another program (a second wirepool?)"
        ),
        OpenError::Io(io::Error::Denied(_)) => format!("{path}: permission denied"),
        OpenError::Io(io::Error::Unsupported(_)) => {
            format!("{path} is neither a file nor a block device")
        }
        other => format!("{path}: {other}"),
    }
}
