//! One of two compared file systems: applies operations and states facts that the other must state too.
//!
//! **Owns** [`Side`] and [`Fact`]. **Called by** the comparison. **Invariants**: objects are numbered in the order in which they
//! are met, so the same object has the same number on both sides; facts leave out everything that a file system is free to choose.

use std::collections::BTreeMap;

use backend::file::{
    Access, Acl, Attributes, Caller, Change, CheckedBy, Cookie, Done, FileError, FileKind,
    FileResult, Handle, Hold, IfExists, NewFile, Seek, SetAttributes, SetTime, Stability,
    Timestamp, WriteAt,
};

use super::bed::{Bed, alice, bob, buffer, bytes, carol, check_change, name, new, noise};
use super::operations::{Of, Operation, Set, What};

/// Names of entries.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "long name", "ä"];
/// Names of extended attributes.
const XATTRS: [&[u8]; 5] = [
    b"user.a",
    b"user.b",
    b"trusted.a",
    b"security.a",
    b"system.a",
];
/// A time long ago, to which operations set the time of modification.
const OLD: Timestamp = Timestamp(1_000_000_007);
/// Entries of one page of the last walk.
const PAGE: usize = 50;

/// Something that both sides must agree on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Object(Normal),
    Bytes(Vec<u8>),
    Number(u64),
    Acl(Option<Acl>),
}

/// Attributes that no file system is free to choose.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Normal {
    number: usize,
    kind: FileKind,
    mode: u16,
    links: u32,
    uid: u32,
    gid: u32,
    /// Not of directories.
    size: u64,
    device: u64,
    is_old: bool,
}

type Facts = FileResult<Vec<Fact>>;

/// A file system under comparison.
pub(super) struct Side {
    bed: Bed,
    /// Objects in the order in which they were met, with their kinds.
    objects: Vec<(Handle, FileKind)>,
    numbers: BTreeMap<Handle, usize>,
    holds: Vec<(Handle, Hold)>,
}

fn caller(number: u8) -> Caller {
    match number {
        0 => alice().clone(),
        1 => bob().clone(),
        2 => carol().clone(),
        3 => Caller {
            checked_by: CheckedBy::Client,
            ..carol().clone()
        },
        _ => Caller::root(),
    }
}

impl Side {
    pub(super) async fn new(bed: Bed) -> Side {
        let mut side = Side {
            bed,
            objects: Vec::new(),
            numbers: BTreeMap::new(),
            holds: Vec::new(),
        };
        let home = side.bed.attributes(side.bed.home).await;
        side.normal(&home);
        side
    }

    /// The object that an operation means; the home directory if there is none of that kind.
    fn handle(&self, of: Of) -> Handle {
        let pick = |index: usize, kind: Option<FileKind>| {
            let fits = |(_, is): &&(Handle, FileKind)| kind.is_none_or(|kind| kind == *is);
            let all: Vec<_> = self.objects.iter().filter(fits).collect();
            let picked = all.get(index.checked_rem(all.len()).unwrap_or(0));
            picked.map_or(self.bed.home, |(handle, _)| *handle)
        };
        match of {
            Of::Any(index) => pick(index, None),
            Of::Directory(index) => pick(index, Some(FileKind::Directory)),
            Of::File(index) => pick(index, Some(FileKind::File)),
        }
    }

    fn normal(&mut self, of: &Attributes) -> Normal {
        let next = self.objects.len();
        let number = *self.numbers.entry(of.handle).or_insert(next);
        if number == next {
            self.objects.push((of.handle, of.kind));
        }
        let is_directory = of.kind == FileKind::Directory;
        Normal {
            number,
            kind: of.kind,
            mode: of.mode,
            links: of.links,
            uid: of.uid,
            gid: of.gid,
            size: if is_directory { 0 } else { of.size },
            device: of.device,
            is_old: of.modified == OLD,
        }
    }

    fn objects(&mut self, all: &[&Attributes]) -> Vec<Fact> {
        let normal = |of: &&Attributes| Fact::Object(self.normal(of));
        all.iter().map(normal).collect()
    }

    fn changes(&mut self, all: &[&Change]) -> Vec<Fact> {
        all.iter().for_each(|change| check_change(change));
        let both = all.iter().flat_map(|c| [&c.before, &c.after]);
        let both: Vec<_> = both.collect();
        self.objects(&both)
    }

    /// Applies an operation.
    pub(super) async fn apply(&mut self, operation: &Operation) -> Facts {
        let caller = caller(operation.caller);
        let stability = match operation.is_durable {
            true => Stability::Durable,
            false => Stability::Cached,
        };
        match &operation.what {
            What::Lookup(..)
            | What::Parent(_)
            | What::ReadLink(_)
            | What::Create(..)
            | What::CreateWithAcl(..)
            | What::Link(..)
            | What::Remove(..)
            | What::Rename(..)
            | What::List(..) => self.on_names(&caller, &operation.what, stability).await,
            What::Open(..)
            | What::Close(_)
            | What::Read(..)
            | What::Write(..)
            | What::Allocate(..)
            | What::Seek(..)
            | What::Copy(..)
            | What::Commit(_) => self.on_contents(&caller, &operation.what, stability).await,
            What::Attributes(_)
            | What::Set(..)
            | What::Access(..)
            | What::Xattr(..)
            | What::Xattrs(_)
            | What::SetXattr(..)
            | What::Acl(_)
            | What::SetAcl(..) => {
                self.on_attributes(&caller, &operation.what, stability)
                    .await
            }
        }
    }

    async fn on_names(&mut self, caller: &Caller, what: &What, stability: Stability) -> Facts {
        let files = self.bed.files.clone();
        let at = |number: &u8| name(NAMES[usize::from(*number) % NAMES.len()]);
        match what {
            What::Lookup(of, number) => {
                let found = files.lookup(caller, self.handle(*of), &at(number)).await?;
                Ok(self.objects(&[&found]))
            }
            What::Parent(of) => {
                let parent = files.parent(caller, self.handle(*of)).await?;
                Ok(self.objects(&[&parent]))
            }
            What::ReadLink(of) => {
                let target = files.read_link(self.handle(*of)).await?;
                Ok(vec![Fact::Bytes(target)])
            }
            What::Create(of, number, kind, mode, if_exists) => {
                let new = new(kind.clone(), *mode);
                let place = (self.handle(*of), at(number));
                self.create(caller, place, new, *if_exists, stability).await
            }
            What::CreateWithAcl(of, number, acl) => {
                let new = NewFile {
                    acl: files.limits().has_acls.then(|| acl.clone()),
                    ..new(backend::file::NewKind::Directory, 0o700)
                };
                let place = (self.handle(*of), at(number));
                let if_exists = IfExists::Fail;
                self.create(caller, place, new, if_exists, stability).await
            }
            What::Link(of, to, number) => {
                let (of, to) = (self.handle(*of), self.handle(*to));
                let linked = files.link(caller, of, to, &at(number), stability).await;
                let linked = proven(linked, stability)?;
                Ok(self.changes(&[&linked.object, &linked.directory]))
            }
            What::Remove(of, number, kind) => {
                let of = self.handle(*of);
                let removed = files.remove(caller, of, &at(number), *kind, stability);
                let removed = proven(removed.await, stability)?;
                Ok(self.changes(&[&removed.object, &removed.directory]))
            }
            What::Rename((from, old), (to, new), mode) => {
                let (from, to) = (self.handle(*from), self.handle(*to));
                let (old, new) = (at(old), at(new));
                let renamed = files.rename(caller, from, &old, to, &new, *mode, stability);
                let renamed = proven(renamed.await, stability)?;
                let mut changes = vec![&renamed.object, &renamed.from, &renamed.to];
                changes.extend(&renamed.other);
                Ok(self.changes(&changes))
            }
            What::List(of, page) => self.list(caller, self.handle(*of), *page).await,
            other => unreachable!("{other:?} is not about names"),
        }
    }

    async fn create(
        &mut self,
        caller: &Caller,
        (directory, name): (Handle, backend::file::Name),
        new: NewFile,
        if_exists: IfExists,
        stability: Stability,
    ) -> Facts {
        let files = &self.bed.files;
        let created = files.create(caller, directory, &name, new, if_exists, stability);
        let created = proven(created.await, stability)?;
        let mut facts = self.objects(&[&created.object]);
        facts.extend(self.changes(&[&created.directory]));
        facts.push(Fact::Number(created.is_new.into()));
        Ok(facts)
    }

    /// Names and objects of a directory, by name.
    async fn list(&mut self, caller: &Caller, of: Handle, page: usize) -> Facts {
        let mut entries = Vec::new();
        let mut after = Cookie::START;
        loop {
            let files = &self.bed.files;
            let listing = files.read_directory(caller, of, after, page, true).await?;
            after = listing.entries.last().map_or(after, |last| last.cookie);
            entries.extend(listing.entries);
            if listing.is_end {
                break;
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut facts = Vec::new();
        for entry in &entries {
            facts.push(Fact::Bytes(entry.name.as_bytes().to_vec()));
            facts.extend(entry.attributes.map(|a| Fact::Object(self.normal(&a))));
        }
        Ok(facts)
    }

    async fn on_contents(&mut self, caller: &Caller, what: &What, stability: Stability) -> Facts {
        let files = self.bed.files.clone();
        match what {
            What::Open(of, access) => {
                let of = self.handle(*of);
                let hold = files.open(caller, of, Access::from_bits(*access)).await?;
                self.holds.push((of, hold));
                Ok(Vec::new())
            }
            What::Close(index) => {
                self.close(*index).await;
                Ok(Vec::new())
            }
            What::Read(of, offset, len) => {
                let read = files.read(self.handle(*of), *offset, *len).await?;
                let is_end = Fact::Number(read.is_end.into());
                Ok(vec![Fact::Bytes(bytes(&read)), is_end])
            }
            What::Write(of, at, seed, len) => {
                let at = at.map_or(WriteAt::End, WriteAt::Offset);
                let data = buffer(&noise(*seed, *len)).await;
                let of = self.handle(*of);
                let written = files.write(caller, of, at, data.into(), stability).await;
                let written = proven(written, stability)?;
                let mut facts = self.changes(&[&written.object]);
                facts.push(Fact::Number(written.offset));
                Ok(facts)
            }
            What::Allocate(of, range, how, grows) => {
                let of = self.handle(*of);
                let change = files.allocate(caller, of, range.clone(), *how, *grows);
                let change = change.await?;
                Ok(self.changes(&[&change]))
            }
            What::Seek(of, offset, to) => self.seek(self.handle(*of), *offset, *to).await,
            What::Copy((from, source), (to, target), len) => {
                let (from, to) = (self.handle(*from), self.handle(*to));
                let copied = self.copy(caller, (from, *source), (to, *target), *len);
                Ok(vec![Fact::Number(copied.await?)])
            }
            What::Commit(of) => {
                let _proof = files.commit(self.handle(*of)).await?;
                Ok(Vec::new())
            }
            other => unreachable!("{other:?} is not about contents"),
        }
    }

    /// Gives a hold back, and waits until its object is gone if that was its last.
    async fn close(&mut self, index: usize) {
        let Some(index) = index.checked_rem(self.holds.len()) else {
            return;
        };
        let (of, hold) = self.holds.swap_remove(index);
        drop(hold);
        let is_held = self.holds.iter().any(|(other, _)| *other == of);
        let attributes = self.bed.files.attributes(of).await;
        if !is_held && attributes.is_ok_and(|attributes| attributes.links == 0) {
            self.bed.becomes_stale(of).await;
        }
    }

    /// A seek's answer is the file system's own, but holes read as zero.
    async fn seek(&mut self, of: Handle, offset: u64, to: Seek) -> Facts {
        let found = self.bed.files.seek(of, offset, to).await;
        let size = match found {
            Ok(_) | Err(FileError::NoData) => self.bed.attributes(of).await.size,
            Err(error) => return Err(error),
        };
        let hole = match (found, to) {
            (Err(_), Seek::Hole) => {
                assert!(offset >= size, "the end is a hole");
                return Ok(Vec::new());
            }
            (Err(_), Seek::Data) => offset.min(size)..size,
            (Ok(found), Seek::Data) => offset..found,
            (Ok(found), Seek::Hole) => found..found,
        };
        assert!(
            hole.end <= size && hole.start >= offset.min(size),
            "{hole:?}"
        );
        let len = (hole.end - hole.start) as usize;
        let zeroes = self.bed.read(of, hole.start, len).await;
        assert!(zeroes.iter().all(|b| *b == 0), "a hole has data: {hole:?}");
        Ok(Vec::new())
    }

    async fn copy(
        &self,
        caller: &Caller,
        (from, source): (Handle, u64),
        (to, target): (Handle, u64),
        len: u64,
    ) -> FileResult<u64> {
        let size = self.bed.files.attributes(from).await?.size;
        let len = len.min(size.saturating_sub(source));
        let mut done = 0;
        loop {
            let (from, to) = ((from, source + done), (to, target + done));
            let copied = self.bed.files.copy(caller, from, to, len - done).await?;
            done += copied;
            if copied == 0 || done == len {
                return Ok(done);
            }
        }
    }

    async fn on_attributes(&mut self, caller: &Caller, what: &What, stability: Stability) -> Facts {
        let files = self.bed.files.clone();
        let xattr = |number: &u8| XATTRS[usize::from(*number) % XATTRS.len()];
        let has_acls = files.limits().has_acls;
        match what {
            What::Attributes(of) => {
                let attributes = files.attributes(self.handle(*of)).await?;
                Ok(self.objects(&[&attributes]))
            }
            What::Set(of, set) => {
                let set = files.set_attributes(caller, self.handle(*of), to_set(*set), stability);
                let change = proven(set.await, stability)?;
                Ok(self.changes(&[&change]))
            }
            What::Access(of, access) => {
                let access = Access::from_bits(*access);
                let access = files.access(caller, self.handle(*of), access).await?;
                Ok(vec![Fact::Number(access.bits().into())])
            }
            What::Xattr(of, number) => {
                let value = files.xattr(caller, self.handle(*of), xattr(number)).await?;
                Ok(vec![Fact::Bytes(value)])
            }
            What::Xattrs(of) => {
                let names = files.xattrs(caller, self.handle(*of)).await?;
                assert!(names.is_sorted());
                Ok(names.into_iter().map(Fact::Bytes).collect())
            }
            What::SetXattr(of, number, len, how) => {
                let value = len.map(|len| noise(len as u64, len));
                let (of, name) = (self.handle(*of), xattr(number));
                let set = files.set_xattr(caller, of, name, value, *how, stability);
                let change = proven(set.await, stability)?;
                Ok(self.changes(&[&change]))
            }
            What::Acl(of) => Ok(vec![Fact::Acl(files.acl(self.handle(*of)).await?)]),
            What::SetAcl(_, _) if !has_acls => Ok(Vec::new()),
            What::SetAcl(of, acl) => {
                let set = files.set_acl(caller, self.handle(*of), acl.clone(), stability);
                let change = proven(set.await, stability)?;
                Ok(self.changes(&[&change]))
            }
            other => unreachable!("{other:?} is not about attributes"),
        }
    }

    /// Everything that an object has, and the entries of a directory. Returns its subdirectories too.
    pub(super) async fn describe(&mut self, of: Handle) -> (Vec<Fact>, Vec<Handle>) {
        let (files, root) = (self.bed.files.clone(), Caller::root());
        let attributes = self.bed.attributes(of).await;
        let mut facts = self.objects(&[&attributes]);
        facts.push(Fact::Acl(files.acl(of).await.expect("read the list")));
        for name in files.xattrs(&root, of).await.expect("names") {
            let value = files.xattr(&root, of, &name).await.expect("a value");
            facts.extend([Fact::Bytes(name), Fact::Bytes(value)]);
        }
        let mut below = Vec::new();
        match attributes.kind {
            FileKind::File => facts.push(Fact::Bytes(self.bed.contents(of).await)),
            FileKind::Symlink => {
                let target = files.read_link(of).await.expect("a target");
                facts.push(Fact::Bytes(target));
            }
            FileKind::Directory => {
                facts.extend(self.list(&root, of, PAGE).await.expect("list"));
                let mut entries = self.bed.list(of, PAGE).await;
                entries.sort_by(|a, b| a.name.cmp(&b.name));
                below.extend(entries.iter().map(|entry| entry.handle));
            }
            FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {}
        }
        (facts, below)
    }

    pub(super) fn home(&self) -> Handle {
        self.bed.home
    }

    /// Objects without names that are still open, in the order in which they were met.
    pub(super) fn held(&self) -> Vec<Handle> {
        let is_held = |handle: &Handle| self.holds.iter().any(|(held, _)| held == handle);
        let all = self.objects.iter().map(|(handle, _)| *handle);
        all.filter(is_held).collect()
    }
}

/// The value of a mutation, which is proven durable if that was requested.
fn proven<T>(done: FileResult<Done<T>>, stability: Stability) -> FileResult<T> {
    let done = done?;
    assert!(stability == Stability::Cached || done.durable.is_some());
    Ok(done.value)
}

fn to_set(set: Set) -> SetAttributes {
    SetAttributes {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        modified: match set.is_aged {
            true => SetTime::To(OLD),
            false => SetTime::Keep,
        },
        ..SetAttributes::default()
    }
}
