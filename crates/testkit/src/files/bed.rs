//! What behaviours work with: a file system, a directory of their own, callers, and short calls that check each reply.
//!
//! **Owns** [`Bed`]. **Called by** every behaviour and the comparison. **Invariants**: every mutation's attributes before and
//! after are checked against each other and against what the file system says next.

use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backend::file::{
    Access, Allocate, Attributes, Caller, Change, Cookie, Created, Done, Entry, FileBackend,
    FileError, FileKind, FileResult, Handle, IfExists, Linked, Name, NewFile, NewKind, ReadData,
    RemoveKind, Removed, RenameMode, Renamed, SetAttributes, Stability, WriteAt, Written,
};
use io::IoBuf;
use io::limits::BUF_LEN_MAX;

/// Most bytes that one call writes.
const CHUNK: usize = 256 << 10;
/// Times that a test looks for an effect that may come later, a millisecond apart.
const PATIENCE: usize = 10_000;

/// Mutations of tests are cached; one behaviour is about durable ones.
pub(super) const CACHED: Stability = Stability::Cached;

/// A name of a test.
pub(super) fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a good name")
}

/// A new object without a list.
pub(super) fn new(kind: NewKind, mode: u16) -> NewFile {
    NewFile {
        kind,
        mode,
        umask: None,
        acl: None,
    }
}

/// A user of group 100, and of 200.
pub(super) fn alice() -> &'static Caller {
    static CALLER: LazyLock<Caller> = LazyLock::new(|| Caller::new(1000, 100, [200]));
    &CALLER
}

/// Another user of group 100.
pub(super) fn bob() -> &'static Caller {
    static CALLER: LazyLock<Caller> = LazyLock::new(|| Caller::new(1001, 100, []));
    &CALLER
}

/// A user without a common group.
pub(super) fn carol() -> &'static Caller {
    static CALLER: LazyLock<Caller> = LazyLock::new(|| Caller::new(1002, 300, []));
    &CALLER
}

/// A buffer with these bytes.
pub(super) async fn buffer(bytes: &[u8]) -> IoBuf {
    let mut buf = io::pool().alloc(bytes.len().max(1)).await;
    buf.set_len(bytes.len());
    buf.copy_from_slice(bytes);
    buf
}

/// The bytes of a read.
pub(super) fn bytes(data: &ReadData) -> Vec<u8> {
    let mut out = vec![0; data.bytes.len()];
    data.bytes.copy_to(&mut out);
    out
}

/// Bytes that depend on `seed` and their position.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    io::rng::Prng::new(seed).fill(&mut out);
    out
}

/// Attributes without the space, which may change when data gets its place.
pub(super) fn settled(attributes: &Attributes) -> Attributes {
    Attributes {
        used: 0,
        ..*attributes
    }
}

/// Checks that a change counter grew if anything did but the time of access, and never shrank.
pub(super) fn check_change(change: &Change) {
    let Change { before, after } = change;
    assert_eq!(before.handle, after.handle, "a change is of one object");
    assert_eq!(before.kind, after.kind, "an object keeps its kind");
    let still = Attributes {
        accessed: before.accessed,
        change: before.change,
        ..settled(after)
    };
    match still == settled(before) {
        true => assert!(after.change >= before.change, "{change:?}"),
        false => assert!(after.change > before.change, "{change:?}"),
    }
}

/// A file system, and a directory of the superuser with mode 0777.
#[derive(Clone)]
pub(super) struct Bed {
    pub(super) files: Arc<dyn FileBackend>,
    pub(super) home: Handle,
    pub(super) root: Caller,
}

impl Bed {
    /// Makes a directory in the root.
    pub(super) async fn new(files: Arc<dyn FileBackend>, home: &str) -> Bed {
        let root = Caller::root();
        let bed = Bed {
            home: files.root(),
            files,
            root,
        };
        let home = bed.create(&bed.root, bed.home, home, NewKind::Directory, 0o777);
        let home = home.await.expect("a directory for the test").handle;
        Bed { home, ..bed }
    }

    /// Creates an object whose name must be new.
    pub(super) async fn create(
        &self,
        caller: &Caller,
        directory: Handle,
        at: &str,
        kind: NewKind,
        mode: u16,
    ) -> FileResult<Attributes> {
        let new = new(kind, mode);
        let created = self.try_create(caller, directory, at, new, IfExists::Fail);
        Ok(created.await?.object)
    }

    pub(super) async fn try_create(
        &self,
        caller: &Caller,
        directory: Handle,
        at: &str,
        new: NewFile,
        if_exists: IfExists,
    ) -> FileResult<Created> {
        let at = name(at);
        let created = self
            .files
            .create(caller, directory, &at, new, if_exists, CACHED);
        let created = created.await?.value;
        self.check(&created.directory).await;
        self.check_now(&created.object).await;
        Ok(created)
    }

    /// An empty file of the superuser in the home directory, with mode 0644.
    pub(super) async fn file(&self, at: &str) -> Handle {
        self.file_in(self.home, at).await
    }

    pub(super) async fn file_in(&self, directory: Handle, at: &str) -> Handle {
        let file = self.create(&self.root, directory, at, NewKind::File, 0o644);
        file.await.expect("create a file").handle
    }

    /// A directory of the superuser in the home directory, with mode 0755.
    pub(super) async fn directory(&self, at: &str) -> Handle {
        self.directory_in(self.home, at).await
    }

    pub(super) async fn directory_in(&self, directory: Handle, at: &str) -> Handle {
        let made = self.create(&self.root, directory, at, NewKind::Directory, 0o755);
        made.await.expect("create a directory").handle
    }

    pub(super) async fn attributes(&self, of: Handle) -> Attributes {
        self.files.attributes(of).await.expect("attributes")
    }

    pub(super) async fn lookup(&self, directory: Handle, at: &str) -> FileResult<Attributes> {
        let found = self.files.lookup(&self.root, directory, &name(at)).await;
        if let Ok(found) = &found {
            self.check_now(found).await;
        }
        found
    }

    /// Checks a change, and that the file system says the same now.
    pub(super) async fn check(&self, change: &Change) {
        check_change(change);
        self.check_now(&change.after).await;
    }

    async fn check_now(&self, attributes: &Attributes) {
        let now = self.attributes(attributes.handle).await;
        assert_eq!(settled(attributes), settled(&now));
    }

    /// Checks the change of an object that may be gone.
    async fn check_last(&self, change: &Change) {
        check_change(change);
        if change.after.links > 0 {
            self.check_now(&change.after).await;
        }
    }

    pub(super) async fn try_set(
        &self,
        caller: &Caller,
        of: Handle,
        set: SetAttributes,
    ) -> FileResult<Attributes> {
        let before = self.attributes(of).await;
        let done = self.files.set_attributes(caller, of, set, CACHED).await;
        match done {
            Ok(Done { value, .. }) => {
                assert_eq!(settled(&value.before), settled(&before));
                self.check(&value).await;
                Ok(value.after)
            }
            Err(error) => {
                self.check_now(&before).await;
                Err(error)
            }
        }
    }

    /// Sets attributes as the superuser.
    pub(super) async fn set(&self, of: Handle, set: SetAttributes) -> Attributes {
        let after = self.try_set(&self.root, of, set).await;
        after.expect("set attributes")
    }

    pub(super) async fn set_mode(&self, of: Handle, mode: u16) -> Attributes {
        let mode = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        self.set(of, mode).await
    }

    pub(super) async fn set_size(&self, of: Handle, size: u64) -> Attributes {
        let size = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        self.set(of, size).await
    }

    pub(super) async fn set_owner(&self, of: Handle, uid: u32, gid: u32) -> Attributes {
        let owner = SetAttributes {
            uid: Some(uid),
            gid: Some(gid),
            ..SetAttributes::default()
        };
        self.set(of, owner).await
    }

    pub(super) async fn try_write(
        &self,
        caller: &Caller,
        of: Handle,
        at: WriteAt,
        data: &[u8],
    ) -> FileResult<Written> {
        let data = buffer(data).await;
        let written = self
            .files
            .write(caller, of, at, data.into(), CACHED)
            .await?
            .value;
        self.check(&written.object).await;
        Ok(written)
    }

    /// Writes as the superuser, in parts.
    pub(super) async fn write(&self, of: Handle, offset: u64, data: &[u8]) {
        for (i, part) in data.chunks(CHUNK).enumerate() {
            let offset = offset + (i * CHUNK) as u64;
            let at = WriteAt::Offset(offset);
            let written = self.try_write(&self.root, of, at, part).await;
            assert_eq!(written.expect("write").offset, offset);
        }
    }

    /// Bytes of a range, which ends earlier only at the end of the file.
    pub(super) async fn read(&self, of: Handle, offset: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < len {
            let want = (len - out.len()).min(BUF_LEN_MAX);
            let at = offset + out.len() as u64;
            let data = self.files.read(of, at, want).await.expect("read");
            out.extend(bytes(&data));
            if data.is_end {
                break;
            }
            assert_eq!(data.bytes.len(), want, "a short read is the end");
        }
        out
    }

    /// All bytes of a file.
    pub(super) async fn contents(&self, of: Handle) -> Vec<u8> {
        let size = self.attributes(of).await.size;
        let contents = self.read(of, 0, size as usize + 1).await;
        assert_eq!(contents.len() as u64, size, "a file has its size");
        contents
    }

    pub(super) async fn allocate(
        &self,
        of: Handle,
        range: Range<u64>,
        how: Allocate,
        grows: bool,
    ) -> FileResult<Change> {
        let change = self.files.allocate(&self.root, of, range, how, grows);
        let change = change.await?;
        self.check(&change).await;
        Ok(change)
    }

    pub(super) async fn link(&self, of: Handle, to: Handle, at: &str) -> FileResult<Linked> {
        let linked = self.files.link(&self.root, of, to, &name(at), CACHED);
        let linked = linked.await?.value;
        self.check(&linked.object).await;
        self.check(&linked.directory).await;
        Ok(linked)
    }

    pub(super) async fn try_remove(
        &self,
        caller: &Caller,
        directory: Handle,
        at: &str,
        kind: RemoveKind,
    ) -> FileResult<Removed> {
        let at = name(at);
        let removed = self.files.remove(caller, directory, &at, kind, CACHED);
        let removed = removed.await?.value;
        self.check_last(&removed.object).await;
        self.check(&removed.directory).await;
        Ok(removed)
    }

    /// Removes any object as the superuser.
    pub(super) async fn remove(&self, directory: Handle, at: &str) -> Removed {
        let removed = self.try_remove(&self.root, directory, at, RemoveKind::Any);
        removed.await.expect("remove")
    }

    pub(super) async fn try_rename(
        &self,
        caller: &Caller,
        (from, old): (Handle, &str),
        (to, new): (Handle, &str),
        mode: RenameMode,
    ) -> FileResult<Renamed> {
        let (old, new) = (name(old), name(new));
        let renamed = self
            .files
            .rename(caller, from, &old, to, &new, mode, CACHED);
        let renamed = renamed.await?.value;
        self.check(&renamed.object).await;
        self.check(&renamed.from).await;
        self.check(&renamed.to).await;
        if let Some(other) = &renamed.other {
            self.check_last(other).await;
        }
        Ok(renamed)
    }

    /// Renames as the superuser, and replaces.
    pub(super) async fn rename(
        &self,
        from: (Handle, &str),
        to: (Handle, &str),
    ) -> FileResult<Renamed> {
        let mode = RenameMode::Replace;
        self.try_rename(&self.root, from, to, mode).await
    }

    /// All entries of a directory, by the superuser, `page` at a time, checked.
    pub(super) async fn list(&self, directory: Handle, page: usize) -> Vec<Entry> {
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let after = all.last().map_or(Cookie::START, |entry| entry.cookie);
            let listing = self
                .files
                .read_directory(&self.root, directory, after, page, true);
            let listing = listing.await.expect("list");
            assert!(listing.entries.len() <= page, "too many entries");
            assert!(!listing.entries.is_empty() || listing.is_end, "no progress");
            all.extend(listing.entries);
            if listing.is_end {
                break;
            }
        }
        for entry in &all {
            let attributes = entry.attributes.expect("the superuser may read them");
            assert_eq!(
                (attributes.handle, attributes.kind),
                (entry.handle, entry.kind)
            );
            assert!((3..1 << 63).contains(&entry.cookie.0), "{entry:?}");
        }
        assert!(all.is_sorted_by(|a, b| a.cookie < b.cookie), "by cookie");
        all
    }

    /// The names of a directory, sorted.
    pub(super) async fn names(&self, directory: Handle) -> Vec<String> {
        let entries = self.list(directory, 100).await;
        let text = |entry: &Entry| String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
        let mut names: Vec<String> = entries.iter().map(text).collect();
        names.sort_unstable();
        names
    }

    /// Waits until an object is gone.
    pub(super) async fn becomes_stale(&self, of: Handle) {
        for _ in 0..PATIENCE {
            match self.files.attributes(of).await {
                Err(FileError::Stale) => return,
                Ok(attributes) => assert_eq!(attributes.links, 0, "it has a name"),
                Err(error) => panic!("{error}"),
            }
            io::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("an object without names and holds is still there");
    }

    /// The access that a caller has, asked for all.
    pub(super) async fn access(&self, caller: &Caller, of: Handle) -> Access {
        let all = Access::READ | Access::WRITE | Access::EXECUTE;
        self.files.access(caller, of, all).await.expect("access")
    }

    /// One object of each kind except directories, with their names, in the home directory.
    pub(super) async fn one_of_each(&self) -> Vec<(&'static str, FileKind, Handle)> {
        let kinds = [
            ("file", NewKind::File, FileKind::File),
            (
                "link",
                NewKind::Symlink(b"file".to_vec()),
                FileKind::Symlink,
            ),
            ("fifo", NewKind::Fifo, FileKind::Fifo),
            ("socket", NewKind::Socket, FileKind::Socket),
            ("char", NewKind::CharDevice(0x0105), FileKind::CharDevice),
            ("block", NewKind::BlockDevice(0x0800), FileKind::BlockDevice),
        ];
        let mut all = Vec::new();
        for (at, kind, is) in kinds {
            let made = self.create(&self.root, self.home, at, kind, 0o640).await;
            all.push((at, is, made.expect("create").handle));
        }
        all
    }
}
