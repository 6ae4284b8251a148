//! Text output: the table of subsystems.

use crate::columns::{table, text};
use server::ByteSize;
use server::api::{Export, NamespaceState};
use std::fmt::Write;

/// The table of subsystems and their namespaces.
pub(super) fn exports(exports: &[Export]) -> String {
    let mut t = table(
        &[
            "SUBSYSTEM",
            "NSID",
            "DISK",
            "STATE",
            "SIZE",
            "HOSTS",
            "SESSIONS",
            "UUID",
        ],
        &[1, 4, 6],
    );
    let mut notes = String::new();
    for e in exports {
        let hosts = match e.hosts.as_slice() {
            [] => "none".to_owned(),
            [one] if one == "any" => "any".to_owned(),
            many => many.len().to_string(),
        };
        let sessions = e.sessions.to_string();
        if e.namespaces.is_empty() {
            t.add_row([&e.nqn, "-", "-", "-", "-", &hosts, &sessions, "-"]);
        }
        for n in &e.namespaces {
            let (state, size) = match n.state {
                NamespaceState::Served => ("served", ByteSize(n.size).human()),
                NamespaceState::Held => ("held", "-".into()),
            };
            let (nsid, uuid) = (n.nsid.to_string(), n.uuid.to_string());
            t.add_row([
                e.nqn.as_str(),
                &nsid,
                &n.disk,
                state,
                &size,
                &hosts,
                &sessions,
                &uuid,
            ]);
            if let Some(reason) = &n.reason {
                let _ = writeln!(notes, "{} namespace {}: {reason}", e.nqn, n.nsid);
            }
        }
    }
    text(&t) + &notes
}
