//! Command line of history, events, I/O statistics and properties.

use clap::Subcommand;

/// Help of `wirepool set`.
pub(crate) const SET_HELP: &str = "\
Properties of volumes: volsize.
Properties of volumes and filesystems, a size or none:
  quota         most space of it and its snapshots
  refquota      most space of it without its snapshots
  reservation   space that is kept for it and its snapshots
Properties of filesystems, a size or none; names or numbers:
  userquota@ann, groupquota@staff   most space of the files of a user or group
Properties of filesystems, inherited from the filesystem above or the pool:
  atime         on or off: reading a file updates its access time
  relatime      on or off: only if that time is older than the last change, or a day
  recordsize    a power of two from 4K to 1M: records of files that are created; others keep theirs
  snapdir       hidden or visible: whether .zfs is listed
  acltype       nfsv4 or off
  aclmode       discard, groupmask, passthrough or restricted: how chmod changes a list
  aclinherit    discard, noallow, restricted, passthrough or passthrough-x: what new objects inherit
  xattr         on or off
  readonly      on or off (not on a pool)
  sharenfs      off, on, or options: export over NFS, such as rw=@10.0.0.0/24,ro=@lab,no_root_squash
  exec          on or off, for later mounts; setuid and devices likewise
Properties of volumes, filesystems and pools, inherited from the dataset above or the pool:
  autodefrag    on, off, or a rate such as 50M: records that are read in order and lie apart are written again together
  special_small_blocks  0, or a power of two from 4K to 1M: records that take at most this go to special vdevs
  primarycache  all, metadata or none: records that were read stay in memory (all), or do not
  logbias       latency: contents of small durable writes may go to the journal; throughput: they do not
  secondarycache  all, metadata or none: what cache devices hold: records and nodes of trees, nodes, or nothing
Properties of volumes and pools, inherited from the dataset above or the pool:
  compression   off, lz4 or zstd-1 to zstd-19
  checksum      xxh3 or blake3
  sync          standard, always or disabled
Properties of pools: autotrim, autoexpand.
Examples:
  wirepool set sync=always tank/vm1
  wirepool set userquota@ann=10G groupquota@staff=1T tank/home
  wirepool set compression=zstd-3 tank          for all datasets of tank without a value of their own";

#[derive(Subcommand)]
pub(crate) enum RecordCommand {
    /// Show the history of a pool: the requests that changed it.
    History {
        /// The pool.
        pool: String,
    },
    /// Show events of pools since the server started.
    Events {
        /// The pool (default: all).
        pool: Option<String>,
        /// Print new events until Ctrl-C.
        #[arg(short, long)]
        follow: bool,
    },
    /// Show I/O statistics of pools' disks: since the pools were opened, then per interval.
    #[command(after_help = "\
Examples:
  wirepool pool iostat -v tank          each disk, with its latencies
  wirepool pool iostat 2                every two seconds, until Ctrl-C
  wirepool pool iostat tank 1 10        ten lines
  wirepool pool iostat -w tank 60 2     written bytes and wear, since the pool was opened and of a minute")]
    Iostat {
        /// A pool (default: all); then seconds between two lines, and the number of lines.
        #[arg(value_name = "[POOL] [INTERVAL [COUNT]]", num_args = 0..=3)]
        words: Vec<String>,
        /// Also show each disk.
        #[arg(short, long)]
        verbose: bool,
        /// Show written bytes by dataset and disk, write amplification, and the wear of disks: in total, then in each interval.
        #[arg(short, long, conflicts_with = "verbose")]
        writes: bool,
    },
}
