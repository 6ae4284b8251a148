//! What exports of all protocols have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a namespace is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceState {
    /// Clients see it.
    Served,
    /// Its disk is temporarily unavailable.
    Held,
}
