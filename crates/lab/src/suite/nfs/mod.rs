//! The NFS table: files of a pool served by us, and files served by Debian's `nfs-ganesha`, both on memory (tmpfs).
//!
//! | module | owns |
//! |---|---|
//! | `servers` | both servers as children |
//! | `rows` | the rows with their goals |
//! | `names` | work with attributes, names and directories |
//! | `clients` | many clients: idle ones, and the memory that they take |
//!
//! **Owns** the order of the rounds. **Called by** [`super::tables`]. **Invariants**: our client drives both servers; rounds
//! alternate; servers share one processor and the client has the other; a pool's image and the files of the peer are on tmpfs.

mod clients;
mod names;
mod rows;
mod servers;

use super::lab::{Lab, workload};
use super::point::{Point, point, summary};
use crate::Result;
use crate::report::table::blank;
use crate::size::digits;
use crate::targets::{AnyTarget, OpenAs};
use crate::terminal::fill;
use rows::{ALL, Row, Work};
use servers::{Server, Share};

pub(super) use servers::missing;

const HEAD: [&str; 7] = [
    "NFS row",
    "goal",
    "measured",
    "wirepool",
    "wirepool, 4K records",
    "ganesha",
    "result",
];

/// The rounds of a row, for each contender that ran.
#[derive(Default)]
struct Measured {
    ours: Vec<Point>,
    small: Vec<Point>,
    peer: Vec<Point>,
}

/// Names of its rows.
pub(super) fn rows() -> Vec<&'static str> {
    ALL.iter().map(|row| row.name).collect()
}

/// All rows as a table. Errors: the row that could not be measured.
pub(super) async fn table(lab: &mut Lab<'_>, with_peer: bool) -> Result<String> {
    let ours = Server::ours(lab).await?;
    let peer = match with_peer {
        true => Some(Server::ganesha(lab).await?),
        false => None,
    };
    let wants = |work: fn(&Row) -> bool| {
        let mut wanted = ALL
            .iter()
            .filter(|row| lab.steps.wanted.contains(&row.name));
        wanted.any(work)
    };
    let (has_data, has_list) = (
        wants(|row| matches!(row.work, Work::Data(_))),
        wants(|row| matches!(row.work, Work::List)),
    );
    for server in std::iter::once(&ours).chain(&peer) {
        if has_data {
            prepare(lab, server).await?;
        }
        if has_list {
            names::prepare(lab, &server.share, lab.extent).await?;
        }
    }
    let mut t = blank(&HEAD, 9);
    for row in &ALL {
        if !lab.steps.next(row.name) {
            continue;
        }
        let m = measure(lab, row, &ours, peer.as_ref()).await?;
        let (measured, outcome) = row.goal.judge(&m.ours, &m.peer);
        let all = [&m.ours, &m.small, &m.peer];
        let [ours, small, peer] = all.map(|points| row.text(points));
        let (name, goal, result) = (row.name.into(), row.goal.text(), outcome.text().into());
        t.add_row([name, goal, measured, ours, small, peer, result]);
    }
    drop(peer);
    ours.stop()?;
    Ok(t.to_string())
}

/// Creates the files of a server, and fills them.
async fn prepare(lab: &Lab<'_>, server: &Server) -> Result<()> {
    for share in std::iter::once(&server.share).chain(&server.small) {
        let how = OpenAs {
            writable: true,
            create: Some(lab.extent.bytes),
        };
        let target = AnyTarget::open(&share.file(), how).await?;
        fill(
            &target,
            "a file over NFS",
            None,
            &lab.setup,
            lab.steps.teller,
        )
        .await?;
    }
    Ok(())
}

/// All rounds of a row; contenders alternate.
async fn measure(
    lab: &Lab<'_>,
    row: &Row,
    ours: &Server,
    peer: Option<&Server>,
) -> Result<Measured> {
    let mut m = Measured::default();
    let rounds = match row.work {
        Work::Idle | Work::Memory => 1,
        Work::Data(_) | Work::Names(_) | Work::List => lab.extent.rounds,
    };
    for round in 0..rounds {
        m.ours.push(one(lab, row, ours, &ours.share, round).await?);
        if let (Some(small), Work::Data(_)) = (&ours.small, &row.work) {
            m.small.push(one(lab, row, ours, small, round).await?);
        }
        if let Some(peer) = peer {
            m.peer.push(one(lab, row, peer, &peer.share, round).await?);
        }
    }
    Ok(m)
}

/// One round of one contender.
async fn one(
    lab: &Lab<'_>,
    row: &Row,
    server: &Server,
    share: &Share,
    round: u32,
) -> Result<Point> {
    let pid = server.pid();
    match &row.work {
        Work::Data(plan) => {
            let w = workload(plan, lab.extent)?;
            point(&share.file(), &w, &lab.setup, Some(pid)).await
        }
        Work::Names(task) => names::measure(lab, share, (*task, round), pid).await,
        Work::List => names::list(lab, share, pid).await,
        Work::Idle => clients::idle(share, lab.extent, pid).await,
        Work::Memory => clients::memory(share, lab.extent, pid).await,
    }
}

impl Row {
    /// The rounds of a contender in words.
    fn text(&self, points: &[Point]) -> String {
        let median = |of: fn(&Point) -> f64| super::point::median(points, |p| Some(of(p)));
        match self.work {
            Work::Data(ref plan) => summary(points, plan.block_size),
            Work::Names(_) => summary(points, 0),
            Work::List => median(|p| p.p50_us).map_or("–".into(), |us| {
                let cpu = super::point::median(points, |p| p.server_us);
                let cpu = cpu.map_or(String::new(), |c| format!(", CPU {} an entry", digits(c)));
                format!("{} s{cpu}", digits(us / 1e6))
            }),
            Work::Idle => median(|p| p.server_us.unwrap_or(0.0))
                .map_or("–".into(), |percent| format!("{percent:.2} %")),
            Work::Memory => median(|p| p.bytes_per_s).map_or("–".into(), |bytes| {
                format!("{} MiB", digits(bytes / 1048576.0))
            }),
        }
    }
}
