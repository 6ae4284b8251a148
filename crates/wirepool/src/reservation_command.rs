//! `wirepool export reservations`.
//!
//! **Owns** its arguments and its table. **Called by** the commands for exports. **Invariants**: reservations are cleared only with
//! `--clear` and `--force`, since a cluster relies on them.

use crate::ask::Ask;
use crate::columns::{or_dash, rows, with_parts, yes};
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
    let pairs = with_parts(all, |r| &r.registrants);
    rows(&pairs)
        .left("EXPORT", |(r, _)| r.export.clone())
        .right("NUMBER", |(r, _)| r.number.to_string())
        .left("DISK", |(r, _)| r.disk.clone())
        .left("RESERVATION", |(r, _)| or_dash(r.kind.clone()))
        .left("PERSISTS", |(r, _)| yes(r.persists).to_owned())
        .left("CLIENT", |(_, one)| {
            let holds = |holder| if holder { " (holder)" } else { "" };
            or_dash(one.map(|one| format!("{}{}", one.client, holds(one.holder))))
        })
        .left("KEY", |(_, one)| or_dash(one.map(|one| one.key.clone())))
        .text()
}
