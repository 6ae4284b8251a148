//! Commands of I/O queues, NVM command set (NVM 3.2) and Flush (Base 7.1).
//!
//! **Called by** the dispatcher, once a command's data is here. **Invariants**: ranges, transfer limit, protection
//! fields and reservations are checked before the backend hears of a command, and again after data was waited for;
//! replies to Flush and to commands with FUA are made from a [`Durable`].

use super::connection::{Core, Lifeline};
use super::fused::is_fusable;
use super::limits::VERIFY_STEP_BYTES;
use super::namespace::NamespaceView;
use super::status::{Completion, of_storage};
use super::transfer::Stage;
use crate::wire::command::{IoFlags, Nsid, Psdt, Sgl, Sqe};
use crate::wire::dsm::{self, DsmAttributes};
use crate::wire::opcode::io as nvm;
use crate::wire::status::Status;
use crate::wire::{copy, dsm::DsmRange};
use backend::{BlockBackend, Durable, Extent, Lba, Reply, StorageError, check_extent};
use io::IoBuf;
use session::Hold;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Data that a command brought.
pub(super) enum Input<'a> {
    /// None.
    None,
    /// In the capsule.
    Capsule(&'a [u8]),
    /// In a buffer of its own.
    Buffer(IoBuf),
}

impl Input<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Input::None => &[],
            Input::Capsule(bytes) => bytes,
            Input::Buffer(buf) => buf,
        }
    }
}

/// Bits of CDW12 that need protection information, which no namespace has.
const PROTECTION: IoFlags = IoFlags::STORAGE_TAG_CHECK
    .union(IoFlags::PRCHK_REFERENCE)
    .union(IoFlags::PRCHK_APPLICATION)
    .union(IoFlags::PRCHK_GUARD)
    .union(IoFlags::PRACT);

/// A checked range: the namespace, the blocks, and their bytes.
type Checked = (Rc<NamespaceView>, Extent, u64);

impl Core {
    /// Bytes that an I/O command transfers from the host; checks what must be right before a transfer.
    pub(super) fn io_data_len(&self, sqe: &Sqe) -> Result<usize, Status> {
        if !is_fusable(sqe) {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let len = match sqe.opcode {
            nvm::WRITE => self.check_write(sqe).map(|(_, _, bytes)| bytes as usize),
            nvm::COMPARE => self.check_transfer(sqe).map(|(_, _, bytes)| bytes as usize),
            nvm::DATASET_MANAGEMENT => self
                .namespace(sqe.nsid())
                .map(|_| dsm::range_count(sqe) * size_of::<DsmRange>()),
            nvm::COPY => self
                .check_copy(sqe)
                .map(|_| copy::range_count(sqe) * size_of::<copy::CopyRange>()),
            nvm::RESERVATION_REGISTER | nvm::RESERVATION_ACQUIRE => {
                self.namespace(sqe.nsid()).map(|_| 16)
            }
            nvm::RESERVATION_RELEASE => self.namespace(sqe.nsid()).map(|_| 8),
            _ => Ok(0),
        }?;
        // Base 3.3.3.1: with fabrics data is always named by an SGL.
        if (len > 0 || sqe.opcode == nvm::READ) && sqe.psdt() != Psdt::Sgl {
            return Err(Status::INVALID_FIELD.dnr());
        }
        Ok(len)
    }

    /// Executes an I/O command.
    pub(super) fn io_command(&mut self, sqe: &Sqe, input: Input<'_>) {
        let counted = usize::from(sqe.opcode).min(super::counters::OPCODES - 1);
        self.own_tally.opcodes[counted] += 1;
        if sqe.fuse() != crate::wire::command::Fuse::Normal {
            return match self.buffer_of(input) {
                Some(data) => self.fused_command(sqe, data),
                None => self.refuse_command(sqe, Status::INVALID_FIELD.dnr()),
            };
        }
        let refused = match sqe.opcode {
            // NVM 3.2.4
            nvm::READ => self.read(sqe),
            // NVM 3.2.6
            nvm::WRITE => self.write(sqe, input),
            // Base 7.1
            nvm::FLUSH => self.flush(sqe),
            // NVM 3.2.1
            nvm::COMPARE => self.compare(sqe, input),
            // NVM 3.2.8
            nvm::WRITE_ZEROES => self.write_zeroes(sqe),
            // NVM 3.2.3
            nvm::DATASET_MANAGEMENT => self.dataset_management(sqe, input.bytes()),
            // NVM 3.2.5
            nvm::VERIFY => self.verify(sqe),
            // NVM 3.2.2
            nvm::COPY => self.copy(sqe, input.bytes()),
            // Base 7.3
            nvm::RESERVATION_REGISTER => self.reservation_register(sqe, input.bytes()),
            // Base 7.2
            nvm::RESERVATION_ACQUIRE => self.reservation_acquire(sqe, input.bytes()),
            // Base 7.4
            nvm::RESERVATION_RELEASE => self.reservation_release(sqe, input.bytes()),
            // Base 7.5
            nvm::RESERVATION_REPORT => self.reservation_report(sqe),
            _ => Err(Status::INVALID_OPCODE.dnr()),
        };
        if let Err(status) = refused {
            self.fail(sqe, status);
        }
    }

    /// The data as a buffer that a backend takes: in-capsule data is copied here, once.
    fn buffer_of(&mut self, input: Input<'_>) -> Option<IoBuf> {
        match input {
            Input::None => None,
            Input::Buffer(buf) => Some(buf),
            Input::Capsule(bytes) => {
                let mut buf = self.spare.take()?;
                buf.set_len(bytes.len());
                buf.copy_from_slice(bytes);
                Some(buf)
            }
        }
    }

    /// Whether the host lets writes stay in a volatile cache (WCE).
    pub(super) fn write_cache(&self) -> bool {
        self.queue
            .as_ref()
            .is_none_or(|q| q.controller.write_cache.load(Ordering::Relaxed))
    }

    /// Checks namespace, protection fields and range.
    pub(super) fn check_range(&self, sqe: &Sqe) -> Result<Checked, Status> {
        let view = self.namespace(sqe.nsid())?;
        if sqe.io_flags().intersects(PROTECTION) {
            return Err(Status::NVM_INVALID_PROTECTION_INFO.dnr());
        }
        let g = view.ns.backend.geometry();
        let at = Extent {
            start: Lba(sqe.slba()),
            blocks: u64::from(sqe.block_count()),
        };
        check_extent(&g, at).map_err(of_storage)?;
        let bytes = at.bytes(g.block_size).map_err(of_storage)?;
        Ok((view, at, bytes))
    }

    /// Checks a command that transfers blocks: like [`Core::check_range`], and MDTS and read access.
    pub(super) fn check_transfer(&self, sqe: &Sqe) -> Result<Checked, Status> {
        let (view, at, bytes) = self.check_range(sqe)?;
        if bytes > u64::from(self.target().config.mdts) {
            return Err(Status::INVALID_FIELD.dnr());
        }
        if !view.access().read {
            return Err(Status::RESERVATION_CONFLICT.dnr());
        }
        Ok((view, at, bytes))
    }

    /// Checks a Write.
    pub(super) fn check_write(&self, sqe: &Sqe) -> Result<Checked, Status> {
        let (view, at, bytes) = self.check_range(sqe)?;
        if bytes > u64::from(self.target().config.mdts) {
            return Err(Status::INVALID_FIELD.dnr());
        }
        // DTYPE: directives are not supported.
        if sqe.cdw12.get() >> 20 & 0xf != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        writable(&view)?;
        Ok((view, at, bytes))
    }

    fn read(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let (view, at, bytes) = self.check_transfer(sqe)?;
        match sqe.sgl.parse() {
            Sgl::Transport { length } if u64::from(length) == bytes => {}
            Sgl::Transport { .. } | Sgl::Empty => return Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
            Sgl::InCapsule { .. } | Sgl::Unsupported { .. } => {
                return Err(Status::SGL_TYPE_INVALID.dnr());
            }
        }
        if self.hold_or_defer(sqe, bytes as usize) {
            self.read_now(sqe, &view, at, bytes);
        }
        Ok(())
    }

    /// Holds a buffer of `len` bytes for the command being worked on; without one the command waits its turn.
    fn hold_or_defer(&mut self, sqe: &Sqe, len: usize) -> bool {
        let hold = match self.deferred.is_empty() {
            true => self.link.account().try_hold(io::buf::capacity_of(len)),
            false => None,
        };
        let is_held = hold.is_some();
        if is_held {
            self.current.hold = hold;
        } else {
            let slot = self.park(sqe, Stage::Deferred { len });
            self.deferred.push(slot);
        }
        is_held
    }

    /// Goes on with a command that reads and had to wait for the budget.
    pub(super) fn start_reading(&mut self, sqe: &Sqe, hold: Hold) {
        self.current.hold = Some(hold);
        if sqe.opcode == nvm::VERIFY {
            return match self.check_verify(sqe) {
                Ok((view, at, _)) => self.verify_now(sqe, &view, at),
                Err(status) => self.fail(sqe, status),
            };
        }
        match self.check_transfer(sqe) {
            Ok((view, at, bytes)) => self.read_now(sqe, &view, at, bytes),
            Err(status) => self.fail(sqe, status),
        }
    }

    fn read_now(&mut self, sqe: &Sqe, view: &NamespaceView, at: Extent, bytes: u64) {
        self.own_tally.bytes_read += bytes;
        let reply = view.ns.backend.read(at);
        let sqe = *sqe;
        self.wait_for(&sqe, reply, move |core, result| match result {
            Ok(payload) => core.complete_with_data(&sqe, payload),
            Err(e) => core.fail(&sqe, of_storage(e)),
        });
    }

    fn write(&mut self, sqe: &Sqe, input: Input<'_>) -> Result<(), Status> {
        let (view, at, bytes) = self.check_write(sqe)?;
        let data = self.buffer_of(input).ok_or(Status::INVALID_FIELD.dnr())?;
        self.own_tally.bytes_written += bytes;
        let cid = sqe.cid();
        if sqe.io_flags().contains(IoFlags::FUA) || !self.write_cache() {
            let reply = view.ns.backend.write_durable(at.start, data);
            self.wait_for(sqe, reply, move |core, r| {
                core.complete(Completion::of_durable(cid, r))
            });
        } else {
            let reply = view.ns.backend.write(at.start, data);
            self.wait_for(sqe, reply, move |core, r| {
                core.complete(Completion::of_plain(cid, r))
            });
        }
        Ok(())
    }

    fn compare(&mut self, sqe: &Sqe, input: Input<'_>) -> Result<(), Status> {
        let (view, at, _) = self.check_transfer(sqe)?;
        let expected = self.buffer_of(input).ok_or(Status::INVALID_FIELD.dnr())?;
        let cid = sqe.cid();
        let reply = view.ns.backend.compare(at.start, expected);
        self.wait_for(sqe, reply, move |core, r| {
            core.complete(Completion::of_plain(cid, r))
        });
        Ok(())
    }

    /// Flush (Base 7.1); NSID FFFFFFFFh flushes every namespace.
    fn flush(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let cid = sqe.cid();
        if sqe.nsid() != Nsid::ALL {
            let view = self.namespace(sqe.nsid())?;
            writable_by_reservation(&view)?;
            let reply = view.ns.backend.flush();
            self.wait_for(sqe, reply, move |core, r| {
                core.complete(Completion::of_durable(cid, r))
            });
            return Ok(());
        }
        let mut backends = Vec::new();
        for view in self.views() {
            writable_by_reservation(view)?;
            backends.push(view.ns.backend.clone());
        }
        if backends.is_empty() {
            return Err(Status::INVALID_NAMESPACE.dnr());
        }
        self.wait_on(sqe, flush_all(backends), move |core, r| {
            core.complete(Completion::of_durable(cid, r))
        });
        Ok(())
    }

    fn write_zeroes(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let (view, at, bytes) = self.check_range(sqe)?;
        writable(&view)?;
        let deallocate = sqe.io_flags().contains(IoFlags::DEALLOCATE);
        let stable = sqe.io_flags().contains(IoFlags::FUA) || !self.write_cache();
        self.own_tally.bytes_written += bytes;
        let cid = sqe.cid();
        let backend = view.ns.backend.clone();
        let reply = backend.write_zeroes(at, deallocate);
        if stable {
            let durable = async move {
                reply.await?;
                backend.flush().await
            };
            self.wait_on(sqe, durable, move |core, r| {
                core.complete(Completion::of_durable(cid, r))
            });
        } else {
            self.wait_for(sqe, reply, move |core, r| {
                core.complete(Completion::of_plain(cid, r))
            });
        }
        Ok(())
    }

    /// Dataset Management: deallocates; the other attributes are hints that change nothing.
    fn dataset_management(&mut self, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        let view = self.namespace(sqe.nsid())?;
        writable(&view)?;
        let cid = sqe.cid();
        let ranges = dsm::parse_ranges(data, dsm::range_count(sqe))
            .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
        if !dsm::attributes(sqe).contains(DsmAttributes::DEALLOCATE) {
            self.complete(Completion::success(cid));
            return Ok(());
        }
        let g = view.ns.backend.geometry();
        let mut extents = Vec::with_capacity(ranges.len());
        for range in ranges {
            let at = Extent {
                start: Lba(range.slba.get()),
                blocks: u64::from(range.block_count.get()),
            };
            check_extent(&g, at).map_err(of_storage)?;
            if at.blocks > 0 {
                extents.push(at);
            }
        }
        let backend = view.ns.backend.clone();
        let lifeline = self.lifeline();
        let all = async move {
            for at in extents {
                lifeline.check()?;
                match backend.deallocate(at).await {
                    // A hint that a disk cannot follow is no failure.
                    Ok(()) | Err(StorageError::Unsupported) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        };
        self.wait_on(sqe, all, move |core, r| {
            core.complete(Completion::of_plain(cid, r))
        });
        Ok(())
    }

    /// Verify: reads, and says whether it can be read.
    fn verify(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let (view, at, bytes) = self.check_verify(sqe)?;
        let step = bytes.min(u64::from(VERIFY_STEP_BYTES)) as usize;
        if self.hold_or_defer(sqe, step) {
            self.verify_now(sqe, &view, at);
        }
        Ok(())
    }

    fn check_verify(&self, sqe: &Sqe) -> Result<Checked, Status> {
        let checked = self.check_range(sqe)?;
        if !checked.0.access().read {
            return Err(Status::RESERVATION_CONFLICT.dnr());
        }
        Ok(checked)
    }

    fn verify_now(&mut self, sqe: &Sqe, view: &NamespaceView, at: Extent) {
        let cid = sqe.cid();
        let steps = verify(view.ns.backend.clone(), at, self.lifeline());
        self.wait_on(sqe, steps, move |core, r| {
            core.complete(Completion::of_plain(cid, r))
        });
    }
}

/// Whether the reservations let this host write.
pub(super) fn writable_by_reservation(view: &NamespaceView) -> Result<(), Status> {
    if view.access().write {
        Ok(())
    } else {
        Err(Status::RESERVATION_CONFLICT.dnr())
    }
}

/// Whether this host may write and the disk takes writes.
pub(super) fn writable(view: &NamespaceView) -> Result<(), Status> {
    writable_by_reservation(view)?;
    if view.ns.backend.geometry().read_only {
        Err(of_storage(StorageError::ReadOnly))
    } else {
        Ok(())
    }
}

/// Flushes several disks, side by side.
pub(super) async fn flush_all(backends: Vec<Arc<dyn BlockBackend>>) -> backend::Result<Durable> {
    let mut replies: Vec<Reply<Durable>> = backends.iter().map(|b| b.flush()).collect();
    let Some(last) = replies.pop() else {
        return Err(StorageError::Unsupported);
    };
    let mut proof = last.await?;
    for reply in replies {
        proof = proof.and(reply.await?);
    }
    Ok(proof)
}

/// Reads one step after the other, until the connection has ended.
async fn verify(
    backend: Arc<dyn BlockBackend>,
    at: Extent,
    lifeline: Lifeline,
) -> backend::Result<()> {
    let step = u64::from((VERIFY_STEP_BYTES / backend.geometry().block_size.max(1)).max(1));
    let mut done = 0;
    while done < at.blocks {
        lifeline.check()?;
        let blocks = step.min(at.blocks - done);
        drop(
            backend
                .read(Extent {
                    start: Lba(at.start.0 + done),
                    blocks,
                })
                .await?,
        );
        done += blocks;
    }
    Ok(())
}
