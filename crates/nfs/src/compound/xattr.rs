//! Extended attributes: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276, section 8.4).
//!
//! **Invariants**: clients see the namespace `user.` of the file system, without its prefix; the others do not exist for them. A
//! change is on stable storage before its reply.

use super::context::{Compound, Object, Target};
use super::status::status_of;
use crate::wire::Status;
use crate::wire::minor2::SetOption;
use backend::file::permission::{Permissions, check_get_xattr, check_set_xattr};
use backend::file::{FileError, SetXattr, Stability};

/// The namespace of NFS' attributes (RFC 8276, section 8.1: those of users).
const PREFIX: &[u8] = b"user.";
/// Bytes of the result of LISTXATTRS beside the names: cookie, count, end.
const LIST_LEN: usize = 16;

/// `ACCESS4_XAREAD`, `ACCESS4_XAWRITE`, `ACCESS4_XALIST` (RFC 8276, section 8.5).
pub(super) const XAREAD: u32 = 0x40;
pub(super) const XAWRITE: u32 = 0x80;
pub(super) const XALIST: u32 = 0x100;
/// All of them.
pub(super) const XATTR_ACCESS: u32 = XAREAD | XAWRITE | XALIST;

/// The name in the file system. Errors: `Inval` for no bytes, `Nametoolong`.
fn full_name(name: &[u8]) -> Result<Vec<u8>, Status> {
    match name.is_empty() {
        true => Err(Status::Inval),
        false => Ok([PREFIX, name].concat()),
    }
}

/// The status of an error of an extended attribute.
fn xattr_status(error: FileError) -> Status {
    match error {
        FileError::TooLarge => Status::Xattr2big,
        other => status_of(other),
    }
}

impl Compound<'_> {
    /// GETXATTR (RFC 8276, section 8.4.1).
    pub(super) async fn getxattr(&mut self, name: &[u8]) -> Result<(), Status> {
        let target = self.context.target(Status::Noxattr)?;
        let name = full_name(name)?;
        let files = target.files();
        let value = files.xattr(&target.caller, target.handle, &name).await;
        self.out.opaque(&value.map_err(xattr_status)?);
        Ok(())
    }

    /// SETXATTR (RFC 8276, section 8.4.2).
    pub(super) async fn setxattr(
        &mut self,
        option: SetOption,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), Status> {
        let how = match option {
            SetOption::Either => SetXattr::Either,
            SetOption::Create => SetXattr::Create,
            SetOption::Replace => SetXattr::Replace,
        };
        self.change_xattr(name, Some(value.to_vec()), how).await
    }

    /// REMOVEXATTR (RFC 8276, section 8.4.4).
    pub(super) async fn removexattr(&mut self, name: &[u8]) -> Result<(), Status> {
        self.change_xattr(name, None, SetXattr::Replace).await
    }

    async fn change_xattr(
        &mut self,
        name: &[u8],
        value: Option<Vec<u8>>,
        how: SetXattr,
    ) -> Result<(), Status> {
        let target = self.context.target(Status::Rofs)?.writable()?;
        let name = full_name(name)?;
        let _changing = match self.context.changing(target.handle) {
            // RFC 8276, section 8.4, does not have NFS4ERR_GRACE.
            Err(Status::Grace) => return Err(Status::Delay),
            changing => changing?,
        };
        let done = target.files().set_xattr(
            &target.caller,
            target.handle,
            &name,
            value,
            how,
            Stability::Durable,
        );
        let change = done.await.map_err(xattr_status)?.value;
        self.write_change(&change);
        Ok(())
    }

    /// LISTXATTRS (RFC 8276, section 8.4.3). A cookie is the number of names before it, in the order of their bytes. `room`:
    /// bytes that the results may still take.
    pub(super) async fn listxattrs(
        &mut self,
        cookie: u64,
        bytes_max: u32,
        room: usize,
    ) -> Result<(), Status> {
        let names = match self.context.current()? {
            Object::Pseudo(_) => Vec::new(),
            Object::File(..) => {
                let target = self.context.target(Status::Notsupp)?;
                let names = target.files().xattrs(&target.caller, target.handle).await;
                names.map_err(xattr_status)?
            }
        };
        let names: Vec<&[u8]> = names
            .iter()
            .filter_map(|name| name.strip_prefix(PREFIX))
            .collect();
        let first = usize::try_from(cookie).ok();
        let rest = first.and_then(|first| names.get(first..));
        let rest = rest.ok_or(Status::BadCookie)?;
        let room = room.min(bytes_max as usize);
        let mut left = room.checked_sub(LIST_LEN).ok_or(Status::Toosmall)?;
        let mut fits = |name: &&&[u8]| {
            let now = left.checked_sub(4 + name.len().next_multiple_of(4));
            left = now.unwrap_or(0);
            now.is_some()
        };
        let shown: Vec<&&[u8]> = rest.iter().take_while(|name| fits(name)).collect();
        if shown.is_empty() && !rest.is_empty() {
            return Err(Status::Toosmall);
        }
        self.out.u64(cookie + shown.len() as u64);
        self.out.count(shown.len());
        shown.iter().for_each(|name| self.out.opaque(name));
        self.out.bool(shown.len() == rest.len());
        Ok(())
    }

    /// The bits of ACCESS about extended attributes: supported and granted ones.
    pub(super) async fn xattr_access(&self, target: &Target) -> Result<(u32, u32), Status> {
        let files = target.files();
        let of = files.attributes(target.handle).await.map_err(status_of)?;
        let acl = files.acl(target.handle).await.map_err(status_of)?;
        let of = Permissions::new(&of, acl.as_ref());
        let name = [PREFIX, b"name"].concat();
        let may_write = !target.is_read_only && !files.limits().is_read_only;
        let mut granted = XALIST;
        if check_get_xattr(&target.caller, &of, &name).is_ok() {
            granted |= XAREAD;
        }
        if may_write && check_set_xattr(&target.caller, &of, &name, Some(0)).is_ok() {
            granted |= XAWRITE;
        }
        Ok((XATTR_ACCESS, granted))
    }
}
