//! `wirepool pool add`, `attach`, `detach`, `replace`, `online`, `offline`, `resilver`, `scrub` and `trim`.
//!
//! **Called by** the commands. **Invariants**: as for all of them.

use crate::ask::Ask;
use crate::cli_sides::SideCommand;
use crate::{layout, pools, table_pools};
use anyhow::Result;
use server::api::{
    AddVdevs, AttachSide, Call, DetachSide, OfflineSide, OnlineSide, Pool, ReplaceSide,
    ResilverPool, ScrubAction, ScrubPool, TrimPool,
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

fn absolute(path: Option<PathBuf>) -> Result<Option<PathBuf>> {
    Ok(path.map(std::path::absolute).transpose()?)
}

fn show<C: Call<Reply = Pool>>(ask: &Ask, call: &C) -> Result<String> {
    ask.show(call, |p| {
        table_pools::status(std::slice::from_ref(p), false)
    })
}

fn action(pause: bool, stop: bool) -> ScrubAction {
    match (pause, stop) {
        (true, _) => ScrubAction::Pause,
        (_, true) => ScrubAction::Stop,
        _ => ScrubAction::Start,
    }
}

/// Runs one of these commands.
pub(crate) fn side(ask: &Ask, command: SideCommand) -> Result<String> {
    match command {
        SideCommand::Add {
            pool,
            vdevs,
            size,
            force,
        } => {
            let call = AddVdevs {
                pool,
                vdevs: layout::vdevs(&vdevs, None).unwrap_or_else(|text| pools::usage(&text)),
                size,
                force,
            };
            show(ask, &call)
        }
        SideCommand::Attach {
            pool,
            disk,
            new,
            size,
            force,
        } => {
            let call = AttachSide {
                pool,
                disk: named(&disk)?,
                new: std::path::absolute(new)?,
                size,
                force,
            };
            show(ask, &call)
        }
        SideCommand::Detach { pool, disk } => {
            let disk = named(&disk)?;
            show(ask, &DetachSide { pool, disk })
        }
        SideCommand::Replace {
            pool,
            disk,
            new,
            size,
            force,
        } => {
            let call = ReplaceSide {
                pool,
                disk: named(&disk)?,
                new: absolute(new)?,
                size,
                force,
            };
            show(ask, &call)
        }
        SideCommand::Online {
            pool,
            disk,
            path,
            expand,
        } => {
            let call = OnlineSide {
                pool,
                disk: named(&disk)?,
                path: absolute(path)?,
                expand,
            };
            show(ask, &call)
        }
        SideCommand::Trim {
            pool: name,
            pause,
            stop,
            rate,
        } => {
            let action = action(pause, stop);
            show(ask, &TrimPool { name, action, rate })
        }
        SideCommand::Resilver { pool, rate } => show(ask, &ResilverPool { name: pool, rate }),
        SideCommand::Scrub {
            pool: name,
            pause,
            stop,
            rate,
        } => {
            let action = action(pause, stop);
            show(ask, &ScrubPool { name, action, rate })
        }
        SideCommand::Offline { pool, disk } => {
            let disk = named(&disk)?;
            show(ask, &OfflineSide { pool, disk })
        }
    }
}
