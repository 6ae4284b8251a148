//! Writers on a disk that mark promised writes in the log below the server.
//!
//! **Owns** the workload. **Called by** `main`, in the guest. **Invariants**: the writes of a mark were promised
//! before the mark was made, and writes that were requested after a mark are behind it in the log: this single thread
//! does nothing else while a mark is made.

use anyhow::{Context, Result, ensure};
use cuts::known::Known;
use cuts::stamp;
use cuts::verdict::BLOCK;
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;

const WRITERS: u64 = 4;
const BLOCKS: u64 = 128;
/// Fraction of writes with FUA.
const THROUGH: f64 = 0.2;
/// Fraction of writes that a flush follows.
const FLUSH: f64 = 0.1;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The disk to write to: the server's namespace
    disk: PathBuf,
    /// The device-mapper device whose log takes the marks
    #[arg(long)]
    log: String,
    /// Output file for requested and promised writes
    #[arg(long)]
    known: PathBuf,
    /// Number of writes
    #[arg(long, default_value_t = 400)]
    writes: u64,
    /// Seed of the places and contents of writes
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// State that the writers share.
struct Run {
    disk: Disk,
    log: String,
    known: RefCell<Known>,
    /// The last mark that was made.
    mark: Cell<u64>,
    left: Cell<u64>,
}

impl Run {
    /// Marks that these writes of blocks are durable.
    fn promised(&self, writes: &mut Vec<(u64, u64)>) -> Result<()> {
        let mark = self.mark.get() + 1;
        for (block, write) in writes.drain(..) {
            self.known.borrow_mut().promised(block, mark, write);
        }
        let status = Command::new("dmsetup")
            .args(["message", &self.log, "0", "mark", &mark.to_string()])
            .stdin(Stdio::null())
            .status()
            .context("dmsetup")?;
        ensure!(status.success(), "dmsetup message: {status}");
        self.mark.set(mark);
        Ok(())
    }

    async fn write(self: Rc<Self>, writer: u64, mut rng: Prng) -> Result<()> {
        let mut unflushed = Vec::new();
        let mut number = 0;
        while self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            number += 1;
            let block = rng.below(BLOCKS / WRITERS) * WRITERS + writer;
            let mut buf = io::pool().alloc(BLOCK).await;
            stamp::fill(block, number, &mut buf);
            let mark = self.mark.get();
            self.known.borrow_mut().asked(block, mark, number);
            let offset = block * BLOCK as u64;
            if rng.chance(THROUGH) {
                let _durable = self.disk.write_through(buf, offset).await?;
                self.promised(&mut vec![(block, number)])?;
            } else {
                self.disk.write(buf, offset).await?;
                unflushed.push((block, number));
            }
            if rng.chance(FLUSH) {
                let _durable = self.disk.flush().await?;
                self.promised(&mut unflushed)?;
            }
        }
        Ok(())
    }
}

/// Writes, and saves the record.
pub(crate) async fn run(args: Args) -> Result<()> {
    let disk = Disk::open(&args.disk, OpenOptions::default()).await?;
    let run = Rc::new(Run {
        disk,
        log: args.log,
        known: RefCell::new(Known::new(BLOCKS)),
        mark: Cell::new(0),
        left: Cell::new(args.writes),
    });
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let rng = Prng::new(args.seed * WRITERS + writer);
        writers.push(io::spawn(run.clone().write(writer, rng)));
    }
    for writer in writers {
        writer.await.context("a writer was dropped")??;
    }
    fs::write(&args.known, run.known.borrow().to_string())?;
    println!("{} writes, {} marks", args.writes, run.mark.get());
    Ok(())
}
