//! What can go wrong in the pool, by what the caller does next.

use thiserror::Error;

use crate::format::{Address, Defect};

/// Result of a pool operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the pool refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// What is stored at the address is not what was written there: read another copy, repair, and count the error.
    #[error("damaged at {at}: {defect}")]
    Corrupt {
        /// Where it was read.
        at: Address,
        /// What is wrong with it.
        defect: Defect,
    },
}
