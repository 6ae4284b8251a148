//! Operational parameters and their negotiation (§6.2, §13).
//!
//! **Called by** the login machine and, for MaxRecvDataSegmentLength, in full feature phase. **Invariants**: each key is
//! answered by its own result function of §13 and nothing else; a value that its type does not allow is answered
//! `Reject`, an unknown key `NotUnderstood`.

use crate::limits;
use crate::wire::text::{Text, number};

/// Our wishes; a negotiation grants at most these.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Whether header digests are allowed.
    pub header_digest: bool,
    /// Whether data digests are allowed.
    pub data_digest: bool,
    /// Most connections of a session.
    pub max_connections: u16,
    /// Require R2Ts for all data but immediate data.
    pub initial_r2t: bool,
    /// Allow immediate data.
    pub immediate_data: bool,
    /// Longest data segment taken, bytes.
    pub max_recv_data: u32,
    /// Longest solicited sequence, bytes.
    pub max_burst: u32,
    /// Most unsolicited data of a command, bytes.
    pub first_burst: u32,
    /// Most outstanding R2Ts of a task.
    pub max_outstanding_r2t: u16,
    /// Error recovery level: 0 or 1.
    pub error_recovery_level: u8,
    /// The session is one over RDMA (iSER).
    pub rdma: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Offer {
            header_digest: true,
            data_digest: true,
            max_connections: 8,
            initial_r2t: false,
            immediate_data: true,
            max_recv_data: 256 << 10,
            max_burst: 1 << 20,
            first_burst: 128 << 10,
            max_outstanding_r2t: 4,
            error_recovery_level: 1,
            rdma: false,
        }
    }
}

impl Offer {
    /// The same values for a session over RDMA: without digests and recovery of lost PDUs, because RDMA loses and damages nothing (RFC 7145,
    /// sections 6.1 and 4.4), with one connection, and without Data-Out PDUs, which would need more receives than commands do.
    #[must_use]
    pub fn over_rdma(self) -> Offer {
        Offer {
            header_digest: false,
            data_digest: false,
            max_connections: 1,
            initial_r2t: true,
            max_recv_data: limits::ISER_RECV_DATA_MAX,
            error_recovery_level: 0,
            rdma: true,
            ..self
        }
    }

    /// The same values, lowered to §13 and the named limits.
    #[must_use]
    pub fn bounded(mut self) -> Offer {
        self.max_connections = self
            .max_connections
            .clamp(1, limits::SESSION_CONNECTIONS_MAX);
        self.max_recv_data = self.max_recv_data.clamp(8192, limits::RECV_DATA_MAX);
        self.max_burst = self.max_burst.clamp(8192, limits::BURST_MAX);
        self.first_burst = self.first_burst.clamp(8192, self.max_burst);
        self.max_outstanding_r2t = self
            .max_outstanding_r2t
            .clamp(1, limits::OUTSTANDING_R2T_MAX);
        self.error_recovery_level = self.error_recovery_level.min(1);
        self
    }
}

/// Parameters of a session and its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// CRC32C over headers.
    pub header_digest: bool,
    /// CRC32C over data.
    pub data_digest: bool,
    /// Most connections.
    pub max_connections: u16,
    /// No unsolicited Data-Out.
    pub initial_r2t: bool,
    /// Data within command PDUs.
    pub immediate_data: bool,
    /// Longest data segment that the peer takes, bytes.
    pub max_send_data: u32,
    /// Longest data segment that we take, bytes.
    pub max_recv_data: u32,
    /// Longest solicited sequence, bytes.
    pub max_burst: u32,
    /// Most unsolicited data of a command, bytes.
    pub first_burst: u32,
    /// Seconds to wait before reconnecting.
    pub time2wait_s: u16,
    /// Seconds that tasks are kept after a connection is lost.
    pub time2retain_s: u16,
    /// Most outstanding R2Ts of a task.
    pub max_outstanding_r2t: u16,
    /// Error recovery level: 0 or 1.
    pub error_recovery_level: u8,
}

impl Default for Parameters {
    /// The defaults of §13, for keys that are not negotiated.
    fn default() -> Self {
        Parameters {
            header_digest: false,
            data_digest: false,
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_send_data: 8192,
            max_recv_data: 8192,
            max_burst: 262_144,
            first_burst: 65_536,
            time2wait_s: 2,
            time2retain_s: 20,
            max_outstanding_r2t: 1,
            error_recovery_level: 0,
        }
    }
}

/// The negotiation of one login.
#[derive(Debug, Clone)]
pub struct Negotiation {
    offer: Offer,
    /// The parameters so far.
    pub parameters: Parameters,
    /// Whether it is the first connection of its session, which negotiates the session-wide keys (§13).
    leading: bool,
    discovery: bool,
    seen: u32,
    declared: bool,
}

const REJECT: &str = "Reject";
const NOT_UNDERSTOOD: &str = "NotUnderstood";
const IRRELEVANT: &str = "Irrelevant";

/// Keys that may be negotiated once each (§6.2), by their bit.
const KEYS: [&str; 25] = [
    "HeaderDigest",
    "DataDigest",
    "MaxConnections",
    "InitialR2T",
    "ImmediateData",
    "MaxRecvDataSegmentLength",
    "MaxBurstLength",
    "FirstBurstLength",
    "DefaultTime2Wait",
    "DefaultTime2Retain",
    "MaxOutstandingR2T",
    "DataPDUInOrder",
    "DataSequenceInOrder",
    "ErrorRecoveryLevel",
    "TaskReporting",
    "iSCSIProtocolLevel",
    "IFMarker",
    "OFMarker",
    "IFMarkInt",
    "OFMarkInt",
    "InitiatorAlias",
    "RDMAExtensions",
    "TargetRecvDataSegmentLength",
    "InitiatorRecvDataSegmentLength",
    "MaxOutstandingUnexpectedPDUs",
];

/// The answer to a key.
enum Answer {
    /// With a value.
    Value(String),
    /// A declaration needs none.
    Silence,
}

fn value(v: impl ToString) -> Answer {
    Answer::Value(v.to_string())
}

fn yes(b: bool) -> Answer {
    value(if b { "Yes" } else { "No" })
}

impl Negotiation {
    /// A negotiation without keys. `joined` are the parameters of the session that this connection joins.
    #[must_use]
    pub fn new(offer: &Offer, discovery: bool, joined: Option<Parameters>) -> Negotiation {
        let mut parameters = joined.unwrap_or_default();
        parameters.header_digest = false;
        parameters.data_digest = false;
        parameters.max_send_data = 8192;
        parameters.max_recv_data = 8192;
        Negotiation {
            offer: offer.clone().bounded(),
            parameters,
            leading: joined.is_none(),
            discovery,
            seen: 0,
            declared: false,
        }
    }

    /// Answers one key. Errors: the key was negotiated before (§6.2), or FirstBurstLength became impossible.
    pub fn answer(&mut self, key: &str, offered: &str, out: &mut Text) -> Result<(), Renegotiated> {
        if let Some(bit) = KEYS.iter().position(|k| *k == key) {
            if self.seen & 1 << bit != 0 {
                return Err(Renegotiated);
            }
            self.seen |= 1 << bit;
        }
        match self.value_of(key, offered) {
            Some(Answer::Value(v)) => out.put(key, &v),
            Some(Answer::Silence) => {}
            None => out.put(key, REJECT),
        }
        Ok(())
    }

    /// Declares, once, the longest data segment that we take (§13.12). Normal sessions over RDMA negotiate it by another key.
    pub fn declare(&mut self, out: &mut Text) {
        if self.offer.rdma && !self.discovery {
            return;
        }
        if !std::mem::replace(&mut self.declared, true) {
            self.parameters.max_recv_data = self.offer.max_recv_data;
            out.put(
                "MaxRecvDataSegmentLength",
                &self.offer.max_recv_data.to_string(),
            );
        }
    }

    /// Lowers parameters that contradict each other at the end of the negotiation.
    pub fn reconcile(&mut self) {
        let p = &mut self.parameters;
        p.first_burst = p.first_burst.min(p.max_burst);
    }

    /// The answer to a key of iSER (RFC 7145, section 6), `None` to another key. An answer of `None` rejects the value.
    fn extension(&mut self, key: &str, offered: &str) -> Option<Option<Answer>> {
        let p = &mut self.parameters;
        let o = &self.offer;
        let length = ranged(offered, 512, 0xff_ffff).map(|n| n.min(o.max_recv_data));
        Some(match key {
            // This is plain TCP.
            "RDMAExtensions" if !o.rdma => Some(yes(false)),
            "TargetRecvDataSegmentLength"
            | "InitiatorRecvDataSegmentLength"
            | "MaxOutstandingUnexpectedPDUs"
                if !o.rdma =>
            {
                Some(value(IRRELEVANT))
            }
            // Without them nothing else can be spoken over RDMA.
            "RDMAExtensions" => boolean(offered).filter(|b| *b).map(yes),
            "TargetRecvDataSegmentLength" => length.map(|n| {
                p.max_recv_data = n;
                value(n)
            }),
            "InitiatorRecvDataSegmentLength" => length.map(|n| {
                p.max_send_data = n;
                value(n)
            }),
            // 0 is no limit, and 1 is none of the values.
            "MaxOutstandingUnexpectedPDUs" => ranged(offered, 0, u64::from(u32::MAX))
                .filter(|n| *n != 1)
                .map(|_| value(limits::ISER_OTHER_PDUS)),
            _ => return None,
        })
    }

    /// The answer to a key; `None` rejects its value.
    fn value_of(&mut self, key: &str, offered: &str) -> Option<Answer> {
        if let Some(answer) = self.extension(key, offered) {
            return answer;
        }
        let irrelevant = self.discovery || !self.leading;
        let p = &mut self.parameters;
        let o = &self.offer;
        Some(match key {
            "HeaderDigest" => digest(offered, o.header_digest, &mut p.header_digest)?,
            "DataDigest" => digest(offered, o.data_digest, &mut p.data_digest)?,
            "MaxRecvDataSegmentLength" => {
                p.max_send_data = ranged(offered, 512, 0xff_ffff)?;
                Answer::Silence
            }
            "InitiatorAlias" => Answer::Silence,
            "DefaultTime2Wait" if self.leading => {
                p.time2wait_s = ranged(offered, 0, 3600)?.max(2) as u16;
                value(p.time2wait_s)
            }
            // Nothing is kept for a lost connection: that would be error recovery level 2.
            "DefaultTime2Retain" if self.leading => {
                ranged(offered, 0, 3600)?;
                p.time2retain_s = 0;
                value(0)
            }
            "ErrorRecoveryLevel" if self.leading => {
                p.error_recovery_level =
                    ranged(offered, 0, 2)?.min(u32::from(o.error_recovery_level)) as u8;
                value(p.error_recovery_level)
            }
            "iSCSIProtocolLevel" if self.leading => value(ranged(offered, 0, 31)?.min(1)),
            "TaskReporting" if self.leading => value(offered.split(',').find(|v| *v == "RFC3720")?),
            "MaxConnections"
            | "InitialR2T"
            | "ImmediateData"
            | "MaxBurstLength"
            | "FirstBurstLength"
            | "MaxOutstandingR2T"
            | "DataPDUInOrder"
            | "DataSequenceInOrder"
            | "DefaultTime2Wait"
            | "DefaultTime2Retain"
            | "ErrorRecoveryLevel"
            | "iSCSIProtocolLevel"
            | "TaskReporting"
                if irrelevant =>
            {
                value(IRRELEVANT)
            }
            "MaxConnections" => {
                p.max_connections =
                    ranged(offered, 1, 65535)?.min(u32::from(o.max_connections)) as u16;
                value(p.max_connections)
            }
            "InitialR2T" => {
                p.initial_r2t = boolean(offered)? || o.initial_r2t;
                yes(p.initial_r2t)
            }
            "ImmediateData" => {
                p.immediate_data = boolean(offered)? && o.immediate_data;
                yes(p.immediate_data)
            }
            "MaxBurstLength" => {
                p.max_burst = ranged(offered, 512, 0xff_ffff)?.min(o.max_burst);
                value(p.max_burst)
            }
            "FirstBurstLength" => {
                p.first_burst = ranged(offered, 512, 0xff_ffff)?.min(o.first_burst);
                value(p.first_burst)
            }
            "MaxOutstandingR2T" => {
                p.max_outstanding_r2t =
                    ranged(offered, 1, 65535)?.min(u32::from(o.max_outstanding_r2t)) as u16;
                value(p.max_outstanding_r2t)
            }
            // OR with our Yes.
            "DataPDUInOrder" | "DataSequenceInOrder" => {
                boolean(offered)?;
                yes(true)
            }
            // §13.25: obsolete.
            "IFMarker" | "OFMarker" => yes(false),
            "IFMarkInt" | "OFMarkInt" => return None,
            // An answer to a key that we never sent.
            _ if matches!(offered, NOT_UNDERSTOOD | REJECT | IRRELEVANT) => Answer::Silence,
            _ => value(NOT_UNDERSTOOD),
        })
    }
}

/// A key was negotiated twice in one login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renegotiated;

fn boolean(v: &str) -> Option<bool> {
    match v {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn ranged(v: &str, min: u64, max: u64) -> Option<u32> {
    number(v)
        .filter(|n| (min..=max).contains(n))
        .map(|n| n as u32)
}

/// The first digest of the initiator's list that we take (§13.1).
fn digest(offered: &str, crc: bool, chosen: &mut bool) -> Option<Answer> {
    let pick = offered
        .split(',')
        .find(|d| *d == "None" || crc && *d == "CRC32C")?;
    *chosen = pick == "CRC32C";
    Some(value(pick))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(n: &mut Negotiation, key: &str, v: &str) -> String {
        let mut out = Text::new();
        n.answer(key, v, &mut out).expect("said once");
        String::from_utf8(out.into_bytes()).expect("text")
    }

    #[test]
    fn every_key_is_answered_by_its_own_function() {
        let table = [
            ("HeaderDigest", "CRC32C,None", "HeaderDigest=CRC32C\0"),
            ("DataDigest", "None,CRC32C", "DataDigest=None\0"),
            ("MaxConnections", "4", "MaxConnections=4\0"),
            ("InitialR2T", "No", "InitialR2T=No\0"),
            ("ImmediateData", "Maybe", "ImmediateData=Reject\0"),
            ("MaxRecvDataSegmentLength", "65536", ""),
            ("MaxBurstLength", "16776192", "MaxBurstLength=1048576\0"),
            ("FirstBurstLength", "0x8000", "FirstBurstLength=32768\0"),
            ("DefaultTime2Wait", "0", "DefaultTime2Wait=2\0"),
            ("DefaultTime2Retain", "20", "DefaultTime2Retain=0\0"),
            ("MaxOutstandingR2T", "0", "MaxOutstandingR2T=Reject\0"),
            ("DataPDUInOrder", "No", "DataPDUInOrder=Yes\0"),
            ("DataSequenceInOrder", "Yes", "DataSequenceInOrder=Yes\0"),
            ("ErrorRecoveryLevel", "2", "ErrorRecoveryLevel=1\0"),
            (
                "TaskReporting",
                "FastAbort,RFC3720",
                "TaskReporting=RFC3720\0",
            ),
            ("iSCSIProtocolLevel", "2", "iSCSIProtocolLevel=1\0"),
            ("IFMarker", "Yes", "IFMarker=No\0"),
            ("OFMarkInt", "2048~2048", "OFMarkInt=Reject\0"),
            (
                "X-com.example.key",
                "1",
                "X-com.example.key=NotUnderstood\0",
            ),
        ];
        let mut n = Negotiation::new(&Offer::default(), false, None);
        for (key, offered, answer) in table {
            assert_eq!(ask(&mut n, key, offered), answer);
        }
        assert_eq!(
            n.answer("InitialR2T", "No", &mut Text::new()),
            Err(Renegotiated)
        );
        assert_eq!(
            (n.parameters.max_send_data, n.parameters.first_burst),
            (65536, 32768)
        );
    }

    #[test]
    fn keys_of_rdma_are_negotiated_over_rdma_only() {
        let table = [
            ("RDMAExtensions", "Yes", "Yes", "No"),
            (
                "TargetRecvDataSegmentLength",
                "262144",
                "8192",
                "Irrelevant",
            ),
            (
                "InitiatorRecvDataSegmentLength",
                "4096",
                "4096",
                "Irrelevant",
            ),
            ("MaxOutstandingUnexpectedPDUs", "0", "32", "Irrelevant"),
            ("HeaderDigest", "CRC32C,None", "None", "CRC32C"),
            ("ErrorRecoveryLevel", "1", "0", "1"),
            ("MaxConnections", "4", "1", "4"),
            ("InitialR2T", "No", "Yes", "No"),
        ];
        let offer = Offer::default();
        let mut rdma = Negotiation::new(&offer.clone().over_rdma(), false, None);
        let mut tcp = Negotiation::new(&offer, false, None);
        for (key, offered, over_rdma, over_tcp) in table {
            assert_eq!(ask(&mut rdma, key, offered), format!("{key}={over_rdma}\0"));
            assert_eq!(ask(&mut tcp, key, offered), format!("{key}={over_tcp}\0"));
        }
        assert_eq!(rdma.parameters.max_recv_data, 8192);
        assert_eq!(rdma.parameters.max_send_data, 4096);
        let mut declared = Text::new();
        rdma.declare(&mut declared);
        assert_eq!(declared.len(), 0);
        let mut again = Negotiation::new(&offer.over_rdma(), false, None);
        let refused = [
            ("RDMAExtensions", "No"),
            ("MaxOutstandingUnexpectedPDUs", "1"),
        ];
        for (key, offered) in refused {
            assert_eq!(ask(&mut again, key, offered), format!("{key}=Reject\0"));
        }
    }

    #[test]
    fn what_belongs_to_the_session_is_irrelevant_where_there_is_none_to_change() {
        let mut discovery = Negotiation::new(&Offer::default(), true, None);
        let mut second = Negotiation::new(&Offer::default(), false, Some(Parameters::default()));
        for n in [&mut discovery, &mut second] {
            assert_eq!(
                ask(n, "MaxBurstLength", "8192"),
                "MaxBurstLength=Irrelevant\0"
            );
            assert_eq!(ask(n, "HeaderDigest", "CRC32C"), "HeaderDigest=CRC32C\0");
        }
    }
}
