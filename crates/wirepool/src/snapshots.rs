//! `wirepool snapshot`, `wirepool clone`, `wirepool volume rollback` and `promote`.
//!
//! **Called by** the commands. **Invariants**: as for all commands.

use crate::ask::Ask;
use crate::cli::SnapshotCommand;
use crate::columns::{table, text};
use anyhow::Result;
use server::ByteSize;
use server::api::{
    CloneSnapshot, CreateSnapshot, Dataset, DestroySnapshot, Hold, HoldSnapshot, ListHolds,
    ListSnapshots, PromoteVolume, ReleaseSnapshot, RenameSnapshot, RollbackVolume, Snapshot,
};

/// `wirepool snapshot`.
pub(crate) fn snapshot(ask: &Ask, command: SnapshotCommand) -> Result<String> {
    match command {
        SnapshotCommand::Create { name, recursive } => {
            let call = CreateSnapshot { name, recursive };
            ask.show(&call, |s| match (recursive, s.size) {
                (true, _) => format!("snapshot {}, and those of all datasets below\n", s.name),
                (false, 0) => format!("snapshot {}\n", s.name),
                (false, size) => format!("snapshot {}: {}\n", s.name, ByteSize(size).human()),
            })
        }
        SnapshotCommand::List { volume } => ask.show(&ListSnapshots { volume }, |s| list(s)),
        SnapshotCommand::Destroy { name, recursive } => {
            let text = match recursive {
                true => format!("snapshot {name} destroyed, and those of all datasets below\n"),
                false => format!("snapshot {name} destroyed\n"),
            };
            ask.show(&DestroySnapshot { name, recursive }, |_| text)
        }
        SnapshotCommand::Rename { name, new } => {
            let call = RenameSnapshot {
                name: name.clone(),
                new,
            };
            ask.show(&call, |s| {
                format!("snapshot {name} renamed to {}\n", s.name)
            })
        }
        SnapshotCommand::Hold { tag, name } => ask.show(&HoldSnapshot { name, tag }, |h| holds(h)),
        SnapshotCommand::Release { tag, name } => {
            ask.show(&ReleaseSnapshot { name, tag }, |h| holds(h))
        }
        SnapshotCommand::Holds { name } => ask.show(&ListHolds { name }, |h| holds(h)),
    }
}

/// `wirepool clone`.
pub(crate) fn clone(ask: &Ask, snapshot: String, clone: String) -> Result<String> {
    let call = CloneSnapshot {
        snapshot: snapshot.clone(),
        clone,
    };
    ask.show(&call, |made| match made {
        Dataset::Volume(v) => format!("volume {} cloned from {snapshot}\n", v.name),
        Dataset::Filesystem(f) => format!("filesystem {} cloned from {snapshot}\n", f.name),
    })
}

/// `wirepool volume rollback`.
pub(crate) fn rollback(ask: &Ask, snapshot: String, force: bool) -> Result<String> {
    let text = format!("volume rolled back to {snapshot}\n");
    ask.show(&RollbackVolume { snapshot, force }, |_| text)
}

/// `wirepool volume promote`.
pub(crate) fn promote(ask: &Ask, name: String) -> Result<String> {
    let text = format!("volume {name} promoted; its origin volume is now a clone of it\n");
    ask.show(&PromoteVolume { name }, |_| text)
}

fn holds(holds: &[Hold]) -> String {
    if holds.is_empty() {
        return "no holds\n".into();
    }
    let mut t = table(&["NAME", "TAG"], &[]);
    for hold in holds {
        t.add_row([hold.name.clone(), hold.tag.clone()]);
    }
    text(&t)
}

fn list(snapshots: &[Snapshot]) -> String {
    if snapshots.is_empty() {
        return "no snapshots: `wirepool snapshot create POOL/DATASET@NAME`\n".into();
    }
    let mut t = table(&["NAME", "REFER", "SIZE", "CLONES"], &[1, 2]);
    for s in snapshots {
        t.add_row([
            s.name.clone(),
            ByteSize(s.referenced).human(),
            match s.size {
                0 => "-".into(),
                size => ByteSize(size).human(),
            },
            s.clones.join(" "),
        ]);
    }
    text(&t)
}
