//! Access to files, for all versions of NFS: handles, the rights of hosts and users, writes, creations.
//!
//! | module | owns |
//! |---|---|
//! | `view` | the objects that a host may use, and the rights of a caller there |
//! | `rights` | the bits of ACCESS |
//! | `data` | data to be written, and the promise that the medium allows |
//! | `creation` | attributes of a new object |
//!
//! **Called by** the operations of version 4 (`compound`) and the procedures of version 3 (`v3`). **Invariants**: nothing here knows
//! the status codes of a version: errors are the file system's own or have conversions; a reply that promises stable storage is made from a
//! [`backend::Durable`].

mod creation;
mod data;
mod rights;
mod view;

pub(crate) use creation::finish_creation;
pub(crate) use data::{UNSTABLE, promise, store};
pub(crate) use rights::{LOOKUP, READ, WRITES, granted};
pub(crate) use view::{NoObject, Object, Origin, ReadOnly, Target, View};
