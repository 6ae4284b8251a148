//! READ, WRITE, COMMIT (§18.3, §18.22, §18.32).
//!
//! **Invariants**: a reply that promises stable storage is made from a [`Durable`], and from nothing else; data that is read is
//! sent from its own buffer.

use super::context::{Compound, Target};
use super::open::plain;
use super::status::{check_file, status_of};
use crate::access;
use crate::shared::Changing;
use crate::wire::{Stateid, Status};
use backend::Durable;
use backend::file::{Access, FileError, FileKind, Handle};

impl Compound<'_> {
    /// Whether data may be read or written with this stateid. An expired client whose share reservation is in the way loses its
    /// state. Errors: `Locked`, `Openmode`, those of a stateid.
    pub(super) fn check_io(
        &self,
        stateid: &Stateid,
        file: Handle,
        is_write: bool,
    ) -> Result<(), Status> {
        let client = self.context.client()?;
        let shared = self.context.shared;
        shared
            .check_io(client, stateid, file, is_write)
            .map_err(plain)
    }

    /// Checks stateid and permission. With the stateid of an open or lock, the caller may be another user than the one who opened the
    /// file, and permissions may have changed since: they are checked as in version 3, where the owner always may.
    pub(super) async fn check_data(
        &self,
        target: &Target,
        stateid: &Stateid,
        is_write: bool,
    ) -> Result<(), Status> {
        let stateid = self.context.stateid(stateid)?;
        self.check_io(&stateid, target.handle, is_write)?;
        self.check_permission(target, &stateid, is_write).await
    }

    /// The checks of [`Compound::check_data`] for a change that [`Compound::changing_data`] has begun, which checked the stateid of an
    /// open or lock already.
    pub(super) async fn check_change(
        &self,
        target: &Target,
        stateid: &Stateid,
    ) -> Result<(), Status> {
        let stateid = self.context.stateid(stateid)?;
        if stateid.is_special() {
            self.check_io(&stateid, target.handle, true)?;
        }
        self.check_permission(target, &stateid, true).await
    }

    async fn check_permission(
        &self,
        target: &Target,
        stateid: &Stateid,
        is_write: bool,
    ) -> Result<(), Status> {
        if !stateid.is_special() {
            let may = access::may_use(target, is_write).await;
            if !may.map_err(status_of)? {
                return Err(Status::Access);
            }
        } else {
            if self.context.is_grace() {
                return Err(Status::Grace);
            }
            self.context.shared.store_records().await?;
            let wanted = if is_write {
                Access::WRITE
            } else {
                Access::READ
            };
            let files = target.files();
            let has = files.access(&target.caller, target.handle, wanted).await;
            if has.map_err(status_of)? != wanted {
                return Err(Status::Access);
            }
        }
        Ok(())
    }

    /// A change of data begins. While the result exists, no client gets a delegation of the file, also if the open of the stateid is
    /// closed meanwhile. Errors: `Delay` while delegations of other clients exclude the change, `Grace` for a special stateid; those of
    /// a stateid.
    pub(super) fn changing_data(
        &self,
        target: &Target,
        stateid: &Stateid,
    ) -> Result<Changing, Status> {
        let stateid = self.context.stateid(stateid)?;
        if stateid.is_special() {
            return self.context.changing(target.handle);
        }
        self.check_io(&stateid, target.handle, true)?;
        self.context.changing_held(target.handle)
    }

    /// The status for an object that has no data.
    async fn no_file(&self, target: &Target, error: FileError) -> Status {
        if !matches!(error, FileError::Invalid | FileError::IsDirectory) {
            return status_of(error);
        }
        match target.files().attributes(target.handle).await {
            Ok(of) => check_file(of.kind).err().unwrap_or(Status::Inval),
            Err(error) => status_of(error),
        }
    }

    /// READ (§18.22).
    pub(super) async fn read(
        &mut self,
        stateid: &Stateid,
        offset: u64,
        count: u32,
    ) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?;
        self.check_data(&target, stateid, false).await?;
        let len = count.min(self.limits.read_max) as usize;
        let data = match target.files().read(target.handle, offset, len).await {
            Ok(data) => data,
            Err(error) => return Err(self.no_file(&target, error).await),
        };
        self.out.bool(data.is_end);
        self.out.item(data.bytes);
        Ok(())
    }

    /// WRITE (§18.32).
    pub(super) async fn write(
        &mut self,
        stateid: &Stateid,
        offset: u64,
        stable: u32,
        data: &[u8],
    ) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?.writable()?;
        let _changing = self.changing_data(&target, stateid)?;
        self.check_change(&target, stateid).await?;
        let committed = match data.is_empty() {
            true => {
                let of = target.files().attributes(target.handle).await;
                if of.map_err(status_of)?.kind != FileKind::File {
                    return Err(self.no_file(&target, FileError::Invalid).await);
                }
                stable
            }
            false => self.write_data(&target, offset, stable, data).await?,
        };
        self.out.count(data.len());
        self.out.u32(committed);
        self.out.fixed(&target.export.verifier);
        Ok(())
    }

    async fn write_data(
        &self,
        target: &Target,
        offset: u64,
        stable: u32,
        data: &[u8],
    ) -> Result<u32, Status> {
        let done = match access::store(target, offset, stable, self.record.part_of(data)).await {
            Ok(done) => done,
            Err(error) => return Err(self.no_file(target, error).await),
        };
        access::promise(stable, done.durable.as_ref()).ok_or(Status::Serverfault)
    }

    /// COMMIT (§18.3): of the whole file.
    pub(super) async fn commit(&mut self) -> Result<(), Status> {
        let target = self.context.target(Status::Isdir)?;
        let of = target.files().attributes(target.handle).await;
        if of.map_err(status_of)?.kind != FileKind::File {
            return Err(self.no_file(&target, FileError::Invalid).await);
        }
        let durable = target.files().commit(target.handle).await;
        let durable = durable.map_err(status_of)?;
        self.write_verifier(&target, &durable);
        Ok(())
    }

    fn write_verifier(&mut self, target: &Target, _durable: &Durable) {
        self.out.fixed(&target.export.verifier);
    }
}
