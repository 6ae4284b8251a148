//! Errors of the server, classified by the remedy.

use crate::config::ConfigError;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Result of a server operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the server refused or failed. The text names the object and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration file is invalid: correct it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be read or written: check permissions and space.
    #[error("cannot {what} {}: {source}", .path.display())]
    File {
        /// The failed operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Another program wrote the configuration: restart the server to use it.
    #[error(
        "{} was changed since the server read it, and is left as it is: restart the server to take the file over, then \
         repeat the change",
        .0.display()
    )]
    Edited(PathBuf),
    /// Another server has this state directory.
    #[error(
        "another wirepool server uses the state directory {}: stop it, or give this one its own configuration or \
         [server] state_dir",
        .0.display()
    )]
    Locked(PathBuf),
    /// Another server answers on this control socket.
    #[error("another wirepool server answers on {}: stop it, or {change}", .path.display())]
    ControlInUse {
        /// The socket.
        path: PathBuf,
        /// The change that gives this server another socket, for people.
        change: &'static str,
    },
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The machine does not have the address: a network without carrier, or an address that moves between machines.
    #[error("the address {address} of {setting} is not on this machine{own}")]
    AddressAbsent {
        /// The address.
        address: SocketAddr,
        /// The setting with the address.
        setting: &'static str,
        /// `, which has ADDRESS, ADDRESS`, or empty if its addresses are not known.
        own: String,
    },
    /// The machine cannot listen on the address for RDMA now: install or load the missing part.
    #[error("{address} of {setting} is not served over RDMA: {reason}")]
    RdmaAbsent {
        /// The address.
        address: SocketAddr,
        /// The setting with the address.
        setting: &'static str,
        /// The missing part, and the remedy.
        reason: String,
    },
    /// Another socket listens on the address: stop its process, or use another address.
    #[error(
        "cannot listen on {address}: the address is in use{holder}; stop that program, or change {setting} in the \
         configuration"
    )]
    AddressTaken {
        /// The address.
        address: SocketAddr,
        /// The setting with the address.
        setting: &'static str,
        /// ` by process PID (NAME)`, or empty if that is not known.
        holder: String,
    },
    /// A request has an invalid value: correct it.
    #[error("{0}")]
    Invalid(String),
    /// There is no disk of that name.
    #[error("no such disk {0:?}: see `wirepool disk list`")]
    NoDisk(String),
    /// There is no pool of that name.
    #[error("no such pool {0:?}: see `wirepool pool list`")]
    NoPool(String),
    /// There is no volume of that name.
    #[error("no such volume {0:?}: see `wirepool volume list`")]
    NoVolume(String),
    /// There is no filesystem of that name.
    #[error("no such filesystem {0:?}: see `wirepool fs list`")]
    NoFilesystem(String),
    /// There is neither a volume nor a filesystem of that name.
    #[error(
        "no such volume or filesystem {0:?}: see `wirepool volume list` and `wirepool fs list`"
    )]
    NoDataset(String),
    /// There is no snapshot of that name.
    #[error("no such snapshot {0:?}: see `wirepool snapshot list`")]
    NoSnapshot(String),
    /// The pool has no such disk.
    #[error(
        "the pool {pool:?} has no disk {disk}: `wirepool pool status -v {pool}` shows paths and GUIDs"
    )]
    NoMember {
        /// The pool.
        pool: String,
        /// The requested disk.
        disk: String,
    },
    /// The system refuses to mount or unmount, or changes could not be made durable.
    #[error("the filesystem {name:?}: {source}")]
    Mount {
        /// The filesystem.
        name: String,
        /// The cause.
        source: fuse::Error,
    },
    /// A pool failed, or cannot be opened.
    #[error("the pool {name:?}: {reason}")]
    Pool {
        /// Its name.
        name: String,
        /// The reason, for people.
        reason: String,
    },
    /// There is no such subsystem, target, namespace or logical unit.
    #[error("{0}: see `wirepool export list`")]
    NoExport(String),
    /// The console has no user of that name.
    #[error("no such user {0:?}: see `wirepool console user list`")]
    NoUser(String),
    /// There is no session of that number.
    #[error("no such session {0}: see `wirepool session list`")]
    NoSession(u32),
    /// The object is in use or exists already: change that first.
    #[error("{0}")]
    Conflict(String),
    /// A disk cannot be opened.
    #[error("the disk {name:?}: {reason}")]
    Disk {
        /// Its name.
        name: String,
        /// The reason, for people.
        reason: String,
    },
    /// The server is shutting down, or did not answer in time: try again later.
    #[error("the server is {0}")]
    Unavailable(&'static str),
    /// The system refused a resource that the server needs.
    #[error("cannot start {what}: {source}")]
    Start {
        /// The resource.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}
