//! Access checks: mode bits, access control lists, the superuser, sticky directories.
//!
//! **Owns** [`Permissions`] and the functions that decide about access. **Called by** implementations of file systems, and the
//! other rules of this module. **Invariants**: an object with a list is judged by its list, another one by its mode. RFC 8881,
//! sections 6.2.1 and 6.3.1.

use crate::file::{
    Access, Ace, AceFlags, AceKind, AceMask, Acl, Attributes, Caller, CheckedBy, FileError,
    FileKind, FileResult, Who,
};

/// The sticky bit of a mode.
const STICKY: u16 = 0o1000;

/// The attributes of an object that decide about access to it.
#[derive(Debug, Clone, Copy)]
pub struct Permissions<'a> {
    pub(super) kind: FileKind,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u16,
    pub(super) acl: Option<&'a Acl>,
}

impl<'a> Permissions<'a> {
    /// Those of an object with these attributes and this list.
    #[must_use]
    pub fn new(attributes: &Attributes, acl: Option<&'a Acl>) -> Self {
        Self {
            kind: attributes.kind,
            uid: attributes.uid,
            gid: attributes.gid,
            mode: attributes.mode,
            acl,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// The permission bits of the caller's class: owner, group or other.
    fn class(&self, caller: &Caller) -> Access {
        let shift = match (caller.uid == self.uid, caller.is_in(self.gid)) {
            (true, _) => 6,
            (false, true) => 3,
            (false, false) => 0,
        };
        Access::from_bits(self.mode >> shift)
    }

    /// Whether anybody may execute it.
    fn is_executable(&self) -> bool {
        let grants = |ace: &Ace| ace.kind == AceKind::Allow && ace.mask.has(AceMask::EXECUTE);
        self.mode & 0o111 != 0 || self.acl.is_some_and(|acl| effective(acl).any(grants))
    }
}

/// Entries that affect the object itself.
pub(super) fn effective(acl: &Acl) -> impl Iterator<Item = &Ace> {
    acl.aces()
        .iter()
        .filter(|ace| !ace.flags.has(AceFlags::INHERIT_ONLY))
}

/// Kinds of access that a list allows and denies; the others are in neither.
struct Verdict {
    allowed: AceMask,
    denied: AceMask,
}

/// Evaluates a list: the first entry that is about the caller and a kind of access decides about it.
fn evaluate(caller: &Caller, of: &Permissions<'_>, acl: &Acl) -> Verdict {
    let is_about = |who: &Who| match who {
        Who::Owner => caller.uid == of.uid,
        Who::OwningGroup => caller.is_in(of.gid),
        Who::Everyone => true,
        Who::User(uid) => caller.uid == *uid,
        Who::Group(gid) => caller.is_in(*gid),
        Who::Sid(_) => false,
    };
    let mut verdict = Verdict {
        allowed: AceMask(0),
        denied: AceMask(0),
    };
    for ace in effective(acl).filter(|ace| is_about(&ace.who)) {
        let decided = verdict.allowed | verdict.denied;
        let open = AceMask(ace.mask.0 & !decided.0);
        match ace.kind {
            AceKind::Allow => verdict.allowed = verdict.allowed | open,
            AceKind::Deny => verdict.denied = verdict.denied | open,
            AceKind::Audit | AceKind::Alarm => {}
        }
    }
    verdict
}

/// The kinds of access of a list that stand for kinds of access of a mode.
pub(super) fn mask_of(access: Access) -> AceMask {
    let kinds = [
        (Access::READ, AceMask::READ_DATA),
        (Access::WRITE, AceMask::WRITE_DATA | AceMask::APPEND_DATA),
        (Access::EXECUTE, AceMask::EXECUTE),
    ];
    let of = kinds.iter().filter(|(kind, _)| access.has(*kind));
    of.fold(AceMask(0), |mask, (_, part)| mask | *part)
}

/// Kinds of access that a mode grants. Kinds that only lists know are granted to nobody, except attributes and list to the
/// owner.
fn granted_by_mode(caller: &Caller, of: &Permissions<'_>) -> AceMask {
    let class = of.class(caller);
    let mut granted = mask_of(class) | AceMask::READ_ATTRIBUTES | AceMask::READ_ACL;
    if class.has(Access::READ) {
        granted = granted | AceMask::READ_NAMED_ATTRS;
    }
    if class.has(Access::WRITE) {
        granted = granted | AceMask::WRITE_NAMED_ATTRS;
    }
    granted
}

/// All kinds of access that a caller has.
pub(super) fn granted(caller: &Caller, of: &Permissions<'_>) -> AceMask {
    if caller.checked_by == CheckedBy::Client {
        return AceMask::ALL;
    }
    if caller.uid == 0 {
        let may_execute = of.is_directory() || of.is_executable();
        let missing = if may_execute { 0 } else { AceMask::EXECUTE.0 };
        return AceMask(AceMask::ALL.0 & !missing);
    }
    let granted = match of.acl {
        Some(acl) => evaluate(caller, of, acl).allowed,
        None => granted_by_mode(caller, of),
    };
    let implied = AceMask::READ_ACL
        | AceMask::WRITE_ACL
        | AceMask::READ_ATTRIBUTES
        | AceMask::WRITE_ATTRIBUTES;
    match caller.uid == of.uid {
        true => granted | implied,
        false => granted,
    }
}

/// Errors: `Access` if the caller lacks one of these kinds of access.
pub(super) fn check_mask(caller: &Caller, of: &Permissions<'_>, wanted: AceMask) -> FileResult<()> {
    match granted(caller, of).has(wanted) {
        true => Ok(()),
        false => Err(FileError::Access),
    }
}

/// Whether the caller may read the access control list. Errors: `Access`.
pub fn check_read_acl(caller: &Caller, of: &Permissions<'_>) -> FileResult<()> {
    check_mask(caller, of, AceMask::READ_ACL)
}

/// The subset of `wanted` that the caller has.
#[must_use]
pub fn access(caller: &Caller, of: &Permissions<'_>, wanted: Access) -> Access {
    let granted = granted(caller, of);
    [Access::READ, Access::WRITE, Access::EXECUTE]
        .into_iter()
        .filter(|kind| wanted.has(*kind) && granted.has(mask_of(*kind)))
        .fold(Access::NONE, |access, kind| access | kind)
}

/// Whether the caller has this access. Errors: `Access`.
pub fn check(caller: &Caller, of: &Permissions<'_>, wanted: Access) -> FileResult<()> {
    check_mask(caller, of, mask_of(wanted))
}

/// Whether the caller may look up names of a directory. Errors: `NotDirectory`, `Access`.
pub fn check_search(caller: &Caller, directory: &Permissions<'_>) -> FileResult<()> {
    match directory.is_directory() {
        true => check(caller, directory, Access::EXECUTE),
        false => Err(FileError::NotDirectory),
    }
}

/// Whether the caller counts as the owner: the owner, the superuser, or a caller that the client checked.
#[must_use]
pub fn is_owner(caller: &Caller, of: &Permissions<'_>) -> bool {
    caller.uid == of.uid || is_privileged(caller)
}

/// Whether nothing is refused to the caller.
pub(super) fn is_privileged(caller: &Caller) -> bool {
    caller.uid == 0 || caller.checked_by == CheckedBy::Client
}

/// Whether the caller may add a name of a directory or of another object to a directory. Errors: `Access`.
pub fn check_add(
    caller: &Caller,
    directory: &Permissions<'_>,
    is_directory: bool,
) -> FileResult<()> {
    let add = match (directory.acl, is_directory) {
        (None, _) => mask_of(Access::WRITE),
        (Some(_), true) => AceMask::APPEND_DATA,
        (Some(_), false) => AceMask::WRITE_DATA,
    };
    check_mask(caller, directory, add | AceMask::EXECUTE)
}

/// Whether the caller may remove or replace a name of `object` in `directory` (RFC 8881, section 6.2.1.3.2). `DELETE` of the
/// object is enough. `DELETE_CHILD` of the directory, or else permission to write it, are enough unless the directory is
/// sticky and both belong to others. Errors: `Access`; `NotOwner` for a sticky directory.
pub fn check_remove(
    caller: &Caller,
    directory: &Permissions<'_>,
    object: &Permissions<'_>,
) -> FileResult<()> {
    if is_privileged(caller) {
        return Ok(());
    }
    check(caller, directory, Access::EXECUTE)?;
    let decision = |of: &Permissions<'_>, kind: AceMask| {
        let verdict = evaluate(caller, of, of.acl?);
        match (verdict.allowed.has(kind), verdict.denied.has(kind)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    };
    let own = decision(object, AceMask::DELETE);
    if own == Some(true) {
        return Ok(());
    }
    match (decision(directory, AceMask::DELETE_CHILD), own) {
        (Some(true), _) => {}
        (Some(false), _) | (None, Some(_)) => return Err(FileError::Access),
        (None, None) => check_add(caller, directory, false)?,
    }
    let is_sticky = directory.mode & STICKY != 0;
    match is_sticky && caller.uid != object.uid && caller.uid != directory.uid {
        true => Err(FileError::NotOwner),
        false => Ok(()),
    }
}

/// Whether the caller may give a directory another parent: that changes the directory's `..`. Errors: `Access`.
pub fn check_move(caller: &Caller, object: &Permissions<'_>) -> FileResult<()> {
    match object.is_directory() {
        true => check(caller, object, Access::WRITE),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: FileKind, uid: u32, mode: u16, acl: Option<&Acl>) -> Permissions<'_> {
        Permissions {
            kind,
            uid,
            gid: 50,
            mode,
            acl,
        }
    }

    fn ace(kind: AceKind, who: Who, mask: AceMask) -> Ace {
        Ace {
            kind,
            flags: AceFlags::default(),
            mask,
            who,
        }
    }

    fn may(caller: &Caller, of: &Permissions<'_>) -> u16 {
        let all = Access::READ | Access::WRITE | Access::EXECUTE;
        access(caller, of, all).bits()
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let file = object(FileKind::File, 7, 0o047, None);
        let (owner, member, other) = (
            Caller::new(7, 50, []),
            Caller::new(8, 1, [50]),
            Caller::new(8, 1, []),
        );
        assert_eq!(
            [may(&owner, &file), may(&member, &file), may(&other, &file)],
            [0, 4, 7]
        );
    }

    #[test]
    fn the_superuser_executes_only_files_that_somebody_may_execute() {
        let root = Caller::root();
        assert_eq!(may(&root, &object(FileKind::File, 7, 0o600, None)), 6);
        assert_eq!(may(&root, &object(FileKind::File, 7, 0o601, None)), 7);
        assert_eq!(may(&root, &object(FileKind::Directory, 7, 0, None)), 7);
        let execute = ace(AceKind::Allow, Who::User(9), AceMask::EXECUTE);
        let acl = Acl::new(vec![execute]).unwrap();
        assert_eq!(may(&root, &object(FileKind::File, 7, 0, Some(&acl))), 7);
    }

    #[test]
    fn a_caller_that_the_client_checked_is_never_refused() {
        let mut caller = Caller::new(8, 1, []);
        caller.checked_by = CheckedBy::Client;
        let directory = object(FileKind::Directory, 7, 0o1000, None);
        assert_eq!(may(&caller, &directory), 7);
        assert_eq!(check_remove(&caller, &directory, &directory), Ok(()));
    }

    #[test]
    fn the_first_entry_of_a_list_that_fits_decides() {
        let acl = Acl::new(vec![
            ace(AceKind::Audit, Who::Everyone, AceMask::ALL),
            ace(AceKind::Deny, Who::Group(60), AceMask::WRITE_DATA),
            ace(
                AceKind::Allow,
                Who::User(8),
                mask_of(Access::READ | Access::WRITE),
            ),
            ace(AceKind::Deny, Who::Everyone, AceMask::READ_DATA),
            ace(AceKind::Allow, Who::OwningGroup, AceMask::ALL),
            ace(AceKind::Allow, Who::Sid([1; 8].into()), AceMask::ALL),
        ])
        .unwrap();
        let file = object(FileKind::File, 7, 0o777, Some(&acl));
        assert_eq!(may(&Caller::new(8, 1, []), &file), 6);
        assert_eq!(may(&Caller::new(8, 1, [60]), &file), 4, "denied first");
        assert_eq!(may(&Caller::new(9, 50, []), &file), 3);
        assert_eq!(may(&Caller::new(7, 1, []), &file), 0);
        let owner = granted(&Caller::new(7, 1, []), &file);
        assert!(owner.has(AceMask::WRITE_ACL | AceMask::WRITE_ATTRIBUTES));
    }

    #[test]
    fn entries_that_are_only_inherited_have_no_effect() {
        let mut entry = ace(AceKind::Allow, Who::Everyone, AceMask::ALL);
        entry.flags = AceFlags(AceFlags::INHERIT_ONLY.0 | AceFlags::FILE_INHERIT.0);
        let acl = Acl::new(vec![entry]).unwrap();
        let directory = object(FileKind::Directory, 7, 0o777, Some(&acl));
        assert_eq!(may(&Caller::new(8, 1, []), &directory), 0);
    }

    #[test]
    fn names_of_sticky_directories_belong_to_the_owners() {
        let directory = object(FileKind::Directory, 7, 0o1777, None);
        let file = object(FileKind::File, 8, 0o644, None);
        let remove = |uid| check_remove(&Caller::new(uid, 1, []), &directory, &file);
        assert_eq!([remove(0), remove(7), remove(8)], [Ok(()); 3]);
        assert_eq!(remove(9), Err(FileError::NotOwner));
        let closed = object(FileKind::Directory, 7, 0o755, None);
        let caller = Caller::new(8, 1, []);
        assert_eq!(
            check_remove(&caller, &closed, &file),
            Err(FileError::Access)
        );
    }

    #[test]
    fn removal_by_a_list_needs_delete_or_delete_child() {
        let caller = Caller::new(8, 1, []);
        let list = |kind, mask| {
            let search = ace(AceKind::Allow, Who::Everyone, AceMask::EXECUTE);
            Acl::new(vec![ace(kind, Who::User(8), mask), search]).unwrap()
        };
        let remove = |directory: Option<&Acl>, file: Option<&Acl>, mode| {
            check_remove(
                &caller,
                &object(FileKind::Directory, 7, mode, directory),
                &object(FileKind::File, 7, 0, file),
            )
        };
        let delete = list(AceKind::Allow, AceMask::DELETE);
        let keep = list(AceKind::Deny, AceMask::DELETE);
        let child = list(AceKind::Allow, AceMask::DELETE_CHILD);
        let no_child = list(AceKind::Deny, AceMask::DELETE_CHILD);
        let write = list(AceKind::Allow, AceMask::WRITE_DATA);
        assert_eq!(remove(None, Some(&delete), 0o1755), Ok(()));
        assert_eq!(remove(Some(&no_child), Some(&delete), 0), Ok(()));
        assert_eq!(remove(Some(&child), Some(&keep), 0), Ok(()));
        assert_eq!(remove(Some(&write), None, 0), Ok(()));
        let denied = Err(FileError::Access);
        assert_eq!(remove(Some(&no_child), None, 0), denied);
        assert_eq!(remove(Some(&write), Some(&keep), 0), denied);
        assert_eq!(remove(None, Some(&keep), 0o777), denied);
        let sticky = Err(FileError::NotOwner);
        assert_eq!(remove(Some(&child), None, 0o1000), sticky);
    }

    #[test]
    fn lists_tell_files_from_directories_when_names_are_added() {
        let add_file = AceMask::WRITE_DATA | AceMask::EXECUTE;
        let acl = Acl::new(vec![ace(AceKind::Allow, Who::User(8), add_file)]).unwrap();
        let directory = object(FileKind::Directory, 7, 0, Some(&acl));
        let caller = Caller::new(8, 1, []);
        assert_eq!(check_add(&caller, &directory, false), Ok(()));
        assert_eq!(check_add(&caller, &directory, true), Err(FileError::Access));
    }
}
