//! A logical unit: SCSI commands as typed calls.
//!
//! **Called by** users of the initiator. **Invariants**: a command that the unit did not start (unit attention, busy) is
//! repeated. Reads, writes, flushes, WRITE SAME and UNMAP are repeated if their connection broke before the answer. Other
//! commands fail with [`Error::Disconnected`] if they had been sent.

use super::commands::{self, Cdb, page};
use super::data::{
    BlockLimits, Caching, Capacity, Characteristics, Designator, Identity, Provisioning,
    designators, luns,
};
use super::error::{Error, Result};
use super::limits::{
    ANSWER_MAX, BUSY_MAX, BUSY_PAUSE, LUNS_MAX, TRANSFER_MAX, UNIT_ATTENTIONS_MAX, UNMAP_RANGES_MAX,
};
use super::sense::Sense;
use super::session::Session;
use super::shared::Inner;
use super::tasks::{Data, Finished, Replay, Task};
use super::verdict::Verdict;
use io::IoBuf;
use iscsi::wire::Lun;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Options of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// The data is on stable storage before the write is answered: by FUA, or by a flush behind it if the unit has no FUA but a write cache.
    pub fua: bool,
}

/// What makes a write stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StableBy {
    /// The bit FUA of the command.
    Fua,
    /// SYNCHRONIZE CACHE after it.
    Flush,
    /// The unit has no write cache.
    Itself,
}

/// A logical unit of a session's target.
pub struct Unit {
    inner: Rc<Inner>,
    lun: Lun,
    capacity: Cell<Capacity>,
    limits: BlockLimits,
    transfer_max: u32,
    /// Unknown before the first write that must be stable.
    stable_by: Cell<Option<StableBy>>,
}

impl Session {
    /// Opens the disk with number `lun` for I/O.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such unit; [`Error::NotReady`]; [`Error::Invalid`] if it is not a disk.
    pub async fn unit(&self, lun: u16) -> Result<Unit> {
        let lun = scsi::Lun::new(lun).ok_or(Error::Invalid("no such logical unit number"))?;
        let lun = Lun(lun.to_bytes());
        let inner = &self.inner;
        let identity = inner.identity(lun).await?;
        if identity.device_type != 0 || identity.qualifier != 0 {
            return Err(Error::Invalid("the logical unit is no disk"));
        }
        let capacity = inner.capacity(lun).await?;
        // Not every unit has this page. Without it the limits are unknown.
        let limits = match inner.page(lun, page::BLOCK_LIMITS).await {
            Ok(data) => BlockLimits::parse(&data)?,
            Err(Error::Refused(_)) => BlockLimits::default(),
            Err(error) => return Err(error),
        };
        let told = u64::from(limits.transfer_max) * u64::from(capacity.block_size);
        let most = u64::from(TRANSFER_MAX);
        let transfer_max = if told == 0 { most } else { told.min(most) } as u32;
        Ok(Unit {
            inner: inner.clone(),
            lun,
            capacity: Cell::new(capacity),
            limits,
            transfer_max,
            stable_by: Cell::new(None),
        })
    }

    /// Lists the logical units of the target (REPORT LUNS).
    ///
    /// # Errors
    /// Errors of the unit and of the connection.
    pub async fn report_luns(&self) -> Result<Vec<Lun>> {
        let len = 8 + LUNS_MAX * 8;
        let cdb = commands::report_luns(len as u32);
        luns(
            &self
                .inner
                .ask(Lun::default(), cdb, len, Replay::Yes)
                .await?,
        )
    }
}

impl Inner {
    async fn identity(&self, lun: Lun) -> Result<Identity> {
        let cdb = commands::inquiry(None, ANSWER_MAX as u16);
        Identity::parse(&self.ask(lun, cdb, ANSWER_MAX, Replay::Yes).await?)
    }

    async fn capacity(&self, lun: Lun) -> Result<Capacity> {
        Capacity::parse(
            &self
                .ask(lun, commands::read_capacity(32), 32, Replay::Yes)
                .await?,
        )
    }

    async fn page(&self, lun: Lun, page: u8) -> Result<Vec<u8>> {
        let cdb = commands::inquiry(Some(page), ANSWER_MAX as u16);
        self.ask(lun, cdb, ANSWER_MAX, Replay::Yes).await
    }

    /// Runs a command and returns its answer, at most `len` bytes.
    async fn ask(&self, lun: Lun, cdb: Cdb, len: usize, replay: Replay) -> Result<Vec<u8>> {
        let buf = io::pool().alloc(len).await;
        let ended = self.run(lun, cdb, Data::In(buf), replay, false).await;
        ended.0?;
        match ended.1 {
            Data::In(buf) => Ok(buf[..ended.2 as usize].to_vec()),
            _ => unreachable!("a task gives back the data it was given"),
        }
    }

    /// Runs a command, again if the unit did not start it. Returns its data and the number of bytes received.
    async fn run(
        &self,
        lun: Lun,
        cdb: Cdb,
        data: Data,
        replay: Replay,
        whole: bool,
    ) -> (Result<()>, Data, u32) {
        let mut data = data;
        let (mut attentions, mut busy) = (0, 0);
        loop {
            let task = Task {
                lun,
                cdb,
                data,
                replay,
                whole,
            };
            let Finished {
                result,
                data: back,
                received,
            } = self.queue.execute(task).await;
            data = back;
            let ended = match result {
                Ok(ended) => ended,
                Err(error) => return (Err(error), data, received),
            };
            match Sense::judge(ended.status, ended.sense) {
                Verdict::Done => return (Ok(()), data, received),
                Verdict::Failed(error) => return (Err(error), data, received),
                Verdict::Attention(sense) => {
                    self.attention(lun, sense);
                    attentions += 1;
                    if attentions > UNIT_ATTENTIONS_MAX {
                        return (Err(Error::NotReady(sense)), data, received);
                    }
                }
                Verdict::Busy => {
                    busy += 1;
                    if busy > BUSY_MAX {
                        return (Err(Error::Busy), data, received);
                    }
                    io::time::sleep(BUSY_PAUSE).await;
                }
            }
        }
    }
}

impl Unit {
    /// The unit's number.
    #[must_use]
    pub fn lun(&self) -> Lun {
        self.lun
    }

    /// Length of a logical block, bytes.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.capacity.get().block_size
    }

    /// Number of logical blocks at the last READ CAPACITY.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.capacity.get().blocks
    }

    /// Data of the last READ CAPACITY.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity.get()
    }

    /// Most bytes of one read, write or compare.
    #[must_use]
    pub fn transfer_max(&self) -> u32 {
        self.transfer_max
    }

    /// The block limits page; all zero if the unit has none.
    #[must_use]
    pub fn limits(&self) -> BlockLimits {
        self.limits
    }

    /// Reads the capacity again, for example after a unit attention that reported a change.
    ///
    /// # Errors
    /// As [`Session::unit`].
    pub async fn refresh(&self) -> Result<Capacity> {
        let capacity = self.inner.capacity(self.lun).await?;
        if capacity.block_size != self.block_size() {
            return Err(Error::Invalid("the unit's block size changed"));
        }
        self.capacity.set(capacity);
        Ok(capacity)
    }

    /// Tests whether the unit is ready (TEST UNIT READY).
    ///
    /// # Errors
    /// [`Error::NotReady`] and errors of the connection.
    pub async fn test_ready(&self) -> Result<()> {
        self.command(commands::test_unit_ready(), Data::None, Replay::Yes)
            .await
    }

    /// Returns the standard INQUIRY data.
    ///
    /// # Errors
    /// Errors of the unit and of the connection.
    pub async fn identity(&self) -> Result<Identity> {
        self.inner.identity(self.lun).await
    }

    /// Returns the designators of the device identification (VPD page 83h).
    ///
    /// # Errors
    /// As [`Unit::identity`].
    pub async fn designators(&self) -> Result<Vec<Designator>> {
        designators(
            &self
                .inner
                .page(self.lun, page::DEVICE_IDENTIFICATION)
                .await?,
        )
    }

    /// Returns the block device characteristics (VPD page B1h).
    ///
    /// # Errors
    /// As [`Unit::identity`].
    pub async fn characteristics(&self) -> Result<Characteristics> {
        let page = page::BLOCK_DEVICE_CHARACTERISTICS;
        Characteristics::parse(&self.inner.page(self.lun, page).await?)
    }

    /// Returns the logical block provisioning page (VPD page B2h).
    ///
    /// # Errors
    /// As [`Unit::identity`].
    pub async fn provisioning(&self) -> Result<Provisioning> {
        let page = page::LOGICAL_BLOCK_PROVISIONING;
        Provisioning::parse(&self.inner.page(self.lun, page).await?)
    }

    /// Returns the caching mode page.
    ///
    /// # Errors
    /// As [`Unit::identity`].
    pub async fn caching(&self) -> Result<Caching> {
        const LEN: usize = 64;
        let cdb = commands::mode_sense_caching(LEN as u16);
        Caching::parse(&self.inner.ask(self.lun, cdb, LEN, Replay::Yes).await?)
    }

    /// What makes a write with these options stable; `None` if it need not be. A unit without the caching mode page gets FUA.
    async fn stable_by(&self, options: WriteOptions) -> Result<Option<StableBy>> {
        if !options.fua || self.stable_by.get().is_some() {
            return Ok(self.stable_by.get().filter(|_| options.fua));
        }
        let by = match self.caching().await {
            Ok(caching) if caching.fua => StableBy::Fua,
            Ok(caching) if caching.write_cache => StableBy::Flush,
            Ok(_) => StableBy::Itself,
            Err(Error::Refused(_)) => StableBy::Fua,
            Err(error) => return Err(error),
        };
        self.stable_by.set(Some(by));
        Ok(Some(by))
    }

    /// Runs the write that `cdb` builds, given the bit FUA, and a flush if it must be stable and needs one.
    async fn write_stably(
        &self,
        cdb: impl FnOnce(bool) -> Cdb,
        (data, replay): (Arc<IoBuf>, Replay),
        options: WriteOptions,
    ) -> Result<()> {
        let by = self.stable_by(options).await?;
        let cdb = cdb(by == Some(StableBy::Fua));
        self.command(cdb, Data::Out(data), replay).await?;
        match by {
            Some(StableBy::Flush) => self.flush().await,
            _ => Ok(()),
        }
    }

    /// Reads blocks from `lba` on until `buf` is full. The buffer's length must be a multiple of the block size.
    ///
    /// # Errors
    /// Errors of the unit, [`Error::Invalid`] and errors of the connection. The buffer is always returned; after an error its
    /// contents are undefined.
    pub async fn read(&self, lba: u64, buf: IoBuf) -> (Result<()>, IoBuf) {
        let count = match self.count(buf.len()) {
            Ok(count) => count,
            Err(error) => return (Err(error), buf),
        };
        let data = Data::In(buf);
        let cdb = commands::read(lba, count);
        match self.inner.run(self.lun, cdb, data, Replay::Yes, true).await {
            (result, Data::In(buf), _) => (result, buf),
            _ => unreachable!("a task gives back the data it was given"),
        }
    }

    /// Writes `data` from `lba` on. The buffer is sent without a copy; keep a clone to write it again.
    ///
    /// # Errors
    /// Errors of the unit, [`Error::Invalid`] and errors of the connection.
    pub async fn write(&self, lba: u64, data: Arc<IoBuf>, options: WriteOptions) -> Result<()> {
        let count = self.count(data.len())?;
        let cdb = |fua| commands::write(lba, count, fua);
        self.write_stably(cdb, (data, Replay::Yes), options).await
    }

    /// Makes all answered writes stable (SYNCHRONIZE CACHE).
    ///
    /// # Errors
    /// Errors of the unit and of the connection.
    pub async fn flush(&self) -> Result<()> {
        self.command(commands::synchronize_cache(), Data::None, Replay::Yes)
            .await
    }

    /// Unmaps the blocks of 1 to 256 ranges (UNMAP). A range is its first block and its number of blocks.
    ///
    /// # Errors
    /// As [`Unit::write`].
    pub async fn unmap(&self, ranges: &[(u64, u32)]) -> Result<()> {
        if !(1..=UNMAP_RANGES_MAX).contains(&ranges.len()) {
            return Err(Error::Invalid("1 to 256 ranges"));
        }
        let list = commands::unmap_list(ranges);
        let cdb = commands::unmap(list.len() as u16);
        self.command(cdb, Data::Small(list.into()), Replay::Yes)
            .await
    }

    /// Zeroes blocks (WRITE SAME). With `unmap` the unit may unmap them.
    ///
    /// # Errors
    /// As [`Unit::write`].
    pub async fn write_zeroes(&self, lba: u64, blocks: u32, unmap: bool) -> Result<()> {
        if blocks == 0 {
            return Err(Error::Invalid("at least one block"));
        }
        let block = vec![0; self.block_size() as usize];
        let cdb = commands::write_same(lba, blocks, unmap);
        self.command(cdb, Data::Small(block.into()), Replay::Yes)
            .await
    }

    /// Compares `data` with the blocks from `lba` on (VERIFY).
    ///
    /// # Errors
    /// [`Error::Miscompare`] if they differ; as [`Unit::write`].
    pub async fn compare(&self, lba: u64, data: Arc<IoBuf>) -> Result<()> {
        let cdb = commands::compare(lba, self.count(data.len())?);
        self.command(cdb, Data::Out(data), Replay::No).await
    }

    /// Writes `data` if the blocks from `lba` on equal `expected`, as one atomic operation (COMPARE AND WRITE).
    ///
    /// # Errors
    /// As [`Unit::compare`].
    pub async fn compare_and_write(
        &self,
        lba: u64,
        expected: &[u8],
        data: &[u8],
        options: WriteOptions,
    ) -> Result<()> {
        if expected.len() != data.len() {
            return Err(Error::Invalid("both halves have one length"));
        }
        let count = u8::try_from(self.count(data.len())?);
        let count = count.map_err(|_| Error::Invalid("at most 255 blocks"))?;
        let mut both = io::pool().alloc(2 * data.len()).await;
        both[..data.len()].copy_from_slice(expected);
        both[data.len()..].copy_from_slice(data);
        let cdb = |fua| commands::compare_and_write(lba, count, fua);
        let data = (Arc::new(both), Replay::No);
        self.write_stably(cdb, data, options).await
    }

    /// Runs a command that must not be sent twice. Returns its answer, at most `len` bytes.
    pub(super) async fn ask(&self, cdb: Cdb, len: usize) -> Result<Vec<u8>> {
        self.inner.ask(self.lun, cdb, len, Replay::No).await
    }

    pub(super) async fn command(&self, cdb: Cdb, data: Data, replay: Replay) -> Result<()> {
        self.inner.run(self.lun, cdb, data, replay, true).await.0
    }

    /// Number of blocks in `len` bytes. Fails if `len` is no multiple of the block size. The unit checks whether the blocks
    /// exist.
    fn count(&self, len: usize) -> Result<u32> {
        let size = self.block_size() as usize;
        if !len.is_multiple_of(size) || len == 0 {
            return Err(Error::Invalid(
                "a transfer's length is a multiple of the block size",
            ));
        }
        if len > self.transfer_max as usize {
            return Err(Error::Invalid(
                "a transfer's length exceeds the unit's limit",
            ));
        }
        Ok((len / size) as u32)
    }
}
