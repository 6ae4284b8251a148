//! Text output: the table of NFS exports, and the values of a client.

use crate::columns::rows;
use crate::protocols::protocol::{Fact, state};
use server::api::{NfsExport, NfsFacts, NfsTls};
use std::fmt::Write;

/// The table of exports.
pub(super) fn exports(exports: &[NfsExport]) -> String {
    let table = rows(exports)
        .left("NFS EXPORT", |e| e.path.clone())
        .left("FILESYSTEM", |e| e.filesystem.clone())
        .left("STATE", |e| state(e.state).to_owned())
        .left("CLIENTS", |e| match e.clients.is_empty() {
            true => "none".to_owned(),
            false => e.clients.join(" "),
        })
        .text();
    let mut notes = String::new();
    for e in exports {
        if let Some(reason) = &e.reason {
            let _ = writeln!(notes, "{}: {reason}", e.path);
        }
        if let Some(source) = &e.shared_by {
            let _ = writeln!(notes, "{}: by the property sharenfs of {source}", e.path);
        }
        if let Some(source) = &e.unused_property {
            let _ = writeln!(
                notes,
                "{}: by the configuration; the property sharenfs of {source} is not used",
                e.path
            );
        }
    }
    table + &notes
}

fn session(tls: &NfsTls) -> String {
    let NfsTls {
        version, cipher, ..
    } = tls;
    match tls.certificate.as_deref() {
        None => format!("{version}, {cipher}, no certificate"),
        Some("") => format!("{version}, {cipher}, certificate without a name"),
        Some(name) => format!("{version}, {cipher}, certificate {name}"),
    }
}

/// The values of a client.
pub(super) fn facts(f: &NfsFacts) -> Vec<Fact> {
    let version = match f.version.as_str() {
        "" => "-".to_owned(),
        version => version.to_owned(),
    };
    let tls: Vec<String> = f.tls.iter().map(session).collect();
    vec![
        ("version", version),
        (
            "TLS",
            match tls.is_empty() {
                true => "no".to_owned(),
                false => tls.join("; "),
            },
        ),
        ("sessions", format!("{}, {} slots", f.sessions, f.slots)),
        ("opens", f.opens.to_string()),
        ("locks", f.locks.to_string()),
        ("delegations", f.delegations.to_string()),
    ]
}
