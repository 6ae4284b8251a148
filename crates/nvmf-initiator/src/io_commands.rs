//! I/O commands as typed calls on a namespace (NVM 3, Base 7).
//!
//! Reads, writes, flushes, write zeroes and deallocations are sent again if their connection broke before the answer. The
//! other commands fail with [`Error::Disconnected`] if they had been sent.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use io::IoBuf;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use super::controller::Controller;
use super::error::{Error, Result};
use super::queue::{Command, Data, Finished, Queue, Replay, checked};
use super::state::Inner;
use nvmf::wire::command::{IoFlags, Nsid, Sqe};
use nvmf::wire::copy::{self, COPY_RANGES_MAX, CopyRange};
use nvmf::wire::dsm::{self, DSM_RANGES_MAX, DsmAttributes, DsmRange};
use nvmf::wire::opcode::io as opcode;
use nvmf::wire::reservation::{
    self, AcquireAction, PersistChange, RegisterAction, ReleaseAction, ReservationKeys,
    ReservationStatus, ReservationType,
};
use nvmf::wire::status::Status;

/// Most blocks of one command: NLB has 16 bits and is 0's based.
const BLOCKS_MAX: u64 = 0x1_0000;
/// Bytes requested for a reservation report: a header and 63 registrants.
const REPORT_LEN: usize = 4096;

/// Options of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// FUA: the data is on stable storage before the command is answered.
    pub fua: bool,
}

/// A namespace of a connected controller.
pub struct Namespace {
    inner: Rc<Inner>,
    nsid: Nsid,
    block_size: u32,
    blocks: Cell<u64>,
    transfer_max: u32,
    /// The queue of all its commands; `None` for round robin.
    queue: Option<Queue>,
}

impl Controller {
    /// Opens a namespace for I/O.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not active; [`Error::Invalid`] if its format has metadata or an unsupported block size.
    pub async fn namespace(&self, nsid: Nsid) -> Result<Namespace> {
        let identify = self.identify_namespace(nsid).await?;
        let block_size = identify
            .block_size()
            .ok_or(Error::Invalid("the namespace's LBA format"))?;
        Ok(Namespace {
            inner: self.inner.clone(),
            nsid,
            block_size,
            blocks: Cell::new(identify.nsze.get()),
            transfer_max: self.transfer_max(),
            queue: None,
        })
    }
}

impl Namespace {
    /// The namespace's identifier.
    #[must_use]
    pub fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// Length of a logical block, bytes.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Number of logical blocks at the last identify.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks.get()
    }

    /// Most bytes of one read, write or compare.
    #[must_use]
    pub fn transfer_max(&self) -> u32 {
        self.transfer_max
    }

    /// Returns a handle that sends all its commands on one I/O queue, counted from 0.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such queue.
    pub fn on_queue(&self, queue: usize) -> Result<Self> {
        let queue = self
            .inner
            .io
            .borrow()
            .get(queue)
            .cloned()
            .ok_or(Error::Invalid("no such I/O queue"))?;
        Ok(Self {
            inner: self.inner.clone(),
            nsid: self.nsid,
            block_size: self.block_size,
            blocks: self.blocks.clone(),
            transfer_max: self.transfer_max,
            queue: Some(queue),
        })
    }

    /// Reads the size again, for example after a namespace-changed event. Returns it in blocks.
    ///
    /// # Errors
    /// As [`Controller::namespace`].
    pub async fn refresh(&self, controller: &Controller) -> Result<u64> {
        let identify = controller.identify_namespace(self.nsid).await?;
        if identify.block_size() != Some(self.block_size) {
            return Err(Error::Invalid("the namespace's block size changed"));
        }
        self.blocks.set(identify.nsze.get());
        Ok(self.blocks.get())
    }

    /// Reads blocks from `slba` on until `buf` is full. The buffer's length must be a multiple of the block size.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Invalid`] and errors of the connection. The buffer is always returned; after an error its
    /// contents are undefined.
    pub async fn read(&self, slba: u64, buf: IoBuf) -> (Result<()>, IoBuf) {
        let sqe = match self.transfer(opcode::READ, slba, buf.len()) {
            Ok(sqe) => sqe,
            Err(error) => return (Err(error), buf),
        };
        let queue = match self.queue() {
            Ok(queue) => queue,
            Err(error) => return (Err(error), buf),
        };
        let command = Command {
            sqe,
            data: Data::In(buf),
            replay: Replay::Yes,
            untimed: false,
            whole: true,
        };
        let Finished { result, data, .. } = queue.execute(command).await;
        match data {
            Data::In(buf) => (checked(result).map(drop), buf),
            _ => unreachable!("a command gives back the data it was given"),
        }
    }

    /// Writes `data` from `slba` on. The buffer is sent without a copy; keep a clone to write it again.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Invalid`] and errors of the connection.
    pub async fn write(&self, slba: u64, data: Arc<IoBuf>, options: WriteOptions) -> Result<()> {
        let mut sqe = self.transfer(opcode::WRITE, slba, data.len())?;
        if options.fua {
            sqe.cdw12 |= IoFlags::FUA.bits();
        }
        self.run(sqe, Data::Out(data), Replay::Yes).await
    }

    /// Makes all answered writes stable.
    ///
    /// # Errors
    /// [`Error::Refused`] and errors of the connection.
    pub async fn flush(&self) -> Result<()> {
        self.run(Sqe::new(opcode::FLUSH, self.nsid), Data::None, Replay::Yes)
            .await
    }

    /// Zeroes `blocks` blocks from `slba` on. With `deallocate` the controller may free them.
    ///
    /// # Errors
    /// As [`Namespace::write`].
    pub async fn write_zeroes(
        &self,
        slba: u64,
        blocks: u64,
        deallocate: bool,
        options: WriteOptions,
    ) -> Result<()> {
        let mut sqe = self.range(opcode::WRITE_ZEROES, slba, blocks)?;
        let mut flags = IoFlags::empty();
        flags.set(IoFlags::DEALLOCATE, deallocate);
        flags.set(IoFlags::FUA, options.fua);
        sqe.cdw12 |= flags.bits();
        self.run(sqe, Data::None, Replay::Yes).await
    }

    /// Deallocates the blocks of 1 to 256 ranges (Dataset Management).
    ///
    /// # Errors
    /// As [`Namespace::write`].
    pub async fn deallocate(&self, ranges: &[DsmRange]) -> Result<()> {
        if !(1..=DSM_RANGES_MAX).contains(&ranges.len()) {
            return Err(Error::Invalid("1 to 256 ranges"));
        }
        let sqe = dsm::command(self.nsid, ranges.len(), DsmAttributes::DEALLOCATE);
        self.run(sqe, Data::Small(ranges.as_bytes().into()), Replay::Yes)
            .await
    }

    /// Compares `data` with the blocks from `slba` on.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`COMPARE_FAILURE`](nvmf::wire::status::Status::COMPARE_FAILURE)
    /// if they differ; as [`Namespace::write`].
    pub async fn compare(&self, slba: u64, data: Arc<IoBuf>) -> Result<()> {
        let sqe = self.transfer(opcode::COMPARE, slba, data.len())?;
        self.run(sqe, Data::Out(data), Replay::No).await
    }

    /// Writes `data` if the blocks from `slba` on equal `expected`, as one atomic operation (Base 3.4.2).
    ///
    /// # Errors
    /// As [`Namespace::compare`].
    pub async fn compare_and_write(
        &self,
        slba: u64,
        expected: Arc<IoBuf>,
        data: Arc<IoBuf>,
    ) -> Result<()> {
        if expected.len() != data.len() {
            return Err(Error::Invalid("a fused pair's buffers have one length"));
        }
        let command = |code, data: Arc<IoBuf>| -> Result<Command> {
            let sqe = self.transfer(code, slba, data.len())?;
            Ok(Command {
                sqe,
                data: Data::Out(data),
                replay: Replay::No,
                untimed: false,
                whole: true,
            })
        };
        let (compare, write) = (
            command(opcode::COMPARE, expected)?,
            command(opcode::WRITE, data)?,
        );
        let queue = self.queue()?;
        let (compare, write) = queue.execute_fused(compare, write).await?;
        // If one half fails, the controller aborts the other. Only the status of the failed half has the reason.
        match checked(compare.result) {
            Err(Error::Refused(s)) if s.is(Status::ABORTED_FAILED_FUSED) => {
                checked(write.result)?;
                Err(Error::Refused(s))
            }
            Err(other) => Err(other),
            Ok(_) => checked(write.result).map(drop),
        }
    }

    /// Makes the controller read and check `blocks` blocks, without a transfer.
    ///
    /// # Errors
    /// As [`Namespace::write`].
    pub async fn verify(&self, slba: u64, blocks: u64) -> Result<()> {
        self.run(
            self.range(opcode::VERIFY, slba, blocks)?,
            Data::None,
            Replay::No,
        )
        .await
    }

    /// Copies 1 to 256 source ranges, one after the other, to `destination`.
    ///
    /// # Errors
    /// As [`Namespace::write`].
    pub async fn copy(&self, destination: u64, sources: &[CopyRange]) -> Result<()> {
        if !(1..=COPY_RANGES_MAX).contains(&sources.len()) {
            return Err(Error::Invalid("1 to 256 source ranges"));
        }
        let sqe = copy::command(self.nsid, destination, sources.len());
        self.run(sqe, Data::Small(sources.as_bytes().into()), Replay::No)
            .await
    }

    /// Reservation Register.
    ///
    /// # Errors
    /// [`Error::Refused`] with
    /// [`RESERVATION_CONFLICT`](nvmf::wire::status::Status::RESERVATION_CONFLICT) if `current` is
    /// not this host's key.
    pub async fn reservation_register(
        &self,
        action: RegisterAction,
        current: Option<u64>,
        new: u64,
        persist: PersistChange,
    ) -> Result<()> {
        // IEKEY: without `current`, the controller ignores the existing key.
        let ignore = current.is_none() && action != RegisterAction::Register;
        let sqe = reservation::register(self.nsid, action, ignore, persist);
        self.run(sqe, keys(current.unwrap_or(0), new), Replay::No)
            .await
    }

    /// Reservation Acquire. `preempted` is the key of the registrant to preempt, else 0.
    ///
    /// # Errors
    /// As [`Namespace::reservation_register`].
    pub async fn reservation_acquire(
        &self,
        action: AcquireAction,
        kind: ReservationType,
        current: u64,
        preempted: u64,
    ) -> Result<()> {
        let sqe = reservation::acquire(self.nsid, action, kind);
        self.run(sqe, keys(current, preempted), Replay::No).await
    }

    /// Reservation Release.
    ///
    /// # Errors
    /// As [`Namespace::reservation_register`].
    pub async fn reservation_release(
        &self,
        action: ReleaseAction,
        kind: Option<ReservationType>,
        current: u64,
    ) -> Result<()> {
        let sqe = reservation::release(self.nsid, action, kind);
        let key = U64::new(current);
        self.run(sqe, Data::Small(key.as_bytes().into()), Replay::No)
            .await
    }

    /// Reservation Report with 128-bit host identifiers, or with 64-bit ones.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Malformed`].
    pub async fn reservation_report(&self, extended: bool) -> Result<ReservationStatus> {
        let sqe = reservation::report(self.nsid, (REPORT_LEN / 4) as u32, extended);
        let buf = io::pool().alloc(REPORT_LEN).await;
        let command = Command {
            sqe,
            data: Data::In(buf),
            replay: Replay::No,
            untimed: false,
            whole: false,
        };
        let Finished {
            result,
            data,
            received,
        } = self.queue()?.execute(command).await;
        checked(result)?;
        match data {
            Data::In(buf) => Ok(ReservationStatus::parse(
                &buf[..received as usize],
                extended,
            )?),
            _ => unreachable!("a command gives back the data it was given"),
        }
    }

    fn queue(&self) -> Result<Queue> {
        self.queue.clone().map_or_else(|| self.inner.io_queue(), Ok)
    }

    async fn run(&self, sqe: Sqe, data: Data, replay: Replay) -> Result<()> {
        let command = Command {
            sqe,
            data,
            replay,
            untimed: false,
            whole: true,
        };
        checked(self.queue()?.execute(command).await.result).map(drop)
    }

    /// Returns a command for the blocks that `len` bytes fill. Fails if `len` is no multiple of the block size.
    fn transfer(&self, code: u8, slba: u64, len: usize) -> Result<Sqe> {
        let size = self.block_size as usize;
        if !len.is_multiple_of(size) {
            return Err(Error::Invalid(
                "a transfer's length is a multiple of the block size",
            ));
        }
        if len > self.transfer_max as usize {
            return Err(Error::Invalid(
                "a transfer's length exceeds the controller's limit",
            ));
        }
        self.range(code, slba, (len / size) as u64)
    }

    /// Returns a command for `blocks` blocks. The controller checks whether they exist.
    fn range(&self, code: u8, slba: u64, blocks: u64) -> Result<Sqe> {
        if !(1..=BLOCKS_MAX).contains(&blocks) {
            return Err(Error::Invalid("1 to 65536 blocks"));
        }
        let mut sqe = Sqe::new(code, self.nsid);
        sqe.set_slba(slba);
        sqe.cdw12 = (blocks as u32 - 1).into();
        Ok(sqe)
    }
}

fn keys(current: u64, other: u64) -> Data {
    let keys = ReservationKeys {
        current: U64::new(current),
        other: U64::new(other),
    };
    Data::Small(keys.as_bytes().into())
}
