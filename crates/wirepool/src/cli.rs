//! Command line: subcommands, arguments and help texts.

use crate::cli_filesystems::{FilesystemCommand, SyncArg};
use crate::cli_host::HostCommand;
use crate::cli_members::MemberCommand;
use crate::cli_records::{self, RecordCommand};
use crate::protocols::ExportCommand;
use clap::{Args, Parser, Subcommand};
use server::ByteSize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  wirepool serve --config wirepool.toml          run the server (see wirepool serve --help)
  wirepool setup                                 disks, pool, network and the first export, by questions
  wirepool status                                state and warnings of the server
  wirepool disk add vm1 --file /srv/vm1.img --size 100G
  wirepool pool create tank mirror /dev/nvme0n1 /dev/nvme1n1
  wirepool volume create tank/vm1 --size 100G
  wirepool fs create tank/home                   then: wirepool fs mount tank/home /mnt/home
  wirepool export nvme tank/vm1 --host any       served over NVMe/TCP
  wirepool export iscsi tank/vm2 --initiator any served over iSCSI
  wirepool export add nqn.2026-01.org.example:vm1 vm1
  wirepool host allow nqn.2026-01.org.example:vm1 any
  wirepool session list                          connected hosts and initiators
  wirepool top                                   pools, devices, exports and sessions, live
  wirepool ping nvme-tcp://10.0.0.7:4420/NQN     time of network, server and storage of a remote disk
  wirepool bench run file:/srv/vm1.img           measure a disk
  wirepool drill cable tank --for 60s            cut the cable of a verifying load, and judge
  wirepool inspect verify a.img b.img            verify a pool offline

Exit codes: 0 success, 1 refused or failed, 2 wrong command line.";

const SERVE_EXAMPLES: &str = "\
A configuration to start with:
  [nvmf]
  listen = [\"0.0.0.0:4420\"]                  # I/O and discovery
  discovery = [\"0.0.0.0:8009\"]               # discovery only, on its well-known port

  [[disk]]
  name = \"vm1\"
  kind = \"file\"                              # or block, mem, null
  path = \"/srv/vm1.img\"
  size = \"100G\"                              # create the file if it is missing

  [iscsi]
  listen = [\"0.0.0.0:3260\"]                  # off without it; see [[target]] for exports

  [[subsystem]]
  nqn = \"nqn.2026-01.org.example:vm1\"
  hosts = [\"any\"]                            # or a list of host NQNs
  [[subsystem.namespace]]
  nsid = 1
  disk = \"vm1\"

docs/config.md describes every key. `wirepool disk|export|host` change the file while the server runs. SIGTERM and
Ctrl-C drain: commands in flight are finished and the disks are flushed. A second signal ends the server at once.";

/// Network storage server: pools and disks over NVMe/TCP, iSCSI, NFS and local mounts.
#[derive(Parser)]
#[command(name = "wirepool", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// The server's control socket. Default: /run/wirepool/control.sock for root, else
    /// $XDG_RUNTIME_DIR/wirepool/control.sock. For `serve` it overrides the file's [server] control.
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
    Ping(lab::cli::Ping),
    Ioping(lab::cli::Ioping),
    Probe(lab::cli::Probe),
    Inspect(crate::inspect::Inspect),
    Doctor(Box<crate::doctor_command::Doctor>),
    Drill(Box<crate::cli_drill::DrillArgs>),
    /// Describe the control API, for programs.
    #[command(subcommand)]
    Api(ApiCommand),
    /// Print alert rules, a dashboard, and the table of metrics, for Prometheus and Grafana.
    #[command(subcommand)]
    Monitoring(MonitoringCommand),
    /// Write manual pages and shell completions below a directory: `man/*.1` and `completions/*`.
    #[command(hide = true)]
    Generate {
        /// The directory; it is created.
        dir: PathBuf,
    },
    #[command(flatten)]
    Control(ControlCommand),
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The configuration file; live changes are written back to it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Check the configuration and exit.
    #[arg(long)]
    pub(crate) check: bool,
    /// Print a `ready` line for each listening address, for programs, once every disk and pool is open or has failed
    /// to open.
    #[arg(long)]
    pub(crate) print_ready: bool,
    /// Take commands of a drill from stdin, and end with it.
    #[arg(long, hide = true)]
    pub(crate) rehearsal: bool,
    /// Log level on stderr: error, warn, info, debug or trace, also by module (`nvmf=debug,info`).
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", default_value = "info")]
    pub(crate) log: String,
}

/// Commands about the control API itself.
#[derive(Subcommand)]
pub(crate) enum ApiCommand {
    /// Print the OpenAPI 3.1 document of this version; no server is needed.
    Describe,
}

/// Requests to a running server.
#[derive(Subcommand)]
pub(crate) enum ControlCommand {
    /// Show the state of the server: listeners, shards, disks, exports, warnings.
    Status,
    /// Show where the time of requests goes, what limits an export, and what would help.
    #[command(after_help = "\
Examples:
  wirepool why                   every export with requests, watched for three seconds
  wirepool why tank/vm1          the export of a volume
  wirepool why --seconds 30 --json")]
    Why {
        /// The export: a volume, disk or filesystem, or the name of a subsystem or target (default: all with requests).
        export: Option<String>,
        /// How long to watch, s.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    Top(crate::cli_top::TopArgs),
    /// Show sessions: hosts, transport, throughput and errors.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Add, resize and remove disks.
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Create, import and export pools.
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Create, resize and destroy volumes of pools.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Create, mount and destroy filesystems of pools.
    #[command(subcommand)]
    Fs(FilesystemCommand),
    /// Create and manage snapshots of volumes and filesystems.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Create a volume or filesystem from a snapshot.
    Clone {
        /// The snapshot, such as tank/vm1@monday.
        snapshot: String,
        /// The new volume or filesystem, such as tank/vm2.
        clone: String,
    },
    /// List the files that differ between a snapshot and a newer one, or the filesystem as it is now.
    #[command(after_help = crate::cli_filesystems::DIFF_HELP)]
    Diff(crate::cli_filesystems::DiffArgs),
    /// Show properties of pools, volumes and filesystems.
    #[command(after_help = "\
Examples:
  wirepool get all tank/vm1
  wirepool get used,volsize")]
    Get {
        /// Property names, separated by commas, or `all`.
        properties: String,
        /// Pools, volumes and filesystems (default: all).
        names: Vec<String>,
    },
    /// Set a property of a volume, filesystem or pool.
    #[command(after_help = cli_records::SET_HELP)]
    Set {
        /// For example sync=always.
        #[arg(value_name = "PROPERTY=VALUE", required = true, num_args = 1..)]
        assignments: Vec<String>,
        /// The volume, filesystem or pool, such as tank/vm1.
        name: String,
    },
    /// Inherit a property from the dataset above or the pool, instead of a value of its own.
    #[command(after_help = "Example: wirepool inherit compression tank/vm1")]
    Inherit {
        /// The property, such as compression: see `wirepool set --help`.
        property: String,
        /// The volume, filesystem or pool, such as tank/vm1.
        name: String,
    },
    /// Export disks and volumes as namespaces over NVMe or as logical units over iSCSI, and filesystems over NFS.
    #[command(subcommand)]
    Export(ExportCommand),
    /// Control which hosts may connect to a subsystem, and which initiators to a target.
    #[command(subcommand)]
    Host(HostCommand),
    ClientConfig(crate::client_config_command::ClientConfig),
    Setup(Box<crate::setup::Setup>),
    /// Manage the users of the web console.
    #[command(subcommand)]
    Console(crate::console_command::ConsoleCommand),
}

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions.
    List,
    /// List the hosts, initiators and clients that access lists refused, with the commands that allow them.
    Refused,
    /// Show one session: its queues, their connections, and command latencies.
    Show {
        /// The session's number.
        id: u32,
    },
    /// End a session. Its host or initiator may connect again.
    End {
        /// The session's number.
        id: u32,
    },
}

#[derive(Subcommand)]
pub(crate) enum DiskCommand {
    /// Add a disk.
    #[command(after_help = "\
Examples:
  wirepool disk add vm1 --file /srv/vm1.img --size 100G   a file, created if it is missing
  wirepool disk add fast --block /dev/nvme0n1             a block device that is not in use
  wirepool disk add scratch --mem 4G                      RAM, lost with the server
  wirepool disk add nothing --null 1T                     discards writes, for measurements")]
    Add(DiskAdd),
    /// List the disks.
    List,
    /// Change the size of a disk, visible to clients at once.
    Resize {
        /// The disk.
        name: String,
        /// The new size, such as 200G.
        size: ByteSize,
        /// Allow a smaller size. Data beyond the new size is lost.
        #[arg(long)]
        shrink: bool,
    },
    /// Remove a disk that is not exported. It is flushed first, and its data stays.
    Remove {
        /// The disk.
        name: String,
        /// Remove it although it cannot be flushed. Its last writes may be lost.
        #[arg(short, long)]
        force: bool,
    },
}

#[derive(Args)]
pub(crate) struct DiskAdd {
    /// The disk's name: letters, digits, '.', '_' and '-'.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) medium: MediumArgs,
    /// Create the file with this size if it is missing.
    #[arg(long, conflicts_with_all = ["block", "mem", "null"])]
    pub(crate) size: Option<ByteSize>,
    /// Use the page cache for the file.
    #[arg(long, conflicts_with_all = ["block", "mem", "null"])]
    pub(crate) buffered: bool,
    /// Logical block size, bytes: 512 or 4096.
    #[arg(long, value_parser = ["512", "4096"])]
    pub(crate) block_size: Option<String>,
    /// Read-only: refuse writes.
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
    /// A RAM disk of this size. Its data is lost with the server.
    #[arg(long, value_name = "SIZE")]
    pub(crate) mem: Option<ByteSize>,
    /// A null disk of this size: it discards writes and reads as zeroes.
    #[arg(long, value_name = "SIZE")]
    pub(crate) null: Option<ByteSize>,
}

#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Create a snapshot of a volume or filesystem, which stays in use.
    Create {
        /// The volume or filesystem, and the name of the snapshot, such as tank/vm1@monday.
        name: String,
        /// Also create snapshots of all datasets below it, at the same moment: all of them, or none.
        #[arg(short, long)]
        recursive: bool,
    },
    /// List the snapshots, oldest first.
    List {
        /// The volume or filesystem (default: all).
        volume: Option<String>,
    },
    /// Destroy a snapshot without clones and holds. Its space is freed gradually.
    Destroy {
        /// The snapshot, such as tank/vm1@monday.
        name: String,
        /// Also destroy the snapshots of this name of all datasets below it: all of them, or none.
        #[arg(short, long)]
        recursive: bool,
    },
    /// Rename a snapshot.
    Rename {
        /// The snapshot, such as tank/vm1@monday.
        name: String,
        /// The new name, such as tuesday.
        new: String,
    },
    /// Hold a snapshot, so that it cannot be destroyed.
    Hold {
        /// The tag of the hold, such as backup.
        tag: String,
        /// The snapshot, such as tank/vm1@monday.
        name: String,
    },
    /// Release a hold.
    Release {
        /// The tag of the hold.
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
    /// Create a pool.
    #[command(after_help = "\
Examples:
  wirepool pool create tank mirror /dev/nvme0n1 /dev/nvme1n1
  wirepool pool create tank mirror a.img b.img mirror c.img d.img --size 100G   files, created if they are missing
  wirepool pool create tank raidz2 /dev/sd{a..j}                                two of ten disks may fail
  wirepool pool create tank raidz2 /dev/sd{a..j} spare /dev/sd{k,l}             and two hot spares wait for a disk to fail
  wirepool pool create scratch /dev/nvme2n1                                     without redundancy

A mirror has every block on each of its disks. A raidz1, raidz2 or raidz3 has the space of all its disks but one, two or three, and
that number may fail; it suits large files, and small random writes are slower than on mirrors.")]
    Create {
        /// The name of the pool.
        name: String,
        /// Disks (files or block devices); disks after a word such as `mirror` or `raidz2` are its members, those after `spare` hot spares.
        #[arg(required = true, value_name = "[LAYOUT] DISK")]
        vdevs: Vec<String>,
        /// Create missing files with this size.
        #[arg(long)]
        size: Option<ByteSize>,
        /// Use disks that belong to another pool or have other contents, such as a file system. Everything on them is lost.
        #[arg(short, long)]
        force: bool,
    },
    /// List the pools.
    List,
    /// Show the state of pools, their disks and their errors.
    Status {
        /// The pool (default: all).
        name: Option<String>,
        /// Also show space, reads, writes and repairs.
        #[arg(short, long)]
        verbose: bool,
    },
    /// Export a pool, so that another machine can import it.
    Export {
        /// The pool.
        name: String,
    },
    /// Import a pool from its disks. Without a name, list the pools on them.
    #[command(after_help = "\
Examples:
  wirepool pool import                             list the pools on the disks of this machine
  wirepool pool import tank                        import one of them
  wirepool pool import -d a.img b.img              list the pools on these disks
  wirepool pool import tank -d a.img b.img         import one of them
  wirepool pool import tank -d /dev/mapper         look for its disks in this directory
  wirepool pool import tank --as old -d a.img b.img
  wirepool pool import tank -n -d a.img b.img      list checkpoints and the loss of each
  wirepool pool import tank --rewind 12 -n -d a.img b.img")]
    Import(ImportArgs),
    /// Destroy a pool and all of its data.
    Destroy {
        /// The pool.
        name: String,
        /// Confirm the destruction.
        #[arg(short, long)]
        force: bool,
    },
    /// Write a checkpoint now.
    Checkpoint {
        /// The pool.
        name: String,
    },
    #[command(flatten)]
    Member(MemberCommand),
    #[command(flatten)]
    Record(RecordCommand),
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// The name of the pool.
    #[arg(conflicts_with = "guid")]
    pub(crate) name: Option<String>,
    /// The GUID of the pool, 16 hexadecimal digits, instead of its name.
    #[arg(long)]
    pub(crate) guid: Option<String>,
    /// Rename the pool.
    #[arg(long = "as", value_name = "NEW")]
    pub(crate) rename: Option<String>,
    /// Disks of the pool, and directories in which to look for them. Default: the configured `disk_directories`
    /// (/dev/disk/by-id).
    #[arg(short, long, num_args = 1.., value_name = "DISK|DIRECTORY")]
    pub(crate) disks: Vec<PathBuf>,
    /// Import the pool although another host has it. That host must not use it any more.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Import the pool although disks are missing, so that it is unknown whether data is lost. A mirror that this
    /// server used last opens without a missing member by default.
    #[arg(long)]
    pub(crate) without_missing: bool,
    /// Import read-only: write nothing.
    #[arg(long, visible_alias = "readonly")]
    pub(crate) read_only: bool,
    /// Use the space of grown disks, if all disks of a vdev have grown.
    #[arg(short, long)]
    pub(crate) expand: bool,
    /// Rewind to this checkpoint: later changes are lost. For the newest checkpoint, the journal is applied up to the
    /// first damaged batch. -n lists the checkpoints and the loss of each.
    #[arg(long, value_name = "SEQUENCE")]
    pub(crate) rewind: Option<u64>,
    /// Dry run: print the result of the import, and change nothing.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    /// Create a thin volume.
    #[command(after_help = "Example: wirepool volume create tank/vm1 --size 100G")]
    Create {
        /// The pool and the name of the volume, such as tank/vm1.
        name: String,
        /// The size of the volume, such as 100G.
        #[arg(long)]
        size: ByteSize,
        /// Logical block size: 512 or 4K (default).
        #[arg(long)]
        block_size: Option<ByteSize>,
        /// Record size: a power of two from 4K (default) to 1M. Records of one sector are never compressed: take 16K to save space, and
        /// 4K for the fastest small random writes.
        #[arg(long)]
        record_size: Option<ByteSize>,
        /// When writes become durable: standard (when the client asks for it), always (before they are acknowledged),
        /// or disabled (never awaited, although the client is told otherwise). Default: inherited, else standard.
        #[arg(long, value_enum)]
        sync: Option<SyncArg>,
        /// Compression of records: off, lz4, or zstd-1 (fast) to zstd-19 (small). Only records of 8K and more can be
        /// compressed: a record must be larger than a sector of the disks, mostly 4K. Default: inherited, else lz4.
        #[arg(long)]
        compression: Option<String>,
        /// Checksum of records: xxh3 detects damage, blake3 also detects forgery. Default: inherited, else xxh3.
        #[arg(long)]
        checksum: Option<String>,
        /// Maximum space of the volume and its snapshots.
        #[arg(long)]
        quota: Option<ByteSize>,
        /// Space reserved for the volume and its snapshots.
        #[arg(long)]
        reservation: Option<ByteSize>,
    },
    /// Rename a volume with all datasets below it. None of them may be exported.
    Rename {
        /// The volume, such as tank/vm1.
        name: String,
        /// The new name, such as tank/vm3.
        new: String,
    },
    /// Promote a clone: the volume that it was cloned from becomes a clone of it.
    Promote {
        /// The clone, such as tank/vm2.
        name: String,
    },
    /// Roll a volume back to its newest snapshot. The volume must not be exported.
    Rollback {
        /// The snapshot, such as tank/vm1@monday.
        snapshot: String,
        /// Confirm that changes since the snapshot are lost.
        #[arg(short, long)]
        force: bool,
    },
    /// List the volumes.
    List,
    /// Change the size of a volume, visible to clients at once.
    Resize {
        /// The volume.
        name: String,
        /// The new size, such as 200G.
        size: ByteSize,
        /// Allow a smaller size. Data beyond the new size is lost.
        #[arg(long)]
        shrink: bool,
    },
    /// Destroy a volume that is not exported.
    Destroy {
        /// The volume.
        name: String,
        /// Confirm the destruction.
        #[arg(short, long)]
        force: bool,
        /// Also destroy its snapshots, all datasets below it, and their snapshots.
        #[arg(short, long)]
        recursive: bool,
    },
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

/// Files for monitoring, made of the table of metrics.
#[derive(Clone, Copy, Subcommand)]
pub(crate) enum MonitoringCommand {
    /// Alert rules for Prometheus (`rule_files`).
    PrometheusRules,
    /// A dashboard to be imported by Grafana.
    GrafanaDashboard,
    /// All metrics with labels and meaning, as Markdown.
    Metrics,
}
