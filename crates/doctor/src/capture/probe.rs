//! Probes: measurements that are made only when they are asked for.
//!
//! **Owns** the probe of path MTUs by `ping`, and of durable writes by a file that is removed again. **Called by**
//! `wirepool doctor`. **Invariants**: each has a time limit.

use super::place;
use crate::facts::{FlushProbe, Known, PathProbe, Times};
use crate::source::{Source, SourceExt};
use serde_json::Value;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// MTUs of common networks, bytes; tried from above if the interface's own does not pass.
const MTUS: &[u32] = &[9000, 8192, 4096, 2044, 1500, 1492, 1450, 1400, 1280];
/// Headers of ICMP, bytes.
const ICMP: u32 = 8;
/// The most data that `ping` sends, bytes.
const PING_MAX: u32 = 65_507;
/// Durable writes of a probe.
const WRITES: usize = 128;
/// Longest probe of durable writes.
const WRITES_WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes of a durable write, and of the file.
const WRITE_BYTES: usize = 4096;

/// The path MTU to an address.
#[must_use]
pub fn path(source: &dyn Source, address: IpAddr) -> PathProbe {
    let link_mtu = link_mtu(source, address);
    let path_mtu = match &link_mtu {
        Known::Value(mtu) => path_mtu(source, address, *mtu),
        Known::Unknown { unknown } => Known::unknown(unknown),
    };
    PathProbe {
        address,
        link_mtu,
        path_mtu,
    }
}

/// MTU of the interface that leads to an address.
fn link_mtu(source: &dyn Source, address: IpAddr) -> Known<u32> {
    let text = match source.run("ip", &["-j", "route", "get", &address.to_string()]) {
        Ok(text) => text,
        Err(e) => return Known::unknown(e.reason()),
    };
    let route: Value = serde_json::from_str(&text).unwrap_or_default();
    match route[0]["dev"].as_str() {
        Some(dev) => source.parse(&format!("/sys/class/net/{dev}/mtu")),
        None => Known::unknown(format!("there is no route to {address}")),
    }
}

fn path_mtu(source: &dyn Source, address: IpAddr, link: u32) -> Known<u32> {
    let headers = ICMP + if address.is_ipv6() { 40 } else { 20 };
    let answers = |mtu: u32| {
        let size = mtu.saturating_sub(headers).min(PING_MAX).to_string();
        let address = address.to_string();
        let args = [
            "-n", "-q", "-c", "2", "-i", "0.2", "-W", "0.5", "-M", "do", "-s", &size, &address,
        ];
        let text = source.run("ping", &args)?;
        Ok::<bool, crate::source::Unread>(!text.contains(" 100% packet loss"))
    };
    match answers(headers + 56) {
        Ok(true) => {}
        Ok(false) => return Known::unknown(format!("{address} does not answer pings")),
        Err(e) => return Known::unknown(e.reason()),
    }
    let smaller = MTUS.iter().copied().filter(|m| *m < link);
    for mtu in [link].into_iter().chain(smaller) {
        if answers(mtu) == Ok(true) {
            return Known::Value(mtu);
        }
    }
    Known::unknown(format!("{address} answers small pings only"))
}

/// Durations of durable writes in a directory. A file is made in it, and removed.
#[must_use]
pub fn flushes(source: &dyn Source, directory: &Path) -> FlushProbe {
    let full = directory.canonicalize();
    let full = full.unwrap_or_else(|_| directory.to_owned());
    FlushProbe {
        directory: full.display().to_string(),
        disk: place::disk_of(source, &full.display().to_string()),
        times: match durable_writes(&full) {
            Ok(times) => Known::Value(times),
            Err(e) => Known::unknown(format!("no probe in {}: {e}", full.display())),
        },
    }
}

fn durable_writes(directory: &Path) -> std::io::Result<Times> {
    let path = directory.join(format!(".wirepool-doctor-{}", std::process::id()));
    let file = File::options().write(true).create_new(true).open(&path)?;
    let measured = measure(file);
    std::fs::remove_file(&path)?;
    measured
}

fn measure(mut file: File) -> std::io::Result<Times> {
    let block = [0x5a; WRITE_BYTES];
    // The space is allocated first, so that the writes below change data only.
    file.write_all(&block)?;
    file.sync_all()?;
    let start = Instant::now();
    let mut durations = Vec::with_capacity(WRITES);
    while durations.len() < WRITES && start.elapsed() < WRITES_WAIT_MAX {
        let begin = Instant::now();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&block)?;
        file.sync_data()?;
        durations.push(u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    durations.sort_unstable();
    let at = |percent: usize| {
        let last = durations.len().saturating_sub(1);
        durations.get(last * percent / 100).copied().unwrap_or(0)
    };
    Ok(Times {
        count: durations.len() as u64,
        p50_us: at(50),
        p99_us: at(99),
    })
}
