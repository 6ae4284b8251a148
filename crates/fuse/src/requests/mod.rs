//! Requests: the operations of the kernel, carried out by the file system.
//!
//! **Owns** one method of [`Mounted`](crate::mounted::Mounted) for each operation. **Called by** the front, in tasks on a
//! shard. **Invariants**: a lookup is counted before its reply is sent; a successful answer to fsync is made from a `Durable`.

mod acl;
mod attributes;
mod data;
mod directory;
mod locks;
mod names;
mod xattr;

pub(crate) use data::Writing;
pub(crate) use names::{NewMode, OpenedFile, RenameFlag};
pub(crate) use xattr::XattrAnswer;
