//! Snapshots, clones and datasets that keep a dataset or a snapshot from being destroyed, for messages.
//!
//! **Called by** the destruction of volumes, filesystems and snapshots. **Invariants**: nothing changes; a message has at most
//! [`NAMED_MAX`] names.

use super::entry::full_name;
use pool::Pool;

/// Most names in a message.
const NAMED_MAX: usize = 5;

fn listed(names: &[String]) -> String {
    let shown = &names[..names.len().min(NAMED_MAX)];
    let text = shown.join(", ");
    match names.len() - shown.len() {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Why a dataset is not destroyed without `-r`: its snapshots and the datasets below it. `None` if it has neither.
pub(super) fn of_dataset(pool: &Pool, pool_name: &str, name: &str) -> Option<String> {
    let full = full_name(pool_name, name);
    let snapshots = pool.snapshots(name);
    let snapshots = snapshots
        .iter()
        .map(|s| format!("{full}@{}", s.dataset().name));
    let below = pool.names_below(name).into_iter();
    let below = below.filter(|other| other != name);
    let all: Vec<String> = snapshots
        .chain(below.map(|other| full_name(pool_name, &other)))
        .collect();
    let command = match pool.filesystem(name) {
        Some(_) => "fs",
        None => "volume",
    };
    (!all.is_empty()).then(|| {
        format!(
            "{full} has {}: destroy those first, or with -r all together: `wirepool {command} destroy -r -f {full}`",
            listed(&all)
        )
    })
}

/// Why a snapshot, or with `snapshot` as `None` all snapshots, of `datasets` cannot be destroyed: clones that are not among
/// `datasets` themselves. `None` if there are none.
pub(super) fn of_snapshots(
    pool: &Pool,
    pool_name: &str,
    datasets: &[String],
    snapshot: Option<&str>,
) -> Option<String> {
    let mut all = Vec::new();
    for of in datasets {
        for found in pool.snapshots(of) {
            let name = found.dataset().name;
            if snapshot.is_some_and(|wanted| wanted != name) {
                continue;
            }
            let clones = pool.clones(&found).into_iter();
            let outside = clones.filter(|clone| snapshot.is_some() || !datasets.contains(clone));
            all.extend(outside.map(|clone| {
                format!(
                    "{} is a clone of {}@{name}",
                    full_name(pool_name, &clone),
                    full_name(pool_name, of)
                )
            }));
        }
    }
    (!all.is_empty()).then(|| {
        format!(
            "{}: destroy or promote it first (`wirepool volume|fs promote CLONE`)",
            listed(&all)
        )
    })
}
