//! Power cuts in a guest: the server's disks lie on the kernel's dm-log-writes, and the log is cut at its flushes.
//!
//! **Owns** the disks' images and the programs that the guest gets. **Called by** `vm`. **Invariants**: server and
//! client run in the guest, under the guest's kernel; only the log of a run is kept; the replay is a separate program
//! (`wirepool-cuts`), because it needs the pool's code.

use super::{Check, Outcome, inside, log_of, script, server, watch};
use anyhow::Result;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Bytes of each member. The guest divides one disk, so that the writes of all members are in one order.
const MEMBER: u64 = 128 << 20;
/// Bytes of the disk that takes the log.
const LOG: u64 = 2 << 30;
/// Maximum number of cuts. Each flush of a run has its cut, unless there are more flushes.
const CUTS: u64 = 400;
/// A run with fewer flushes fails, because it would prove nothing.
const CUTS_MIN: u64 = 100;

/// Runs the guest with a disk for `members`, then replays its log. The images are in `dir`.
pub(super) fn run(check: &'static Check, members: u64, dir: &Path) -> Result<Outcome> {
    let replayer = server::built("wirepool-cuts")?;
    let share = inside::share(dir, &[&server::binary()?, &replayer])?;
    // They are shared too, so that the guest can see which of their blocks the host has.
    let [data, writes] = ["data.img", "log.img"].map(|name| share.join(name));
    File::create(&data)?.set_len(members * MEMBER)?;
    File::create(&writes)?.set_len(LOG)?;
    let started = Instant::now();
    let mut command = inside::guest_with_server(check, &share);
    command.arg("--disk").arg(&data).arg("--disk").arg(&writes);
    command.arg(script(check));
    let mut output = File::create(log_of(check))?;
    let (mut status, mut said) = watch(command, &mut output)?;
    if status.success() && said.failed.is_empty() {
        println!("== the log is replayed");
        let mut command = Command::new(replayer);
        command.arg("replay").arg(&writes);
        command.arg("--known").arg(share.join("known"));
        command.arg("--dir").arg(dir);
        for (name, value) in [
            ("--disks", members),
            ("--size", MEMBER),
            ("--cuts", CUTS),
            ("--cuts-min", CUTS_MIN),
        ] {
            command.args([name, &value.to_string()]);
        }
        command.stdin(Stdio::null());
        let then;
        (status, then) = watch(command, &mut output)?;
        said.and(then);
    }
    Ok(Outcome::of(check, status, said, started))
}
