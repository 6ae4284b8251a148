//! `wirepool fs`.
//!
//! **Called by** the commands. **Invariants**: as for all commands; paths are made absolute here, since the server has another
//! working directory.

use crate::ask::Ask;
use crate::cli_filesystems::{CreateArgs, FilesystemCommand};
use crate::owners::owners;
use crate::table::{table, text};
use anyhow::Result;
use server::ByteSize;
use server::api::{
    CreateFilesystem, DestroyFilesystem, DiskState, Filesystem, ListFilesystems, MountFilesystem,
    OwnerKind, PromoteFilesystem, RenameFilesystem, RollbackFilesystem, SYNC_DISABLED,
    UnmountFilesystem, VolumeSync,
};
use server::config::MountFlags;

/// `wirepool fs`.
pub(crate) fn filesystem(ask: &Ask, command: FilesystemCommand) -> Result<String> {
    match command {
        FilesystemCommand::Create(args) => create(ask, args),
        FilesystemCommand::List => ask.show(&ListFilesystems {}, |f| list(f)),
        FilesystemCommand::Mount {
            name,
            mount_point,
            options,
            read_only,
            allow_other,
        } => {
            let at = mount_point.map(std::path::absolute).transpose()?;
            let short = MountFlags {
                read_only,
                allow_other,
                ..MountFlags::default()
            };
            let options = options.and(&short);
            let call = MountFilesystem { name, at, options };
            ask.show(&call, |f| {
                let at = f.mount.as_ref().map(|m| m.at.display().to_string());
                format!(
                    "filesystem {} mounted at {}\n",
                    f.name,
                    at.unwrap_or_default()
                )
            })
        }
        FilesystemCommand::Unmount { name, lazy, force } => {
            let text = format!("{name} unmounted\n");
            let name = match name.starts_with('.') {
                true => std::path::absolute(name)?.to_string_lossy().into_owned(),
                false => name,
            };
            ask.show(&UnmountFilesystem { name, lazy, force }, |_| text)
        }
        FilesystemCommand::Destroy {
            name,
            force,
            recursive,
        } => {
            let text = format!("filesystem {name} destroyed\n");
            let call = DestroyFilesystem {
                name,
                force,
                recursive,
            };
            ask.show(&call, |_| text)
        }
        FilesystemCommand::Rename { name, new } => {
            let text = format!("filesystem {name} renamed to {new}\n");
            ask.show(&RenameFilesystem { name, new }, |_| text)
        }
        FilesystemCommand::Userspace { of } => owners(ask, OwnerKind::User, of),
        FilesystemCommand::Groupspace { of } => owners(ask, OwnerKind::Group, of),
        FilesystemCommand::Promote { name } => {
            let text =
                format!("filesystem {name} promoted; its origin filesystem is now a clone of it\n");
            ask.show(&PromoteFilesystem { name }, |_| text)
        }
        FilesystemCommand::Rollback { snapshot, force } => {
            let text = format!("filesystem rolled back to {snapshot}\n");
            ask.show(&RollbackFilesystem { snapshot, force }, |_| text)
        }
    }
}

fn create(ask: &Ask, args: CreateArgs) -> Result<String> {
    let call = CreateFilesystem {
        name: args.name,
        record_size: args.record_size,
        sync: args.sync.map(Into::into),
        compression: args.compression,
        checksum: args.checksum,
        quota: args.quota,
        reservation: args.reservation,
        case_insensitive: args.case_insensitive,
        properties: args.properties.into_iter().collect(),
        parents: args.parents,
    };
    ask.show(&call, |f| {
        let size = ByteSize(f.record_size.into()).human();
        let mut text = format!("filesystem {}: records of {size}\n", f.name);
        if f.sync == VolumeSync::Disabled {
            text += &format!("warning: {}: {SYNC_DISABLED}\n", f.name);
        }
        text
    })
}

/// The mount point, and the state if it is not mounted there.
fn mounted(f: &Filesystem) -> String {
    let Some(mount) = &f.mount else {
        return "-".into();
    };
    let at = mount.at.display();
    match (mount.state, &mount.reason) {
        (DiskState::Online, _) => at.to_string(),
        (DiskState::Opening, _) => format!("{at} (mounting)"),
        (DiskState::Held, reason) => {
            format!("{at} (not mounted: {})", reason.as_deref().unwrap_or("-"))
        }
    }
}

/// The table of filesystems.
pub(crate) fn list(filesystems: &[Filesystem]) -> String {
    if filesystems.is_empty() {
        return "no filesystems: `wirepool fs create --help`\n".into();
    }
    let header = [
        "NAME",
        "USED",
        "USEDSNAP",
        "AVAIL",
        "REFER",
        "QUOTA",
        "RESERV",
        "RECORD",
        "COMPRESS",
        "SYNC",
        "MOUNT POINT",
    ];
    let mut t = table(&header, &[1, 2, 3, 4, 5, 6, 7]);
    let human = |bytes: u64| ByteSize(bytes).human();
    let limit = |bytes: u64| match bytes {
        0 => "-".to_owned(),
        bytes => human(bytes),
    };
    for f in filesystems {
        let sync = match f.sync {
            VolumeSync::Standard => "standard",
            VolumeSync::Always => "always",
            VolumeSync::Disabled => "DISABLED",
        };
        t.add_row([
            f.name.clone(),
            human(f.used),
            human(f.by_snapshots),
            human(f.available),
            human(f.referenced),
            limit(f.quota),
            limit(f.reservation),
            human(f.record_size.into()),
            f.compression.clone(),
            sync.to_owned(),
            mounted(f),
        ]);
    }
    text(&t)
}
