//! The RDMA port behind an address of this machine, and the reason why it cannot be used.
//!
//! **Called by** the control API, for a session over TCP to a server that listens for RDMA. **Invariants**: pure; without the knowledge of a
//! reason there is none.

use doctor::facts::{Known, RdmaPort};
use std::net::IpAddr;

/// The state of a port that can be used.
const ACTIVE: &str = "ACTIVE";
/// The link layer whose GIDs are no IP addresses.
const INFINIBAND: &str = "InfiniBand";

/// Why a host cannot use RDMA at our address `local`. `None` if it can, or the reason is not known.
pub(crate) fn trouble(local: IpAddr, ports: &Known<Vec<RdmaPort>>) -> Option<String> {
    let ports = ports.value().filter(|_| !local.is_loopback())?;
    if ports.is_empty() {
        return Some("this machine has no RDMA device".to_owned());
    }
    let local = local.to_canonical();
    let here: Vec<&RdmaPort> = ports.iter().filter(|p| has_gid(p, local)).collect();
    let is_active = |p: &&RdmaPort| p.state.value().is_none_or(|state| state == ACTIVE);
    match here.first() {
        Some(_) if here.iter().any(is_active) => None,
        Some(p) => {
            let state = p.state.value().map_or("not known", String::as_str);
            let (device, port) = (&p.device, p.port);
            Some(format!(
                "the RDMA port {device}/{port} of {local} is {state}: check cable and switch port"
            ))
        }
        None if ports.iter().any(is_infiniband) => None,
        None => Some(format!(
            "no RDMA device has a GID of {local}: it is an address of another interface (`wirepool rdma status`)"
        )),
    }
}

fn is_infiniband(p: &RdmaPort) -> bool {
    p.link_layer.value().is_none_or(|l| l == INFINIBAND)
}

/// Whether an entry of the port's table of GIDs is this address.
fn has_gid(p: &RdmaPort, address: IpAddr) -> bool {
    let mut gids = p.gids.value().into_iter().flatten();
    gids.any(|g| g.address() == Some(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::facts::Gid;

    fn port(state: &str, link: &str, gid: &str) -> RdmaPort {
        RdmaPort {
            device: "mlx5_0".into(),
            port: 1,
            state: Known::Value(state.into()),
            link_layer: Known::Value(link.into()),
            gids: Known::Value(vec![Gid {
                index: 3,
                gid: gid.into(),
                kind: "RoCE v2".into(),
                ..Gid::default()
            }]),
            ..RdmaPort::default()
        }
    }

    fn reason(ports: Vec<RdmaPort>) -> Option<String> {
        trouble([10, 0, 0, 1].into(), &Known::Value(ports))
    }

    const HERE: &str = "0000:0000:0000:0000:0000:ffff:0a00:0001";
    const ELSEWHERE: &str = "0000:0000:0000:0000:0000:ffff:0a01:0001";

    #[test]
    fn the_port_of_an_address_is_judged() {
        assert_eq!(reason(vec![port("ACTIVE", "Ethernet", HERE)]), None);
        let down = reason(vec![port("DOWN", "Ethernet", HERE)]).expect("a reason");
        assert!(down.contains("mlx5_0/1 of 10.0.0.1 is DOWN"), "{down}");
        let other = reason(vec![port("ACTIVE", "Ethernet", ELSEWHERE)]).expect("a reason");
        assert!(other.contains("a GID of 10.0.0.1"), "{other}");
        let none = reason(Vec::new()).expect("a reason");
        assert!(none.contains("no RDMA device"), "{none}");
    }

    #[test]
    fn nothing_is_said_without_knowledge() {
        let gid = "fe80:0000:0000:0000:0002:c903:0001:0001";
        assert_eq!(reason(vec![port("ACTIVE", "InfiniBand", gid)]), None);
        let unknown = Known::default();
        assert_eq!(trouble([10, 0, 0, 1].into(), &unknown), None);
        let none = Known::Value(Vec::new());
        assert_eq!(trouble([127, 0, 0, 1].into(), &none), None);
        let both = vec![
            port("DOWN", "Ethernet", HERE),
            port("ACTIVE", "Ethernet", HERE),
        ];
        assert_eq!(reason(both), None, "one of two ports is enough");
    }
}
