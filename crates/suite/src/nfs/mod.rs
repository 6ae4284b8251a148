//! Servers and targets of the NFS table: files of a pool served by us, and files served by nfs-ganesha, both on memory (tmpfs).
//!
//! | module | owns |
//! |---|---|
//! | `names` | work with attributes, names and directories |
//! | `clients` | many clients: idle ones, and the memory that they take |
//!
//! **Owns** both servers. **Invariants**: our client drives both; a pool's image and the files of the other server are on tmpfs.

mod clients;
mod names;

use crate::bench::Bench;
use crate::peers::{Share, directory, ganesha};
use crate::point::{Point, Sample, point, sample};
use crate::rows::{Row, Work};
use io::disk::{Disk, OpenOptions};
use lab::Result;
use lab::child::Child;
use lab::served::Served;
use std::path::Path;

/// The file of the rows with data.
const FILE: &str = "disk.img";

/// Both servers, and their shares by column with the process that serves each.
pub(crate) struct NfsServers {
    ours: Served,
    _ganesha: Option<Child>,
    shares: Vec<(usize, Share, u32)>,
}

/// Makes a file whose pages are all in memory. A pool writes each record to a new place: in a sparse file it would pay for the
/// first use of each page, which in a virtual machine costs 2 ms of processor time for each MiB, and a peer that overwrites a
/// file in place would not.
async fn allocate(image: &Path, size: u64) -> Result<()> {
    let options = OpenOptions {
        create_size: Some(size),
        ..OpenOptions::default()
    };
    let disk = Disk::open(image, options).await?;
    Ok(disk.reserve(0, size).await?)
}

/// Our server: filesystems with records of 128 KiB and of 4 KiB, in a pool on one file in memory.
async fn serve(bench: &Bench) -> Result<Served> {
    let mut config = bench.serve(Vec::new());
    config.nfs = true;
    let served = Served::start(&config).await?;
    let image = directory(&bench.memory.0, "nfs")?.join("pool.img");
    allocate(&image, 6 * bench.extent.size + (2 << 30)).await?;
    served.ask(&["pool", "create", "tank", &image.display().to_string()])?;
    served.ask(&["fs", "create", "tank/home"])?;
    served.ask(&["fs", "create", "tank/small", "--record-size", "4K"])?;
    for name in ["tank/home", "tank/small"] {
        let client = "*:rw,squash=none,insecure";
        served.ask(&["export", "nfs", name, "--client", client])?;
    }
    Ok(served)
}

impl NfsServers {
    pub(crate) async fn start(bench: &Bench, rows: &[&Row], with_peer: bool) -> Result<NfsServers> {
        let ours = serve(bench).await?;
        let at = ours.nfs();
        let share = |path| Share { at, path };
        let mut shares = vec![
            (0, share("/tank/home"), ours.pid()),
            (1, share("/tank/small"), ours.pid()),
        ];
        let mut other = None;
        if with_peer {
            let (child, share) = ganesha(bench).await?;
            shares.push((2, share, child.pid()));
            other = Some(child);
        }
        for (column, share, _) in &shares {
            if rows.iter().any(|row| matches!(row.work, Work::Io(..))) {
                bench.make(&share.named(FILE)).await?;
            }
            if *column != 1 && rows.iter().any(|row| row.work == Work::List) {
                names::prepare(bench, *share).await?;
            }
        }
        Ok(NfsServers {
            ours,
            _ganesha: other,
            shares,
        })
    }

    pub(crate) fn stop(self) -> Result<()> {
        self.ours.stop()
    }

    /// Small records matter to rows with data only.
    pub(crate) async fn round(&self, bench: &Bench, row: &Row, round: u32) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for (column, share, pid) in &self.shares {
            if *column != 1 || matches!(row.work, Work::Io(..)) {
                let p = measure(bench, row, (*share, *pid), round).await?;
                samples.push(sample(*column, p));
            }
        }
        Ok(samples)
    }
}

async fn measure(bench: &Bench, row: &Row, at: (Share, u32), round: u32) -> Result<Point> {
    let (share, pid) = at;
    match row.work {
        Work::Io(..) => {
            let w = bench.workload(row)?;
            point(&share.named(FILE), &w, &bench.setup, Some(pid)).await
        }
        Work::Names(task) => names::measure(bench, at, task, round).await,
        Work::List => names::list(bench, at).await,
        Work::Idle => clients::idle(bench, at).await,
        Work::Memory => clients::memory(bench, at).await,
        _ => unreachable!("{} is of another table", row.name),
    }
}
