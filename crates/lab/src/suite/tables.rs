//! The order of the measurements: chooses the rows, prepares the files, measures each table, and describes the machine.
//!
//! **Called by** the command line.

use super::lab::{Extent, Lab, Steps, Table};
use super::{iscsi, nfs, nvme, peer, pool, tgt};
use crate::engine::Setup;
use crate::plan::Machine;
use crate::served::{Scratch, on_interrupt};
use crate::size::digits;
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::terminal::{Teller, fill, print};
use crate::{Error, Result};
use std::fmt::Write;
use std::path::Path;

impl Table {
    /// Names of its rows.
    fn rows(self) -> Vec<&'static str> {
        match self {
            Table::Nvme => nvme::rows(),
            Table::Iscsi => iscsi::rows(),
            Table::Nfs => nfs::rows(),
            Table::Pool => pool::rows(),
        }
    }

    /// Its rows with `part` in their name, and the rows that they are computed from.
    fn wanted(self, part: Option<&str>) -> Vec<&'static str> {
        let is_meant = |row: &str| part.is_none_or(|part| row.contains(part));
        let mut rows = self.rows();
        let meant = rows.iter().filter(|row| is_meant(row));
        let needed: Vec<_> = meant.filter_map(|row| pool::needed(row)).collect();
        rows.retain(|row| is_meant(row) || needed.contains(row));
        rows
    }
}

impl Extent {
    /// The rows to measure; a table without one is removed. Errors: no row matches.
    fn choose(&mut self) -> Result<Vec<&'static str>> {
        let part = self.row.as_deref();
        let all: Vec<_> = self.tables.iter().flat_map(|t| t.rows()).collect();
        self.tables.retain(|t| !t.wanted(part).is_empty());
        if self.tables.is_empty() {
            let why = format!("no row has this text in its name: {}", all.join(", "));
            return Err(Error::usage("--row", why));
        }
        Ok(self.tables.iter().flat_map(|t| t.wanted(part)).collect())
    }
}

/// Measures everything and prints the table. Errors: the row that could not be measured.
pub(crate) async fn suite(mut extent: Extent) -> Result<()> {
    let wanted = extent.choose()?;
    on_interrupt()?;
    let mut teller = Teller::new();
    let result = measure(extent, wanted, &mut teller).await;
    teller.done();
    print(&result?)
}

async fn measure(extent: Extent, wanted: Vec<&'static str>, teller: &mut Teller) -> Result<String> {
    let machine = Machine::here();
    let pinned = machine.processors > 1;
    let shm = Scratch::directory(shared_memory())?;
    let place = Scratch::directory(&extent.dir)?;
    let mut lab = Lab {
        pinned,
        setup: Setup {
            cpus: if pinned { vec![1] } else { Vec::new() },
            spin: extent.spin,
            ..Setup::default()
        },
        files: [
            (shm.0.join("ram.img"), false),
            (place.0.join("disk.img"), true),
        ],
        place: &place.0,
        memory: &shm.0,
        steps: Steps {
            wanted,
            at: 0,
            teller,
        },
        extent: &extent,
    };
    if extent
        .tables
        .iter()
        .any(|t| matches!(t, Table::Nvme | Table::Iscsi))
    {
        for (path, _) in &lab.files {
            make(path, extent.bytes, lab.steps.teller).await?;
        }
    }
    let (mut tables, mut missing) = (Vec::new(), Vec::new());
    for table in &extent.tables {
        let lacks = match table {
            Table::Nvme => peer::missing(),
            Table::Iscsi => tgt::missing(),
            Table::Nfs => nfs::missing(),
            Table::Pool => Vec::new(),
        };
        let with_peer = lacks.is_empty() && !extent.no_peer;
        tables.push(match table {
            Table::Nvme => nvme::table(&mut lab, with_peer).await?,
            Table::Iscsi => iscsi::table(&mut lab, with_peer).await?,
            Table::Nfs => nfs::table(&mut lab, with_peer).await?,
            Table::Pool => pool::table(&mut lab).await?,
        });
        missing.extend(lacks.into_iter().filter(|_| !extent.no_peer));
    }
    Ok(describe(
        &machine,
        &extent,
        pinned,
        &missing,
        &tables.join("\n"),
    ))
}

fn shared_memory() -> &'static Path {
    Path::new("/dev/shm")
}

/// Makes a file and fills it.
async fn make(path: &Path, bytes: u64, teller: &Teller) -> Result<()> {
    let address = Address::File {
        path: path.into(),
        buffered: false,
        shared: false,
    };
    let target = AnyTarget::open(
        &address,
        OpenAs {
            writable: true,
            create: Some(bytes),
        },
    )
    .await?;
    fill(
        &target,
        &address.to_string(),
        None,
        &Setup::default(),
        teller,
    )
    .await
}

fn describe(m: &Machine, e: &Extent, pinned: bool, missing: &[&str], table: &str) -> String {
    let mut out = format!("{table}\n");
    let _ = writeln!(
        out,
        "  {} × {}, {} GiB, Linux {}",
        m.processors,
        m.processor,
        m.memory >> 30,
        m.kernel
    );
    let _ = writeln!(
        out,
        "  median of {} × {} s, in turn; rates in IOPS or MiB/s, p50 and server CPU per I/O in µs; TCP cubic on our sockets",
        e.rounds,
        digits(e.runtime.as_secs_f64())
    );
    let pins = if pinned {
        "servers pinned to processor 0, clients to 1"
    } else {
        "one processor: nothing is pinned"
    };
    let _ = writeln!(
        out,
        "  {pins}; only ratios carry over to another machine or hour"
    );
    if let Some(text) = m.busy() {
        let _ = writeln!(out, "  {text}");
    }
    if !missing.is_empty() {
        let _ = writeln!(
            out,
            "  no peer: {} missing (Debian's qemu-system-common, fio, tgt, nfs-ganesha and nfs-ganesha-vfs have them)",
            missing.join(", ")
        );
    }
    out
}
