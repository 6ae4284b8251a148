//! Whether hosts can use RDMA, and the reason why a host over TCP cannot.
//!
//! **Called by** the protocol. **Invariants**: a reason is something that the server knows; a host may prefer TCP without one.

use crate::api::{ListenRole, NvmfRole, Transport};
use crate::protocols::protocol::AddressState;
use std::net::{IpAddr, SocketAddr};

/// The addresses of the configuration for RDMA, by their state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RdmaState {
    /// Addresses that are served.
    listening: Vec<SocketAddr>,
    /// The reason why one is not served.
    missing: Option<String>,
}

impl RdmaState {
    /// The state of a server with these addresses.
    pub(super) fn of(served: &AddressState<'_>) -> RdmaState {
        let listening = served.listening.iter();
        let ours = listening
            .filter(|l| l.transport == Transport::Rdma && l.role == ListenRole::Nvmf(NvmfRole::Io));
        let missing = served.missing.iter();
        let mut missing = missing.filter(|m| m.setting == super::config::LISTEN_RDMA);
        RdmaState {
            listening: ours.map(|l| l.address).collect(),
            missing: missing.next().map(|m| m.reason.clone()),
        }
    }

    /// Why a host that came to `local` over TCP cannot use RDMA there. `None` if RDMA is not configured, or nothing that the server knows
    /// is in the way. `export` is the name of its subsystem, and `is_served` tells whether RDMA is one of its transports.
    pub(super) fn reason(
        &self,
        local: IpAddr,
        (export, is_served): (&str, bool),
    ) -> Option<String> {
        if self.listening.is_empty() {
            return self.missing.clone();
        }
        if !is_served {
            return Some(format!(
                "the subsystem is not served over RDMA: `wirepool export transport {export} tcp,rdma`"
            ));
        }
        let is_here = |a: &SocketAddr| a.ip() == local || a.ip().is_unspecified();
        if self.listening.iter().any(is_here) {
            return None;
        }
        let all: Vec<String> = self.listening.iter().map(ToString::to_string).collect();
        Some(format!(
            "the host came to {local}, and RDMA is served at {}",
            all.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(listening: &[&str], missing: Option<&str>) -> RdmaState {
        let listening = listening.iter().map(|a| a.parse().expect("an address"));
        RdmaState {
            listening: listening.collect(),
            missing: missing.map(str::to_owned),
        }
    }

    #[test]
    fn a_host_over_tcp_is_told_the_reason_that_is_known() {
        let local = IpAddr::from([10, 0, 0, 1]);
        let reason = |state: RdmaState, is_served| state.reason(local, ("nqn.a", is_served));
        assert_eq!(reason(state(&[], None), true), None, "not configured");
        let missing = Some("no rdma-core");
        assert_eq!(reason(state(&[], missing), true).as_deref(), missing);
        assert_eq!(reason(state(&["0.0.0.0:4420"], None), true), None);
        assert_eq!(reason(state(&["10.0.0.1:4420"], missing), true), None);
        let refused = reason(state(&["0.0.0.0:4420"], None), false).expect("a reason");
        assert!(
            refused.contains("export transport nqn.a tcp,rdma"),
            "{refused}"
        );
        let elsewhere = reason(state(&["10.1.0.1:4420"], None), true).expect("a reason");
        assert!(elsewhere.contains("10.0.0.1"), "{elsewhere}");
        assert!(elsewhere.contains("10.1.0.1:4420"), "{elsewhere}");
    }
}
