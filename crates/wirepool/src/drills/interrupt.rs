//! Ctrl-C and SIGTERM of a drill.
//!
//! **Owns** the flag that they set. **Called by** drills. **Invariants**: the first signal lets the drill clean up; a second one
//! ends the process at once, and the next drill cleans up.

use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Exit code after a second signal.
const INTERRUPTED: i32 = 130;

/// Handles signals from now on. Returns the flag that the first one sets.
pub(super) fn handle() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("signals")?;
    // Registered before this returns, so that no signal ends the drill before it can clean up.
    let (mut int, mut term) = {
        let _inside = runtime.enter();
        let int = signal(SignalKind::interrupt()).context("SIGINT")?;
        (int, signal(SignalKind::terminate()).context("SIGTERM")?)
    };
    let wait = move || {
        runtime.block_on(async {
            loop {
                tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
                if set.swap(true, Ordering::SeqCst) {
                    std::process::exit(INTERRUPTED);
                }
                eprintln!("interrupted: the scratch volume is removed");
            }
        });
    };
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(wait)
        .context("a thread for signals")?;
    Ok(flag)
}
