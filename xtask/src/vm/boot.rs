//! A machine that boots from a logical unit, over QEMU's own iSCSI driver.
//!
//! **Owns** the run of a check whose script is the machine's first process. **Called by** `vm`. **Invariants**: firmware,
//! boot loader, kernel and root all come from the unit; nothing of the machine is on this host but its processor.

use super::server::Server;
use super::{Check, Outcome, Said, lab_script, log_of, script, watch};
use crate::repo;
use anyhow::{Result, bail};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const IQN: &str = "iqn.2026-01.test.wirepool:boot";
/// Number of boots. Each boot finds the data that the previous one wrote.
const BOOTS: usize = 2;
/// Printed by the machine at its end.
const MARK: &str = "BOOTED FROM THE LUN";

/// Make the disk, serve it, boot from it, twice. The server's files are in `dir`, its socket in `sockets`.
pub(super) fn run(check: &'static Check, dir: &Path, sockets: &Path) -> Result<Outcome> {
    let logs = repo::vm_cache().join("logs");
    let disk = dir.join("boot.img");
    let made = lab_script("bootdisk.sh")
        .arg(&disk)
        .arg(script(check))
        .status()?;
    if !made.success() {
        bail!("bootdisk.sh failed ({made})");
    }
    // Sector size of the boot loader's partition table.
    let server_log = logs.join(format!("{}.server.log", check.name));
    let server = Server::start(&super::server::binary()?, dir, sockets, &server_log)?;
    for command in [
        "disk add boot --file boot.img --block-size 512",
        &format!("export iscsi boot --iqn {IQN} --initiator any"),
    ] {
        let args: Vec<String> = command.split(' ').map(str::to_owned).collect();
        server.cli(&args)?;
    }
    let unit = format!("iscsi://127.0.0.1:{}/{IQN}/0", server.ports().iscsi);
    let started = Instant::now();
    let mut output = File::create(log_of(check))?;
    let (mut status, mut said) = (made, Said::default());
    for boot in 1..=BOOTS {
        println!("== boot {boot} of {BOOTS}");
        let then;
        (status, then) = watch(machine(check, &unit), &mut output)?;
        said.and(then);
        if said.last != MARK {
            let line = format!("FAIL boot {boot} came to its end, and did not say {MARK:?}");
            said.failed.push(line);
        }
    }
    Ok(Outcome::of(check, status, said, started))
}

/// A PC with only that disk and a serial console.
fn machine(check: &Check, unit: &str) -> Command {
    let drive = format!("file={unit},format=raw,if=virtio");
    let cpus = check.cpus.to_string();
    let timeout = check.timeout_s.to_string();
    let mut command = Command::new("timeout");
    command
        .args([&timeout, "qemu-system-x86_64", "-drive", &drive])
        .args(["-smp", &cpus, "-m", "512"])
        .args(["-accel", "tcg,thread=single", "-cpu", "max,la57=off"])
        .args(["-machine", "pc,hpet=off,usb=off"])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-serial", "stdio"])
        .stdin(Stdio::null());
    command
}
