//! Command line: subcommands, arguments and help texts.

pub(crate) mod drill;
pub(crate) mod filesystems;
pub(crate) mod host;
pub(crate) mod members;
pub(crate) mod rdma;
pub(crate) mod records;
pub(crate) mod top;

use self::filesystems::FilesystemCommand;
use self::host::HostCommand;
use self::members::MemberCommand;
use self::rdma::RdmaCommand;
use self::records::RecordCommand;
use crate::advise::AdviseCommand;
use crate::protocols::ExportCommand;
use clap::{Args, Parser, Subcommand};
use server::ByteSize;
use server::api::{
    CheckpointPool, CloneSnapshot, CreateSnapshot, CreateVolume, DestroyPool, DestroySnapshot,
    DestroyVolume, EndSession, ExportPool, HoldSnapshot, InheritProperty, ListHolds, ListSnapshots,
    PromoteVolume, ReleaseSnapshot, RemoveDisk, RenameSnapshot, RenameVolume, ResizeDisk,
    ResizeVolume, RollbackVolume, ShowSession,
};
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
  wirepool export nvme tank/vm1 --host any       served over NVMe
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
  listen_rdma = [\"0.0.0.0:4420\"]             # the same over RDMA, if this machine has it
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

/// Network storage server: pools and disks over NVMe/TCP, NVMe/RDMA, iSCSI, NFS and local mounts.
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
    /// RDMA on this machine: devices, the server's use of them, and setup.
    #[command(subcommand)]
    Rdma(RdmaCommand),
    Drill(Box<crate::cli::drill::DrillArgs>),
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
    /// Read health logs of disks for a server that may not; for the unit wirepool-health, whose socket is the standard input.
    #[command(hide = true)]
    DiskHealth,
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
    Top(crate::cli::top::TopArgs),
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
    Clone(CloneSnapshot),
    /// List the files that differ between a snapshot and a newer one, or the filesystem as it is now.
    #[command(after_help = crate::cli::filesystems::DIFF_HELP)]
    Diff(crate::cli::filesystems::DiffArgs),
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
    #[command(after_help = records::SET_HELP)]
    Set {
        /// For example sync=always.
        #[arg(value_name = "PROPERTY=VALUE", required = true, num_args = 1..)]
        assignments: Vec<String>,
        /// The volume, filesystem or pool, such as tank/vm1.
        name: String,
    },
    /// Inherit a property from the dataset above or the pool, instead of a value of its own.
    #[command(after_help = "Example: wirepool inherit compression tank/vm1")]
    Inherit(InheritProperty),
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
    Show(ShowSession),
    /// End a session. Its host or initiator may connect again.
    End(EndSession),
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
    Resize(ResizeDisk),
    /// Remove a disk that is not exported. It is flushed first, and its data stays.
    Remove(RemoveDisk),
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
    Create(CreateSnapshot),
    /// List the snapshots, oldest first.
    List(ListSnapshots),
    /// Destroy a snapshot without clones and holds. Its space is freed gradually.
    Destroy(DestroySnapshot),
    /// Rename a snapshot.
    Rename(RenameSnapshot),
    /// Hold a snapshot, so that it cannot be destroyed.
    Hold(HoldSnapshot),
    /// Release a hold.
    Release(ReleaseSnapshot),
    /// List the holds of a snapshot.
    Holds(ListHolds),
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
  wirepool pool create tank raidz2 /dev/sd{a..j} log mirror /dev/nvme{0,1}n1p1   the journal is on flash
  wirepool pool create tank raidz2 /dev/sd{a..j} special mirror /dev/nvme{0,1,2}n1   metadata and small records are on flash
  wirepool pool create tank raidz2 /dev/sd{a..j} cache /dev/nvme0n1p2           blocks that are read several times stay on flash
  wirepool pool create scratch /dev/nvme2n1                                     without redundancy

A mirror has every block on each of its disks. A raidz1, raidz2 or raidz3 has the space of all its disks but one, two or three, and
that number may fail; it suits large files, and small random writes are slower than on mirrors.
A special vdev is a part of the pool: all data is lost with it. It needs at least the redundancy of the other vdevs.")]
    Create {
        /// The name of the pool.
        name: String,
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
    Export(ExportPool),
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
    Destroy(DestroyPool),
    /// Write a checkpoint now.
    Checkpoint(CheckpointPool),
    /// Say how large a special class, a log or a cache should be, and whether it would help.
    #[command(subcommand)]
    Advise(AdviseCommand),
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
    Create(CreateVolume),
    /// Rename a volume with all datasets below it. None of them may be exported.
    Rename(RenameVolume),
    /// Promote a clone: the volume that it was cloned from becomes a clone of it.
    Promote(PromoteVolume),
    /// Roll a volume back to its newest snapshot. The volume must not be exported.
    Rollback(RollbackVolume),
    /// List the volumes.
    List,
    /// Change the size of a volume, visible to clients at once.
    Resize(ResizeVolume),
    /// Destroy a volume that is not exported.
    Destroy(DestroyVolume),
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
