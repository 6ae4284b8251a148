//! The iSCSI table: our target and Debian's `tgt` on the same files, and iSCSI beside NVMe/TCP on memory.
//!
//! **Owns** both servers and the order of the rounds. **Called by** [`super::measure`]. **Invariants**: one initiator,
//! ours, drives all; rounds take turns; servers share one processor and the client has the other, as in the first table.

use super::rows::{ISCSI, Kind, RowPlan};
use super::tgt::Tgt;
use super::{Extent, Point, Setup, point, summary, workload};
use crate::Result;
use crate::cli::fill;
use crate::cli::progress::Teller;
use crate::plan::Progress;
use crate::report::table::blank;
use crate::served::{ServeConfig, Served, ServedDisk};
use crate::target::{AnyTarget, OpenAs};
use std::path::{Path, PathBuf};

/// How many rows there are.
pub(super) const ROWS: usize = ISCSI.len();
/// The RAM disks: a namespace and a logical unit; and the logical units of the files.
const NSID: u32 = 1;
const MEMORY: u16 = 0;
const FIRST_FILE: u16 = 1;

/// What the table is measured with.
pub(super) struct Bench<'a> {
    pub(super) extent: &'a Extent,
    pub(super) setup: &'a Setup,
    /// Processors of the servers.
    pub(super) cpus: &'a str,
    /// The file in memory and the one on a disk, and whether O_DIRECT is possible.
    pub(super) files: [(&'a PathBuf, bool); 2],
    /// Where the peer's socket and log go.
    pub(super) place: &'a Path,
    pub(super) with_peer: bool,
}

/// The rounds of a row, for each contender that ran.
#[derive(Default)]
struct Measured {
    ours: Vec<Point>,
    peer: Vec<Point>,
    memory: Vec<Point>,
    nvme: Vec<Point>,
}

impl Bench<'_> {
    /// All rows as a table. Errors: what could not be measured.
    pub(super) async fn table(&self, teller: &mut Teller, before: usize) -> Result<String> {
        let mut luns = vec![ServedDisk::Memory(self.extent.bytes)];
        luns.extend(
            self.files
                .iter()
                .map(|(p, _)| ServedDisk::File((*p).clone())),
        );
        let served = Served::start(&ServeConfig {
            pools: Vec::new(),
            disks: vec![ServedDisk::Memory(self.extent.bytes)],
            luns,
            shards: 1,
            cpus: self.cpus.into(),
            known_ports: false,
            metrics: false,
        })
        .await?;
        for address in [served.address(NSID, true), served.unit(MEMORY, true)] {
            let how = OpenAs {
                writable: true,
                create: None,
            };
            let ram = AnyTarget::open(&address, how).await?;
            fill(&ram, "a RAM disk", None, self.setup, teller).await?;
        }
        let tgt = match self.with_peer {
            true => Some(Tgt::start(&self.files, self.cpus, self.place).await?),
            false => None,
        };
        let head = [
            "iSCSI row",
            "goal",
            "measured",
            "wirepool file",
            "tgt, same file",
            "wirepool mem",
            "NVMe/TCP mem",
            "result",
        ];
        let mut t = blank(&head, 9);
        for (i, row) in ISCSI.iter().enumerate() {
            teller.step(before + i + 1, before + ROWS, row.name);
            let m = self.row(row, &served, tgt.as_ref()).await?;
            let (measured, outcome) = row.goal.judge(&m.ours, &m.peer);
            let all = [&m.ours, &m.peer, &m.memory, &m.nvme];
            let [ours, peer, memory, nvme] = all.map(|p| summary(p, row.block_size));
            let result = outcome.text().into();
            let (name, goal) = (row.name.into(), row.goal.text());
            t.add_row([name, goal, measured, ours, peer, memory, nvme, result]);
        }
        drop(tgt);
        served.stop()?;
        Ok(t.to_string())
    }

    /// All rounds of a row, contenders in turn.
    async fn row(&self, row: &RowPlan, served: &Served, tgt: Option<&Tgt>) -> Result<Measured> {
        let w = workload(row, self.extent)?;
        let (file, ram) = match row.kind {
            Kind::Ram => (0, true),
            Kind::Disk => (1, false),
        };
        let (pid, mut m) = (Some(served.pid()), Measured::default());
        for _ in 0..self.extent.rounds {
            let address = served.unit(FIRST_FILE + file, ram);
            m.ours.push(point(&address, &w, self.setup, pid).await?);
            if let Some(tgt) = tgt {
                let address = tgt.unit(file.into(), ram);
                let measured = point(&address, &w, self.setup, Some(tgt.pid())).await?;
                m.peer.push(measured);
            }
            if ram {
                let address = served.unit(MEMORY, true);
                m.memory.push(point(&address, &w, self.setup, pid).await?);
                let address = served.address(NSID, true);
                m.nvme.push(point(&address, &w, self.setup, pid).await?);
            }
        }
        Ok(m)
    }
}
