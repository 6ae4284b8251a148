//! How names are compared and where their entries lie.
//!
//! **Owns** folding and hashing. **Called by** everything that looks for a name. **Invariants**: names that are the same have
//! the same hash; the result never changes for a filesystem, as the places of its entries depend on it. `docs/format.md`,
//! "Header".

use std::borrow::Cow;

use backend::file::{FileError, FileResult, Name};
use unicase::UniCase;

use crate::format::filesystem::{Folding, HASH_KEY_SIZE, Header, NameHash};

/// The rules of one filesystem.
pub(super) struct NameRules {
    folding: Folding,
    hash_key: [u8; HASH_KEY_SIZE],
}

/// The form of a name that decides whether it is the same as another. Errors: `NameNotUtf8`.
fn folded(folding: Folding, name: &[u8]) -> FileResult<Cow<'_, [u8]>> {
    match folding {
        Folding::None => Ok(Cow::Borrowed(name)),
        Folding::Unicode18 => {
            let text = std::str::from_utf8(name).map_err(|_| FileError::NameNotUtf8)?;
            Ok(Cow::Owned(UniCase::new(text).to_folded_case().into_bytes()))
        }
    }
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
        let folded = folded(self.folding, name.as_bytes())?;
        Ok(self.hash_bytes(&folded))
    }

    /// The hash of bytes that are not folded.
    pub(super) fn hash_bytes(&self, bytes: &[u8]) -> NameHash {
        NameHash::of(&self.hash_key, bytes)
    }

    /// Whether two names are the same.
    pub(super) fn is_same(&self, a: &Name, b: &Name) -> bool {
        let fold = |name: &'_ Name| folded(self.folding, name.as_bytes()).map(Cow::into_owned);
        a == b || (self.is_case_insensitive() && fold(a).is_ok() && fold(a) == fold(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn fold(text: &str) -> String {
        let bytes = folded(Folding::Unicode18, text.as_bytes()).expect("UTF-8");
        String::from_utf8(bytes.into_owned()).expect("UTF-8")
    }

    #[test]
    fn names_that_differ_in_case_are_the_same() {
        for (a, b) in [
            ("README", "readme"),
            ("Straße", "STRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ] {
            assert_eq!(fold(a), fold(b));
        }
        assert_ne!(fold("e\u{301}"), fold("\u{e9}"), "not normalized");
        let bad = folded(Folding::Unicode18, b"a\xff");
        assert_eq!(bad, Err(FileError::NameNotUtf8));
    }

    /// The places of stored names depend on the whole table. If an update of the library changes it, that is another folding,
    /// which needs a number of its own in the header.
    #[test]
    fn the_table_of_folding_never_changes() {
        let all: Vec<u8> = ('\0'..=char::MAX)
            .flat_map(|c| fold(&c.to_string()).into_bytes())
            .collect();
        assert_eq!(xxh3_64(&all), 9_276_541_882_054_888_880);
    }
}
