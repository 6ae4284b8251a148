//! Capture of RDMA devices from `/sys/class/infiniband`, and of the parts of rdma-core that are installed.
//!
//! **Called by** [`super`].

use super::bus::pcie;
use crate::facts::{DeviceNode, Functions, Gid, Ipoib, Known, Rate, Rdma, RdmaPort};
use crate::source::{Source, SourceExt, Unread, known};
use std::collections::BTreeMap;

/// Most entries of a table of GIDs that are read.
const GIDS_MAX: usize = 256;
/// Most virtual functions of a device that are read.
const FUNCTIONS_MAX: u32 = 256;
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
/// Settings of the connection manager (Documentation/ABI/testing/configfs-rdma_cm).
const CM_DIRECTORY: &str = "/sys/kernel/config/rdma_cm";
/// Libraries that the server loads.
const LIBRARIES: &[&str] = &["libibverbs.so.1", "librdmacm.so.1"];
/// Directories that the loader searches beside those of `/etc/ld.so.conf.d`.
const LIBRARY_DIRECTORIES: &[&str] = &[
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];

pub(super) fn rdma(source: &dyn Source) -> Rdma {
    let directories = library_directories(source);
    Rdma {
        ports: all_ports(source),
        ipoib: ipoib(source),
        libraries: libraries(source, &directories),
        version: version(source, &directories),
        providers: providers(source, &directories),
        nodes: nodes(source),
        has_nvme_rdma: has_nvme_rdma(source),
    }
}

pub(super) fn all_ports(source: &dyn Source) -> Known<Vec<RdmaPort>> {
    let devices = source.list_or_empty("/sys/class/infiniband");
    devices.map(|devices| {
        let all = devices.iter().flat_map(|device| ports(source, device));
        all.collect()
    })
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
    let is_virtual_function = source.exists(&format!("{directory}/device/physfn"));
    let mode = match source.read(&format!("{directory}/device/mlx4_port{port}")) {
        Ok(mode) => Known::Value(Some(mode)),
        Err(Unread::Missing(_)) => Known::Value(None),
        Err(e) => Known::unknown(e.reason()),
    };
    RdmaPort {
        device: device.to_owned(),
        port,
        pci: source
            .link_name(&format!("{directory}/device"))
            .unwrap_or_default(),
        driver: driver(source, device, directory),
        hca_type: source
            .read(&format!("{directory}/hca_type"))
            .unwrap_or_default(),
        firmware: source
            .read(&format!("{directory}/fw_ver"))
            .unwrap_or_default(),
        state: word(source, &format!("{place}/state")),
        phys_state: word(source, &format!("{place}/phys_state")),
        rate: rate(source, &format!("{place}/rate")),
        pcie: match source.resolve(&format!("{directory}/device")) {
            Ok(device) => pcie(source, &device),
            Err(_) => Known::Value(None),
        },
        link_layer: source.text(&format!("{place}/link_layer")),
        // such as `1: CA`, `4: RNIC`
        is_iwarp: word(source, &format!("{directory}/node_type")).map(|kind| kind == "RNIC"),
        mode,
        sm_lid: number(source, &format!("{place}/sm_lid")),
        node_guid: source.text(&format!("{directory}/node_guid")),
        is_virtual_function,
        functions: match is_virtual_function {
            true => Known::Value(None),
            false => functions(source, &format!("{directory}/device")),
        },
        cm_mode: of_connections(source, device, port, "default_roce_mode"),
        traffic_class: traffic_class(source, device, port),
        gids,
        errors: errors(source, &place),
        is_ecn_on: ecn(source, &netdev),
        netdev,
    }
}

/// The second half of a text such as `4: ACTIVE`.
fn word(source: &dyn Source, path: &str) -> Known<String> {
    source.text(path).map(|t| match t.split_once(": ") {
        Some((_, word)) => word.to_owned(),
        None => t,
    })
}

/// A number such as `0x1f`.
fn number(source: &dyn Source, path: &str) -> Known<u32> {
    let text = match source.read(path) {
        Ok(text) => text,
        Err(e) => return Known::unknown(e.reason()),
    };
    match u32::from_str_radix(text.trim_start_matches("0x"), 16) {
        Ok(number) => Known::Value(number),
        Err(_) => Known::unknown(format!("{path} has no valid value")),
    }
}

/// The driver of a device. Devices of `rxe` and `siw` have the parent, and so the driver, of the network card below.
fn driver(source: &dyn Source, device: &str, directory: &str) -> String {
    let description = source.read(&format!("{directory}/node_desc"));
    let has = |prefix: &str| description.as_ref().is_ok_and(|d| d.starts_with(prefix));
    // Only rxe has a file with the name of the interface below.
    let is_rxe = source.read(&format!("{directory}/parent")).is_ok();
    if is_rxe || has("rxe") || device.starts_with("rxe") {
        return "rxe".to_owned();
    }
    if has("Software iWARP") || device.starts_with("siw") {
        return "siw".to_owned();
    }
    source
        .link_name(&format!("{directory}/device/driver"))
        .unwrap_or_default()
}

/// A rate such as `100 Gb/sec (4X EDR)`.
fn rate(source: &dyn Source, path: &str) -> Known<Rate> {
    let text = match source.read(path) {
        Ok(text) => text,
        Err(e) => return Known::unknown(e.reason()),
    };
    let parse = || {
        let gbps: f64 = text.split_whitespace().next()?.parse().ok()?;
        let (_, inner) = text.split_once('(')?;
        let lanes = inner.split_once('X')?.0.parse().ok()?;
        (gbps.is_finite() && gbps >= 0.0).then_some(Rate { gbps, lanes })
    };
    parse().map_or(
        Known::unknown(format!("{path} has no valid value")),
        Known::Value,
    )
}

fn functions(source: &dyn Source, device: &str) -> Known<Option<Functions>> {
    let most = match source.parse::<u32>(&format!("{device}/sriov_totalvfs")) {
        Known::Value(most) if most > 0 => most,
        _ => return Known::Value(None),
    };
    source
        .parse::<u32>(&format!("{device}/sriov_numvfs"))
        .map(|count| {
            // mlx5 shows GUIDs of functions with InfiniBand only.
            let has_none = |n: &u32| {
                let guid = source.read(&format!("{device}/sriov/{n}/port"));
                guid.is_ok_and(|g| g.chars().all(|c| matches!(c, '0' | ':')))
            };
            let numbers = 0..count.min(FUNCTIONS_MAX);
            Some(Functions {
                count,
                most,
                without_guid: numbers.filter(has_none).collect(),
            })
        })
}

/// A default of connections. The directory of a device is there after one was set (it is made with mkdir); before, the
/// kernel's defaults apply.
fn of_connections(
    source: &dyn Source,
    device: &str,
    port: u32,
    file: &str,
) -> Known<Option<String>> {
    match source.read(&format!("{CM_DIRECTORY}/{device}/ports/{port}/{file}")) {
        Ok(text) => Known::Value(Some(text)),
        Err(Unread::Missing(_)) if source.exists(CM_DIRECTORY) => Known::Value(None),
        Err(Unread::Missing(_)) => Known::unknown(format!(
            "{CM_DIRECTORY} does not exist: the module rdma_cm is not loaded, or configfs is not mounted"
        )),
        Err(e) => Known::unknown(e.reason()),
    }
}

fn traffic_class(source: &dyn Source, device: &str, port: u32) -> Known<u32> {
    let file = "default_roce_tos";
    match of_connections(source, device, port, file) {
        Known::Value(Some(text)) => match text.parse() {
            Ok(class) => Known::Value(class),
            Err(_) => Known::unknown(format!("{file} of {device} has no valid value")),
        },
        Known::Value(None) => Known::Value(0),
        Known::Unknown { unknown } => Known::unknown(unknown),
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
        let attribute = |kind: &str| {
            let text = source.read(&format!("{place}/gid_attrs/{kind}/{name}"));
            text.unwrap_or_default()
        };
        is_set.then(|| Gid {
            index,
            gid,
            kind: attribute("types"),
            netdev: attribute("ndevs"),
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

/// Directories of libraries that exist.
fn library_directories(source: &dyn Source) -> Vec<String> {
    let mut directories: Vec<String> = LIBRARY_DIRECTORIES.iter().map(|d| (*d).into()).collect();
    let configured = source.list("/etc/ld.so.conf.d").unwrap_or_default();
    for name in configured.iter().filter(|n| n.ends_with(".conf")) {
        let text = source.read(&format!("/etc/ld.so.conf.d/{name}"));
        let text = text.unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|l| l.starts_with('/'));
        directories.extend(lines.map(str::to_owned));
    }
    directories.retain(|d| source.exists(d));
    directories
}

fn no_libraries<T>() -> Known<T> {
    Known::unknown("no directory of libraries can be read")
}

fn libraries(source: &dyn Source, directories: &[String]) -> Known<Vec<String>> {
    if directories.is_empty() {
        return no_libraries();
    }
    let is_there = |library: &&&str| {
        let mut directories = directories.iter();
        directories.any(|d| source.exists(&format!("{d}/{library}")))
    };
    let found = LIBRARIES.iter().filter(is_there);
    Known::Value(found.map(|l| (*l).to_owned()).collect())
}

/// The version of rdma-core: what follows the third number of the library's name, which is a link's target.
fn version(source: &dyn Source, directories: &[String]) -> Known<Option<String>> {
    if directories.is_empty() {
        return no_libraries();
    }
    let mut names = directories
        .iter()
        .filter_map(|d| source.link_name(&format!("{d}/libibverbs.so.1")));
    Known::Value(names.find_map(|name| {
        let (_, version) = name.strip_prefix("libibverbs.so.1.")?.split_once('.')?;
        Some(version.to_owned())
    }))
}

/// Providers of rdma-core: `libibverbs/libmlx5-rdmav34.so` is `mlx5`.
fn providers(source: &dyn Source, directories: &[String]) -> Known<Vec<String>> {
    if directories.is_empty() {
        return no_libraries();
    }
    let mut found = Vec::new();
    for directory in directories {
        let names = source.list(&format!("{directory}/libibverbs"));
        for name in names.unwrap_or_default() {
            let provider = name
                .strip_prefix("lib")
                .and_then(|n| n.split_once("-rdmav"));
            if let Some((provider, _)) = provider
                && !found.iter().any(|f| f == provider)
            {
                found.push(provider.to_owned());
            }
        }
    }
    Known::Value(found)
}

/// Devices of programs: one `uverbs` for each device, and `rdma_cm`.
fn nodes(source: &dyn Source) -> Known<Vec<DeviceNode>> {
    let directory = "/dev/infiniband";
    source.list_or_empty(directory).map(|names| {
        let is_used = |n: &&String| n.starts_with("uverbs") || *n == "rdma_cm";
        let node = |name: &String| {
            let path = format!("{directory}/{name}");
            let stat = source.stat(&path).ok()?;
            Some(DeviceNode {
                path,
                mode: stat.mode,
                uid: stat.uid,
                gid: stat.gid,
            })
        };
        names.iter().filter(is_used).filter_map(node).collect()
    })
}

fn has_nvme_rdma(source: &dyn Source) -> Known<bool> {
    if source.exists("/sys/module/nvme_rdma") {
        return Known::Value(true);
    }
    let release = match source.read("/proc/sys/kernel/osrelease") {
        Ok(release) => release,
        Err(e) => return Known::unknown(e.reason()),
    };
    let directory = format!("/lib/modules/{release}");
    let dependencies = known(source.read(&format!("{directory}/modules.dep")));
    dependencies.map(|text| {
        let built_in = source.read(&format!("{directory}/modules.builtin"));
        let is_in = |text: &str| text.contains("/nvme-rdma.ko");
        is_in(&text) || built_in.is_ok_and(|text| is_in(&text))
    })
}
