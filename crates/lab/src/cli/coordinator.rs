//! The runtime of the command line, on which plans and the suite run.

use crate::Result;
use io::{Runtime, RuntimeConfig};
use std::future::Future;
use std::time::Duration;

/// Runs `f` on a runtime of this thread, which sleeps when it is idle: the coordinator measures nothing itself.
pub fn block_on<T: 'static>(f: impl Future<Output = Result<T>> + 'static) -> Result<T> {
    Runtime::new(RuntimeConfig {
        spin_max: Duration::ZERO,
        ..RuntimeConfig::default()
    })?
    .block_on(f)
}
