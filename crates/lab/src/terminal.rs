//! Output for people and scripts: results on standard output; progress on standard error, as a bar on a terminal, otherwise
//! as plain lines.
//!
//! **Called by** the command line, the demo and the suite. **Invariant**: control characters of a terminal are escaped here at
//! the latest.

use crate::engine::{Setup, precondition};
use crate::plan::Progress;
use crate::targets::{AnyTarget, Target};
use crate::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use io::printable::{printable, printable_lines};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Prints progress for people.
pub struct Teller {
    bar: Option<ProgressBar>,
}

impl Teller {
    /// For standard error as it is now.
    #[must_use]
    pub fn stderr() -> Teller {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("[{elapsed}] {bar:24} {pos}/{len} {msg}");
            let bar = ProgressBar::new(0)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Teller { bar }
    }

    /// Prints one line.
    pub fn say(&self, text: &str) {
        let text = printable(text);
        match &self.bar {
            Some(b) => b.println(&text),
            None => eprintln!("{text}"),
        }
    }

    /// Shows how `meter` grows to `total` bytes while the returned value lives.
    pub fn watch(&self, what: &str, total: u64, meter: Arc<AtomicU64>) -> Watch {
        let what = printable(what);
        if self.bar.is_none() {
            eprintln!("{what}");
        }
        let shown = self.bar.as_ref().map(|b| {
            b.set_length(total >> 20);
            b.set_message(format!("MiB {what}"));
            b.clone()
        });
        Watch(io::spawn(async move {
            while let Some(b) = &shown {
                b.set_position(meter.load(Ordering::Relaxed) >> 20);
                io::time::sleep(Duration::from_millis(200)).await;
            }
        }))
    }

    /// Ends the bar.
    pub fn done(&self) {
        if let Some(b) = &self.bar {
            b.finish_and_clear();
        }
    }
}

impl Progress for Teller {
    fn step(&mut self, at: usize, of: usize, what: &str) {
        let what = printable(what);
        match &self.bar {
            Some(b) => {
                b.set_length(of as u64);
                b.set_position(at as u64);
                b.set_message(what.into_owned());
            }
            None => eprintln!("[{at}/{of}] {what}"),
        }
    }
}

/// Ends the watching when dropped.
pub struct Watch(io::JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Prints to standard output; a reader that exits early is not an error.
pub fn print(text: &str) -> Result<()> {
    let text = printable_lines(text);
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::file(Path::new("standard output"))(e))
        }
        _ => Ok(()),
    }
}

/// Writes a file and reports its path.
pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(Error::file(path))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Fills a target and shows the progress.
pub async fn fill(
    target: &AnyTarget,
    name: &str,
    region: Option<u64>,
    setup: &Setup,
    teller: &Teller,
) -> Result<()> {
    let size = target.facts().size;
    let total = region.unwrap_or(size).min(size);
    let meter = Arc::new(AtomicU64::new(0));
    let setup = Setup {
        meter: Some(meter.clone()),
        ..setup.clone()
    };
    let _watch = teller.watch(
        &format!("filling {} of {name}", crate::size::size(total)),
        total,
        meter,
    );
    precondition::fill(target, Some(total), 1, &setup)
        .await
        .map(drop)
}
