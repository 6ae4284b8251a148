//! The lines `status:` and `action:` of `wirepool pool status`: the pool's trouble in a sentence, and the command that mends it.
//!
//! **Called by** [`super::pools`]. **Invariants**: a sound pool has neither line; of several troubles the worst is told.

use server::api::{DiskState, Health, Member, Pool, ScanState, VdevClass};

/// Used space from which a pool loses speed, percent.
const FULL_PERCENT: u64 = 90;

/// A trouble of a pool.
struct Advice {
    status: String,
    action: String,
}

/// The lines about the worst trouble of a pool; empty without one.
pub(super) fn lines(pool: &Pool) -> String {
    let advice = unusable(pool)
        .or_else(|| damaged(pool))
        .or_else(|| degraded(pool))
        .or_else(|| had_errors(pool))
        .or_else(|| full(pool));
    advice.map_or_else(String::new, |advice| {
        format!("status: {}\naction: {}\n", advice.status, advice.action)
    })
}

fn members(pool: &Pool) -> impl Iterator<Item = &Member> {
    pool.vdevs.iter().flat_map(|vdev| &vdev.members)
}

/// The path of a member, or its GUID.
fn name(member: &Member) -> String {
    let path = member.last_path();
    path.map_or(member.guid.clone(), |path| path.display().to_string())
}

fn unusable(pool: &Pool) -> Option<Advice> {
    let (status, action) = match (pool.state, pool.health) {
        (DiskState::Held, _) => (
            "The pool cannot be opened. Its volumes and filesystems are not served.",
            "Connect its disks: the server tries to open it again by itself. `wirepool pool import` lists the disks that are found.",
        ),
        (_, Some(Health::Faulted)) => (
            "A vdev has lost more disks than its redundancy can replace. Some data cannot be read.",
            "Connect the missing disks again, or restore the data from a backup.",
        ),
        (_, Some(Health::Suspended)) => (
            "The pool takes no writes. All data can be read.",
            "Mend the cause that `reason` names: the server goes on by itself.",
        ),
        _ => return None,
    };
    let (status, action) = (status.to_owned(), action.to_owned());
    Some(Advice { status, action })
}

fn damaged(pool: &Pool) -> Option<Advice> {
    let advice = || Advice {
        status: "Some blocks have no correct copy. Reads of them fail.".to_owned(),
        action: format!(
            "Restore the volumes and files below (`pool status -v {}` has all) from a snapshot or backup.",
            pool.name
        ),
    };
    (!pool.damage.is_empty()).then(advice)
}

fn degraded(pool: &Pool) -> Option<Advice> {
    let is_resilvered = pool
        .resilver
        .as_ref()
        .is_some_and(|resilver| resilver.state == ScanState::Running);
    let of = &pool.name;
    let is_away = |m: &&Member| !["online", "stale"].contains(&m.state.as_str());
    let mut away = pool
        .vdevs
        .iter()
        .filter_map(|v| Some((v.class, v.members.iter().find(is_away)?)));
    if let Some((class, member)) = away.next() {
        let disk = name(member);
        let (status, action) = match member.state.as_str() {
            "offline" => (
                "A disk was taken offline. Its vdev has less redundancy.",
                format!("Bring it back: wirepool pool online {of} {disk}"),
            ),
            "faulted" => (
                "A disk failed. Its vdev has less redundancy.",
                format!("Replace it: wirepool pool replace {of} {disk} NEW-DISK"),
            ),
            _ => (
                "A disk is missing. Its vdev has less redundancy.",
                format!(
                    "Connect it again, or replace it: wirepool pool replace {of} {disk} NEW-DISK"
                ),
            ),
        };
        let risk = match class {
            VdevClass::Special => " The whole pool is lost with it: it has the metadata.",
            VdevClass::Normal | VdevClass::Log => "",
        };
        let status = format!("{status}{risk}");
        return Some(Advice { status, action });
    }
    members(pool).find(|m| m.state == "stale")?;
    Some(match is_resilvered {
        true => Advice {
            status: "A disk is being resilvered. Its vdev has less redundancy until then."
                .to_owned(),
            action: "Wait for the resilver to end.".to_owned(),
        },
        false => Advice {
            status: "A disk lacks newer blocks, and no resilver is running.".to_owned(),
            action: format!("Read the reason of the resilver: wirepool pool status -v {of}"),
        },
    })
}

fn had_errors(pool: &Pool) -> Option<Advice> {
    let errors = |m: &Member| m.read_errors + m.write_errors + m.checksum_errors;
    members(pool).find(|m| errors(m) > 0)?;
    Some(Advice {
        status: "A disk had errors. No data is lost.".to_owned(),
        action: format!(
            "Look at its cable, then run: wirepool pool scrub {}. Replace the disk if errors return.",
            pool.name
        ),
    })
}

fn full(pool: &Pool) -> Option<Advice> {
    (pool.used_percent() >= FULL_PERCENT).then(|| Advice {
        status: "The pool is nearly full. Writes become slow, and fail at the end.".to_owned(),
        action: format!(
            "Destroy snapshots or datasets, or add disks: wirepool pool add {} DISK…",
            pool.name
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(changes: &[(&str, serde_json::Value)]) -> Pool {
        let member = |path: &str| {
            serde_json::json!({
                "guid": "0", "path": path, "state": "online", "reads": 0, "writes": 0, "read_errors": 0, "write_errors": 0,
                "checksum_errors": 0, "repairs": 0,
            })
        };
        let mut pool = serde_json::json!({
            "name": "tank", "guid": "", "state": "online", "health": "online", "reason": null, "disks": [], "size": 1000,
            "used": 899, "freeing": 0, "free": 101, "reserved": 0, "dirty": 0,
            "vdevs": [{
                "name": "mirror-0", "layout": "mirror", "class": "normal", "health": "online", "size": 1000,
                "members": [member("/dev/a"), member("/dev/b")],
            }],
        });
        for (pointer, value) in changes {
            *pool.pointer_mut(pointer).expect("a field") = value.clone();
        }
        serde_json::from_value(pool).expect("a pool")
    }

    #[test]
    fn a_sound_pool_has_no_lines() {
        assert_eq!(lines(&pool(&[])), "");
    }

    #[test]
    fn the_worst_trouble_is_told_with_its_command() {
        let state = "/vdevs/0/members/1/state";
        let errors = "/vdevs/0/members/0/checksum_errors";
        for (changes, text) in [
            (vec![("/state", "held".into())], "cannot be opened"),
            (vec![("/health", "faulted".into())], "more disks than"),
            (vec![("/health", "suspended".into())], "takes no writes"),
            (
                vec![(state, "offline".into())],
                "wirepool pool online tank /dev/b",
            ),
            (
                vec![(state, "faulted".into())],
                "pool replace tank /dev/b NEW-DISK",
            ),
            (vec![(state, "missing".into())], "Connect it again"),
            (vec![(state, "stale".into())], "no resilver"),
            (vec![(errors, 1.into())], "wirepool pool scrub tank"),
            (vec![("/used", 900.into())], "nearly full"),
            (
                vec![("/used", 900.into()), (state, "missing".into())],
                "is missing",
            ),
            (
                vec![
                    (state, "faulted".into()),
                    ("/vdevs/0/class", "special".into()),
                ],
                "The whole pool is lost with it",
            ),
        ] {
            let found = lines(&pool(&changes));
            assert!(found.contains(text), "{changes:?}: {found}");
            assert!(
                found.starts_with("status: ") && found.contains("\naction: "),
                "{found}"
            );
        }
    }
}
