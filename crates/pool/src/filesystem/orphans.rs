//! The end of objects: removal with the last name, orphans, and the freeing of their space.
//!
//! **Owns** the removal and freeing of objects without names. **Called by** removals and renames, and by the task that frees orphans.
//! **Invariants**: an object that is open, or that has too much to be deleted in one transaction, becomes an orphan in the
//! transaction that removes its last name; each step deletes at most [`FREE_STEP`] bytes of data or [`PAGE`] attributes, and
//! notes its progress in the same transaction, so that freeing goes on after a crash; a damaged orphan is left alone.
//! `docs/format.md`, "Orphans".

use backend::file::{FileKind, FileResult, Seek};

use super::inner::{Inner, contradiction};
use super::numbers::Files;
use super::object::Object;
use super::slots::damaged;
use super::store::{Purpose, Store, Transaction};
use crate::format::filesystem::{
    Charge, HEADER_OBJECT, InodeFlags, KIND_INLINE, KIND_ORPHAN, KIND_XATTR, OBJECT_END, Orphan,
    Xattr, XattrValue, kind_keys, object_keys, orphan_key,
};
use crate::format::{Key, ObjectId, RECORD_SIZE_MAX};

/// Most bytes of data that one transaction frees.
pub(super) const FREE_STEP: u64 = 1 << 30;
/// Most extended attributes that one transaction removes, and orphans that are read at once.
const PAGE: usize = 64;

/// An object that has lost its last name.
pub(super) struct Doomed {
    object: Object,
    /// All that deletes it in one transaction, if that is possible.
    now: Option<Transaction>,
}

/// The deletion of a page of an object's extended attributes, with the hidden objects of their values.
struct XattrPage {
    transaction: Transaction,
    /// Whether there may be more.
    is_partial: bool,
}

impl<S: Store> Inner<S> {
    /// Stores an object that has lost a name. Returns it if that was the last one.
    pub(super) async fn lose_name(
        &self,
        transaction: &mut Transaction,
        object: Object,
    ) -> FileResult<Option<Doomed>> {
        if object.inode.links > 0 {
            transaction.put_inode(object.number, object.inode);
            return Ok(None);
        }
        let is_large = object.inode.kind == FileKind::File && object.inode.size > FREE_STEP;
        let now = match is_large {
            true => None,
            false => self.deletion(&object).await?,
        };
        Ok(Some(Doomed { object, now }))
    }

    /// All that deletes an object; `None` if that is too much for one transaction.
    async fn deletion(&self, object: &Object) -> FileResult<Option<Transaction>> {
        let mut all = Transaction::new();
        if object.inode.flags.has(InodeFlags::XATTRS) {
            let page = self.xattr_page(object.number).await?;
            if page.is_partial {
                return Ok(None);
            }
            all = page.transaction;
        }
        if object.inode.kind == FileKind::File {
            all.discard(object.number, 0..u64::MAX);
        }
        all.charged(object.number, Charge::of(&object.inode));
        all.delete_range(object_keys(object.number));
        Ok(Some(all))
    }

    async fn xattr_page(&self, object: ObjectId) -> FileResult<XattrPage> {
        let page = self.store.scan(kind_keys(object, KIND_XATTR), PAGE).await?;
        let mut transaction = Transaction::new();
        for (key, bytes) in &page {
            let xattr = Xattr::decode(bytes).map_err(|defect| damaged(object, &defect))?;
            if let XattrValue::Object { object, .. } = xattr.value {
                transaction.delete_range(kind_keys(object, KIND_INLINE));
            }
            transaction.delete(*key);
        }
        Ok(XattrPage {
            transaction,
            is_partial: page.len() == PAGE,
        })
    }

    /// Admits and applies a transaction that removes names, and with them perhaps an object.
    pub(super) async fn commit_removal(
        &self,
        mut transaction: Transaction,
        purpose: Purpose,
        doomed: Option<Doomed>,
    ) -> FileResult<()> {
        let Some(Doomed { object, now }) = doomed else {
            return self.commit(transaction, purpose, Files::Same).await;
        };
        let mut later = Transaction::new();
        later.put_inode(object.number, object.inode);
        later.put(orphan_key(object.number), Orphan { freed: 0 }.encode());
        let most = now
            .as_ref()
            .map_or(0, Transaction::bytes)
            .max(later.bytes());
        let admitted = self.admit(transaction.bytes() + most, purpose).await?;
        let mut holds = self.holds.lock();
        match now.filter(|_| !holds.is_open(object.number)) {
            Some(now) => {
                transaction.append(now);
                self.apply(transaction, admitted, Files::Fewer)?;
            }
            None => {
                transaction.append(later);
                self.apply(transaction, admitted, Files::Same)?;
                holds.orphaned(object.number);
                self.holds.ring();
            }
        }
        drop(holds);
        if object.is_directory() {
            self.hub.end(object.number.0);
        }
        Ok(())
    }

    /// Frees an orphan that is not open, in bounded steps. Returns whether there was one. Errors: those of the medium; the
    /// orphan is tried again when the filesystem is opened again.
    pub(super) async fn free_orphan(&self) -> FileResult<bool> {
        match self.next_orphan().await? {
            Some(object) => self.free(object).await.map(|()| true),
            None => Ok(false),
        }
    }

    async fn free(&self, object: ObjectId) -> FileResult<()> {
        let _turn = self.turns.take(object).await;
        while self.free_step(object).await? {
            io::yield_now().await;
        }
        Ok(())
    }

    /// An orphan to be freed.
    async fn next_orphan(&self) -> FileResult<Option<ObjectId>> {
        loop {
            let from = {
                let mut holds = self.holds.lock();
                if let Some(object) = holds.take_ready() {
                    return Ok(Some(object));
                }
                match holds.pass() {
                    Some(from) => from,
                    None => return Ok(None),
                }
            };
            let keys = orphan_key(from)..Key::new(HEADER_OBJECT, KIND_ORPHAN, OBJECT_END - 1);
            let page = self.store.scan(keys, PAGE).await?;
            let mut holds = self.holds.lock();
            let last = page.last().map(|(key, _)| ObjectId(key.offset() + 1));
            holds.set_pass(last.filter(|_| page.len() == PAGE));
            for (key, _) in page {
                holds.orphaned(ObjectId(key.offset()));
            }
        }
    }

    /// Frees a part of an orphan. Returns whether there is more.
    async fn free_step(&self, object: ObjectId) -> FileResult<bool> {
        let Some(bytes) = self.store.get(orphan_key(object)).await? else {
            // Freed already: it was on the list, and found by a pass too.
            return Ok(false);
        };
        let orphan = Orphan::decode(&bytes).map_err(|defect| damaged(object, &defect))?;
        let Some(inode) = self.store.inode(object).await? else {
            let mut transaction = Transaction::new();
            transaction.delete(orphan_key(object));
            self.commit(transaction, Purpose::Release, Files::Same)
                .await?;
            return Ok(false);
        };
        if inode.links > 0 {
            return Err(contradiction(object, "an orphan with a name"));
        }
        if let mut holds = self.holds.lock()
            && holds.is_open(object)
        {
            holds.orphaned(object);
            return Ok(false);
        }
        let object = Object {
            number: object,
            inode,
            acl: None,
        };
        if inode.kind == FileKind::File && inode.size > FREE_STEP {
            let rest = orphan.freed..inode.size;
            let next = match rest.is_empty() {
                true => None,
                false => self.store.seek(object.number, rest, Seek::Data).await?,
            };
            if let Some(next) = next {
                let start = next - next % u64::from(RECORD_SIZE_MAX);
                let end = start.saturating_add(FREE_STEP);
                let mut transaction = Transaction::new();
                transaction.discard(object.number, start..end);
                let progress = Orphan { freed: end }.encode();
                transaction.put(orphan_key(object.number), progress);
                self.commit(transaction, Purpose::Release, Files::Same)
                    .await?;
                return Ok(true);
            }
        }
        let (transaction, is_more) = match self.deletion(&object).await? {
            Some(mut all) => {
                all.delete(orphan_key(object.number));
                (all, false)
            }
            None => (self.xattr_page(object.number).await?.transaction, true),
        };
        let files = if is_more { Files::Same } else { Files::Fewer };
        self.commit(transaction, Purpose::Release, files).await?;
        Ok(is_more)
    }

    /// Frees orphans as long as the filesystem is open. An orphan that cannot be freed is left to the next opening.
    pub(super) async fn free_orphans(&self) {
        loop {
            let error = match self.next_orphan().await {
                Ok(Some(object)) => self.free(object).await.err(),
                Ok(None) => {
                    self.holds.rung().await;
                    None
                }
                Err(error) => {
                    self.holds.rung().await;
                    Some(error)
                }
            };
            if let Some(error) = error {
                tracing::warn!(filesystem = self.id, %error, "orphans cannot be freed");
            }
        }
    }
}
