//! Byte-range locks that the file system keeps: fcntl(2) of programs, and locks of others.

use crate::server::{can_mount, has, memory_files, shards};
use backend::Durable;
use backend::file::memory::MemoryFiles;
use backend::file::{
    Access, Acl, Allocate, Attributes, Caller, Change, Cookie, Created, Done, FileBackend,
    FileLimits, FileLock, FileReply, FileSpace, Handle, Hold, IfExists, Linked, Listing, LockKind,
    Name, NewFile, ReadData, RemoveKind, Removed, RenameMode, Renamed, Seek, SetAttributes,
    SetXattr, Stability, Watch, WriteAt, Written,
};
use fuse::{Mount, MountOptions, Unmount};
use io::IoBuf;
use io::runtime::Shard;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Default)]
struct Locks {
    held: Vec<FileLock>,
    /// Requests for a lock.
    asked: usize,
}

/// Files whose locks are kept here; owner 0 is another machine.
struct Locking {
    files: MemoryFiles,
    locks: Arc<Mutex<Locks>>,
}

impl FileBackend for Locking {
    backend::pass_on! { files:
        limits() -> FileLimits;
        root() -> Handle;
        space(caller: &Caller) -> FileReply<FileSpace>;
        lookup(caller: &Caller, directory: Handle, name: &Name) -> FileReply<Attributes>;
        parent(caller: &Caller, directory: Handle) -> FileReply<Attributes>;
        attributes(of: Handle) -> FileReply<Attributes>;
        set_attributes(caller: &Caller, of: Handle, set: SetAttributes, stability: Stability) -> FileReply<Done<Change>>;
        access(caller: &Caller, of: Handle, wanted: Access) -> FileReply<Access>;
        open(caller: &Caller, of: Handle, access: Access) -> FileReply<Hold>;
        create(caller: &Caller, directory: Handle, name: &Name, new: NewFile, if_exists: IfExists, stability: Stability)
            -> FileReply<Done<Created>>;
        read_link(of: Handle) -> FileReply<Vec<u8>>;
        link(caller: &Caller, of: Handle, directory: Handle, name: &Name, stability: Stability) -> FileReply<Done<Linked>>;
        remove(caller: &Caller, directory: Handle, name: &Name, kind: RemoveKind, stability: Stability) -> FileReply<Done<Removed>>;
        rename(caller: &Caller, from: Handle, old: &Name, to: Handle, new: &Name, mode: RenameMode, stability: Stability)
            -> FileReply<Done<Renamed>>;
        read_directory(caller: &Caller, directory: Handle, after: Cookie, entries_max: usize, with_attributes: bool)
            -> FileReply<Listing>;
        read(of: Handle, offset: u64, len: usize) -> FileReply<ReadData>;
        write(caller: &Caller, of: Handle, at: WriteAt, data: IoBuf, stability: Stability) -> FileReply<Done<Written>>;
        commit(of: Handle) -> FileReply<Durable>;
        commit_all() -> FileReply<Durable>;
        allocate(caller: &Caller, of: Handle, range: Range<u64>, how: Allocate, grows: bool) -> FileReply<Change>;
        seek(of: Handle, offset: u64, to: Seek) -> FileReply<u64>;
        seek_within(of: Handle, range: Range<u64>, to: Seek) -> FileReply<Option<u64>>;
        copy(caller: &Caller, from: (Handle, u64), to: (Handle, u64), len: u64) -> FileReply<u64>;
        xattr(caller: &Caller, of: Handle, name: &[u8]) -> FileReply<Vec<u8>>;
        xattrs(caller: &Caller, of: Handle) -> FileReply<Vec<Vec<u8>>>;
        set_xattr(caller: &Caller, of: Handle, name: &[u8], value: Option<Vec<u8>>, how: SetXattr, stability: Stability)
            -> FileReply<Done<Change>>;
        acl(of: Handle) -> FileReply<Option<Acl>>;
        set_acl(caller: &Caller, of: Handle, acl: Option<Acl>, stability: Stability) -> FileReply<Done<Change>>;
        watch(directory: Handle) -> FileReply<Watch>;
    }

    fn keeps_locks(&self) -> bool {
        true
    }

    fn lock(&self, of: Handle, lock: FileLock) -> FileReply<Option<FileLock>> {
        let found = self.conflict(&lock);
        let mut locks = self.locks.lock().unwrap();
        locks.asked += 1;
        if found.is_none() {
            // Whole files are enough here.
            locks.held.retain(|held| held.owner != lock.owner);
            if lock.kind != LockKind::Unlocked {
                locks.held.push(lock);
            }
        }
        let _ = of;
        FileReply::now(Ok(found))
    }

    fn test_lock(&self, _: Handle, lock: FileLock) -> FileReply<Option<FileLock>> {
        FileReply::now(Ok(self.conflict(&lock)))
    }
}

impl Locking {
    fn conflict(&self, lock: &FileLock) -> Option<FileLock> {
        let locks = self.locks.lock().unwrap();
        let excludes = |held: &&FileLock| {
            held.owner != lock.owner
                && lock.kind != LockKind::Unlocked
                && (held.kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
        };
        locks.held.iter().find(excludes).copied()
    }
}

const FOREIGN: FileLock = FileLock {
    owner: 0,
    start: 0,
    end: u64::MAX,
    kind: LockKind::Exclusive,
};

/// Waits until a condition holds.
fn until(is_true: impl Fn() -> bool) {
    while !is_true() {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Regression: programs in a shared mount and clients of an export both got an exclusive lock of the same bytes, as the kernel kept the
/// mount's locks to itself.
#[test]
fn locks_of_programs_are_those_of_the_file_system() {
    if !can_mount() {
        return;
    }
    let shards = shards(2);
    let locks = Arc::new(Mutex::new(Locks::default()));
    let files = Locking {
        files: memory_files(&shards[0]),
        locks: locks.clone(),
    };
    let dir = tempfile::tempdir().unwrap();
    let options = MountOptions {
        is_shared: true,
        ..MountOptions::default()
    };
    let mount = Mount::start(Arc::new(files), dir.path(), &options, &shards).unwrap();
    let path = dir.path().join("f");
    let file = File::create(&path).unwrap();

    let try_exclusive = || fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    try_exclusive().unwrap();
    let held = locks.lock().unwrap().held.clone();
    let all = (held[0].start, held[0].end, held[0].kind);
    assert_eq!((held.len(), all), (1, (0, u64::MAX, LockKind::Exclusive)));
    // The process's locks end with any of its descriptors.
    drop(File::open(&path).unwrap());
    assert!(locks.lock().unwrap().held.is_empty());

    locks.lock().unwrap().held.push(FOREIGN);
    assert_eq!(try_exclusive(), Err(Errno::AGAIN));
    let shared = file.try_clone().unwrap();
    let asked = || locks.lock().unwrap().asked;
    let before = asked();
    let waiting = thread::spawn(move || fcntl_lock(&shared, FlockOperation::LockExclusive));
    until(|| asked() > before + 2);
    assert!(!waiting.is_finished());
    locks.lock().unwrap().held.clear();
    waiting.join().unwrap().unwrap();
    fcntl_lock(&file, FlockOperation::Unlock).unwrap();
    assert!(locks.lock().unwrap().held.is_empty());

    if has("python3") {
        // A process that waits can be killed.
        locks.lock().unwrap().held.push(FOREIGN);
        let before = asked();
        let program = "import fcntl,sys; fcntl.lockf(open(sys.argv[1],'r+'),fcntl.LOCK_EX)";
        let mut child = Command::new("python3")
            .args(["-c", program])
            .arg(&path)
            .spawn()
            .unwrap();
        until(|| asked() > before + 2);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        locks.lock().unwrap().held.clear();
    }
    drop(file);
    mount.unmount(Unmount::IfIdle).unwrap();
    shards.iter().for_each(Shard::stop);
}
