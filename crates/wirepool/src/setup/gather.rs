//! The state of this machine and of the running server.
//!
//! **Owns** the reading. **Called by** `setup`. **Invariants**: nothing is changed; a disk that cannot be examined is not free, and the
//! reason is told with it.

use super::disks::{self, Disk};
use super::facts::Facts;
use super::protocol::ALL;
use crate::ask::Ask;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use server::api::{GetStatus, ScanPools, Status, Transport};
use server::config::ConfigFile;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directories with names of disks that survive a reboot.
const NAMES: [&str; 2] = ["/dev/disk/by-id", "/dev/disk/by-path"];
/// The part of the server's answer for a disk without a label of its own.
const NO_LABEL: &str = "no pool label on";

/// Reads everything. Errors: no server runs, or its configuration or the list of disks cannot be read.
pub(crate) fn gather(ask: &Ask) -> Result<Facts> {
    let status = ask.client.ask(&GetStatus {})?;
    let config = ConfigFile::load(&status.config)?;
    let mut all = disks::parse(&output(
        "lsblk",
        &["--json", "--bytes", "--output", disks::COLUMNS],
    )?)?;
    disks::name(&mut all, &links());
    for disk in &mut all {
        examine(ask, &status, disk);
    }
    Ok(Facts {
        config,
        disks: all,
        pools: status
            .pools
            .iter()
            .map(|p| (p.name.clone(), p.free))
            .collect(),
        datasets: datasets(&status),
        listen: listeners(&status),
        addresses: addresses()?,
        version: status.version,
        control: status.control,
    })
}

fn datasets(status: &Status) -> Vec<String> {
    let volumes = status.volumes.iter().map(|v| v.name.clone());
    volumes
        .chain(status.filesystems.iter().map(|f| f.name.clone()))
        .collect()
}

fn listeners(status: &Status) -> Vec<(super::protocol::Protocol, std::net::SocketAddr)> {
    let of = |l: &server::api::Listen| {
        let protocol = ALL.into_iter().find(|p| p.is_of(l.role))?;
        Some((protocol, l.address))
    };
    let over_tcp = status.listen.iter();
    let over_tcp = over_tcp.filter(|l| l.transport == Transport::Tcp);
    over_tcp.filter_map(of).collect()
}

/// The output of a program. Errors: it does not run, or fails.
fn output(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    if !output.status.success() {
        bail!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The names of disks, each with the device.
fn links() -> Vec<(PathBuf, PathBuf)> {
    let mut out = Vec::new();
    for entry in NAMES
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .flatten()
    {
        if let Ok(device) = std::fs::canonicalize(entry.path()) {
            out.push((entry.path(), device));
        }
    }
    out.sort();
    out
}

/// Adds to a disk without known contents what a look at it finds.
fn examine(ask: &Ask, status: &Status, disk: &mut Disk) {
    let is_it = |p: &Path| std::fs::canonicalize(p).is_ok_and(|p| p == disk.path);
    if let Some(pool) = status
        .pools
        .iter()
        .find(|p| p.disks.iter().any(|d| is_it(d)))
    {
        disk.found.push(format!("member of the pool {}", pool.name));
    }
    if !disk.is_free() {
        return;
    }
    match io::linux::signatures(&disk.path) {
        Ok(found) => disk.found.extend(found.iter().map(ToString::to_string)),
        Err(e) => disk.found.push(format!("it cannot be examined: {e}")),
    }
    if !disk.is_free() {
        return;
    }
    // The server looks for labels of pools, and has shown then that it may open the disk.
    let call = ScanPools {
        disks: vec![disk.path.clone()],
    };
    match ask.client.ask(&call) {
        Ok(pools) => {
            let of = |p: &server::api::FoundPool| {
                format!("member of the pool {} (`wirepool pool import`)", p.name)
            };
            disk.found.extend(pools.iter().map(of));
        }
        Err(e) if e.to_string().contains(NO_LABEL) => {}
        Err(e) => disk.found.push(e.to_string()),
    }
}

#[derive(Deserialize)]
struct Interface {
    #[serde(default)]
    addr_info: Vec<AddressInfo>,
}

#[derive(Deserialize)]
struct AddressInfo {
    local: Option<IpAddr>,
    scope: Option<String>,
}

/// The addresses of this machine that other machines can reach.
fn addresses() -> Result<Vec<IpAddr>> {
    reachable(&output("ip", &["-j", "addr"])?)
}

/// Reads the answer of `ip -j addr`. Errors: it has another form.
fn reachable(text: &str) -> Result<Vec<IpAddr>> {
    let all: Vec<Interface> = serde_json::from_str(text).context("the answer of ip")?;
    let infos = all.into_iter().flat_map(|i| i.addr_info);
    let global = infos.filter(|i| i.scope.as_deref() == Some("global"));
    Ok(global.filter_map(|i| i.local).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_loopback_and_links_are_left_out() {
        let text = r#"[
            {"ifname":"lo","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8,"scope":"host"}]},
            {"ifname":"down"},
            {"ifname":"eth0","addr_info":[{"family":"inet","local":"10.0.0.7","prefixlen":24,"scope":"global"},
                {"family":"inet6","local":"fd00::7","prefixlen":64,"scope":"global"},
                {"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"}]}]"#;
        let found: Vec<String> = reachable(text)
            .expect("addresses")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, ["10.0.0.7", "fd00::7"]);
        assert!(reachable("Object \"-j\" is unknown").is_err());
    }
}
