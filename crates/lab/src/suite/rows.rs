//! Rows with a workload.

use super::goal::Goal;

/// Medium of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Memory: our server compared with the peer.
    Ram,
    /// A file on a disk: our server compared with the same file without network.
    Disk,
}

/// One row.
pub(super) struct RowPlan {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) mode: &'static str,
    pub(super) block_size: u32,
    pub(super) depth: u32,
    pub(super) goal: Goal,
}

const fn row(
    name: &'static str,
    kind: Kind,
    mode: &'static str,
    (block_size, depth): (u32, u32),
    goal: Goal,
) -> RowPlan {
    RowPlan {
        name,
        kind,
        mode,
        block_size,
        depth,
        goal,
    }
}

const fn cpu(most_us: f64, share: Option<f64>) -> Goal {
    Goal::ServerCpu { most_us, share }
}

const SMALL_1: (u32, u32) = (4096, 1);
const SMALL_32: (u32, u32) = (4096, 32);
const SMALL_128: (u32, u32) = (4096, 128);
const LARGE_8: (u32, u32) = (128 << 10, 8);
const THROUGHPUT: Goal = Goal::Throughput {
    times: 2.5,
    cpu_share: 0.25,
};

/// Rows of the NVMe/TCP table, with their goals.
pub(super) const ALL: [RowPlan; 11] = [
    row(
        "RAM 4K randread Q1",
        Kind::Ram,
        "randread",
        SMALL_1,
        Goal::LatencyShare(0.5),
    ),
    row(
        "RAM 4K randread Q32",
        Kind::Ram,
        "randread",
        SMALL_32,
        cpu(3.5, Some(0.2)),
    ),
    row(
        "RAM 4K randread Q128",
        Kind::Ram,
        "randread",
        SMALL_128,
        cpu(2.5, None),
    ),
    row(
        "RAM 4K randwrite Q32",
        Kind::Ram,
        "randwrite",
        SMALL_32,
        cpu(5.0, None),
    ),
    row("RAM 128K read Q8", Kind::Ram, "read", LARGE_8, THROUGHPUT),
    row("RAM 128K write Q8", Kind::Ram, "write", LARGE_8, THROUGHPUT),
    row(
        "disk 4K randread Q1",
        Kind::Disk,
        "randread",
        SMALL_1,
        Goal::LatencyAdded(30.0),
    ),
    row(
        "disk 4K randread Q32",
        Kind::Disk,
        "randread",
        SMALL_32,
        Goal::OfLocal(0.9),
    ),
    row(
        "disk 4K randwrite Q32",
        Kind::Disk,
        "randwrite",
        SMALL_32,
        Goal::OfLocal(0.9),
    ),
    row(
        "disk 128K read Q8",
        Kind::Disk,
        "read",
        LARGE_8,
        Goal::OfLocal(0.9),
    ),
    row(
        "disk 128K write Q8",
        Kind::Disk,
        "write",
        LARGE_8,
        Goal::OfLocal(0.9),
    ),
];

/// Goal: a higher rate than the other target, with less processor time.
const fn outdo(times: Option<f64>) -> Goal {
    Goal::Outdo { times }
}

/// Rows of the iSCSI table: our target compared with another one on the same file.
pub(super) const ISCSI: [RowPlan; 10] = [
    row(
        "RAM 4K randread Q1",
        Kind::Ram,
        "randread",
        SMALL_1,
        outdo(None),
    ),
    row(
        "RAM 4K randread Q32",
        Kind::Ram,
        "randread",
        SMALL_32,
        outdo(Some(1.5)),
    ),
    row(
        "RAM 4K randread Q128",
        Kind::Ram,
        "randread",
        SMALL_128,
        outdo(None),
    ),
    row(
        "RAM 4K randwrite Q1",
        Kind::Ram,
        "randwrite",
        SMALL_1,
        outdo(None),
    ),
    row(
        "RAM 4K randwrite Q32",
        Kind::Ram,
        "randwrite",
        SMALL_32,
        outdo(Some(1.5)),
    ),
    row(
        "RAM 4K randwrite Q128",
        Kind::Ram,
        "randwrite",
        SMALL_128,
        outdo(None),
    ),
    row("RAM 128K read Q8", Kind::Ram, "read", LARGE_8, outdo(None)),
    row(
        "RAM 128K write Q8",
        Kind::Ram,
        "write",
        LARGE_8,
        outdo(None),
    ),
    row(
        "disk 4K randread Q32",
        Kind::Disk,
        "randread",
        SMALL_32,
        outdo(None),
    ),
    row(
        "disk 4K randwrite Q32",
        Kind::Disk,
        "randwrite",
        SMALL_32,
        outdo(None),
    ),
];
