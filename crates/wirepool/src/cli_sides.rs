//! What the command line takes about the disks of a pool.

use clap::Subcommand;
use server::ByteSize;
use std::path::PathBuf;

/// A disk of a pool is named by its path, or by its GUID as `pool status -v` shows it.
#[derive(Subcommand)]
pub(crate) enum SideCommand {
    /// Add disks or mirrors to a pool, as vdevs of their own; what is written is spread onto them at once.
    #[command(after_help = "\
Examples:
  wirepool pool add tank mirror /dev/nvme4n1 /dev/nvme5n1
  wirepool pool add tank d5.img --size 100G

A vdev cannot be taken out again. What was written before stays where it is.")]
    Add {
        /// The pool.
        pool: String,
        /// Disks (files or block devices); those behind the word `mirror` are the sides of one.
        #[arg(required = true, value_name = "[mirror] DISK")]
        vdevs: Vec<String>,
        /// Make files that are missing, of this size.
        #[arg(long)]
        size: Option<ByteSize>,
        /// Take disks that belong to another pool; its data on them is lost.
        #[arg(short, long)]
        force: bool,
    },
    /// Add a disk to the mirror of another, or make a mirror of a single disk; it is resilvered at once.
    #[command(after_help = "Example: wirepool pool attach tank /dev/nvme0n1 /dev/nvme2n1")]
    Attach {
        /// The pool.
        pool: String,
        /// A disk of the mirror.
        disk: String,
        /// The new disk.
        new: PathBuf,
        /// Make the file, if it is missing, of this size.
        #[arg(long)]
        size: Option<ByteSize>,
        /// Take a disk that belongs to another pool; its data on it is lost.
        #[arg(short, long)]
        force: bool,
    },
    /// Remove a disk from its mirror for good.
    Detach {
        /// The pool.
        pool: String,
        /// The disk.
        disk: String,
    },
    /// Put a new disk in the place of another, which is detached once the new one has everything.
    #[command(after_help = "\
Examples:
  wirepool pool replace tank /dev/nvme0n1 /dev/nvme2n1
  wirepool pool replace tank /dev/nvme0n1              the new disk is where the old one was")]
    Replace {
        /// The pool.
        pool: String,
        /// The disk that goes.
        disk: String,
        /// The new disk; where the old one was by default.
        new: Option<PathBuf>,
        /// Make the file, if it is missing, of this size.
        #[arg(long)]
        size: Option<ByteSize>,
        /// Take a disk that belongs to another pool; its data on it is lost.
        #[arg(short, long)]
        force: bool,
    },
    /// Use a disk again that is offline, faulted or missing; it is resilvered at once. Or what it gained.
    Online {
        /// The pool.
        pool: String,
        /// The disk.
        disk: String,
        /// Where it is now, if not where it was.
        #[arg(long, value_name = "PATH")]
        path: Option<PathBuf>,
        /// Use the room that it, and all other disks of its mirror, gained by becoming larger.
        #[arg(short, long)]
        expand: bool,
    },
    /// Tell the disks which space is free; go on with a trim that is paused.
    #[command(after_help = "\
Examples:
  wirepool pool trim tank --rate 1G        at most 1 GiB per second
  wirepool pool trim -p tank               pause
  wirepool pool trim tank                  go on
  wirepool pool trim -s tank               stop
  wirepool set autotrim=on tank            what is freed from now on, by itself")]
    Trim {
        /// The pool.
        pool: String,
        /// Pause it.
        #[arg(short, long, conflicts_with_all = ["stop", "rate"])]
        pause: bool,
        /// Give it up.
        #[arg(short, long, conflicts_with = "rate")]
        stop: bool,
        /// Trim at most so much per second; 0 for as much as it can. It may be changed while it runs.
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteSize>,
    },
    /// Read every block on every disk and mend what is wrong; go on with a scrub that is paused.
    #[command(after_help = "\
Examples:
  wirepool pool scrub tank --rate 200M     at most 200 MiB per second
  wirepool pool scrub -p tank              pause
  wirepool pool scrub tank                 go on
  wirepool pool scrub -s tank              stop")]
    Scrub {
        /// The pool.
        pool: String,
        /// Pause it.
        #[arg(short, long, conflicts_with_all = ["stop", "rate"])]
        pause: bool,
        /// Give it up.
        #[arg(short, long, conflicts_with = "rate")]
        stop: bool,
        /// Read at most so much per second; 0 for as much as it can. It may be changed while it runs.
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteSize>,
    },
    /// Bring disks up to date at once, if any lacks something; and set how fast that may be.
    #[command(after_help = "\
Examples:
  wirepool pool resilver tank --rate 200M  at most 200 MiB per second, now and from now on
  wirepool pool resilver tank --rate 0     as fast as it can")]
    Resilver {
        /// The pool.
        pool: String,
        /// Look at so much per second at most; 0 for as much as it can.
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteSize>,
    },
    /// Leave a disk of a mirror alone until it is online again.
    Offline {
        /// The pool.
        pool: String,
        /// The disk.
        disk: String,
    },
}
