//! Lost blocks of filesystems: the files that the report of damage names, and what still can be read.

use backend::StorageError;
use backend::file::{Cookie, FileBackend, FileError};
use io::sim::SimDisk;
use pool::format::filesystem::{KIND_DIRENT, KIND_INODE, ROOT_OBJECT};
use pool::format::{Key, Node, Packing};
use pool::{Damage, DamagedObjects, FileStore, NewFilesystem, Pool};

use crate::filesystem::bed::Bed;
use crate::filesystem::pooled::{RECORD, again, create_pool, new_files, on_disk, open};

const SECTOR: usize = 4096;
const CORRUPT: FileError = FileError::Storage(StorageError::Corrupt);

/// Makes a pool with a file `/a/data` of four records, and closes it.
async fn make(change: impl AsyncFnOnce(&Pool, &Bed<FileStore>)) {
    let pool = create_pool().await;
    let new = NewFilesystem {
        compression: Packing::Off,
        ..new_files()
    };
    let store = pool.create_filesystem(new).await.expect("a filesystem");
    let bed = open(store).await;
    let directory = bed.directory(bed.root, "a").await;
    let made = bed.create(directory, "data", backend::file::NewKind::File);
    let file = made.await.expect("a file").handle;
    for record in 0..4 {
        let data = vec![0xa0 + record as u8; RECORD as usize];
        let at = record * u64::from(RECORD);
        bed.write(file, at, &data).await.expect("written");
    }
    change(&pool, &bed).await;
    pool.checkpoint().await.expect("written");
    drop(bed);
    pool.close().await.expect("closed");
}

/// Damages all sectors that `is_bad` accepts.
fn rot(disk: &SimDisk, is_bad: impl Fn(&[u8]) -> bool) -> usize {
    let image = disk.durable();
    let sectors = image.bytes().chunks(SECTOR).enumerate();
    let bad: Vec<_> = sectors.filter(|(_, s)| is_bad(s)).map(|(n, _)| n).collect();
    for n in &bad {
        let at = (n * SECTOR) as u64;
        disk.rot(at..at + SECTOR as u64);
    }
    bad.len()
}

/// Damages the newest leaf whose first and last key are accepted. Returns them, and the number of its entries.
fn rot_a_leaf(disk: &SimDisk, is_it: impl Fn([Key; 2]) -> bool) -> ([Key; 2], usize) {
    let is_leaf = |s: &[u8]| s[..4] == *b"WPtn" && s[5] == 0 && s[16] > 2;
    let image = disk.durable();
    let node = |at: usize| {
        let bytes = &image.bytes()[at..];
        let size = 32 + u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
        Node::decode(bytes[..size as usize].to_vec()).expect("a node")
    };
    let starts = (0..image.bytes().len()).step_by(SECTOR);
    let leaves = starts.filter(|at| is_leaf(&image.bytes()[*at..*at + SECTOR]));
    let right = leaves.filter(|at| is_it([node(*at).first_key(), node(*at).last_key()]));
    let newest = right.max_by_key(|at| (node(*at).birth(), node(*at).first_key()));
    let newest = newest.expect("such a leaf");
    disk.rot(newest as u64..(newest + SECTOR) as u64);
    let node = node(newest);
    ([node.first_key(), node.last_key()], node.count())
}

async fn damage(pool: &Pool) -> Vec<Damage> {
    let found = pool.damages().await;
    assert!(!found.more);
    found.ranges
}

fn of_file(dataset: &str, object: u64, records: std::ops::Range<u64>) -> Damage {
    Damage {
        dataset: Some(dataset.into()),
        objects: Some(DamagedObjects {
            first: object,
            end: object + 1,
            path: Some("/a/data".into()),
        }),
        start: Some(records.start * u64::from(RECORD)),
        end: Some(records.end * u64::from(RECORD)),
    }
}

#[test]
fn a_lost_record_is_reported_with_the_path_of_its_file() {
    on_disk(|disk| async move {
        make(async |pool, bed| {
            pool.create_snapshot("files", "then").await.expect("taken");
            bed.file("other").await;
        })
        .await;
        let bad = rot(&disk, |s| s == [0xa1; SECTOR] || s == [0xa2; SECTOR]);
        assert_eq!(bad, 2 * RECORD as usize / SECTOR);
        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        let directory = bed.lookup(bed.root, "a").await.expect("found").handle;
        let file = bed.lookup(directory, "data").await.expect("found").handle;
        let record = RECORD as usize;
        for (n, byte) in [(0, 0xa0), (3, 0xa3)] {
            let read = bed.read(file, n * u64::from(RECORD), record).await;
            assert_eq!(read.expect("read"), vec![byte; record]);
        }
        assert_eq!(damage(&pool).await, []);
        let read = bed.read(file, u64::from(RECORD) + 5, 10).await;
        assert_eq!(read.err(), Some(CORRUPT));
        let one = |dataset| of_file(dataset, file.object, 1..2);
        assert_eq!(damage(&pool).await, [one("files"), one("files@then")]);
        let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
        assert_eq!(scrubbed.lost.len(), 2, "{scrubbed:?}");
        let both = |dataset| of_file(dataset, file.object, 1..3);
        assert_eq!(damage(&pool).await, [both("files"), both("files@then")]);

        // A new name is the file's, and a removed file has no damage.
        let mode = backend::file::RenameMode::Replace;
        let moved = bed.rename((directory, "data"), (bed.root, "other"), mode);
        moved.await.expect("renamed");
        pool.checkpoint().await.expect("written");
        let paths = |found: Vec<Damage>| -> Vec<_> {
            let paths = found.into_iter().map(|d| d.objects.and_then(|o| o.path));
            paths.map(|path| path.expect("known")).collect()
        };
        assert_eq!(paths(damage(&pool).await), ["/other", "/a/data"]);
        bed.remove(bed.root, "other").await.expect("removed");
        bed.free_orphans().await;
        pool.checkpoint().await.expect("written");
        assert_eq!(damage(&pool).await, [both("files@then")]);
        drop(bed);
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_lost_node_is_reported_with_the_objects_below_it() {
    on_disk(|disk| async move {
        make(async |_, bed| {
            let other = bed.directory(bed.root, "b").await;
            for n in 0..400 {
                let kind = backend::file::NewKind::File;
                let made = bed.create(other, &format!("file{n}"), kind).await;
                made.expect("made");
            }
        })
        .await;
        // The last leaf of the filesystem has inodes of files without contents.
        let is_inode = |key: &Key| key.kind() == KIND_INODE && key.object().0 > 100;
        let ([first, _], _) = rot_a_leaf(&disk, |keys| keys.iter().all(is_inode));
        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        let other = bed.lookup(bed.root, "b").await.expect("found").handle;
        let mut lost = 0;
        for n in 0..400 {
            match bed.lookup(other, &format!("file{n}")).await {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error, CORRUPT);
                    lost += 1;
                }
            }
        }
        assert!(lost > 0 && lost < 400, "{lost}");
        let found = damage(&pool).await;
        let [one] = &found[..] else {
            panic!("one node is lost: {found:?}");
        };
        let objects = one.objects.as_ref().expect("objects");
        assert_eq!((objects.first, objects.end), (first.object().0, u64::MAX));
        assert_eq!(
            (one.start, one.end, objects.path.as_ref()),
            (None, None, None)
        );
        // Changes go on, and the other objects stay lost.
        bed.file("new").await;
        drop(bed);
        pool.close().await.expect("all changes are in the trees");
        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        bed.lookup(bed.root, "new").await.expect("it was made");
        let other = bed.lookup(bed.root, "b").await.expect("found").handle;
        let mut lost_later = 0;
        for n in 0..400 {
            if let Err(error) = bed.lookup(other, &format!("file{n}")).await {
                assert_eq!(error, CORRUPT);
                lost_later += 1;
            }
        }
        assert_eq!(lost_later, lost);
        drop(bed);
    });
}

/// One damaged leaf made a whole directory unlistable: nobody could save, or remove, the thousands of files beside it.
#[test]
fn a_directory_with_a_lost_leaf_lists_the_other_names_and_then_the_error() {
    on_disk(|disk| async move {
        make(async |_, bed| {
            for n in 0..2000 {
                bed.file(&format!("file{n:04}")).await;
            }
        })
        .await;
        let (_, names) = rot_a_leaf(&disk, |keys| {
            let is_name = |key: &Key| (key.object(), key.kind()) == (ROOT_OBJECT, KIND_DIRENT);
            keys.iter().all(is_name)
        });

        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        // a name that only memory has is listed, too
        bed.file("new").await;
        for _ in 0..2 {
            let (mut found, mut after) = (0, Cookie::START);
            let error = loop {
                let page = bed
                    .files
                    .read_directory(&bed.caller, bed.root, after, 100, false);
                match page.await {
                    Ok(page) => {
                        assert!(!page.is_end, "names are missing");
                        found += page.entries.len();
                        after = page.entries.last().expect("no empty page").cookie;
                    }
                    Err(error) => break error,
                }
            };
            assert_eq!(error, CORRUPT);
            assert_eq!(found, 2000 + 2 - names, "all but those of the lost leaf");
        }
        assert_eq!(damage(&pool).await.len(), 1);
        drop(bed);
    });
}

/// `rm -rf` could not finish: the directory with lost names stayed for ever.
#[test]
fn a_directory_of_which_only_lost_names_remain_can_be_removed() {
    on_disk(|disk| async move {
        make(async |_, bed| {
            let big = bed.directory(bed.root, "big").await;
            for n in 0..2000 {
                let kind = backend::file::NewKind::File;
                let made = bed.create(big, &format!("file{n:04}"), kind).await;
                made.expect("made");
            }
        })
        .await;
        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        let big = bed.lookup(bed.root, "big").await.expect("found").handle;
        drop(bed);
        pool.close().await.expect("closed");
        rot_a_leaf(&disk, |keys| {
            let is_name = |key: &Key| (key.object().0, key.kind()) == (big.object, KIND_DIRENT);
            keys.iter().all(is_name)
        });

        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        for n in 0..2000 {
            match bed.remove(big, &format!("file{n:04}")).await {
                Ok(_) => {}
                Err(error) => assert_eq!(error, CORRUPT),
            }
        }
        bed.remove(bed.root, "big").await.expect("removed");
        bed.free_orphans().await;
        bed.file("new").await;
        drop(bed);
        pool.close().await.expect("all changes are in the trees");

        let pool = again().await;
        let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
        assert_eq!((scrubbed.lost, scrubbed.damaged), (vec![], vec![]));
        assert_eq!(damage(&pool).await, []);
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        bed.lookup(bed.root, "new").await.expect("it was made");
        drop(bed);
        pool.close().await.expect("closed");
    });
}
