//! The server process: lock, limits, control plane, signals.
//!
//! **Owns** the order of starting and ending. **Called by** the binary's `serve`. **Invariants**: one server per
//! state directory; nothing is served before the server holds the lock and the control socket. It waits for a lock,
//! socket or address in use, because a server that was just killed may hold it for a moment. The first SIGTERM,
//! SIGINT or SIGHUP drains, the second ends at once; SIGKILL at any moment loses no promised data.

use crate::absent::warning_of;
use crate::accounts::Accounts;
use crate::api::{ConsoleStatus, Status};
use crate::config::{Config, ConfigFile, ConsoleConfig};
use crate::console::{self, Certificate};
use crate::control::{self, Control, ControlSocket, Facts};
use crate::limits::{CONSOLE_CONNECTIONS_MAX, FDS_RESERVED, LISTEN_RETRY, OPENED_POLL};
use crate::rates::History;
use crate::server::{Handle, Server};
use crate::shards::Shards;
use crate::taken::{until_free, with_holder};
use crate::watchdog::Watchdog;
use crate::{Error, Result, metrics, pools, reports, reservations, taken, wear};
use io::RuntimeConfig;
use io::sync::oneshot;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

/// How a server ended.
#[derive(Debug)]
pub enum End {
    /// It drained. Failures, if any.
    Drained(Vec<String>),
    /// A second signal ended it at once.
    Interrupted,
}

/// Serves `file` until a signal; `ready` is called once each disk and pool is open or has failed to open. Errors:
/// those of starting.
pub fn serve(file: ConfigFile, ready: impl FnOnce(&Status)) -> Result<End> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::Start {
            what: "the control plane",
            source: e.into(),
        })?;
    let end = runtime.block_on(run(file, ready)).map_err(with_holder);
    // Running handlers of the control plane are abandoned.
    runtime.shutdown_background();
    end
}

/// The console's port, if the machine has its address, its certificate and status.
type OpenConsole = (Option<TcpListener>, Certificate, ConsoleStatus);

async fn run(file: ConfigFile, ready: impl FnOnce(&Status)) -> Result<End> {
    let config = file.config().clone();
    let path = file.path().to_path_buf();
    let control_path = file.control().to_path_buf();
    let change = file.control_change();
    let pause = async |pause| tokio::time::sleep(pause).await;
    let _lock = until_free(|| lock(&config), pause).await?;
    let mut signals = Signals::new()?;
    let (_socket, listener) =
        until_free(|| ControlSocket::bind(&control_path, change), pause).await?;
    let metrics_listener = match config.metrics {
        Some(address) => {
            present(until_free(|| taken::bind(address, metrics::LISTEN), pause).await)?
        }
        None => None,
    };
    let mut console_warning = None;
    let console = match &config.console {
        Some(c) => {
            let listener =
                present(until_free(|| taken::bind(c.listen, console::LISTEN), pause).await)?;
            console_of(c, &config.server.state_dir, listener)
                .map_err(|warning| console_warning = Some(warning))
                .ok()
        }
        None => None,
    };

    let (fd_limit, connections_max, mut warnings) = descriptors_of(&config, console.is_some());
    warnings.extend(congestion_refused(config.server.congestion.as_deref()));
    warnings.extend(console_warning);
    let runtime = RuntimeConfig {
        spin_max: config.server.spin,
        buffer_limit: config.server.buffer_limit,
        ..RuntimeConfig::default()
    };
    let shards = Shards::start(config.server.shards, runtime)?;
    let watched = config.server.watchdog;
    let watchdog = watched.map(|limit| Watchdog::start(&shards, limit));
    let _watchdog = watchdog.transpose().map_err(|e| Error::Start {
        what: "the watchdog",
        source: e.into(),
    })?;
    let server = start(file, shards, connections_max).await?;

    let state_dir = config.server.state_dir;
    let accounts = Accounts::new(&state_dir);
    let settings_of_console = config.console.clone();
    let reports = config.console.and_then(|c| c.reports);
    let facts = Facts {
        config: path,
        control: control_path,
        reports: reports.unwrap_or_else(|| state_dir.join(reports::DIRECTORY)),
        console: console.as_ref().map(|(_, _, status)| status.clone()),
        state_dir,
        metrics: metrics_listener.as_ref().and_then(|l| l.local_addr().ok()),
        fd_limit,
        connections_max,
        warnings,
    };
    let control = Control {
        server: server.clone(),
        facts: Arc::new(facts),
        wear: wear::Monitor::default(),
        accounts,
        rates: History::default(),
        examining: Arc::new(Semaphore::new(1)),
    };
    let status = control.status().await?;
    tokio::spawn(observe_wear(control.clone()));
    serve_others(
        &control,
        config.metrics,
        metrics_listener,
        settings_of_console.zip(console),
    );
    let status_of = control.clone();
    let api = axum::serve(listener, control::router(control));
    tokio::spawn(async move { api.await });
    let logged: Vec<String> = status.not_listening.iter().map(warning_of).collect();
    let warnings = status.warnings.iter();
    let warnings = warnings.filter(|w| !logged.contains(w));
    warnings.for_each(|w| tracing::warn!("{w}"));
    let is_ready = tokio::select! {
        opened = opened(&server) => opened.map(|()| true)?,
        () = signals.next() => false,
    };
    if is_ready {
        ready(&status_of.status().await?);
        signals.next().await;
    }
    tracing::info!(
        "draining: finishing what is in flight and flushing the disks; a second signal ends at once"
    );
    tokio::select! {
        failures = server.call(|s| async move { s.drain().await }) => Ok(End::Drained(failures?)),
        () = signals.next() => Ok(End::Interrupted),
    }
}

/// Serves metrics and the console, each as soon as the machine has its address.
fn serve_others(
    control: &Control,
    metrics: Option<SocketAddr>,
    metrics_listener: Option<TcpListener>,
    console: Option<(ConsoleConfig, OpenConsole)>,
) {
    if let Some(address) = metrics {
        let (control, bind) = (control.clone(), move || {
            taken::bind(address, metrics::LISTEN)
        });
        tokio::spawn(async move {
            if let Some(l) = listener_of(metrics_listener, &control, bind).await {
                metrics::serve(l, control).await;
            }
        });
    }
    if let Some((settings, (listener, certificate, _))) = console {
        tokio::spawn(console::observe(control.clone()));
        let (control, bind) = (control.clone(), move || {
            taken::bind(settings.listen, console::LISTEN)
        });
        tokio::spawn(async move {
            if let Some(l) = listener_of(listener, &control, bind).await {
                console::serve(l, certificate, control).await;
            }
        });
    }
}

/// A listener, or none if the machine does not have its address yet. Errors: every other reason.
fn present<T>(bound: Result<T>) -> Result<Option<T>> {
    match bound {
        Ok(listener) => Ok(Some(listener)),
        Err(Error::AddressAbsent { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The listener; if the machine did not have its address at the start, the one that `bind` makes as soon as it has. `None` when the
/// server ends.
async fn listener_of(
    bound: Option<TcpListener>,
    control: &Control,
    bind: impl Fn() -> Result<TcpListener>,
) -> Option<TcpListener> {
    if bound.is_some() {
        return bound;
    }
    let (address, setting) = match bind() {
        Err(Error::AddressAbsent {
            address, setting, ..
        }) => (address, setting),
        Ok(listener) => return Some(listener),
        Err(error) => {
            tracing::warn!("{error}");
            return None;
        }
    };
    let server = &control.server;
    let absent = async move |s: Rc<Server>| s.address_absent(address, setting);
    server.call(absent).await.ok()?;
    let listener = loop {
        tokio::time::sleep(LISTEN_RETRY).await;
        if let Ok(listener) = bind() {
            break listener;
        }
    };
    let present = async move |s: Rc<Server>| s.address_present(address, setting);
    server.call(present).await.ok()?;
    Some(listener)
}

/// The console's port, certificate and status. Errors: a warning, if the certificate cannot be used: everything else is served.
fn console_of(
    config: &ConsoleConfig,
    state_dir: &Path,
    listener: Option<TcpListener>,
) -> std::result::Result<OpenConsole, String> {
    let certificate = match &config.identity {
        Some(files) => Certificate::configured(files),
        None => Certificate::own(state_dir, config.listen),
    };
    let certificate = certificate.map_err(|e| format!("the console is not served: {e}"))?;
    let status = ConsoleStatus {
        address: listener
            .as_ref()
            .and_then(|l| l.local_addr().ok())
            .unwrap_or(config.listen),
        fingerprint: certificate.fingerprint().to_owned(),
    };
    Ok((listener, certificate, status))
}

/// Reads the disks' own counters from time to time, so that forecasts of wear have an observation. Ends with the server.
async fn observe_wear(control: Control) {
    while control.writes(wear::SCRAPE_AGE).await.is_ok() {
        tokio::time::sleep(wear::READ_EVERY).await;
    }
}

/// Waits until the first opening of each disk and pool of the configuration has ended, well or not.
async fn opened(server: &Handle) -> Result<()> {
    while server.call(|s| async move { s.is_starting() }).await? {
        tokio::time::sleep(OPENED_POLL).await;
    }
    Ok(())
}

/// Starts the server on its first shard.
async fn start(file: ConfigFile, shards: Shards, connections_max: usize) -> Result<Handle> {
    let (tx, rx) = oneshot::channel();
    let first = shards.first().clone();
    first
        .spawn(move || async move {
            tx.send(
                Server::start(file, shards, connections_max)
                    .await
                    .map(|s| s.handle()),
            )
        })
        .map_err(|source| Error::Start {
            what: "the server",
            source,
        })?;
    rx.await.unwrap_or(Err(Error::Unavailable("ending")))
}

/// Locks the state directory for the lifetime of the file.
fn lock(config: &Config) -> Result<File> {
    let state_dir = &*config.server.state_dir;
    let failed = |source| Error::File {
        what: "use the state directory",
        path: state_dir.to_path_buf(),
        source,
    };
    let make = |dir: &Path| DirBuilder::new().recursive(true).mode(0o700).create(dir);
    make(&reservations::directory(state_dir)).map_err(failed)?;
    for name in config.protocols().flat_map(|p| p.directories()) {
        make(&state_dir.join(name)).map_err(failed)?;
    }
    make(&pools::notes_directory(state_dir)).map_err(failed)?;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(state_dir.join("lock"))
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked(state_dir.to_path_buf())),
        Err(TryLockError::Error(e)) => Err(failed(e)),
    }
}

/// Raises the descriptor limit to what the configuration needs. Returns what [`descriptors`] returns.
fn descriptors_of(config: &Config, has_console: bool) -> (u64, usize, Vec<String>) {
    let pool_disks: usize = config.pools.iter().map(|p| p.disks.len()).sum();
    let wanted = config.protocols().map(|p| p.connections()).sum();
    let refused = config.protocols().map(|p| p.refused_connections_max());
    // Connections beyond the limit take descriptors too, until they are refused.
    let browsers = if has_console {
        CONSOLE_CONNECTIONS_MAX
    } else {
        0
    };
    let others = config.disks.len() + pool_disks + refused.sum::<usize>() + browsers;
    let each = config.protocols().map(|p| p.descriptors_of_connection());
    descriptors(wanted, others, each.max().unwrap_or(1))
}

/// Raises the descriptor limit; `others` is the number of descriptors of disks and refused connections, `each` those of one connection.
/// Returns the limit, the number of connections that it allows, and warnings.
fn descriptors(wanted: usize, others: usize, each: usize) -> (u64, usize, Vec<String>) {
    let limit = match io::linux::raise_fd_limit() {
        Ok(limit) => limit,
        Err(e) => {
            return (
                0,
                wanted,
                vec![format!("cannot read the limit of open descriptors: {e}")],
            );
        }
    };
    let left = usize::try_from(limit.saturating_sub(FDS_RESERVED + others as u64));
    let allowed = (left.unwrap_or(usize::MAX) / each.max(1)).max(1);
    if allowed >= wanted {
        return (limit, wanted, Vec::new());
    }
    let warning = format!(
        "{limit} open descriptors allow {allowed} connections, not the {wanted} of connections_max: raise the \
         hard limit (ulimit -Hn, or LimitNOFILE= of the unit)"
    );
    (limit, allowed, vec![warning])
}

/// Warning about a congestion control that the system refuses.
fn congestion_refused(name: Option<&str>) -> Option<String> {
    let name = name?;
    let reason = match io::linux::check_congestion(name).err()? {
        io::Error::NotFound => "not available in the kernel (modprobe)".to_owned(),
        io::Error::Denied(_) => {
            "not everybody may use it (sysctl net.ipv4.tcp_allowed_congestion_control)".to_owned()
        }
        e => e.to_string(),
    };
    Some(format!(
        "connections keep the system's congestion control, not {name} of [server] congestion: {reason}"
    ))
}

/// The signals that end a server, and SIGHUP, which does not.
struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        let on = |kind| {
            signal(kind).map_err(|e| Error::Start {
                what: "the signal handlers",
                source: e.into(),
            })
        };
        Ok(Signals {
            term: on(SignalKind::terminate())?,
            int: on(SignalKind::interrupt())?,
            hup: on(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal that ends the server.
    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.term.recv() => return,
                _ = self.int.recv() => return,
                _ = self.hup.recv() => tracing::info!(
                    "SIGHUP is ignored: changes are made by commands (`wirepool --help`) and take effect at once; the rest of the \
                     configuration file is read at the next start"
                ),
            }
        }
    }
}
