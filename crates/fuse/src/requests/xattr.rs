//! Extended attributes.

use super::acl::AclName;
use crate::mounted::Mounted;
use crate::status::{Answer, of_xattr};
use backend::file::{Caller, SetXattr, Stability, XATTR_VALUE_MAX};
use fuser::Errno;

/// The answer to a request with a size: the length (if the size was 0) or the bytes.
pub(crate) enum XattrAnswer {
    /// Bytes that the caller needs room for.
    Size(u32),
    /// The value, or the list of names.
    Data(Vec<u8>),
}

impl Mounted {
    /// The value of an attribute. Errors: ERANGE if it is longer than `size`, which is not 0.
    pub(crate) async fn xattr(
        &self,
        caller: Caller,
        number: u64,
        name: &[u8],
        size: u32,
    ) -> Answer<XattrAnswer> {
        let of = self.handle(number)?;
        if let Some(name) = AclName::of(name) {
            return fit(self.acl_value(of, name).await?, size);
        }
        let value = self.files.xattr(&caller, of, name).await;
        fit(value.map_err(of_xattr)?, size)
    }

    /// The names of the attributes, each with a NUL behind it. Errors: as [`Mounted::xattr`].
    pub(crate) async fn xattrs(
        &self,
        caller: Caller,
        number: u64,
        size: u32,
    ) -> Answer<XattrAnswer> {
        let of = self.handle(number)?;
        let names = self.files.xattrs(&caller, of).await.map_err(of_xattr)?;
        let mut list = Vec::new();
        for name in names {
            list.extend_from_slice(&name);
            list.push(0);
        }
        fit(list, size)
    }

    /// Sets an attribute, or removes it if there is no value.
    pub(crate) async fn set_xattr(
        &self,
        caller: Caller,
        number: u64,
        name: &[u8],
        value: Option<Vec<u8>>,
        flags: i32,
    ) -> Answer<()> {
        let how = match flags {
            0 => SetXattr::Either,
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            _ => return Err(Errno::EINVAL),
        };
        if value.as_ref().is_some_and(|v| v.len() > XATTR_VALUE_MAX) {
            return Err(Errno::E2BIG);
        }
        let of = self.handle(number)?;
        if let Some(name) = AclName::of(name) {
            return self.set_acl_value(&caller, of, name, value).await;
        }
        self.files
            .set_xattr(&caller, of, name, value, how, Stability::Cached)
            .await
            .map_err(of_xattr)?;
        Ok(())
    }
}

fn fit(value: Vec<u8>, size: u32) -> Answer<XattrAnswer> {
    let len = u32::try_from(value.len()).map_err(|_| Errno::E2BIG)?;
    match size {
        0 => Ok(XattrAnswer::Size(len)),
        size if len > size => Err(Errno::ERANGE),
        _ => Ok(XattrAnswer::Data(value)),
    }
}
