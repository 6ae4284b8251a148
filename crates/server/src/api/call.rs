//! Requests of the control API: each is a type with its path and its answer.

use super::failure::FailureCode;
use crate::size::ByteSize;
use clap::Args;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET` without a body: it changes nothing.
    Get,
    /// `POST` with the request as JSON: a question, which changes nothing.
    Ask,
    /// `POST` with the request as JSON: a change.
    Post,
}

impl Method {
    /// Whether the request changes something.
    #[must_use]
    pub fn is_change(self) -> bool {
        matches!(self, Method::Post)
    }
}

/// A request: its path and its answer. The table of `server::control::routes` implements this for each request.
pub trait Call: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// How it is sent.
    const METHOD: Method;
    /// Its path.
    const PATH: &'static str;
    /// The failures that may answer it.
    const FAILURES: &'static [FailureCode];
    /// The answer.
    type Reply: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
}

/// State of the server.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetStatus {}

/// The time of requests by stage.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetStages {}

/// The disks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListDisks {}

/// The sessions, in short form.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListSessions {}

/// The hosts that access lists refused, the newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListRefusedHosts {}

/// One session in full.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct ShowSession {
    /// The session's number.
    pub id: u32,
}

/// Ends one session; its host or initiator may connect again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct EndSession {
    /// The session's number.
    pub id: u32,
}

/// Adds a disk and stores it in the configuration. The disk is opened first: if that fails, the request is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Medium of a new disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct ResizeDisk {
    /// The disk.
    pub name: String,
    /// The new size, such as 200G.
    pub size: ByteSize,
    /// Allow a smaller size. Data beyond the new size is lost.
    #[serde(default)]
    #[arg(long)]
    pub shrink: bool,
}

/// Flushes and closes a disk that is not exported, and removes it from the configuration. Its data stays.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct RemoveDisk {
    /// The disk.
    pub name: String,
    /// Remove it although it cannot be flushed. Its last writes may be lost.
    #[serde(default)]
    #[arg(short, long)]
    pub force: bool,
}

/// The description of the control API, an OpenAPI 3.1 document.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetOpenApi {}

/// An OpenAPI 3.1 document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OpenApi(pub serde_json::Value);

/// An empty answer: success.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}
