//! Reserved names of drills: volumes, subsystems, hosts and directories.
//!
//! **Owns** their form: `wirepool-drill-PID-START`, where START is the start time of the process in clock ticks since the
//! machine started (proc(5)), so that a later process with the same number is not taken for the drill. **Called by** drills.
//! **Invariants**: only a name of exactly this form is a drill's.

const PREFIX: &str = "wirepool-drill-";
/// Begin of a subsystem's name.
const SUBSYSTEM: &str = "nqn.2026-01.io.wirepool:";
/// Position of the start time in `/proc/PID/stat`, counted behind the command's name.
const START_FIELD: usize = 19;

/// The process of a drill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pid: u32,
    start: u64,
}

fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name
        .split_whitespace()
        .nth(START_FIELD)?
        .parse()
        .ok()
}

impl Mark {
    /// Of this process.
    pub(super) fn own() -> Mark {
        let pid = std::process::id();
        Mark {
            pid,
            start: start_of(pid).unwrap_or_default(),
        }
    }

    /// The mark in a name; none if it is no drill's name.
    pub(super) fn parse(name: &str) -> Option<Mark> {
        let (pid, start) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let mark = Mark {
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        };
        (mark.name() == name).then_some(mark)
    }

    /// Its name of a volume or directory.
    pub(super) fn name(self) -> String {
        format!("{PREFIX}{}-{}", self.pid, self.start)
    }

    /// The subsystem of its volume.
    pub(super) fn subsystem(self) -> String {
        format!("{SUBSYSTEM}{}", self.name())
    }

    /// The mark in the name of a subsystem.
    pub(super) fn of_subsystem(name: &str) -> Option<Mark> {
        Mark::parse(name.strip_prefix(SUBSYSTEM)?)
    }

    /// The host of its load.
    pub(super) fn host(self) -> String {
        format!("{}:host", self.subsystem())
    }

    /// Process number.
    pub(super) fn pid(self) -> u32 {
        self.pid
    }

    /// Whether the drill runs.
    pub(super) fn is_running(self) -> bool {
        start_of(self.pid) == Some(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_a_drills() {
        let own = Mark::own();
        assert_eq!(Mark::parse(&own.name()), Some(own));
        assert_eq!(Mark::of_subsystem(&own.subsystem()), Some(own));
        assert_eq!(Mark::of_subsystem(&own.host()), None);
        assert!(own.is_running());
        let later = Mark {
            start: own.start + 1,
            ..own
        };
        assert!(!later.is_running(), "the number belongs to another process");
        for wrong in [
            "wirepool-drill-",
            "wirepool-drill-1",
            "wirepool-drill-1-",
            "wirepool-drill-01-2",
            "wirepool-drill-1-2-3",
            "wirepool-drill-+1-2",
            "my-wirepool-drill-1-2",
        ] {
            assert_eq!(Mark::parse(wrong), None, "{wrong}");
        }
    }
}
