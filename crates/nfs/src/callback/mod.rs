//! Calls of the server to its clients over the back channels of their sessions (§20).
//!
//! | module | owns |
//! |---|---|
//! | `call` | one call from its slot to its result |
//! | `recall` | CB_RECALL until the delegation is returned or revoked; CB_GETATTR |
//! | `slots` | CB_RECALL_SLOT while few slots are left |
//!
//! **Called by** operations that set up a back channel, and by recalls. **Invariants**: a call has a time limit, after which the caller
//! goes on without it; a client that never answers holds its own slots, and nothing else.

mod call;
mod recall;
mod slots;

pub(crate) use call::probe;
pub(crate) use recall::{ask, recall};
pub(crate) use slots::recall_slots;
