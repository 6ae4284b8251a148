//! The entries of one object after another: rules within an object, and its ties to others.
//!
//! **Owns** the object whose entries are being read. **Called by** each pass over a filesystem's tree. **Invariants**: entries
//! come in the order of their keys, so an object's inode comes before its names, attributes and chunks; memory for an object
//! does not depend on the number of its entries.

use backend::file::FileKind;

use super::charges::Charges;
use super::directories::Directories;
use super::space::{FileSpace, WrongSpace};
use super::ties::{Tie, Ties};
use crate::format::filesystem::{
    ACL_SIZE_MAX, CHUNK_SIZE, Charge, Dirent, FIRST_OBJECT, Folding, HASH_KEY_SIZE, HEADER_OBJECT,
    Header, Inode, InodeFlags, KIND_ACL, KIND_BLOCK, KIND_BLOCK_FRAGMENT, KIND_DATA, KIND_DIRENT,
    KIND_INLINE, KIND_INODE, KIND_LINK, KIND_ORPHAN, KIND_XATTR, Link, NameHash, Orphan, SLOTS,
    Xattr, XattrValue, claimed_number, counted_key, decode_acl, decode_charge, decode_counted,
    decode_files, files_key, has_own_record_size, header_key, is_file_number, record_size_of,
};
use crate::format::{Defect, KIND_FRAGMENT, Key, Kind, ObjectId, Value};
use crate::inspect::limits::FINDINGS_MAX;

/// Chunks of a value, which must have no gaps.
#[derive(Default)]
struct Chunks {
    next: u64,
    bytes: u64,
    is_last_short: bool,
}

impl Chunks {
    /// Adds a chunk. False if the one before it is missing or short, or if it is empty or too long itself.
    fn add(&mut self, number: u64, len: usize) -> bool {
        let is_right =
            number == self.next && !self.is_last_short && (1..=CHUNK_SIZE).contains(&len);
        self.next = number + 1;
        self.bytes += len as u64;
        self.is_last_short = len < CHUNK_SIZE;
        is_right
    }
}

/// What the entries of one object have shown so far.
#[derive(Default)]
struct Object {
    inode: Option<Inode>,
    has_data: bool,
    space: FileSpace,
    /// Entries of a directory, and those of them that are directories.
    entries: u64,
    directories: u64,
    /// Further names.
    links: u64,
    acl: Vec<u8>,
    acl_chunks: Chunks,
    inline: Chunks,
}

/// A defect of an object.
pub(super) struct Wrong {
    pub(super) object: ObjectId,
    pub(super) text: String,
}

/// One pass over a filesystem's tree.
pub(super) struct Pass<T> {
    ties: T,
    /// Bytes of a record of files without a size of their own.
    base_record_size: u32,
    header: Option<Header>,
    files: Option<u64>,
    /// Objects with an inode.
    inodes: u64,
    at: ObjectId,
    object: Object,
    directories: Directories,
    charges: Charges,
    wrong: Vec<Wrong>,
    /// Further defects.
    more: u64,
}

/// The result of a pass.
pub(super) struct Passed<T> {
    pub(super) ties: T,
    pub(super) header: Option<Header>,
    pub(super) directories: Directories,
    pub(super) wrong: Vec<Wrong>,
    /// Further defects.
    pub(super) more: u64,
    /// Whether some owners were not compared.
    pub(super) has_more_owners: bool,
}

impl<T: Ties> Pass<T> {
    pub(super) fn new(ties: T, base_record_size: u32) -> Self {
        Self {
            ties,
            base_record_size,
            header: None,
            files: None,
            inodes: 0,
            at: HEADER_OBJECT,
            object: Object::default(),
            directories: Directories::default(),
            charges: Charges::default(),
            wrong: Vec::new(),
            more: 0,
        }
    }

    fn wrong(&mut self, text: impl Into<String>) {
        let (object, text) = (self.at, text.into());
        match self.wrong.len() < FINDINGS_MAX {
            true => self.wrong.push(Wrong { object, text }),
            false => self.more += 1,
        }
    }

    /// Takes the next entry.
    pub(super) fn entry(&mut self, key: Key, value: &Value) {
        if key.object() != self.at {
            self.end_object();
            self.at = key.object();
        }
        let is_data =
            [KIND_DATA, KIND_FRAGMENT, KIND_BLOCK, KIND_BLOCK_FRAGMENT].contains(&key.kind());
        let taken = match value {
            _ if is_data => {
                self.object.has_data = true;
                self.check_record(key, value);
                self.object.space.add(key, value, self.base_record_size);
                Ok(())
            }
            Value::Block(_) => {
                self.wrong(format!("entry {key:?} is a block"));
                Ok(())
            }
            Value::Inline(bytes) if self.at == HEADER_OBJECT => self.common(key, bytes),
            Value::Inline(bytes) => self.own(key, bytes),
        };
        if let Err(defect) = taken {
            self.wrong(format!("entry {key:?}: {defect}"));
        }
    }

    /// Checks the size of a record: the number of its file says how long it may be.
    fn check_record(&mut self, key: Key, value: &Value) {
        let most = record_size_of(self.at, self.base_record_size);
        if key.kind() == KIND_DATA
            && let Some(ptr) = value.block()
            && ptr.logical_size > most
        {
            self.wrong(format!(
                "record {} has {} bytes, more than the {most} of the file's records",
                key.offset(),
                ptr.logical_size
            ));
        }
    }

    /// An entry of the whole filesystem.
    fn common(&mut self, key: Key, bytes: &[u8]) -> Result<(), Defect> {
        if key == header_key() {
            self.header = Some(Header::decode(bytes)?);
        } else if key == files_key() {
            self.files = Some(decode_files(bytes)?);
        } else if key == counted_key() {
            self.charges.set_counted(decode_counted(bytes)?);
        } else if let Some(entry) = decode_charge(key, bytes)? {
            self.charges.add_entry(entry);
        } else if key.kind() == KIND_ORPHAN {
            Orphan::decode(bytes)?;
            let object = ObjectId(key.offset());
            self.ties.state(Tie::Orphan { object });
        } else {
            self.wrong(format!("entry {key:?} has an unknown key"));
        }
        Ok(())
    }

    /// An entry of an object.
    fn own(&mut self, key: Key, bytes: &[u8]) -> Result<(), Defect> {
        let offset = key.offset();
        match key.kind() {
            KIND_INODE if offset == 0 => self.object.inode = Some(Inode::decode(bytes)?),
            KIND_DIRENT => self.dirent(offset, &Dirent::decode(bytes)?),
            KIND_XATTR => self.xattr(offset, Xattr::decode(bytes)?),
            KIND_ACL => {
                if !self.object.acl_chunks.add(offset, bytes.len()) {
                    self.wrong(format!(
                        "chunk {offset} of its access control list lies wrong"
                    ));
                }
                if self.object.acl.len() + bytes.len() <= ACL_SIZE_MAX {
                    self.object.acl.extend_from_slice(bytes);
                }
            }
            KIND_LINK => self.link(offset, Link::decode(bytes)?),
            KIND_INLINE => {
                if !self.object.inline.add(offset, bytes.len()) {
                    self.wrong(format!("chunk {offset} of its value lies wrong"));
                }
            }
            _ => self.wrong(format!("entry {key:?} has an unknown key")),
        }
        Ok(())
    }

    /// Checks the place of an entry: a slot of its hash.
    fn place(&mut self, kind: Kind, offset: u64, hashed: &[u8]) {
        let hash_key: Option<[u8; HASH_KEY_SIZE]> = self.header.map(|header| header.hash_key);
        let right = hash_key.map(|key| NameHash::of(&key, hashed).offset(0));
        if right.is_some_and(|right| right != offset - offset % SLOTS) {
            self.wrong(format!(
                "entry {:?} is not at the place of its hash",
                Key::new(self.at, kind, offset)
            ));
        }
    }

    fn dirent(&mut self, offset: u64, entry: &Dirent) {
        if self
            .object
            .inode
            .is_none_or(|inode| inode.kind != FileKind::Directory)
        {
            self.wrong(format!(
                "entry {offset:x} is a directory entry, but this is no directory"
            ));
        }
        let folding = self.header.map_or(Folding::None, |header| header.folding);
        match folding.fold(entry.name.as_bytes()) {
            Some(folded) => self.place(KIND_DIRENT, offset, &folded),
            None => self.wrong(format!(
                "the name of entry {offset:x} is not UTF-8, although case is folded"
            )),
        }
        self.object.entries += 1;
        self.object.directories += u64::from(entry.kind == FileKind::Directory);
        self.ties.state(Tie::Name {
            object: entry.target.object,
            generation: entry.target.generation,
            kind: entry.kind,
            name: Link {
                parent: self.at,
                entry: offset,
            },
        });
    }

    fn xattr(&mut self, offset: u64, attribute: Xattr) {
        if self
            .object
            .inode
            .is_none_or(|inode| !inode.flags.has(InodeFlags::XATTRS))
        {
            self.wrong("it has an extended attribute, which its inode does not say");
        }
        self.place(KIND_XATTR, offset, &attribute.name);
        if let XattrValue::Object { object, size } = attribute.value {
            let size = size.into();
            self.ties.state(Tie::Value { object, size });
        }
    }

    fn link(&mut self, offset: u64, name: Link) {
        self.place(KIND_LINK, offset, &name.encode());
        self.object.links += 1;
        match self.object.inode {
            None => {}
            Some(inode) if !inode.flags.has(InodeFlags::LINKS) => {
                self.wrong("it has a further name, which its inode does not say");
            }
            Some(inode) => self.answer_name(&inode, name),
        }
    }

    fn answer_name(&mut self, inode: &Inode, name: Link) {
        self.ties.answer(Tie::Name {
            object: self.at,
            generation: inode.generation,
            kind: inode.kind,
            name,
        });
    }

    /// Checks the object whose entries have ended.
    fn end_object(&mut self) {
        let object = std::mem::take(&mut self.object);
        if self.at == HEADER_OBJECT {
            if self.header.is_none() {
                self.wrong("the filesystem has no header");
            }
            return;
        }
        let is_given = |header: Header| {
            let claimed = claimed_number(self.at);
            self.at == header.root || (FIRST_OBJECT..header.next).contains(&claimed)
        };
        if !self.header.is_none_or(is_given) {
            self.wrong("its number was never given to an object");
        }
        if !is_file_number(self.at, self.base_record_size) {
            self.wrong("its number has no possible record size");
        }
        match &object.inode {
            Some(inode) => self.end_with_inode(inode, &object),
            None => self.end_hidden(&object),
        }
    }

    /// An object without an inode is the value of an attribute.
    fn end_hidden(&mut self, object: &Object) {
        if object.has_data || object.links > 0 || object.acl_chunks.next > 0 {
            self.wrong("it has contents, names or a list, but no inode");
        }
        if object.inline.next > 0 {
            self.ties.answer(Tie::Value {
                object: self.at,
                size: object.inline.bytes,
            });
        }
    }

    fn end_with_inode(&mut self, inode: &Inode, object: &Object) {
        self.inodes += 1;
        self.charges.add(self.at, Charge::of(inode));
        let record_size = record_size_of(self.at, self.base_record_size);
        if inode.kind == FileKind::File
            && let Some(wrong) = object.space.wrong(inode, record_size.into())
        {
            let WrongSpace { found, recorded } = wrong;
            self.wrong(format!(
                "its contents take {found} bytes, its inode says {recorded}"
            ));
        }
        if object.has_data && inode.kind != FileKind::File {
            self.wrong("it has contents, but it is no file");
        }
        if has_own_record_size(self.at) && inode.kind != FileKind::File {
            self.wrong("its number has a record size, but it is no file");
        }
        let has_acl = inode.flags.has(InodeFlags::ACL);
        if has_acl != (object.acl_chunks.next > 0) {
            self.wrong("its inode and its entries disagree about an access control list");
        } else if has_acl && let Err(defect) = decode_acl(&object.acl) {
            self.wrong(format!("its access control list: {defect}"));
        }
        let target = if inode.kind == FileKind::Symlink {
            inode.size
        } else {
            0
        };
        if object.inline.bytes != target {
            self.wrong(format!(
                "it has {} bytes of a symlink's target, its inode says {target}",
                object.inline.bytes
            ));
        }
        self.end_names(inode, object);
        if inode.kind == FileKind::Directory {
            self.end_directory(inode, object);
        }
    }

    fn end_names(&mut self, inode: &Inode, object: &Object) {
        let is_root = self.header.is_some_and(|header| header.root == self.at);
        let first = Link {
            parent: inode.parent,
            entry: inode.entry,
        };
        let is_nowhere = first.parent == HEADER_OBJECT && first.entry == 0;
        match inode.links {
            0 => {
                if object.links > 0 || !is_nowhere {
                    self.wrong("it has names, but a number of links of 0");
                }
                self.ties.answer(Tie::Orphan { object: self.at });
            }
            _ if is_root => {
                if inode.kind != FileKind::Directory
                    || first.parent != self.at
                    || first.entry != 0
                    || object.links > 0
                {
                    self.wrong(
                        "it is the root, but no directory, or it has another parent or a name",
                    );
                }
            }
            links => {
                self.answer_name(inode, first);
                let names = 1 + object.links;
                let expected = if inode.kind == FileKind::Directory {
                    1
                } else {
                    links.into()
                };
                if names != expected {
                    self.wrong(format!("it has {names} names, its inode says {expected}"));
                }
            }
        }
    }

    fn end_directory(&mut self, inode: &Inode, object: &Object) {
        if inode.size != object.entries {
            self.wrong(format!(
                "it has {} entries, its inode says {}",
                object.entries, inode.size
            ));
        }
        if inode.links > 0 {
            if u64::from(inode.links) != 2 + object.directories {
                self.wrong(format!(
                    "it has {} subdirectories, its inode has {} links, which should be 2 more",
                    object.directories, inode.links
                ));
            }
            self.directories.add(self.at, inode.parent);
        }
    }

    /// Ends the pass.
    pub(super) fn finish(mut self) -> Passed<T> {
        self.end_object();
        self.at = HEADER_OBJECT;
        if self.files != Some(self.inodes) {
            let said = self
                .files
                .map_or("nothing".to_owned(), |files| files.to_string());
            self.wrong(format!(
                "{} objects have an inode; {said} is recorded",
                self.inodes
            ));
        }
        let charges = std::mem::take(&mut self.charges);
        charges.wrong().for_each(|text| self.wrong(text));
        Passed {
            has_more_owners: charges.is_partial,
            ties: self.ties,
            header: self.header,
            directories: self.directories,
            wrong: self.wrong,
            more: self.more,
        }
    }
}
