//! Callers: the identity of the process that made a request.
//!
//! **Owns** the groups of a process, read from /proc: FUSE passes only the effective group. **Called by** the front, only if
//! the file system checks permissions. **Invariants**: at most [`GROUPS_MAX`] groups; a process that has ended has none.

use backend::file::{Caller, CheckedBy};
use fuser::Request;
use std::fs;
use std::sync::Arc;

/// Most groups of a process that are read (`NGROUPS_MAX` of Linux).
const GROUPS_MAX: usize = 65_536;

/// The caller of a request.
pub(super) fn of(request: &Request, checked_by: CheckedBy) -> Caller {
    let groups: Arc<[u32]> = match checked_by {
        CheckedBy::Client => Arc::default(),
        CheckedBy::Us => groups(request.pid()).into(),
    };
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        groups,
        checked_by,
    }
}

/// Supplementary groups of a process; none if there is no such process (another namespace, or it has ended).
fn groups(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("Groups:"));
    let words = line.unwrap_or_default().split_ascii_whitespace();
    words
        .filter_map(|w| w.parse().ok())
        .take(GROUPS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_has_no_groups() {
        assert_eq!(groups(u32::MAX), []);
        let own = groups(std::process::id());
        assert!(own.len() < GROUPS_MAX);
    }
}
