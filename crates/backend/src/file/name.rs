//! The name of a directory entry.

use std::fmt;

use super::{FileError, FileResult};

/// Most bytes of a name.
pub const NAME_MAX: usize = 255;

/// A name in a directory: 1 to [`NAME_MAX`] bytes without NUL and `/`, neither `.` nor `..`. Not necessarily UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks a name. Errors: [`FileError::NameTooLong`]; [`FileError::Invalid`] for an empty name, `.`, `..`, NUL and `/`.
    pub fn new(bytes: &[u8]) -> FileResult<Self> {
        if bytes.len() > NAME_MAX {
            return Err(FileError::NameTooLong);
        }
        let is_reserved = matches!(bytes, b"" | b"." | b"..");
        if is_reserved || bytes.iter().any(|b| matches!(b, 0 | b'/')) {
            return Err(FileError::Invalid);
        }
        Ok(Self(bytes.into()))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_directory_may_have_are_refused() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert_eq!(Name::new(bad), Err(FileError::Invalid), "{bad:?}");
        }
        assert_eq!(Name::new(&[b'a'; 256]), Err(FileError::NameTooLong));
        for good in [&b"..."[..], b"\xff\xfe", &[b'a'; 255]] {
            assert_eq!(Name::new(good).unwrap().as_bytes(), good);
        }
    }
}
