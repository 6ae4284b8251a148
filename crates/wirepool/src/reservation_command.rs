//! `wirepool export reservations`.
//!
//! **Owns** its arguments and its table. **Called by** the commands for exports. **Invariants**: reservations are cleared only with
//! `--clear` and `--force`, since a cluster relies on them.

use crate::ask::Ask;
use crate::columns::{table, text};
use anyhow::{Result, bail};
use clap::Args;
use server::api::{ClearReservations, ExportReservations, ListReservations};

/// Arguments of `wirepool export reservations`.
#[derive(Args)]
pub(crate) struct ReservationArgs {
    /// The subsystem or target; all that have reservations if not given.
    export: Option<String>,
    /// The namespace or LUN to clear, if the export has several.
    #[arg(long, requires = "clear")]
    number: Option<u32>,
    /// End all registrations and the reservation, without their keys. The hosts that lose them are told.
    #[arg(long, requires = "export")]
    clear: bool,
    /// Confirm --clear: a cluster that relies on the reservation may write from two hosts at once.
    #[arg(short, long, requires = "clear")]
    force: bool,
}

/// Carries the command out.
pub(crate) fn run(ask: &Ask, args: ReservationArgs) -> Result<String> {
    let ReservationArgs {
        export,
        number,
        clear,
        force,
    } = args;
    match export {
        Some(export) if clear => {
            if !force {
                bail!(
                    "--clear ends the reservations of a cluster: make sure that its hosts are gone, and add -f"
                );
            }
            let done = format!("reservations of {export} cleared\n");
            ask.show(&ClearReservations { export, number }, |_| done)
        }
        export => ask.show(&ListReservations { export }, |all| reservations(all)),
    }
}

fn reservations(all: &[ExportReservations]) -> String {
    if all.is_empty() {
        return "no host is registered\n".into();
    }
    let header = [
        "EXPORT",
        "NUMBER",
        "DISK",
        "RESERVATION",
        "PERSISTS",
        "CLIENT",
        "KEY",
    ];
    let mut t = table(&header, &[1]);
    for r in all {
        let kind = r.kind.clone().unwrap_or_else(|| "-".into());
        let persists = if r.persists { "yes" } else { "no" };
        let start = [
            r.export.clone(),
            r.number.to_string(),
            r.disk.clone(),
            kind,
            persists.into(),
        ];
        if r.registrants.is_empty() {
            t.add_row(start.iter().cloned().chain(["-".into(), "-".into()]));
        }
        for registrant in &r.registrants {
            let holds = if registrant.holder { " (holder)" } else { "" };
            let client = format!("{}{holds}", registrant.client);
            t.add_row(
                start
                    .iter()
                    .cloned()
                    .chain([client, registrant.key.clone()]),
            );
        }
    }
    text(&t)
}
