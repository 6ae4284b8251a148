//! Execution of COMPOUNDs (§16.2).
//!
//! | module | owns |
//! |---|---|
//! | `run` | a COMPOUND, from decoding to the reply |
//! | `context` | current and saved file handle and stateid |
//! | `sequence` | SEQUENCE: the reply cache, limits of a session |
//! | `channel` | clients and sessions |
//! | `handles` | file handles, LOOKUP, SECINFO |
//! | `attributes`, `directory` | GETATTR, SETATTR, VERIFY, ACCESS; READDIR |
//! | `names` | CREATE, REMOVE, RENAME, LINK, READLINK |
//! | `open`, `data`, `locks` | opens, data, byte-range locks |
//! | `delegations` | OPEN's grant, DELEGRETURN, conflicts with other operations |
//! | `space`, `copy` | ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, IO_ADVISE; COPY |
//! | `xattr` | extended attributes |
//! | `status` | the status of an error of the file system |
//! | `cost` | the memory that a request needs |
//!
//! **Called by** the dispatch of calls. **Invariants**: operations are decoded and executed one by one, and the
//! first failure ends the COMPOUND; a failed operation leaves nothing but its status in the reply; every slot that began a
//! request is completed.

mod attributes;
mod channel;
mod context;
mod copy;
mod cost;
mod data;
mod delegations;
mod directory;
mod handles;
mod locks;
mod names;
mod open;
mod run;
mod sequence;
mod space;
mod status;
mod xattr;

pub(crate) use cost::cost;
pub(crate) use run::execute;
