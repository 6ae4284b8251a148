//! What can go wrong in a measurement, by what the caller does next.

use std::path::{Path, PathBuf};
use thiserror::Error as ThisError;

/// Result of anything in the lab.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a measurement could not be made.
#[derive(Debug, ThisError)]
pub enum Error {
    /// The request makes no sense: ask for something else.
    #[error("{what}: {why}")]
    Usage {
        /// What was asked for.
        what: String,
        /// What was expected instead.
        why: String,
    },
    /// The target could not be opened, or refused.
    #[error("{target}: {why}")]
    Target {
        /// The target as it was named.
        target: String,
        /// What it said.
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
        /// What the system said.
        source: std::io::Error,
    },
    /// A file's contents are not what they should be.
    #[error("{}: {why}", path.display())]
    Contents {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another program is missing or failed.
    #[error("{program}: {why}")]
    Program {
        /// Its name.
        program: String,
        /// How it ended.
        why: String,
    },
    /// Verification found blocks that are not what they must be.
    #[error("{0} blocks are not what they must be")]
    Mismatch(u64),
}

impl Error {
    pub(crate) fn usage(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Usage {
            what: what.into(),
            why: why.into(),
        }
    }

    pub(crate) fn target(target: impl ToString, why: impl ToString) -> Error {
        Error::Target {
            target: target.to_string(),
            why: why.to_string(),
        }
    }

    pub(crate) fn program(program: &str, why: impl ToString) -> Error {
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

    /// Names the file in an error of the system.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        |source| Error::File {
            path: path.into(),
            source,
        }
    }
}
