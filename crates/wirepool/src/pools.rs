//! `wirepool pool` and `wirepool volume`.
//!
//! **Called by** the commands. **Invariants**: each changes at most one thing; an invalid command line ends the
//! process with exit code 2 before a request is sent.

use crate::ask::Ask;
use crate::cli::{Cli, ImportArgs, PoolCommand, VolumeCommand};
use crate::{layout, members, records, snapshots, table_pools};
use anyhow::{Result, bail};
use clap::CommandFactory;
use clap::error::ErrorKind;
use server::ByteSize;
use server::api::{
    CheckpointPool, CreatePool, CreateVolume, DestroyPool, DestroyVolume, ExportPool, ImportPool,
    ListPools, ListVolumes, RenameVolume, ResizeVolume, SYNC_DISABLED, ScanPools, TryImport,
    VolumeSync,
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
                    size,
                    force,
                },
                |p| table_pools::status(std::slice::from_ref(p), false),
            )
        }
        PoolCommand::List => ask.show(&ListPools {}, |p| table_pools::pools(p)),
        PoolCommand::Status { name, verbose } => {
            let mut pools = ask.client.ask(&ListPools {})?;
            if let Some(name) = name {
                pools.retain(|p| p.name == name);
                if pools.is_empty() {
                    bail!("no such pool {name:?}: see `wirepool pool list`");
                }
            }
            ask.print(&pools, |p| table_pools::status(p, verbose))
        }
        PoolCommand::Export { name } => {
            let text = format!("pool {name} exported\n");
            ask.show(&ExportPool { name }, |_| text)
        }
        PoolCommand::Import(args) => import(ask, args),
        PoolCommand::Destroy { name, force } => {
            let text = format!("pool {name} destroyed\n");
            ask.show(&DestroyPool { name, force }, |_| text)
        }
        PoolCommand::Checkpoint { name } => {
            let text = format!("pool {name}: checkpoint written\n");
            ask.show(&CheckpointPool { name }, |_| text)
        }
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
        return ask.show(&ScanPools { disks }, |f| table_pools::found(f));
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
        return ask.show(&call, table_pools::trial);
    }
    ask.show(&call, |p| {
        table_pools::status(std::slice::from_ref(p), false)
    })
}

/// `wirepool volume`.
pub(crate) fn volume(ask: &Ask, command: VolumeCommand) -> Result<String> {
    match command {
        VolumeCommand::Create {
            name,
            size,
            block_size,
            record_size,
            sync,
            compression,
            checksum,
            quota,
            reservation,
        } => {
            let sync = sync.map(Into::into);
            let asks_for_compression = compression.is_some();
            let call = CreateVolume {
                name,
                size,
                block_size,
                record_size,
                sync,
                compression,
                checksum,
                quota,
                reservation,
            };
            ask.show(&call, |v| {
                let mut text = format!(
                    "volume {}: {}, blocks of {} bytes\n",
                    v.name,
                    ByteSize(v.size).human(),
                    v.block_size
                );
                if v.sync == VolumeSync::Disabled {
                    text += &format!("warning: {}: {SYNC_DISABLED}\n", v.name);
                }
                if let (true, Some(warning)) = (asks_for_compression, &v.compression_warning) {
                    text += &format!("warning: {}: {warning}\n", v.name);
                }
                text
            })
        }
        VolumeCommand::Rollback { snapshot, force } => snapshots::rollback(ask, snapshot, force),
        VolumeCommand::Rename { name, new } => {
            let text = format!("volume {name} renamed to {new}\n");
            ask.show(&RenameVolume { name, new }, |_| text)
        }
        VolumeCommand::Promote { name } => snapshots::promote(ask, name),
        VolumeCommand::List => ask.show(&ListVolumes {}, |v| table_pools::volumes(v)),
        VolumeCommand::Resize { name, size, shrink } => ask
            .show(&ResizeVolume { name, size, shrink }, |v| {
                format!("volume {}: now {}\n", v.name, ByteSize(v.size).human())
            }),
        VolumeCommand::Destroy {
            name,
            force,
            recursive,
        } => {
            let text = format!("volume {name} destroyed\n");
            let call = DestroyVolume {
                name,
                force,
                recursive,
            };
            ask.show(&call, |_| text)
        }
    }
}
