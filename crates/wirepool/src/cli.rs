//! What the command line takes.

use crate::cli_export::{ExportCommand, HostCommand};
use crate::cli_records::RecordCommand;
use crate::cli_sides::SideCommand;
use clap::{Args, Parser, Subcommand};
use server::ByteSize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  wirepool serve --config wirepool.toml          serve what the file says (see wirepool serve --help)
  wirepool status                                what is served, and what is the matter
  wirepool disk add vm1 --file /srv/vm1.img --size 100G
  wirepool pool create tank mirror /dev/nvme0n1 /dev/nvme1n1
  wirepool volume create tank/vm1 --size 100G
  wirepool export nvme tank/vm1 --host any       served over NVMe/TCP
  wirepool export iscsi tank/vm2 --initiator any served over iSCSI
  wirepool export add nqn.2026-01.org.example:vm1 vm1
  wirepool host allow nqn.2026-01.org.example:vm1 any
  wirepool session list                          who is connected, and over what
  wirepool bench run file:/srv/vm1.img           how fast it is
  wirepool inspect verify a.img b.img            whether a pool's disks are sound, without a server

Exit codes: 0 done, 1 refused or failed, 2 wrong command line.";

const SERVE_EXAMPLES: &str = "\
A configuration to start with:
  [nvmf]
  listen = [\"0.0.0.0:4420\"]                  # I/O and discovery
  discovery = [\"0.0.0.0:8009\"]               # discovery alone, where clients look for it

  [[disk]]
  name = \"vm1\"
  kind = \"file\"                              # or block, mem, null
  path = \"/srv/vm1.img\"
  size = \"100G\"                              # make the file if it is missing

  [iscsi]
  listen = [\"0.0.0.0:3260\"]                  # off without it; [[target]] is what [[subsystem]] is for NVMe

  [[subsystem]]
  nqn = \"nqn.2026-01.org.example:vm1\"
  hosts = [\"any\"]                            # or a list of host NQNs
  [[subsystem.namespace]]
  nsid = 1
  disk = \"vm1\"

docs/config.md describes every key. `wirepool disk|export|host` change the file while the server runs. SIGTERM and
Ctrl-C drain: what is in flight is finished, the disks are flushed; a second one ends at once.";

/// Disks over the network, as if they were local: NVMe over TCP, and iSCSI.
#[derive(Parser)]
#[command(name = "wirepool", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// The server's control socket. Default: /run/wirepool/control.sock for root, else
    /// $XDG_RUNTIME_DIR/wirepool/control.sock. For `serve` it comes before the file's [server] control.
    #[arg(long, global = true, value_name = "PATH", env = "WIREPOOL_CONTROL")]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve disks until SIGTERM or Ctrl-C.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    Bench(Box<lab::cli::Bench>),
    Demo(lab::cli::Demo),
    Inspect(crate::inspect::Inspect),
    #[command(flatten)]
    Control(ControlCommand),
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The configuration, which live changes are written back to.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Check the configuration and end.
    #[arg(long)]
    pub(crate) check: bool,
    /// Print what listens where, one `ready` line each, for programs; once each disk and pool is open or could not be opened.
    #[arg(long)]
    pub(crate) print_ready: bool,
    /// What to log on stderr: error, warn, info, debug or trace, also by module (`nvmf=debug,info`).
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", default_value = "info")]
    pub(crate) log: String,
}

/// What is asked of a running server.
#[derive(Subcommand)]
pub(crate) enum ControlCommand {
    /// Show what the server does: listeners, shards, disks, exports, warnings.
    Status,
    /// Show who is connected, over what, and how well it goes.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Open, resize and close disks.
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Make, open and close pools of disks.
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Make, resize and destroy volumes of pools.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Keep volumes as they are now.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Make a volume that begins as a snapshot is.
    Clone {
        /// The snapshot, such as tank/vm1@monday.
        snapshot: String,
        /// The new volume, such as tank/vm2.
        clone: String,
    },
    /// Show properties of pools and volumes.
    #[command(after_help = "\
Examples:
  wirepool get all tank/vm1
  wirepool get used,volsize")]
    Get {
        /// Property names with commas between them, or `all`.
        properties: String,
        /// Pools and volumes; all of them by default.
        names: Vec<String>,
    },
    /// Set a property of a volume: volsize, sync, quota or reservation.
    #[command(after_help = "Example: wirepool set sync=always tank/vm1")]
    Set {
        /// Such as sync=always.
        #[arg(value_name = "PROPERTY=VALUE")]
        assignment: String,
        /// The volume, such as tank/vm1.
        name: String,
    },
    /// Export disks and volumes: as namespaces over NVMe, as logical units over iSCSI.
    #[command(subcommand)]
    Export(ExportCommand),
    /// Say which hosts may connect to a subsystem, which initiators to a target.
    #[command(subcommand)]
    Host(HostCommand),
}

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions.
    List,
    /// Show one session: its queues, the connection under each, and how long commands take.
    Show {
        /// Its number.
        id: u32,
    },
    /// End a session; its host or initiator may connect again.
    End {
        /// Its number.
        id: u32,
    },
}

#[derive(Subcommand)]
pub(crate) enum DiskCommand {
    /// Open a disk.
    #[command(after_help = "\
Examples:
  wirepool disk add vm1 --file /srv/vm1.img --size 100G   a file, made if it is missing
  wirepool disk add fast --block /dev/nvme0n1             a block device that nobody else uses
  wirepool disk add scratch --mem 4G                      RAM, lost with the server
  wirepool disk add nothing --null 1T                     to measure the path to it")]
    Add(DiskAdd),
    /// List the disks.
    List,
    /// Change the size of a disk; clients see it at once.
    Resize {
        /// The disk.
        name: String,
        /// Its new size, such as 200G.
        size: ByteSize,
        /// Allow a smaller size: what lies beyond it is lost.
        #[arg(long)]
        shrink: bool,
    },
    /// Close a disk that is not exported. Its data stays.
    Remove {
        /// The disk.
        name: String,
    },
}

#[derive(Args)]
pub(crate) struct DiskAdd {
    /// Its name: letters, digits, '.', '_' and '-'.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) medium: MediumArgs,
    /// Make the file of this size if it is missing.
    #[arg(long, conflicts_with_all = ["block", "mem", "null"])]
    pub(crate) size: Option<ByteSize>,
    /// Let the file go through the page cache.
    #[arg(long, conflicts_with_all = ["block", "mem", "null"])]
    pub(crate) buffered: bool,
    /// Logical block size, bytes: 512 or 4096.
    #[arg(long, value_parser = ["512", "4096"])]
    pub(crate) block_size: Option<String>,
    /// Refuse writes.
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct MediumArgs {
    /// A file.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// A block device.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) block: Option<PathBuf>,
    /// RAM of this size, lost with the server.
    #[arg(long, value_name = "SIZE")]
    pub(crate) mem: Option<ByteSize>,
    /// Nothing, of this size: writes vanish and reads give zeroes.
    #[arg(long, value_name = "SIZE")]
    pub(crate) null: Option<ByteSize>,
}

#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Keep a volume as it is now; writes go on meanwhile.
    Create {
        /// The volume and the snapshot's name, such as tank/vm1@monday.
        name: String,
    },
    /// List the snapshots, oldest first.
    List {
        /// Of this volume; of all by default.
        volume: Option<String>,
    },
    /// Destroy a snapshot that has no clone and no hold. Its space comes back bit by bit.
    Destroy {
        /// The snapshot, such as tank/vm1@monday.
        name: String,
    },
    /// Give a snapshot another name.
    Rename {
        /// The snapshot, such as tank/vm1@monday.
        name: String,
        /// Its new name, such as tuesday.
        new: String,
    },
    /// Keep a snapshot from being destroyed.
    Hold {
        /// Who or what holds it, such as backup.
        tag: String,
        /// The snapshot, such as tank/vm1@monday.
        name: String,
    },
    /// Take a hold back.
    Release {
        /// The hold.
        tag: String,
        /// The snapshot, such as tank/vm1@monday.
        name: String,
    },
    /// List the holds of a snapshot.
    Holds {
        /// The snapshot, such as tank/vm1@monday.
        name: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool.
    #[command(after_help = "\
Examples:
  wirepool pool create tank mirror /dev/nvme0n1 /dev/nvme1n1
  wirepool pool create tank mirror a.img b.img mirror c.img d.img --size 100G   files, made if they are missing
  wirepool pool create scratch /dev/nvme2n1                                     without redundancy")]
    Create {
        /// Its name.
        name: String,
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
    /// List the pools.
    List,
    /// Show the state of pools, their disks and their errors.
    Status {
        /// The pool; all by default.
        name: Option<String>,
        /// Show space, reads, writes and repairs as well.
        #[arg(short, long)]
        verbose: bool,
    },
    /// Close a pool, so that another machine may import it.
    Export {
        /// The pool.
        name: String,
    },
    /// Open a pool that is on disks; without a name, list what is there.
    #[command(after_help = "\
Examples:
  wirepool pool import -d a.img b.img              what pools are there?
  wirepool pool import tank -d a.img b.img         open one of them
  wirepool pool import tank --as old -d a.img b.img
  wirepool pool import tank -n -d a.img b.img      which checkpoints are there, and what does each lose?
  wirepool pool import tank --rewind 12 -n -d a.img b.img")]
    Import(ImportArgs),
    /// Destroy a pool with everything in it.
    Destroy {
        /// The pool.
        name: String,
        /// It is meant.
        #[arg(short, long)]
        force: bool,
    },
    /// Write a checkpoint now.
    Checkpoint {
        /// The pool.
        name: String,
    },
    #[command(flatten)]
    Side(SideCommand),
    #[command(flatten)]
    Record(RecordCommand),
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Its name.
    #[arg(conflicts_with = "guid")]
    pub(crate) name: Option<String>,
    /// Its GUID, 16 hexadecimal digits, instead of its name.
    #[arg(long)]
    pub(crate) guid: Option<String>,
    /// Give it this name.
    #[arg(long = "as", value_name = "NEW")]
    pub(crate) rename: Option<String>,
    /// Where its disks are.
    #[arg(short, long, required = true, num_args = 1.., value_name = "DISK")]
    pub(crate) disks: Vec<PathBuf>,
    /// Although another host has it, which surely does not use it any more.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Although disks are missing without which it is not known whether something is lost. A mirror that this server
    /// used last opens without its missing side by itself.
    #[arg(long)]
    pub(crate) without_missing: bool,
    /// Write nothing, now or later.
    #[arg(long, visible_alias = "readonly")]
    pub(crate) read_only: bool,
    /// Use the room that was gained because all disks of a vdev became larger.
    #[arg(short, long)]
    pub(crate) expand: bool,
    /// As of this checkpoint: what came later is lost. Of the newest one, the journal is
    /// applied up to the first damaged batch. -n lists the checkpoints and what each loses.
    #[arg(long, value_name = "SEQUENCE")]
    pub(crate) rewind: Option<u64>,
    /// Say what it would come to, and change nothing.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make a volume; its space is taken as it is written.
    #[command(after_help = "Example: wirepool volume create tank/vm1 --size 100G")]
    Create {
        /// Its pool and name, such as tank/vm1.
        name: String,
        /// What the client sees, such as 100G.
        #[arg(long)]
        size: ByteSize,
        /// Logical block size: 512 or 4K, which is the default.
        #[arg(long)]
        block_size: Option<ByteSize>,
        /// Record size: a power of two from 4K, which is the default, to 1M.
        #[arg(long)]
        record_size: Option<ByteSize>,
        /// When writes become durable: when the client asks for it, always before they are acknowledged, or whenever the
        /// pool comes to it, although the client is told otherwise.
        #[arg(long, value_enum, default_value = "standard")]
        sync: SyncArg,
        /// How records are compressed: off, lz4, or zstd-1 (fast) to zstd-19 (small). It takes effect on records of 8K and
        /// more only: one that is no larger than the disks' sector, 4K for most, cannot get smaller.
        #[arg(long, default_value = "lz4")]
        compression: String,
        /// How records' checksums are made: xxh3 finds damage, blake3 also what somebody made on purpose.
        #[arg(long, default_value = "xxh3")]
        checksum: String,
        /// The most that it and its snapshots may take.
        #[arg(long)]
        quota: Option<ByteSize>,
        /// What is kept free for them.
        #[arg(long)]
        reservation: Option<ByteSize>,
    },
    /// Give a volume that is not exported another name.
    Rename {
        /// The volume, such as tank/vm1.
        name: String,
        /// Its new name, such as tank/vm3.
        new: String,
    },
    /// Let a clone and the volume that it began as change places: that one becomes a clone of it.
    Promote {
        /// The clone, such as tank/vm2.
        name: String,
    },
    /// Make a volume what its newest snapshot is. It must not be exported meanwhile.
    Rollback {
        /// The snapshot, such as tank/vm1@monday.
        snapshot: String,
        /// What was written since is lost, and that is meant.
        #[arg(short, long)]
        force: bool,
    },
    /// List the volumes.
    List,
    /// Change the size of a volume; clients see it at once.
    Resize {
        /// The volume.
        name: String,
        /// Its new size, such as 200G.
        size: ByteSize,
        /// Allow a smaller size: what lies beyond it is lost.
        #[arg(long)]
        shrink: bool,
    },
    /// Destroy a volume that is not exported.
    Destroy {
        /// The volume.
        name: String,
        /// It is meant.
        #[arg(short, long)]
        force: bool,
    },
}

/// When a volume's writes become durable.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum SyncArg {
    Standard,
    Always,
    Disabled,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
