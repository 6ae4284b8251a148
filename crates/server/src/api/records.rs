//! History, events and properties: what is asked and answered.

use super::call::{Call, call};
use serde::{Deserialize, Serialize};

/// Something that was done to a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// When, ms since 1970.
    pub time_ms: u64,
    /// On which host.
    pub host: String,
    /// What, such as `pool attach disk=/dev/a new=/dev/b pool=tank`.
    pub what: String,
}

/// What was done to a pool with this server, the oldest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolHistory {
    /// The pool.
    pub name: String,
}
call!(PoolHistory, "/v1/pools/history", Vec<HistoryEntry>);

/// Something that happened to a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts events since the server started, from 1.
    pub sequence: u64,
    /// When, ms since 1970.
    pub time_ms: u64,
    /// The pool.
    pub pool: String,
    /// What kind, for programs: `pool.open`, `pool.held`, `side.faulted` and so on.
    pub class: String,
    /// What, for people.
    pub text: String,
}

/// The last events, the oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListEvents {
    /// Of this pool; of all if not set.
    #[serde(default)]
    pub pool: Option<String>,
    /// Those after this one.
    #[serde(default)]
    pub after: u64,
}
call!(ListEvents, "/v1/pools/events", Vec<Event>);

/// A property of a pool or volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    /// The pool or volume.
    pub name: String,
    /// Which property.
    pub property: String,
    /// Its value: bytes as a number, times as ms since 1970.
    pub value: String,
    /// The value is a number of bytes.
    pub is_size: bool,
    /// It can be set.
    pub settable: bool,
    /// What whoever sees this value should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// What `sync=disabled` means.
pub const SYNC_DISABLED: &str = "sync=disabled: flushes and durable writes are answered at once although nothing is \
    durable; what clients hold to be on stable storage is lost with the server's power or process";

/// The properties of pools and volumes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetProperties {
    /// Of these; of everything if there are none.
    #[serde(default)]
    pub names: Vec<String>,
    /// These; all if there are none.
    #[serde(default)]
    pub properties: Vec<String>,
}
call!(GetProperties, "/v1/properties/get", Vec<Property>);

/// Sets a property of a volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetProperty {
    /// The volume.
    pub name: String,
    /// Which property.
    pub property: String,
    /// Its new value; sizes as `100G`.
    pub value: String,
}
call!(SetProperty, "/v1/properties/set", Property);
