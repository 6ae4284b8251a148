//! Command line of a pool's disks.

use clap::Subcommand;
use server::ByteSize;
use std::path::PathBuf;

/// A disk of a pool is named by its path, or by its GUID as `pool status -v` shows it.
#[derive(Subcommand)]
pub(crate) enum MemberCommand {
    /// Add disks, mirrors or raidz vdevs to a pool, which new writes use at once, special vdevs, logs, cache devices or hot spares.
    #[command(after_help = "\
Examples:
  wirepool pool add tank mirror /dev/nvme4n1 /dev/nvme5n1
  wirepool pool add tank raidz2 /dev/sd{k..t}
  wirepool pool add tank log mirror /dev/sdu /dev/sdv   a log: the journal moves to it, and small durable writes wait for it only
  wirepool pool add tank special mirror /dev/sdx /dev/sdy   a special vdev: new metadata and small records go to it
  wirepool pool add tank cache /dev/nvme2n1        a cache device: blocks that are read several times stay on it
  wirepool pool add tank spare /dev/sdw            a hot spare, which takes the place of a disk that fails
  wirepool pool add scratch d5.img --size 100G     a pool without redundancy; beside mirrors it needs -f

A vdev cannot be removed again. Existing data is not moved.")]
    Add {
        /// The pool.
        pool: String,
        /// Disks (files or block devices); disks after a word such as `mirror` or `raidz2` are its members, those after `special` take
        /// metadata and small records, those after `log` are logs for the journal, those after `cache` cache devices, those after `spare` hot spares.
        #[arg(required = true, value_name = "[LAYOUT] DISK")]
        vdevs: Vec<String>,
        /// Create missing files with this size.
        #[arg(long)]
        size: Option<ByteSize>,
        /// Use disks that belong to another pool or have other contents, such as a file system. Everything on them is lost.
        #[arg(short, long)]
        force: bool,
    },
    /// Attach a disk to a mirror or to a single disk, and resilver it at once; or expand a raidz by a disk.
    #[command(after_help = "\
Examples:
  wirepool pool attach tank /dev/nvme0n1 /dev/nvme2n1   a mirror has one copy more
  wirepool pool attach tank raidz2-0 /dev/sdw           a raidz has one disk more, for good

The data of a raidz is moved in the background, also after a restart, into rows that are one disk wider: old data gets the new ratio of
parity, too. The pool has the new capacity when this ends. It waits while a disk of the vdev is missing or stale.
`wirepool pool status` shows it.")]
    Attach {
        /// The pool.
        pool: String,
        /// A disk of the mirror, or the name of the vdev.
        disk: String,
        /// The new disk.
        new: PathBuf,
        /// Create the file with this size if it is missing.
        #[arg(long)]
        size: Option<ByteSize>,
        /// Use a disk that belongs to another pool or has other contents, such as a file system. Everything on it is lost.
        #[arg(short, long)]
        force: bool,
    },
    /// Remove a vdev, whose blocks are copied to the other vdevs first; a log, from which the journal moves away; a cache device; or a hot spare that is not in use.
    #[command(after_help = "\
Examples:
  wirepool pool remove tank mirror-1     the server copies its blocks while clients go on, then its disks leave the pool
  wirepool pool remove tank /dev/sdw     the same, by a disk of the vdev; or a hot spare or cache device
  wirepool pool remove --stop tank       give the removal up: the vdev takes writes again

`wirepool pool status` shows how far it is. The pool's journal moves to other vdevs first, if it is on this one. Vdevs that an older
release added cannot take it, and neither can vdevs of which it would need more than an eighth.")]
    Remove {
        /// The pool.
        pool: String,
        /// The vdev, one of its disks, the cache device or the spare.
        #[arg(required_unless_present = "stop", conflicts_with = "stop")]
        disk: Option<String>,
        /// Give up the removal that is in progress. Nothing is lost.
        #[arg(long)]
        stop: bool,
    },
    /// Detach a disk from its mirror permanently. A spare that is detached waits again. If the disk that a spare stands in for is detached,
    /// the spare remains as a member.
    Detach {
        /// The pool.
        pool: String,
        /// The disk.
        disk: String,
    },
    /// Replace a disk: the new disk is resilvered, then the old one is detached. In a raidz the old disk leaves at once.
    #[command(after_help = "\
Examples:
  wirepool pool replace tank /dev/nvme0n1 /dev/nvme2n1
  wirepool pool replace tank /dev/nvme0n1              the new disk has the old path
  wirepool pool replace tank /dev/sdc /dev/sdw         /dev/sdw is a spare: it stands in for /dev/sdc")]
    Replace {
        /// The pool.
        pool: String,
        /// The disk to replace.
        disk: String,
        /// The new disk (default: the path of the old one).
        new: Option<PathBuf>,
        /// Create the file with this size if it is missing.
        #[arg(long)]
        size: Option<ByteSize>,
        /// Use a disk that belongs to another pool or has other contents, such as a file system. Everything on it is lost.
        #[arg(short, long)]
        force: bool,
    },
    /// Bring an offline, faulted or missing disk online, and resilver it at once; or use the space that it gained.
    Online {
        /// The pool.
        pool: String,
        /// The disk.
        disk: String,
        /// The new path of the disk.
        #[arg(long, value_name = "PATH")]
        path: Option<PathBuf>,
        /// Use the space that this disk and all other disks of its mirror gained.
        #[arg(short, long)]
        expand: bool,
    },
    /// Trim free space on the disks; resume a paused trim.
    #[command(after_help = "\
Examples:
  wirepool pool trim tank --rate 1G        at most 1 GiB per second
  wirepool pool trim -p tank               pause
  wirepool pool trim tank                  resume
  wirepool pool trim -s tank               stop
  wirepool set autotrim=on tank            trim freed space automatically")]
    Trim {
        /// The pool.
        pool: String,
        /// Pause the trim.
        #[arg(short, long, conflicts_with_all = ["stop", "rate"])]
        pause: bool,
        /// Stop the trim.
        #[arg(short, long, conflicts_with = "rate")]
        stop: bool,
        /// Maximum rate per second; 0 for no limit. Also changes a running trim.
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteSize>,
    },
    /// Scrub: read every block on every disk and repair wrong copies; resume a paused scrub.
    #[command(after_help = "\
Examples:
  wirepool pool scrub tank --rate 200M     at most 200 MiB per second
  wirepool pool scrub -p tank              pause
  wirepool pool scrub tank                 resume
  wirepool pool scrub -s tank              stop")]
    Scrub {
        /// The pool.
        pool: String,
        /// Pause the scrub.
        #[arg(short, long, conflicts_with_all = ["stop", "rate"])]
        pause: bool,
        /// Stop the scrub.
        #[arg(short, long, conflicts_with = "rate")]
        stop: bool,
        /// Maximum rate per second; 0 for no limit. Also changes a running scrub.
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteSize>,
    },
    /// Resilver stale disks now, and set the rate.
    #[command(after_help = "\
Examples:
  wirepool pool resilver tank --rate 200M  at most 200 MiB per second, also later
  wirepool pool resilver tank --rate 0     no limit")]
    Resilver {
        /// The pool.
        pool: String,
        /// Maximum rate per second; 0 for no limit.
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteSize>,
    },
    /// Take a disk of a mirror offline.
    Offline {
        /// The pool.
        pool: String,
        /// The disk.
        disk: String,
    },
}
