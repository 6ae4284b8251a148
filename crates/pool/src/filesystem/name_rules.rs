//! How names are compared and where their entries lie.
//!
//! **Owns** folding and hashing. **Called by** everything that looks for a name. **Invariants**: names that are the same have
//! the same hash; the result never changes for a filesystem, as the places of its entries depend on it. `docs/format.md`,
//! "Header".

use std::borrow::Cow;

use backend::file::{FileError, FileResult, Name};

use crate::format::filesystem::{Folding, HASH_KEY_SIZE, Header, NameHash};

/// The rules of one filesystem.
pub(super) struct NameRules {
    folding: Folding,
    hash_key: [u8; HASH_KEY_SIZE],
}

impl NameRules {
    pub(super) fn new(header: &Header) -> Self {
        Self {
            folding: header.folding,
            hash_key: header.hash_key,
        }
    }

    pub(super) fn is_case_insensitive(&self) -> bool {
        self.folding != Folding::None
    }

    /// The hash of a name. Errors: `NameNotUtf8`.
    pub(super) fn hash(&self, name: &Name) -> FileResult<NameHash> {
        let folded = self.folding.fold(name.as_bytes());
        let folded = folded.ok_or(FileError::NameNotUtf8)?;
        Ok(self.hash_bytes(&folded))
    }

    /// The hash of bytes that are not folded.
    pub(super) fn hash_bytes(&self, bytes: &[u8]) -> NameHash {
        NameHash::of(&self.hash_key, bytes)
    }

    /// Whether two names are the same.
    pub(super) fn is_same(&self, a: &Name, b: &Name) -> bool {
        let fold = |name: &Name| self.folding.fold(name.as_bytes()).map(Cow::into_owned);
        a == b || (self.is_case_insensitive() && fold(a).is_some() && fold(a) == fold(b))
    }
}
