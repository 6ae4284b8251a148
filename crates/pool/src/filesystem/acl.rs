//! Access control lists: their chunks in the store.
//!
//! **Owns** loading and storing. **Called by** everything that checks permissions, and by changes of lists. **Invariant**: the
//! flag in the inode says whether there is a list. `docs/format.md`, "Access control lists".

use backend::file::{Acl, FileResult};

use super::object::Object;
use super::slots::damaged;
use super::store::{Store, Transaction};
use crate::format::ObjectId;
use crate::format::filesystem::{
    ACL_SIZE_MAX, CHUNK_SIZE, InodeFlags, KIND_ACL, chunk_key, chunks, decode_acl, encode_acl,
    kind_keys,
};

/// Most chunks of a list.
const CHUNKS_MAX: usize = ACL_SIZE_MAX.div_ceil(CHUNK_SIZE);

/// Reads the list of an object that has one.
pub(super) async fn load<S: Store>(store: &S, object: ObjectId) -> FileResult<Acl> {
    let chunks = store.scan(kind_keys(object, KIND_ACL), CHUNKS_MAX).await?;
    let bytes: Vec<u8> = chunks.into_iter().flat_map(|(_, chunk)| chunk).collect();
    decode_acl(&bytes).map_err(|defect| damaged(object, &defect))
}

/// Gives an object another list, or none.
pub(super) fn store(transaction: &mut Transaction, of: &mut Object, acl: Option<Acl>) {
    if of.inode.flags.has(InodeFlags::ACL) {
        transaction.delete_range(kind_keys(of.number, KIND_ACL));
    }
    of.inode.flags = of.inode.flags.without(InodeFlags::ACL);
    if let Some(acl) = &acl {
        for (chunk, bytes) in chunks(&encode_acl(acl)) {
            transaction.put(chunk_key(of.number, KIND_ACL, chunk), bytes.into());
        }
        of.inode.flags = of.inode.flags.with(InodeFlags::ACL);
    }
    of.acl = acl;
}
