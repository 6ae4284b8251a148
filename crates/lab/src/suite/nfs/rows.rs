//! Rows of the NFS table, and their goals.

use super::names::Task;
use crate::size::{count, digits};
use crate::suite::goal::{Goal as NoGoal, Outcome};
use crate::suite::point::{Point, median};
use crate::suite::rows::{Kind, RowPlan};

/// Work of a row.
pub(super) enum Work {
    /// I/O on a large file.
    Data(RowPlan),
    /// Work with attributes and names.
    Names(Task),
    /// Listing a directory with attributes.
    List,
    /// Processor time for idle clients.
    Idle,
    /// Memory for many clients.
    Memory,
}

/// A row.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) work: Work,
    pub(super) goal: Goal,
}

/// A goal: all parts that are set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Goal {
    /// Operations a second, at least.
    rate: Option<f64>,
    /// Bytes a second, at least.
    bytes: Option<f64>,
    /// Median latency, or time of a listing, µs, at most.
    p50_us: Option<f64>,
    /// The server's processor time of an operation, µs, at most; percent for idle clients.
    cpu: Option<f64>,
    /// Multiple of the peer's rate, at least.
    times: Option<f64>,
    /// Memory, bytes, at most.
    memory: Option<f64>,
}

const NONE: Goal = Goal {
    rate: None,
    bytes: None,
    p50_us: None,
    cpu: None,
    times: None,
    memory: None,
};

/// A part of a goal.
struct Part {
    wanted: Option<f64>,
    unit: &'static str,
    scale: f64,
    of: fn(&Point) -> Option<f64>,
    is_least: bool,
}

const fn part(wanted: Option<f64>, unit: &'static str, of: fn(&Point) -> Option<f64>) -> Part {
    Part {
        wanted,
        unit,
        scale: 1.0,
        of,
        is_least: false,
    }
}

impl Part {
    fn value(&self, value: f64) -> String {
        let text = match self.unit {
            "/s" => count(value),
            _ => digits(value / self.scale),
        };
        text + self.unit
    }

    fn is_met(&self, found: f64, wanted: f64) -> bool {
        if self.is_least {
            found >= wanted
        } else {
            found <= wanted
        }
    }
}

impl Goal {
    fn parts(&self) -> [Part; 5] {
        [
            Part {
                is_least: true,
                ..part(self.rate, "/s", |p| Some(p.iops))
            },
            Part {
                is_least: true,
                scale: 1e9,
                ..part(self.bytes, " GB/s", |p| Some(p.bytes_per_s))
            },
            part(self.p50_us, " µs", |p| Some(p.p50_us)),
            part(self.cpu, " CPU", |p| p.server_us),
            Part {
                scale: 1048576.0,
                ..part(self.memory, " MiB", |p| Some(p.bytes_per_s))
            },
        ]
    }

    /// The goal in words.
    pub(super) fn text(&self) -> String {
        let mut words = Vec::new();
        for part in self.parts() {
            if let Some(wanted) = part.wanted {
                let sign = if part.is_least { "≥" } else { "≤" };
                words.push(format!("{sign} {}", part.value(wanted)));
            }
        }
        if let Some(times) = self.times {
            words.push(format!("≥ {times}x the peer"));
        }
        words.join(", ")
    }

    /// The measurement in words, and whether it meets the goal.
    pub(super) fn judge(&self, ours: &[Point], peer: &[Point]) -> (String, Outcome) {
        let (mut words, mut known) = (Vec::new(), Vec::new());
        for part in self.parts() {
            let Some(wanted) = part.wanted else { continue };
            let found = median(ours, part.of);
            known.push(found.map(|found| part.is_met(found, wanted)));
            words.push(found.map_or("?".into(), |found| part.value(found)));
        }
        let rate = |points| median(points, |p: &Point| Some(p.iops));
        let times = rate(ours).zip(rate(peer)).map(|(a, b)| a / b);
        if let Some(wanted) = self.times {
            known.push(times.map(|v| v >= wanted));
        }
        if let Some(times) = times.filter(|v| v.is_finite()) {
            words.push(format!("{}x", digits(times)));
        }
        (words.join(", "), Outcome::of(&known))
    }
}

const fn data(mode: &'static str, block_size: u32, depth: u32) -> Work {
    Work::Data(RowPlan {
        name: "",
        kind: Kind::Ram,
        mode,
        block_size,
        depth,
        goal: NoGoal::Outdo { times: None },
    })
}

/// All rows. Goals are those of the project's plan for NFS.
pub(super) const ALL: [Row; 11] = [
    Row {
        name: "NFS 4K randread Q1",
        work: data("randread", 4096, 1),
        goal: Goal {
            p50_us: Some(30.0),
            ..NONE
        },
    },
    Row {
        name: "NFS 4K randread Q32",
        work: data("randread", 4096, 32),
        goal: Goal {
            rate: Some(100e3),
            cpu: Some(7.0),
            ..NONE
        },
    },
    Row {
        name: "NFS 4K randwrite Q32",
        work: data("randwrite", 4096, 32),
        goal: Goal {
            rate: Some(90e3),
            cpu: Some(8.0),
            ..NONE
        },
    },
    Row {
        name: "NFS 1M read Q4",
        work: data("read", 1 << 20, 4),
        goal: Goal {
            bytes: Some(3e9),
            cpu: Some(320.0),
            ..NONE
        },
    },
    Row {
        name: "NFS 1M write Q4",
        work: data("write", 1 << 20, 4),
        goal: Goal {
            bytes: Some(2.5e9),
            cpu: Some(320.0),
            ..NONE
        },
    },
    Row {
        name: "NFS GETATTR Q32",
        work: Work::Names(Task::Attributes),
        goal: Goal {
            cpu: Some(4.0),
            times: Some(5.0),
            ..NONE
        },
    },
    Row {
        name: "NFS LOOKUP Q32",
        work: Work::Names(Task::Lookup),
        goal: Goal {
            cpu: Some(5.0),
            times: Some(5.0),
            ..NONE
        },
    },
    Row {
        name: "NFS create, write 4K, commit, close Q32",
        work: Work::Names(Task::Create),
        goal: Goal {
            times: Some(5.0),
            ..NONE
        },
    },
    Row {
        name: "NFS list 50,000 with attributes",
        work: Work::List,
        goal: Goal {
            p50_us: Some(500e3),
            ..NONE
        },
    },
    Row {
        name: "NFS 100 idle clients",
        work: Work::Idle,
        goal: Goal {
            cpu: Some(1.0),
            ..NONE
        },
    },
    Row {
        name: "NFS memory of 1000 clients",
        work: Work::Memory,
        goal: Goal {
            memory: Some(256.0 * 1048576.0),
            ..NONE
        },
    },
];
