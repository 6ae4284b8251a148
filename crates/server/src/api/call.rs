//! Requests of the control API: each is a type with its path and its answer.

use super::{Disk, Export, Session, SessionSummary, Status};
use crate::size::ByteSize;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use uuid::Uuid;

/// A request: `GET` without a body if [`Call::READ`], else `POST` with itself as JSON.
pub trait Call: Serialize + DeserializeOwned + Send + 'static {
    /// Its path.
    const PATH: &'static str;
    /// Whether it is a `GET` without changes.
    const READ: bool = false;
    /// The answer.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}

macro_rules! call {
    ($type:ty, $path:literal, $reply:ty $(, read $read:literal)?) => {
        impl Call for $type {
            const PATH: &'static str = $path;
            $(const READ: bool = $read;)?
            type Reply = $reply;
        }
    };
}
pub(super) use call;

/// State of the server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetStatus {}
call!(GetStatus, "/v1/status", Status, read true);

/// The disks.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListDisks {}
call!(ListDisks, "/v1/disks", Vec<Disk>, read true);

/// The subsystems with their namespaces and hosts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListExports {}
call!(ListExports, "/v1/exports", Vec<Export>, read true);

/// The sessions, in short form.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListSessions {}
call!(ListSessions, "/v1/sessions", Vec<SessionSummary>, read true);

/// One session in full.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowSession {
    /// Its number.
    pub id: u32,
}
call!(ShowSession, "/v1/sessions/show", Session);

/// Ends one session; its host or initiator may connect again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndSession {
    /// Its number.
    pub id: u32,
}
call!(EndSession, "/v1/sessions/end", Done);

/// Adds a disk and stores it in the configuration. The disk is opened first: if that fails, the request is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddDisk {
    /// Its name.
    pub name: String,
    /// Its medium.
    pub medium: NewMedium,
    /// Logical block size, bytes: 512 or 4096; by default it depends on the medium.
    #[serde(default)]
    pub block_size: Option<u32>,
    /// Refuse writes.
    #[serde(default)]
    pub read_only: bool,
}
call!(AddDisk, "/v1/disks/add", Disk);

/// Medium of a new disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum NewMedium {
    /// A file.
    File {
        /// Its absolute path.
        path: PathBuf,
        /// Create it with this size if it is missing.
        #[serde(default)]
        size: Option<ByteSize>,
        /// Use the page cache.
        #[serde(default)]
        buffered: bool,
    },
    /// A block device.
    Block {
        /// Its absolute path.
        path: PathBuf,
    },
    /// RAM, lost with the server.
    Mem {
        /// Its size.
        size: ByteSize,
    },
    /// A null disk: discards writes and reads as zeroes.
    Null {
        /// Its size.
        size: ByteSize,
    },
}

/// Changes the size of a disk, visible to clients at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeDisk {
    /// Its name.
    pub name: String,
    /// Its new size.
    pub size: ByteSize,
    /// Allow a smaller size: data beyond it is lost.
    #[serde(default)]
    pub shrink: bool,
}
call!(ResizeDisk, "/v1/disks/resize", Disk);

/// Closes a disk that is not exported and removes it from the configuration. Its data stays.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveDisk {
    /// Its name.
    pub name: String,
}
call!(RemoveDisk, "/v1/disks/remove", Done);

/// Exports a disk as a namespace; the subsystem is created if it does not exist.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddExport {
    /// The subsystem.
    pub nqn: String,
    /// The disk.
    pub disk: String,
    /// The namespace's identifier; the lowest free one if not set.
    #[serde(default)]
    pub nsid: Option<u32>,
    /// The namespace's UUID; a random one if not set.
    #[serde(default)]
    pub uuid: Option<Uuid>,
}
call!(AddExport, "/v1/exports/add", Export);

/// Removes a namespace, or a subsystem with all of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveExport {
    /// The subsystem.
    pub nqn: String,
    /// The namespace; the whole subsystem if not set.
    #[serde(default)]
    pub nsid: Option<u32>,
}
call!(RemoveExport, "/v1/exports/remove", Done);

/// Allows a host, or any, to connect to a subsystem, which is created if it does not exist.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowHost {
    /// The subsystem.
    pub nqn: String,
    /// The host's NQN, or `any`.
    pub host: String,
}
call!(AllowHost, "/v1/hosts/allow", Export);

/// Removes a host from a subsystem's list, or with `any` allows only listed hosts. Sessions that lose their
/// permission end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenyHost {
    /// The subsystem.
    pub nqn: String,
    /// The host's NQN, or `any`.
    pub host: String,
}
call!(DenyHost, "/v1/hosts/deny", Export);

/// An empty answer: success.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}
