//! Subcommands of a running server.
//!
//! **Called by** `main`. **Invariants**: each is one request; the result is text, or the answer's JSON.

use crate::ask::Ask;
use crate::cli::host::HostCommand;
use crate::cli::{ControlCommand, DiskAdd, DiskCommand, SessionCommand};
use crate::{
    client_config_command, console_command, filesystems, pools, protocols, rdma_command, records,
    setup, snapshots, tables, top, why,
};
use anyhow::{Result, bail};
use server::ByteSize;
use server::api::{AddDisk, GetStatus, ListDisks, ListRefusedHosts, ListSessions, NewMedium};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs one command; returns its output.
pub(crate) fn run(command: ControlCommand, control: Option<PathBuf>, json: bool) -> Result<String> {
    let ask = Ask::new(control, json);
    match command {
        ControlCommand::Top(args) => top::run(ask, &args),
        ControlCommand::Status => ask.show(&GetStatus {}, tables::status),
        ControlCommand::Why { export, seconds } => {
            why::why(&ask, export, Duration::from_secs(seconds))
        }
        ControlCommand::Session(command) => session(&ask, command),
        ControlCommand::Disk(command) => disk(&ask, command),
        ControlCommand::Pool(command) => pools::pool(&ask, command),
        ControlCommand::Volume(command) => pools::volume(&ask, command),
        ControlCommand::Fs(command) => filesystems::filesystem(&ask, command),
        ControlCommand::Snapshot(command) => snapshots::snapshot(&ask, command),
        ControlCommand::Clone(call) => snapshots::clone(&ask, &call),
        ControlCommand::Get { properties, names } => records::get(&ask, &properties, names),
        ControlCommand::Diff(args) => filesystems::diff(&ask, args),
        ControlCommand::Set { assignments, name } => records::set(&ask, &assignments, &name),
        ControlCommand::Inherit(call) => records::inherit(&ask, &call),
        ControlCommand::Export(command) => protocols::export(&ask, command),
        ControlCommand::Host(command) => host(&ask, command),
        ControlCommand::Rdma(command) => rdma_command::run(&ask, command),
        ControlCommand::Console(command) => console_command::run(&ask, command),
        ControlCommand::ClientConfig(args) => client_config_command::run(&ask, args),
        ControlCommand::Setup(args) => setup::run(&ask, *args),
    }
}

fn session(ask: &Ask, command: SessionCommand) -> Result<String> {
    match command {
        SessionCommand::List => ask.show(&ListSessions {}, |s| tables::sessions(s)),
        SessionCommand::Refused => ask.show(&ListRefusedHosts {}, |hosts| tables::refused(hosts)),
        SessionCommand::Show(call) => ask.show(&call, tables::session),
        SessionCommand::End(call) => ask.show(&call, |_| format!("session {} ended\n", call.id)),
    }
}

fn disk(ask: &Ask, command: DiskCommand) -> Result<String> {
    match command {
        DiskCommand::Add(args) => {
            let name = args.name.clone();
            ask.show(&add_disk(args)?, |d| {
                format!(
                    "disk {name}: {}, blocks of {} bytes\n",
                    ByteSize(d.size).human(),
                    d.block_size
                )
            })
        }
        DiskCommand::List => ask.show(&ListDisks {}, |d| tables::disks(d)),
        DiskCommand::Resize(call) => ask.show(&call, |d| {
            format!("disk {}: now {}\n", d.name, ByteSize(d.size).human())
        }),
        DiskCommand::Remove(call) => ask.show(&call, |_| {
            let name = &call.name;
            format!("disk {name} is closed and no longer in the configuration; its data stays\n")
        }),
    }
}

fn add_disk(args: DiskAdd) -> Result<AddDisk> {
    let absolute = |path: &Path| std::path::absolute(path);
    let DiskAdd {
        name,
        medium,
        size,
        buffered,
        block_size,
        read_only,
    } = args;
    let medium = match (medium.file, medium.block, medium.mem, medium.null) {
        (Some(path), ..) => NewMedium::File {
            path: absolute(&path)?,
            size,
            buffered,
        },
        (_, Some(path), ..) => NewMedium::Block {
            path: absolute(&path)?,
        },
        (_, _, Some(size), _) => NewMedium::Mem { size },
        (_, _, _, Some(size)) => NewMedium::Null { size },
        _ => bail!("the kind of disk is missing: use --file, --block, --mem or --null"),
    };
    let block_size = block_size.map(|b| b.parse()).transpose()?;
    Ok(AddDisk {
        name,
        medium,
        block_size,
        read_only,
    })
}

fn host(ask: &Ask, command: HostCommand) -> Result<String> {
    match command {
        HostCommand::Allow { name, host } => protocols::of_export(&name).allow(ask, name, host),
        HostCommand::Deny { name, host } => protocols::of_export(&name).deny(ask, name, host),
        HostCommand::List => protocols::hosts(ask),
    }
}
