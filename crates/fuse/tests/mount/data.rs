//! Data through the kernel: reads, writes, holes, durability, extended attributes.

use crate::server::{Served, has, run};
use backend::file::memory::MemoryOptions;
use fuse::{MountOptions, Operation};
use rustix::fs::{
    FallocateFlags, SeekFrom, XattrFlags, fallocate, getxattr, listxattr, removexattr, seek,
    setxattr,
};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::process::Command;

fn open(served: &Served, name: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.open(served.path().join(name)).unwrap()
}

fn shared() -> MountOptions {
    MountOptions {
        is_shared: true,
        ..MountOptions::default()
    }
}

#[test]
fn fsync_and_close_hand_over_what_was_written() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut file = open(&served, "file");
    for i in 0..100u8 {
        file.write_all(&[i; 1000]).unwrap();
    }
    let before = served.count(Operation::FSync);
    file.sync_all().unwrap();
    assert_eq!(served.count(Operation::FSync), before + 1);
    let written = served.mount.totals().operations.bytes_written;
    assert_eq!(written, 100_000);
    // the kernel collects small writes
    assert!(served.count(Operation::Write) < 10);
    fs::File::open(served.path()).unwrap().sync_all().unwrap();
    assert_eq!(served.count(Operation::FSyncDir), 1);
    drop(file);
    served.end();
}

/// Regression: with write-back only the kernel knows where a file ends, and it asks for holes without writing back first.
#[test]
fn data_that_only_the_kernel_has_is_no_hole() {
    let Some(served) = Served::start() else {
        return;
    };
    let file = open(&served, "file");
    file.write_all_at(&[1; 100_000], 1 << 20).unwrap();
    let find = |from: SeekFrom| seek(&file, from);
    assert_eq!(find(SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(find(SeekFrom::Hole(0)), Ok(0));
    assert_eq!(find(SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 100_000));
    file.write_all_at(&[2; 10], 0).unwrap();
    assert_eq!(find(SeekFrom::Data(0)), Ok(0));
    assert_eq!(find(SeekFrom::Hole(0)), Ok(4096));
    assert_eq!(find(SeekFrom::Data(2 << 20)), Err(Errno::NXIO));
    drop(file);
    served.end();
}

#[test]
fn ranges_are_allocated_zeroed_and_freed() {
    let Some(served) = Served::start() else {
        return;
    };
    let file = open(&served, "file");
    file.write_all_at(&[1; 65_536], 0).unwrap();
    let change = |flags, offset, len| fallocate(&file, flags, offset, len);
    let (keep, punch) = (FallocateFlags::KEEP_SIZE, FallocateFlags::PUNCH_HOLE);
    change(punch | keep, 4096, 8192).unwrap();
    let mut bytes = [9; 16_384];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes[..4096], [1; 4096]);
    assert_eq!(bytes[4096..12_288], [0; 8192]);
    assert_eq!(bytes[12_288..], [1; 4096]);
    change(FallocateFlags::ZERO_RANGE, 60_000, 100_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 160_000);
    change(keep, 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 160_000);
    change(FallocateFlags::empty(), 0, 200_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 200_000);
    let collapse = change(FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(collapse, Err(Errno::OPNOTSUPP));
    file.read_exact_at(&mut bytes, 59_999).unwrap();
    assert_eq!((bytes[0], bytes[1]), (1, 0));
    drop(file);
    served.end();
}

#[test]
fn appends_of_two_writers_do_not_overwrite_each_other() {
    for options in [MountOptions::default(), shared()] {
        let Some(served) = Served::with(&options) else {
            return;
        };
        let path = served.path().join("log");
        let append = || {
            OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path)
                .unwrap()
        };
        let (mut a, mut b) = (append(), append());
        for _ in 0..100 {
            a.write_all(b"first writer\n").unwrap();
            b.write_all(b"other writer\n").unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|l| *l == "first writer").count(), 100);
        assert_eq!(text.lines().filter(|l| *l == "other writer").count(), 100);
        drop((a, b));
        served.end();
    }
}

#[test]
fn an_unlinked_file_lives_until_it_is_closed() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut file = open(&served, "file");
    fs::remove_file(served.path().join("file")).unwrap();
    file.write_all(b"still here").unwrap();
    file.sync_all().unwrap();
    file.set_len(5).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still");
    drop(file);
    served.end();
}

#[test]
fn sizes_and_holes_of_large_files() {
    let Some(served) = Served::start() else {
        return;
    };
    let file = open(&served, "file");
    let far = (1 << 62) + 5;
    file.write_all_at(b"end", far).unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().len(), far + 3);
    let mut bytes = [1; 3];
    file.read_exact_at(&mut bytes, 1 << 40).unwrap();
    assert_eq!(bytes, [0; 3]);
    file.set_len(10).unwrap();
    file.set_len(far + 3).unwrap();
    file.read_exact_at(&mut bytes, far).unwrap();
    assert_eq!(bytes, [0; 3], "truncated data does not come back");
    drop(file);
    served.end();
}

#[test]
fn direct_and_synchronous_writes_arrive() {
    let Some(served) = Served::start() else {
        return;
    };
    let path = served.path().join("file");
    let open = |flags| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .custom_flags(flags);
        options.open(&path).unwrap()
    };
    let sync = open(libc::O_DSYNC);
    sync.write_all_at(&[1; 5000], 0).unwrap();
    assert!(served.count(Operation::Write) >= 1);
    assert!(served.count(Operation::FSync) >= 1);
    // direct I/O goes around the cache, and the cache follows
    let program = "dd";
    let out = format!("of={}", path.display());
    let words = [
        "if=/dev/zero",
        &out,
        "bs=4096",
        "count=1",
        "oflag=direct",
        "conv=notrunc",
    ];
    run(program, &words, served.path());
    let mut bytes = [9; 5000];
    sync.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes[..4096], [0; 4096]);
    assert_eq!(bytes[4096..], [1; 904]);
    drop(sync);
    served.end();
}

#[test]
fn a_copy_between_files_is_made_by_the_file_system() {
    let Some(served) = Served::start() else {
        return;
    };
    let (from, to) = (open(&served, "from"), open(&served, "to"));
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    from.write_all_at(&bytes, 0).unwrap();
    let (mut at, mut out) = (100, 50);
    while at < 300_000 {
        let n = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut out), 1 << 40);
        if n.unwrap() == 0 {
            break;
        }
    }
    assert!(served.count(Operation::CopyFileRange) >= 1);
    let copied = fs::read(served.path().join("to")).unwrap();
    assert_eq!(copied[50..], bytes[100..]);
    drop((from, to));
    served.end();
}

#[test]
fn extended_attributes_and_their_errors() {
    let Some(served) = Served::start() else {
        return;
    };
    let path = served.path().join("file");
    fs::write(&path, "x").unwrap();
    let set = |name: &str, value: &[u8], flags| setxattr(&path, name, value, flags);
    set("user.a", b"one", XattrFlags::empty()).unwrap();
    set("user.empty", b"", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.b", b"", XattrFlags::REPLACE), Err(Errno::NODATA));
    let large = vec![5; 65_536];
    set("user.large", &large, XattrFlags::empty()).unwrap();
    let mut room = vec![0; 65_536];
    assert_eq!(getxattr(&path, "user.large", &mut room[..]), Ok(65_536));
    assert_eq!(room, large);
    assert_eq!(
        getxattr(&path, "user.large", &mut room[..100]),
        Err(Errno::RANGE)
    );
    assert_eq!(getxattr(&path, "user.empty", &mut room[..]), Ok(0));
    let len = listxattr(&path, &mut room[..]).unwrap();
    assert_eq!(room[..len], *b"user.a\0user.empty\0user.large\0");
    removexattr(&path, "user.a").unwrap();
    assert_eq!(getxattr(&path, "user.a", &mut room[..]), Err(Errno::NODATA));
    let acl = set("system.posix_acl_access", &[0; 28], XattrFlags::empty());
    assert!(
        matches!(acl, Err(Errno::OPNOTSUPP | Errno::INVAL)),
        "{acl:?}"
    );
    served.end();
}

#[test]
fn a_write_by_a_user_clears_setuid_and_one_by_root_does_not() {
    for options in [MountOptions::default(), shared()] {
        let options = MountOptions {
            allow_other: true,
            suid: true,
            ..options
        };
        if !io::linux::is_root() {
            eprintln!("SKIPPED: only root can write as another user");
            return;
        }
        let Some(served) = Served::with(&options) else {
            return;
        };
        fs::set_permissions(served.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = served.path().join("file");
        fs::write(&path, "x").unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
        fs::write(&path, "by root").unwrap();
        assert_eq!(mode(), 0o6777);
        let as_user = "--reuid=65534 --regid=65534 --clear-groups";
        let script = format!("setpriv {as_user} sh -c 'echo x >> {}'", path.display());
        run("sh", &["-c", &script], served.path());
        assert_eq!(mode(), 0o777);
        served.end();
    }
}

/// Regression: with FUSE_ATOMIC_O_TRUNC the kernel has the file cut before it finds out that it is being executed.
#[test]
fn a_program_that_runs_is_not_cut() {
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    let Some(served) = Served::with(&options) else {
        return;
    };
    let path = served.path().join("program");
    let copied = fs::copy("/bin/sleep", &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut process = Command::new(&path).arg("60").spawn().unwrap();
    for flags in [libc::O_WRONLY, libc::O_RDONLY | libc::O_TRUNC] {
        let flags = rustix::fs::OFlags::from_bits_retain(flags as u32);
        let opened = rustix::fs::open(&path, flags, rustix::fs::Mode::empty());
        assert_eq!(opened.err(), Some(Errno::TXTBSY));
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), copied);
    process.kill().unwrap();
    process.wait().unwrap();
    served.end();
}

/// The kernel caches attributes, and does not expect a request for data to change the mode.
#[test]
fn setuid_bits_are_gone_right_after_a_direct_write_or_an_allocation_by_others() {
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    if !io::linux::is_root() {
        eprintln!("SKIPPED: the test needs root, to write as another user");
        return;
    }
    let Some(served) = Served::with(&options) else {
        return;
    };
    if !has("setpriv") || !has("fallocate") {
        return;
    }
    fs::set_permissions(served.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = served.path().join("file");
    fs::write(&path, vec![1; 8192]).unwrap();
    let other = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let direct = "dd if=/dev/zero of=file oflag=direct bs=4096 count=1 conv=notrunc status=none";
    for program in [
        direct,
        "fallocate -l 4096 file",
        "fallocate -l 16384 file",
        "fallocate -p -l 4096 file",
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6777);
        let words = [&other[..], &["sh", "-c", program]].concat();
        run("setpriv", &words, served.path());
        let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o777, "{program}");
    }
    served.end();
}

#[test]
fn more_space_than_there_is_cannot_be_allocated() {
    let Some(served) = Served::start() else {
        return;
    };
    if !has("fallocate") {
        return;
    }
    let path = served.path().join("file");
    fs::write(&path, "x").unwrap();
    let script = "fallocate -l 1P file 2>&1 && exit 1; fallocate -l 1M file";
    run("sh", &["-c", script], served.path());
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
    served.end();
}

/// Whether files that are opened without the kernel's cache can be mapped, so that they are opened so when space is short
/// (Linux 6.6).
fn has_direct_maps() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 6)
}

/// Regression: the kernel keeps the errno of a failed write-back for fsync(2) alone. For close(2) it has a mark for ENOSPC, and
/// another one, EIO, for everything else. With little space there is no write-back, and write(2) says the truth.
#[test]
fn a_quota_is_reported_and_never_as_a_failed_device() {
    let nearly_full = match has_direct_maps() {
        true => Errno::DQUOT,
        false => Errno::NOSPC,
    };
    for (options, of_write) in [
        (MountOptions::default(), nearly_full),
        (shared(), Errno::DQUOT),
    ] {
        let of_files = MemoryOptions {
            space_max: 1 << 20,
            is_quota: true,
            ..MemoryOptions::default()
        };
        let Some(served) = Served::with_files(&options, of_files) else {
            return;
        };
        let number = |e: std::io::Error| Errno::from_io_error(&e);
        let mut file = open(&served, "synced");
        let written = file.write_all(&[1; 4 << 20]).and_then(|()| file.sync_all());
        assert_eq!(number(written.expect_err("over the quota")), Some(of_write));
        file.set_len(0).expect("truncating frees space");
        drop(file);
        // std drops the error of close(2), which is that of this flush
        let output = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", "count=4", "status=none"])
            .arg(format!("of={}", served.path().join("by-dd").display()))
            .env("LC_ALL", "C")
            .output()
            .expect("dd");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{told}");
        let reason = match of_write {
            Errno::NOSPC => "No space left on device",
            _ => "Disk quota exceeded",
        };
        assert!(told.contains(reason), "{told}");
        served.end();
    }
}

/// write(2) went on in the kernel's cache on a full file system: 4 GiB were "written" to a pool of 1 GiB, and the error came at
/// close(2).
#[test]
fn write_fails_at_once_where_space_is_short() {
    if !has_direct_maps() {
        eprintln!("SKIPPED: Linux 6.6 is needed");
        return;
    }
    let of_files = MemoryOptions {
        space_max: 4 << 20,
        ..MemoryOptions::default()
    };
    let Some(served) = Served::with_files(&MountOptions::default(), of_files) else {
        return;
    };
    let mut file = open(&served, "file");
    file.write_all(&[1; 1 << 20]).expect("there is space");
    let refused = file.write_all(&[1; 8 << 20]);
    let refused = refused.expect_err("write(2) itself");
    assert_eq!(Errno::from_io_error(&refused), Some(Errno::NOSPC));
    let mut start = [0; 8];
    file.read_exact_at(&mut start, 0).expect("read");
    assert_eq!(start, [1; 8]);
    drop(file);
    served.end();
}

/// syncfs(2) reports the failed write-back of any program once: every snapshot, unmount and `set readonly=on` failed because of a
/// user over its quota, which had got its error.
#[test]
fn a_programs_failed_write_back_fails_no_sync() {
    const SPACE: usize = 260 << 20;
    let of_files = MemoryOptions {
        space_max: SPACE as u64,
        ..MemoryOptions::default()
    };
    let Some(served) = Served::with_files(&MountOptions::default(), of_files) else {
        return;
    };
    // there is enough space for the kernel's cache
    let mut file = open(&served, "file");
    let block = vec![1; 1 << 20];
    let mut failed = false;
    for _ in 0..SPACE / block.len() + 8 {
        failed |= file.write_all(&block).is_err();
    }
    failed |= file.sync_all().is_err();
    assert!(failed, "the program hears of it");
    // leaves an error behind that no one has asked for
    file.set_len(0).expect("cut");
    for _ in 0..SPACE / block.len() + 8 {
        let _ = file.write_all(&block);
    }
    served.mount.sync().expect("what can be written is written");
    file.set_len(0).expect("cut");
    drop(file);
    served.end();
}

/// sync(2) sends nothing to a FUSE server but data: data that was written, and synced so, was lost when the server was killed.
#[test]
fn data_that_the_kernel_writes_back_is_committed() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut file = open(&served, "file");
    file.write_all(&[1; 100_000]).expect("written");
    assert_eq!(served.files.commits(), 0, "the kernel has it");
    // as sync(2), for one file; closing writes back, and promises nothing else
    drop(file);
    while served.files.commits() == 0 {
        std::thread::yield_now();
    }
    served.end();
}

/// A file of a file system with `readonly=on` could be opened for writing and written; the data was lost at fsync(2).
#[test]
fn a_read_only_file_system_opens_nothing_for_writing() {
    let Some(served) = Served::start() else {
        return;
    };
    drop(open(&served, "file"));
    served.files.set_read_only(true);
    let at = served.path().join("file");
    let refused = OpenOptions::new().write(true).open(&at);
    let refused = refused.expect_err("read-only");
    assert_eq!(Errno::from_io_error(&refused), Some(Errno::ROFS));
    File::open(&at).expect("reading is allowed");
    served.files.set_read_only(false);
    drop(
        OpenOptions::new()
            .write(true)
            .open(&at)
            .expect("writable again"),
    );
    served.end();
}

/// `tar -S` stores a file without blocks as zeroes, without reading it. A file whose data only the kernel had showed none.
#[test]
fn a_file_with_data_in_the_kernel_shows_blocks() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut file = open(&served, "file");
    file.write_all(&[1; 100_000]).expect("written");
    let check = |blocks_of: &str| {
        let shown = fs::metadata(served.path().join("file")).expect("stat");
        assert_eq!(shown.len(), 100_000);
        assert!(shown.blocks() > 0, "{blocks_of}");
    };
    check("a new file");
    file.set_len(0).expect("cut");
    drop(file);
    let (mut appends, mut cuts) = (OpenOptions::new(), OpenOptions::new());
    appends.append(true);
    cuts.write(true).truncate(true);
    for (how, options) in [("appended", appends), ("cut", cuts)] {
        let at = served.path().join("file");
        fs::metadata(&at).expect("the kernel has the attributes");
        let mut file = options.open(&at).expect("opened");
        file.write_all(&[1; 100_000]).expect("written");
        check(how);
    }
    served.end();
}

/// fsync(2) of a directory that was removed while it was open said ESTALE.
#[test]
fn a_removed_directory_can_be_synced() {
    let Some(served) = Served::start() else {
        return;
    };
    let at = served.path().join("directory");
    fs::create_dir(&at).expect("made");
    let directory = File::open(&at).expect("opened");
    fs::remove_dir(&at).expect("removed");
    directory.sync_all().expect("synced");
    drop(directory);
    served.end();
}
