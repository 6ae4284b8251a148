//! Rules for extended attributes: namespaces, names and access, as Linux has them (`xattr(7)`).
//!
//! **Owns** the namespaces. **Called by** implementations of file systems. **Invariants**: `user.` is for files and directories
//! and follows their permissions; `trusted.` is visible to the superuser only; `security.` is written by the superuser only;
//! other namespaces do not exist.

use super::access::{Permissions, check_mask, is_owner, is_privileged};
use crate::file::{
    AceMask, Caller, FileError, FileKind, FileResult, XATTR_NAME_MAX, XATTR_VALUE_MAX,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespace {
    User,
    Trusted,
    Security,
}

/// The namespace of a name. Errors: `NameTooLong`, `Unsupported`; `Invalid` for a NUL or nothing behind the namespace.
fn namespace(name: &[u8]) -> FileResult<Namespace> {
    if name.len() > XATTR_NAME_MAX {
        return Err(FileError::NameTooLong);
    }
    let known = [
        (&b"user."[..], Namespace::User),
        (b"trusted.", Namespace::Trusted),
        (b"security.", Namespace::Security),
    ];
    let found = known
        .iter()
        .find_map(|(prefix, namespace)| Some((name.strip_prefix(*prefix)?, *namespace)));
    let (rest, namespace) = found.ok_or(FileError::Unsupported)?;
    match rest.is_empty() || rest.contains(&0) {
        true => Err(FileError::Invalid),
        false => Ok(namespace),
    }
}

fn has_user_attributes(of: &Permissions<'_>) -> bool {
    matches!(of.kind, FileKind::File | FileKind::Directory)
}

/// Whether the caller may see that an attribute of this name exists.
#[must_use]
pub fn is_xattr_visible(caller: &Caller, name: &[u8]) -> bool {
    caller.uid == 0 || namespace(name) != Ok(Namespace::Trusted)
}

/// Whether the caller may read this attribute. Errors: `NoAttribute` for what it cannot see; `Access`, `NameTooLong`,
/// `Invalid`, `Unsupported`.
pub fn check_get_xattr(caller: &Caller, of: &Permissions<'_>, name: &[u8]) -> FileResult<()> {
    match namespace(name)? {
        Namespace::User if has_user_attributes(of) => {
            check_mask(caller, of, AceMask::READ_NAMED_ATTRS)
        }
        Namespace::Trusted if is_privileged(caller) => Ok(()),
        Namespace::User | Namespace::Trusted => Err(FileError::NoAttribute),
        Namespace::Security => Ok(()),
    }
}

/// Whether the caller may set this attribute to a value of this many bytes, or remove it. Errors: `NotOwner`, `Access`,
/// `TooLarge`, `NameTooLong`, `Invalid`, `Unsupported`.
pub fn check_set_xattr(
    caller: &Caller,
    of: &Permissions<'_>,
    name: &[u8],
    value_len: Option<usize>,
) -> FileResult<()> {
    let namespace = namespace(name)?;
    if value_len.is_some_and(|len| len > XATTR_VALUE_MAX) {
        return Err(FileError::TooLarge);
    }
    match namespace {
        Namespace::User => {
            let is_sticky = of.is_directory() && of.mode & 0o1000 != 0;
            if !has_user_attributes(of) || (is_sticky && !is_owner(caller, of)) {
                return Err(FileError::NotOwner);
            }
            check_mask(caller, of, AceMask::WRITE_NAMED_ATTRS)
        }
        Namespace::Trusted | Namespace::Security if is_privileged(caller) => Ok(()),
        Namespace::Trusted | Namespace::Security => Err(FileError::NotOwner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: FileKind, mode: u16) -> Permissions<'static> {
        Permissions {
            kind,
            uid: 7,
            gid: 50,
            mode,
            acl: None,
        }
    }

    #[test]
    fn names_have_a_known_namespace() {
        assert_eq!(namespace(b"user.a"), Ok(Namespace::User));
        assert_eq!(namespace(b"user."), Err(FileError::Invalid));
        assert_eq!(namespace(b"user.a\0"), Err(FileError::Invalid));
        assert_eq!(namespace(b"system.x"), Err(FileError::Unsupported));
        assert_eq!(namespace(b""), Err(FileError::Unsupported));
        assert_eq!(namespace(&[b'u'; 256]), Err(FileError::NameTooLong));
    }

    #[test]
    fn each_namespace_has_its_readers_and_writers() {
        let file = object(FileKind::File, 0o640);
        let (owner, member, root) = (
            Caller::new(7, 1, []),
            Caller::new(8, 50, []),
            Caller::root(),
        );
        let get = |caller, name: &[u8]| check_get_xattr(caller, &file, name);
        let set = |caller, name: &[u8]| check_set_xattr(caller, &file, name, Some(1));
        assert_eq!(
            (get(&owner, b"user.a"), set(&owner, b"user.a")),
            (Ok(()), Ok(()))
        );
        assert_eq!(get(&member, b"user.a"), Ok(()));
        assert_eq!(set(&member, b"user.a"), Err(FileError::Access));
        assert_eq!(get(&owner, b"trusted.a"), Err(FileError::NoAttribute));
        assert_eq!(set(&owner, b"trusted.a"), Err(FileError::NotOwner));
        assert_eq!(
            (get(&root, b"trusted.a"), set(&root, b"trusted.a")),
            (Ok(()), Ok(()))
        );
        assert_eq!(get(&member, b"security.a"), Ok(()));
        assert_eq!(set(&owner, b"security.a"), Err(FileError::NotOwner));
        assert!(is_xattr_visible(&root, b"trusted.a") && !is_xattr_visible(&owner, b"trusted.a"));
    }

    #[test]
    fn links_have_no_attributes_of_users_and_sticky_directories_only_their_owners() {
        let link = object(FileKind::Symlink, 0o777);
        let (owner, other) = (Caller::new(7, 1, []), Caller::new(8, 1, []));
        let set = |caller, of| check_set_xattr(caller, of, b"user.a", None);
        assert_eq!(set(&owner, &link), Err(FileError::NotOwner));
        let read = check_get_xattr(&owner, &link, b"user.a");
        assert_eq!(read, Err(FileError::NoAttribute));
        let sticky = object(FileKind::Directory, 0o1777);
        assert_eq!(set(&owner, &sticky), Ok(()));
        assert_eq!(set(&other, &sticky), Err(FileError::NotOwner));
    }
}
