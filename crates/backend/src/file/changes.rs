//! Results of mutations: the changed objects before and after.

use super::Attributes;
use crate::Durable;

/// When a mutation must be on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// After the next commit.
    Cached,
    /// Before the reply.
    Durable,
}

/// The result of a mutation.
#[derive(Debug)]
pub struct Done<T> {
    /// What was done.
    pub value: T,
    /// Proof of stable storage; always there if it was requested.
    pub durable: Option<Durable>,
}

/// Attributes of one object before and after a mutation, taken in one step with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Before the mutation.
    pub before: Attributes,
    /// After the mutation.
    pub after: Attributes,
}

/// The result of a creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The object.
    pub object: Attributes,
    /// Whether it is new.
    pub is_new: bool,
    /// The directory.
    pub directory: Change,
}

/// The result of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linked {
    /// The object.
    pub object: Change,
    /// The directory of the new name.
    pub directory: Change,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// The object; without links afterwards if this was its last name.
    pub object: Change,
    /// The directory.
    pub directory: Change,
}

/// The result of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renamed {
    /// The object of the old name.
    pub object: Change,
    /// The object that the new name had before: replaced, or exchanged.
    pub other: Option<Change>,
    /// The directory of the old name.
    pub from: Change,
    /// The directory of the new name; equal to `from` if it is the same directory.
    pub to: Change,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The first byte that was written.
    pub offset: u64,
    /// The file.
    pub object: Change,
}
