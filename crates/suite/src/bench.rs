//! State that all tables of the suite share: extent, processors, directories, progress.

use crate::extent::Extent;
use crate::point::open;
use crate::rows::{Row, Work};
use lab::Result;
use lab::child::Scratch;
use lab::engine::Setup;
use lab::plan::{Machine, Progress};
use lab::served::{ServeConfig, ServedDisk};
use lab::targets::{Address, AnyTarget, OpenAs};
use lab::terminal::{Teller, fill};
use lab::workload::Workload;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files that both servers have: one in memory, and one on a disk, for which O_DIRECT is possible.
pub(crate) type Files = [(PathBuf, bool); 2];

/// State that all tables share.
pub(crate) struct Bench {
    pub(crate) extent: Extent,
    pub(crate) machine: Machine,
    /// The program to measure.
    pub(crate) program: PathBuf,
    pub(crate) setup: Setup,
    /// Directory of files on the disk.
    pub(crate) place: Scratch,
    /// Directory of files in memory.
    pub(crate) memory: Scratch,
    teller: Teller,
    rows: usize,
    at: usize,
}

impl Bench {
    /// For this number of rows. Errors: the program or a directory is missing.
    pub(crate) fn new(extent: Extent, rows: usize) -> Result<Bench> {
        let machine = Machine::here();
        let setup = Setup {
            cpus: if machine.processors > 1 {
                vec![1]
            } else {
                Vec::new()
            },
            spin: Duration::from_micros(extent.spin_us),
            ..Setup::default()
        };
        Ok(Bench {
            machine,
            program: extent.program()?,
            setup,
            place: Scratch::directory(&extent.place())?,
            memory: Scratch::directory(Path::new("/dev/shm"))?,
            teller: Teller::stderr(),
            rows,
            at: 0,
            extent,
        })
    }

    /// Whether servers and clients have a processor each.
    pub(crate) fn is_pinned(&self) -> bool {
        self.machine.processors > 1
    }

    /// Processors of the servers, and of the clients.
    pub(crate) fn processors(&self) -> (&'static str, &'static str) {
        if self.is_pinned() {
            ("0", "1")
        } else {
            ("", "")
        }
    }

    /// A server of ours with these disks, on the servers' processor.
    pub(crate) fn serve(&self, disks: Vec<ServedDisk>) -> ServeConfig {
        ServeConfig::of(self.program.clone(), disks, self.processors().0)
    }

    /// Shows that a row begins.
    pub(crate) fn step(&mut self, row: &Row) {
        self.at += 1;
        self.teller.step(self.at, self.rows, row.name);
    }

    pub(crate) fn done(&self) {
        self.teller.done();
    }

    /// Writes an existing target completely.
    pub(crate) async fn fill(&self, address: &Address) -> Result<()> {
        let target = open(address, true).await?;
        self.fill_target(&target, address).await
    }

    /// Creates a file of the extent's size and fills it.
    pub(crate) async fn make(&self, address: &Address) -> Result<()> {
        let how = OpenAs {
            writable: true,
            create: Some(self.extent.size),
        };
        let target = AnyTarget::open(address, how).await?;
        self.fill_target(&target, address).await
    }

    async fn fill_target(&self, target: &AnyTarget, address: &Address) -> Result<()> {
        let name = address.to_string();
        fill(target, &name, None, &self.setup, &self.teller).await
    }

    /// The workload of a row with I/O of our client.
    pub(crate) fn workload(&self, row: &Row) -> Result<Workload> {
        let (Work::Io(_, mode, block_size, depth), extent) = (row.work, &self.extent) else {
            unreachable!("{} has no I/O of our client", row.name);
        };
        let workload = Workload {
            block_size,
            depth,
            runtime: extent.runtime,
            ramp: extent.runtime / 5,
            ..Workload::default()
        };
        workload.with_mode(mode)
    }
}

/// A local file as a target.
pub(crate) fn local(path: PathBuf, shared: bool) -> Address {
    Address::File {
        path,
        buffered: false,
        shared,
    }
}
