//! Behaviours of access control lists. RFC 8881, section 6.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour; a file system without lists
//! refuses them.

use backend::file::{
    ACES_MAX, Ace, AceFlags, AceKind, AceMask, Acl, Caller, FileError, FileResult, Handle,
    IfExists, NewFile, NewKind, RemoveKind, SID_MAX, SetAttributes, Who,
};

use super::bed::{Bed, CACHED, alice, bob, carol};

fn ace(kind: AceKind, flags: u16, who: Who, mask: AceMask) -> Ace {
    let flags = AceFlags(flags);
    Ace {
        kind,
        flags,
        mask,
        who,
    }
}

fn allow(who: Who, mask: AceMask) -> Ace {
    ace(AceKind::Allow, 0, who, mask)
}

fn list(aces: Vec<Ace>) -> Acl {
    Acl::new(aces).expect("a good list")
}

/// Reading and writing of a file, as a mode knows it.
fn read_write() -> AceMask {
    AceMask::READ_DATA | AceMask::WRITE_DATA | AceMask::APPEND_DATA
}

async fn set_acl(bed: &Bed, caller: &Caller, of: Handle, acl: Option<Acl>) -> FileResult<u16> {
    let set = bed.files.set_acl(caller, of, acl, CACHED).await?.value;
    bed.check(&set).await;
    Ok(set.after.mode)
}

async fn acl(bed: &Bed, of: Handle) -> Option<Acl> {
    bed.files.acl(of).await.expect("read the list")
}

/// Whether the file system has lists; else checks that it refuses them.
async fn has_lists(bed: &Bed) -> bool {
    let has = bed.files.limits().has_acls;
    if !has {
        let set = set_acl(bed, &bed.root, bed.home, Some(list(vec![]))).await;
        assert_eq!(set, Err(FileError::Unsupported));
    }
    has
}

pub(super) async fn lists_are_kept(bed: Bed) {
    if !has_lists(&bed).await {
        return;
    }
    let file = bed.file("file").await;
    assert_eq!(acl(&bed, file).await, None);
    let kinds = [
        AceKind::Allow,
        AceKind::Deny,
        AceKind::Audit,
        AceKind::Alarm,
    ];
    let who = |i: u32| match i % 6 {
        0 => Who::Owner,
        1 => Who::OwningGroup,
        2 => Who::Everyone,
        3 => Who::User(u32::MAX - i),
        4 => Who::Group(i),
        _ => Who::Sid(vec![i as u8; 1 + i as usize % SID_MAX].into()),
    };
    let many = (0..ACES_MAX as u32).map(|i| {
        let flags = i as u16 & AceFlags::ALL.0;
        let mask = AceMask((i * 7919) & AceMask::ALL.0);
        ace(kinds[i as usize % 4], flags, who(i), mask)
    });
    for acl_set in [list(many.collect()), list(vec![])] {
        let mode = set_acl(&bed, &bed.root, file, Some(acl_set.clone())).await;
        assert_eq!(mode, Ok(acl_set.mode()));
        assert_eq!(acl(&bed, file).await, Some(acl_set));
    }
    bed.set_mode(file, 0o640).await;
    assert_eq!(set_acl(&bed, &bed.root, file, None).await, Ok(0o640));
    assert_eq!(acl(&bed, file).await, None);
    assert_eq!(bed.access(carol(), file).await.bits(), 0);
}

pub(super) async fn a_list_decides_in_place_of_the_mode(bed: Bed) {
    if !has_lists(&bed).await {
        return;
    }
    let file = bed.file("file").await;
    bed.set_owner(file, 1000, 100).await;
    bed.set_mode(file, 0o1777).await;
    let acl = list(vec![
        ace(AceKind::Deny, 0, Who::User(1002), AceMask::WRITE_DATA),
        allow(Who::User(1002), read_write()),
        allow(Who::Group(200), AceMask::EXECUTE),
        allow(Who::OwningGroup, AceMask::READ_DATA),
    ]);
    let mode = set_acl(&bed, &bed.root, file, Some(acl)).await;
    assert_eq!(mode, Ok(0o1040), "the sticky bit stays");
    let access = async |caller: &Caller| bed.access(caller, file).await.bits();
    assert_eq!(access(alice()).await, 5);
    assert_eq!(access(bob()).await, 4);
    assert_eq!(access(carol()).await, 4);
    assert_eq!(access(&Caller::new(9, 9, [])).await, 0);
    assert_eq!(access(&bed.root).await, 7);
}

pub(super) async fn a_mode_changes_the_list(bed: Bed) {
    if !has_lists(&bed).await {
        return;
    }
    let file = bed.file("file").await;
    bed.set_owner(file, 1000, 100).await;
    let acl_set = list(vec![allow(Who::User(1002), AceMask::ALL)]);
    set_acl(&bed, &bed.root, file, Some(acl_set)).await.unwrap();
    for mode in [0o640, 0o600, 0o077, 0o4755, 0] {
        assert_eq!(bed.set_mode(file, mode).await.mode, mode);
        let fitted = acl(&bed, file).await.unwrap();
        assert_eq!(fitted.mode(), mode & 0o777);
        let other = Caller::new(9, 9, []);
        for (caller, shift) in [(alice(), 6), (bob(), 3), (&other, 0)] {
            let access = bed.access(caller, file).await.bits();
            assert_eq!(access, mode >> shift & 7, "mode {mode:o}");
        }
    }
    let same = SetAttributes {
        mode: Some(0),
        ..SetAttributes::default()
    };
    let before = acl(&bed, file).await;
    bed.set(file, same).await;
    assert_eq!(
        acl(&bed, file).await,
        before,
        "the same bits leave it alone"
    );
}

pub(super) async fn new_objects_inherit_entries(bed: Bed) {
    if !has_lists(&bed).await {
        return;
    }
    let (f, d) = (AceFlags::FILE_INHERIT.0, AceFlags::DIRECTORY_INHERIT.0);
    let only = AceFlags::INHERIT_ONLY.0;
    let directory = bed.directory("directory").await;
    let parent = list(vec![
        ace(AceKind::Allow, f | only, Who::User(1002), read_write()),
        ace(AceKind::Allow, d, Who::Group(200), AceMask::ALL),
        allow(Who::Everyone, AceMask::ALL),
    ]);
    set_acl(&bed, &bed.root, directory, Some(parent))
        .await
        .unwrap();
    let users = async |of| {
        let aces = acl(&bed, of).await.map(|acl| acl.aces().to_vec());
        let named = |ace: &Ace| matches!(ace.who, Who::User(_) | Who::Group(_));
        let named = aces.unwrap_or_default().into_iter().filter(named);
        named.map(|ace| (ace.who, ace.flags.0)).collect::<Vec<_>>()
    };
    let inherited = AceFlags::INHERITED.0;
    let make = |at, kind, mode| bed.create(alice(), directory, at, kind, mode);
    let file = make("file", NewKind::File, 0o660).await.unwrap();
    assert_eq!(file.mode, 0o660);
    assert_eq!(users(file.handle).await, [(Who::User(1002), inherited)]);
    assert_eq!(bed.access(carol(), file.handle).await.bits(), 6);
    let below = make("below", NewKind::Directory, 0o770).await.unwrap();
    let want = [
        (Who::User(1002), f | only | inherited),
        (Who::Group(200), d | only | inherited),
        (Who::Group(200), inherited),
    ];
    assert_eq!(users(below.handle).await, want);
    let deep = bed.create(alice(), below.handle, "deep", NewKind::File, 0o600);
    let deep = deep.await.unwrap();
    assert_eq!(users(deep.handle).await, [], "the mode leaves it nothing");
    assert_eq!(
        bed.access(carol(), deep.handle).await.bits(),
        0,
        "mode 0600"
    );
    let private = NewFile {
        kind: NewKind::File,
        mode: 0o666,
        umask: Some(0o077),
        acl: None,
    };
    let private = bed.try_create(alice(), directory, "private", private, IfExists::Fail);
    let private = private.await.unwrap().object;
    assert_eq!(
        private.mode, 0o600,
        "the umask counts for all whom no entry names"
    );
    assert_eq!(bed.access(carol(), private.handle).await.bits(), 6);
    let link = make("link", NewKind::Symlink(b"x".to_vec()), 0).await;
    assert_eq!(acl(&bed, link.unwrap().handle).await, None);
    let plain = bed.create(alice(), bed.home, "plain", NewKind::File, 0o600);
    assert_eq!(acl(&bed, plain.await.unwrap().handle).await, None);
}

pub(super) async fn a_list_at_creation_decides_about_the_mode(bed: Bed) {
    if !has_lists(&bed).await {
        return;
    }
    let given = list(vec![allow(Who::Owner, read_write())]);
    let new = NewFile {
        kind: NewKind::File,
        mode: 0o4777,
        umask: None,
        acl: Some(given.clone()),
    };
    let created = bed.try_create(alice(), bed.home, "file", new, IfExists::Fail);
    let created = created.await.unwrap().object;
    assert_eq!(created.mode, 0o4600);
    assert_eq!(acl(&bed, created.handle).await, Some(given.clone()));
    let link = NewFile {
        kind: NewKind::Symlink(b"x".to_vec()),
        mode: 0,
        umask: None,
        acl: Some(given),
    };
    let refused = bed.try_create(alice(), bed.home, "link", link, IfExists::Fail);
    assert_eq!(refused.await.err(), Some(FileError::Unsupported));
}

pub(super) async fn lists_are_set_by_owners_and_who_they_allow(bed: Bed) {
    if !has_lists(&bed).await {
        return;
    }
    let file = bed.file("file").await;
    bed.set_owner(file, 1000, 100).await;
    let acl_set = list(vec![allow(Who::User(1001), AceMask::WRITE_ACL)]);
    let set = async |caller: &Caller| set_acl(&bed, caller, file, Some(acl_set.clone())).await;
    assert_eq!(set(bob()).await, Err(FileError::NotOwner));
    assert_eq!(set(alice()).await, Ok(0));
    assert_eq!(set(bob()).await, Ok(0));
    assert_eq!(set(carol()).await, Err(FileError::NotOwner));
    assert_eq!(set(alice()).await, Ok(0), "the owner is never locked out");
    let link = NewKind::Symlink(b"x".to_vec());
    let link = bed.create(&bed.root, bed.home, "link", link, 0).await;
    let refused = set_acl(&bed, &bed.root, link.unwrap().handle, Some(acl_set)).await;
    assert_eq!(refused, Err(FileError::Unsupported));
}

pub(super) async fn lists_decide_about_names(bed: Bed) {
    if !has_lists(&bed).await {
        return;
    }
    let directory = bed.directory("directory").await;
    let search = allow(Who::Everyone, AceMask::EXECUTE);
    let grant = async |mask| {
        let acl = list(vec![allow(Who::User(1002), mask), search.clone()]);
        set_acl(&bed, &bed.root, directory, Some(acl))
            .await
            .unwrap();
    };
    let caller = carol();
    let create = async |at, kind| {
        let created = bed.create(caller, directory, at, kind, 0o600).await;
        created.err()
    };
    let denied = Some(FileError::Access);
    grant(AceMask::WRITE_DATA).await;
    assert_eq!(create("file", NewKind::File).await, None);
    assert_eq!(create("directory", NewKind::Directory).await, denied);
    grant(AceMask::APPEND_DATA).await;
    assert_eq!(create("other", NewKind::File).await, denied);
    assert_eq!(create("directory", NewKind::Directory).await, None);
    let remove = async |at| {
        let kind = RemoveKind::Any;
        bed.try_remove(caller, directory, at, kind).await.err()
    };
    assert_eq!(remove("file").await, denied);
    grant(AceMask::DELETE_CHILD).await;
    assert_eq!(remove("file").await, None);
    grant(AceMask(0)).await;
    assert_eq!(remove("directory").await, denied);
    let below = bed.lookup(directory, "directory").await.unwrap().handle;
    let acl = list(vec![allow(Who::User(1002), AceMask::DELETE)]);
    set_acl(&bed, &bed.root, below, Some(acl)).await.unwrap();
    assert_eq!(remove("directory").await, None);
}
