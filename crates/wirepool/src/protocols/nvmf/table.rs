//! Text output: the table of subsystems.

use crate::columns::{human, or_dash, rows, with_parts};
use crate::protocols::protocol::{number_of, state};
use server::api::{Export, NamespaceState, Transport};
use std::fmt::Write;

/// The table of subsystems and their namespaces.
pub(super) fn exports(exports: &[Export]) -> String {
    let pairs = with_parts(exports, |e| &e.namespaces);
    let table = rows(&pairs)
        .left("SUBSYSTEM", |(e, _)| e.nqn.clone())
        .right("NSID", |(_, n)| or_dash(n.map(|n| n.nsid.to_string())))
        .left("DISK", |(_, n)| or_dash(n.map(|n| n.disk.clone())))
        .left("STATE", |(_, n)| {
            or_dash(n.map(|n| state(n.state).to_owned()))
        })
        .right("SIZE", |(_, n)| {
            let served = n.filter(|n| n.state == NamespaceState::Served);
            or_dash(served.map(|n| human(n.size)))
        })
        .left("HOSTS", |(e, _)| number_of(&e.hosts))
        .left("TRANSPORTS", |(e, _)| words(&e.transports))
        .right("SESSIONS", |(e, _)| e.sessions.to_string())
        .left("UUID", |(_, n)| or_dash(n.map(|n| n.uuid.to_string())))
        .text();
    let mut notes = String::new();
    for (e, n) in &pairs {
        if let Some((n, reason)) = n.and_then(|n| Some((n, n.reason.as_ref()?))) {
            let _ = writeln!(notes, "{} namespace {}: {reason}", e.nqn, n.nsid);
        }
    }
    table + &notes
}

/// Transports in one text: `tcp, rdma`.
pub(super) fn words(transports: &[Transport]) -> String {
    let words: Vec<&str> = transports.iter().map(|t| t.word()).collect();
    words.join(", ")
}
