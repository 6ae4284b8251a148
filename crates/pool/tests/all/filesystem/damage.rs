//! Damaged entries: an error for what they belong to, and nothing else.

use backend::StorageError;
use backend::file::{
    Access, Caller, Cookie, FileBackend, FileError, Handle, IfExists, NewFile, NewKind, RenameMode,
    SetAttributes, SetXattr,
};
use io::rng::Prng;
use pool::filesystem::FileSystem;
use pool::format::filesystem::{KIND_DIRENT, KIND_XATTR, header_key};
use pool::format::{Kind, ObjectId};

use crate::filesystem::bed::{Bed, CACHED, name, run};
use testkit::store::MemoryStore;

const CORRUPT: Option<FileError> = Some(FileError::Storage(StorageError::Corrupt));

/// Replaces the values of an object by bytes that are none.
fn damage(bed: &Bed, of: Handle, kind: Kind) {
    bed.store.tamper(|now| {
        let values = now.values.iter_mut();
        let of = values.filter(|(key, _)| key.object().0 == of.object && key.kind() == kind);
        of.for_each(|(_, value)| value[0] = 0xff);
    });
}

#[test]
fn a_damaged_entry_is_an_error_of_its_object_only() {
    run(|| async {
        let bed = Bed::new(1).await;
        let (bad, good) = (
            bed.directory(bed.root, "bad").await,
            bed.directory(bed.root, "good").await,
        );
        bed.directory(bad, "x").await;
        bed.directory(good, "x").await;
        bed.set_xattr(good, "user.a", 1).await.unwrap();
        damage(&bed, bad, KIND_DIRENT);
        damage(&bed, good, KIND_XATTR);
        assert_eq!(bed.lookup(bad, "x").await.err(), CORRUPT);
        assert_eq!(bed.remove(bad, "x").await.err(), CORRUPT);
        let list = |of| {
            let start = Cookie::START;
            bed.files.read_directory(&bed.caller, of, start, 9, true)
        };
        assert_eq!(list(bad).await.err(), CORRUPT);
        let value = bed.files.xattr(&bed.caller, good, b"user.a").await;
        assert_eq!(value.err(), CORRUPT);
        assert!(bed.lookup(good, "x").await.is_ok() && list(good).await.is_ok());
        let moved = bed.rename((bed.root, "good"), (bed.root, "moved"), RenameMode::Replace);
        moved.await.unwrap();
    });
}

#[test]
fn an_entry_without_an_object_is_damage() {
    run(|| async {
        let bed = Bed::new(1).await;
        let file = bed.file("file").await;
        bed.store.tamper(|now| {
            now.inodes.remove(&ObjectId(file.object));
        });
        assert_eq!(bed.lookup(bed.root, "file").await.err(), CORRUPT);
        assert_eq!(bed.remove(bed.root, "file").await.err(), CORRUPT);
        assert_eq!(bed.files.attributes(file).await, Err(FileError::Stale));
    });
}

#[test]
fn a_dataset_without_a_header_is_no_filesystem() {
    run(|| async {
        let empty = MemoryStore::new(1);
        assert_eq!(FileSystem::open(empty, 1).await.err(), CORRUPT);
        let bed = Bed::new(1).await;
        bed.store
            .tamper(|now| now.values.get_mut(&header_key()).unwrap()[0] = 9);
        assert_eq!(FileSystem::open(bed.store.clone(), 1).await.err(), CORRUPT);
    });
}

#[test]
fn a_handle_that_never_was_is_stale() {
    run(|| async {
        let bed = Bed::new(1).await;
        let file = bed.file("file").await;
        let others = [
            Handle {
                filesystem: 8,
                ..file
            },
            Handle { object: 0, ..file },
            Handle { object: 1, ..file },
            Handle {
                object: u64::MAX,
                ..file
            },
            Handle {
                object: 1 << 56,
                ..file
            },
            Handle {
                generation: file.generation ^ 1,
                ..file
            },
        ];
        for of in others {
            assert_eq!(
                bed.files.attributes(of).await,
                Err(FileError::Stale),
                "{of:?}"
            );
            assert_eq!(
                bed.write(of, 0, b"x").await,
                Err(FileError::Stale),
                "{of:?}"
            );
            let found = bed.lookup(of, "x").await;
            assert_eq!(found, Err(FileError::Stale), "{of:?}");
            let to = (bed.root, "y");
            let moved = bed.rename((of, "x"), to, RenameMode::Replace).await;
            assert_eq!(moved.err(), Some(FileError::Stale), "{of:?}");
        }
        let listed = bed
            .files
            .read_directory(&bed.caller, bed.root, Cookie(u64::MAX), 9, true);
        let listed = listed.await.unwrap();
        assert!(listed.is_end && listed.entries.is_empty());
    });
}

/// Every operation on a filesystem with random damage.
async fn try_everything(bed: &Bed, of: Handle) {
    let (caller, at) = (Caller::new(5, 5, []), name("x"));
    let files = &bed.files;
    let new = NewFile {
        kind: NewKind::Directory,
        mode: 0o700,
        umask: None,
        acl: None,
    };
    let mode = SetAttributes {
        mode: Some(0o700),
        size: Some(9),
        ..SetAttributes::default()
    };
    let start = Cookie::START;
    let _ = files.read_directory(&caller, of, start, 9, true).await;
    let _ = files.parent(&caller, of).await;
    let _ = files.access(&caller, of, Access::READ).await;
    let _ = files.read_link(of).await;
    let _ = files.acl(of).await;
    let _ = files.xattrs(&caller, of).await;
    let _ = files.xattr(&caller, of, b"user.large").await;
    let _ = bed.read(of, 0, 9).await;
    let _ = files.set_attributes(&bed.caller, of, mode, CACHED).await;
    let set = |value| files.set_xattr(&caller, of, b"user.large", value, SetXattr::Either, CACHED);
    let _ = set(Some(vec![1])).await;
    let _ = set(None).await;
    let created = files.create(&caller, of, &at, new, IfExists::Open, CACHED);
    let _ = created.await;
    let _ = bed.link(of, bed.root, "again").await;
    let _ = bed
        .rename((of, "x"), (bed.root, "y"), RenameMode::Replace)
        .await;
    for at in ["a", "b", "c", "again", "y"] {
        let _ = bed.remove(bed.root, at).await;
        let _ = bed.remove(of, at).await;
    }
}

#[test]
fn no_damage_panics() {
    run(|| async {
        for seed in 0..300 {
            let bed = Bed::new(seed).await;
            let file = bed.file("a").await;
            let directory = bed.directory(bed.root, "b").await;
            bed.link(file, directory, "a").await.unwrap();
            bed.link(file, directory, "c").await.unwrap();
            bed.directory(directory, "b").await;
            bed.set_xattr(file, "user.large", 3000).await.unwrap();
            bed.set_xattr(directory, "user.large", 30).await.unwrap();
            let target = NewKind::Symlink(vec![b'x'; 2500]);
            let link = bed.create(directory, "x", target).await.unwrap().handle;
            let mut rng = Prng::new(seed);
            bed.store.tamper(|now| {
                for value in now.values.values_mut() {
                    if rng.chance(0.3) && !value.is_empty() {
                        let at = rng.below(value.len() as u64) as usize;
                        value[at] ^= 1 << rng.below(8);
                    }
                }
                now.values.retain(|_, _| rng.chance(0.9));
                now.inodes
                    .retain(|o, _| o.0 == bed.root.object || rng.chance(0.9));
                for inode in now.inodes.values_mut() {
                    if rng.chance(0.2) {
                        inode.links = rng.below(3) as u32;
                        inode.size = rng.below(3);
                        inode.parent = ObjectId(rng.below(30));
                    }
                }
            });
            for of in [file, directory, link, bed.root] {
                try_everything(&bed, of).await;
            }
            if let Ok(files) = FileSystem::open(bed.store.clone(), 7).await {
                for _ in 0..100 {
                    let _ = files.free_orphan().await;
                }
            }
        }
    });
}
