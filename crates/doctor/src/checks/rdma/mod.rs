//! Checks of RDMA: the chapter "rdma" of the doctor.
//!
//! **Owns** the choice of ports that a check looks at. **Called by** [`super`]. **Invariants**: those of [`super`]; a machine without RDMA
//! devices is left alone.

pub(super) mod link;
pub(super) mod roce;
pub(crate) mod software;

use crate::check::Judge;
use crate::facts::{ETHERNET, Facts, INFINIBAND, Nic, PORT_ACTIVE, RdmaPort};
use crate::step::Step;

/// A part of rdma-core or of its companions, as package.
#[derive(Clone, Copy)]
enum Package {
    /// Libraries, and the providers of drivers.
    Core,
    /// The subnet manager opensm.
    SubnetManager,
}

/// The command that installs a package, or the work if the distribution is not known.
fn install(facts: &Facts, package: Package) -> Step {
    let empty = String::new();
    // A distribution that is not known only makes the step less exact.
    let distribution = facts.kernel.distribution.value().unwrap_or(&empty);
    let is = |names: &[&str]| distribution.split_whitespace().any(|w| names.contains(&w));
    let (manager, packages): (&[&str], &[&str]) = if is(&["debian", "ubuntu"]) {
        let packages: &[&str] = match package {
            Package::Core => &[
                "rdma-core",
                "libibverbs1",
                "librdmacm1",
                "ibverbs-providers",
            ],
            Package::SubnetManager => &["opensm"],
        };
        (&["apt-get", "install", "-y"], packages)
    } else if is(&["rhel", "fedora", "centos"]) {
        let packages: &[&str] = match package {
            Package::Core => &["rdma-core", "libibverbs", "librdmacm"],
            Package::SubnetManager => &["opensm"],
        };
        (&["dnf", "install", "-y"], packages)
    } else if is(&["suse", "sles", "opensuse"]) {
        let packages: &[&str] = match package {
            Package::Core => &["rdma-core", "libibverbs", "libibverbs1", "librdmacm1"],
            Package::SubnetManager => &["opensm"],
        };
        (&["zypper", "--non-interactive", "install"], packages)
    } else {
        return Step::advice(match package {
            Package::Core => {
                "install rdma-core with its libraries libibverbs and librdmacm, and the providers of the card's driver"
            }
            Package::SubnetManager => "install opensm",
        });
    };
    Step::run(&[manager, packages].concat())
}

fn ports<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f RdmaPort)> {
    let ports = j.know("", &facts.rdma.ports).into_iter().flatten();
    ports.map(|p| (p.name(), p)).collect()
}

/// Ports on InfiniBand.
fn infiniband<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f RdmaPort)> {
    let mut ports = ports(facts, j);
    ports.retain(|(name, p)| j.know(name, &p.link_layer).is_some_and(|l| l == INFINIBAND));
    ports
}

/// Ports that are active.
fn active<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f RdmaPort)> {
    let mut ports = ports(facts, j);
    ports.retain(|(name, p)| j.know(name, &p.state).is_some_and(|s| s == PORT_ACTIVE));
    ports
}

/// Ports with RoCE that are active.
fn roce<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f RdmaPort)> {
    let mut ports = active(facts, j);
    ports.retain(|(name, p)| {
        let is_ethernet = j.know(name, &p.link_layer).is_some_and(|l| l == ETHERNET);
        is_ethernet && j.know(name, &p.is_iwarp) == Some(&false)
    });
    ports
}

/// The network interface of a port.
fn nic<'f>(facts: &'f Facts, j: &mut Judge, name: &str, port: &RdmaPort) -> Option<&'f Nic> {
    let nics = j.know(name, &facts.nics)?;
    let found = nics.iter().find(|n| n.name == port.netdev);
    if found.is_none() {
        let reason = "its network interface is not known";
        j.know::<()>(name, &crate::Known::unknown(reason));
    }
    found
}

/// The card of a PCI address: without the function's number.
fn card(pci: &str) -> &str {
    pci.split('.').next().unwrap_or(pci)
}

/// Whether two ports are of one card.
fn share_card(a: &RdmaPort, b: &RdmaPort) -> bool {
    !a.pci.is_empty() && card(&a.pci) == card(&b.pci)
}
