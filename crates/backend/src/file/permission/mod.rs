//! Permissions: the rules of POSIX and of NFSv4 access control lists.
//!
//! **Owns** the decisions that every file system makes alike: what a caller may do with an object, and which mode, owner,
//! group and list an object has after a change. **Called by** implementations of [`super::FileBackend`]. **Invariants**: all
//! functions are pure; a caller with [`super::CheckedBy::Client`] is never refused. POSIX.1-2017, section 4.5; RFC 8881,
//! sections 6.2.1, 6.3 and 6.4.

mod access;
mod acl_mode;
mod acl_rules;
mod attributes;
mod xattr;

pub use access::{
    Permissions, access, check, check_add, check_move, check_read_acl, check_remove, check_search,
    is_owner,
};
pub use acl_rules::{AclInherit, AclMode, AclRules};
pub use attributes::{Initial, Settled, check_acl, check_create, check_set, initial, written_mode};
pub use xattr::{check_get_xattr, check_set_xattr, is_xattr_visible};
