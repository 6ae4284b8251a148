//! NVMe disks of QEMU in a guest, whose counters of written bytes are compared with the server's.
//!
//! **Owns** the disks' images and the program that the guest gets. **Called by** `vm`. **Invariants**: server and client run in the
//! guest; only the log of a run is kept.

use super::{Check, Outcome, cuts, guest_command, log_of, script, server, watch};
use anyhow::Result;
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

/// Bytes of each disk.
const DISK: u64 = 512 << 20;

/// Runs the guest with two NVMe disks. The images are in `dir`.
pub(super) fn run(check: &'static Check, dir: &Path) -> Result<Outcome> {
    let share = dir.join("share");
    fs::create_dir(&share)?;
    cuts::strip(&server::binary()?, &share)?;
    let mut command = guest_command(check);
    command.arg("--share").arg(&share);
    for name in ["a", "b"] {
        let path = dir.join(format!("{name}.img"));
        File::create(&path)?.set_len(DISK)?;
        let drive = format!(
            "if=none,id={name},format=raw,cache=writeback,file={}",
            path.display()
        );
        let device = format!("nvme,drive={name},serial=wear-{name}");
        for argument in ["-drive", &drive, "-device", &device] {
            // One word: the argument itself begins with a dash.
            command.arg(format!("--qemu={argument}"));
        }
    }
    for env in ["PEER=wirepool", "ADDR=127.0.0.1", "PORT=4420"] {
        command.args(["--env", env]);
    }
    command.arg(script(check));
    let started = Instant::now();
    let (status, said) = watch(command, File::create(log_of(check))?)?;
    Ok(Outcome::of(check, status, said, started))
}
