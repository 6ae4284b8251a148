//! The initiator's half of a login (§6.3): a state machine from responses to requests.
//!
//! **Called by** [`super::channel`]. **Invariants**: no I/O; a login ends after [`LOGIN_PDUS_MAX`] PDUs and
//! [`LOGIN_TEXT_MAX`] bytes of text; each answer is checked against its result function of §13; a stage ends only when both
//! ends agree, and the security stage only after authentication.

use super::chap::{self, Expected};
use super::config::{Chap, Proposal};
use super::error::{Error, ProtocolError, Result};
use super::limits::{LOGIN_PDUS_MAX, LOGIN_TEXT_MAX, UNKNOWN_KEYS_MAX};
use iscsi::limits::{CHAP_CHALLENGE_LEN, ISER_RECV_DATA_MAX};
use iscsi::login::Parameters;
use iscsi::portal::IscsiTransport;
use iscsi::wire::request::LoginRequest;
use iscsi::wire::response::{LoginResponse, LoginStatus};
use iscsi::wire::text::{Pairs, Text, number};
use iscsi::wire::{Bhs, IscsiName, Isid, Itt, Opcode, Sn};

/// Stage numbers of CSG and NSG (§11.12.3).
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;
/// The task tag of all requests of a login.
const ITT: Itt = Itt(0);
/// CmdSN of a login, and of the session's first command.
pub(super) const FIRST_CMD_SN: Sn = Sn(1);

/// What to log in to.
#[derive(Clone)]
pub(super) struct Purpose {
    pub(super) initiator: IscsiName,
    /// `None` for a discovery session.
    pub(super) target: Option<IscsiName>,
    pub(super) isid: Isid,
    pub(super) chap: Option<Chap>,
    pub(super) proposal: Proposal,
    pub(super) transport: IscsiTransport,
}

impl Purpose {
    /// Whether it is a normal session over RDMA, which negotiates the extensions of iSER.
    fn is_iser_session(&self) -> bool {
        self.transport == IscsiTransport::Iser && self.target.is_some()
    }
}

/// The next step after a response.
pub(super) enum Next {
    /// Send this request with its text.
    Send(LoginRequest, Vec<u8>),
    /// The login succeeded: full feature phase.
    Done(LoggedIn),
    /// The target has moved to this TargetAddress.
    Moved(String),
}

/// The result of a login. `max_send_data` of its parameters is the target's limit.
#[derive(Debug, Clone)]
pub(super) struct LoggedIn {
    pub(super) parameters: Parameters,
    pub(super) tsih: u16,
    /// Expected StatSN of the next response.
    pub(super) exp_stat_sn: Sn,
    pub(super) exp_cmd_sn: Sn,
    pub(super) max_cmd_sn: Sn,
    pub(super) alias: Option<String>,
    pub(super) portal_group: Option<u16>,
}

/// State of a login.
enum Stage {
    /// AuthMethod was proposed.
    Method,
    /// CHAP_A was proposed; a challenge is expected.
    Challenge,
    /// Our response was sent; with mutual authentication, the target's response is expected.
    Response(Option<Expected>),
    /// The security stage is complete on our side.
    Secure,
    /// The operational keys were proposed.
    Operational,
}

/// One login.
pub(super) struct Login {
    purpose: Purpose,
    random: [u8; CHAP_CHALLENGE_LEN + 1],
    stage: Stage,
    /// Whether the last request asked to leave the stage.
    asked: bool,
    pdus: usize,
    text: Vec<u8>,
    unknown: usize,
    exp_stat_sn: Option<Sn>,
    parameters: Parameters,
    /// The target has the extensions of iSER.
    has_extensions: bool,
    alias: Option<String>,
    portal_group: Option<u16>,
}

impl Login {
    /// Creates a login. `random` becomes the challenge of a mutual authentication.
    pub(super) fn new(purpose: Purpose, random: [u8; CHAP_CHALLENGE_LEN + 1]) -> Login {
        let p = &purpose.proposal;
        let parameters = Parameters {
            max_recv_data: match purpose.transport {
                IscsiTransport::Tcp => p.max_recv_data,
                IscsiTransport::Iser => ISER_RECV_DATA_MAX,
            },
            time2retain_s: 0,
            // A proposed No needs no answer (RFC 7143, 6.2.2).
            immediate_data: p.immediate_data,
            ..Parameters::default()
        };
        Login {
            purpose,
            random,
            stage: Stage::Method,
            asked: false,
            pdus: 0,
            text: Vec::new(),
            unknown: 0,
            exp_stat_sn: None,
            parameters,
            has_extensions: false,
            alias: None,
            portal_group: None,
        }
    }

    /// Returns the first request.
    pub(super) fn begin(&mut self) -> (LoginRequest, Vec<u8>) {
        let mut out = Text::new();
        out.put("InitiatorName", self.purpose.initiator.as_str());
        match &self.purpose.target {
            Some(target) => {
                out.put("SessionType", "Normal");
                out.put("TargetName", target.as_str());
            }
            None => out.put("SessionType", "Discovery"),
        }
        let methods = match &self.purpose.chap {
            None => "None",
            Some(Chap { target: None, .. }) => "CHAP,None",
            Some(_) => "CHAP",
        };
        out.put("AuthMethod", methods);
        let ready = self.purpose.chap.is_none();
        self.request(SECURITY, ready.then_some(OPERATIONAL), out)
    }

    /// Handles one response with its data segment. Returns the next step.
    pub(super) fn take(&mut self, bhs: &Bhs, data: &[u8]) -> Result<Next> {
        let r = self.check(bhs)?;
        if self.text.len() + data.len() > LOGIN_TEXT_MAX {
            return Err(ProtocolError::Limit("a login text without end").into());
        }
        self.text.extend_from_slice(data);
        let more = bhs.flags() & 0x40 != 0;
        if more && r.transit {
            return Err(ProtocolError::Unexpected("a stage left with text to come").into());
        }
        if more {
            return self.send(r.csg, None, Text::new());
        }
        let pairs = Pairs::parse(&std::mem::take(&mut self.text)).map_err(ProtocolError::from)?;
        match r.status.0 >> 8 {
            0 => {}
            1 => return moved(r.status, &pairs),
            _ => return Err(Error::LoginRefused(r.status)),
        }
        self.introduced(&pairs);
        if matches!(self.stage, Stage::Operational) {
            self.operational(bhs, &r, &pairs)
        } else {
            self.security(&r, &pairs)
        }
    }

    /// Checks a response's header against the request (§11.13).
    fn check(&mut self, bhs: &Bhs) -> Result<LoginResponse> {
        if bhs.opcode() != Some(Opcode::LoginResponse) {
            return Err(ProtocolError::Unexpected("not a login response").into());
        }
        let r = LoginResponse::parse(bhs);
        if r.status.0 >> 8 > 1 {
            // The other fields of a refusal have no meaning.
            return Err(Error::LoginRefused(r.status));
        }
        let csg = if matches!(self.stage, Stage::Operational) {
            OPERATIONAL
        } else {
            SECURITY
        };
        let nsg = if csg == SECURITY {
            OPERATIONAL
        } else {
            FULL_FEATURE
        };
        if r.itt != ITT || r.isid != self.purpose.isid {
            return Err(ProtocolError::NoTask.into());
        }
        if self.exp_stat_sn.is_some_and(|sn| sn != bhs.sn()) {
            return Err(ProtocolError::SerialNumber("StatSN").into());
        }
        self.exp_stat_sn = Some(bhs.sn().next());
        let moved = r.status.0 >> 8 == 1;
        if !moved && (r.csg != csg || r.transit && (!self.asked || r.nsg != nsg)) {
            return Err(ProtocolError::Unexpected("a login stage that was not asked for").into());
        }
        Ok(r)
    }

    fn request(&mut self, csg: u8, nsg: Option<u8>, text: Text) -> (LoginRequest, Vec<u8>) {
        self.asked = nsg.is_some();
        let request = LoginRequest {
            transit: nsg.is_some(),
            more: false,
            csg,
            nsg: nsg.unwrap_or(0),
            version_min: 0,
            isid: self.purpose.isid,
            tsih: 0,
            itt: ITT,
            cid: 0,
            cmd_sn: FIRST_CMD_SN,
            exp_stat_sn: self.exp_stat_sn.unwrap_or_default(),
        };
        (request, text.into_bytes())
    }

    fn send(&mut self, csg: u8, nsg: Option<u8>, text: Text) -> Result<Next> {
        self.pdus += 1;
        if self.pdus > LOGIN_PDUS_MAX {
            return Err(ProtocolError::Limit("a login without end").into());
        }
        let (request, text) = self.request(csg, nsg, text);
        Ok(Next::Send(request, text))
    }

    fn introduced(&mut self, pairs: &Pairs) {
        if let Some(alias) = pairs.get("TargetAlias") {
            self.alias = Some(alias.to_owned());
        }
        if let Some(tag) = pairs.get("TargetPortalGroupTag").and_then(number) {
            self.portal_group = u16::try_from(tag).ok();
        }
    }

    /// Security stage (§12).
    fn security(&mut self, r: &LoginResponse, pairs: &Pairs) -> Result<Next> {
        let mut out = Text::new();
        let chap = self.purpose.chap.clone();
        let ready = match (std::mem::replace(&mut self.stage, Stage::Secure), &chap) {
            (Stage::Method, Some(own)) => match pairs.get("AuthMethod") {
                Some("CHAP") => {
                    out.put("CHAP_A", &chap::offer(own));
                    self.stage = Stage::Challenge;
                    false
                }
                Some("None") if own.target.is_none() => true,
                Some(_) => return Err(Error::Authentication("the target does not do CHAP")),
                // The target has not answered yet.
                None if !r.transit => {
                    self.stage = Stage::Method;
                    false
                }
                None => return Err(Error::Authentication("the target did not choose a method")),
            },
            (Stage::Challenge, Some(own)) => {
                let expected = chap::answer(own, pairs, self.random, &mut out)?;
                self.stage = Stage::Response(expected);
                true
            }
            (Stage::Response(expected), _) => {
                if let Some(expected) = expected {
                    expected.check(pairs)?;
                }
                true
            }
            (Stage::Method, None) => match pairs.get("AuthMethod") {
                None | Some("None") => true,
                Some(_) => return Err(Error::Authentication("the target asks for a secret")),
            },
            (Stage::Secure, _) => true,
            (Stage::Challenge, None) | (Stage::Operational, _) => {
                return Err(ProtocolError::Unexpected("a login stage out of order").into());
            }
        };
        if !r.transit {
            return self.send(SECURITY, ready.then_some(OPERATIONAL), out);
        }
        if !matches!(self.stage, Stage::Secure) {
            return Err(Error::Authentication(
                "the target left before it was proven",
            ));
        }
        self.stage = Stage::Operational;
        let keys = self.proposal();
        self.send(OPERATIONAL, Some(FULL_FEATURE), keys)
    }

    /// The operational keys that we propose (§13).
    fn proposal(&self) -> Text {
        let mut out = Text::new();
        let p = &self.purpose.proposal;
        let is_tcp = self.purpose.transport == IscsiTransport::Tcp;
        let digest = |wanted: bool| {
            if wanted && is_tcp {
                "CRC32C,None"
            } else {
                "None"
            }
        };
        let yes = |b: bool| if b { "Yes" } else { "No" };
        out.put("HeaderDigest", digest(p.header_digest));
        out.put("DataDigest", digest(p.data_digest));
        if self.purpose.is_iser_session() {
            out.put("RDMAExtensions", "Yes");
            let most = ISER_RECV_DATA_MAX.to_string();
            out.put("InitiatorRecvDataSegmentLength", &most);
            out.put("TargetRecvDataSegmentLength", &most);
        } else {
            let most = match self.purpose.transport {
                IscsiTransport::Tcp => p.max_recv_data,
                IscsiTransport::Iser => ISER_RECV_DATA_MAX,
            };
            out.put("MaxRecvDataSegmentLength", &most.to_string());
        }
        out.put("DefaultTime2Wait", "0");
        out.put("DefaultTime2Retain", "0");
        out.put("ErrorRecoveryLevel", "0");
        if self.purpose.target.is_some() {
            out.put("InitialR2T", yes(p.initial_r2t));
            out.put("ImmediateData", yes(p.immediate_data));
            out.put("MaxBurstLength", &p.max_burst.to_string());
            out.put("FirstBurstLength", &p.first_burst.to_string());
            out.put("MaxOutstandingR2T", &p.max_outstanding_r2t.to_string());
            out.put("MaxConnections", "1");
            out.put("DataPDUInOrder", "Yes");
            out.put("DataSequenceInOrder", "Yes");
        }
        out
    }

    /// Operational stage (§6.2).
    fn operational(&mut self, bhs: &Bhs, r: &LoginResponse, pairs: &Pairs) -> Result<Next> {
        let mut out = Text::new();
        for (key, value) in pairs.iter() {
            if matches!(value, "Reject" | "Irrelevant" | "NotUnderstood") {
                continue;
            }
            if !self.answered(key, value)? {
                self.unknown += 1;
                if self.unknown > UNKNOWN_KEYS_MAX {
                    return Err(ProtocolError::Limit("unknown keys without end").into());
                }
                out.put(key, "NotUnderstood");
            }
        }
        if !r.transit {
            return self.send(OPERATIONAL, Some(FULL_FEATURE), out);
        }
        if self.purpose.is_iser_session() && !self.has_extensions {
            return Err(ProtocolError::Key("RDMAExtensions").into());
        }
        if r.tsih == 0 {
            return Err(ProtocolError::Unexpected("a session without a handle").into());
        }
        self.parameters.first_burst = self.parameters.first_burst.min(self.parameters.max_burst);
        Ok(Next::Done(LoggedIn {
            parameters: self.parameters,
            tsih: r.tsih,
            exp_stat_sn: bhs.sn().next(),
            exp_cmd_sn: bhs.exp_sn(),
            max_cmd_sn: bhs.max_cmd_sn(),
            alias: self.alias.take(),
            portal_group: self.portal_group,
        }))
    }

    /// Handles the target's answer to one of our keys, or its declaration. `Ok(false)`: the key is unknown.
    fn answered(&mut self, key: &str, v: &str) -> Result<bool> {
        let is_iser = self.purpose.is_iser_session();
        let offer = &self.purpose.proposal;
        let p = &mut self.parameters;
        match key {
            "HeaderDigest" => p.header_digest = digest("HeaderDigest", v, offer.header_digest)?,
            "DataDigest" => p.data_digest = digest("DataDigest", v, offer.data_digest)?,
            "MaxRecvDataSegmentLength" => {
                p.max_send_data = ranged("MaxRecvDataSegmentLength", v, 512, 0xff_ffff)?;
            }
            "RDMAExtensions" if is_iser => {
                self.has_extensions = boolean("RDMAExtensions", v, |b| b)?;
            }
            "TargetRecvDataSegmentLength" if is_iser => {
                let most = ISER_RECV_DATA_MAX;
                p.max_send_data = ranged("TargetRecvDataSegmentLength", v, 512, most)?;
            }
            "InitiatorRecvDataSegmentLength" if is_iser => {
                let most = ISER_RECV_DATA_MAX;
                p.max_recv_data = ranged("InitiatorRecvDataSegmentLength", v, 512, most)?;
            }
            "InitialR2T" => p.initial_r2t = boolean("InitialR2T", v, |b| b || !offer.initial_r2t)?,
            "ImmediateData" => {
                p.immediate_data = boolean("ImmediateData", v, |b| !b || offer.immediate_data)?;
            }
            "MaxBurstLength" => p.max_burst = ranged("MaxBurstLength", v, 512, offer.max_burst)?,
            "FirstBurstLength" => {
                p.first_burst = ranged("FirstBurstLength", v, 512, offer.first_burst)?;
            }
            "MaxOutstandingR2T" => {
                let most = u32::from(offer.max_outstanding_r2t);
                p.max_outstanding_r2t = ranged("MaxOutstandingR2T", v, 1, most)? as u16;
            }
            "DefaultTime2Wait" => {
                p.time2wait_s = ranged("DefaultTime2Wait", v, 0, 3600)? as u16;
            }
            "DefaultTime2Retain" => p.time2retain_s = ranged("DefaultTime2Retain", v, 0, 0)? as u16,
            "ErrorRecoveryLevel" => {
                p.error_recovery_level = ranged("ErrorRecoveryLevel", v, 0, 0)? as u8;
            }
            "MaxConnections" => p.max_connections = ranged("MaxConnections", v, 1, 1)? as u16,
            "DataPDUInOrder" => drop(boolean("DataPDUInOrder", v, |b| b)?),
            "DataSequenceInOrder" => drop(boolean("DataSequenceInOrder", v, |b| b)?),
            "TargetAlias" | "TargetPortalGroupTag" | "TargetAddress" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn moved(status: LoginStatus, pairs: &Pairs) -> Result<Next> {
    match pairs.get("TargetAddress") {
        Some(address) => Ok(Next::Moved(address.to_owned())),
        None => Err(Error::LoginRefused(status)),
    }
}

fn digest(key: &'static str, v: &str, offered: bool) -> Result<bool> {
    match v {
        "None" => Ok(false),
        "CRC32C" if offered => Ok(true),
        _ => Err(ProtocolError::Key(key).into()),
    }
}

fn boolean(key: &'static str, v: &str, allowed: impl Fn(bool) -> bool) -> Result<bool> {
    let b = match v {
        "Yes" => true,
        "No" => false,
        _ => return Err(ProtocolError::Key(key).into()),
    };
    if allowed(b) {
        Ok(b)
    } else {
        Err(ProtocolError::Key(key).into())
    }
}

fn ranged(key: &'static str, v: &str, min: u32, max: u32) -> Result<u32> {
    number(v)
        .filter(|n| (u64::from(min)..=u64::from(max)).contains(n))
        .map(|n| n as u32)
        .ok_or_else(|| ProtocolError::Key(key).into())
}
