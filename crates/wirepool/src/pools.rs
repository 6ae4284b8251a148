//! `wirepool pool` and `wirepool volume`.
//!
//! **Called by** the commands. **Invariants**: each changes at most one thing; an invalid command line ends the
//! process with exit code 2 before a request is sent.

use crate::ask::Ask;
use crate::cli::{Cli, ImportArgs, PoolCommand, VolumeCommand};
use crate::{advise, layout, members, records, tables};
use anyhow::{Result, bail};
use clap::CommandFactory;
use clap::error::ErrorKind;
use server::ByteSize;
use server::api::{
    CreatePool, ImportPool, ListPools, ListVolumes, SYNC_DISABLED, ScanPools, TryImport, VolumeSync,
};
use std::path::PathBuf;

/// Exits with the code of a wrong command line.
pub(crate) fn usage(message: &str) -> ! {
    Cli::command()
        .error(ErrorKind::ValueValidation, message)
        .exit()
}

fn absolute(paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    let all = paths.into_iter().map(std::path::absolute);
    Ok(all.collect::<std::io::Result<_>>()?)
}

/// `wirepool pool`.
pub(crate) fn pool(ask: &Ask, command: PoolCommand) -> Result<String> {
    match command {
        PoolCommand::Create {
            name,
            vdevs: words,
            size,
            force,
        } => {
            let parts = layout::parts(&words, Some(&name)).unwrap_or_else(|text| usage(&text));
            ask.show(
                &CreatePool {
                    name,
                    vdevs: parts.vdevs,
                    spares: parts.spares,
                    caches: parts.caches,
                    size,
                    force,
                },
                |p| tables::pools::status(std::slice::from_ref(p), false),
            )
        }
        PoolCommand::List => ask.show(&ListPools {}, |p| tables::pools::pools(p)),
        PoolCommand::Status { name, verbose } => {
            let mut pools = ask.client.ask(&ListPools {})?;
            if let Some(name) = name {
                pools.retain(|p| p.name == name);
                if pools.is_empty() {
                    bail!("no such pool {name:?}: see `wirepool pool list`");
                }
            }
            ask.print(&pools, |p| tables::pools::status(p, verbose))
        }
        PoolCommand::Export(call) => ask.show(&call, |_| format!("pool {} exported\n", call.name)),
        PoolCommand::Import(args) => import(ask, args),
        PoolCommand::Destroy(call) => {
            ask.show(&call, |_| format!("pool {} destroyed\n", call.name))
        }
        PoolCommand::Checkpoint(call) => ask.show(&call, |_| {
            format!("pool {}: checkpoint written\n", call.name)
        }),
        PoolCommand::Advise(command) => advise::advise(ask, command),
        PoolCommand::Member(command) => members::member(ask, command),
        PoolCommand::Record(command) => records::record(ask, command),
    }
}

fn import(ask: &Ask, args: ImportArgs) -> Result<String> {
    let disks = absolute(args.disks)?;
    let name = args.name.or(args.guid);
    if name.is_none() {
        let asked = args.force || args.without_missing || args.read_only || args.expand;
        if args.rename.is_some() || args.rewind.is_some() || args.dry_run || asked {
            usage("the pool to import is missing: use its name, or --guid");
        }
        return ask.show(&ScanPools { disks }, |f| tables::pools::found(f));
    }
    let call = ImportPool {
        name,
        rename: args.rename,
        disks,
        force: args.force,
        force_missing: args.without_missing,
        read_only: args.read_only,
        expand: args.expand,
        rewind: args.rewind,
    };
    if args.dry_run {
        let call = TryImport { import: call };
        return ask.show(&call, tables::pools::trial);
    }
    ask.show(&call, |p| {
        tables::pools::status(std::slice::from_ref(p), false)
    })
}

/// `wirepool volume`.
pub(crate) fn volume(ask: &Ask, command: VolumeCommand) -> Result<String> {
    match command {
        VolumeCommand::Create(call) => ask.show(&call, |v| {
            let mut text = format!(
                "volume {}: {}, blocks of {} bytes\n",
                v.name,
                ByteSize(v.size).human(),
                v.block_size
            );
            if v.sync == VolumeSync::Disabled {
                text += &format!("warning: {}: {SYNC_DISABLED}\n", v.name);
            }
            if let (Some(_), Some(warning)) = (&call.compression, &v.compression_warning) {
                text += &format!("warning: {}: {warning}\n", v.name);
            }
            text
        }),
        VolumeCommand::Rollback(call) => ask.show(&call, |_| {
            format!("volume rolled back to {}\n", call.snapshot)
        }),
        VolumeCommand::Rename(call) => ask.show(&call, |_| {
            format!("volume {} renamed to {}\n", call.name, call.new)
        }),
        VolumeCommand::Promote(call) => ask.show(&call, |_| {
            let name = &call.name;
            format!("volume {name} promoted; its origin volume is now a clone of it\n")
        }),
        VolumeCommand::List => ask.show(&ListVolumes {}, |v| tables::pools::volumes(v)),
        VolumeCommand::Resize(call) => ask.show(&call, |v| {
            format!("volume {}: now {}\n", v.name, ByteSize(v.size).human())
        }),
        VolumeCommand::Destroy(call) => {
            ask.show(&call, |_| format!("volume {} destroyed\n", call.name))
        }
    }
}
