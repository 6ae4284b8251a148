//! The state that all requests of one mount share.
//!
//! **Owns** [`Mounted`]: file system, node table, open files, counters. **Called by** the operations (`operations`) and the
//! front that takes requests from the kernel. **Invariants**: shards share it; no lock is held across an await.

use crate::convert;
use crate::gate::Gate;
use crate::limits::{REQUESTS_MAX, WRITE_BYTES_MAX};
use crate::lock_waits::LockWaits;
use crate::nodes::Nodes;
use crate::notices::Notices;
use crate::opened::Opened;
use crate::operation::Operations;
use crate::options::{Caching, MountOptions};
use crate::status::{Answer, of_file};
use crate::write_backs::WriteBacks;
use backend::file::{Attributes, Caller, CheckedBy, FileBackend, FileError, Handle, Name};
use fuser::{Errno, FileAttr};
use io::BufPool;
use io::runtime::Shard;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A mounted file system.
pub(crate) struct Mounted {
    pub(crate) files: Arc<dyn FileBackend>,
    pub(crate) nodes: Nodes,
    pub(crate) opened: Opened,
    pub(crate) operations: Operations,
    pub(crate) gate: Gate,
    pub(crate) write_backs: WriteBacks,
    /// Set when the connection to the kernel is there.
    pub(crate) notices: OnceLock<Notices>,
    /// Buffers of writes in flight.
    pub(crate) buffers: BufPool,
    pub(crate) caching: Caching,
    /// Whether files that are opened without the kernel's cache can be mapped. Set by the handshake.
    pub(crate) has_direct_maps: OnceLock<bool>,
    pub(crate) checked_by: CheckedBy,
    pub(crate) lock_waits: LockWaits,
    shards: Box<[Shard]>,
}

/// An object that the kernel looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) attributes: FileAttr,
    pub(crate) generation: u64,
}

impl Mounted {
    /// The state of a new mount. Panics without shards.
    pub(crate) fn new(
        files: Arc<dyn FileBackend>,
        options: &MountOptions,
        shards: &[Shard],
    ) -> Self {
        assert!(!shards.is_empty(), "a mount needs a shard");
        Self {
            nodes: Nodes::new(files.root()),
            opened: Opened::default(),
            operations: Operations::new(shards.len()),
            gate: Gate::new(REQUESTS_MAX),
            write_backs: WriteBacks::default(),
            notices: OnceLock::new(),
            buffers: BufPool::new(WRITE_BYTES_MAX),
            caching: options.caching(&files.limits()),
            has_direct_maps: OnceLock::new(),
            checked_by: options.checked_by(),
            lock_waits: LockWaits::default(),
            shards: shards.into(),
            files,
        }
    }

    /// The shard for requests of an inode, and its index.
    pub(crate) fn shard(&self, number: u64) -> (usize, &Shard) {
        let index = number as usize % self.shards.len();
        (index, &self.shards[index])
    }

    /// The object of an inode number. Errors: ESTALE for a number that the kernel was never given.
    pub(crate) fn handle(&self, number: u64) -> Answer<Handle> {
        self.nodes.handle(number).ok_or(Errno::ESTALE)
    }

    /// Whether the kernel may not cache names of a directory.
    pub(crate) fn is_volatile(&self, directory: u64) -> bool {
        let of = self.nodes.handle(directory);
        of.is_some_and(|of| self.files.is_volatile(of))
    }

    /// Counts a lookup of an object. Returns the reply's parts.
    pub(crate) fn look_up(&self, of: &Attributes) -> Answer<Known> {
        let Ok(number) = self.nodes.look_up(of.handle) else {
            tracing::warn!(
                known = self.nodes.len(),
                "the kernel knows more objects of a mount than the limit NODES_MAX: a lookup failed"
            );
            return Err(Errno::ENOMEM);
        };
        Ok(Known {
            attributes: self.shown(number, of),
            generation: of.handle.generation,
        })
    }

    /// Attributes as the kernel gets them. A file that is open for writing may have data that only the kernel has: it never shows
    /// no blocks at all, which programs (`tar -S`) take for a file of zeroes.
    pub(crate) fn shown(&self, number: u64, of: &Attributes) -> FileAttr {
        let mut shown = convert::attributes(number, of);
        if shown.blocks == 0 && self.caching.has_write_back && self.opened.has_writer(number) {
            shown.blocks = u64::from(convert::BLOCK_SIZE) / 512;
        }
        shown
    }

    /// Attributes of an object that the kernel knows, also if it is gone.
    pub(crate) async fn attributes(&self, number: u64) -> Answer<FileAttr> {
        let of = self.handle(number)?;
        match self.files.attributes(of).await {
            Ok(found) => Ok(self.shown(number, &found)),
            Err(FileError::Stale) => self
                .nodes
                .removed(number)
                .map(|last| convert::attributes(number, &last))
                .ok_or(Errno::ESTALE),
            Err(e) => Err(of_file(e)),
        }
    }

    /// Validity of attributes in the kernel's cache.
    pub(crate) fn validity(&self) -> Duration {
        self.caching.attributes
    }
}

/// A name from the kernel.
pub(crate) fn name(bytes: &[u8]) -> Answer<Name> {
    Name::new(bytes).map_err(of_file)
}

/// A caller that may do everything, for the kernel's own work.
pub(crate) fn kernel() -> Caller {
    Caller {
        checked_by: CheckedBy::Client,
        ..Caller::root()
    }
}
