//! `wirepool pool add`, `remove`, `attach`, `detach`, `replace`, `online`, `offline`, `resilver`, `scrub` and `trim`.
//!
//! **Called by** the commands. **Invariants**: as for all of them.

use crate::ask::Ask;
use crate::cli::members::MemberCommand;
use crate::layout::Parts;
use crate::tables;
use crate::{layout, pools};
use anyhow::Result;
use server::ByteSize;
use server::api::{
    AddVdevs, AttachMember, Call, DetachMember, OfflineMember, OnlineMember, Pool, RemoveDevice,
    ReplaceMember, ResilverPool, ScrubAction, ScrubPool, StopRemoval, TrimPool, VdevLayout,
};
use std::path::PathBuf;

/// Digits of a GUID.
const GUID_LEN: usize = 16;

/// A disk in the form that the server expects: its GUID, or an absolute path.
fn named(disk: &str) -> Result<String> {
    if disk.len() == GUID_LEN && disk.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(disk.to_lowercase());
    }
    Ok(std::path::absolute(disk)?.display().to_string())
}

/// A vdev by the name that `pool status` shows, such as `raidz2-0`, or a disk. A file of such a name is given with its directory.
fn vdev_or_disk(word: &str) -> Result<String> {
    match VdevLayout::is_vdev_name(word) {
        true => Ok(word.to_owned()),
        false => named(word),
    }
}

fn absolute(path: Option<PathBuf>) -> Result<Option<PathBuf>> {
    Ok(path.map(std::path::absolute).transpose()?)
}

fn show<C: Call<Reply = Pool>>(ask: &Ask, call: &C) -> Result<String> {
    ask.show(call, |p| {
        tables::pools::status(std::slice::from_ref(p), false)
    })
}

fn action(pause: bool, stop: bool) -> ScrubAction {
    match (pause, stop) {
        (true, _) => ScrubAction::Pause,
        (_, true) => ScrubAction::Stop,
        _ => ScrubAction::Start,
    }
}

fn add(
    ask: &Ask,
    pool: String,
    parts: Parts,
    (size, force): (Option<ByteSize>, bool),
) -> Result<String> {
    let call = AddVdevs {
        pool,
        vdevs: parts.vdevs,
        spares: parts.spares,
        caches: parts.caches,
        size,
        force,
    };
    show(ask, &call)
}

/// Runs one of these commands.
pub(crate) fn member(ask: &Ask, command: MemberCommand) -> Result<String> {
    match command {
        MemberCommand::Add {
            pool,
            vdevs,
            size,
            force,
        } => {
            let parts = layout::parts(&vdevs, None).unwrap_or_else(|text| pools::usage(&text));
            add(ask, pool, parts, (size, force))
        }
        MemberCommand::Attach {
            pool,
            disk,
            new,
            size,
            force,
        } => {
            let call = AttachMember {
                pool,
                disk: vdev_or_disk(&disk)?,
                new: std::path::absolute(new)?,
                size,
                force,
            };
            show(ask, &call)
        }
        MemberCommand::Remove { pool, disk, .. } => match disk {
            Some(disk) => {
                let disk = vdev_or_disk(&disk)?;
                show(ask, &RemoveDevice { pool, disk })
            }
            None => show(ask, &StopRemoval { pool }),
        },
        MemberCommand::Detach { pool, disk } => {
            let disk = named(&disk)?;
            show(ask, &DetachMember { pool, disk })
        }
        MemberCommand::Replace {
            pool,
            disk,
            new,
            size,
            force,
        } => {
            let call = ReplaceMember {
                pool,
                disk: named(&disk)?,
                new: absolute(new)?,
                size,
                force,
            };
            show(ask, &call)
        }
        MemberCommand::Online {
            pool,
            disk,
            path,
            expand,
        } => {
            let call = OnlineMember {
                pool,
                disk: named(&disk)?,
                path: absolute(path)?,
                expand,
            };
            show(ask, &call)
        }
        MemberCommand::Trim {
            pool: name,
            pause,
            stop,
            rate,
        } => {
            let action = action(pause, stop);
            show(ask, &TrimPool { name, action, rate })
        }
        MemberCommand::Resilver { pool, rate } => show(ask, &ResilverPool { name: pool, rate }),
        MemberCommand::Scrub {
            pool: name,
            pause,
            stop,
            rate,
        } => {
            let action = action(pause, stop);
            show(ask, &ScrubPool { name, action, rate })
        }
        MemberCommand::Offline { pool, disk } => {
            let disk = named(&disk)?;
            show(ask, &OfflineMember { pool, disk })
        }
    }
}
