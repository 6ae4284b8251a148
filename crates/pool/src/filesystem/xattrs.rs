//! Extended attributes.
//!
//! **Owns** their entries, and the hidden objects of large values. **Called by** [`super::FileSystem`], changes in the turn of
//! the object. **Invariants**: a hidden object belongs to one attribute, and is replaced and removed together with it; names of
//! an object take at most `XATTR_NAMES_MAX` bytes. `docs/format.md`, "Extended attributes".

use backend::StorageError;
use backend::file::permission::{check_get_xattr, check_set_xattr, is_xattr_visible};
use backend::file::{
    Caller, Change, FileError, FileResult, Handle, SetXattr, XATTR_NAMES_MAX, XATTR_VALUE_MAX,
};

use super::inner::{Inner, RETRIES_MAX, contradiction};
use super::numbers::Files;
use super::object::{Object, now};
use super::slots::{Slots, damaged, search};
use super::store::{Purpose, Store, Transaction};
use crate::format::filesystem::{
    CHUNK_SIZE, InodeFlags, KIND_INLINE, KIND_XATTR, Xattr, XattrValue, chunk_key, chunks,
    kind_keys,
};
use crate::format::{Key, ObjectId};

/// Attributes that are read at once.
const PAGE: usize = 64;

impl<S: Store> Inner<S> {
    async fn xattr_slots(&self, object: ObjectId, name: &[u8]) -> FileResult<Slots<Xattr>> {
        let hash = self.names.hash_bytes(name);
        search(&self.store, object, KIND_XATTR, hash, |bytes| {
            let xattr = Xattr::decode(bytes)?;
            Ok(Some(xattr).filter(|xattr| *xattr.name == *name))
        })
        .await
    }

    /// The value of an attribute; `None` if it was replaced meanwhile.
    async fn value(&self, value: &XattrValue) -> FileResult<Option<Vec<u8>>> {
        match value {
            XattrValue::Inline(value) => Ok(Some(value.to_vec())),
            XattrValue::Object { object, size } => {
                let most = XATTR_VALUE_MAX.div_ceil(CHUNK_SIZE);
                let chunks = self.store.scan(kind_keys(*object, KIND_INLINE), most);
                let value: Vec<u8> = chunks.await?.into_iter().flat_map(|(_, c)| c).collect();
                Ok(Some(value).filter(|value| value.len() == *size as usize))
            }
        }
    }

    /// Errors: `Unsupported` if the filesystem has no extended attributes now.
    fn check_xattrs(&self) -> FileResult<()> {
        match self.store.settings().has_xattrs {
            true => Ok(()),
            false => Err(FileError::Unsupported),
        }
    }

    pub(super) async fn xattr(
        &self,
        caller: &Caller,
        of: Handle,
        name: &[u8],
    ) -> FileResult<Vec<u8>> {
        self.check_xattrs()?;
        let object = self.object(of).await?;
        check_get_xattr(caller, &object.permissions(), name)?;
        let mut before = None;
        for _ in 0..RETRIES_MAX {
            let found = self.xattr_slots(object.number, name).await?.found;
            let (_, xattr) = found.ok_or(FileError::NoAttribute)?;
            if let Some(value) = self.value(&xattr.value).await? {
                return Ok(value);
            }
            if before.as_ref() == Some(&xattr) {
                return Err(contradiction(object.number, "an attribute without a value"));
            }
            before = Some(xattr);
        }
        Err(FileError::Storage(StorageError::Exhausted))
    }

    /// The names of all attributes of an object, in the order of their hashes.
    async fn xattr_names(&self, object: &Object) -> FileResult<Vec<Box<[u8]>>> {
        let mut names = Vec::new();
        let mut keys = kind_keys(object.number, KIND_XATTR);
        while object.inode.flags.has(InodeFlags::XATTRS) {
            let page = self.store.scan(keys.clone(), PAGE).await?;
            for (key, bytes) in &page {
                let xattr = Xattr::decode(bytes).map_err(|d| damaged(object.number, &d))?;
                names.push(xattr.name);
                keys.start = key.next();
            }
            if page.len() < PAGE {
                break;
            }
        }
        Ok(names)
    }

    pub(super) async fn xattrs(&self, caller: &Caller, of: Handle) -> FileResult<Vec<Vec<u8>>> {
        self.check_xattrs()?;
        let object = self.object(of).await?;
        let names = self.xattr_names(&object).await?.into_iter();
        let visible = names.filter(|name| is_xattr_visible(caller, name));
        let mut names: Vec<Vec<u8>> = visible.map(Vec::from).collect();
        names.sort();
        Ok(names)
    }

    pub(super) async fn set_xattr(
        &self,
        caller: &Caller,
        of: Handle,
        name: &[u8],
        value: Option<Vec<u8>>,
        how: SetXattr,
    ) -> FileResult<Change> {
        self.check_xattrs()?;
        let mut object = self.object(of).await?;
        let before = self.attributes(&object);
        let len = value.as_ref().map(Vec::len);
        check_set_xattr(caller, &object.permissions(), name, len)?;
        let slots = self.xattr_slots(object.number, name).await?;
        match (&slots.found, &value, how) {
            (None, None, _) | (None, Some(_), SetXattr::Replace) => {
                return Err(FileError::NoAttribute);
            }
            (Some(_), Some(_), SetXattr::Create) => return Err(FileError::Exists),
            _ => {}
        }
        if slots.found.is_none() {
            let names = self.xattr_names(&object).await?;
            let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
            if bytes + name.len() + 1 > XATTR_NAMES_MAX {
                return Err(FileError::NoSpace);
            }
        }

        let mut transaction = Transaction::new();
        let slot = match &slots.found {
            Some((slot, _)) => *slot,
            None => slots.free()?,
        };
        if let Some((_, old)) = &slots.found
            && let XattrValue::Object { object, .. } = old.value
        {
            transaction.delete_range(kind_keys(object, KIND_INLINE));
        }
        let key = Key::new(object.number, KIND_XATTR, slot);
        let purpose = match value {
            Some(value) => {
                let xattr = self.new_xattr(&mut transaction, name, value).await?;
                transaction.put(key, xattr.encode());
                object.inode.flags = object.inode.flags.with(InodeFlags::XATTRS);
                Purpose::Use
            }
            None => {
                transaction.delete(key);
                Purpose::Release
            }
        };
        object.set_changed(now());
        transaction.put_inode(object.number, object.inode);
        self.commit(transaction, purpose, Files::Same).await?;
        self.tell_attributes(&object).await;
        Ok(self.change(before, &object))
    }

    /// An attribute with this value, whose chunks get a hidden object if it is large.
    async fn new_xattr(
        &self,
        transaction: &mut Transaction,
        name: &[u8],
        value: Vec<u8>,
    ) -> FileResult<Xattr> {
        let value = match Xattr::is_inline(name.len(), value.len()) {
            true => XattrValue::Inline(value.into()),
            false => {
                let object = self.numbers.claim(&self.store).await?;
                for (chunk, bytes) in chunks(&value) {
                    transaction.put(chunk_key(object, KIND_INLINE, chunk), bytes.into());
                }
                let size = value.len() as u32;
                XattrValue::Object { object, size }
            }
        };
        let name = name.into();
        Ok(Xattr { name, value })
    }
}
