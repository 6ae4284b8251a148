//! The iSCSI table: our target and Debian's `tgt` on the same files, and iSCSI compared with NVMe/TCP on memory.
//!
//! **Owns** both servers and the order of the rounds. **Called by** [`super::tables`]. **Invariants**: our initiator
//! drives all of them; rounds alternate; servers share one processor and the client has the other, as in the first
//! table.

use super::lab::{Lab, workload};
use super::point::{Point, point, summary};
use super::rows::{ISCSI, Kind, RowPlan};
use super::tgt::Tgt;
use crate::Result;
use crate::report::table::blank;
use crate::served::{ServeConfig, Served, ServedDisk};

/// The RAM disks: a namespace and a logical unit; and the logical units of the files.
const NSID: u32 = 1;
const MEMORY: u16 = 0;
const FIRST_FILE: u16 = 1;

/// The rounds of a row, for each contender that ran.
#[derive(Default)]
struct Measured {
    ours: Vec<Point>,
    peer: Vec<Point>,
    memory: Vec<Point>,
    nvme: Vec<Point>,
}

/// Names of its rows.
pub(super) fn rows() -> Vec<&'static str> {
    ISCSI.iter().map(|row| row.name).collect()
}

/// All rows as a table. Errors: the row that could not be measured.
pub(super) async fn table(lab: &mut Lab<'_>, with_peer: bool) -> Result<String> {
    let cpus = lab.processors().0;
    let ram = vec![ServedDisk::Memory(lab.extent.bytes)];
    let served = Served::start(&ServeConfig {
        luns: lab.disks(),
        ..ServeConfig::of(ram, cpus)
    })
    .await?;
    for address in [served.address(NSID, true), served.unit(MEMORY, true)] {
        lab.fill(&address).await?;
    }
    let tgt = match with_peer {
        true => Some(Tgt::start(&lab.files, cpus, lab.place).await?),
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
    for row in &ISCSI {
        if !lab.steps.next(row.name) {
            continue;
        }
        let m = measure(lab, row, &served, tgt.as_ref()).await?;
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

/// All rounds of a row; contenders alternate.
async fn measure(
    lab: &Lab<'_>,
    row: &RowPlan,
    served: &Served,
    tgt: Option<&Tgt>,
) -> Result<Measured> {
    let w = workload(row, lab.extent)?;
    let (file, ram) = match row.kind {
        Kind::Ram => (0, true),
        Kind::Disk => (1, false),
    };
    let (pid, mut m) = (Some(served.pid()), Measured::default());
    for _ in 0..lab.extent.rounds {
        let address = served.unit(FIRST_FILE + file, ram);
        m.ours.push(point(&address, &w, &lab.setup, pid).await?);
        if let Some(tgt) = tgt {
            let address = tgt.unit(file.into(), ram);
            let measured = point(&address, &w, &lab.setup, Some(tgt.pid())).await?;
            m.peer.push(measured);
        }
        if ram {
            let address = served.unit(MEMORY, true);
            m.memory.push(point(&address, &w, &lab.setup, pid).await?);
            let address = served.address(NSID, true);
            m.nvme.push(point(&address, &w, &lab.setup, pid).await?);
        }
    }
    Ok(m)
}
