//! The errors of the server, by what whoever asked does next.

use crate::config::ConfigError;
use iscsi::wire::IscsiName;
use nvmf::wire::nqn::Nqn;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Result of a server operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the server refused or failed. The text names the object and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration file is wrong: correct it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be read or written: see to permissions and space.
    #[error("cannot {what} {}: {source}", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Somebody else wrote the configuration: restart the server to take it over.
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
    #[error("another wirepool server answers on {}: stop it, or give this one its own [server] control", .0.display())]
    ControlInUse(PathBuf),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Another socket listens on an address: stop its process, or take another address.
    #[error(
        "cannot listen on {address}: the address is in use{holder}; stop that program, or change {setting} in the \
         configuration"
    )]
    AddressTaken {
        /// The address.
        address: SocketAddr,
        /// The setting that names it.
        setting: &'static str,
        /// ` by process PID (NAME)`, or empty if that is not known.
        holder: String,
    },
    /// A request has a value that cannot be: correct it.
    #[error("{0}")]
    Invalid(String),
    /// There is no disk of that name.
    #[error("there is no disk named {0:?}: `wirepool disk list` shows what there is")]
    NoDisk(String),
    /// There is no pool of that name.
    #[error("there is no pool named {0:?}: `wirepool pool list` shows what there is")]
    NoPool(String),
    /// There is no volume of that name.
    #[error("there is no volume named {0:?}: `wirepool volume list` shows what there is")]
    NoVolume(String),
    /// There is no snapshot of that name.
    #[error("there is no snapshot named {0:?}: `wirepool snapshot list` shows what there is")]
    NoSnapshot(String),
    /// The pool has no such disk.
    #[error(
        "the pool {pool:?} has no disk {disk}: `wirepool pool status -v {pool}` shows paths and GUIDs"
    )]
    NoSide {
        /// The pool.
        pool: String,
        /// What was asked for.
        disk: String,
    },
    /// A pool failed, or cannot be opened.
    #[error("the pool {name:?}: {reason}")]
    Pool {
        /// Its name.
        name: String,
        /// Why, for people.
        reason: String,
    },
    /// There is no subsystem of that name.
    #[error("there is no subsystem {0}: `wirepool export list` shows what there is")]
    NoSubsystem(Nqn),
    /// The subsystem has no such namespace.
    #[error("the subsystem {0} has no namespace {1}: `wirepool export list` shows what there is")]
    NoNamespace(Nqn, u32),
    /// There is no target of that name.
    #[error("there is no target {0}: `wirepool export list` shows what there is")]
    NoTarget(IscsiName),
    /// The target has no such logical unit.
    #[error("the target {0} has no LUN {1}: `wirepool export list` shows what there is")]
    NoLun(IscsiName, u16),
    /// There is no session of that number.
    #[error("there is no session {0}: `wirepool session list` shows what there is")]
    NoSession(u32),
    /// The object is in use or there already: change that first.
    #[error("{0}")]
    Conflict(String),
    /// A disk cannot be opened.
    #[error("the disk {name:?}: {reason}")]
    Disk {
        /// Its name.
        name: String,
        /// Why, for people.
        reason: String,
    },
    /// The server is ending, or did not answer in time: try again later.
    #[error("the server is {0}")]
    Unavailable(&'static str),
    /// The system refused what the server needs to run.
    #[error("cannot start {what}: {source}")]
    Start {
        /// What was to start.
        what: &'static str,
        /// Why it did not.
        source: io::Error,
    },
}
