//! Capture of network interfaces and TCP.
//!
//! **Called by** [`super`]. Settings of devices come from `ethtool`, `dcb` and `ip`; a machine without one of them has facts that
//! are not known.

use super::bus::{node, pcie};
use super::parse::{chosen, cpu_list, line, number};
use crate::facts::{Channels, Coalesce, Conntrack, Irq, Known, Nic, NicCounters, Pause, Ring, Tcp};
use crate::source::{Read1, Source, SourceExt, Unread};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) fn tcp(source: &dyn Source) -> Tcp {
    let setting = |name: &str| format!("/proc/sys/net/ipv4/{name}");
    let third = |name: &str| {
        let path = setting(name);
        match source.read(&path) {
            Ok(text) => {
                let word = text.split_whitespace().nth(2);
                let value = word.and_then(|w| w.parse().ok());
                value.map_or(
                    Known::unknown(format!("{path} has no valid value")),
                    Known::Value,
                )
            }
            Err(e) => Known::unknown(e.reason()),
        }
    };
    let softnet = source.text("/proc/net/softnet_stat");
    let column = |column: usize| softnet.clone().map(|text| sum(&text, column));
    Tcp {
        congestion: source.text(&setting("tcp_congestion_control")),
        available: source
            .text(&setting("tcp_available_congestion_control"))
            .map(|t| t.split_whitespace().map(str::to_owned).collect()),
        receive_max: third("tcp_rmem"),
        send_max: third("tcp_wmem"),
        window_scaling: source.parse(&setting("tcp_window_scaling")),
        sack: source.parse(&setting("tcp_sack")),
        slow_start_after_idle: source.parse(&setting("tcp_slow_start_after_idle")),
        listen_overflows: listen_overflows(source),
        somaxconn: source.parse("/proc/sys/net/core/somaxconn"),
        softnet_packets: column(0),
        softnet_dropped: column(1),
        softnet_squeezed: column(2),
        conntrack: conntrack(source),
    }
}

/// Sum of a hexadecimal column over all processors.
fn sum(text: &str, column: usize) -> u64 {
    let value = |l: &str| u64::from_str_radix(l.split_whitespace().nth(column)?, 16).ok();
    text.lines().filter_map(value).fold(0, u64::saturating_add)
}

/// `/proc/net/netstat` has a line of names and a line of values.
fn listen_overflows(source: &dyn Source) -> Known<u64> {
    let path = "/proc/net/netstat";
    let text = match source.read(path) {
        Ok(text) => text,
        Err(e) => return Known::unknown(e.reason()),
    };
    let mut lines = text.lines().filter(|l| l.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let found = pairs.find(|(name, _)| *name == "ListenOverflows");
    match found.and_then(|(_, value)| value.parse().ok()) {
        Some(n) => Known::Value(n),
        None => Known::unknown(format!("{path} has no ListenOverflows")),
    }
}

fn conntrack(source: &dyn Source) -> Known<Option<Conntrack>> {
    let path = |name: &str| format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
    if let Err(Unread::Missing(_)) = source.read(&path("count")) {
        return Known::Value(None);
    }
    match (source.parse(&path("count")), source.parse(&path("max"))) {
        (Known::Value(count), Known::Value(max)) => Known::Value(Some(Conntrack { count, max })),
        (Known::Unknown { unknown }, _) | (_, Known::Unknown { unknown }) => {
            Known::unknown(unknown)
        }
    }
}

pub(super) fn nics(source: &dyn Source) -> Known<Vec<Nic>> {
    let addresses = addresses(source);
    let interrupts = source.text("/proc/interrupts");
    let names = match source.list("/sys/class/net") {
        Ok(names) => names,
        Err(e) => return Known::unknown(e.reason()),
    };
    let mut nics = Vec::new();
    for name in names.iter().filter(|n| *n != "lo") {
        let mut nic = interface(source, name);
        // Interfaces of containers and tunnels have neither a device nor an interface below.
        if !nic.is_physical && nic.lowers.is_empty() {
            continue;
        }
        nic.addresses = addresses
            .clone()
            .map(|mut all| all.remove(name).unwrap_or_default());
        if nic.is_physical {
            device(source, &mut nic, &interrupts);
        }
        nics.push(nic);
    }
    Known::Value(nics)
}

fn interface(source: &dyn Source, name: &str) -> Nic {
    let path = |file: &str| format!("/sys/class/net/{name}/{file}");
    let entries = source.list(&path("")).unwrap_or_default();
    let lowers = entries.iter().filter_map(|e| e.strip_prefix("lower_"));
    let is_physical = source.exists(&path("device"));
    let driver = match is_physical {
        true => source.link_name(&path("device/driver")),
        false => {
            let text = source.read(&path("uevent")).unwrap_or_default();
            let kind = text.lines().find_map(|l| l.strip_prefix("DEVTYPE="));
            kind.map(str::to_owned)
        }
    };
    let is_up = source
        .text(&path("operstate"))
        .map(|state| match state.as_str() {
            "unknown" => source.read(&path("carrier")).is_ok_and(|c| c == "1"),
            state => state == "up",
        });
    let speed = source.read(&path("speed"));
    let number = |name: &str| source.read(&path(&format!("statistics/{name}")));
    let number = |name: &str| number(name).ok().and_then(|t| t.parse().ok());
    let counters = match number("rx_packets") {
        Some(rx_packets) => Known::Value(NicCounters {
            rx_packets,
            rx_missed: number("rx_missed_errors").unwrap_or(0),
            rx_dropped: number("rx_dropped").unwrap_or(0),
            rx_crc_errors: number("rx_crc_errors").unwrap_or(0),
            carrier_down: source
                .read(&path("carrier_down_count"))
                .ok()
                .and_then(|t| t.parse().ok())
                .unwrap_or(0),
        }),
        None => Known::unknown(format!("{name} has no counters")),
    };
    Nic {
        name: name.to_owned(),
        is_physical,
        driver: driver.unwrap_or_default(),
        is_up,
        mtu: source.parse(&path("mtu")),
        // It cannot be read without a link, and is -1 on virtual devices.
        speed_mbps: Known::Value(speed.ok().and_then(|s| s.parse().ok()).filter(|s| *s > 0)),
        duplex: Known::Value(
            source
                .read(&path("duplex"))
                .unwrap_or_else(|_| "unknown".into()),
        ),
        lowers: lowers.map(str::to_owned).collect(),
        counters,
        ..Nic::default()
    }
}

/// The settings of an interface's device.
fn device(source: &dyn Source, nic: &mut Nic, interrupts: &Known<String>) {
    let link = format!("/sys/class/net/{}/device", nic.name);
    let place = source.resolve(&link).unwrap_or(link);
    nic.node = node(source, &place);
    nic.pcie = pcie(source, &place);
    nic.irqs = match interrupts {
        Known::Value(text) => irqs(source, &place, text),
        Known::Unknown { unknown } => Known::unknown(unknown),
    };
    let ethtool = |flag: &str| match flag {
        "" => source.run("ethtool", &[&nic.name]),
        flag => source.run("ethtool", &[flag, &nic.name]),
    };
    nic.speed_max_mbps = setting(ethtool(""), |t| Some(speed_max(t))).map(Option::flatten);
    nic.ring = setting(ethtool("-g"), ring);
    nic.coalesce = setting(ethtool("-c"), coalesce);
    nic.channels = setting(ethtool("-l"), channels);
    nic.offloads = setting(ethtool("-k"), |t| Some(offloads(t))).map(Option::unwrap_or_default);
    nic.pause = setting(ethtool("-a"), pause);
    let dcb = source.run("dcb", &["-j", "pfc", "show", "dev", &nic.name]);
    nic.pfc = setting(dcb, pfc);
}

/// A setting that a driver may not have.
fn setting<T>(output: Read1<String>, parse: impl FnOnce(&str) -> Option<T>) -> Known<Option<T>> {
    match output {
        Ok(text) => Known::Value(parse(&text)),
        Err(Unread::Failed(reason)) => {
            let reason_lower = reason.to_lowercase();
            match reason_lower.contains("not supported") || reason_lower.contains("no such device")
            {
                true => Known::Value(None),
                false => Known::unknown(reason),
            }
        }
        Err(e) => Known::unknown(e.reason()),
    }
}

/// The two halves of ethtool's output: most, and present.
fn halves(text: &str) -> Option<(&str, &str)> {
    text.split_once("Current hardware settings:")
}

fn ring(text: &str) -> Option<Ring> {
    let (max, now) = halves(text)?;
    Some(Ring {
        rx: number(now, "RX")?,
        rx_max: number(max, "RX")?,
        tx: number(now, "TX")?,
        tx_max: number(max, "TX")?,
    })
}

fn channels(text: &str) -> Option<Channels> {
    let (max, now) = halves(text)?;
    let rx = |t: &str| {
        let sum = |a: u32, b: u32| a.saturating_add(b);
        sum(
            number(t, "RX").unwrap_or(0),
            number(t, "Combined").unwrap_or(0),
        )
    };
    Some(Channels {
        rx: rx(now),
        rx_max: rx(max),
    })
}

fn coalesce(text: &str) -> Option<Coalesce> {
    let adaptive = line(text, "Adaptive RX").unwrap_or("");
    Some(Coalesce {
        is_adaptive_rx: adaptive.starts_with("on"),
        rx_usecs: number(text, "rx-usecs")?,
        tx_usecs: number(text, "tx-usecs").unwrap_or(0),
    })
}

fn pause(text: &str) -> Option<Pause> {
    Some(Pause {
        rx: line(text, "RX")? == "on",
        tx: line(text, "TX")? == "on",
    })
}

/// Offloads that can be changed: lines such as `rx-checksumming: on`, without `[fixed]`.
fn offloads(text: &str) -> BTreeMap<String, bool> {
    let feature = |l: &str| {
        let (name, value) = l.trim().split_once(": ")?;
        let value = match value.trim() {
            "on" => true,
            "off" => false,
            _ => return None,
        };
        Some((name.to_owned(), value))
    };
    text.lines().filter_map(feature).collect()
}

/// The highest of modes such as `25000baseCR/Full`.
fn speed_max(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("Supported link modes:")?;
    let (modes, _) = rest.split_once("Supported").unwrap_or((rest, ""));
    let speed = |mode: &str| mode.split_once("base")?.0.parse().ok();
    modes.split_whitespace().filter_map(speed).max()
}

/// Priorities that are on.
fn pfc(text: &str) -> Option<Vec<u32>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let value = value.as_array().and_then(|a| a.first()).unwrap_or(&value);
    let is_on = |v: &Value| v.as_bool() == Some(true) || v.as_str() == Some("on");
    let priorities = value.get("prio-pfc")?.as_array()?.iter().zip(0..);
    let on = priorities.filter(|(v, _)| is_on(v)).map(|(_, n)| n);
    Some(on.collect())
}

/// Addresses by interface.
fn addresses(source: &dyn Source) -> Known<BTreeMap<String, Vec<IpAddr>>> {
    let text = match source.run("ip", &["-j", "addr"]) {
        Ok(text) => text,
        Err(e) => return Known::unknown(e.reason()),
    };
    let Ok(Value::Array(all)) = serde_json::from_str(&text) else {
        return Known::unknown("ip has no valid answer");
    };
    let mut out: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for interface in &all {
        let Some(name) = interface["ifname"].as_str() else {
            continue;
        };
        let infos = interface["addr_info"].as_array().into_iter().flatten();
        let own = infos.filter_map(|i| i["local"].as_str()?.parse::<IpAddr>().ok());
        out.entry(name.to_owned()).or_default().extend(own);
    }
    Known::Value(out)
}

/// Interrupts of a device, or of the nearest one above it that has any.
fn irqs(source: &dyn Source, place: &str, interrupts: &str) -> Known<Vec<Irq>> {
    let mut place = place;
    let numbers = loop {
        let names = source
            .list(&format!("{place}/msi_irqs"))
            .unwrap_or_default();
        if !names.is_empty() {
            break names;
        }
        match place.rsplit_once('/') {
            Some((parent, _)) if parent.starts_with("/sys/devices/") => place = parent,
            _ => return Known::unknown("its interrupts are not known"),
        }
    };
    let irq = |name: &String| {
        let irq: u32 = name.parse().ok()?;
        let cpus = |file: &str| source.read(&format!("/proc/irq/{irq}/{file}")).ok();
        let cpus = cpus("effective_affinity_list").or_else(|| cpus("smp_affinity_list"));
        Some(Irq {
            irq,
            count: count(interrupts, irq),
            cpus: cpu_list(&chosen(&cpus?))?,
        })
    };
    Known::Value(numbers.iter().filter_map(irq).collect())
}

/// Interrupts on all processors: the numbers after `NN:` up to the first word.
fn count(interrupts: &str, irq: u32) -> u64 {
    let name = format!("{irq}:");
    let line = interrupts
        .lines()
        .find_map(|l| l.trim_start().strip_prefix(&name));
    let words = line.into_iter().flat_map(str::split_whitespace);
    let numbers = words.map_while(|w| w.parse::<u64>().ok());
    numbers.fold(0, u64::saturating_add)
}
