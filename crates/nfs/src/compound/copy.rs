//! COPY (RFC 7862, section 15.2).
//!
//! **Invariants**: a COPY copies at most [`COPY_MAX`] bytes, one buffer at a time, so that other requests get their turns; bytes
//! that were copied are reported even if a later part fails.

use super::context::Compound;
use super::status::status_of;
use crate::access::UNSTABLE;
use crate::limits::COPY_MAX;
use crate::wire::Status;
use crate::wire::minor2::Copy;
use backend::file::FileError;

impl Compound<'_> {
    /// COPY, within one export. Errors: `Notsupp` for a source on another server; `Xdev` between exports; `Inval` for ranges
    /// that overlap, or a source range beyond the file's end.
    pub(super) async fn copy(&mut self, args: &Copy) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?.writable()?;
        let source = self.context.saved_target(Status::Isdir)?;
        if args.servers > 0 {
            return Err(Status::Notsupp);
        }
        let from = self.context.saved_stateid_of(&args.source)?;
        let _changing = self.changing_data(&target, &args.target)?;
        self.check_data(&source, &from, false).await?;
        self.check_change(&target, &args.target).await?;
        let of = self.file_attributes(&source).await?;
        self.file_attributes(&target).await?;
        if !source.is_beside(&target) {
            return Err(Status::Xdev);
        }
        let rest = of.size.checked_sub(args.source_offset);
        let rest = rest.ok_or(Status::Inval)?;
        let count = match args.count {
            0 => rest,
            count if count > rest => return Err(Status::Inval),
            count => count,
        };
        let target_end = args.target_offset.checked_add(count);
        let target_end = target_end.ok_or(Status::Inval)?;
        let overlaps = args.source_offset < target_end
            && args.target_offset < args.source_offset + count
            && source.handle == target.handle;
        if overlaps {
            return Err(Status::Inval);
        }

        let most = count.min(COPY_MAX);
        let mut copied = 0;
        while copied < most {
            let part = target.files().copy(
                &target.caller,
                (source.handle, args.source_offset + copied),
                (target.handle, args.target_offset + copied),
                most - copied,
            );
            match part.await {
                // The source was truncated meanwhile.
                Ok(0) => break,
                Ok(part) => copied += part,
                Err(_) if copied > 0 => break,
                Err(FileError::Invalid) => return Err(Status::Inval),
                Err(error) => return Err(status_of(error)),
            }
        }
        // No callback ID: the copy is done.
        self.out.count(0);
        self.out.u64(copied);
        self.out.u32(UNSTABLE);
        self.out.fixed(&target.export.verifier);
        // Bytes were copied in their order, before the reply.
        self.out.bool(true);
        self.out.bool(true);
        Ok(())
    }
}
