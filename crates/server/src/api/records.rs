//! Requests and answers about history, events and properties.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Time, ms since 1970.
    pub time_ms: u64,
    /// The host.
    pub host: String,
    /// The request, such as `pool attach disk=/dev/a new=/dev/b pool=tank`.
    pub what: String,
}

/// Changes of a pool with this server, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolHistory {
    /// The pool.
    pub name: String,
}

/// An event of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Number of the event since the server started, from 1.
    pub sequence: u64,
    /// Time, ms since 1970.
    pub time_ms: u64,
    /// The pool.
    pub pool: String,
    /// Class, for programs: `pool.open`, `pool.held`, `member.faulted` and so on.
    pub class: String,
    /// Description, for people.
    pub text: String,
}

/// The last events, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListEvents {
    /// Only of this pool; default: all pools.
    #[serde(default)]
    pub pool: Option<String>,
    /// Only events after this one.
    #[serde(default)]
    pub after: u64,
}

/// A property of a pool or volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Property {
    /// The pool or volume.
    pub name: String,
    /// Name of the property.
    pub property: String,
    /// Its value: bytes as a number, times as ms since 1970.
    pub value: String,
    /// The value is a number of bytes.
    pub is_size: bool,
    /// It can be set.
    pub settable: bool,
    /// The origin of its value.
    pub source: PropertySource,
    /// The dataset or pool that it is inherited from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<String>,
    /// A warning about this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The origin of a property's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PropertySource {
    /// It was set for this volume or pool.
    Local,
    /// It is the value of a dataset above, or of the pool.
    Inherited,
    /// It came with a received stream.
    Received,
    /// It was set nowhere.
    Default,
    /// The property cannot be set.
    None,
}

/// The warning for `sync=disabled`.
pub const SYNC_DISABLED: &str = "sync=disabled: flushes and durable writes are answered at once although nothing is \
    durable; what clients hold to be on stable storage is lost with the server's power or process";

/// The properties of pools and volumes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetProperties {
    /// The pools and volumes; empty for all.
    #[serde(default)]
    pub names: Vec<String>,
    /// The properties; empty for all.
    #[serde(default)]
    pub properties: Vec<String>,
}

/// Sets a property of a volume or pool, for it and all datasets that inherit it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetProperty {
    /// The volume or pool.
    pub name: String,
    /// Name of the property.
    pub property: String,
    /// Its new value; sizes as `100G`.
    pub value: String,
}

/// Removes the value that a volume or pool has of its own, so that it inherits the property.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct InheritProperty {
    /// The volume, filesystem or pool, such as tank/vm1.
    #[arg(index = 2)]
    pub name: String,
    /// The property, such as compression: see `wirepool set --help`.
    #[arg(index = 1)]
    pub property: String,
}
