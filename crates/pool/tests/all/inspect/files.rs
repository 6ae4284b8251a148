//! Inspection of filesystems.

use std::collections::BTreeSet;
use std::ops::Range;

use backend::file::{
    Allocate, Caller, FileBackend, FileKind, Handle, IfExists, Name, NewFile, NewKind, RemoveKind,
    SetAttributes, SetXattr, Stability, WriteAt,
};
use pool::filesystem::{FileSystem, Purpose, Store, Transaction};
use pool::format::filesystem::{
    Charge, Dirent, FileOwner, FilePart, Inode, KIND_DIRENT, KIND_INLINE, KIND_XATTR, Orphan,
    ROOT_OBJECT, encode_charge, encode_files, files_key, kind_keys, object_keys, orphan_key,
    record_size_of,
};
use pool::format::{DatasetKind, Key, ObjectId};
use pool::inspect::{Finding, FindingKind};
use pool::{FileStore, NewFilesystem, Pool};

use crate::inspect::world::{flip, inspect, machine, make, run};

const CACHED: Stability = Stability::Cached;

/// A filesystem, and short calls as the superuser.
pub(crate) struct Files {
    pub(crate) files: FileSystem<FileStore>,
    caller: Caller,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

impl Files {
    pub(crate) async fn open(store: FileStore) -> Self {
        let files = FileSystem::open(store, 7).await.expect("opened");
        let caller = Caller::root();
        Self { files, caller }
    }

    pub(crate) async fn make(&self, at: Handle, text: &str, kind: NewKind) -> Handle {
        let new = NewFile {
            kind,
            mode: 0o755,
            umask: None,
            acl: None,
        };
        let name = name(text);
        let made = self
            .files
            .create(&self.caller, at, &name, new, IfExists::Fail, CACHED);
        made.await.expect("made").value.object.handle
    }

    pub(crate) async fn write(&self, of: Handle, offset: u64, len: usize, byte: u8) {
        let mut data = io::pool().alloc(len).await;
        data.fill(byte);
        let at = WriteAt::Offset(offset);
        let written = self
            .files
            .write(&self.caller, of, at, data.into(), CACHED)
            .await;
        written.expect("written");
    }

    /// The handle of a name; `None` if there is none.
    pub(crate) async fn find(&self, at: Handle, text: &str) -> Option<Handle> {
        let found = self.files.lookup(&self.caller, at, &name(text)).await;
        found.ok().map(|found| found.handle)
    }

    pub(crate) async fn set_size(&self, of: Handle, size: u64) {
        let size = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let set = self.files.set_attributes(&self.caller, of, size, CACHED);
        set.await.expect("set");
    }

    pub(crate) async fn punch(&self, of: Handle, bytes: Range<u64>) {
        let how = Allocate::Punch;
        let punched = self.files.allocate(&self.caller, of, bytes, how, false);
        punched.await.expect("punched");
    }

    async fn remove(&self, at: Handle, text: &str) {
        let name = name(text);
        let removed = self
            .files
            .remove(&self.caller, at, &name, RemoveKind::Any, CACHED);
        removed.await.expect("removed");
    }

    async fn set_xattr(&self, of: Handle, len: usize) {
        let (value, how) = (Some(vec![7; len]), SetXattr::Either);
        let set = self
            .files
            .set_xattr(&self.caller, of, b"user.a", value, how, CACHED);
        set.await.expect("set");
    }

    /// Directories, files of many sizes, links, symlinks and attributes.
    async fn furnish(&self) {
        let root = self.files.root();
        let (caller, files) = (&self.caller, &self.files);
        let directory = self.make(root, "a", NewKind::Directory).await;
        let inner = self.make(directory, "b", NewKind::Directory).await;
        for n in 0..100 {
            let file = self.make(inner, &format!("f{n}"), NewKind::File).await;
            self.write(file, n * 3000, 100 + 500 * n as usize, 1).await;
            if n % 10 == 0 {
                self.set_xattr(file, 300 * n as usize).await;
                let linked = files.link(caller, file, directory, &name(&format!("l{n}")), CACHED);
                linked.await.expect("linked");
                let linked = files.link(caller, file, root, &name(&format!("k{n}")), CACHED);
                linked.await.expect("linked");
            }
        }
        self.make(root, "s", NewKind::Symlink(vec![b'x'; 2500]))
            .await;
        self.make(root, "p", NewKind::Fifo).await;
    }

    /// Changes of all kinds of entries.
    async fn change(&self) {
        let root = self.files.root();
        let lookup = |at, text: &'static str| async move {
            let name = name(text);
            let found = self.files.lookup(&self.caller, at, &name).await;
            found.expect("found").handle
        };
        let directory = lookup(root, "a").await;
        let inner = lookup(directory, "b").await;
        for text in ["f10", "f11", "f12"] {
            self.remove(inner, text).await;
        }
        self.remove(directory, "l20").await;
        self.remove(root, "p").await;
        let file = lookup(inner, "f90").await;
        self.set_xattr(file, 20_000).await;
        self.write(file, 0, 30_000, 2).await;
        let size = SetAttributes {
            size: Some(10_000),
            ..SetAttributes::default()
        };
        let set = self
            .files
            .set_attributes(&self.caller, file, size, CACHED)
            .await;
        set.expect("set");
        let new = self.make(root, "new", NewKind::Directory).await;
        let file = self.make(new, "file", NewKind::File).await;
        self.write(file, 0, 40_000, 3).await;
        let _durable = self.files.commit_all().await.expect("durable");
    }
}

pub(crate) fn new_files(name: &str) -> NewFilesystem {
    NewFilesystem {
        record_size: 16 << 10,
        compression: pool::format::Packing::Off,
        ..NewFilesystem::new(name)
    }
}

pub(crate) async fn create(pool: &Pool, name: &str) -> Files {
    let store = pool.create_filesystem(new_files(name)).await;
    Files::open(store.expect("a filesystem")).await
}

#[test]
fn a_sound_filesystem_with_snapshots_and_clones_is_sound() {
    run(async {
        let node = machine();
        let done = node.spawn(async {
            let pool = make().await;
            let files = create(&pool, "home").await;
            files.furnish().await;
            pool.create_snapshot("home", "then").await.expect("taken");
            files.change().await;
            pool.checkpoint().await.expect("a checkpoint");
            let clone = pool.clone_snapshot("home", "then", "clone").await;
            drop(clone.expect("a clone"));
            let clone = pool.filesystem("clone").expect("it is there");
            Files::open(clone).await.change().await;
            pool.checkpoint().await.expect("a checkpoint");
            pool.close().await.expect("closed");
        });
        done.await.expect("it ran");
        node.kill();
        let view = node.spawn(inspect()).await.expect("it ran");
        view.assert_sound();
        let found = &view.found;
        let names: Vec<_> = found.datasets.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["home@then", "home", "clone"]);
        assert_eq!(found.datasets[0].kind, DatasetKind::FilesystemSnapshot);
        let datasets: u64 = found.datasets.iter().map(|d| d.used).sum();
        assert_eq!(datasets + found.lists + found.journal, found.saved);
    });
}

/// The texts of the findings about files, after a transaction that no filesystem makes was applied to a sound filesystem.
fn spoilt(
    spoil: impl AsyncFnOnce(&FileStore, &mut Transaction) + 'static,
) -> Vec<(Option<u64>, String)> {
    run(async {
        let node = machine();
        let done = node.spawn(async {
            let pool = make().await;
            create(&pool, "home").await.furnish().await;
            pool.checkpoint().await.expect("a checkpoint");
            let store = pool.filesystem("home").expect("it is there");
            let mut transaction = Transaction::new();
            spoil(&store, &mut transaction).await;
            let bytes = transaction.bytes();
            let admitted = store.admit(bytes, Purpose::Use).await.expect("admitted");
            store.apply(transaction, admitted).expect("applied");
            pool.checkpoint().await.expect("a checkpoint");
            pool.close().await.expect("closed");
        });
        done.await.expect("it ran");
        node.kill();
        let view = node.spawn(inspect()).await.expect("it ran");
        let damage = &view.found.findings.damage;
        let others = damage.iter().filter(|f| f.kind != FindingKind::File);
        assert_eq!(others.count(), 0, "{damage:#?}");
        let object = |f: &Finding| f.file.as_ref().and_then(FilePart::object);
        let found = view.of(FindingKind::File);
        found.iter().map(|f| (object(f), f.text.clone())).collect()
    })
}

/// An object that the root directory has by this name, with its entry.
async fn find(store: &FileStore, text: &str) -> (Key, Dirent) {
    let keys = kind_keys(ROOT_OBJECT, KIND_DIRENT);
    let entries = store.scan(keys, 1000).await.expect("read");
    let decode = |(key, value): &(Key, Vec<u8>)| (*key, Dirent::decode(value).expect("an entry"));
    let mut all = entries.iter().map(decode);
    let found = all.find(|(_, entry)| entry.name == name(text));
    found.expect("it is there")
}

async fn inode(store: &FileStore, object: ObjectId) -> Inode {
    let inode = store.inode(object).await.expect("read");
    inode.expect("it is there")
}

#[test]
fn an_entry_that_leads_nowhere_is_named() {
    let found = spoilt(async |store, transaction| {
        let (_, entry) = find(store, "k30").await;
        let keys = object_keys(entry.target.object);
        transaction.delete_range(keys);
    });
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    let leads = texts.iter().filter(|text| text.contains("leads to it"));
    assert_eq!(leads.count(), 3, "the file had three names: {texts:?}");
    let objects: BTreeSet<_> = found.iter().filter_map(|(object, _)| *object).collect();
    assert_eq!(
        objects.len(),
        2,
        "the file, and the value of its attribute: {found:?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("have an inode")),
        "{texts:?}"
    );
}

#[test]
fn a_name_without_an_entry_is_named() {
    let found = spoilt(async |store, transaction| {
        let (key, _) = find(store, "k30").await;
        transaction.delete(key);
    });
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].0, Some(ROOT_OBJECT.0));
    assert!(found[0].1.contains("entries, its inode says"), "{found:?}");
    assert!(found[1].1.contains("does not lead to it"), "{found:?}");
}

#[test]
fn wrong_numbers_of_links_entries_and_files_are_named() {
    let found = spoilt(async |store, transaction| {
        let (_, entry) = find(store, "k30").await;
        let file = inode(store, entry.target.object).await;
        let links = Inode {
            links: file.links + 1,
            ..file
        };
        transaction.put_inode(entry.target.object, links);
        let (_, entry) = find(store, "a").await;
        let directory = inode(store, entry.target.object).await;
        let less = Inode {
            size: directory.size - 1,
            links: directory.links + 1,
            ..directory
        };
        transaction.put_inode(entry.target.object, less);
        transaction.put(files_key(), encode_files(7));
    });
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    for expected in [
        "names, its inode says",
        "entries, its inode says",
        "subdirectories",
        "7 is recorded",
    ] {
        assert!(
            texts.iter().any(|text| text.contains(expected)),
            "{texts:?}"
        );
    }
}

#[test]
fn wrong_space_of_a_file_is_named() {
    let found = spoilt(async |store, transaction| {
        let (_, entry) = find(store, "k30").await;
        let file = inode(store, entry.target.object).await;
        transaction.charged(entry.target.object, Charge::of(&file));
        let less = Inode {
            used: file.used - 4096,
            ..file
        };
        transaction.put_inode(entry.target.object, less);
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("its contents take"), "{found:?}");
}

#[test]
fn wrong_space_of_an_owner_is_named() {
    let found = spoilt(async |_, transaction| {
        let other = FileOwner::Group(77);
        transaction.put(other.space_key(), encode_charge(12_345));
    });
    assert_eq!(found.len(), 1, "{found:?}");
    let text = "the files of group 77 take 0 bytes; 12345 are recorded";
    assert!(found[0].1.contains(text), "{found:?}");
}

#[test]
fn a_directory_that_is_not_below_the_root_is_named() {
    let found = spoilt(async |store, transaction| {
        // The entry of `a` moves from the root into `b`, which lies in `a`.
        let (key, entry) = find(store, "a").await;
        let a = entry.target.object;
        let inner = store
            .scan(kind_keys(a, KIND_DIRENT), 1000)
            .await
            .expect("read");
        let inner = inner
            .iter()
            .map(|(_, value)| Dirent::decode(value).expect("an entry"));
        let b = inner.into_iter().find(|e| e.kind == FileKind::Directory);
        let b = b.expect("it is there").target.object;
        transaction.delete(key);
        transaction.put(Key::new(b, KIND_DIRENT, key.offset()), entry.encode());
        let root = inode(store, ROOT_OBJECT).await;
        let less = Inode {
            size: root.size - 1,
            links: root.links - 1,
            ..root
        };
        transaction.put_inode(ROOT_OBJECT, less);
        let inode_a = inode(store, a).await;
        transaction.put_inode(
            a,
            Inode {
                parent: b,
                ..inode_a
            },
        );
        let inode_b = inode(store, b).await;
        let more = Inode {
            size: inode_b.size + 1,
            links: inode_b.links + 1,
            ..inode_b
        };
        transaction.put_inode(b, more);
    });
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().all(|(_, text)| text.contains("no way leads")),
        "{found:?}"
    );
}

#[test]
fn orphans_attributes_and_chunks_are_checked() {
    let found = spoilt(async |store, transaction| {
        let (_, link) = find(store, "s").await;
        let symlink = link.target.object;
        transaction.delete(Key::new(symlink, KIND_INLINE, 1));
        let (_, fifo) = find(store, "p").await;
        let orphan = Orphan { freed: 0 };
        transaction.put(orphan_key(fifo.target.object), orphan.encode());
        let (_, file) = find(store, "k90").await;
        let attributes = store.scan(kind_keys(file.target.object, KIND_XATTR), 10);
        let (key, _) = attributes.await.expect("read").remove(0);
        transaction.delete(key);
    });
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    for expected in [
        "chunk 2 of its value",
        "bytes of a symlink's target",
        "list of orphans",
        "belongs to no attribute",
    ] {
        assert!(
            texts.iter().any(|text| text.contains(expected)),
            "{texts:?}"
        );
    }
    assert_eq!(texts.len(), 4, "{texts:?}");
}

/// A number says the record size of a file: of no other object, and never the size that the filesystem has anyway.
#[test]
fn numbers_with_wrong_record_sizes_are_named() {
    let found = spoilt(async |store, transaction| {
        let base = store.settings().base_record_size;
        let (_, file) = find(store, "k30").await;
        let (_, fifo) = find(store, "p").await;
        for (of, class) in [(&file, 15), (&fifo, 9)] {
            let number = ObjectId(of.target.object.0 | class << 52);
            assert_ne!(record_size_of(ObjectId(9 << 52), base), base);
            let own = inode(store, of.target.object).await;
            transaction.put_inode(number, own);
        }
    });
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    for expected in ["no possible record size", "but it is no file"] {
        let named = texts.iter().filter(|text| text.contains(expected));
        assert_eq!(named.count(), 1, "{texts:?}");
    }
}

#[test]
fn files_are_not_judged_below_a_node_that_cannot_be_read() {
    run(async {
        let node = machine();
        let done = node.spawn(async {
            let pool = make().await;
            create(&pool, "home").await.furnish().await;
            pool.checkpoint().await.expect("a checkpoint");
            pool.close().await.expect("closed");
        });
        done.await.expect("it ran");
        node.kill();
        let spoil = async {
            let root = inspect().await.root("home");
            flip(&root, &[0, 1]).await;
        };
        node.spawn(spoil).await.expect("it ran");
        let view = node.spawn(inspect()).await.expect("it ran");
        assert_eq!(view.of(FindingKind::File).len(), 0);
        let notes = &view.found.findings.notes;
        assert!(
            notes
                .iter()
                .any(|note| note.contains("files were not checked")),
            "{notes:?}"
        );
    });
}
