//! Attributes, permissions and space.

use crate::convert;
use crate::mounted::Mounted;
use crate::status::{Answer, of_file};
use backend::file::{
    Access, Caller, CheckedBy, FileError, FileSpace, SetAttributes, SetTime, Stability,
};
use fuser::{Errno, FileAttr};

impl Mounted {
    /// Sets attributes. `is_open` says that the kernel made the request for an open file: its size may be set without
    /// permission to write now, since that was checked when it was opened.
    pub(crate) async fn set_attributes(
        &self,
        mut caller: Caller,
        number: u64,
        set: SetAttributes,
        is_open: bool,
    ) -> Answer<FileAttr> {
        if set == SetAttributes::default() {
            return self.attributes(number).await;
        }
        let of = self.handle(number)?;
        let sets_only_size = set
            == SetAttributes {
                size: set.size,
                ..SetAttributes::default()
            };
        if is_open && sets_only_size {
            caller.checked_by = CheckedBy::Client;
        }
        let masked = match set.mode {
            Some(mode) => self.acl_after_chmod(of, mode).await?,
            None => None,
        };
        let done = self
            .files
            .set_attributes(&caller, of, set, Stability::Cached)
            .await;
        match done {
            Ok(_) if masked.is_some() => {
                self.replace_acl(&caller, of, masked).await?;
                self.attributes(number).await
            }
            Ok(done) => Ok(self.shown(number, &done.value.after)),
            Err(FileError::Stale) => self.set_removed(number, &set),
            Err(e) => Err(of_file(e)),
        }
    }

    /// Sets the kept attributes of an object without names: with write-back, the kernel sets times of files that it has
    /// removed before.
    fn set_removed(&self, number: u64, set: &SetAttributes) -> Answer<FileAttr> {
        let mut last = self.nodes.removed(number).ok_or(Errno::ESTALE)?;
        last.mode = set.mode.unwrap_or(last.mode);
        last.uid = set.uid.unwrap_or(last.uid);
        last.gid = set.gid.unwrap_or(last.gid);
        if let SetTime::To(time) = set.accessed {
            last.accessed = time;
        }
        if let SetTime::To(time) = set.modified {
            last.modified = time;
        }
        self.nodes.keep_removed(&last);
        Ok(convert::attributes(number, &last))
    }

    /// Checks permissions (access(2)). `mask` has the bits R_OK, W_OK and X_OK. Errors: EACCES.
    pub(crate) async fn access(&self, caller: Caller, number: u64, mask: i32) -> Answer<()> {
        let wanted = Access::from_bits((mask & 7) as u16);
        let of = self.handle(number)?;
        let has = self.files.access(&caller, of, wanted).await;
        match has.map_err(of_file)?.has(wanted) {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// The file system's space.
    pub(crate) async fn space(&self, caller: Caller) -> Answer<FileSpace> {
        self.files.space(&caller).await.map_err(of_file)
    }
}
