//! Errors of a drill.

use thiserror::Error as ThisError;

/// Result of a step of a drill.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a drill could not go on. Wrong or lost data is no error: it is in the report.
#[derive(Debug, ThisError)]
pub enum Error {
    /// The target could not be opened: correct its address.
    #[error(transparent)]
    Target(#[from] lab::Error),
    /// A socket of the relay failed.
    #[error("the relay: {0}")]
    Relay(io::Error),
    /// A disturbance could not begin or end.
    #[error("{0}")]
    Disturbance(String),
}
