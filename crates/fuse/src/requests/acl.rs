//! Access control lists: as extended attributes, at creation, and at chmod(2).
//!
//! **Invariants**: only a mount whose file system checks permissions has them, because the kernel would check modes alone.

use super::names::NewMode;
use crate::acl::{self, Part, PosixAcl};
use crate::mounted::Mounted;
use crate::status::{Answer, of_file};
use backend::file::permission::{AclInherit, AclMode};
use backend::file::{
    Acl, Caller, CheckedBy, FileKind, Handle, NewFile, NewKind, SetAttributes, Stability,
};
use fuser::Errno;

/// The attributes that are lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AclName {
    Posix(Part),
    Nfs4,
}

impl AclName {
    /// `None` for the name of another attribute.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"system.posix_acl_access" => Some(Self::Posix(Part::Access)),
            b"system.posix_acl_default" => Some(Self::Posix(Part::Default)),
            b"system.nfs4_acl" => Some(Self::Nfs4),
            _ => None,
        }
    }
}

const SPECIAL_BITS: u16 = 0o7000;

impl Mounted {
    /// Whether the mount has access control lists.
    pub(crate) fn has_acls(&self) -> bool {
        self.checked_by == CheckedBy::Us && self.files.limits().has_acls
    }

    /// The value of an attribute that is a list. Errors: EOPNOTSUPP without lists, or for a list that has no such form; ENODATA.
    pub(super) async fn acl_value(&self, of: Handle, name: AclName) -> Answer<Vec<u8>> {
        if !self.has_acls() {
            return Err(Errno::EOPNOTSUPP);
        }
        let acl = self.files.acl(of).await.map_err(of_file)?;
        let part = match name {
            AclName::Posix(part) => part,
            AclName::Nfs4 => {
                let acl = match acl {
                    Some(acl) => acl,
                    None => {
                        let mode = self.files.attributes(of).await.map_err(of_file)?.mode;
                        acl::of_mode(mode).map_err(of_file)?
                    }
                };
                return acl::encode_nfs4(&acl).ok_or(Errno::EOPNOTSUPP);
            }
        };
        let posix = acl.as_ref().and_then(|acl| acl::posix_of(acl, part));
        let posix = posix.ok_or(Errno::ENODATA)?.ok_or(Errno::EOPNOTSUPP)?;
        // As local file systems: what the mode says is no access ACL.
        match part == Part::Access && posix.is_minimal() {
            true => Err(Errno::ENODATA),
            false => Ok(posix.encode()),
        }
    }

    /// Sets an attribute that is a list, or removes it. Errors: EOPNOTSUPP without lists; EINVAL for a value that is none;
    /// EPERM, ENOSPC and others.
    pub(super) async fn set_acl_value(
        &self,
        caller: &Caller,
        of: Handle,
        name: AclName,
        value: Option<Vec<u8>>,
    ) -> Answer<()> {
        if !self.has_acls() {
            return Err(Errno::EOPNOTSUPP);
        }
        let part = match name {
            AclName::Posix(part) => part,
            AclName::Nfs4 => {
                let acl = value.map(|value| acl::decode_nfs4(&value).ok_or(Errno::EINVAL));
                return self.replace_acl(caller, of, acl.transpose()?).await;
            }
        };
        let new = value.map(|value| PosixAcl::decode(&value).ok_or(Errno::EINVAL));
        let new = new.transpose()?;
        let old = self.files.acl(of).await.map_err(of_file)?;
        let found = self.files.attributes(of).await.map_err(of_file)?;
        if part == Part::Default && found.kind != FileKind::Directory {
            return Err(Errno::EACCES);
        }
        let acl = acl::with_part(old.as_ref(), part, new.as_ref(), found.mode).map_err(of_file)?;
        let minimal = new.filter(|_| acl.is_none() && part == Part::Access);
        if let Some(minimal) = minimal {
            if old.is_some() {
                // chmod may refuse a list (`aclmode=restricted`): the mode's list replaces it at once, and goes below.
                let list = acl::of_mode(minimal.mode()).map_err(of_file)?;
                self.replace_acl(caller, of, Some(list)).await?;
            }
            let set = SetAttributes {
                mode: Some(found.mode & SPECIAL_BITS | minimal.mode()),
                ..SetAttributes::default()
            };
            let done = self
                .files
                .set_attributes(caller, of, set, Stability::Cached);
            done.await.map_err(of_file)?;
        }
        match (&acl, &old) {
            (None, None) => Ok(()),
            _ => self.replace_acl(caller, of, acl).await,
        }
    }

    pub(super) async fn replace_acl(
        &self,
        caller: &Caller,
        of: Handle,
        acl: Option<Acl>,
    ) -> Answer<()> {
        let done = self.files.set_acl(caller, of, acl, Stability::Cached).await;
        done.map(drop).map_err(of_file)
    }

    /// A new object of a directory. With a default ACL, it gets that one narrowed by the mode. The file system applies the umask of
    /// others, if the kernel left that to the mount.
    pub(super) async fn new_file(
        &self,
        directory: Handle,
        kind: NewKind,
        mode: NewMode,
    ) -> Answer<NewFile> {
        let is_directory = kind == NewKind::Directory;
        let mut new = NewFile {
            mode: mode.bits,
            umask: None,
            acl: None,
            kind,
        };
        if self.has_acls() && !matches!(new.kind, NewKind::Symlink(_)) {
            new.umask = Some(mode.umask);
            if self.files.limits().acl_rules.on_create != AclInherit::Restricted {
                return Ok(new);
            }
            let parent = self.files.acl(directory).await.map_err(of_file)?;
            new.acl = parent.and_then(|acl| acl::inherited(&acl, is_directory, mode.bits));
        }
        Ok(new)
    }

    /// The list of an object after chmod(2), if POSIX ACLs say more about it than the file system's rule for NFSv4 lists.
    pub(super) async fn acl_after_chmod(&self, of: Handle, mode: u16) -> Answer<Option<Acl>> {
        if !self.has_acls() {
            return Ok(None);
        }
        if self.files.limits().acl_rules.on_chmod != AclMode::Groupmask {
            return Ok(None);
        }
        let old = self.files.acl(of).await.map_err(of_file)?;
        let new = old.and_then(|old| acl::with_mode(&old, mode));
        new.transpose().map_err(of_file)
    }
}
