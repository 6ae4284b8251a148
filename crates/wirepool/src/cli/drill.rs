//! Command line of `wirepool drill`.

use clap::{Args, Subcommand};
use lab::size::parse_time;
use server::ByteSize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

const HELP: &str = "\
A drill makes a scratch volume, exports it to itself alone, runs a verifying load on it through a relay, and disturbs one part of
the path. It removes the volume at its end, also after Ctrl-C. Volumes that a killed drill left are removed by the next drill.

Examples:
  wirepool drill cable tank --for 60s --html cable.html   on a volume of the running server
  wirepool drill cable tank --cut reset:1s --cut silent:8s
  wirepool drill full tank --for 30s                      uses up the quota of the scratch volume, not the pool
  wirepool drill lost-disk tank --member /dev/sdc         one member of a mirror of three or a raidz2, or more
  wirepool drill lost-disk --class log --class cache      on a pool of the drill's own with a log, a special class and a cache
  wirepool drill kill --dir /srv/scratch                  on a server of the drill's own, with files in /srv/scratch

docs/drills.md says what each drill does and how to read its report.

Exit codes: 0 passed, 1 failed, interrupted or refused, 2 wrong command line.";

/// Shortest and longest drill.
const TIME: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
/// Least and most bytes of a scratch volume.
const SIZE: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 30;

/// Rehearse a failure on a scratch volume under a verifying load: passed or failed, bytes lost, longest pause.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct DrillArgs {
    #[command(subcommand)]
    pub(crate) kind: DrillKind,
}

#[derive(Subcommand)]
pub(crate) enum DrillKind {
    /// Cut the connections of the load, silently and by reset. No network card and no other client is touched.
    Cable(CableArgs),
    /// Kill a server of the drill's own with SIGKILL, again and again, and start it again.
    Kill(KillArgs),
    /// Cut the power of a server of the drill's own: SIGKILL, and the loss of writes that no flush covered.
    Powercut(KillArgs),
    /// Slow down one disk at a time of a mirror of the drill's own.
    SlowDisk(SlowDiskArgs),
    /// Take a disk of each class away, one at a time, and bring it back: members of mirrors, a log, a cache device.
    LostDisk(LostDiskArgs),
    /// Leave no space for writes for a while: the quota of the scratch volume, or a pool of the drill's own.
    Full(FullArgs),
}

#[derive(Args)]
pub(crate) struct CableArgs {
    /// The pool of the running server that gets the scratch volume. Without it, the drill starts a server of its own.
    pub(crate) pool: Option<String>,
    /// Name of the scratch volume, below the pool. It must not exist. Default: a reserved name, wirepool-drill-….
    #[arg(long, requires = "pool")]
    pub(crate) volume: Option<String>,
    /// Make these cuts instead of the default ones; may be given several times: reset:TIME or silent:TIME.
    #[arg(long, value_name = "KIND:TIME")]
    pub(crate) cut: Vec<CutArg>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args)]
pub(crate) struct KillArgs {
    /// sync=disabled of the scratch volume: acknowledged writes are then lost, and the drill shows how many.
    #[arg(long)]
    pub(crate) sync_disabled: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args)]
pub(crate) struct SlowDiskArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args)]
pub(crate) struct LostDiskArgs {
    /// The pool of the running server that gets the scratch volume. Without it, the drill starts a server of its own.
    #[arg(requires = "member")]
    pub(crate) pool: Option<String>,
    /// A member of the pool that may go offline for the drill; may be given several times. Two other members of its vdev must be
    /// online.
    #[arg(long, value_name = "DISK", requires = "pool")]
    pub(crate) member: Vec<PathBuf>,
    /// Take only disks of this class of the drill's own pool; may be given several times. Default: all classes in turn.
    #[arg(long, value_enum, conflicts_with = "pool")]
    pub(crate) class: Vec<LostClass>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Disks that a drill takes away from a pool of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LostClass {
    /// A member of the mirror with the data.
    Data,
    /// A member of the special mirror, with metadata.
    Special,
    /// The only disk of the log.
    Log,
    /// The cache device.
    Cache,
}

#[derive(Args)]
pub(crate) struct FullArgs {
    /// The pool of the running server that gets the scratch volume; only the volume's quota is used up. Without it, the drill
    /// fills a pool of its own.
    pub(crate) pool: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of all drills.
#[derive(Args)]
pub(crate) struct Common {
    /// Time of the load.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = time)]
    pub(crate) time: Duration,
    /// Size of the scratch volume.
    #[arg(long, default_value = "16M", value_parser = size)]
    pub(crate) size: ByteSize,
    /// Commands per second, at most.
    #[arg(long, value_name = "COMMANDS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
    /// Directory for a server of the drill's own, with its disks. Default: the directory for temporary files.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Write a page with a timeline into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// A cut of the cable on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutArg {
    /// Both ends get a reset, instead of silence.
    pub(crate) is_reset: bool,
    /// Its length.
    pub(crate) length: Duration,
}

impl FromStr for CutArg {
    type Err = String;

    fn from_str(text: &str) -> Result<CutArg, String> {
        let expected = "expected reset:TIME or silent:TIME, such as silent:8s";
        let (kind, length) = text.split_once(':').ok_or(expected)?;
        let is_reset = match kind {
            "reset" => true,
            "silent" => false,
            _ => return Err(expected.into()),
        };
        Ok(CutArg {
            is_reset,
            length: time(length)?,
        })
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let time = parse_time(text).map_err(|e| e.to_string())?;
    match TIME.contains(&time) {
        true => Ok(time),
        false => Err("a drill takes 100 ms to 24 h".into()),
    }
}

fn size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|e: server::SizeError| e.to_string())?;
    match SIZE.contains(&size.0) && size.0.is_multiple_of(1 << 20) {
        true => Ok(size),
        false => Err("a scratch volume has 1M to 1G, in whole mebibytes".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_have_a_kind_and_a_length() {
        let cut: CutArg = "silent:1500ms".parse().expect("a cut");
        assert_eq!(
            (cut.is_reset, cut.length),
            (false, Duration::from_millis(1500))
        );
        for wrong in ["silent", "loud:1s", "reset:", "reset:0s", "reset:2d"] {
            assert!(wrong.parse::<CutArg>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn scratch_volumes_are_whole_mebibytes() {
        assert_eq!(size("16M"), Ok(ByteSize(16 << 20)));
        for wrong in ["0", "4K", "2G", "1000001"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
