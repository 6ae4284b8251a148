//! A guest in which a server runs too, with the guest's kernel, or that of a second guest, as its client.
//!
//! **Owns** the programs that the guest gets, and the images of its disks. **Called by** `vm`. **Invariants**: server and client run in
//! the guest; only the log of a run is kept.

use super::{Check, Outcome, guest_command, guests_command, log_of, script, server, watch};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Bytes of each disk.
const DISK: u64 = 1 << 30;

/// Disks that a guest has in addition to its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disks {
    /// One disk, `/dev/vdb`, which the script divides.
    One,
    /// Two NVMe disks, which count written bytes.
    TwoNvme,
}

/// Runs the guest. Its images are in `dir`.
pub(super) fn run(check: &'static Check, disks: Disks, dir: &Path) -> Result<Outcome> {
    let share = share(dir, &[&server::binary()?])?;
    let mut command = guest_with_server(check, &share);
    let image = |name: &str| -> Result<PathBuf> {
        let path = dir.join(name);
        File::create(&path)?.set_len(DISK)?;
        Ok(path)
    };
    match disks {
        Disks::One => {
            command.arg("--disk").arg(image("disk.img")?);
        }
        Disks::TwoNvme => {
            for name in ["a", "b"] {
                let path = image(&format!("{name}.img"))?;
                add_nvme(&mut command, name, &path);
            }
        }
    }
    command.arg(script(check));
    let started = Instant::now();
    let (status, said) = watch(command, File::create(log_of(check))?)?;
    Ok(Outcome::of(check, status, said, started))
}

/// Gives the guest an NVMe disk with the image `path` and `name` in its serial number. It counts written bytes.
pub(super) fn add_nvme(command: &mut Command, name: &str, path: &Path) {
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

/// Runs two guests on one Ethernet segment, the one with the server first.
pub(super) fn run_linked(check: &'static Check, dir: &Path) -> Result<Outcome> {
    let share = share(dir, &[&server::binary()?])?;
    let mut command = with_server(guests_command("pair", check), &share);
    command.arg(script(check)).arg(host_script(check));
    let started = Instant::now();
    let (status, said) = watch(command, File::create(log_of(check))?)?;
    Ok(Outcome::of(check, status, said, started))
}

/// The script of the client of two guests.
pub(super) fn host_script(check: &Check) -> PathBuf {
    let script = script(check);
    script.with_file_name(format!("{}_host.sh", check.name))
}

/// A guest that shares `share` and whose server listens on its own loopback. The script comes last.
pub(super) fn guest_with_server(check: &Check, share: &Path) -> Command {
    with_server(guest_command(check), share)
}

fn with_server(mut command: Command, share: &Path) -> Command {
    command.arg("--share").arg(share);
    for env in ["PEER=wirepool", "ADDR=127.0.0.1", "PORT=4420"] {
        command.args(["--env", env]);
    }
    command
}

/// A directory in `dir` with these programs, without symbols: the guest's memory is small. The guest has this host's Debian release and
/// with it the libraries that the programs were linked with.
pub(super) fn share(dir: &Path, programs: &[&Path]) -> Result<PathBuf> {
    let share = dir.join("share");
    fs::create_dir(&share)?;
    for program in programs {
        let name = program.file_name().context("a program has a name")?;
        let status = Command::new("strip")
            .arg("-o")
            .arg(share.join(name))
            .arg(program)
            .status()
            .context("strip")?;
        if !status.success() {
            bail!("strip {} failed ({status})", program.display());
        }
    }
    Ok(share)
}
