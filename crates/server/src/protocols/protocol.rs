//! A protocol, as the rest of the server knows it.
//!
//! **Called by** the server, the control API and the metrics; each protocol's folder implements [`Protocol`], and
//! [`DiskExports`] or [`FilesystemExports`]. **Invariants**: an export is published if and only if its disk is online, or its
//! filesystem open, and the protocol accepted it.

use crate::api::{
    ExportReservations, ExportRow, ExportStages, ExportedAs, Exports, Listen, NotListening,
    RefusedHost, Session,
};
use crate::config::{Config, ConfigFile};
use crate::disks::Disks;
use crate::host_names::HostNames;
use crate::metrics::families::Families;
use backend::file::FileBackend;
use backend::{BlockBackend, Usage};
use io::net::{DetachedStream, TcpStream};
use io::rdma::{DetachedIncoming, Incoming};
use io::time::Instant;
use session::refused::{self, RefusalTotals};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Work on a shard.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// Serves a connection until it ends. Called on the shard that owns the connection.
pub(crate) type Serve<T> = Arc<dyn Fn(T) -> Work<()> + Send + Sync>;

/// The service at an address: a variant for each transport, with the form of its connections on their way to their shards.
#[derive(Clone)]
pub(crate) enum ConnectionService {
    /// Connections that carry a stream of bytes.
    Tcp(Serve<DetachedStream>),
    /// Connection requests for RDMA.
    Rdma(Serve<DetachedIncoming>),
}

impl ConnectionService {
    /// Streams that `serve` takes on their shards. `of` is the protocol's service.
    pub(crate) fn tcp<S: Clone + Send + Sync + 'static>(
        of: &S,
        serve: impl AsyncFn(S, TcpStream) + Copy + Send + Sync + 'static,
    ) -> ConnectionService {
        let of = of.clone();
        ConnectionService::Tcp(Arc::new(move |stream| {
            let of = of.clone();
            Box::pin(async move { serve(of, stream.attach()).await })
        }))
    }

    /// Connection requests for RDMA that `serve` takes on their shards.
    pub(crate) fn rdma<S: Clone + Send + Sync + 'static>(
        of: &S,
        serve: impl AsyncFn(S, Incoming) + Copy + Send + Sync + 'static,
    ) -> ConnectionService {
        let of = of.clone();
        ConnectionService::Rdma(Arc::new(move |incoming| {
            let of = of.clone();
            Box::pin(async move { serve(of, incoming.attach()).await })
        }))
    }
}

/// An address that a protocol listens on.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) listen: Listen,
    /// The setting that names the address.
    pub(crate) setting: &'static str,
    /// Serves connections to the address.
    pub(crate) service: ConnectionService,
}

/// The addresses of all protocols, as discovery needs them.
pub(crate) struct AddressState<'a> {
    /// The addresses that are served, with the real ports.
    pub(crate) listening: &'a [Listen],
    /// The addresses of the configuration that are not served.
    pub(crate) missing: &'a [NotListening],
    /// The addresses of the names in the configuration.
    pub(crate) names: &'a HostNames,
}

/// A protocol.
pub(crate) trait Protocol: Send + Sync {
    /// The addresses of the configuration.
    fn addresses(&self, config: &Config) -> Vec<Address>;

    /// The addresses that clients are told instead of the listening ones.
    fn told(&self) -> Vec<Listen> {
        Vec::new()
    }

    /// Says which addresses discovery names.
    fn advertise(&self, config: &Config, served: &AddressState<'_>);

    /// Exports of disks and volumes, if the protocol has such exports.
    fn disk_exports(&self) -> Option<&dyn DiskExports> {
        None
    }

    /// Exports of filesystems, if the protocol has such exports.
    fn filesystem_exports(&self) -> Option<&dyn FilesystemExports> {
        None
    }

    /// Adds this protocol's exports; their sessions are not counted.
    fn describe(&self, config: &Config, disks: &Disks, listening: &[Listen], out: &mut Exports);

    /// Sets the number of sessions of each export.
    fn count_sessions(&self, sessions: &[Session], out: &mut Exports);

    /// These exports in the common form, those of this protocol.
    fn rows(&self, exports: &Exports) -> Vec<ExportRow>;

    /// Warnings about exports, for the operator.
    fn warnings(&self, config: &Config) -> Vec<String>;

    /// Every session.
    fn sessions(&self) -> Vec<Session>;

    /// The hosts that access lists refused, the newest first.
    fn refused(&self) -> Vec<RefusedHost>;

    /// The number of these refusals since the start, by reason, with the word of the protocol.
    fn refusals(&self) -> (&'static str, RefusalTotals);

    /// The time of requests by stage, by export.
    fn stages(&self, now: Instant) -> Vec<ExportStages>;

    /// Bytes from and to clients since the start.
    fn traffic(&self) -> (u64, u64);

    /// Ends the session of this number. False if it is none of this protocol.
    fn end_session(&self, id: u32) -> bool;

    /// Adds the protocol's metrics.
    fn metrics(&self, exports: &Exports, out: &mut Families) -> fmt::Result;

    /// Takes no commands any more and finishes those in flight, within [`DRAIN_MAX`](crate::limits::DRAIN_MAX) and
    /// [`FLUSH_MAX`](crate::limits::FLUSH_MAX). Returns the failures, for people.
    fn drain(&self) -> Work<Vec<String>>;
}

/// The exports of a protocol for disks and volumes.
pub(crate) trait DiskExports {
    /// Adds the exports of the configuration, without their disks. Blocks for files of the state directory.
    fn add_exports(&self, file: &ConfigFile);

    /// Publishes the export of an online disk, if it has one over this protocol.
    fn publish(&self, file: &ConfigFile, disk: &str, backend: Arc<dyn BlockBackend>);

    /// Notifies clients that the size of a disk has changed, if it has an export over this protocol.
    fn announce(&self, config: &Config, disk: &str);

    /// Warns clients if a disk, or the pool of a volume, has reached a threshold. `pool` returns the pool's usage.
    fn check_space(
        &self,
        _config: &Config,
        _disk: &str,
        _pool: &dyn Fn() -> Option<Usage>,
    ) -> Option<Work<()>> {
        None
    }

    /// Keeps hosts waiting that connect to an export with a disk or volume that `is_awaited`, and no other hosts.
    fn hold_hosts(&self, config: &Config, is_awaited: &dyn Fn(&str) -> bool);

    /// The reservations of all exports that are served.
    fn reservations(&self, config: &Config) -> Vec<ExportReservations>;

    /// Ends the reservations of an export that [`DiskExports::reservations`] returned; `None` if another protocol did. Errors: the
    /// reason, for people.
    fn clear_reservations(&self, of: &ExportReservations) -> Option<Work<Result<(), String>>>;

    /// Sets the export of a disk, if it has one over this protocol.
    fn exported_as(&self, config: &Config, disk: &str, out: &mut ExportedAs);
}

/// An open filesystem with its property `sharenfs`.
#[derive(Debug, Clone)]
pub(crate) struct SharedFilesystem {
    /// The full name of the filesystem.
    pub(crate) filesystem: String,
    /// The value in effect.
    pub(crate) text: String,
    /// The filesystem or pool that has the value of its own.
    pub(crate) source: String,
}

/// A change of the exports by property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShareChange {
    /// The export of this filesystem ends.
    End(String),
    /// This filesystem is to be exported.
    Begin(String),
}

/// The exports of a protocol for filesystems.
pub(crate) trait FilesystemExports {
    /// Errors: the reason why the property `sharenfs` cannot have this text.
    fn check_share(&self, text: &str) -> Result<(), String>;

    /// Takes over the properties of all open filesystems. `is_open` is false for filesystems of a pool that is being opened or held back,
    /// whose exports stay. Exports that stay get their rights. Returns the exports to end, and then to begin.
    fn follow(
        &self,
        config: &Config,
        shared: Vec<SharedFilesystem>,
        is_open: &dyn Fn(&str) -> bool,
    ) -> Work<Vec<ShareChange>>;

    /// Whether a filesystem is exported by its property, not by the configuration.
    fn is_shared(&self, filesystem: &str) -> bool;

    /// Publishes the export of an open filesystem, if the configuration or its property asks for one over this protocol. The protocol keeps the outcome. Returns
    /// whether the protocol accepted the export, or the filesystem has none.
    fn publish(
        &self,
        file: &ConfigFile,
        filesystem: &str,
        files: Arc<dyn FileBackend>,
    ) -> Work<bool>;

    /// Keeps the reason why the export of a filesystem is not published.
    fn hold_back(&self, config: &Config, filesystem: &str, reason: &str);

    /// Has clients return what they hold exclusively of a filesystem, and waits for it. They get nothing of that kind until the filesystem
    /// is published again: [`FilesystemExports::withdraw`] follows.
    fn recall(&self, filesystem: &str) -> Work<()>;

    /// Ends the export of a filesystem: its file handles become stale. State of its clients goes on if it is published again in time.
    fn withdraw(&self, filesystem: &str);

    /// The same files for a user beside the clients of this protocol: its operations wait for what clients hold exclusively.
    fn guarded(&self, files: Arc<dyn FileBackend>) -> Arc<dyn FileBackend>;
}

/// The hosts that a service refused. `allow` is the command that allows one.
pub(crate) fn refused_hosts(
    protocol: &str,
    hosts: Vec<(refused::RefusedHost, refused::Refusals)>,
    allow: impl Fn(&refused::RefusedHost, refused::RefusalReason) -> String,
) -> Vec<RefusedHost> {
    let view = |(host, refusals): (refused::RefusedHost, refused::Refusals)| RefusedHost {
        protocol: protocol.to_owned(),
        allow: allow(&host, refusals.reason),
        host: host.name,
        address: host.address,
        export: host.export,
        count: refusals.count,
        first_ms: refusals.first_ms,
        last_ms: refusals.last_ms,
    };
    hosts.into_iter().map(view).collect()
}

/// The number of sessions with the export of this name.
pub(crate) fn sessions_of(sessions: &[Session], export: &str) -> usize {
    sessions
        .iter()
        .filter(|s| s.summary.export == export)
        .count()
}

/// The work of clearing reservations, which may wait for a disk.
pub(crate) fn off_the_shard<E: fmt::Display + Send + 'static>(
    clear: impl FnOnce() -> Result<(), E> + Send + 'static,
) -> Work<Result<(), String>> {
    Box::pin(async move {
        match io::blocking(clear).await {
            Ok(cleared) => cleared.map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        }
    })
}

/// A duration in milliseconds.
pub(crate) fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
