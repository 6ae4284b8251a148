//! Locks that the file system keeps: fcntl(2) and flock(2) of programs, and locks of others.

use crate::server::{can_mount, has, memory_files, shards};
use backend::file::memory::MemoryFiles;
use backend::file::{FileBackend, FileLock, FileReply, Handle, LockKind};
use fuse::{Mount, MountOptions, Unmount};
use io::runtime::Shard;
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

#[derive(Default)]
struct Locks {
    held: Vec<(Handle, FileLock)>,
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
        limits, root, space, lookup, parent, attributes, set_attributes, access, open, create,
        read_link, link, remove, rename, read_directory, read, write, commit, commit_all,
        allocate, seek, seek_within, copy, xattr, xattrs, set_xattr, acl, set_acl, watch,
    }

    fn keeps_locks(&self) -> bool {
        true
    }

    fn lock(&self, of: Handle, lock: FileLock) -> FileReply<Option<FileLock>> {
        let found = self.conflict(of, &lock);
        let mut locks = self.locks.lock().unwrap();
        locks.asked += 1;
        if found.is_none() {
            // Whole files are enough here.
            let is_replaced =
                |held: &(Handle, FileLock)| held.0 == of && held.1.owner == lock.owner;
            locks.held.retain(|held| !is_replaced(held));
            if lock.kind != LockKind::Unlocked {
                locks.held.push((of, lock));
            }
        }
        FileReply::now(Ok(found))
    }

    fn test_lock(&self, of: Handle, lock: FileLock) -> FileReply<Option<FileLock>> {
        FileReply::now(Ok(self.conflict(of, &lock)))
    }
}

impl Locking {
    fn conflict(&self, of: Handle, lock: &FileLock) -> Option<FileLock> {
        let locks = self.locks.lock().unwrap();
        let excludes = |held: &FileLock| {
            held.owner != lock.owner
                && lock.kind != LockKind::Unlocked
                && (held.kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
        };
        let of_file = locks.held.iter().filter(|held| held.0 == of);
        of_file.map(|held| held.1).find(excludes)
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

/// A shared mount, with its locks.
struct Mounted {
    shards: Vec<Shard>,
    locks: Arc<Mutex<Locks>>,
    dir: TempDir,
    mount: Mount,
}

impl Mounted {
    fn start() -> Self {
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
        Self {
            shards,
            locks,
            dir,
            mount,
        }
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap()
    }

    /// Number of requests for a lock so far.
    fn asked(&self) -> usize {
        self.locks().asked
    }

    fn end(self) {
        self.mount.unmount(Unmount::IfIdle).unwrap();
        self.shards.iter().for_each(Shard::stop);
    }
}

/// Regression: programs in a shared mount and clients of an export both got an exclusive lock of the same bytes, as the kernel kept the
/// mount's locks to itself.
#[test]
fn locks_of_programs_are_those_of_the_file_system() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::start();
    let path = mounted.dir.path().join("f");
    let file = File::create(&path).unwrap();

    let try_exclusive = || fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    try_exclusive().unwrap();
    let held = mounted.locks().held.clone();
    let (of, lock) = held[0];
    let all = (lock.start, lock.end, lock.kind);
    assert_eq!((held.len(), all), (1, (0, u64::MAX, LockKind::Exclusive)));
    // The process's locks end with any of its descriptors.
    drop(File::open(&path).unwrap());
    assert!(mounted.locks().held.is_empty());

    mounted.locks().held.push((of, FOREIGN));
    assert_eq!(try_exclusive(), Err(Errno::AGAIN));
    let shared = file.try_clone().unwrap();
    let before = mounted.asked();
    let waiting = thread::spawn(move || fcntl_lock(&shared, FlockOperation::LockExclusive));
    until(|| mounted.asked() > before + 2);
    assert!(!waiting.is_finished());
    mounted.locks().held.clear();
    waiting.join().unwrap().unwrap();
    fcntl_lock(&file, FlockOperation::Unlock).unwrap();
    assert!(mounted.locks().held.is_empty());

    if has("python3") {
        // A process that waits can be killed.
        mounted.locks().held.push((of, FOREIGN));
        let before = mounted.asked();
        let program = "import fcntl,sys; fcntl.lockf(open(sys.argv[1],'r+'),fcntl.LOCK_EX)";
        let mut child = Command::new("python3")
            .args(["-c", program])
            .arg(&path)
            .spawn()
            .unwrap();
        until(|| mounted.asked() > before + 2);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        mounted.locks().held.clear();
    }
    drop(file);
    mounted.end();
}

/// flock(2) in a shared mount is a lock of the whole file in the file system's table, and ends with the open file. Regression: the kernel
/// kept it to itself, so that a program here and a client of NFS both had it.
#[test]
fn flock_locks_the_whole_file() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::start();
    let path = mounted.dir.path().join("f");
    let [first, second] = [(); 2].map(|()| File::create(&path).unwrap());
    flock(&first, FlockOperation::NonBlockingLockExclusive).unwrap();
    let (_, held) = mounted.locks().held[0];
    assert_eq!((held.start, held.end), (0, u64::MAX));
    let refused = flock(&second, FlockOperation::NonBlockingLockShared);
    assert_eq!(refused, Err(Errno::WOULDBLOCK));
    // Another descriptor of the file does not end it, unlike a lock of fcntl(2).
    drop(File::open(&path).unwrap());
    assert_eq!(mounted.locks().held.len(), 1);
    drop(first);
    flock(&second, FlockOperation::LockShared).unwrap();
    drop(second);
    until(|| mounted.locks().held.is_empty());
    mounted.end();
}

/// A program that would wait for one that waits for it is told so. Regression: both waited without end.
#[test]
fn a_deadlock_is_refused() {
    if !can_mount() || !has("python3") {
        return;
    }
    let mounted = Mounted::start();
    for name in ["f", "g"] {
        drop(File::create(mounted.dir.path().join(name)).unwrap());
    }
    // Locks its first file, prints a line, and locks the second one after a line of its input.
    let program = "import fcntl,sys
a,b=[open(name,'r+') for name in sys.argv[1:]]
fcntl.lockf(a,fcntl.LOCK_EX)
print('locked',flush=True)
sys.stdin.readline()
try: fcntl.lockf(b,fcntl.LOCK_EX)
except OSError as e: sys.exit(e.errno)";
    let start = |names: [&str; 2]| {
        let mut child = Command::new("python3")
            .args(["-c", program])
            .args(names.map(|name| mounted.dir.path().join(name)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let says = child.stdout.take().unwrap();
        BufReader::new(says).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        child
    };
    let (mut first, mut second) = (start(["f", "g"]), start(["g", "f"]));
    let before = mounted.asked();
    first.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    until(|| mounted.asked() > before + 1);
    second.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(libc::EDEADLK));
    // Its locks end with it, and the other one gets its own.
    assert_eq!(first.wait().unwrap().code(), Some(0));
    mounted.end();
}
