//! The check of a configuration for reasons why a start with it would fail, without a start.
//!
//! **Called by** `wirepool serve --check`. **Invariants**: nothing is changed, no port is taken, and a running server with the same
//! configuration does not matter.

use crate::absent::warning_of;
use crate::api::{NotListening, Transport};
use crate::config::ConfigFile;
use crate::console::{self, Certificate};
use crate::{listen, metrics, taken};
use io::linux::addresses_of;
use io::net::Endpoint;
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

/// The findings about a configuration that is valid as such.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DryStart {
    /// Reasons why a start would fail, or a part would not be served.
    pub errors: Vec<String>,
    /// Conditions that a start would wait for, and names without an address.
    pub warnings: Vec<String>,
}

/// A listening address, and the setting that has it.
type Listening = (&'static str, SocketAddr);

/// Checks files, addresses and names of a configuration as a start would find them. Blocks for files and the resolver.
#[must_use]
pub fn dry_start(file: &ConfigFile) -> DryStart {
    let config = file.config();
    let mut found = DryStart::default();
    let mut all: Vec<Listening> = config.protocols().flat_map(|p| p.listening()).collect();
    all.extend(config.metrics.map(|a| (metrics::LISTEN, a)));
    all.extend(config.console.as_ref().map(|c| (console::LISTEN, c.listen)));
    found.errors.extend(taken_twice(&all));
    found.warnings.extend(all.iter().filter_map(absent));
    let rdma: Vec<Listening> = config
        .protocols()
        .flat_map(|p| p.listening_rdma())
        .collect();
    // Ports of RDMA are not those of TCP.
    found.errors.extend(taken_twice(&rdma));
    if !rdma.is_empty()
        && let Err(why) = io::rdma::support()
    {
        let missing = rdma.iter().map(|l| missing(*l, Transport::Rdma, &why));
        found.warnings.extend(missing.map(|m| warning_of(&m)));
    }
    for (what, path) in [
        ("[server] state_dir", &*config.server.state_dir),
        ("[server] control", &*config.server.control),
    ] {
        found.errors.extend(not_creatable(what, path));
    }
    let identity = config.console.as_ref().and_then(|c| c.identity.as_ref());
    if let Some(Err(e)) = identity.map(Certificate::configured) {
        found.errors.push(format!("[console]: {e}"));
    }
    for protocol in config.protocols() {
        found.errors.extend(protocol.unusable_files());
        let told = protocol.told();
        let unknown = |name: &str| {
            let reason = addresses_of(name).err()?;
            Some(format!(
                "the advertised host {name} has no address ({reason})"
            ))
        };
        let names = told.iter().filter_map(Endpoint::host_name);
        found.warnings.extend(names.filter_map(unknown));
    }
    found
}

/// Pairs of settings whose sockets cannot both be bound.
fn taken_twice(all: &[Listening]) -> Vec<String> {
    let mut out = Vec::new();
    for (n, (setting, address)) in all.iter().enumerate() {
        for (other_setting, other) in &all[..n] {
            let is_one_setting = setting == other_setting;
            if overlap(*address, *other, is_one_setting) {
                out.push(format!(
                    "{address} of {setting} is taken by {other} of {other_setting}"
                ));
            }
        }
    }
    out
}

/// Whether two listeners would take the same connections. In one setting, `0.0.0.0` is one with `[::]`.
fn overlap(a: SocketAddr, b: SocketAddr, is_one_setting: bool) -> bool {
    let takes = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    let is_merged = is_one_setting && (listen::merges(a, b) || listen::merges(b, a));
    a.port() == b.port() && a.port() != 0 && !is_merged && (a == b || takes(a, b) || takes(b, a))
}

/// A warning, if the machine does not have the address now.
fn absent((setting, address): &Listening) -> Option<String> {
    let mut any_port = *address;
    any_port.set_port(0);
    // A datagram socket takes no port of a listener.
    let error = UdpSocket::bind(any_port).err()?;
    let (address, setting) = (*address, *setting);
    let why = taken::absent(address, setting);
    let absent = missing((setting, address), Transport::Tcp, &why);
    (error.kind() == ErrorKind::AddrNotAvailable).then(|| warning_of(&absent))
}

/// An address that would not be served.
fn missing(
    (setting, address): Listening,
    transport: Transport,
    reason: &dyn Display,
) -> NotListening {
    NotListening {
        address,
        setting: setting.to_owned(),
        transport,
        reason: reason.to_string(),
    }
}

/// An error, if a directory or a file with its directories cannot be made.
fn not_creatable(what: &str, path: &Path) -> Option<String> {
    for above in path.ancestors().filter(|p| !p.as_os_str().is_empty()) {
        return match std::fs::metadata(above) {
            Ok(m) if m.is_dir() => None,
            Ok(_) if above == path && what.ends_with("control") => None,
            Ok(_) => Some(format!("{what}: {} is no directory", above.display())),
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => Some(format!("{what}: {}: {e}", above.display())),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(dir: &Path, text: &str) -> DryStart {
        let path = dir.join("w.toml");
        std::fs::write(&path, text).expect("written");
        dry_start(&ConfigFile::load(&path).expect("valid"))
    }

    /// Regression: `--check` said "valid" of configurations with which the server did not start.
    #[test]
    fn a_start_that_would_fail_is_found_without_a_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let twice = found(
            dir.path(),
            "[nvmf]\nlisten = [\"127.0.0.1:4420\"]\n[iscsi]\nlisten = [\"[::]:4420\"]\n[metrics]\nlisten = \"127.0.0.1:9000\"\n",
        );
        assert_eq!(
            twice.errors,
            ["[::]:4420 of [iscsi] listen is taken by 127.0.0.1:4420 of [nvmf] listen"]
        );
        assert_eq!(twice.warnings, [""; 0]);

        std::fs::write(dir.path().join("file"), "").expect("written");
        let text = "[server]\nstate_dir = \"file/state\"\n[nvmf]\nlisten = [\"192.0.2.1:4420\"]\nadvertise = [\"no-such-host.invalid:4420\"]\n[console]\nlisten = \"127.0.0.1:0\"\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n";
        let other = found(dir.path(), text);
        assert_eq!(other.errors.len(), 2, "{other:?}");
        assert!(other.errors[0].contains("[server] state_dir"), "{other:?}");
        assert!(other.errors[1].contains("k.pem"), "{other:?}");
        assert_eq!(other.warnings.len(), 2, "{other:?}");
        assert!(other.warnings[0].contains("192.0.2.1:4420 of [nvmf] listen"));
        assert!(other.warnings[1].contains("no-such-host.invalid"));

        // The ports of both transports are different ones.
        let rdma = "[nvmf]\nlisten = [\"127.0.0.1:4420\"]\nlisten_rdma = [\"0.0.0.0:4420\"]\n";
        let rdma = found(dir.path(), rdma);
        assert_eq!(rdma.errors, [""; 0]);
        let reason = io::rdma::support().err().map(|why| why.to_string());
        assert_eq!(rdma.warnings.len(), reason.iter().len(), "{rdma:?}");
        for (warning, reason) in rdma.warnings.iter().zip(reason) {
            assert!(
                warning.contains("0.0.0.0:4420 of [nvmf] listen_rdma"),
                "{warning}"
            );
            assert!(warning.contains(&reason), "{warning}");
        }
        let twice = "[nvmf]\nlisten_rdma = [\"0.0.0.0:4420\", \"10.0.0.1:4420\"]\n";
        assert_eq!(found(dir.path(), twice).errors.len(), 1);

        let good = "[nvmf]\nlisten = [\"[::]:4420\", \"0.0.0.0:4420\", \"127.0.0.1:0\"]\ndiscovery = [\"127.0.0.1:8009\"]\n";
        assert_eq!(found(dir.path(), good), DryStart::default());
    }
}
