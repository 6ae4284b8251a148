//! `wirepool snapshot` and `wirepool clone`.
//!
//! **Called by** the commands. **Invariants**: as for all commands.

use crate::ask::Ask;
use crate::cli::SnapshotCommand;
use crate::columns::{human, or_dash, rows, utc};
use anyhow::Result;
use server::ByteSize;
use server::api::{CloneSnapshot, Dataset, Hold, Snapshot};

/// `wirepool snapshot`.
pub(crate) fn snapshot(ask: &Ask, command: SnapshotCommand) -> Result<String> {
    match command {
        SnapshotCommand::Create(call) => ask.show(&call, |s| match (call.recursive, s.size) {
            (true, _) => format!("snapshot {}, and those of all datasets below\n", s.name),
            (false, 0) => format!("snapshot {}\n", s.name),
            (false, size) => format!("snapshot {}: {}\n", s.name, ByteSize(size).human()),
        }),
        SnapshotCommand::List(call) => ask.show(&call, |s| list(s)),
        SnapshotCommand::Destroy(call) => ask.show(&call, |_| match call.recursive {
            true => format!(
                "snapshot {} destroyed, and those of all datasets below\n",
                call.name
            ),
            false => format!("snapshot {} destroyed\n", call.name),
        }),
        SnapshotCommand::Rename(call) => ask.show(&call, |s| {
            format!("snapshot {} renamed to {}\n", call.name, s.name)
        }),
        SnapshotCommand::Hold(call) => ask.show(&call, |h| holds(h)),
        SnapshotCommand::Release(call) => ask.show(&call, |h| holds(h)),
        SnapshotCommand::Holds(call) => ask.show(&call, |h| holds(h)),
    }
}

/// `wirepool clone`.
pub(crate) fn clone(ask: &Ask, call: &CloneSnapshot) -> Result<String> {
    ask.show(call, |made| match made {
        Dataset::Volume(v) => format!("volume {} cloned from {}\n", v.name, call.snapshot),
        Dataset::Filesystem(f) => format!("filesystem {} cloned from {}\n", f.name, call.snapshot),
    })
}

fn holds(holds: &[Hold]) -> String {
    if holds.is_empty() {
        return "no holds\n".into();
    }
    rows(holds)
        .left("NAME", |h| h.name.clone())
        .left("TAG", |h| h.tag.clone())
        .text()
}

fn list(snapshots: &[Snapshot]) -> String {
    if snapshots.is_empty() {
        return "no snapshots: `wirepool snapshot create POOL/DATASET@NAME`\n".into();
    }
    rows(snapshots)
        .left("NAME", |s| s.name.clone())
        .right("USED", |s| match s.used_at_most {
            true => format!("<{}", human(s.used)),
            false => human(s.used),
        })
        .right("REFER", |s| human(s.referenced))
        .right("SIZE", |s| or_dash((s.size > 0).then(|| human(s.size))))
        .left("CREATED", |s| utc(s.created_ms))
        .left("CLONES", |s| s.clones.join(" "))
        .text()
}
