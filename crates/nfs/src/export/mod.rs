//! Exports: file systems, the hosts that may use them, and the pseudo file system above them (§7).
//!
//! | module | owns |
//! |---|---|
//! | `access` | rules of hosts: read-only, squash |
//! | `tree` | the directories above the exports |
//!
//! **Called by** the service and its caller, which configures it. **Invariants**: an export that a host may not use is
//! indistinguishable from one that does not exist (decision 0305); a tree never changes: a new one takes its place.

mod access;
mod tree;

pub use access::{Access, Hosts, NOBODY, Protection, Rule, Security, Squash};
pub use tree::Standing;
pub(crate) use tree::Tree;

use backend::file::FileBackend;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use thiserror::Error;

/// A file system to serve.
#[derive(Clone)]
pub struct ExportConfig {
    /// Its number, in every handle: the same after a restart, never used for another file system.
    pub id: u32,
    /// Its absolute path.
    pub path: String,
    /// The file system.
    pub files: Arc<dyn FileBackend>,
    /// Hosts and their rights; the first rule that fits a host applies. A host that no rule fits sees nothing of the export.
    pub rules: Vec<Rule>,
}

impl fmt::Debug for ExportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportConfig")
            .field("id", &self.id)
            .field("path", &self.path)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// Why a change of the exports was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExportError {
    /// Another export has this path.
    #[error("{0} is exported already")]
    PathExists(String),
    /// Another export has this number.
    #[error("another export has number {0}")]
    NumberExists(u32),
    /// There is no export of this path.
    #[error("{0} is not exported")]
    NoExport(String),
    /// The path is not absolute, or has a component that no directory can have.
    #[error("{0} is no absolute path")]
    InvalidPath(String),
    /// There are [`crate::limits::EXPORTS_MAX`] exports.
    #[error("there are too many exports")]
    TooMany,
}

/// An export that is served.
pub(crate) struct Export {
    pub(crate) config: ExportConfig,
    /// The number of its directory in the pseudo file system.
    pub(crate) node: u64,
    /// The verifier of writes. It differs from that of every earlier time at which this file system was exported.
    pub(crate) verifier: [u8; 8],
}

impl Export {
    /// The rights of a host.
    pub(crate) fn access(&self, peer: IpAddr) -> Access<'_> {
        Access::of(&self.config.rules, peer.to_canonical())
    }

    /// The rights of a host; `None` if it may not use the export, or not before a name is resolved.
    pub(crate) fn rule(&self, peer: IpAddr) -> Option<&Rule> {
        match self.access(peer) {
            Access::Granted(rule) => Some(rule),
            Access::Undecided | Access::Denied => None,
        }
    }

    /// Whether no rule admits a host, and none that is unresolved could.
    pub(crate) fn denies(&self, peer: IpAddr) -> bool {
        self.access(peer) == Access::Denied
    }

    /// Whether a rule names hosts.
    pub(crate) fn lists_hosts(&self) -> bool {
        let rules = self.config.rules.iter();
        rules.into_iter().any(|rule| rule.hosts != Hosts::Any)
    }

    /// The file system.
    pub(crate) fn files(&self) -> &dyn FileBackend {
        &*self.config.files
    }
}
