//! Ctrl-C ends a probe, and its summary is printed.
//!
//! **Owns** a thread that waits for the signal. **Invariants**: a second signal ends the program at once.

use crate::{Error, Result};
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
        use tokio::signal::unix::{SignalKind, signal};
        let asked = Interrupt::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(io::Error::from)?;
        let shared = asked.clone();
        let handle = move || {
            runtime.block_on(async {
                let both = (
                    signal(SignalKind::interrupt()),
                    signal(SignalKind::terminate()),
                );
                let (Ok(mut int), Ok(mut term)) = both else {
                    return;
                };
                loop {
                    tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
                    if shared.0.swap(true, Ordering::SeqCst) {
                        std::process::exit(INTERRUPTED);
                    }
                }
            });
        };
        let thread = std::thread::Builder::new().name("interrupt".into());
        thread
            .spawn(handle)
            .map_err(|e| Error::Io(io::Error::from(e)))?;
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
