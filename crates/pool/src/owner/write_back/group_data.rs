//! The data of a group on its way to the devices.
//!
//! **Owns** the copying of records into one buffer, and their writes. **Called by** write-back, on the owner's shard or a worker's.
//! **Invariants**: the bytes of each extent lie in the order of the extents; a group holds a buffer from the moment at which it gets
//! extents until the devices have it, so it waits only for devices.

use std::sync::{Arc, Mutex};

use futures_util::future::try_join_all;
use io::sync::lock;
use io::{IoBuf, SharedBuf};

use crate::Result;
use crate::dirty::Group;
use crate::format::Address;
use crate::shared::Shared;
use crate::workers::Backlogged;
use crate::written::WriteClass;

/// The bytes of a group.
pub(super) enum Bytes {
    /// They lie one behind the other.
    Ready(SharedBuf),
    /// The stored form of these records, each in the given number of bytes. The buffer takes them.
    Records {
        group: Arc<Group>,
        sizes: Vec<u32>,
        buf: Mutex<Option<IoBuf>>,
    },
}

/// Bytes and extents of a group.
pub(super) struct GroupData {
    bytes: Bytes,
    /// Address and length of each extent, bytes.
    extents: Vec<(Address, u32)>,
}

impl Bytes {
    pub(super) fn of_records(group: Arc<Group>, sizes: Vec<u32>, buf: IoBuf) -> Self {
        Self::Records {
            group,
            sizes,
            buf: Mutex::new(Some(buf)),
        }
    }

    /// Copies the records into the buffer, if they are not there yet. Called once.
    fn ready(&self) -> SharedBuf {
        match self {
            Self::Ready(data) => data.clone(),
            Self::Records { group, sizes, buf } => {
                let buf = lock(buf).take();
                lay_out(group, sizes, buf.expect("the records are copied once"))
            }
        }
    }
}

impl GroupData {
    /// `bytes` are those of these extents, given by address and length.
    pub(super) fn new(bytes: Bytes, extents: Vec<(Address, u32)>) -> Self {
        Self { bytes, extents }
    }

    /// Address and length of each extent, bytes.
    pub(super) fn extents(&self) -> impl Iterator<Item = (Address, u64)> {
        self.extents.iter().map(|(at, len)| (*at, u64::from(*len)))
    }

    /// Bytes of all extents.
    pub(super) fn len(&self) -> u64 {
        self.extents().map(|(_, len)| len).sum()
    }

    /// Writes all extents, on a worker if they are long.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::write`]. [`crate::Error::Device`] if a worker stopped meanwhile.
    pub(super) async fn write(
        self: Arc<Self>,
        shared: &Arc<Shared>,
        class: WriteClass,
    ) -> Result<()> {
        let (bytes, of_work) = (self.len(), shared.clone());
        let work = move |backlogged| self.write_here(of_work, class, backlogged);
        let done = shared.workers.run(bytes, work).await;
        done.unwrap_or(Err(crate::Error::Device))
    }

    async fn write_here(
        self: Arc<Self>,
        shared: Arc<Shared>,
        class: WriteClass,
        backlogged: Option<Backlogged>,
    ) -> Result<()> {
        let data = self.bytes.ready();
        let mut from = 0;
        let writes = self.extents().map(|(at, len)| {
            let part = data.part(from, len as usize);
            from += len as usize;
            shared.vdevs.write(at, part, class)
        });
        let writes = try_join_all(writes);
        drop(backlogged);
        writes.await.map(drop)
    }
}

/// Copies the stored form of a group's records into a buffer, one behind the other, each in the given number of bytes.
fn lay_out(group: &Group, sizes: &[u32], mut buf: IoBuf) -> SharedBuf {
    buf.set_len(sizes.iter().sum::<u32>() as usize);
    let mut rest = &mut buf[..];
    for ((_, data), size) in group.records.iter().zip(sizes) {
        let (place, behind) = rest.split_at_mut(*size as usize);
        let (_, stored) = data.stored();
        place[..stored.len()].copy_from_slice(stored);
        place[stored.len()..].fill(0);
        rest = behind;
    }
    buf.into()
}
