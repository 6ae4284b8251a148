//! Two versions of the Debian package in a guest that runs systemd.
//!
//! **Owns** the packages and the disks' images. **Called by** `vm`. **Invariants**: server and client run in the guest; nothing of a run
//! is kept but its log.

use super::{Check, Outcome, guest_command, inside, log_of, script, server, watch};
use crate::package::{self, Profile};
use anyhow::Result;
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

/// Bytes of each disk of the pool.
const DISK: u64 = 256 << 20;
/// Bytes of the disk with a foreign file system.
const FOREIGN: u64 = 64 << 20;
/// MiB of the guest: its root is in memory, and takes the installed program twice.
const MEMORY_MIB: u32 = 1536;

/// Packs the test's build of the program as two versions, and runs the guest. The images are in `dir`.
pub(super) fn run(check: &'static Check, dir: &Path) -> Result<Outcome> {
    server::built("wirepool")?;
    let share = dir.join("share");
    fs::create_dir(&share)?;
    for (name, version) in [("old.deb", "0.0.1-1"), ("new.deb", "0.0.2-1")] {
        package::build(Profile::Dev, Some(version), &share.join(name))?;
    }
    let mut command = guest_command(check);
    command.args(["--mem", &MEMORY_MIB.to_string()]);
    command.args(["--env", "VMLAB_INIT=systemd"]);
    command.arg("--share").arg(&share);
    for (name, bytes) in [("a.img", DISK), ("b.img", DISK), ("foreign.img", FOREIGN)] {
        let path = dir.join(name);
        File::create(&path)?.set_len(bytes)?;
        command.arg("--disk").arg(path);
    }
    let flash = dir.join("flash.img");
    File::create(&flash)?.set_len(DISK)?;
    inside::add_nvme(&mut command, "flash", &flash);
    command.arg(script(check));
    let started = Instant::now();
    let (status, said) = watch(command, File::create(log_of(check))?)?;
    Ok(Outcome::of(check, status, said, started))
}
