//! Ctrl-C ends a probe, and its summary is printed.
//!
//! **Owns** the record of the first signal. **Invariants**: a second signal ends the program at once.

use crate::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Exit code after the second signal: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;
/// Longest wait until a signal is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Whether the user asked for the end.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles SIGINT and SIGTERM from now on. Errors: `Io` if signals cannot be handled.
    pub(crate) fn on_signals() -> Result<Interrupt> {
        let asked = Interrupt::default();
        let shared = asked.clone();
        crate::signals::on_each(move || {
            if shared.0.swap(true, Ordering::SeqCst) {
                std::process::exit(INTERRUPTED);
            }
        })?;
        Ok(asked)
    }

    /// Whether the user asked for the end.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Sleeps until `at`. Returns early if the user asks for the end.
    pub(crate) async fn sleep_until(&self, at: io::time::Instant) {
        while !self.is_set() {
            let now = io::time::now();
            if now >= at {
                return;
            }
            io::time::sleep(at.since(now).min(LOOK)).await;
        }
    }
}
