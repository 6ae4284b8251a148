//! Names through the kernel: trees, renames, links, listings.

use crate::server::Served;
use fuse::Operation;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

fn names(of: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(of).unwrap();
    entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_tree_is_written_read_renamed_and_removed() {
    let Some(served) = Served::start() else {
        return;
    };
    let root = served.path();
    for dir in 0..10 {
        let dir = root.join(format!("d{dir}/sub"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..20 {
            fs::write(dir.join(format!("f{file}")), format!("{file}").repeat(1000)).unwrap();
        }
    }
    fs::rename(root.join("d0/sub"), root.join("d1/moved")).unwrap();
    assert_eq!(names(&root.join("d0")), BTreeSet::new());
    assert_eq!(names(&root.join("d1")).len(), 2);
    for file in 0..20 {
        let text = fs::read_to_string(root.join(format!("d1/moved/f{file}"))).unwrap();
        assert_eq!(text, format!("{file}").repeat(1000));
    }
    assert_eq!(fs::metadata(root).unwrap().nlink(), 12);
    fs::remove_dir_all(root.join("d1")).unwrap();
    assert_eq!(fs::metadata(root).unwrap().nlink(), 11);
    assert!(fs::read_dir(root.join("d1")).is_err());
    served.end();
}

#[test]
fn what_one_mount_has_written_the_next_one_reads() {
    let Some(mut served) = Served::start() else {
        return;
    };
    fs::create_dir(served.path().join("dir")).unwrap();
    fs::write(served.path().join("dir/file"), vec![7; 3_000_000]).unwrap();
    let inode = fs::metadata(served.path().join("dir/file")).unwrap().ino();
    served.mount.unmount(fuse::Unmount::IfIdle).unwrap();
    assert_eq!(names(served.path()), BTreeSet::new());
    served.mount_again();
    let path = served.path().join("dir/file");
    assert_eq!(fs::read(&path).unwrap(), vec![7; 3_000_000]);
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    served.end();
}

#[test]
fn rename_flags_work() {
    let Some(served) = Served::start() else {
        return;
    };
    let path = |name: &str| served.path().join(name);
    fs::write(path("a"), "a").unwrap();
    fs::write(path("b"), "b").unwrap();
    fs::create_dir(path("dir")).unwrap();
    let rename = |old: &str, new: &str, flags| renameat_with(CWD, path(old), CWD, path(new), flags);
    assert_eq!(rename("a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename("a", "dir/new", RenameFlags::NOREPLACE).unwrap();
    assert_eq!(fs::read_to_string(path("dir/new")).unwrap(), "a");
    rename("b", "dir", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read_to_string(path("dir")).unwrap(), "b");
    assert_eq!(fs::read_to_string(path("b/new")).unwrap(), "a");
    assert_eq!(
        rename("dir", "absent", RenameFlags::EXCHANGE),
        Err(Errno::NOENT)
    );
    assert!(rename("dir", "x", RenameFlags::WHITEOUT).is_err());
    assert_eq!(
        rename("b", "b/inside", RenameFlags::empty()),
        Err(Errno::INVAL)
    );
    served.end();
}

#[test]
fn links_and_absent_names_are_what_the_last_change_made_them() {
    let Some(served) = Served::start() else {
        return;
    };
    let path = |name: &str| served.path().join(name);
    for _ in 0..3 {
        assert!(fs::metadata(path("a")).is_err());
    }
    fs::write(path("a"), "1").unwrap();
    fs::hard_link(path("a"), path("b")).unwrap();
    symlink("b", path("c")).unwrap();
    assert_eq!(fs::read_to_string(path("c")).unwrap(), "1");
    assert_eq!(fs::metadata(path("a")).unwrap().nlink(), 2);
    fs::remove_file(path("a")).unwrap();
    assert!(fs::metadata(path("a")).is_err());
    assert_eq!(fs::metadata(path("b")).unwrap().nlink(), 1);
    fs::remove_file(path("b")).unwrap();
    assert!(fs::read(path("c")).is_err());
    assert_eq!(fs::read_link(path("c")).unwrap(), Path::new("b"));
    served.end();
}

#[test]
fn a_listing_of_50_000_entries_has_each_of_them_once() {
    const COUNT: usize = 50_000;
    let Some(served) = Served::start() else {
        return;
    };
    let dir = served.path().join("large");
    fs::create_dir(&dir).unwrap();
    for i in 0..COUNT {
        fs::write(dir.join(format!("entry {i}")), "").unwrap();
    }
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.metadata().unwrap().is_file());
        assert!(seen.insert(entry.file_name()), "{:?}", entry.file_name());
    }
    assert_eq!(seen.len(), COUNT);
    // removing while listing still visits every entry
    for entry in fs::read_dir(&dir).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(names(&dir), BTreeSet::new());
    assert_eq!(served.count(Operation::Unlink), COUNT as u64);
    served.end();
}

#[test]
fn a_removed_directory_still_has_attributes_for_the_process_in_it() {
    let Some(served) = Served::start() else {
        return;
    };
    let dir = served.path().join("dir");
    fs::create_dir(&dir).unwrap();
    let open = fs::File::open(&dir).unwrap();
    fs::remove_dir(&dir).unwrap();
    let after = open.metadata().unwrap();
    assert!(after.is_dir());
    assert_eq!(after.nlink(), 0);
    drop(open);
    served.end();
}
