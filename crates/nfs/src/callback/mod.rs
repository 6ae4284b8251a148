//! Calls of the server to its clients over the back channels of their sessions (§20).
//!
//! | module | owns |
//! |---|---|
//! | `call` | one call from its slot to its result |
//! | `recall` | CB_RECALL until the delegation is returned or revoked; CB_GETATTR |
//! | `notify` | CB_NOTIFY_LOCK when a lock that a client waits for is free |
//! | `recall_any` | CB_RECALL_ANY while few delegations are left |
//! | `slots` | CB_RECALL_SLOT while few slots are left |
//!
//! **Called by** operations that set up a back channel, and by recalls. **Invariants**: a call has a time limit, after which the caller
//! goes on without it; a client that never answers holds its own slots, and nothing else.

mod call;
mod notify;
mod recall;
mod recall_any;
mod slots;

pub(crate) use call::probe;
pub(crate) use notify::notify_lock;
pub(crate) use recall::{ask, recall};
pub(crate) use recall_any::recall_any;
pub(crate) use slots::recall_slots;
