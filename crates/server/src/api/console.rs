//! Requests and answers about the web console: its users, and the views that only it has.

use super::{Listen, NamespaceState, Pool, SecretText, ServerState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The web console of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConsoleStatus {
    /// Address of its HTTPS port.
    pub address: SocketAddr,
    /// SHA-256 of its certificate: 32 pairs of hexadecimal digits.
    pub fingerprint: String,
}

/// A user of the web console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConsoleUser {
    /// Its name.
    pub name: String,
    /// When it was added, or its password was set last, ms since 1970.
    pub changed_ms: u64,
    /// Browsers that are logged in now.
    pub sessions: usize,
    /// What it may do.
    #[serde(default)]
    pub role: UserRole,
}

/// What a user of the web console may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserRole {
    /// Everything that the control API can, except to manage users.
    #[default]
    Admin,
    /// Ask, and change nothing.
    Reader,
}

/// The users of the web console.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListConsoleUsers {}

/// Adds a user of the web console.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddConsoleUser {
    /// Its name: letters, digits, `.`, `_` and `-`; at most 32.
    pub name: String,
    /// Its password, 8 to 1024 bytes.
    pub password: SecretText,
    /// What it may do; by default everything.
    #[serde(default)]
    pub role: UserRole,
}

/// Sets the password of a user of the web console; its browsers are logged out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetConsolePassword {
    /// The user.
    pub name: String,
    /// The new password, 8 to 1024 bytes.
    pub password: SecretText,
}

/// Removes a user of the web console; its browsers are logged out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveConsoleUser {
    /// The user.
    pub name: String,
}

/// Forgets the failed logins of a user of the web console, so that it may log in at once.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnlockConsoleUser {
    /// The user.
    pub name: String,
}

/// Rates of the past, oldest first. They are kept while the server has a web console.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRates {
    /// Only rates after this time, ms since 1970.
    #[serde(default)]
    pub after_ms: u64,
    /// The last day in steps of a minute, instead of the last half hour in steps of two seconds.
    #[serde(default)]
    pub day: bool,
}

/// Rates of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// End of the step, ms since 1970.
    pub time_ms: u64,
    /// Reads of clients, per second.
    pub reads: f64,
    /// Writes of clients, per second.
    pub writes: f64,
    /// Other requests of clients, per second.
    pub others: f64,
    /// Mean time of a request from its arrival to the end of its reply, µs; 0 without requests.
    pub mean_us: f64,
    /// Bytes from clients, per second.
    pub bytes_in: f64,
    /// Bytes to clients, per second.
    pub bytes_out: f64,
    /// Bytes read from the disks of pools, per second.
    pub disk_read: f64,
    /// Bytes written to the disks of pools, per second.
    pub disk_written: f64,
    /// Processor time of the busiest shard, % of a core.
    pub cpu_percent: f64,
    /// Used bytes of all pools.
    pub used: u64,
}

/// Watches the exports for a while, and judges where the time of requests goes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskWhy {
    /// The name of a subsystem or target, or `nfs`; by default every export that had requests.
    #[serde(default)]
    pub export: Option<String>,
    /// How long to watch, s: 1 to 30.
    #[serde(default = "three")]
    pub seconds: u64,
}

fn three() -> u64 {
    3
}

/// Examines the settings of the server's machine, as the server may see them. Nothing is changed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetDoctor {}

/// The stored reports of drills and measurements, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListReports {}

/// A stored report: a page that `wirepool drill` or `wirepool bench` wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredReport {
    /// Name of its file.
    pub name: String,
    /// Heading of the page.
    pub title: String,
    /// Its length, bytes.
    pub size: u64,
    /// Time of its last change, ms since 1970.
    pub modified_ms: u64,
}

/// The state of the server in short: counts instead of lists. Its size does not grow with volumes, exports and sessions.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetSummary {}

/// The state of a server in short.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The version of the program.
    pub version: String,
    /// Present state.
    pub state: ServerState,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Listening addresses.
    pub listen: Vec<Listen>,
    /// Addresses that clients are told instead of the listening ones.
    pub told: Vec<Listen>,
    /// Number of sessions now.
    pub sessions: usize,
    /// Number of disks outside of pools.
    pub disks: usize,
    /// Number of volumes of open pools.
    pub volumes: usize,
    /// Number of filesystems of open pools.
    pub filesystems: usize,
    /// Number of subsystems, targets and exported filesystems.
    pub exports: usize,
    /// Its pools; of damaged ranges and of datasets with sync=disabled, the first 20.
    pub pools: Vec<Pool>,
    /// The first 20 disks outside of pools that could not be opened.
    pub held_disks: Vec<HeldObject>,
    /// The first 20 filesystems that could not be mounted.
    pub held_mounts: Vec<HeldObject>,
    /// The first 20 warnings for the operator.
    pub warnings: Vec<String>,
    /// Number of further warnings.
    pub more_warnings: usize,
}

/// An object that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldObject {
    /// Its name.
    pub name: String,
    /// Why it cannot be used.
    pub reason: String,
}

/// A list of which a part can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowList {
    /// Disks outside of pools.
    Disks,
    /// Volumes.
    Volumes,
    /// Filesystems; with `export`, the path by which NFS clients mount it.
    Filesystems,
    /// Snapshots; with `newest` and `is_volume`.
    Snapshots,
    /// Subsystems, targets and exported filesystems, in a common form; with the first 20 clients and `more_clients`.
    Exports,
    /// Sessions.
    Sessions,
    /// Events, newest first.
    Events,
    /// Written bytes of datasets.
    Written,
    /// Changes of the pool `of`, newest first.
    History,
    /// Lines of the server's log since its start, newest first.
    Log,
}

/// A part of a list: the rows that have all of some words, in the order of a field.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRows {
    /// The list.
    pub list: RowList,
    /// Only rows of this pool or dataset, or with this name.
    #[serde(default)]
    pub of: Option<String>,
    /// Only rows whose texts have all of these words, regardless of upper and lower case.
    #[serde(default)]
    pub words: String,
    /// The field that decides the order; by default the list has its own order.
    #[serde(default)]
    pub sort: Option<String>,
    /// Descending order of that field.
    #[serde(default)]
    pub down: bool,
    /// Number of rows before the first one.
    #[serde(default)]
    pub first: usize,
    /// Most rows, 1 to 200.
    #[serde(default = "fifty")]
    pub count: usize,
    /// The fields of the rows in the answer; by default all.
    #[serde(default)]
    pub fields: Vec<String>,
}

fn fifty() -> usize {
    50
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rows {
    /// Number of rows in the list.
    pub total: usize,
    /// Number of these that have the words.
    pub matching: usize,
    /// The part.
    pub rows: Vec<serde_json::Value>,
}

/// A subsystem, a target or an exported filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportRow {
    /// `nvme`, `iscsi` or `nfs`.
    pub protocol: String,
    /// Its name, or the path that clients mount.
    pub name: String,
    /// Clients that may use it; `any` for all. Of NFS with their rights.
    pub clients: Vec<String>,
    /// Number of present sessions.
    pub sessions: usize,
    /// Disks, volumes or the filesystem that it serves.
    pub parts: Vec<ExportPart>,
    /// What clients must prove or encrypt: the CHAP name, or `xprtsec`; none if nothing.
    pub protection: Option<String>,
    /// The property that makes the export, if the configuration does not.
    pub shared_by: Option<String>,
}

/// A part of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportPart {
    /// Its number: the namespace or LUN.
    pub number: Option<u32>,
    /// The disk, volume or filesystem.
    pub disk: String,
    /// Whether clients see it.
    pub state: NamespaceState,
    /// Why it is held back.
    pub reason: Option<String>,
}
