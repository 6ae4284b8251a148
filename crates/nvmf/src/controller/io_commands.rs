//! Commands of I/O queues: NVM command set (NVM 3.2) and Flush (Base 7.1).
//!
//! **Called by** the dispatcher, once a command's data is here. **Invariants**: ranges, transfer limit, protection
//! fields and reservations are checked before the backend gets a command, and again after data was waited for;
//! replies to Flush and to commands with FUA are made from a [`Durable`].

use super::command::Command;
use super::exchange::Input;
use super::limits::VERIFY_STEP_BYTES;
use super::namespace_view::NamespaceView;
use super::phase::{Lifeline, Ready};
use super::request::{Blocks, IoRequest, Request};
use super::status::{Completion, of_storage};
use crate::wire::command::{Fuse, Nsid};
use crate::wire::copy::CopyRange;
use crate::wire::dsm::{self, DsmRange};
use crate::wire::status::Status;
use backend::{BlockBackend, Durable, Extent, Lba, Reply, StorageError, check_extent};
use io::IoBuf;
use std::rc::Rc;
use std::sync::Arc;

/// A checked range of a namespace.
pub(super) struct Checked {
    pub(super) view: Rc<NamespaceView>,
    at: Extent,
    bytes: u64,
}

impl Ready<'_> {
    /// Bytes that an I/O command transfers from the host. Errors: the status of a command that must not transfer data.
    #[inline]
    pub(super) fn io_data_len(
        &self,
        command: &Command,
        request: IoRequest,
    ) -> Result<usize, Status> {
        if !command.is_fusable() {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let nsid = command.nsid();
        let len = match request {
            IoRequest::Write(blocks) => self.check_write(nsid, blocks)?.bytes as usize,
            IoRequest::Compare(blocks) => self.check_transfer(nsid, blocks)?.bytes as usize,
            IoRequest::DatasetManagement { ranges, .. } => {
                self.namespace(nsid)?;
                ranges * size_of::<DsmRange>()
            }
            IoRequest::Copy(copy) => {
                self.check_copy(nsid, copy)?;
                copy.ranges * size_of::<CopyRange>()
            }
            IoRequest::ReservationRegister(_) | IoRequest::ReservationAcquire(_) => {
                self.namespace(nsid).map(|_| 16)?
            }
            IoRequest::ReservationRelease(_) => self.namespace(nsid).map(|_| 8)?,
            IoRequest::Read(_)
            | IoRequest::Verify(_)
            | IoRequest::WriteZeroes(_)
            | IoRequest::Flush
            | IoRequest::ReservationReport { .. }
            | IoRequest::Unknown => 0,
        };
        // Base 3.3.3.1: with fabrics data is always named by an SGL.
        let transfers = len > 0 || matches!(request, IoRequest::Read(_));
        if transfers && !command.has_sgl() {
            return Err(Status::INVALID_FIELD.dnr());
        }
        Ok(len)
    }

    /// Executes an I/O command.
    #[inline]
    pub(super) fn io_command(&mut self, command: Command, request: IoRequest, input: Input<'_>) {
        self.common.tally.io_command(command.opcode());
        if command.fuse() != Fuse::Normal {
            return match input.into_buffer() {
                Some(data) => self.fused_command(command, data),
                None => self.refuse_command(command, Status::INVALID_FIELD.dnr()),
            };
        }
        match request {
            IoRequest::Read(blocks) => self.read(command, blocks),
            IoRequest::Write(blocks) => self.write(command, blocks, input),
            IoRequest::Flush => self.flush(command),
            IoRequest::Compare(blocks) => self.compare(command, blocks, input),
            IoRequest::WriteZeroes(blocks) => self.write_zeroes(command, blocks),
            IoRequest::DatasetManagement { ranges, deallocate } => {
                self.dataset_management(command, ranges, deallocate, input.bytes());
            }
            IoRequest::Verify(blocks) => self.verify(command, blocks),
            IoRequest::Copy(copy) => self.copy(command, copy, input.bytes()),
            IoRequest::ReservationRegister(r) => {
                self.reservation_register(command, r, input.bytes());
            }
            IoRequest::ReservationAcquire(a) => self.reservation_acquire(command, a, input.bytes()),
            IoRequest::ReservationRelease(r) => self.reservation_release(command, r, input.bytes()),
            IoRequest::ReservationReport { len, extended } => {
                self.reservation_report(command, len, extended);
            }
            IoRequest::Unknown => self.fail(command, Status::INVALID_OPCODE.dnr()),
        }
    }

    /// Checks namespace, protection fields and range.
    #[inline]
    fn check_range(&self, nsid: Nsid, blocks: Blocks) -> Result<Checked, Status> {
        let view = self.namespace(nsid)?;
        if blocks.is_protected {
            return Err(Status::NVM_INVALID_PROTECTION_INFO.dnr());
        }
        let g = view.ns.backend.geometry();
        let at = Extent {
            start: Lba(blocks.slba),
            blocks: u64::from(blocks.count),
        };
        check_extent(&g, at).map_err(of_storage)?;
        let bytes = at.bytes(g.block_size).map_err(of_storage)?;
        Ok(Checked { view, at, bytes })
    }

    /// Checks a command that transfers blocks: range, MDTS and read access.
    #[inline]
    fn check_transfer(&self, nsid: Nsid, blocks: Blocks) -> Result<Checked, Status> {
        let checked = self.check_range(nsid, blocks)?;
        if checked.bytes > u64::from(self.target().config.mdts) {
            return Err(Status::INVALID_FIELD.dnr());
        }
        readable(&checked.view)?;
        Ok(checked)
    }

    /// Checks a Write: range, MDTS, directive and write access.
    #[inline]
    pub(super) fn check_write(&self, nsid: Nsid, blocks: Blocks) -> Result<Checked, Status> {
        let checked = self.check_range(nsid, blocks)?;
        if checked.bytes > u64::from(self.target().config.mdts) || blocks.is_directed {
            return Err(Status::INVALID_FIELD.dnr());
        }
        writable(&checked.view)?;
        Ok(checked)
    }

    fn check_verify(&self, nsid: Nsid, blocks: Blocks) -> Result<Checked, Status> {
        let checked = self.check_range(nsid, blocks)?;
        readable(&checked.view)?;
        Ok(checked)
    }

    fn check_read(&self, command: &Command, blocks: Blocks) -> Result<Checked, Status> {
        let checked = self.check_transfer(command.nsid(), blocks)?;
        let length = self.exchange.framing().host_memory(command.sgl())?;
        match u64::from(length) == checked.bytes {
            true => Ok(checked),
            false => Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
        }
    }

    #[inline]
    fn read(&mut self, mut command: Command, blocks: Blocks) {
        match self.check_read(&command, blocks) {
            Ok(checked) => {
                let len = checked.bytes as usize;
                if self.exchange.try_hold(self.common, &mut command, len) {
                    self.read_now(command, &checked);
                } else {
                    self.exchange.defer(command, len);
                }
            }
            Err(status) => self.fail(command, status),
        }
    }

    /// Continues with a command that reads and had to wait for the budget.
    pub(super) fn start_reading(&mut self, command: Command) {
        let nsid = command.nsid();
        match command.request() {
            Request::Io(IoRequest::Verify(blocks)) => match self.check_verify(nsid, blocks) {
                Ok(checked) => self.verify_now(command, &checked),
                Err(status) => self.fail(command, status),
            },
            Request::Io(IoRequest::Read(blocks)) => match self.check_transfer(nsid, blocks) {
                Ok(checked) => self.read_now(command, &checked),
                Err(status) => self.fail(command, status),
            },
            _ => self.fail(command, Status::INTERNAL_ERROR),
        }
    }

    #[inline]
    fn read_now(&mut self, command: Command, checked: &Checked) {
        self.common.tally.bytes_read += checked.bytes;
        let reply = checked.view.ns.backend.read(checked.at);
        self.wait_for(command, reply, |ready, command, result| match result {
            Ok(payload) => ready.complete_with_data(command, payload),
            Err(e) => ready.fail(command, of_storage(e)),
        });
    }

    #[inline]
    fn write(&mut self, command: Command, blocks: Blocks, input: Input<'_>) {
        let (checked, data) = match self.check_data(command.nsid(), blocks, input) {
            Ok(both) => both,
            Err(status) => return self.fail(command, status),
        };
        self.common.tally.bytes_written += checked.bytes;
        let (backend, at) = (&checked.view.ns.backend, checked.at.start);
        if blocks.fua || !self.write_cache() {
            let reply = backend.write_durable(at, data);
            self.wait_for(command, reply, durable);
        } else {
            let reply = backend.write(at, data);
            self.wait_for(command, reply, plain);
        }
    }

    #[inline]
    fn check_data(
        &self,
        nsid: Nsid,
        blocks: Blocks,
        input: Input<'_>,
    ) -> Result<(Checked, IoBuf), Status> {
        let checked = self.check_write(nsid, blocks)?;
        let data = input.into_buffer().ok_or(Status::INVALID_FIELD.dnr())?;
        Ok((checked, data))
    }

    fn compare(&mut self, command: Command, blocks: Blocks, input: Input<'_>) {
        let checked = match self.check_transfer(command.nsid(), blocks) {
            Ok(checked) => checked,
            Err(status) => return self.fail(command, status),
        };
        let Some(expected) = input.into_buffer() else {
            return self.fail(command, Status::INVALID_FIELD.dnr());
        };
        let backend = &checked.view.ns.backend;
        let reply = backend.compare(checked.at.start, expected);
        self.wait_for(command, reply, plain);
    }

    /// Flush (Base 7.1); NSID FFFFFFFFh flushes every namespace.
    fn flush(&mut self, command: Command) {
        let nsid = command.nsid();
        if nsid == Nsid::ALL {
            return match self.all_backends() {
                Ok(backends) => self.wait_on(command, flush_all(backends), durable),
                Err(status) => self.fail(command, status),
            };
        }
        let view = self.namespace(nsid).and_then(|view| {
            writable_by_reservation(&view)?;
            Ok(view)
        });
        match view {
            Ok(view) => {
                let reply = view.ns.backend.flush();
                self.wait_for(command, reply, durable);
            }
            Err(status) => self.fail(command, status),
        }
    }

    /// The disks of all namespaces. Errors: the host must not write one, or there is none.
    fn all_backends(&self) -> Result<Vec<Arc<dyn BlockBackend>>, Status> {
        let mut backends = Vec::new();
        for view in self.views.iter() {
            writable_by_reservation(view)?;
            backends.push(view.ns.backend.clone());
        }
        if backends.is_empty() {
            return Err(Status::INVALID_NAMESPACE.dnr());
        }
        Ok(backends)
    }

    fn write_zeroes(&mut self, command: Command, blocks: Blocks) {
        let checked = self
            .check_range(command.nsid(), blocks)
            .and_then(|checked| writable(&checked.view).map(|()| checked));
        let checked = match checked {
            Ok(checked) => checked,
            Err(status) => return self.fail(command, status),
        };
        self.common.tally.bytes_written += checked.bytes;
        let backend = checked.view.ns.backend.clone();
        let reply = backend.write_zeroes(checked.at, blocks.deallocate);
        if blocks.fua || !self.write_cache() {
            let flushed = async move {
                reply.await?;
                backend.flush().await
            };
            self.wait_on(command, flushed, durable);
        } else {
            self.wait_for(command, reply, plain);
        }
    }

    /// Dataset Management: deallocates; the other attributes are hints that change nothing.
    fn dataset_management(
        &mut self,
        command: Command,
        ranges: usize,
        deallocate: bool,
        data: &[u8],
    ) {
        let (backend, extents) = match self.extents(command.nsid(), ranges, deallocate, data) {
            Ok(Some(both)) => both,
            Ok(None) => return self.complete(command, Completion::SUCCESS),
            Err(status) => return self.fail(command, status),
        };
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
        self.wait_on(command, all, plain);
    }

    /// The extents that Dataset Management deallocates, and their disk; `None` if it deallocates nothing.
    #[expect(clippy::type_complexity, reason = "a pair that one caller takes apart")]
    fn extents(
        &self,
        nsid: Nsid,
        ranges: usize,
        deallocate: bool,
        data: &[u8],
    ) -> Result<Option<(Arc<dyn BlockBackend>, Vec<Extent>)>, Status> {
        let view = self.namespace(nsid)?;
        writable(&view)?;
        let ranges =
            dsm::parse_ranges(data, ranges).map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
        if !deallocate {
            return Ok(None);
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
        Ok(Some((view.ns.backend.clone(), extents)))
    }

    /// Verify: reads, and says whether the blocks can be read.
    fn verify(&mut self, mut command: Command, blocks: Blocks) {
        let checked = match self.check_verify(command.nsid(), blocks) {
            Ok(checked) => checked,
            Err(status) => return self.fail(command, status),
        };
        let step = checked.bytes.min(u64::from(VERIFY_STEP_BYTES)) as usize;
        if self.exchange.try_hold(self.common, &mut command, step) {
            self.verify_now(command, &checked);
        } else {
            self.exchange.defer(command, step);
        }
    }

    fn verify_now(&mut self, command: Command, checked: &Checked) {
        let backend = checked.view.ns.backend.clone();
        let steps = verify(backend, checked.at, self.lifeline());
        self.wait_on(command, steps, plain);
    }
}

/// Ends a command whose reply promises stable storage.
#[inline]
pub(super) fn durable(ready: &mut Ready<'_>, command: Command, result: backend::Result<Durable>) {
    ready.complete(command, Completion::of_durable(result));
}

/// Ends a command whose reply promises nothing about stable storage.
#[inline]
pub(super) fn plain(ready: &mut Ready<'_>, command: Command, result: backend::Result<()>) {
    ready.complete(command, Completion::of_plain(result));
}

/// Whether the reservations let this host read.
#[inline]
pub(super) fn readable(view: &NamespaceView) -> Result<(), Status> {
    if view.access().read {
        Ok(())
    } else {
        Err(Status::RESERVATION_CONFLICT.dnr())
    }
}

/// Whether the reservations let this host write.
#[inline]
pub(super) fn writable_by_reservation(view: &NamespaceView) -> Result<(), Status> {
    if view.access().write {
        Ok(())
    } else {
        Err(Status::RESERVATION_CONFLICT.dnr())
    }
}

/// Whether this host may write and the disk takes writes.
#[inline]
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
