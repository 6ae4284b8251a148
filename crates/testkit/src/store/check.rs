//! Judges the values of a filesystem: every rule of `docs/format.md` that ties one entry to another.
//!
//! **Owns** [`check`]. **Called by** tests of filesystems, and at the end of the mount that foreign suites judge.
//! **Invariants**: it reads values with the decoders of the format alone, and calls nothing of the filesystem.

use std::collections::{BTreeMap, BTreeSet};

use backend::file::FileKind;
use pool::format::filesystem::{
    Charge, ChargeEntry, Dirent, FIRST_OBJECT, HEADER_OBJECT, Header, Inode, InodeFlags, KIND_ACL,
    KIND_DIRENT, KIND_HEADER, KIND_INLINE, KIND_LINK, KIND_ORPHAN, KIND_XATTR, Link, Orphan, Xattr,
    XattrValue, charge_keys, claimed_number, counted_key, decode_acl, decode_charge,
    decode_counted, decode_files, files_key, header_key, kind_keys,
};
use pool::format::{Key, Kind, ObjectId};

use super::Durables;

struct Checker<'a> {
    of: &'a Durables,
    header: Header,
    /// Names of each object: the places of entries that lead to it.
    names: BTreeMap<ObjectId, BTreeSet<Link>>,
    hidden: BTreeMap<ObjectId, u32>,
    orphans: BTreeSet<ObjectId>,
}

/// Checks that the space by owner is that of the inodes, if it is stored. Files have no data that is not written back.
///
/// # Panics
/// With the first sum that is wrong.
pub fn check_charges(of: &Durables) {
    let Some(counted) = of.values.get(&counted_key()) else {
        return;
    };
    let counted = decode_counted(counted).expect("a number");
    let (mut stored, mut found) = (BTreeMap::new(), BTreeMap::new());
    for (key, value) in of.values.range(charge_keys()) {
        if let Some(ChargeEntry::Space(owner, bytes)) = decode_charge(*key, value).expect("space") {
            stored.insert(owner, bytes);
        }
    }
    for (_, inode) in of.inodes.range(..counted).filter(|(_, i)| i.used > 0) {
        for owner in Charge::of(inode).owners() {
            *found.entry(owner).or_insert(0) += inode.used;
        }
    }
    assert_eq!(stored, found, "space by owner");
}

/// Checks everything that a filesystem stored, except for [`check_charges`].
///
/// # Panics
/// With the first contradiction.
pub fn check(of: &Durables) {
    let header = of.values.get(&header_key()).expect("a header");
    let header = Header::decode(header).expect("a header");
    let mut checker = Checker {
        of,
        header,
        names: BTreeMap::new(),
        hidden: BTreeMap::new(),
        orphans: BTreeSet::new(),
    };
    checker.collect();
    for (object, inode) in &of.inodes {
        checker.check_object(*object, inode);
    }
    let files = decode_files(&of.values[&files_key()]).expect("a number");
    assert_eq!(files, of.inodes.len() as u64, "number of files");
    for (object, _) in of.blocks.keys() {
        assert!(of.inodes.contains_key(object), "contents of {object:?}");
    }
    checker.check_tree();
}

impl Checker<'_> {
    fn values(&self, object: ObjectId, kind: Kind) -> impl Iterator<Item = (Key, &[u8])> {
        let found = self.of.values.range(kind_keys(object, kind));
        found.map(|(key, value)| (*key, &value[..]))
    }

    fn collect(&mut self) {
        for (key, value) in &self.of.values {
            let object = key.object();
            let owner = self.of.inodes.get(&object);
            let has_kind = |kind| owner.is_some_and(|inode: &Inode| inode.kind == kind);
            match key.kind() {
                KIND_HEADER => assert_eq!(object, HEADER_OBJECT),
                KIND_ORPHAN => {
                    Orphan::decode(value).expect("an orphan");
                    self.orphans.insert(ObjectId(key.offset()));
                }
                KIND_DIRENT => {
                    assert!(has_kind(FileKind::Directory), "{key:?} in no directory");
                    let dirent = Dirent::decode(value).expect("an entry");
                    let place = Link {
                        parent: object,
                        entry: key.offset(),
                    };
                    let target = dirent.target;
                    let inode = self.of.inodes.get(&target.object);
                    let inode = inode.unwrap_or_else(|| panic!("{key:?} leads nowhere"));
                    assert_eq!(inode.generation, target.generation, "{key:?}");
                    assert_eq!(inode.kind, dirent.kind, "{key:?}");
                    self.names.entry(target.object).or_default().insert(place);
                }
                KIND_XATTR => {
                    let flags = owner.expect("an object").flags;
                    assert!(flags.has(InodeFlags::XATTRS), "{key:?}");
                    let xattr = Xattr::decode(value).expect("an attribute");
                    if let XattrValue::Object { object, size } = xattr.value {
                        assert_eq!(self.hidden.insert(object, size), None, "{key:?}");
                    }
                }
                KIND_ACL | KIND_LINK => assert!(owner.is_some(), "{key:?}"),
                KIND_INLINE => {}
                _ if decode_charge(*key, value)
                    .expect("space by owner")
                    .is_some() => {}
                other => panic!("{other:?} of {object:?}"),
            }
            let claimed = claimed_number(object);
            assert!(claimed < self.header.next, "{key:?} was never claimed");
        }
        for key in self.of.values.keys() {
            let object = key.object();
            if key.kind() == KIND_INLINE {
                let of = self.of.inodes.get(&object);
                let is_link = of.is_some_and(|inode| inode.kind == FileKind::Symlink);
                assert!(is_link || self.hidden.contains_key(&object), "{key:?}");
            }
        }
        for (object, size) in &self.hidden {
            let chunks = self.values(*object, KIND_INLINE);
            let bytes: usize = chunks.map(|(_, value)| value.len()).sum();
            assert_eq!(bytes, *size as usize, "value in {object:?}");
            assert!(!self.of.inodes.contains_key(object));
        }
    }

    fn check_object(&self, object: ObjectId, inode: &Inode) {
        assert!(object == self.header.root || object >= FIRST_OBJECT);
        let claimed = claimed_number(object);
        assert!(claimed < self.header.next, "{object:?} was never claimed");
        let is_file = inode.kind == FileKind::File;
        assert!(is_file || claimed == object, "{object:?} has records");
        let acl: Vec<u8> = self
            .values(object, KIND_ACL)
            .flat_map(|(_, value)| value.to_vec())
            .collect();
        match inode.flags.has(InodeFlags::ACL) {
            true => {
                decode_acl(&acl).expect("a list");
            }
            false => assert!(acl.is_empty(), "a list of {object:?}"),
        }
        if inode.kind == FileKind::Symlink {
            let chunks = self.values(object, KIND_INLINE);
            let bytes: usize = chunks.map(|(_, value)| value.len()).sum();
            assert_eq!(bytes as u64, inode.size, "target of {object:?}");
        }
        self.check_names(object, inode);
    }

    fn check_names(&self, object: ObjectId, inode: &Inode) {
        let first = Link {
            parent: inode.parent,
            entry: inode.entry,
        };
        let links: BTreeSet<Link> = self
            .values(object, KIND_LINK)
            .map(|(_, value)| Link::decode(value).expect("a name"))
            .collect();
        assert!(links.is_empty() || inode.flags.has(InodeFlags::LINKS));
        let mut known = links;
        let names = self.names.get(&object).cloned().unwrap_or_default();
        assert_eq!(
            self.orphans.contains(&object),
            inode.links == 0,
            "{object:?} without names"
        );
        if inode.links == 0 {
            assert_eq!((first.parent.0, first.entry), (0, 0));
            assert!(known.is_empty() && names.is_empty(), "orphan {object:?}");
            return;
        }
        if object != self.header.root {
            assert!(known.insert(first), "{object:?} has its first name twice");
        }
        assert_eq!(known, names, "names of {object:?}");
        match inode.kind {
            FileKind::Directory => self.check_directory(object, inode),
            _ => assert_eq!(inode.links as usize, names.len(), "links of {object:?}"),
        }
    }

    fn check_directory(&self, object: ObjectId, inode: &Inode) {
        let entries: Vec<Dirent> = self
            .values(object, KIND_DIRENT)
            .map(|(_, value)| Dirent::decode(value).expect("an entry"))
            .collect();
        assert_eq!(inode.size, entries.len() as u64, "entries of {object:?}");
        let directories = entries.iter().filter(|e| e.kind == FileKind::Directory);
        assert_eq!(inode.links as usize, 2 + directories.count(), "{object:?}");
    }

    /// Every directory is below the root.
    fn check_tree(&self) {
        let directories = self.of.inodes.iter();
        for (object, inode) in directories {
            let mut at = *object;
            let mut steps = 0;
            while inode.kind == FileKind::Directory && inode.links > 0 && at != self.header.root {
                at = self.of.inodes[&at].parent;
                steps += 1;
                assert!(steps <= self.of.inodes.len(), "{object:?} is in a circle");
            }
        }
    }
}
