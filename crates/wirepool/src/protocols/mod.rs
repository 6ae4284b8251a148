//! The protocols in the command line, each in a folder of its own.
//!
//! **Owns** the registry: the `mod` line and the line of `registry!` of each protocol are the only places that name it.
//! **Called by** the commands. **Invariants**: a name that looks like no export is passed to the first protocol, whose
//! server-side check names the mistake.

mod iscsi;
mod nfs;
mod nvmf;
pub(crate) mod protocol;

use crate::ask::Ask;
use crate::reservation_command::{self, ReservationArgs};
use crate::{pools, tables};
use anyhow::Result;
use clap::{Args, Subcommand};
use protocol::Protocol;
use serde::Serialize;
use server::api::{Exports, GetStatus, Listen, SessionSummary};

macro_rules! registry {
    ($($protocol:ident $type:ident;)*) => {
        /// All protocols.
        pub(crate) const ALL: &[&dyn Protocol] = &[$(&$protocol::$type),*];

        #[derive(Subcommand)]
        pub(crate) enum ExportCommand {
            $(
                #[command(flatten)]
                $type($protocol::Command),
            )*
            /// Remove a namespace or LUN, a subsystem or target with all of them, or an NFS export.
            Remove {
                /// The subsystem, the target, or the path of an NFS export.
                name: String,
                #[command(flatten)]
                numbers: RemoveArgs,
            },
            /// Show who is registered for namespaces and LUNs and who holds a reservation, or end it all for one of them.
            Reservations(ReservationArgs),
            /// List the namespaces of all subsystems, the logical units of all targets, and all NFS exports.
            List,
        }

        /// The number of an export's disk in the export, over each protocol.
        #[derive(Args)]
        pub(crate) struct RemoveArgs {
            $(
                #[command(flatten)]
                $protocol: $protocol::NumberArgs,
            )*
        }

        /// An export over any protocol.
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Exported<'a> {
            $($type(&'a $protocol::Export),)*
        }

        fn exported(exports: &Exports) -> Vec<Exported<'_>> {
            let mut all = Vec::new();
            $(all.extend($protocol::exports(exports).iter().map(Exported::$type));)*
            all
        }

        /// `wirepool export`.
        pub(crate) fn export(ask: &Ask, command: ExportCommand) -> Result<String> {
            match command {
                $(ExportCommand::$type(command) => $protocol::run(ask, command),)*
                ExportCommand::Remove { name, numbers } => remove(ask, name, numbers),
                ExportCommand::Reservations(args) => reservation_command::run(ask, args),
                ExportCommand::List => list(ask),
            }
        }
    };
}

registry! {
    nvmf Nvmf;
    iscsi Iscsi;
    nfs Nfs;
}

/// The protocol of the export of this name.
pub(crate) fn of_export(name: &str) -> &'static dyn Protocol {
    let found = ALL.iter().find(|p| p.is_export(name));
    *found.unwrap_or(&ALL[0])
}

/// The protocol of a session.
pub(crate) fn of_session(s: &SessionSummary) -> &'static dyn Protocol {
    let found = ALL.iter().find(|p| p.word() == s.protocol);
    *found.unwrap_or(&ALL[0])
}

/// The words for an address: for programs, and for people.
pub(crate) fn role(listen: &Listen) -> (&'static str, &'static str) {
    let found = ALL.iter().find_map(|p| p.role(listen));
    found.unwrap_or_default()
}

fn remove(ask: &Ask, name: String, numbers: RemoveArgs) -> Result<String> {
    let protocol = of_export(&name);
    let is_other = |p: &&&dyn Protocol| p.word() != protocol.word() && p.has_number(&numbers);
    if let Some(other) = ALL.iter().find(is_other) {
        let (sentence, flag) = protocol.number_flag();
        let (_, wrong) = other.number_flag();
        pools::usage(&format!("{sentence}: {flag}, not {wrong}"));
    }
    protocol.remove(ask, name, numbers)
}

fn list(ask: &Ask) -> Result<String> {
    let status = ask.client.ask(&GetStatus {})?;
    let all = exported(&status.exports);
    ask.print(&all, |_| tables(&status.exports))
}

/// The tables of the exports of each protocol.
pub(crate) fn tables(exports: &Exports) -> String {
    let tables: Vec<String> = ALL.iter().filter_map(|p| p.table(exports)).collect();
    match tables.is_empty() {
        true => "no exports: `wirepool export --help`\n".into(),
        false => tables.join("\n"),
    }
}

/// The list of hosts of one subsystem, or of initiators of one target.
#[derive(Serialize)]
struct Hosts {
    nqn: String,
    hosts: Vec<String>,
}

/// `wirepool host list`.
pub(crate) fn hosts(ask: &Ask) -> Result<String> {
    let status = ask.client.ask(&GetStatus {})?;
    let rows = ALL.iter().flat_map(|p| p.access_lists(&status.exports));
    let rows: Vec<(String, Vec<String>)> = rows.collect();
    let hosts = |(nqn, hosts): &(String, Vec<String>)| Hosts {
        nqn: nqn.clone(),
        hosts: hosts.clone(),
    };
    let list: Vec<Hosts> = rows.iter().map(hosts).collect();
    ask.print(&list, |_| tables::hosts(&rows))
}
