//! `wirepool serve`: run the server until a signal.

use crate::ask::print;
use crate::cli::ServeArgs;
use crate::{client, notify, protocols, rehearsal};
use anyhow::{Context, Result, bail};
use server::End;
use server::api::Status;
use server::config::ConfigFile;
use std::fmt::Write;
use std::path::PathBuf;
use tracing_subscriber::EnvFilter;

/// Writer of the log: each event is one line, for all contents of names and messages. The last lines are kept in memory, too.
struct Lines<W: std::io::Write>(W);

impl<W: std::io::Write> std::io::Write for Lines<W> {
    /// Writes one complete event of the subscriber's formatter, with its line end.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = io::printable::printable(line);
        server::recent_log::keep(&line);
        self.0.write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Serves until a signal.
pub(crate) fn run(args: &ServeArgs, control: Option<PathBuf>) -> Result<()> {
    let filter =
        EnvFilter::try_new(&args.log).with_context(|| format!("the log filter {:?}", args.log))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lines(std::io::stderr()))
        .with_ansi(false)
        .init();
    let mut file = ConfigFile::load(&args.config)?;
    if let Some(path) = control {
        file.set_control(std::path::absolute(path)?);
    }
    if args.check {
        return check(&file);
    }
    if args.rehearsal {
        rehearsal::listen()?;
    }
    let show = |status: &Status| {
        let text = match args.print_ready {
            true => Ok(ready_lines(status)),
            false => client::for_people(status).map(|s| banner(&s)),
        };
        // The reader of stdout may have exited; the server serves nevertheless.
        let _ = text.map(|t| print(&t));
        if let Err(e) = notify::ready() {
            tracing::warn!("the service manager cannot be notified: {e}");
        }
    };
    match server::serve(file, show)? {
        End::Drained(failures) if failures.is_empty() => {
            tracing::info!("drained: all disks are flushed");
            Ok(())
        }
        End::Drained(failures) => bail!("ended, but {}", failures.join("; ")),
        End::Interrupted => {
            bail!("terminated by a second signal: unflushed writes may be lost")
        }
    }
}

/// Lines for programs: `ready WHAT WHERE` for each listener, then `ready`.
fn ready_lines(status: &Status) -> String {
    let mut out = format!("ready control {}\n", status.control.display());
    for l in &status.listen {
        let (role, _) = protocols::role(l);
        let _ = writeln!(out, "ready {role} {}", l.address);
    }
    if let Some(address) = status.metrics {
        let _ = writeln!(out, "ready metrics {address}");
    }
    if let Some(console) = &status.console {
        let _ = writeln!(out, "ready console {}", console.address);
    }
    out.push_str("ready\n");
    out
}

/// Text for people: exports, and commands for a Linux client.
fn banner(status: &Status) -> String {
    let mut out = format!(
        "wirepool {} serves {}\n",
        status.version,
        status.config.display()
    );
    let _ = writeln!(out, "  control    {}", status.control.display());
    for l in &status.listen {
        let (_, role) = protocols::role(l);
        let _ = writeln!(out, "  {role:<10} {}", l.address);
    }
    if let Some(address) = status.metrics {
        let _ = writeln!(out, "  metrics    http://{address}/metrics");
    }
    if let Some(console) = &status.console {
        let _ = writeln!(out, "  console    https://{}/", console.address);
        let _ = writeln!(
            out,
            "             certificate SHA-256 {}",
            console.fingerprint
        );
    }
    for protocol in protocols::ALL {
        out.push_str(&protocol.banner(status));
    }
    for w in &status.warnings {
        let _ = writeln!(out, "  warning: {w}");
    }
    for protocol in protocols::ALL {
        out.push_str(&protocol.client_lines(status));
    }
    out
}

/// Prints the warnings about a start with this configuration. Errors: the start would fail.
fn check(file: &ConfigFile) -> Result<()> {
    let path = file.path().display();
    let found = server::dry_start(file);
    let mut text = String::new();
    for warning in &found.warnings {
        text += &format!("{path}: warning: {warning}\n");
    }
    if found.errors.is_empty() {
        text += &format!("{path}: configuration is valid\n");
    }
    print(&text)?;
    match found.errors.is_empty() {
        true => Ok(()),
        false => bail!("{path}: {}", found.errors.join(&format!("\n{path}: "))),
    }
}
