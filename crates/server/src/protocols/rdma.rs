//! Whether clients of a protocol can use RDMA, and the reason why a client over TCP cannot.
//!
//! **Called by** the set of protocols. **Invariants**: a reason is something that the server knows; a client may prefer TCP without one.

use crate::api::{ListenRole, SessionSummary, Transport};
use crate::protocols::protocol::{Address, AddressState};
use std::net::{IpAddr, SocketAddr};

/// A protocol's addresses for RDMA in the configuration, by their state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RdmaState {
    /// Addresses that are served.
    listening: Vec<SocketAddr>,
    /// The reason why one is not served.
    missing: Option<String>,
}

impl RdmaState {
    /// The state of a protocol with these addresses in the configuration.
    pub(crate) fn of(configured: &[Address], served: &AddressState<'_>) -> RdmaState {
        let over_rdma = |a: &&Address| a.listen.transport == Transport::Rdma;
        let ours: Vec<&Address> = configured.iter().filter(over_rdma).collect();
        let is_role = |role: ListenRole| ours.iter().any(|a| a.listen.role == role);
        let listening = served.listening.iter();
        let listening = listening.filter(|l| l.transport == Transport::Rdma && is_role(l.role));
        let is_setting = |setting: &str| ours.iter().any(|a| a.setting == setting);
        let mut missing = served.missing.iter().filter(|m| is_setting(&m.setting));
        RdmaState {
            listening: listening.map(|l| l.address).collect(),
            missing: missing.next().map(|m| m.reason.clone()),
        }
    }

    /// Whether an address is served.
    pub(crate) fn is_listening(&self) -> bool {
        !self.listening.is_empty()
    }

    /// Sets the reason why the client of a session over TCP cannot use RDMA at our address `local`, in place of the one that its protocol
    /// knows for a server that listens for RDMA. Discovery needs none.
    pub(crate) fn explain(&self, summary: &mut SessionSummary, local: Option<IpAddr>) {
        let known = summary.not_rdma.take();
        if summary.kind == "io" && is_over_tcp(summary) {
            summary.not_rdma = self.reason(local, known);
        }
    }

    /// Why a client that came to `local` over TCP cannot use RDMA there. `None` if RDMA is not configured, or nothing that the server knows
    /// is in the way. `known` is the reason of its protocol, if there is one.
    fn reason(&self, local: Option<IpAddr>, known: Option<String>) -> Option<String> {
        if self.listening.is_empty() {
            return self.missing.clone();
        }
        if known.is_some() {
            return known;
        }
        let local = local?;
        let is_here = |a: &SocketAddr| a.ip() == local || a.ip().is_unspecified();
        if self.listening.iter().any(is_here) {
            return None;
        }
        let all: Vec<String> = self.listening.iter().map(ToString::to_string).collect();
        Some(format!(
            "the client came to {local}, and RDMA is served at {}",
            all.join(", ")
        ))
    }
}

/// Whether no connection of a session is over RDMA. It may be protected by TLS.
pub(crate) fn is_over_tcp(summary: &SessionSummary) -> bool {
    summary.transport.starts_with(Transport::Tcp.word())
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
    fn a_client_over_tcp_is_told_the_reason_that_is_known() {
        let local = Some(IpAddr::from([10, 0, 0, 1]));
        let reason =
            |state: RdmaState, known: Option<&str>| state.reason(local, known.map(str::to_owned));
        assert_eq!(reason(state(&[], None), None), None, "not configured");
        assert_eq!(reason(state(&[], None), Some("TLS")), None);
        let missing = Some("no rdma-core");
        assert_eq!(reason(state(&[], missing), None).as_deref(), missing);
        assert_eq!(reason(state(&[], missing), Some("TLS")).as_deref(), missing);
        assert_eq!(reason(state(&["0.0.0.0:4420"], None), None), None);
        assert_eq!(reason(state(&["10.0.0.1:4420"], missing), None), None);
        let known = reason(state(&["0.0.0.0:4420"], None), Some("TLS"));
        assert_eq!(known.as_deref(), Some("TLS"));
        let elsewhere = reason(state(&["10.1.0.1:4420"], None), None).expect("a reason");
        assert!(elsewhere.contains("10.0.0.1"), "{elsewhere}");
        assert!(elsewhere.contains("10.1.0.1:4420"), "{elsewhere}");
        let nowhere = state(&["10.1.0.1:4420"], None).reason(None, None);
        assert_eq!(nowhere, None, "a client without a connection");
    }
}
