//! Signals that end a program: SIGINT and SIGTERM.
//!
//! **Owns** the thread that waits for them. **Called by** programs that must remove children and files, or print what they
//! measured, before they end.

use crate::Result;
use tokio::signal::unix::{SignalKind, signal};

/// Calls `act` for each SIGINT and SIGTERM from now on, on a thread of its own. Errors: `Io` if signals cannot be handled.
pub(crate) fn on_each(mut act: impl FnMut() + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io::Error::from)?;
    let wait = move || {
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
                act();
            }
        });
    };
    let thread = std::thread::Builder::new().name("interrupt".into());
    thread.spawn(wait).map_err(io::Error::from)?;
    Ok(())
}
