//! Access control lists in the forms that Linux has: POSIX ACLs, and the attribute of NFSv4 clients.
//!
//! **Owns** the conversions between these forms and the file interface's lists. **Called by** requests for the attributes
//! `system.posix_acl_access`, `system.posix_acl_default` and `system.nfs4_acl`, and by creation and chmod, of mounts whose file
//! system checks permissions. **Invariants**: there is one list, the NFSv4 one; a POSIX ACL is shown only if it grants every
//! process what the list grants, and none is invented.

mod nfs4;
mod posix;

pub(crate) use nfs4::{decode as decode_nfs4, encode as encode_nfs4};
pub(crate) use posix::PosixAcl;

use backend::file::{Ace, AceFlags, AceKind, Acl, FileError, FileResult};

/// Flags of the entries of a default ACL: new files and directories inherit them, and the directory itself does not.
const DEFAULT: AceFlags =
    AceFlags(AceFlags::FILE_INHERIT.0 | AceFlags::DIRECTORY_INHERIT.0 | AceFlags::INHERIT_ONLY.0);
const INHERIT: u16 = AceFlags::FILE_INHERIT.0 | AceFlags::DIRECTORY_INHERIT.0;

/// The part of a list that a POSIX ACL stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// What the object grants.
    Access,
    /// What new objects of the directory inherit.
    Default,
}

/// The entries of a part, without flags of inheritance. `None` if entries hand on in a way that no default ACL has.
fn entries(of: &Acl, part: Part) -> Option<Vec<Ace>> {
    let is_inherited = |ace: &&Ace| ace.flags.0 & INHERIT != 0;
    let aces = of.aces().iter();
    let found: Vec<&Ace> = match part {
        Part::Access => aces
            .filter(|ace| !ace.flags.has(AceFlags::INHERIT_ONLY))
            .collect(),
        Part::Default => aces.filter(is_inherited).collect(),
    };
    let is_whole =
        |ace: &&Ace| ace.flags.0 & INHERIT == INHERIT && !ace.flags.has(AceFlags::NO_PROPAGATE);
    if part == Part::Default && !found.iter().all(is_whole) {
        return None;
    }
    Some(found.into_iter().cloned().collect())
}

/// The POSIX ACL of a part. The outer `None` says that it has none, the inner that no POSIX ACL grants the same.
pub(crate) fn posix_of(of: &Acl, part: Part) -> Option<Option<PosixAcl>> {
    let Some(found) = entries(of, part) else {
        return Some(None);
    };
    match found.is_empty() {
        true => None,
        false => Some(PosixAcl::of_entries(&found)),
    }
}

/// A list whose part is replaced, by nothing if there is no ACL; the other part stays. `None` if nothing is left. `mode` are the
/// permission bits of an object that has had no list. Errors: `TooLarge`.
pub(crate) fn with_part(
    old: Option<&Acl>,
    part: Part,
    new: Option<&PosixAcl>,
    mode: u16,
) -> FileResult<Option<Acl>> {
    let mut aces = Vec::new();
    match (part, old) {
        (Part::Access, _) => {
            let minimal = PosixAcl::of_mode(mode);
            aces.extend(new.unwrap_or(&minimal).to_entries(AceFlags::default()));
            let kept = old.into_iter().flat_map(|old| old.aces());
            aces.extend(
                kept.filter(|ace| ace.flags.0 & INHERIT != 0)
                    .map(|ace| Ace {
                        flags: AceFlags(ace.flags.0 | AceFlags::INHERIT_ONLY.0),
                        ..ace.clone()
                    }),
            );
        }
        (Part::Default, Some(old)) => {
            let effective = |ace: &&Ace| !ace.flags.has(AceFlags::INHERIT_ONLY);
            aces.extend(old.aces().iter().filter(effective).map(|ace| Ace {
                flags: AceFlags(ace.flags.0 & !(INHERIT | AceFlags::NO_PROPAGATE.0)),
                ..ace.clone()
            }));
        }
        (Part::Default, None) => {
            aces.extend(PosixAcl::of_mode(mode).to_entries(AceFlags::default()));
        }
    }
    if let (Part::Default, Some(new)) = (part, new) {
        aces.extend(new.to_entries(DEFAULT));
    }
    let acl = Acl::new(aces)?;
    Ok((!is_minimal(&acl)).then_some(acl))
}

/// A list that says what permission bits say. Errors: none with bits of a mode.
pub(crate) fn of_mode(mode: u16) -> FileResult<Acl> {
    Acl::new(PosixAcl::of_mode(mode).to_entries(AceFlags::default()))
}

/// Whether the mode says all that a list says.
fn is_minimal(acl: &Acl) -> bool {
    let inherits = acl.aces().iter().any(|ace| ace.flags.0 & INHERIT != 0);
    let access = posix_of(acl, Part::Access).flatten();
    !inherits && access.is_some_and(|access| access.is_minimal())
}

/// The list of a new object of a directory with a default ACL, as POSIX.1e has it: the mode takes away, and never gives. `None`
/// if the directory hands nothing on, or nothing that a POSIX ACL says; the umask counts then.
pub(crate) fn inherited(directory: &Acl, is_directory: bool, mode: u16) -> Option<Acl> {
    let default = posix_of(directory, Part::Default)??;
    let mut aces = default.restricted(mode).to_entries(AceFlags::default());
    if is_directory {
        aces.extend(default.to_entries(DEFAULT));
    }
    Acl::new(aces).ok()
}

/// A list after chmod(2), if a POSIX ACL says what it grants: named users and groups are masked by the group's bits, and get
/// their access back with them.
pub(crate) fn with_mode(old: &Acl, mode: u16) -> Option<FileResult<Acl>> {
    let access = posix_of(old, Part::Access)??.with_mode(mode);
    let new = with_part(Some(old), Part::Access, Some(&access), mode);
    Some(new.and_then(|new| new.ok_or(FileError::Invalid)))
}

/// Whether an entry is evaluated.
fn is_decisive(ace: &Ace) -> bool {
    matches!(ace.kind, AceKind::Allow | AceKind::Deny)
}
