//! Behaviours of extended attributes. Linux `xattr(7)`, RFC 8276.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour.

use backend::file::{
    Caller, FileError, FileResult, Handle, SetXattr, XATTR_NAME_MAX, XATTR_NAMES_MAX,
    XATTR_VALUE_MAX,
};

use super::bed::{Bed, CACHED, alice, bob, carol, noise};

async fn set(
    bed: &Bed,
    caller: &Caller,
    of: Handle,
    name: &[u8],
    value: Option<&[u8]>,
    how: SetXattr,
) -> FileResult<()> {
    let value = value.map(<[u8]>::to_vec);
    let set = bed.files.set_xattr(caller, of, name, value, how, CACHED);
    let change = set.await?.value;
    bed.check(&change).await;
    assert!(change.after.change > change.before.change);
    Ok(())
}

async fn put(bed: &Bed, of: Handle, name: &[u8], value: &[u8]) {
    let set = set(bed, &bed.root, of, name, Some(value), SetXattr::Either).await;
    assert_eq!(set, Ok(()));
}

async fn get(bed: &Bed, of: Handle, name: &[u8]) -> FileResult<Vec<u8>> {
    bed.files.xattr(&bed.root, of, name).await
}

async fn names(bed: &Bed, caller: &Caller, of: Handle) -> Vec<String> {
    let names = bed.files.xattrs(caller, of).await.unwrap();
    let text = |name: Vec<u8>| String::from_utf8(name).unwrap();
    names.into_iter().map(text).collect()
}

pub(super) async fn values_are_created_replaced_and_removed(bed: Bed) {
    let (file, directory) = (bed.file("file").await, bed.directory("directory").await);
    for of in [file, directory] {
        let (a, missing) = (&b"user.a"[..], Err(FileError::NoAttribute));
        let change = |value, how| set(&bed, &bed.root, of, a, value, how);
        assert_eq!(get(&bed, of, a).await, missing);
        let replaced = change(Some(b"1"), SetXattr::Replace).await;
        assert_eq!(replaced, Err(FileError::NoAttribute));
        for how in [SetXattr::Either, SetXattr::Create, SetXattr::Replace] {
            let removed = change(None, how).await;
            assert_eq!(removed, Err(FileError::NoAttribute));
        }
        assert_eq!(change(Some(b"1"), SetXattr::Create).await, Ok(()));
        let again = change(Some(b"2"), SetXattr::Create).await;
        assert_eq!(again, Err(FileError::Exists));
        assert_eq!(get(&bed, of, a).await.unwrap(), b"1");
        assert_eq!(change(Some(b"22"), SetXattr::Replace).await, Ok(()));
        assert_eq!(change(Some(b"333"), SetXattr::Either).await, Ok(()));
        assert_eq!(get(&bed, of, a).await.unwrap(), b"333");
        put(&bed, of, b"user.B", b"").await;
        assert_eq!(get(&bed, of, b"user.B").await.unwrap(), b"");
        assert_eq!(names(&bed, &bed.root, of).await, ["user.B", "user.a"]);
        assert_eq!(change(None, SetXattr::Either).await, Ok(()));
        assert_eq!(get(&bed, of, a).await, missing);
        assert_eq!(names(&bed, &bed.root, of).await, ["user.B"]);
    }
}

pub(super) async fn names_and_values_are_limited(bed: Bed) {
    let file = bed.file("file").await;
    let root = &bed.root;
    let long = [&b"user."[..], &[b'n'; XATTR_NAME_MAX - 5]].concat();
    for len in [0, 1, 900, 1000, 1001, 5000, XATTR_VALUE_MAX] {
        let value = noise(len as u64, len);
        put(&bed, file, &long, &value).await;
        assert!(
            get(&bed, file, &long).await.unwrap() == value,
            "{len} bytes"
        );
    }
    let either = SetXattr::Either;
    let large = vec![0; XATTR_VALUE_MAX + 1];
    let longer = [&long[..], b"n"].concat();
    let cases = [
        (&long[..], &large[..], FileError::TooLarge),
        (&longer, b"x", FileError::NameTooLong),
        (b"user.", b"x", FileError::Invalid),
        (b"user.a\0b", b"x", FileError::Invalid),
        (b"", b"x", FileError::Unsupported),
        (b"user", b"x", FileError::Unsupported),
        (b"system.posix_acl_access", b"x", FileError::Unsupported),
        (b"other.a", b"x", FileError::Unsupported),
    ];
    for (name, value, error) in cases {
        let set = set(&bed, root, file, name, Some(value), either).await;
        assert_eq!(set, Err(error), "{}", name.escape_ascii());
    }
    let len = get(&bed, file, &long).await.unwrap().len();
    assert_eq!(len, XATTR_VALUE_MAX);
}

pub(super) async fn the_names_of_one_object_are_limited(bed: Bed) {
    let file = bed.file("file").await;
    let name = |i: usize| format!("user.{i:0250}").into_bytes();
    let most = XATTR_NAMES_MAX / (XATTR_NAME_MAX + 1);
    for i in 0..most {
        put(&bed, file, &name(i), b"v").await;
    }
    let (root, either) = (&bed.root, SetXattr::Either);
    let more = set(&bed, root, file, &name(most), Some(b"v"), either).await;
    assert_eq!(more, Err(FileError::NoSpace));
    put(&bed, file, &name(0), b"another value").await;
    assert_eq!(names(&bed, root, file).await.len(), most);
    set(&bed, root, file, &name(1), None, either).await.unwrap();
    put(&bed, file, &name(most), b"v").await;
    assert_eq!(names(&bed, root, file).await.len(), most);
}

pub(super) async fn attributes_belong_to_the_object(bed: Bed) {
    let file = bed.file("file").await;
    put(&bed, file, b"user.a", &noise(1, 3000)).await;
    bed.link(file, bed.home, "link").await.unwrap();
    bed.remove(bed.home, "file").await;
    bed.rename((bed.home, "link"), (bed.home, "file"))
        .await
        .unwrap();
    assert!(get(&bed, file, b"user.a").await.unwrap() == noise(1, 3000));
    let hold = bed.files.open(&bed.root, file, backend::file::Access::READ);
    let hold = hold.await.unwrap();
    bed.remove(bed.home, "file").await;
    put(&bed, file, b"user.b", b"orphan").await;
    assert_eq!(get(&bed, file, b"user.b").await.unwrap(), b"orphan");
    drop(hold);
    bed.becomes_stale(file).await;
    let other = bed.file("file").await;
    assert_eq!(names(&bed, &bed.root, other).await, [""; 0]);
}

pub(super) async fn namespaces_have_their_own_rules(bed: Bed) {
    let file = bed.file("file").await;
    bed.set_owner(file, 1000, 100).await;
    bed.set_mode(file, 0o640).await;
    for name in [&b"user.a"[..], b"trusted.a", b"security.a"] {
        put(&bed, file, name, b"v").await;
    }
    let read = |caller, name| bed.files.xattr(caller, file, name);
    let write = async |caller: &Caller, name: &[u8]| {
        let either = SetXattr::Either;
        set(&bed, caller, file, name, Some(b"v"), either)
            .await
            .err()
    };
    let (owner, member, other) = (alice(), bob(), carol());
    assert_eq!(read(owner, b"user.a").await.err(), None);
    assert_eq!(read(member, b"user.a").await.err(), None);
    assert_eq!(read(other, b"user.a").await.err(), Some(FileError::Access));
    let hidden = read(owner, b"trusted.a").await.err();
    assert_eq!(hidden, Some(FileError::NoAttribute));
    assert_eq!(read(other, b"security.a").await.err(), None);
    assert_eq!(write(owner, b"user.a").await, None);
    assert_eq!(write(member, b"user.a").await, Some(FileError::Access));
    let refused = Some(FileError::NotOwner);
    assert_eq!(write(owner, b"trusted.a").await, refused);
    assert_eq!(write(owner, b"security.a").await, refused);
    assert_eq!(names(&bed, owner, file).await, ["security.a", "user.a"]);
    let all = ["security.a", "trusted.a", "user.a"];
    assert_eq!(names(&bed, &bed.root, file).await, all);
}

pub(super) async fn only_files_and_directories_have_attributes_of_users(bed: Bed) {
    for (at, _, of) in bed.one_of_each().await {
        let either = SetXattr::Either;
        let set = set(&bed, &bed.root, of, b"user.a", Some(b"v"), either).await;
        let want = (at != "file").then_some(FileError::NotOwner);
        assert_eq!(set.err(), want, "{at}");
        put(&bed, of, b"trusted.a", b"v").await;
        if at != "file" {
            assert_eq!(get(&bed, of, b"user.a").await, Err(FileError::NoAttribute));
        }
    }
    let sticky = bed.directory("sticky").await;
    bed.set_owner(sticky, 1000, 100).await;
    bed.set_mode(sticky, 0o1777).await;
    let write = async |caller: &Caller| {
        let either = SetXattr::Either;
        set(&bed, caller, sticky, b"user.a", Some(b"v"), either).await
    };
    assert_eq!(write(alice()).await, Ok(()));
    assert_eq!(write(bob()).await, Err(FileError::NotOwner));
}
