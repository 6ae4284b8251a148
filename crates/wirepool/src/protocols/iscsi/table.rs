//! Text output: the table of iSCSI targets, and values of iSCSI sessions.

use crate::columns::{human, or_dash, rows, with_parts, yes};
use crate::protocols::protocol::{number_of, state};
use server::ByteSize;
use server::api::{IscsiFacts, IscsiTarget, NamespaceState, TargetLun};
use std::fmt::Write;

/// The table of targets and their logical units.
pub(super) fn targets(list: &[IscsiTarget]) -> String {
    let pairs = with_parts(list, |t| &t.luns);
    let table = rows(&pairs)
        .left("TARGET", |(t, _)| t.iqn.clone())
        .right("LUN", |(_, l)| or_dash(l.map(|l| l.lun.to_string())))
        .left("DISK", |(_, l)| or_dash(l.map(|l| l.disk.clone())))
        .left("STATE", |(_, l)| or_dash(l.map(lun_state)))
        .right("SIZE", |(_, l)| {
            let served = l.filter(|l| l.state == NamespaceState::Served);
            or_dash(served.map(|l| human(l.size)))
        })
        .left("INITIATORS", |(t, _)| number_of(&t.initiators))
        .left("CHAP", |(t, _)| {
            let mutual = t.chap_mutual.as_ref().map_or("", |_| ", mutual");
            or_dash(t.chap.clone()) + mutual
        })
        .right("PORTALS", |(t, _)| t.portal_group.to_string())
        .right("SESSIONS", |(t, _)| t.sessions.to_string())
        .left("UUID", |(_, l)| or_dash(l.map(|l| l.uuid.to_string())))
        .text();
    let mut notes = String::new();
    for t in list {
        for l in &t.luns {
            if let Some(reason) = &l.reason {
                let _ = writeln!(notes, "{} LUN {}: {reason}", t.iqn, l.lun);
            }
        }
        if let Some(reason) = &t.reason {
            let _ = writeln!(notes, "{} refuses all logins: {reason}", t.iqn);
        }
    }
    table + &notes
}

fn lun_state(l: &TargetLun) -> String {
    let mode = match l.state {
        NamespaceState::Served if l.read_only => ", read-only",
        NamespaceState::Served | NamespaceState::Held => "",
    };
    format!("{}{mode}", state(l.state))
}

/// Keys and values that `session show` has only for iSCSI.
pub(super) fn facts(f: &IscsiFacts) -> Vec<(&'static str, String)> {
    let yes = |flag| yes(flag).to_owned();
    let bytes = |n: u32| ByteSize(u64::from(n)).human();
    vec![
        ("alias", f.alias.clone().unwrap_or("-".into())),
        ("authenticated", yes(f.authenticated)),
        ("connections", format!("{} at most", f.max_connections)),
        ("initial R2T", yes(f.initial_r2t)),
        ("immediate data", yes(f.immediate_data)),
        (
            "data segments",
            format!(
                "{} sent, {} taken at most",
                bytes(f.max_send_data),
                bytes(f.max_recv_data)
            ),
        ),
        (
            "bursts",
            format!("{}, the first {}", bytes(f.max_burst), bytes(f.first_burst)),
        ),
        (
            "R2Ts of a task",
            format!("{} at most", f.max_outstanding_r2t),
        ),
        ("recovery level", f.error_recovery_level.to_string()),
    ]
}
