//! Names of an object: where its directory entries lie.
//!
//! **Owns** the first name in the inode, the further ones in `LINK` entries, and the number of links. **Called by** all
//! changes of names. **Invariants**: a file has as many names as links, and each of them is a directory entry; a directory
//! has one name, and 2 links and one for each subdirectory. `docs/format.md`, "Further names".

use backend::file::{FileResult, Name};

use super::inner::{Inner, contradiction};
use super::object::Object;
use super::slots::{Slots, damaged, search};
use super::store::{Store, Transaction};
use crate::format::filesystem::{Dirent, InodeFlags, KIND_DIRENT, KIND_LINK, Link, kind_keys};
use crate::format::{Key, ObjectId};

/// Names of a file that are read at once.
const PAGE: usize = 64;

/// Makes a name the first one.
fn set_first(object: &mut Object, name: Link) {
    object.inode.parent = name.parent;
    object.inode.entry = name.entry;
}

impl<S: Store> Inner<S> {
    async fn link_slots(&self, object: ObjectId, name: Link) -> FileResult<Slots<()>> {
        let bytes = name.encode();
        let hash = self.names.hash_bytes(&bytes);
        search(&self.store, object, KIND_LINK, hash, |other| {
            Ok((Link::decode(other)? == name).then_some(()))
        })
        .await
    }

    async fn put_link(
        &self,
        transaction: &mut Transaction,
        object: &mut Object,
        name: Link,
    ) -> FileResult<()> {
        let slot = self.link_slots(object.number, name).await?.free()?;
        let key = Key::new(object.number, KIND_LINK, slot);
        transaction.put(key, name.encode().into());
        object.inode.flags = object.inode.flags.with(InodeFlags::LINKS);
        Ok(())
    }

    async fn delete_link(
        &self,
        transaction: &mut Transaction,
        object: &Object,
        name: Link,
    ) -> FileResult<()> {
        let found = self.link_slots(object.number, name).await?.found;
        let (slot, ()) =
            found.ok_or_else(|| contradiction(object.number, "a name that it does not know"))?;
        transaction.delete(Key::new(object.number, KIND_LINK, slot));
        Ok(())
    }

    /// Adds a name of a file that has one.
    pub(super) async fn add_name(
        &self,
        transaction: &mut Transaction,
        object: &mut Object,
        name: Link,
    ) -> FileResult<()> {
        self.put_link(transaction, object, name).await?;
        object.inode.links += 1;
        Ok(())
    }

    /// Removes a name of an object; it may be the last one.
    pub(super) async fn drop_name(
        &self,
        transaction: &mut Transaction,
        object: &mut Object,
        name: Link,
    ) -> FileResult<()> {
        object.inode.links = match object.is_directory() {
            true => 0,
            false => object.inode.links.saturating_sub(1),
        };
        if object.inode.links == 0 {
            let none = Link {
                parent: ObjectId(0),
                entry: 0,
            };
            set_first(object, none);
        } else if object.first_name() == name {
            let next = self.store.scan(kind_keys(object.number, KIND_LINK), 1);
            let next = next.await?.pop();
            let (key, bytes) =
                next.ok_or_else(|| contradiction(object.number, "fewer names than links"))?;
            let next = Link::decode(&bytes).map_err(|defect| damaged(object.number, &defect))?;
            set_first(object, next);
            transaction.delete(key);
        } else {
            self.delete_link(transaction, object, name).await?;
        }
        if object.inode.links <= 1 {
            object.inode.flags = object.inode.flags.without(InodeFlags::LINKS);
        }
        Ok(())
    }

    /// Replaces a name of an object by another one.
    pub(super) async fn replace_name(
        &self,
        transaction: &mut Transaction,
        object: &mut Object,
        from: Link,
        to: Link,
    ) -> FileResult<()> {
        if object.first_name() == from {
            set_first(object, to);
            return Ok(());
        }
        self.delete_link(transaction, object, from).await?;
        self.put_link(transaction, object, to).await
    }

    /// A name of an object in a directory; `None` if it has none there. Names that change meanwhile may be missed.
    pub(super) async fn name_in(
        &self,
        object: &Object,
        directory: ObjectId,
    ) -> FileResult<Option<Name>> {
        let mut place = Some(object.first_name()).filter(|name| name.parent == directory);
        let mut keys = kind_keys(object.number, KIND_LINK);
        while place.is_none() && object.inode.flags.has(InodeFlags::LINKS) {
            let page = self.store.scan(keys.clone(), PAGE).await?;
            let Some((last, _)) = page.last() else {
                break;
            };
            keys.start = last.next();
            let links = page
                .iter()
                .filter_map(|(_, bytes)| Link::decode(bytes).ok());
            place = links.into_iter().find(|link| link.parent == directory);
        }
        let Some(place) = place else {
            return Ok(None);
        };
        let entry = Key::new(place.parent, KIND_DIRENT, place.entry);
        let bytes = self.store.get(entry).await?;
        let dirent = bytes.and_then(|bytes| Dirent::decode(&bytes).ok());
        let dirent = dirent.filter(|dirent| dirent.target == object.reference());
        Ok(dirent.map(|dirent| dirent.name))
    }
}
