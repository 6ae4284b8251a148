//! Space and holes of files: ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, IO_ADVISE (RFC 7862, sections 15.1, 15.4, 15.5, 15.10,
//! 15.11).
//!
//! **Invariants**: a change is on stable storage before its reply, because no COMMIT follows it; the work of one request is
//! bounded by the bytes that it may read.

use super::context::{Compound, Target};
use super::status::{check_file, status_of};
use crate::limits::READ_PLUS_SEGMENTS_MAX;
use crate::wire::minor2::Span;
use crate::wire::{Bitmap, Stateid, Status};
use crate::xdr::Xdr;
use backend::file::{Allocate, Attributes, FILE_SIZE_MAX, FileError, Seek};
use std::ops::Range;

/// `NFS4_CONTENT_DATA`, `NFS4_CONTENT_HOLE`.
const CONTENT_DATA: u32 = 0;
const CONTENT_HOLE: u32 = 1;
/// Bytes of a result of READ_PLUS beside its data: the header, and a stretch with its padding.
const READ_PLUS_LEN: usize = 8;
const SEGMENT_LEN: usize = 20;

/// The bytes of a span. Errors: `Inval` for no bytes, or an end beyond the largest number.
fn range_of(span: &Span) -> Result<Range<u64>, Status> {
    match span.offset.checked_add(span.length) {
        Some(end) if span.length > 0 => Ok(span.offset..end),
        _ => Err(Status::Inval),
    }
}

impl Compound<'_> {
    /// Attributes of a regular file. Errors: `Isdir`, `Symlink`, `WrongType`.
    pub(super) async fn file_attributes(&self, target: &Target) -> Result<Attributes, Status> {
        let of = target.files().attributes(target.handle).await;
        let of = of.map_err(status_of)?;
        check_file(of.kind).map(|()| of)
    }

    /// ALLOCATE (RFC 7862, section 15.1): the file grows to the end of the range. Space cannot be set aside in a file system
    /// that never overwrites, so it is compared with the available space. Errors: `Nospc` for more than is available.
    pub(super) async fn allocate(&mut self, span: &Span) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?.writable()?;
        let _changing = self.changing_data(&target, &span.stateid)?;
        self.check_change(&target, &span.stateid).await?;
        let of = self.file_attributes(&target).await?;
        let range = range_of(span)?;
        let space = target.files().space(&target.caller).await;
        let available = space.map_err(status_of)?.available;
        if span.length > available.saturating_add(of.used) {
            return Err(Status::Nospc);
        }
        self.prepare(&target, range, Allocate::Reserve).await
    }

    /// DEALLOCATE (RFC 7862, section 15.4): a hole; the size stays.
    pub(super) async fn deallocate(&mut self, span: &Span) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?.writable()?;
        let _changing = self.changing_data(&target, &span.stateid)?;
        self.check_change(&target, &span.stateid).await?;
        self.file_attributes(&target).await?;
        let range = range_of(span)?;
        let range = range.start..range.end.min(FILE_SIZE_MAX);
        if range.is_empty() {
            return Ok(());
        }
        self.prepare(&target, range, Allocate::Punch).await
    }

    async fn prepare(
        &self,
        target: &Target,
        range: Range<u64>,
        how: Allocate,
    ) -> Result<(), Status> {
        let files = target.files();
        let grows = how == Allocate::Reserve;
        let done = files.allocate(&target.caller, target.handle, range, how, grows);
        done.await.map_err(status_of)?;
        let _stable = files.commit(target.handle).await.map_err(status_of)?;
        Ok(())
    }

    /// SEEK (RFC 7862, section 15.11): the end of the file counts as a hole. Errors: `Nxio` at and behind the end.
    pub(super) async fn seek(
        &mut self,
        stateid: &Stateid,
        offset: u64,
        what: u32,
    ) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?;
        self.check_data(&target, stateid, false).await?;
        let of = self.file_attributes(&target).await?;
        let to = match what {
            CONTENT_DATA => Seek::Data,
            CONTENT_HOLE => Seek::Hole,
            _ => return Err(Status::UnionNotsupp),
        };
        let (is_end, found) = match target.files().seek(target.handle, offset, to).await {
            Ok(found) => (to == Seek::Hole && found >= of.size, found),
            Err(FileError::NoData) if offset < of.size => (true, of.size),
            Err(error) => return Err(status_of(error)),
        };
        self.out.bool(is_end);
        self.out.u64(found);
        Ok(())
    }

    /// READ_PLUS (RFC 7862, section 15.10). `room`: bytes that the results may still take.
    pub(super) async fn read_plus(
        &mut self,
        (stateid, offset, count): (&Stateid, u64, u32),
        room: usize,
    ) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?;
        self.check_data(&target, stateid, false).await?;
        let size = self.file_attributes(&target).await?.size;
        let overhead = READ_PLUS_LEN + READ_PLUS_SEGMENTS_MAX * SEGMENT_LEN;
        let len =
            u64::from(count.min(self.limits.read_max)).min(room.saturating_sub(overhead) as u64);
        let end = offset.saturating_add(len).min(size);
        let header = self.out.mark();
        self.out.bool(false);
        let count_at = self.out.mark();
        self.out.u32(0);

        let (mut at, mut segments, mut is_end) = (offset, 0, offset >= size);
        while at < end && !is_end && (segments as usize) < READ_PLUS_SEGMENTS_MAX {
            segments += 1;
            let data = target
                .files()
                .seek_within(target.handle, at..end, Seek::Data);
            let data = data.await.map_err(status_of)?.unwrap_or(end);
            if data > at {
                self.out.u32(CONTENT_HOLE);
                self.out.u64(at);
                self.out.u64(data - at);
                at = data;
            } else {
                let hole = target
                    .files()
                    .seek_within(target.handle, at..end, Seek::Hole);
                let hole = hole.await.map_err(status_of)?.filter(|hole| *hole > at);
                let wanted = (hole.unwrap_or(end) - at) as usize;
                let read = target.files().read(target.handle, at, wanted).await;
                let read = read.map_err(status_of)?;
                self.out.u32(CONTENT_DATA);
                self.out.u64(at);
                at += read.bytes.len() as u64;
                is_end = read.is_end || read.bytes.is_empty();
                self.out.payload(read.bytes);
            }
        }
        self.out.set_u32(header, u32::from(is_end || at >= size));
        self.out.set_u32(count_at, segments);
        Ok(())
    }

    /// IO_ADVISE (RFC 7862, section 15.5): no hint changes anything here, so the reply names none.
    pub(super) fn io_advise(&mut self, span: &Span) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?;
        let stateid = self.context.stateid(&span.stateid)?;
        match self.check_io(&stateid, target.handle, false) {
            Err(Status::Openmode) => self.check_io(&stateid, target.handle, true)?,
            other => other?,
        }
        Bitmap::default().encode(&mut self.out);
        Ok(())
    }
}
