//! Rules for attributes: who may set them, what a change clears, and the first attributes of new objects.
//!
//! **Owns** [`check_set`], [`check_acl`], [`written_mode`], [`check_create`] and [`initial`]. **Called by** implementations of
//! file systems. **Invariants**: a result is whole: mode, owner and group are stored together. POSIX.1-2017 (`chmod`, `chown`,
//! `utimensat`, `write`, `open`), and Linux where POSIX leaves it open.

use super::access::{Permissions, check, check_add, granted, is_owner, is_privileged};
use super::acl_rules::AclInherit;
use crate::file::{
    Access, AceMask, Acl, Caller, FILE_SIZE_MAX, FileError, FileKind, FileResult, NewFile, NewKind,
    SetAttributes, SetTime,
};

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o010;
/// All bits that a mode may have.
const MODE_MAX: u16 = 0o7777;

/// Mode, owner and group of an object after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Permission, setuid, setgid and sticky bits.
    pub mode: u16,
    /// User that owns it.
    pub uid: u32,
    /// Group that owns it.
    pub gid: u32,
}

/// Whether the setgid bit of this group may be set by, and survives changes by, the caller.
fn keeps_setgid(caller: &Caller, gid: u32) -> bool {
    is_privileged(caller) || caller.is_in(gid)
}

/// `mode` without the setuid bit, and without the setgid bit if it has an effect or the caller is no member of the group.
fn cleared(caller: &Caller, gid: u32, mode: u16) -> u16 {
    let mode = mode & !SETUID;
    match mode & GROUP_EXECUTE != 0 || !keeps_setgid(caller, gid) {
        true => mode & !SETGID,
        false => mode,
    }
}

/// The mode of an object after the caller wrote its contents or changed its size: without setuid and setgid unless the
/// caller is the superuser.
#[must_use]
pub fn written_mode(caller: &Caller, of: &Permissions<'_>) -> u16 {
    match caller.uid == 0 || of.kind != FileKind::File {
        true => of.mode,
        false => cleared(caller, of.gid, of.mode),
    }
}

/// Whether the caller may set these attributes, and mode, owner and group afterwards. A new size removes setuid and setgid
/// as a write does, a new owner or group always does (Linux). Errors: `Invalid`, `IsDirectory` and `TooLarge` for a size;
/// `Invalid` for a mode with other bits; `Unsupported` for the mode of a symbolic link; `Access`, `NotOwner`.
pub fn check_set(
    caller: &Caller,
    of: &Permissions<'_>,
    set: &SetAttributes,
) -> FileResult<Settled> {
    check_values(of, set)?;
    let has = |kind| granted(caller, of).has(kind);
    if set.mode.is_some() && !is_owner(caller, of) && !has(AceMask::WRITE_ACL) {
        return Err(FileError::NotOwner);
    }
    check_owner(caller, of, set)?;
    if set.size.is_some() {
        check(caller, of, Access::WRITE)?;
    }
    check_times(caller, of, set)?;

    let gid = set.gid.unwrap_or(of.gid);
    let mut mode = match (set.mode, set.size) {
        (Some(mode), _) if keeps_setgid(caller, gid) => mode,
        (Some(mode), _) => mode & !SETGID,
        (None, Some(_)) => written_mode(caller, of),
        (None, None) => of.mode,
    };
    if (set.uid.is_some() || set.gid.is_some()) && !of.is_directory() {
        mode = cleared(caller, gid, mode);
    }
    Ok(Settled {
        mode,
        uid: set.uid.unwrap_or(of.uid),
        gid,
    })
}

fn check_values(of: &Permissions<'_>, set: &SetAttributes) -> FileResult<()> {
    if let Some(size) = set.size {
        match of.kind {
            FileKind::File if size > FILE_SIZE_MAX => return Err(FileError::TooLarge),
            FileKind::File => {}
            FileKind::Directory => return Err(FileError::IsDirectory),
            FileKind::Symlink
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice => return Err(FileError::Invalid),
        }
    }
    match set.mode {
        Some(mode) if mode > MODE_MAX => Err(FileError::Invalid),
        Some(_) if of.kind == FileKind::Symlink => Err(FileError::Unsupported),
        _ => Ok(()),
    }
}

/// The superuser gives objects away; the owner hands them to a group of his; who has `WRITE_OWNER` takes them.
fn check_owner(caller: &Caller, of: &Permissions<'_>, set: &SetAttributes) -> FileResult<()> {
    if (set.uid.is_none() && set.gid.is_none()) || is_privileged(caller) {
        return Ok(());
    }
    let may_take = granted(caller, of).has(AceMask::WRITE_OWNER);
    let is_uid_allowed = match set.uid {
        Some(uid) if caller.uid == of.uid => uid == of.uid,
        Some(uid) => may_take && uid == caller.uid,
        None => caller.uid == of.uid || may_take,
    };
    let is_gid_allowed = set.gid.is_none_or(|gid| gid == of.gid || caller.is_in(gid));
    match is_uid_allowed && is_gid_allowed {
        true => Ok(()),
        false => Err(FileError::NotOwner),
    }
}

/// The owner sets times; who may write sets them to the present.
fn check_times(caller: &Caller, of: &Permissions<'_>, set: &SetAttributes) -> FileResult<()> {
    let times = [set.accessed, set.modified];
    let is_set = |time: &SetTime| matches!(time, SetTime::To(_) | SetTime::Held(_));
    if is_owner(caller, of) || granted(caller, of).has(AceMask::WRITE_ATTRIBUTES) {
        return Ok(());
    }
    if set.created.is_some() || times.iter().any(is_set) {
        return Err(FileError::NotOwner);
    }
    match times.contains(&SetTime::Now) {
        true => check(caller, of, Access::WRITE),
        false => Ok(()),
    }
}

/// Whether the caller may set this access control list, and the mode afterwards (RFC 8881, section 6.4.1): that of the list,
/// or the present one if there is no list. Errors: `NotOwner`; `Unsupported` for a symbolic link.
pub fn check_acl(caller: &Caller, of: &Permissions<'_>, acl: Option<&Acl>) -> FileResult<u16> {
    if of.kind == FileKind::Symlink {
        return Err(FileError::Unsupported);
    }
    if !is_owner(caller, of) && !granted(caller, of).has(AceMask::WRITE_ACL) {
        return Err(FileError::NotOwner);
    }
    let mode = acl.map_or(of.mode, |acl| of.mode & !0o777 | acl.mode());
    Ok(match keeps_setgid(caller, of.gid) {
        true => mode,
        false => mode & !SETGID,
    })
}

/// Whether the caller may create an object of this kind in a directory. Errors: `Access`; `NotOwner` for devices.
pub fn check_create(
    caller: &Caller,
    directory: &Permissions<'_>,
    kind: &NewKind,
) -> FileResult<()> {
    check_add(caller, directory, matches!(kind, NewKind::Directory))?;
    match kind {
        NewKind::CharDevice(_) | NewKind::BlockDevice(_) if !is_privileged(caller) => {
            Err(FileError::NotOwner)
        }
        NewKind::CharDevice(_)
        | NewKind::BlockDevice(_)
        | NewKind::File
        | NewKind::Directory
        | NewKind::Symlink(_)
        | NewKind::Fifo
        | NewKind::Socket => Ok(()),
    }
}

/// The first attributes of a new object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initial {
    /// Mode, owner and group.
    pub settled: Settled,
    /// Its access control list.
    pub acl: Option<Acl>,
}

/// The first attributes of a new object of a directory. The directory's setgid bit hands on its group, and itself to
/// directories. A list that is given decides about the mode; another one is inherited by `rule`. Errors: `Invalid` for a mode with other
/// bits; `Unsupported` for the list of a symbolic link; `TooLarge`.
pub fn initial(
    caller: &Caller,
    directory: &Permissions<'_>,
    new: &NewFile,
    rule: AclInherit,
) -> FileResult<Initial> {
    let is_directory = new.kind == NewKind::Directory;
    let hands_on = directory.mode & SETGID != 0;
    let gid = if hands_on { directory.gid } else { caller.gid };
    let settled = |mode| Settled {
        mode,
        uid: caller.uid,
        gid,
    };
    if new.mode > MODE_MAX {
        return Err(FileError::Invalid);
    }
    if let NewKind::Symlink(_) = new.kind {
        return match new.acl {
            None => Ok(Initial {
                settled: settled(0o777),
                acl: None,
            }),
            Some(_) => Err(FileError::Unsupported),
        };
    }
    let mut mode = new.mode;
    let acl = match (&new.acl, directory.acl) {
        (Some(acl), _) => {
            mode = mode & !0o777 | acl.mode();
            Some(acl.clone())
        }
        (None, parent) => {
            let inherited = parent.map(|acl| acl.for_new(is_directory, (mode, new.umask), rule));
            let inherited = inherited.transpose()?.flatten();
            mode = match &inherited {
                Some(acl) => mode & !0o777 | acl.mode(),
                None => mode & !(new.umask.unwrap_or(0) & 0o777),
            };
            inherited
        }
    };
    if is_directory && hands_on {
        mode |= SETGID;
    } else if !keeps_setgid(caller, gid) {
        mode &= !SETGID;
    }
    Ok(Initial {
        settled: settled(mode),
        acl,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Ace, AceFlags, AceKind, Timestamp, Who};

    const RULE: AclInherit = AclInherit::Restricted;

    fn object(kind: FileKind, mode: u16) -> Permissions<'static> {
        Permissions {
            kind,
            uid: 7,
            gid: 50,
            mode,
            acl: None,
        }
    }

    fn set() -> SetAttributes {
        SetAttributes::default()
    }

    fn owner() -> Caller {
        Caller::new(7, 50, [60])
    }

    fn member() -> Caller {
        Caller::new(8, 50, [])
    }

    fn stranger() -> Caller {
        Caller::new(9, 1, [])
    }

    fn outcome(caller: &Caller, of: &Permissions<'_>, set: &SetAttributes) -> FileResult<u16> {
        check_set(caller, of, set).map(|settled| settled.mode)
    }

    #[test]
    fn the_owner_and_the_superuser_set_modes() {
        let file = object(FileKind::File, 0o666);
        let mode = SetAttributes {
            mode: Some(0o4750),
            ..set()
        };
        assert_eq!(outcome(&owner(), &file, &mode), Ok(0o4750));
        assert_eq!(outcome(&Caller::root(), &file, &mode), Ok(0o4750));
        assert_eq!(outcome(&member(), &file, &mode), Err(FileError::NotOwner));
        let wide = SetAttributes {
            mode: Some(0o10000),
            ..set()
        };
        assert_eq!(outcome(&owner(), &file, &wide), Err(FileError::Invalid));
    }

    #[test]
    fn an_owner_outside_of_the_group_cannot_set_setgid() {
        let directory = object(FileKind::Directory, 0o755);
        let mode = SetAttributes {
            mode: Some(0o2755),
            ..set()
        };
        assert_eq!(outcome(&owner(), &directory, &mode), Ok(0o2755));
        let outside = Caller::new(7, 1, []);
        assert_eq!(outcome(&outside, &directory, &mode), Ok(0o755));
    }

    #[test]
    fn only_the_superuser_gives_files_away() {
        let file = object(FileKind::File, 0o644);
        let give = |uid, gid| SetAttributes { uid, gid, ..set() };
        assert!(check_set(&Caller::root(), &file, &give(Some(9), Some(9))).is_ok());
        assert!(check_set(&owner(), &file, &give(Some(7), Some(60))).is_ok());
        for refused in [give(Some(9), None), give(None, Some(61))] {
            let result = check_set(&owner(), &file, &refused);
            assert_eq!(result, Err(FileError::NotOwner));
        }
        let take = check_set(&stranger(), &file, &give(Some(9), None));
        assert_eq!(take, Err(FileError::NotOwner));
        let entry = Ace {
            kind: AceKind::Allow,
            flags: AceFlags::default(),
            mask: AceMask::WRITE_OWNER,
            who: Who::User(9),
        };
        let acl = Acl::new(vec![entry]).unwrap();
        let of = Permissions {
            acl: Some(&acl),
            ..file
        };
        assert!(check_set(&stranger(), &of, &give(Some(9), Some(1))).is_ok());
        assert!(check_set(&stranger(), &of, &give(Some(8), None)).is_err());
    }

    #[test]
    fn a_new_owner_clears_setuid_even_for_the_superuser() {
        let give = SetAttributes {
            uid: Some(9),
            ..set()
        };
        let after = |kind, mode| outcome(&Caller::root(), &object(kind, mode), &give).unwrap();
        assert_eq!(after(FileKind::File, 0o6755), 0o755);
        assert_eq!(after(FileKind::File, 0o6745), 0o2745);
        assert_eq!(after(FileKind::Directory, 0o6755), 0o6755);
    }

    #[test]
    fn writing_clears_setuid_except_for_the_superuser() {
        let after = |caller: &Caller, mode| written_mode(caller, &object(FileKind::File, mode));
        assert_eq!(after(&owner(), 0o6775), 0o775);
        assert_eq!(after(&owner(), 0o6765), 0o2765);
        assert_eq!(after(&stranger(), 0o2767), 0o767);
        assert_eq!(after(&Caller::root(), 0o6775), 0o6775);
        let size = SetAttributes {
            size: Some(0),
            ..set()
        };
        let file = object(FileKind::File, 0o6775);
        assert_eq!(outcome(&owner(), &file, &size), Ok(0o775));
    }

    #[test]
    fn sizes_belong_to_files_and_need_permission_to_write() {
        let size = |size| SetAttributes {
            size: Some(size),
            ..set()
        };
        let check = |caller: &Caller, kind, mode, bytes| {
            outcome(caller, &object(kind, mode), &size(bytes)).map(|_| ())
        };
        assert_eq!(check(&member(), FileKind::File, 0o620, 9), Ok(()));
        let denied = Err(FileError::Access);
        assert_eq!(check(&member(), FileKind::File, 0o640, 9), denied);
        let directory = check(&owner(), FileKind::Directory, 0o777, 9);
        assert_eq!(directory, Err(FileError::IsDirectory));
        let fifo = check(&owner(), FileKind::Fifo, 0o777, 9);
        assert_eq!(fifo, Err(FileError::Invalid));
        let large = check(&owner(), FileKind::File, 0o777, FILE_SIZE_MAX + 1);
        assert_eq!(large, Err(FileError::TooLarge));
    }

    #[test]
    fn who_may_write_sets_times_to_the_present_only() {
        let file = object(FileKind::File, 0o620);
        let times = |accessed, modified| SetAttributes {
            accessed,
            modified,
            ..set()
        };
        let (now, then) = (SetTime::Now, SetTime::To(Timestamp(5)));
        assert!(outcome(&member(), &file, &times(now, now)).is_ok());
        assert!(outcome(&owner(), &file, &times(then, then)).is_ok());
        let explicit = outcome(&member(), &file, &times(now, then));
        assert_eq!(explicit, Err(FileError::NotOwner));
        let other = outcome(&stranger(), &file, &times(now, SetTime::Keep));
        assert_eq!(other, Err(FileError::Access));
    }

    #[test]
    fn setgid_directories_hand_on_their_group() {
        let directory = object(FileKind::Directory, 0o2777);
        let new = |kind, mode| NewFile {
            kind,
            mode,
            umask: None,
            acl: None,
        };
        let first = |kind, mode| initial(&stranger(), &directory, &new(kind, mode), RULE).unwrap();
        let file = first(NewKind::File, 0o2755).settled;
        assert_eq!((file.mode, file.uid, file.gid), (0o755, 9, 50));
        assert_eq!(first(NewKind::Directory, 0o700).settled.mode, 0o2700);
        let link = first(NewKind::Symlink(b"x".to_vec()), 0).settled;
        assert_eq!((link.mode, link.gid), (0o777, 50));
    }

    #[test]
    fn a_list_decides_about_the_mode_and_an_inherited_one_is_fitted_to_it() {
        let entry = |flags| Ace {
            kind: AceKind::Allow,
            flags,
            mask: AceMask::ALL,
            who: Who::Everyone,
        };
        let given = Acl::new(vec![entry(AceFlags::default())]).unwrap();
        let parent = Acl::new(vec![entry(AceFlags::FILE_INHERIT)]).unwrap();
        let directory = Permissions {
            acl: Some(&parent),
            ..object(FileKind::Directory, 0o777)
        };
        let new = |acl| NewFile {
            kind: NewKind::File,
            mode: 0o4640,
            umask: None,
            acl,
        };
        let with = initial(&owner(), &directory, &new(Some(given.clone())), RULE).unwrap();
        assert_eq!((with.settled.mode, with.acl), (0o4777, Some(given)));
        let without = initial(&owner(), &directory, &new(None), RULE).unwrap();
        assert_eq!(without.settled.mode, 0o4640);
        assert_eq!(without.acl.unwrap().mode(), 0o640);
    }

    #[test]
    fn a_umask_counts_where_nothing_is_inherited() {
        let entry = Ace {
            kind: AceKind::Allow,
            flags: AceFlags::FILE_INHERIT,
            mask: AceMask::ALL,
            who: Who::User(8),
        };
        let parent = Acl::new(vec![entry]).unwrap();
        let first = |acl, kind, umask| {
            let directory = Permissions {
                acl,
                ..object(FileKind::Directory, 0o777)
            };
            let new = NewFile {
                kind,
                mode: 0o4666,
                umask,
                acl: None,
            };
            let first = initial(&owner(), &directory, &new, RULE).unwrap();
            let list_mode = first.acl.as_ref().map(Acl::mode);
            (first.settled.mode, list_mode)
        };
        let (file, with) = (NewKind::File, Some(&parent));
        assert_eq!(first(None, file.clone(), Some(0o077)), (0o4600, None));
        assert_eq!(first(None, file.clone(), None), (0o4666, None));
        let narrowed = first(with, file.clone(), Some(0o077));
        assert_eq!(narrowed, (0o4600, Some(0o600)));
        assert_eq!(first(with, file, None), (0o4666, Some(0o666)));
        // The entry is for files alone: a directory only hands it on.
        let below = first(with, NewKind::Directory, Some(0o077));
        assert_eq!(below, (0o4600, Some(0o600)));
    }

    #[test]
    fn devices_are_for_the_superuser() {
        let directory = object(FileKind::Directory, 0o777);
        let device = NewKind::CharDevice(259);
        let refused = check_create(&owner(), &directory, &device);
        assert_eq!(refused, Err(FileError::NotOwner));
        assert_eq!(check_create(&Caller::root(), &directory, &device), Ok(()));
        assert_eq!(
            check_create(&stranger(), &directory, &NewKind::Fifo),
            Ok(())
        );
    }
}
