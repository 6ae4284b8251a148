//! `wirepool fs`.
//!
//! **Called by** the commands. **Invariants**: as for all commands; paths are made absolute here, since the server has another
//! working directory.

use crate::ask::{Ask, print_columns};
use crate::cli::filesystems::{CreateArgs, DiffArgs, FilesystemCommand, OwnersArgs};
use crate::columns::{human, rows as table_of};
use crate::tables::pools::{limit, sync};
use anyhow::Result;
use io::printable::printable;
use server::ByteSize;
use server::api::{
    Call, CreateFilesystem, DiffFilesystem, Difference, DifferenceKind, DiskState, FileType,
    Filesystem, ListFilesystems, ListOwnerSpace, MountFilesystem, OwnerKind, OwnerSpace,
    SYNC_DISABLED, VolumeSync,
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
        FilesystemCommand::Unmount(mut call) => {
            let text = format!("{} unmounted\n", call.name);
            if call.name.starts_with('.') {
                let path = std::path::absolute(&call.name)?;
                call.name = path.to_string_lossy().into_owned();
            }
            ask.show(&call, |_| text)
        }
        FilesystemCommand::Destroy(call) => {
            ask.show(&call, |_| format!("filesystem {} destroyed\n", call.name))
        }
        FilesystemCommand::Rename(call) => ask.show(&call, |_| {
            format!("filesystem {} renamed to {}\n", call.name, call.new)
        }),
        FilesystemCommand::Userspace { of } => owners(ask, OwnerKind::User, of),
        FilesystemCommand::Groupspace { of } => owners(ask, OwnerKind::Group, of),
        FilesystemCommand::Promote(call) => ask.show(&call, |_| {
            let name = &call.name;
            format!("filesystem {name} promoted; its origin filesystem is now a clone of it\n")
        }),
        FilesystemCommand::Rollback(call) => ask.show(&call, |_| {
            format!("filesystem rolled back to {}\n", call.snapshot)
        }),
    }
}

fn create(ask: &Ask, args: CreateArgs) -> Result<String> {
    let call = CreateFilesystem {
        properties: args.properties.into_iter().collect(),
        ..args.call
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
    table_of(filesystems)
        .left("NAME", |f| f.name.clone())
        .right("USED", |f| human(f.used))
        .right("USEDSNAP", |f| human(f.by_snapshots))
        .right("AVAIL", |f| human(f.available))
        .right("REFER", |f| human(f.referenced))
        .right("QUOTA", |f| limit(f.quota))
        .right("RESERV", |f| limit(f.reservation))
        .right("RECORD", |f| human(f.record_size.into()))
        .left("COMPRESS", |f| f.compression.clone())
        .left("SYNC", |f| sync(f.sync).to_owned())
        .left("MOUNT POINT", mounted)
        .text()
}

/// Shows the space of users or groups.
fn owners(ask: &Ask, owners: OwnerKind, args: OwnersArgs) -> Result<String> {
    let call = ListOwnerSpace {
        name: args.name.clone(),
        owners,
    };
    let script = args.script;
    rows(ask, &call, script, |spaces| {
        owner_lines(owners, &args, spaces)
    })
}

fn owner_lines(owners: OwnerKind, args: &OwnersArgs, spaces: &[OwnerSpace]) -> String {
    let kind = match owners {
        OwnerKind::User => "POSIX User",
        OwnerKind::Group => "POSIX Group",
    };
    let size = |bytes: u64| match args.exact {
        true => bytes.to_string(),
        false => ByteSize(bytes).human(),
    };
    let mut rows: Vec<[String; 4]> = Vec::with_capacity(spaces.len());
    for space in spaces {
        let name = space.name.as_deref().filter(|_| !args.numeric);
        let name = name.map_or(space.id.to_string(), |name| printable(name).into_owned());
        let quota = match space.quota {
            0 => "none".to_owned(),
            quota => size(quota),
        };
        rows.push([kind.to_owned(), name, size(space.used), quota]);
    }
    rows.sort_by(|a, b| a[1].cmp(&b[1]));
    if args.script {
        return rows.iter().map(|row| row.join("\t") + "\n").collect();
    }
    table_of(&rows)
        .left("TYPE", |row| row[0].clone())
        .left("NAME", |row| row[1].clone())
        .right("USED", |row| row[2].clone())
        .right("QUOTA", |row| row[3].clone())
        .text()
}

/// `wirepool diff`.
pub(crate) fn diff(ask: &Ask, args: DiffArgs) -> Result<String> {
    let call = DiffFilesystem {
        from: args.from.clone(),
        to: args.to.clone(),
    };
    let script = args.script;
    rows(ask, &call, script, |found| {
        found.iter().map(|d| difference_line(&args, d)).collect()
    })
}

/// Asks the server and formats the answer. For scripts, the rows are printed here: tabs between columns stay tabs.
fn rows<C: Call>(
    ask: &Ask,
    call: &C,
    script: bool,
    text: impl FnOnce(&C::Reply) -> String,
) -> Result<String> {
    let shown = ask.show(call, text)?;
    if !script {
        return Ok(shown);
    }
    print_columns(&shown)?;
    Ok(String::new())
}

/// A path in printable ASCII without spaces; other bytes in octal.
fn plain_path(path: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_graphic() {
        true => char::from(byte).to_string(),
        false => format!("\\{byte:04o}"),
    };
    path.bytes().map(byte).collect()
}

fn difference_line(args: &DiffArgs, found: &Difference) -> String {
    let mut columns = Vec::new();
    if args.times {
        let second = 1_000_000_000;
        let (seconds, rest) = (
            found.changed_ns.div_euclid(second),
            found.changed_ns.rem_euclid(second),
        );
        columns.push(format!("{seconds}.{rest:09}"));
    }
    columns.push(
        match found.change {
            DifferenceKind::Added => "+",
            DifferenceKind::Removed => "-",
            DifferenceKind::Modified => "M",
            DifferenceKind::Renamed => "R",
        }
        .to_owned(),
    );
    if args.kinds {
        let kind = match found.file {
            FileType::File => "F",
            FileType::Directory => "/",
            FileType::Symlink => "@",
            FileType::Fifo => "|",
            FileType::Socket => "=",
            FileType::Char => "C",
            FileType::Block => "B",
        };
        columns.push(kind.to_owned());
    }
    columns.push(plain_path(&found.path));
    if let Some(new) = &found.new_path {
        if !args.script {
            columns.push("->".to_owned());
        }
        columns.push(plain_path(new));
    }
    if found.links != 0 {
        columns.push(format!("({:+})", found.links));
    }
    let gap = if args.script { "\t" } else { " " };
    columns.join(gap) + "\n"
}
