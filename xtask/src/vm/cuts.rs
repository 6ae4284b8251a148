//! Power cuts in a guest: the server's disks lie on the kernel's dm-log-writes, and the log is cut at its flushes.
//!
//! **Owns** the disks' images and the programs that the guest gets. **Called by** `vm`. **Invariants**: server and
//! client run in the guest, under the guest's kernel; only the log of a run is kept; the replay is a separate program
//! (`wirepool-cuts`), because it needs the pool's code.

use super::{Check, Outcome, guest_command, log_of, script, server, watch};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Bytes of each member of the mirror. The guest divides one disk in two, so that the writes of both members are in
/// one order.
const SIDE: u64 = 128 << 20;
/// Bytes of the disk that takes the log.
const LOG: u64 = 2 << 30;
/// Maximum number of cuts. Each flush of a run has its cut, unless there are more flushes.
const CUTS: u64 = 400;
/// A run with fewer flushes fails, because it would prove nothing.
const CUTS_MIN: u64 = 100;

/// Run the guest, then replay its log. The images are in `dir`.
pub(super) fn run(check: &'static Check, dir: &Path) -> Result<Outcome> {
    let replayer = server::built("wirepool-cuts")?;
    let share = dir.join("share");
    fs::create_dir(&share)?;
    for program in [&server::binary()?, &replayer] {
        strip(program, &share)?;
    }
    // They are shared too, so that the guest can see which of their blocks the host has.
    let [data, writes] = ["data.img", "log.img"].map(|name| share.join(name));
    File::create(&data)?.set_len(2 * SIDE)?;
    File::create(&writes)?.set_len(LOG)?;
    let started = Instant::now();
    let mut command = guest_command(check);
    command.arg("--share").arg(&share);
    command.arg("--disk").arg(&data).arg("--disk").arg(&writes);
    for env in ["PEER=wirepool", "ADDR=127.0.0.1", "PORT=4420"] {
        command.args(["--env", env]);
    }
    command.arg(script(check));
    let mut output = File::create(log_of(check))?;
    let (mut status, mut said) = watch(command, &mut output)?;
    if status.success() && said.failed.is_empty() {
        println!("== the log is replayed");
        let mut command = Command::new(replayer);
        command.arg("replay").arg(&writes);
        command.arg("--known").arg(share.join("known"));
        command.arg("--dir").arg(dir);
        for (name, value) in [("--size", SIDE), ("--cuts", CUTS), ("--cuts-min", CUTS_MIN)] {
            command.args([name, &value.to_string()]);
        }
        command.stdin(Stdio::null());
        let then;
        (status, then) = watch(command, &mut output)?;
        said.and(then);
    }
    Ok(Outcome::of(check, status, said, started))
}

/// Put a program into the guest's directory, without symbols: its memory is small. The guest has this host's Debian
/// release and with it the libraries that the program was linked with.
pub(super) fn strip(program: &Path, to: &Path) -> Result<()> {
    let name = program.file_name().context("a program has a name")?;
    let status = Command::new("strip")
        .arg("-o")
        .arg(to.join(name))
        .arg(program)
        .status()
        .context("strip")?;
    if !status.success() {
        bail!("strip {} failed ({status})", program.display());
    }
    Ok(())
}
