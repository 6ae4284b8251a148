//! Capture of RDMA devices from `/sys/class/infiniband`.
//!
//! **Called by** [`super`].

use crate::facts::{Gid, Ipoib, Known, Rdma, RdmaPort};
use crate::source::{Source, SourceExt, Unread};
use std::collections::BTreeMap;

/// Most entries of a table of GIDs that are read.
const GIDS_MAX: usize = 256;
/// Counters that mean lost or repeated packets, or a bad link, in `counters` and `hw_counters`.
const COUNTERS: &[(&str, &str)] = &[
    ("counters", "symbol_error"),
    ("counters", "link_error_recovery"),
    ("counters", "link_downed"),
    ("counters", "port_rcv_errors"),
    ("hw_counters", "out_of_sequence"),
    ("hw_counters", "packet_seq_err"),
    ("hw_counters", "local_ack_timeout_err"),
];
/// ARPHRD_INFINIBAND in `/sys/class/net/*/type`.
const TYPE_INFINIBAND: &str = "32";

pub(super) fn rdma(source: &dyn Source) -> Rdma {
    let devices = source.list_or_empty("/sys/class/infiniband");
    Rdma {
        ports: devices.map(|devices| {
            let all = devices.iter().flat_map(|device| ports(source, device));
            all.collect()
        }),
        ipoib: ipoib(source),
    }
}

fn ports(source: &dyn Source, device: &str) -> Vec<RdmaPort> {
    let directory = format!("/sys/class/infiniband/{device}");
    let ports = source
        .list(&format!("{directory}/ports"))
        .unwrap_or_default();
    let numbers = ports.iter().filter_map(|p| p.parse().ok());
    numbers
        .map(|n| port(source, device, &directory, n))
        .collect()
}

fn port(source: &dyn Source, device: &str, directory: &str, port: u32) -> RdmaPort {
    let place = format!("{directory}/ports/{port}");
    let gids = gids(source, &place);
    let first = source.read(&format!("{place}/gid_attrs/ndevs/0")).ok();
    let of_device = source.list(&format!("{directory}/device/net"));
    let netdev = first.or_else(|| of_device.ok()?.into_iter().next());
    let netdev = netdev.unwrap_or_default();
    let state = source.text(&format!("{place}/state"));
    RdmaPort {
        device: device.to_owned(),
        port,
        pci: source
            .link_name(&format!("{directory}/device"))
            .unwrap_or_default(),
        // such as `4: ACTIVE`
        state: state.map(|t| {
            t.split_once(": ")
                .map_or(t.clone(), |(_, word)| word.to_owned())
        }),
        rate: source.text(&format!("{place}/rate")),
        link_layer: source.text(&format!("{place}/link_layer")),
        sm_lid: source.text(&format!("{place}/sm_lid")).map(|t| {
            let digits = t.trim_start_matches("0x");
            u32::from_str_radix(digits, 16).unwrap_or(0)
        }),
        node_guid: source.text(&format!("{directory}/node_guid")),
        is_virtual_function: source.exists(&format!("{directory}/device/physfn")),
        gids,
        errors: errors(source, &place),
        is_ecn_on: ecn(source, &netdev),
        netdev,
    }
}

/// GIDs that are not zero. Entries that are not in use cannot be read.
fn gids(source: &dyn Source, place: &str) -> Known<Vec<Gid>> {
    let names = match source.list(&format!("{place}/gids")) {
        Ok(names) => names,
        Err(e) => return Known::unknown(e.reason()),
    };
    let entry = |name: &String| {
        let index = name.parse().ok()?;
        let gid = source.read(&format!("{place}/gids/{name}")).ok()?;
        let is_set = gid.chars().any(|c| !matches!(c, '0' | ':'));
        let kind = source.read(&format!("{place}/gid_attrs/types/{name}")).ok();
        is_set.then(|| Gid {
            index,
            gid,
            kind: kind.unwrap_or_default(),
        })
    };
    Known::Value(names.iter().take(GIDS_MAX).filter_map(entry).collect())
}

fn errors(source: &dyn Source, place: &str) -> Known<BTreeMap<String, u64>> {
    let value = |(directory, name): &(&str, &str)| {
        let path = format!("{place}/{directory}/{name}");
        let number = source.read(&path).ok()?.parse().ok()?;
        Some(((*name).to_owned(), number))
    };
    let all: BTreeMap<String, u64> = COUNTERS.iter().filter_map(value).collect();
    match all.is_empty() {
        true => Known::unknown(format!("{place} has no counters")),
        false => Known::Value(all),
    }
}

/// Whether a priority marks congestion. Only some drivers show it.
fn ecn(source: &dyn Source, netdev: &str) -> Known<bool> {
    let directory = format!("/sys/class/net/{netdev}/ecn/roce_np/enable");
    match source.list(&directory) {
        Ok(names) => {
            let is_on = |n: &String| {
                source
                    .read(&format!("{directory}/{n}"))
                    .is_ok_and(|v| v == "1")
            };
            Known::Value(names.iter().any(is_on))
        }
        Err(Unread::Missing(_)) => Known::unknown("the driver does not show its ECN settings"),
        Err(e) => Known::unknown(e.reason()),
    }
}

fn ipoib(source: &dyn Source) -> Known<Vec<Ipoib>> {
    source.list_or_empty("/sys/class/net").map(|names| {
        let file = |name: &str, file: &str| format!("/sys/class/net/{name}/{file}");
        let is_it = |n: &&String| {
            source
                .read(&file(n, "type"))
                .is_ok_and(|t| t == TYPE_INFINIBAND)
        };
        let interface = |name: &String| Ipoib {
            name: name.clone(),
            mode: source.text(&file(name, "mode")),
            mtu: source.parse(&file(name, "mtu")),
        };
        names.iter().filter(is_it).map(interface).collect()
    })
}
