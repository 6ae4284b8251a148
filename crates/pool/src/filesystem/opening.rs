//! Creation and opening of filesystems.
//!
//! **Owns** the first transaction of a filesystem, and the check of what an opening needs. **Called by** the creation and
//! opening of datasets. **Invariants**: a filesystem without its header is none; opening writes nothing.
//! `docs/format.md`, "Header".

use backend::file::permission::{Initial, Settled};
use backend::file::{FileKind, FileResult, Hub, NewKind};

use super::create::first_inode;
use super::damaged::DamagedDirectories;
use super::holds::Holds;
use super::inner::{Inner, contradiction};
use super::name_rules::NameRules;
use super::numbers::Numbers;
use super::object::now;
use super::slots::damaged;
use super::store::{Purpose, Store, Transaction};
use super::turns::Turns;
use crate::format::filesystem::{
    FIRST_OBJECT, Folding, HASH_KEY_SIZE, HEADER_OBJECT, Header, Link, ObjectRef, ROOT_OBJECT,
    decode_files, encode_files, files_key, header_key,
};

/// A filesystem to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFileSystem {
    /// Whether names that differ only in case are the same.
    pub is_case_insensitive: bool,
    /// User that owns the root directory.
    pub uid: u32,
    /// Group that owns the root directory.
    pub gid: u32,
    /// Permission bits of the root directory, below 0o10000.
    pub mode: u16,
}

impl Default for NewFileSystem {
    /// Names are bytes; the root directory is the superuser's, and 0o755.
    fn default() -> Self {
        Self {
            is_case_insensitive: false,
            uid: 0,
            gid: 0,
            mode: 0o755,
        }
    }
}

/// Makes an empty dataset a filesystem.
///
/// # Errors
/// `NoSpace`, `Quota`, and those of the medium.
pub async fn create_filesystem<S: Store>(store: &S, new: &NewFileSystem) -> FileResult<()> {
    let transaction = first_transaction(new);
    let admitted = store.admit(transaction.bytes(), Purpose::Use).await?;
    store.apply(transaction, admitted)
}

/// The values of a new filesystem: header, number of files, and root directory.
pub(crate) fn first_transaction(new: &NewFileSystem) -> Transaction {
    let mut hash_key = [0; HASH_KEY_SIZE];
    io::rng::fill(&mut hash_key);
    let header = Header {
        folding: match new.is_case_insensitive {
            true => Folding::Unicode18,
            false => Folding::None,
        },
        next: FIRST_OBJECT,
        root: ROOT_OBJECT,
        hash_key,
    };
    let first = Initial {
        settled: Settled {
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
        },
        acl: None,
    };
    let place = Link {
        parent: ROOT_OBJECT,
        entry: 0,
    };
    let generation = io::rng::u64();
    let root = first_inode(&NewKind::Directory, &first, place, generation, now());
    let mut transaction = Transaction::new();
    transaction.put(header_key(), header.encode());
    transaction.put(files_key(), encode_files(1));
    transaction.put_inode(ROOT_OBJECT, root);
    transaction
}

/// Opens a filesystem. `id` is its number in handles.
pub(super) async fn open<S: Store>(store: S, id: u64) -> FileResult<Inner<S>> {
    let nothing = || contradiction(HEADER_OBJECT, "no header");
    let header = store.get(header_key()).await?.ok_or_else(nothing)?;
    let header = Header::decode(&header).map_err(|d| damaged(HEADER_OBJECT, &d))?;
    let files = store.get(files_key()).await?.ok_or_else(nothing)?;
    let files = decode_files(&files).map_err(|d| damaged(HEADER_OBJECT, &d))?;
    let root = store.inode(header.root).await?;
    let root = root
        .filter(|root| root.kind == FileKind::Directory)
        .ok_or_else(|| contradiction(header.root, "no root directory"))?;
    Ok(Inner {
        store,
        id,
        root: ObjectRef {
            object: header.root,
            generation: root.generation,
        },
        names: NameRules::new(&header),
        numbers: Numbers::new(header, files),
        turns: Turns::default(),
        holds: Holds::new(),
        hub: Hub::new(),
        damaged: DamagedDirectories::default(),
    })
}
