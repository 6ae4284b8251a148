//! Errors of a measurement, classified by the remedy.

use std::path::{Path, PathBuf};
use thiserror::Error as ThisError;

/// Result of anything in the lab.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a measurement could not be made.
#[derive(Debug, ThisError)]
pub enum Error {
    /// The request is invalid.
    #[error("{what}: {why}")]
    Usage {
        /// The invalid part of the request.
        what: String,
        /// The expected form.
        why: String,
    },
    /// The target could not be opened, or refused.
    #[error("{target}: {why}")]
    Target {
        /// The target as it was named.
        target: String,
        /// Its answer.
        why: String,
    },
    /// An I/O failed below us.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The remote target answered an I/O with an error status.
    #[error("the target answered: {0}")]
    Status(String),
    /// A file beside the measurement (report, state, procfs) could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file's contents are not what they should be.
    #[error("{}: {why}", path.display())]
    Contents {
        /// Which file.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// Another program is missing or failed.
    #[error("{program}: {why}")]
    Program {
        /// Its name.
        program: String,
        /// Its exit status or error.
        why: String,
    },
    /// Verification found wrong blocks.
    #[error("{0} blocks are wrong")]
    Mismatch(u64),
}

impl Error {
    /// An invalid request.
    #[must_use]
    pub fn usage(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Usage {
            what: what.into(),
            why: why.into(),
        }
    }

    /// A failure of a target.
    #[must_use]
    pub fn target(target: impl ToString, why: impl ToString) -> Error {
        Error::Target {
            target: target.to_string(),
            why: why.to_string(),
        }
    }

    /// A failure of a program.
    #[must_use]
    pub fn program(program: &str, why: impl ToString) -> Error {
        Error::Program {
            program: program.into(),
            why: why.to_string(),
        }
    }

    pub(crate) fn contents(path: &Path, why: impl ToString) -> Error {
        Error::Contents {
            path: path.into(),
            why: why.to_string(),
        }
    }

    /// Adds the file's path to an error of the system.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        |source| Error::File {
            path: path.into(),
            source,
        }
    }
}
