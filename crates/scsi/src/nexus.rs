//! An I_T nexus: one initiator port at one target port.
//!
//! **Owns** its identity and its unit attention conditions. **Called by** transports, which keep one per session.
//! **Invariants**: persistent reservations are bound to the names, not to the nexus, and survive it.

use crate::attention::Attentions;
use crate::limits::INITIATOR_NAME_MAX;
use crate::lun::Lun;
use std::fmt;
use std::sync::Arc;

/// PROTOCOL IDENTIFIER of iSCSI (SPC-4 7.6.1).
pub(crate) const PROTOCOL_ISCSI: u8 = 5;
/// TPID FORMAT of a TransportID with name and ISID (SPC-4 7.6.4.6).
const FORMAT_PORT: u8 = 0x40;
/// Separates the name from the ISID.
const ISID_SEPARATOR: &str = ",i,0x";

/// The name of an initiator port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InitiatorPort {
    name: String,
    isid: [u8; 6],
}

impl fmt::Display for InitiatorPort {
    /// The name and the session identifier (RFC 7143 4.2.7).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{ISID_SEPARATOR}", self.name)?;
        self.isid
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl InitiatorPort {
    /// An iSCSI initiator port: the initiator's name and the session's ISID. Names are compared without case, and
    /// truncated to 223 bytes.
    #[must_use]
    pub fn iscsi(name: &str, isid: [u8; 6]) -> InitiatorPort {
        let mut name = name.to_lowercase();
        let end = (0..=name.len().min(INITIATOR_NAME_MAX))
            .rev()
            .find(|i| name.is_char_boundary(*i));
        name.truncate(end.unwrap_or(0));
        InitiatorPort { name, isid }
    }

    /// The initiator's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The session identifier.
    #[must_use]
    pub fn isid(&self) -> [u8; 6] {
        self.isid
    }

    /// The TransportID (SPC-4 7.6.4.6): padded with at least one null to a multiple of four bytes.
    pub(crate) fn transport_id(&self) -> Vec<u8> {
        let mut text = self.to_string().into_bytes();
        text.resize((text.len() + 4) / 4 * 4, 0);
        text.resize(text.len().max(20), 0);
        let mut out = vec![FORMAT_PORT | PROTOCOL_ISCSI, 0];
        out.extend((text.len() as u16).to_be_bytes());
        out.extend(text);
        out
    }

    /// Parses a TransportID of an initiator port; returns it and its length. `None` if it is not one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(InitiatorPort, usize)> {
        let len = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        let text = bytes.get(4..4 + len)?;
        if bytes[0] != FORMAT_PORT | PROTOCOL_ISCSI || len < 20 || len % 4 != 0 {
            return None;
        }
        let end = text.iter().position(|b| *b == 0)?;
        let text = std::str::from_utf8(&text[..end]).ok()?;
        let (name, isid) = text.split_once(ISID_SEPARATOR)?;
        if isid.len() != 12 || name.is_empty() || name.len() > INITIATOR_NAME_MAX {
            return None;
        }
        let isid = u64::from_str_radix(isid, 16).ok()?.to_be_bytes();
        let isid = [isid[2], isid[3], isid[4], isid[5], isid[6], isid[7]];
        Some((InitiatorPort::iscsi(name, isid), 4 + len))
    }
}

/// Identifies a nexus of a device during the lifetime of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NexusId(pub(crate) u64);

/// A device's request to a transport to abort tasks of a nexus, on behalf of another nexus. Called on any shard, with
/// no lock held; must not block.
pub trait TaskAborter: Send + Sync + 'static {
    /// Aborts the tasks in a logical unit, or all of them. With `task_aborted` (TAS of the control mode page) each
    /// ends with TASK ABORTED status, else without a reply.
    fn abort_tasks(&self, lun: Option<Lun>, task_aborted: bool);
}

/// One initiator port at one target port.
pub struct Nexus {
    pub(crate) id: NexusId,
    pub(crate) initiator: InitiatorPort,
    /// RELATIVE TARGET PORT IDENTIFIER.
    pub(crate) port: u16,
    pub(crate) attentions: Attentions,
    pub(crate) aborter: Arc<dyn TaskAborter>,
}

impl Nexus {
    /// Its identifier in this process.
    #[must_use]
    pub fn id(&self) -> NexusId {
        self.id
    }

    /// The initiator port.
    #[must_use]
    pub fn initiator(&self) -> &InitiatorPort {
        &self.initiator
    }

    /// The relative target port identifier.
    #[must_use]
    pub fn relative_target_port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_ids_survive_a_round_trip() {
        for name in ["iqn.2026-11.org.example:a", "iqn.x", "eui.02004567a425678d"] {
            let port = InitiatorPort::iscsi(name, [0, 2, 0x3d, 0, 0, 9]);
            let bytes = port.transport_id();
            assert_eq!(bytes.len() % 4, 0);
            assert_eq!(InitiatorPort::parse(&bytes), Some((port, bytes.len())));
        }
    }

    #[test]
    fn damaged_transport_ids_are_refused() {
        let good = InitiatorPort::iscsi("iqn.2026-11.org.example:a", [1; 6]).transport_id();
        for cut in 0..good.len() {
            assert_eq!(InitiatorPort::parse(&good[..cut]), None);
        }
        let with = |at: usize, byte| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            InitiatorPort::parse(&bytes)
        };
        assert_eq!(
            (with(0, 5), with(0, 0x46), with(10, 0xff)),
            (None, None, None)
        );
    }
}
