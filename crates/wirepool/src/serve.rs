//! `wirepool serve`: run the server until a signal.

use crate::cli::ServeArgs;
use crate::{client, print, targets};
use anyhow::{Context, Result, bail};
use server::api::{ListenRole, NamespaceState, Status};
use server::config::ConfigFile;
use server::{ByteSize, End};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use tracing_subscriber::EnvFilter;

/// Writer of the log: each event is one line, for all contents of names and messages.
struct Lines<W: std::io::Write>(W);

impl<W: std::io::Write> std::io::Write for Lines<W> {
    /// Writes one complete event of the subscriber's formatter, with its line end.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = io::printable::printable(line);
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
        return print(&format!(
            "{}: configuration is valid\n",
            file.path().display()
        ));
    }
    let show = |status: &Status| {
        let text = match args.print_ready {
            true => Ok(ready_lines(status)),
            false => client::for_people(status).map(|s| banner(&s)),
        };
        // The reader of stdout may have exited; the server serves nevertheless.
        let _ = text.map(|t| print(&t));
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
        let role = match l.role {
            ListenRole::Io => "io",
            ListenRole::Discovery => "discovery",
            ListenRole::Iscsi => "iscsi",
        };
        let _ = writeln!(out, "ready {role} {}", l.address);
    }
    if let Some(address) = status.metrics {
        let _ = writeln!(out, "ready metrics {address}");
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
        let role = match l.role {
            ListenRole::Io => "NVMe/TCP",
            ListenRole::Discovery => "discovery",
            ListenRole::Iscsi => "iSCSI",
        };
        let _ = writeln!(out, "  {role:<10} {}", l.address);
    }
    if let Some(address) = status.metrics {
        let _ = writeln!(out, "  metrics    http://{address}/metrics");
    }
    for e in &status.exports {
        for n in &e.namespaces {
            let what = match n.state {
                NamespaceState::Served => ByteSize(n.size).human(),
                NamespaceState::Held => {
                    format!("held back: {}", n.reason.as_deref().unwrap_or("not known"))
                }
            };
            let _ = writeln!(
                out,
                "  {} namespace {}: disk {}, {what}",
                e.nqn, n.nsid, n.disk
            );
        }
    }
    out.push_str(&targets::served(&status.targets));
    for w in &status.warnings {
        let _ = writeln!(out, "  warning: {w}");
    }
    out.push_str(&client_lines(status));
    out.push_str(&targets::login_lines(status));
    out
}

/// The commands for a Linux client.
fn client_lines(status: &Status) -> String {
    let Some(address) = client_address(status) else {
        return String::new();
    };
    let mut out = String::from("on a Linux client (modprobe nvme-tcp):\n");
    let _ = writeln!(out, "  nvme discover {}", at(address));
    for e in &status.exports {
        let _ = writeln!(out, "  nvme connect {} -n {}", at(address), e.nqn);
    }
    if address.ip().is_unspecified() {
        out.push_str("  where ADDRESS is this machine's\n");
    }
    out
}

/// The address that clients connect to.
fn client_address(status: &Status) -> Option<SocketAddr> {
    let mut io = status.listen.iter().filter(|l| l.role == ListenRole::Io);
    let advertised = status.advertise.first().copied();
    advertised.or_else(|| io.next().map(|l| l.address))
}

/// An address in the form of nvme-cli.
fn at(address: SocketAddr) -> String {
    let ip = match address.ip() {
        ip if ip.is_unspecified() => "ADDRESS".to_owned(),
        ip => ip.to_string(),
    };
    format!("-t tcp -a {ip} -s {}", address.port())
}

/// The command with which a Linux client connects to a subsystem.
pub(crate) fn connect_line(status: &Status, nqn: &str) -> Option<String> {
    let address = client_address(status)?;
    Some(format!("nvme connect {} -n {nqn}", at(address)))
}
