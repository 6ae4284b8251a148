//! The NVMe/TCP table: our server compared with qemu-storage-daemon, on memory and on a disk; and the resources of an
//! idle and of a loaded server.
//!
//! **Owns** both servers and the order of the rounds. **Called by** [`super::tables`]. **Invariants**: rounds
//! alternate; servers share one processor and clients have the other.

use super::lab::{Lab, workload};
use super::load;
use super::peer::Peer;
use super::point::{Point, point, summary};
use super::rows::{ALL, Kind, RowPlan};
use crate::Result;
use crate::report::table::blank;
use crate::served::{ServeConfig, Served};
use crate::targets::Address;
use crate::workload::Workload;

/// The rounds of a row, for each contender that ran.
#[derive(Default)]
struct Measured {
    local: Vec<Point>,
    memory: Vec<Point>,
    file: Vec<Point>,
    peer: Vec<Point>,
}

struct Contenders<'a> {
    lab: &'a Lab<'a>,
    served: &'a Served,
    peer: Option<&'a Peer>,
}

/// The columns of the first table.
const HEAD: [&str; 8] = [
    "row",
    "goal",
    "measured",
    "wirepool mem",
    "wirepool file",
    "peer NBD",
    "local",
    "result",
];
/// Namespaces of our server, and exports of the peer's.
const MEMORY: u32 = 1;
const SHM: u32 = 2;
const DISK: u32 = 3;
const PEER_SHM: usize = 0;
const PEER_DISK: usize = 1;

/// Names of its rows.
pub(super) fn rows() -> Vec<&'static str> {
    ALL.iter().map(|row| row.name).chain(load::ROWS).collect()
}

/// All rows as a table. Errors: the row that could not be measured.
pub(super) async fn table(lab: &mut Lab<'_>, with_peer: bool) -> Result<String> {
    let config = ServeConfig::of(lab.disks(), lab.processors().0);
    let served = Served::start(&config).await?;
    let peer = match with_peer {
        true => Some(Peer::start(&lab.files, lab.processors(), lab.place).await?),
        false => None,
    };
    lab.fill(&served.address(MEMORY, true)).await?;
    let mut t = blank(&HEAD, 9);
    for row in &ALL {
        if !lab.steps.next(row.name) {
            continue;
        }
        let contenders = Contenders {
            lab,
            served: &served,
            peer: peer.as_ref(),
        };
        let m = contenders.row(row).await?;
        add(&mut t, row, &m);
    }
    served.stop()?;
    if let Some(p) = peer {
        p.stop()?;
    }
    for line in load::rows(lab).await? {
        let [row, goal, measured, result] = line;
        let none = || "–".to_owned();
        t.add_row([row, goal, measured, none(), none(), none(), none(), result]);
    }
    Ok(t.to_string())
}

impl Contenders<'_> {
    /// All rounds of a row; contenders alternate.
    async fn row(&self, row: &RowPlan) -> Result<Measured> {
        let w = workload(row, self.lab.extent)?;
        let mut m = Measured::default();
        for _ in 0..self.lab.extent.rounds {
            match row.kind {
                Kind::Ram => {
                    m.memory
                        .push(self.ours(&self.served.address(MEMORY, true), &w).await?);
                    m.file
                        .push(self.ours(&self.served.address(SHM, true), &w).await?);
                    m.peer.extend(self.peers(PEER_SHM, row)?);
                }
                Kind::Disk => {
                    let local = Address::File {
                        path: self.lab.files[1].0.clone(),
                        buffered: false,
                        shared: true,
                    };
                    m.local.push(self.ours(&local, &w).await?);
                    m.file
                        .push(self.ours(&self.served.address(DISK, false), &w).await?);
                    m.peer.extend(self.peers(PEER_DISK, row)?);
                }
            }
        }
        Ok(m)
    }

    async fn ours(&self, address: &Address, w: &Workload) -> Result<Point> {
        let remote = matches!(address, Address::NvmeTcp(_));
        point(
            address,
            w,
            &self.lab.setup,
            remote.then(|| self.served.pid()),
        )
        .await
    }

    fn peers(&self, export: usize, row: &RowPlan) -> Result<Option<Point>> {
        let seconds = self.lab.extent.runtime.as_secs_f64();
        self.peer
            .map(|p| p.run(export, row.mode, row.block_size, row.depth, seconds))
            .transpose()
    }
}

fn add(t: &mut comfy_table::Table, row: &RowPlan, m: &Measured) {
    let (ours, other) = match row.kind {
        Kind::Ram => (&m.memory, &m.peer),
        Kind::Disk => (&m.file, &m.local),
    };
    let (measured, outcome) = row.goal.judge(ours, other);
    let all = [&m.memory, &m.file, &m.peer, &m.local].map(|p| summary(p, row.block_size));
    let [memory, file, peer, local] = all;
    t.add_row([
        row.name.into(),
        row.goal.text(),
        measured,
        memory,
        file,
        peer,
        local,
        outcome.text().into(),
    ]);
}
