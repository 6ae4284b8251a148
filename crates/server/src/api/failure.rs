//! Answers for failed requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An answer for a failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Kind of failure, for programs.
    pub code: FailureCode,
    /// Description and remedy, for people.
    pub message: String,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// The request has an invalid value. HTTP 400.
    Invalid,
    /// The named object does not exist. HTTP 404.
    NotFound,
    /// The named object is in use or exists already. HTTP 409.
    Conflict,
    /// The server tried and failed. HTTP 500.
    Failed,
    /// The server is shutting down or too busy. HTTP 503.
    Unavailable,
}
