//! Users and groups that are looked up by name or number.
//!
//! **Owns** [`Accounts`]. **Called by** the cache of answers. **Invariants**: a call may block, so it runs on a helper thread.

use thiserror::Error;

/// Why a lookup has no answer: the directory of users cannot be asked now.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("users and groups cannot be looked up: {0}")]
pub struct Unavailable(pub String);

/// Users and groups. Every call may block.
pub trait Accounts: Send + Sync + 'static {
    /// The name of a user; `None` if there is none of this number.
    fn user_name(&self, uid: u32) -> Result<Option<String>, Unavailable>;
    /// The name of a group.
    fn group_name(&self, gid: u32) -> Result<Option<String>, Unavailable>;
    /// The number of the user of this name.
    fn uid(&self, name: &str) -> Result<Option<u32>, Unavailable>;
    /// The number of the group of this name.
    fn gid(&self, name: &str) -> Result<Option<u32>, Unavailable>;
    /// All groups of a user.
    fn groups(&self, uid: u32) -> Result<Option<Vec<u32>>, Unavailable>;
}
