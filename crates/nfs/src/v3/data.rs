//! READ, WRITE, COMMIT (§3.3.6, §3.3.7, §3.3.21).
//!
//! **Invariants**: a reply that promises stable storage is made from a [`Durable`], and from nothing else; data that is read is sent
//! from its own buffer.

use super::conflict::Use;
use super::procedure::Procedure;
use super::wire::Status;
use crate::access::{self, Target};
use backend::Durable;
use backend::file::{Attributes, FileError, FileKind};

/// The attributes of a regular file. Errors: `Isdir`, `Inval`.
async fn file(target: &Target) -> Result<Attributes, Status> {
    let of = target.files().attributes(target.handle).await?;
    match of.kind {
        FileKind::File => Ok(of),
        FileKind::Directory => Err(Status::Isdir),
        _ => Err(Status::Inval),
    }
}

/// Whether the caller may read or write data. Errors: `Access`, and those of [`file()`].
async fn check(target: &Target, how: Use) -> Result<(), Status> {
    if access::may_use(target, how == Use::Write).await? {
        return Ok(());
    }
    file(target).await?;
    Err(Status::Access)
}

impl Procedure<'_> {
    /// READ.
    pub(super) async fn read(
        &mut self,
        handle: &[u8],
        offset: u64,
        count: u32,
    ) -> Result<(), Status> {
        let target = self.target(handle)?;
        self.announce(target.handle, Use::Read)?;
        check(&target, Use::Read).await?;
        let len = count.min(self.read_max) as usize;
        let data = match target.files().read(target.handle, offset, len).await {
            Ok(data) => data,
            Err(error @ (FileError::Invalid | FileError::IsDirectory)) => {
                file(&target).await?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        self.write_now(&target).await;
        self.out.count(data.bytes.len());
        self.out.bool(data.is_end);
        self.out.item(data.bytes);
        Ok(())
    }

    /// WRITE.
    pub(super) async fn write(
        &mut self,
        handle: &[u8],
        offset: u64,
        stable: u32,
        data: &[u8],
    ) -> Result<(), Status> {
        let target = self.target(handle)?.writable()?;
        let _changing = self.changing_data(target.handle)?;
        check(&target, Use::Write).await?;
        let committed = match data.is_empty() {
            true => {
                file(&target).await?;
                self.write_unchanged(&target).await;
                stable
            }
            false => {
                let data = self.record.part_of(data);
                let done = match access::store(&target, offset, stable, data).await {
                    Ok(done) => done,
                    Err(error @ (FileError::Invalid | FileError::IsDirectory)) => {
                        file(&target).await?;
                        return Err(error.into());
                    }
                    Err(error) => return Err(error.into()),
                };
                self.write_change(&target, &done.value.object);
                access::promise(stable, done.durable.as_ref()).ok_or(Status::Serverfault)?
            }
        };
        self.out.count(data.len());
        self.out.u32(committed);
        self.out.fixed(&target.export.verifier);
        Ok(())
    }

    /// COMMIT: of the whole file.
    pub(super) async fn commit(&mut self, handle: &[u8]) -> Result<(), Status> {
        let target = self.target(handle)?;
        file(&target).await?;
        let durable = target.files().commit(target.handle).await?;
        self.write_unchanged(&target).await;
        self.write_verifier(&target, &durable);
        Ok(())
    }

    fn write_verifier(&mut self, target: &Target, _durable: &Durable) {
        self.out.fixed(&target.export.verifier);
    }
}
