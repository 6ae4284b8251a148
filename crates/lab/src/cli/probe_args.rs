//! Command line of `wirepool ping` and `wirepool ioping`.

use crate::probe::ioping::Ioping as IopingPlan;
use crate::probe::ioping::result::Operation;
use crate::probe::ping::Ping as PingPlan;
use crate::size::{parse_size, parse_time};
use crate::targets::Address;
use crate::{Error, Result};
use clap::Args;
use std::time::Duration;

/// Bytes of a scratch file, at least.
const SCRATCH_MIN: u64 = 1 << 20;
/// Bytes of a scratch file, at most.
const SCRATCH_MAX: u64 = 64 << 30;

const PING_EXAMPLES: &str = "\
Examples:
  wirepool ping nvme-tcp://10.0.0.7:4420/nqn.2026-01.org.example:vm1
  wirepool ping iscsi://10.0.0.7/iqn.2026-01.org.example:vm2/0 -c 0        until Ctrl-C
  wirepool ping nfs://10.0.0.7/tank/home/disk.img -c 100 -i 100ms --quiet --json

A round is a TCP connect, a keep-alive of the protocol (NVMe Keep Alive, iSCSI NOP-Out, NFS SEQUENCE) and a read of 4 KiB, one after
the other. The differences of their medians are the shares of network, server and storage. Nothing is written. docs/probes.md

Exit codes: 0 every kind of request was answered, 1 one of them never was, 2 wrong command line.";

const IOPING_EXAMPLES: &str = "\
Examples:
  wirepool ioping /srv                           a scratch file in a directory, removed at once
  wirepool ioping /srv --write --sync            durable writes to such a file
  wirepool ioping /dev/nvme0n1 -c 100 -i 10ms    a disk, read only
  wirepool ioping nvme-tcp://10.0.0.7:4420/nqn.2026-01.org.example:vm1

Existing data is only read. docs/probes.md

Exit codes: 0 every request succeeded, 1 some or all failed, 2 wrong command line.";

/// Measure TCP connect, keep-alive and read of a remote disk or file, and say where the time goes.
#[derive(Debug, Args)]
#[command(after_help = PING_EXAMPLES)]
pub struct Ping {
    /// Target: nvme-tcp://HOST:PORT/NQN?ns=1, iscsi://HOST/IQN/LUN or nfs://HOST/PATH/FILE
    pub(super) target: Address,
    /// Rounds; 0: until Ctrl-C
    #[arg(short, long, default_value_t = 10)]
    pub(super) count: u64,
    /// Time from one round to the next
    #[arg(short, long, default_value = "500ms", value_parser = parse_pause)]
    pub(super) interval: Duration,
    /// Time after which a request counts as lost
    #[arg(short = 'W', long, default_value = "2s", value_parser = parse_patience)]
    pub(super) timeout: Duration,
    /// Size of each read
    #[arg(short, long, default_value = "4k", value_parser = parse_request)]
    pub(super) size: u32,
    /// Print only the summary
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Ping {
    pub(super) fn plan(&self) -> PingPlan {
        PingPlan {
            address: self.target.clone(),
            count: (self.count > 0).then_some(self.count),
            interval: self.interval,
            patience: self.timeout,
            size: self.size,
        }
    }
}

/// Measure single requests to a file, directory, disk or remote target.
#[derive(Debug, Args)]
#[command(after_help = IOPING_EXAMPLES)]
pub struct Ioping {
    /// A file, a disk, a directory (a scratch file is made in it), or a target of wirepool bench
    pub(super) target: String,
    /// Requests; 0: until Ctrl-C
    #[arg(short, long, default_value_t = 10)]
    pub(super) count: u64,
    /// Time from one request to the next
    #[arg(short, long, default_value = "1s", value_parser = parse_pause)]
    pub(super) interval: Duration,
    /// Time after which a request counts as lost
    #[arg(short = 'W', long, default_value = "30s", value_parser = parse_patience)]
    pub(super) timeout: Duration,
    /// Size of each request
    #[arg(short, long, default_value = "4k", value_parser = parse_request)]
    pub(super) size: u32,
    /// Write to the scratch file instead of reading; the target must be a directory
    #[arg(short = 'w', long)]
    pub(super) write: bool,
    /// Make each write durable
    #[arg(long, requires = "write")]
    pub(super) sync: bool,
    /// Use the page cache
    #[arg(long)]
    pub(super) cached: bool,
    /// Size of the scratch file
    #[arg(long, default_value = "16M", value_parser = parse_scratch)]
    pub(super) scratch: u64,
    /// Print only the summary
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Ioping {
    pub(super) fn plan(&self) -> IopingPlan {
        IopingPlan {
            target: self.target.clone(),
            count: (self.count > 0).then_some(self.count),
            interval: self.interval,
            size: self.size,
            operation: match (self.write, self.sync) {
                (false, _) => Operation::Read,
                (true, false) => Operation::Write,
                (true, true) => Operation::DurableWrite,
            },
            cached: self.cached,
            scratch: self.scratch,
            patience: self.timeout,
        }
    }
}

/// A pause between requests: any time up to a day.
fn parse_pause(text: &str) -> Result<Duration> {
    within(text, Duration::ZERO, Duration::from_secs(24 * 3600))
}

/// A time limit: a millisecond to an hour.
fn parse_patience(text: &str) -> Result<Duration> {
    within(text, Duration::from_millis(1), Duration::from_secs(3600))
}

/// A time within these limits.
pub(super) fn within(text: &str, least: Duration, most: Duration) -> Result<Duration> {
    let time = parse_time(text)?;
    if (least..=most).contains(&time) {
        return Ok(time);
    }
    let why = format!("expected {least:?} to {most:?}");
    Err(Error::usage(format!("time {text:?}"), why))
}

/// The size of a request.
fn parse_request(text: &str) -> Result<u32> {
    use crate::limits::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN};
    match u32::try_from(parse_size(text)?) {
        Ok(n) if (BLOCK_SIZE_MIN..=BLOCK_SIZE_MAX).contains(&n) => Ok(n),
        _ => Err(Error::usage(format!("size {text:?}"), "expected 512 to 1M")),
    }
}

/// The size of a scratch file: whole MiB.
fn parse_scratch(text: &str) -> Result<u64> {
    let bytes = parse_size(text)?;
    if (SCRATCH_MIN..=SCRATCH_MAX).contains(&bytes) && bytes.is_multiple_of(SCRATCH_MIN) {
        return Ok(bytes);
    }
    Err(Error::usage(
        format!("size {text:?}"),
        "expected 1M to 64G, whole MiB",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        ioping: Ioping,
    }

    fn plan(line: &str) -> std::result::Result<IopingPlan, clap::Error> {
        let words = std::iter::once("ioping").chain(line.split(' '));
        Program::try_parse_from(words).map(|p| p.ioping.plan())
    }

    #[test]
    fn options_become_the_plan_they_name() {
        let p = plan("/srv -c 0 -i 10ms -s 512 --write --sync").expect("valid");
        assert_eq!((p.count, p.size), (None, 512));
        assert_eq!(p.operation, Operation::DurableWrite);
        assert_eq!(
            plan("/srv --write").expect("valid").operation,
            Operation::Write
        );
        for bad in [
            "/srv --sync",
            "/srv -s 2M",
            "/srv -s 0",
            "/srv -W 0",
            "/srv --scratch 1k",
            "/srv -i 9999h",
        ] {
            assert!(plan(bad).is_err(), "{bad}");
        }
    }
}
