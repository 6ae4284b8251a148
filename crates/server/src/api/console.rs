//! Requests and answers about the web console: its users, and the views that only it has.

use super::SecretText;
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
