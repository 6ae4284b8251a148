//! The discovery log (Base 5.16.1.23, 8.5; TCP 3.1.1): where a host finds the subsystems it may connect to.
//!
//! **Called by** Get Log Page on discovery controllers. **Invariants**: a host sees only subsystems that it may connect to, each with the
//! ports of the transports that serve it; the generation counter changes with the content of the page.

use super::config::{PortInfo, PortRole, Transport};
use super::limits::ADMIN_DEPTH_MAX;
use super::shared::TargetShared;
use crate::wire::log::discovery::{
    CNTLID_DYNAMIC, RDMA_CMS_IP, RDMA_PRTYPE_UNSPECIFIED, RDMA_QPTYPE_CONNECTED,
    TREQ_NO_SQ_FLOW_CONTROL,
};
use crate::wire::log::{
    AddressFamily, DiscoveryEntry, DiscoveryFlags, DiscoveryLog, SubsystemType,
};
use crate::wire::nqn::Nqn;
use crate::wire::text::put_padded;
use io::net::address;
use std::net::{IpAddr, SocketAddr};
use zerocopy::FromZeros;
use zerocopy::little_endian::U16;

/// The page as `host` sees it. A port that listens on every address is shown with `here`, our
/// address on the connection; one of the loopback interface only to hosts that came over it.
pub(super) fn log(target: &TargetShared, host: &Nqn, here: Option<IpAddr>) -> DiscoveryLog {
    let (generation, mut ports, referrals, subsystems) = target.discovery();
    ports.retain_mut(|p| told_at(&mut p.addr, here));
    let mut entries = Vec::new();
    for port in &ports {
        // Base 8.5.2: this discovery subsystem itself, so that a host learns that it may stay connected.
        let mut own = entry(
            (port.transport, port.addr),
            port.id,
            SubsystemType::CurrentDiscovery,
            &Nqn::discovery(),
        );
        own.eflags = U16::new((DiscoveryFlags::PERSISTENT | DiscoveryFlags::DUPLICATE_INFO).bits());
        entries.push(own);
    }
    for subsystem in subsystems.iter().filter(|s| s.allows(host)) {
        let io = |p: &&PortInfo| p.role == PortRole::Io && subsystem.serves(p.transport);
        entries.extend(ports.iter().filter(io).map(|p| {
            entry(
                (p.transport, p.addr),
                p.id,
                SubsystemType::Nvm,
                &subsystem.nqn,
            )
        }));
    }
    for referral in &referrals {
        entries.push(entry(
            (Transport::Tcp, referral.addr),
            0,
            SubsystemType::Referral,
            &referral.nqn,
        ));
    }
    DiscoveryLog {
        generation,
        entries,
    }
}

/// Sets the address to that which a host that came to `here` is told. False if the host cannot reach it.
fn told_at(addr: &mut SocketAddr, here: Option<IpAddr>) -> bool {
    let found = match here {
        Some(here) => address::reached_at(*addr, here),
        // The connection has no address any more.
        None => Some(address::told(*addr)).filter(|a| !a.ip().is_unspecified()),
    };
    *addr = found.unwrap_or(*addr);
    found.is_some()
}

fn entry(
    (transport, addr): (Transport, SocketAddr),
    port: u16,
    kind: SubsystemType,
    nqn: &Nqn,
) -> DiscoveryEntry {
    let addr = address::told(addr);
    let mut e = DiscoveryEntry::new_zeroed();
    e.trtype = transport.code() as u8;
    if transport == Transport::Rdma {
        e.tsas[..3].copy_from_slice(&[RDMA_QPTYPE_CONNECTED, RDMA_PRTYPE_UNSPECIFIED, RDMA_CMS_IP]);
    }
    e.adrfam = if addr.is_ipv4() {
        AddressFamily::Ipv4
    } else {
        AddressFamily::Ipv6
    } as u8;
    e.subtype = kind as u8;
    e.treq = TREQ_NO_SQ_FLOW_CONTROL;
    e.portid = U16::new(port);
    e.cntlid = U16::new(CNTLID_DYNAMIC);
    e.asqsz = U16::new(ADMIN_DEPTH_MAX);
    put_padded(&mut e.trsvcid, &addr.port().to_string());
    put_padded(&mut e.traddr, &addr.ip().to_string());
    e.subnqn = nqn.into();
    e
}
