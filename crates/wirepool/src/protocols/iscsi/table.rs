//! Text output: the table of iSCSI targets, and values of iSCSI sessions.

use crate::columns::{table, text};
use server::ByteSize;
use server::api::{IscsiFacts, IscsiTarget, NamespaceState};
use std::fmt::Write;

/// The table of targets and their logical units.
pub(super) fn targets(list: &[IscsiTarget]) -> String {
    let header = [
        "TARGET",
        "LUN",
        "DISK",
        "STATE",
        "SIZE",
        "INITIATORS",
        "CHAP",
        "PORTALS",
        "SESSIONS",
        "UUID",
    ];
    let mut t = table(&header, &[1, 4, 7, 8]);
    let mut notes = String::new();
    for one in list {
        let initiators = match one.initiators.as_slice() {
            [] => "none".to_owned(),
            [only] if only == "any" => "any".to_owned(),
            many => many.len().to_string(),
        };
        let chap = one.chap.clone().unwrap_or("-".into())
            + one.chap_mutual.as_ref().map_or("", |_| ", mutual");
        let (group, sessions) = (one.portal_group.to_string(), one.sessions.to_string());
        if one.luns.is_empty() {
            let iqn = &one.iqn;
            t.add_row([
                iqn,
                "-",
                "-",
                "-",
                "-",
                &initiators,
                &chap,
                &group,
                &sessions,
                "-",
            ]);
        }
        for l in &one.luns {
            let (state, size) = match l.state {
                NamespaceState::Served if l.read_only => {
                    ("served, read-only", ByteSize(l.size).human())
                }
                NamespaceState::Served => ("served", ByteSize(l.size).human()),
                NamespaceState::Held => ("held", "-".into()),
            };
            t.add_row([
                one.iqn.clone(),
                l.lun.to_string(),
                l.disk.clone(),
                state.to_owned(),
                size,
                initiators.clone(),
                chap.clone(),
                group.clone(),
                sessions.clone(),
                l.uuid.to_string(),
            ]);
            if let Some(reason) = &l.reason {
                let _ = writeln!(notes, "{} LUN {}: {reason}", one.iqn, l.lun);
            }
        }
        if let Some(reason) = &one.reason {
            let _ = writeln!(notes, "{} refuses all logins: {reason}", one.iqn);
        }
    }
    text(&t) + &notes
}

/// Keys and values that `session show` has only for iSCSI.
pub(super) fn facts(f: &IscsiFacts) -> Vec<(&'static str, String)> {
    let yes = |flag| if flag { "yes" } else { "no" }.to_owned();
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
