//! The times of a run.

use io::time::Instant;

/// The times of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// I/O begins.
    pub(crate) begin: Instant,
    /// The ramp is over.
    pub(crate) from: Instant,
    /// No I/O begins after this.
    pub(crate) until: Instant,
}
