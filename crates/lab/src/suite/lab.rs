//! State that all tables of the suite share: extent, files, processors, progress.

use super::rows::RowPlan;
use crate::Result;
use crate::engine::Setup;
use crate::plan::Progress;
use crate::served::ServedDisk;
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::terminal::{Teller, fill};
use crate::workload::Workload;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Extent of the measurements.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// Size of the files and of the RAM disk, bytes.
    pub(crate) bytes: u64,
    /// Rounds of each row.
    pub(crate) rounds: u32,
    /// Time of each round.
    pub(crate) runtime: Duration,
    /// Time for which the idle server is observed.
    pub(crate) idle: Duration,
    /// Connections (I/O queues) of the idle and memory rows.
    pub(crate) queues: u16,
    /// Time that client rings spin.
    pub(crate) spin: Duration,
    /// Directory of the disk-backed file.
    pub(crate) dir: PathBuf,
    /// Do not run the peer.
    pub(crate) no_peer: bool,
    /// Time of the pool's rows with accumulating effects.
    pub(crate) long: Duration,
    /// Number of snapshots in the row of many snapshots.
    pub(crate) snapshots: u32,
    /// The tables to measure.
    pub(crate) tables: Vec<Table>,
    /// Text that the names of the measured rows contain; none for all rows.
    pub(crate) row: Option<String>,
}

/// A table of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Table {
    /// NVMe/TCP compared with qemu-storage-daemon
    Nvme,
    /// iSCSI compared with tgt
    Iscsi,
    /// NFS compared with nfs-ganesha
    Nfs,
    /// A pool compared with a raw file
    Pool,
}

/// State that all tables share.
pub(super) struct Lab<'a> {
    pub(super) extent: &'a Extent,
    /// Servers have processor 0 and clients 1; not if there is only one.
    pub(super) pinned: bool,
    pub(super) setup: Setup,
    /// A file in memory and one on a disk, and whether O_DIRECT is possible.
    pub(super) files: [(PathBuf, bool); 2],
    /// Directory of the other files.
    pub(super) place: &'a Path,
    /// Directory of files in memory.
    pub(super) memory: &'a Path,
    pub(super) steps: Steps<'a>,
}

impl Lab<'_> {
    /// Processors of the servers, and of the clients.
    pub(super) fn processors(&self) -> (&'static str, &'static str) {
        if self.pinned { ("0", "1") } else { ("", "") }
    }

    /// Our server's disks: a RAM disk and the two files.
    pub(super) fn disks(&self) -> Vec<ServedDisk> {
        let files = self.files.iter().map(|(path, _)| path.clone());
        let ram = ServedDisk::Memory(self.extent.bytes);
        std::iter::once(ram)
            .chain(files.map(ServedDisk::File))
            .collect()
    }

    /// Writes a served RAM disk completely.
    pub(super) async fn fill(&self, address: &Address) -> Result<()> {
        let how = OpenAs {
            writable: true,
            create: None,
        };
        let ram = AnyTarget::open(address, how).await?;
        fill(&ram, "a RAM disk", None, &self.setup, self.steps.teller).await
    }
}

/// Prints the row that is being measured.
pub(super) struct Steps<'a> {
    pub(super) teller: &'a mut Teller,
    pub(super) wanted: Vec<&'static str>,
    pub(super) at: usize,
}

impl Steps<'_> {
    /// Whether the next row, `row`, is to be measured.
    pub(super) fn next(&mut self, row: &str) -> bool {
        let is_wanted = self.wanted.contains(&row);
        if is_wanted {
            self.at += 1;
            self.teller.step(self.at, self.wanted.len(), row);
        }
        is_wanted
    }
}

/// The workload of a row.
pub(super) fn workload(row: &RowPlan, extent: &Extent) -> Result<Workload> {
    Workload {
        block_size: row.block_size,
        depth: row.depth,
        runtime: extent.runtime,
        ramp: extent.runtime / 5,
        ..Workload::default()
    }
    .with_mode(row.mode)
}
