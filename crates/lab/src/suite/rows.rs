//! The rows with a workload.

use super::Goal;

/// What a row is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Memory: ours against the peer's.
    Ram,
    /// A file on a disk: ours against the same file without network.
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

/// I/Os in flight of the rows with large blocks.
const LARGE_DEPTH: u32 = 8;
const SMALL: u32 = 4096;
const LARGE: u32 = 128 << 10;

/// All of them.
pub(super) fn all() -> Vec<RowPlan> {
    let row = |name, kind, mode, block_size, depth, goal| RowPlan {
        name,
        kind,
        mode,
        block_size,
        depth,
        goal,
    };
    let cpu = |most_us, share| Goal::ServerCpu { most_us, share };
    let throughput = Goal::Throughput {
        times: 2.5,
        cpu_share: 0.25,
    };
    vec![
        row(
            "RAM 4K randread Q1",
            Kind::Ram,
            "randread",
            SMALL,
            1,
            Goal::LatencyShare(0.5),
        ),
        row(
            "RAM 4K randread Q32",
            Kind::Ram,
            "randread",
            SMALL,
            32,
            cpu(3.5, Some(0.2)),
        ),
        row(
            "RAM 4K randread Q128",
            Kind::Ram,
            "randread",
            SMALL,
            128,
            cpu(2.5, None),
        ),
        row(
            "RAM 4K randwrite Q32",
            Kind::Ram,
            "randwrite",
            SMALL,
            32,
            cpu(5.0, None),
        ),
        row(
            "RAM 128K read Q8",
            Kind::Ram,
            "read",
            LARGE,
            LARGE_DEPTH,
            throughput,
        ),
        row(
            "RAM 128K write Q8",
            Kind::Ram,
            "write",
            LARGE,
            LARGE_DEPTH,
            throughput,
        ),
        row(
            "disk 4K randread Q1",
            Kind::Disk,
            "randread",
            SMALL,
            1,
            Goal::LatencyAdded(30.0),
        ),
        row(
            "disk 4K randread Q32",
            Kind::Disk,
            "randread",
            SMALL,
            32,
            Goal::OfLocal(0.9),
        ),
        row(
            "disk 4K randwrite Q32",
            Kind::Disk,
            "randwrite",
            SMALL,
            32,
            Goal::OfLocal(0.9),
        ),
        row(
            "disk 128K read Q8",
            Kind::Disk,
            "read",
            LARGE,
            LARGE_DEPTH,
            Goal::OfLocal(0.9),
        ),
        row(
            "disk 128K write Q8",
            Kind::Disk,
            "write",
            LARGE,
            LARGE_DEPTH,
            Goal::OfLocal(0.9),
        ),
    ]
}
