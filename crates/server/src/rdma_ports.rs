//! The RDMA port behind an address of this machine, and the reason why it cannot be used.
//!
//! **Called by** the control API, for a session over RDMA, and for one over TCP to a server that listens for RDMA. **Invariants**: pure; without the knowledge of a
//! reason there is none.

use doctor::facts::{Known, PortSummary, RdmaPort};
use std::net::IpAddr;

/// Why a host cannot use RDMA at our address `local`. `None` if it can, or the reason is not known.
pub(crate) fn trouble(local: IpAddr, ports: &Known<Vec<RdmaPort>>) -> Option<String> {
    let ports = ports.value().filter(|_| !local.is_loopback())?;
    if ports.is_empty() {
        return Some("this machine has no RDMA device".to_owned());
    }
    let local = local.to_canonical();
    let here: Vec<&RdmaPort> = ports.iter().filter(|p| p.has_gid(local)).collect();
    match here.first() {
        Some(_) if here.iter().any(|p| p.is_active() != Some(false)) => None,
        Some(p) => {
            let state = p.state.value().map_or("not known", String::as_str);
            let name = p.name();
            Some(format!(
                "the RDMA port {name} of {local} is {state}: check cable and switch port"
            ))
        }
        None if ports.iter().any(|p| p.is_infiniband() != Some(false)) => None,
        None => Some(format!(
            "no RDMA device has a GID of {local}: it is an address of another interface (`wirepool rdma status`)"
        )),
    }
}

/// The port of `device` that our address `local` belongs to, with the type of the GID that its connections take: the port whose table of GIDs
/// has the address; over InfiniBand, where GIDs are no addresses, the only port. `None` if it is not known.
pub(crate) fn behind(
    device: &str,
    local: IpAddr,
    ports: &Known<Vec<RdmaPort>>,
) -> Option<PortSummary> {
    let local = local.to_canonical();
    let of_device = ports.value()?.iter().filter(|p| p.device == device);
    let of_device: Vec<&RdmaPort> = of_device.collect();
    let found = of_device.iter().find(|p| p.has_gid(local));
    let p = match (found, of_device.as_slice()) {
        (Some(p), _) => p,
        (None, [only]) => only,
        (None, _) => return None,
    };
    Some(PortSummary {
        gid_types: p
            .gid_type_of(local)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        ..p.summary()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::facts::{Gid, INFINIBAND, Rate};

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

    /// The GID that a connection takes is that of the connection manager's setting, and RoCE v2 without one.
    #[test]
    fn the_port_and_gid_of_a_connection_are_found() {
        let gid = "0000:0000:0000:0000:0000:ffff:0a00:0001";
        let entry = |kind: &str| Gid {
            gid: gid.into(),
            kind: kind.into(),
            ..Gid::default()
        };
        let mut first = port("ACTIVE", "Ethernet", gid);
        first.gids = Known::Value(vec![entry("IB/RoCE v1"), entry("RoCE v2")]);
        first.rate = Known::Value(Rate {
            gbps: 25.0,
            lanes: 1,
        });
        let second = RdmaPort {
            port: 2,
            ..port("DOWN", "Ethernet", "fe80::1")
        };
        let (device, here) = (first.device.clone(), IpAddr::from([10, 0, 0, 1]));
        let known = |ports: &[RdmaPort]| Known::Value(ports.to_vec());
        let both = known(&[first.clone(), second.clone()]);
        let found = behind(&device, here, &both).expect("it is the first port");
        assert_eq!(
            (found.port, found.state.as_deref(), found.rate_gbps),
            (first.port, Some("ACTIVE"), Some(25.0))
        );
        assert_eq!(found.gid_types, ["RoCE v2"]);
        assert_eq!(behind("other", here, &both), None);
        let elsewhere = IpAddr::from([10, 0, 0, 2]);
        assert_eq!(behind(&device, elsewhere, &both), None, "two ports");
        first.cm_mode = Known::Value(Some("IB/RoCE v1".into()));
        let v1 = behind(&device, here, &known(&[first.clone()]));
        assert_eq!(v1.expect("the only port").gid_types, ["IB/RoCE v1"]);
        first.is_iwarp = Known::Value(true);
        let iwarp = behind(&device, elsewhere, &known(&[first]));
        assert_eq!(iwarp.expect("the only port").gid_types, ["iWARP"]);
        let ib = behind(
            &device,
            here,
            &known(&[port("ACTIVE", INFINIBAND, "fe80::1")]),
        );
        assert_eq!(ib.expect("the only port").gid_types, [INFINIBAND]);
    }
}
