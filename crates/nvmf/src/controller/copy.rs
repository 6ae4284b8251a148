//! Copy (NVM 3.2.2), descriptor format 0: reads source ranges and writes them one after the other.
//!
//! **Invariants**: every limit that Identify Namespace announces (MSSRL, MCL, MSRC) and every range is checked before
//! anything is read; memory is one range at a time, of at most [`super::limits::COPIES_MAX`] copies of a connection; nothing is
//! read or written once the connection has ended.

use super::connection::{Core, Lifeline};
use super::io_commands::{writable, writable_by_reservation};
use super::limits::{COPY_BYTES_MAX, COPY_RANGE_BYTES_MAX, COPY_RANGES_MAX};
use super::namespace::NamespaceView;
use super::status::{Completion, of_storage};
use crate::wire::command::{IoFlags, Sqe};
use crate::wire::copy;
use crate::wire::status::Status;
use backend::{BlockBackend, Extent, Lba, check_extent};
use io::buf::BufPool;
use io::sync::Semaphore;
use std::rc::Rc;
use std::sync::Arc;

impl Core {
    /// Checks what must be right before the ranges are transferred.
    pub(super) fn check_copy(&self, sqe: &Sqe) -> Result<Rc<NamespaceView>, Status> {
        let view = self.namespace(sqe.nsid())?;
        writable_by_reservation(&view)?;
        if copy::descriptor_format(sqe) != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        if copy::range_count(sqe) > COPY_RANGES_MAX {
            return Err(Status::NVM_COMMAND_SIZE_LIMIT.dnr());
        }
        // PRINFOR and PRINFOW: protection information, which no namespace has.
        if sqe.cdw12.get() >> 12 & 0xf != 0 || sqe.cdw12.get() >> 26 & 0xf != 0 {
            return Err(Status::NVM_INVALID_PROTECTION_INFO.dnr());
        }
        Ok(view)
    }

    pub(super) fn copy(&mut self, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        let view = self.check_copy(sqe)?;
        writable(&view)?;
        if !view.access().read {
            return Err(Status::RESERVATION_CONFLICT.dnr());
        }
        let ranges = copy::parse_ranges(data, copy::range_count(sqe))
            .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
        let backend = view.ns.backend.clone();
        let g = backend.geometry();
        let mut total = 0;
        let mut sources = Vec::with_capacity(ranges.len());
        for range in ranges {
            let at = Extent {
                start: Lba(range.slba.get()),
                blocks: u64::from(range.block_count()),
            };
            let bytes = at.bytes(g.block_size).map_err(of_storage)?;
            total += bytes;
            if bytes > u64::from(COPY_RANGE_BYTES_MAX) || total > u64::from(COPY_BYTES_MAX) {
                return Err(Status::NVM_COMMAND_SIZE_LIMIT.dnr());
            }
            check_extent(&g, at).map_err(of_storage)?;
            sources.push(at);
        }
        let target = Extent {
            start: Lba(sqe.slba()),
            blocks: sources.iter().map(|s| s.blocks).sum(),
        };
        check_extent(&g, target).map_err(of_storage)?;
        self.own_tally.bytes_read += total;
        self.own_tally.bytes_written += total;
        let cid = sqe.cid();
        let stable = sqe.io_flags().contains(IoFlags::FUA) || !self.write_cache();
        let moved = copy_ranges(
            backend.clone(),
            self.link.pool().clone(),
            (self.lifeline(), self.copies.clone()),
            sources,
            target.start,
        );
        if stable {
            let durable = async move {
                moved.await?;
                backend.flush().await
            };
            self.wait_on(sqe, durable, move |core, r| {
                core.complete(Completion::of_durable(cid, r))
            });
        } else {
            self.wait_on(sqe, moved, move |core, r| {
                core.complete(Completion::of_plain(cid, r))
            });
        }
        Ok(())
    }
}

async fn copy_ranges(
    backend: Arc<dyn BlockBackend>,
    pool: BufPool,
    (lifeline, copies): (Lifeline, Semaphore),
    sources: Vec<Extent>,
    mut target: Lba,
) -> backend::Result<()> {
    let _turn = copies.acquire(1).await;
    for source in sources {
        lifeline.check()?;
        let payload = backend.read(source).await?;
        let copied = match pool.try_alloc(payload.len()) {
            Some(mut buf) => {
                payload.copy_to(&mut buf);
                buf
            }
            None => {
                // Nothing of the pool is held while waiting for it, so that copies cannot starve each other.
                let mut bytes = vec![0; payload.len()];
                payload.copy_to(&mut bytes);
                drop(payload);
                let mut buf = pool.alloc(bytes.len()).await;
                buf.copy_from_slice(&bytes);
                buf
            }
        };
        lifeline.check()?;
        backend.write(target, copied).await?;
        target = Lba(target.0 + source.blocks);
    }
    Ok(())
}
