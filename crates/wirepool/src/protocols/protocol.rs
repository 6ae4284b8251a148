//! A protocol, as the other commands know it.
//!
//! **Called by** the commands, the tables and the banner of `serve`; each protocol's folder implements it.

use super::RemoveArgs;
use crate::ask::Ask;
use anyhow::Result;
use server::ByteSize;
use server::api::{Exports, Listen, NamespaceState, Session, SessionSummary, Status};

/// A row of `session show`: name and value.
pub(crate) type Fact = (&'static str, String);

/// An export in short form.
pub(crate) struct ExportSummary {
    /// The subsystem, the target, or the path of an NFS export.
    pub(crate) name: String,
    /// Its disks, volumes or filesystem, each with its state.
    pub(crate) disks: Vec<(String, NamespaceState)>,
    /// Sessions to it now; `None` if sessions use all exports of the protocol.
    pub(crate) sessions: Option<usize>,
}

/// The state of a namespace, a logical unit or an export.
pub(crate) fn state(state: NamespaceState) -> &'static str {
    match state {
        NamespaceState::Served => "served",
        NamespaceState::Held => "held",
    }
}

/// The number of clients on a list; `any` if each client may connect.
pub(crate) fn number_of(clients: &[String]) -> String {
    match clients {
        [] => "none".to_owned(),
        [one] if one == "any" => "any".to_owned(),
        many => many.len().to_string(),
    }
}

/// A protocol.
pub(crate) trait Protocol: Sync {
    /// The word for it in sessions: `nvme`.
    fn word(&self) -> &'static str;

    /// The words for an address of this protocol: for programs, and for people.
    fn role(&self, listen: &Listen) -> Option<(&'static str, &'static str)>;

    /// Whether `name` is the name of an export over this protocol.
    fn is_export(&self, name: &str) -> bool;

    /// That an export has numbers, as a sentence, and the flag for one of them.
    fn number_flag(&self) -> (&'static str, &'static str);

    /// Whether the flag for a number is on the command line.
    fn has_number(&self, args: &RemoveArgs) -> bool;

    /// `wirepool export remove`.
    fn remove(&self, ask: &Ask, name: String, args: RemoveArgs) -> Result<String>;

    /// `wirepool host allow`.
    fn allow(&self, ask: &Ask, name: String, client: String) -> Result<String>;

    /// `wirepool host deny`.
    fn deny(&self, ask: &Ask, name: String, client: String) -> Result<String>;

    /// The exports with the clients that may connect.
    fn access_lists(&self, exports: &Exports) -> Vec<(String, Vec<String>)>;

    /// The exports in short form.
    fn summaries(&self, exports: &Exports) -> Vec<ExportSummary>;

    /// The table of exports; `None` without exports.
    fn table(&self, exports: &Exports) -> Option<String>;

    /// Disks that are exported, for the banner of `serve`.
    fn banner(&self, status: &Status) -> String;

    /// Commands for a Linux client, for the banner of `serve`.
    fn client_lines(&self, status: &Status) -> String;

    /// Whether a connection is a queue with entries, and clients keep the session alive.
    fn has_queues(&self) -> bool;

    /// The values of a session that `session show` begins with.
    fn facts(&self, session: &Session) -> Vec<Fact>;
}

/// The host's name, or a placeholder for a host without one; its host ID and address identify it.
pub(crate) fn host_name(s: &SessionSummary) -> &str {
    match s.client.as_str() {
        "" => "(no NQN)",
        name => name,
    }
}

/// The size of an exported disk, or why it is held back.
pub(crate) fn size_or_reason(state: NamespaceState, size: u64, reason: Option<&str>) -> String {
    match state {
        NamespaceState::Served => ByteSize(size).human(),
        NamespaceState::Held => format!("held back: {}", reason.unwrap_or("not known")),
    }
}
