//! GETATTR, SETATTR, ACCESS (§3.3.1, §3.3.2, §3.3.4).

use super::procedure::Procedure;
use super::wire::Status;
use crate::access::{self, Target};
use backend::file::{
    Caller, Change, CheckedBy, Done, FileError, FileKind, FileResult, SetAttributes, SetTime,
    Stability, Timestamp,
};

impl Procedure<'_> {
    /// GETATTR.
    pub(super) async fn getattr(&mut self, object: &[u8]) -> Result<(), Status> {
        let target = self.target(object)?;
        let of = target.files().attributes(target.handle).await?;
        self.write_attributes(&target, &of);
        Ok(())
    }

    /// SETATTR.
    pub(super) async fn setattr(
        &mut self,
        object: &[u8],
        set: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<(), Status> {
        let target = self.target(object)?.writable()?;
        let _changing = match set.size {
            Some(_) => self.changing_data(target.handle)?,
            None => self.changing(target.handle)?,
        };
        let mut set = SetAttributes { guard, ..*set };
        // A symbolic link has no permissions: its mode is ignored, as by other servers, and everything else is set.
        if set.mode.is_some() {
            let of = target.files().attributes(target.handle).await?;
            if of.kind == FileKind::Symlink {
                set.mode = None;
            }
        }
        let done = set_attributes(&target, set).await?;
        self.write_change(&target, &done.value);
        Ok(())
    }

    /// ACCESS.
    pub(super) async fn access(&mut self, object: &[u8], wanted: u32) -> Result<(), Status> {
        let target = self.target(object)?;
        let (_, granted) = access::granted(&target).await?;
        self.write_now(&target).await;
        self.out.u32(wanted & granted);
        Ok(())
    }
}

/// Sets attributes. The owner of a file sets its size without permission to write, because a client checks the permission only when a
/// file is opened (§4.4).
pub(super) async fn set_attributes(
    target: &Target,
    set: SetAttributes,
) -> FileResult<Done<Change>> {
    let apply = |caller: Caller| async move {
        let files = target.files();
        let done = files.set_attributes(&caller, target.handle, set, Stability::Durable);
        done.await
    };
    let refused = match apply(target.caller.clone()).await {
        Err(FileError::Access) if is_truncation(&set) => FileError::Access,
        done => return done,
    };
    let of = target.files().attributes(target.handle).await?;
    match of.uid == target.caller.uid {
        true => {
            apply(Caller {
                checked_by: CheckedBy::Client,
                ..target.caller.clone()
            })
            .await
        }
        false => Err(refused),
    }
}

/// Whether only the size is set, and times to the present one.
fn is_truncation(set: &SetAttributes) -> bool {
    let is_plain = |time: SetTime| time == SetTime::Keep || time == SetTime::Now;
    set.size.is_some()
        && set.mode.is_none()
        && set.uid.is_none()
        && set.gid.is_none()
        && is_plain(set.accessed)
        && is_plain(set.modified)
}
