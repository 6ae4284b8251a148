//! FSSTAT, FSINFO, PATHCONF (§3.3.18 to §3.3.20).

use super::procedure::Procedure;
use super::wire::Status;
use crate::limits::TRANSFER_MAX;
use backend::file::{FILE_SIZE_MAX, NAME_MAX};

/// Preferred bytes of a READDIR.
const DIRECTORY_PREFERRED: u32 = 64 << 10;
/// Unit of transfers that suits the server, bytes.
const TRANSFER_UNIT: u32 = 4096;
/// `FSF3_LINK`, `FSF3_SYMLINK`, `FSF3_HOMOGENEOUS`, `FSF3_CANSETTIME`.
const PROPERTIES: u32 = 0x01 | 0x02 | 0x08 | 0x10;

impl Procedure<'_> {
    /// FSSTAT.
    pub(super) async fn fsstat(&mut self, object: &[u8]) -> Result<(), Status> {
        let target = self.target(object)?;
        let space = target.files().space(&target.caller).await?;
        self.write_now(&target).await;
        let files = space.files.saturating_add(space.files_available);
        for number in [
            space.total,
            space.available,
            space.available,
            files,
            space.files_available,
            space.files_available,
        ] {
            self.out.u64(number);
        }
        // Seconds for which the numbers will not change: unknown.
        self.out.u32(0);
        Ok(())
    }

    /// FSINFO.
    pub(super) async fn fsinfo(&mut self, object: &[u8]) -> Result<(), Status> {
        let target = self.target(object)?;
        let of = target.files().attributes(target.handle).await?;
        self.write_known(&target, Some(&of));
        for number in [
            TRANSFER_MAX,
            TRANSFER_MAX,
            TRANSFER_UNIT,
            TRANSFER_MAX,
            TRANSFER_MAX,
            TRANSFER_UNIT,
            DIRECTORY_PREFERRED,
        ] {
            self.out.u32(number);
        }
        self.out.u64(FILE_SIZE_MAX);
        // Times have a resolution of one nanosecond.
        self.out.u32(0);
        self.out.u32(1);
        self.out.u32(PROPERTIES);
        Ok(())
    }

    /// PATHCONF.
    pub(super) async fn pathconf(&mut self, object: &[u8]) -> Result<(), Status> {
        let target = self.target(object)?;
        let of = target.files().attributes(target.handle).await?;
        let limits = target.files().limits();
        self.write_known(&target, Some(&of));
        self.out.u32(limits.links_max);
        self.out.count(NAME_MAX);
        let (no_trunc, chown_restricted, case_preserving) = (true, true, true);
        self.out.bool(no_trunc);
        self.out.bool(chown_restricted);
        self.out.bool(limits.is_case_insensitive);
        self.out.bool(case_preserving);
        Ok(())
    }
}
