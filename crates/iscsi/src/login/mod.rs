//! Login (§6.3): stages, names, authentication, negotiation. A state machine from requests to responses.
//!
//! **Owns** the state of one login. **Called by** a connection that is not in full feature phase yet. **Invariants**: no
//! I/O; targets and secrets are known to the realm, which the machine asks; a login ends after [`LOGIN_PDUS_MAX`] PDUs; no
//! request of an initiator takes effect before its proof; a refused login leaves nothing behind.

pub mod chap;
pub mod negotiate;

pub use chap::{Algorithm, ChapPolicy, Credential, Secret};
pub use negotiate::{Offer, Parameters};

use crate::limits::{CHAP_CHALLENGE_LEN, LOGIN_DATA_MAX, LOGIN_PDUS_MAX, TEXT_LEN_MAX};
use crate::wire::request::LoginRequest;
use crate::wire::response::{LoginResponse, LoginStatus};
use crate::wire::text::{Pairs, Text};
use crate::wire::{IscsiName, Isid};
use chap::Challenge;
use negotiate::Negotiation;

/// Stage numbers of CSG and NSG (§11.12.3).
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Identity of an initiator that logs in, and the target that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applicant {
    /// InitiatorName.
    pub initiator: IscsiName,
    /// TargetName; none for a discovery session.
    pub target: Option<IscsiName>,
    /// ISID.
    pub isid: Isid,
    /// TSIH; zero for a new session.
    pub tsih: u16,
    /// CID.
    pub cid: u16,
}

/// Conditions for an applicant to be admitted.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The proof that is asked for.
    pub chap: Option<ChapPolicy>,
    /// Portal group tag of the target; none for discovery.
    pub portal_group: Option<u16>,
    /// TargetAlias.
    pub alias: Option<String>,
    /// Parameters of the session that the connection joins.
    pub joined: Option<Parameters>,
}

/// Why an applicant is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// With this status.
    Status(LoginStatus),
    /// The target is forbidden, for the reason of this status. The applicant gets the answer for a target that does not exist
    /// (§11.13.5, 0203h): a stranger learns no names.
    Forbidden(LoginStatus),
    /// The target has moved to this address (§11.13.5, class 1).
    Moved {
        /// `domainname[:port][,portal-group-tag]`.
        address: String,
        /// For good.
        permanently: bool,
    },
}

/// Targets, secrets and randomness, which the machine asks for.
pub trait Realm {
    /// Whether an applicant may try.
    fn admit(&self, applicant: &Applicant) -> Result<Admission, Refusal>;
    /// Whether the applicant gave too many wrong secrets of late.
    fn is_throttled(&self, initiator: &IscsiName) -> bool;
    /// The applicant proved itself, or did not.
    fn proven(&self, initiator: &IscsiName, right: bool);
    /// Random bytes for a challenge.
    fn random(&self, out: &mut [u8]);
}

/// The response to a request, and the next step.
#[derive(Debug)]
pub struct Step {
    /// The response, without its serial numbers.
    pub response: LoginResponse,
    /// The real status, for counters and logs. The response may carry another one.
    pub status: LoginStatus,
    /// Its text.
    pub text: Vec<u8>,
    /// The next step.
    pub then: Then,
}

/// The step after a response.
#[derive(Debug)]
pub enum Then {
    /// The next request.
    Continue,
    /// Full feature phase, once the response has the session's TSIH.
    Finish(Box<LoggedIn>),
    /// The end of the connection.
    Close,
}

/// A login that succeeded.
#[derive(Debug, Clone)]
pub struct LoggedIn {
    /// The initiator and its target.
    pub applicant: Applicant,
    /// InitiatorAlias.
    pub alias: Option<String>,
    /// The negotiated parameters.
    pub parameters: Parameters,
    /// The proof that the initiator gave, if one was asked for.
    pub proved: Option<ChapPolicy>,
}

/// Progress of authentication.
#[derive(Debug)]
enum Auth {
    /// AuthMethod was not negotiated.
    Open,
    /// CHAP was chosen; CHAP_A is awaited.
    Chosen,
    /// A challenge was sent.
    Challenged(Challenge),
    /// Proven, or not asked for.
    Done,
}

/// Identity, conditions and negotiation of a login, known after its first request.
#[derive(Debug)]
struct Known {
    applicant: Applicant,
    admission: Admission,
    alias: Option<String>,
    negotiation: Negotiation,
    auth: Auth,
}

/// The state of one login.
#[derive(Debug)]
pub struct Login {
    offer: Offer,
    pdus: usize,
    stage: u8,
    first: Option<LoginRequest>,
    text: Vec<u8>,
    known: Option<Known>,
}

impl Login {
    /// A login without a request.
    #[must_use]
    pub fn new(offer: Offer) -> Login {
        Login {
            offer,
            pdus: 0,
            stage: SECURITY,
            first: None,
            text: Vec::new(),
            known: None,
        }
    }

    /// The initiator's name, once it is known.
    #[must_use]
    pub fn initiator(&self) -> Option<&IscsiName> {
        self.known.as_ref().map(|k| &k.applicant.initiator)
    }

    /// Takes one request with its data segment.
    pub fn request(&mut self, request: &LoginRequest, data: &[u8], realm: &dyn Realm) -> Step {
        let mut out = Text::new();
        match self.take(request, data, realm, &mut out) {
            Ok(None) => step(request, out, false, Then::Continue),
            Ok(Some(done)) => step(request, out, true, done),
            Err(refusal) => refuse(request, refusal),
        }
    }

    /// `Ok(Some)` leaves the stage as the request asks.
    fn take(
        &mut self,
        r: &LoginRequest,
        data: &[u8],
        realm: &dyn Realm,
        out: &mut Text,
    ) -> Result<Option<Then>, Refusal> {
        self.check(r)?;
        if self.text.len() + data.len() > TEXT_LEN_MAX {
            return Err(status(LoginStatus::INITIATOR_ERROR));
        }
        self.text.extend_from_slice(data);
        if r.more {
            return Ok(None);
        }
        let pairs = Pairs::parse(&std::mem::take(&mut self.text))
            .map_err(|_| status(LoginStatus::INITIATOR_ERROR))?;
        if self.known.is_none() {
            self.known = Some(introduce(r, &pairs, &self.offer, realm)?);
            if let Some(k) = &self.known {
                k.introduce_target(out);
            }
        }
        let Some(known) = &mut self.known else {
            return Err(status(LoginStatus::TARGET_ERROR));
        };
        let ready = if r.csg == SECURITY {
            known.security(&pairs, realm, out)?
        } else {
            if !matches!(known.auth, Auth::Done) {
                if known.admission.chap.is_some() {
                    return Err(status(LoginStatus::AUTHENTICATION_FAILURE));
                }
                known.auth = Auth::Done;
            }
            known.operational(&pairs, out)?
        };
        if out.len() > LOGIN_DATA_MAX as usize {
            return Err(status(LoginStatus::INITIATOR_ERROR));
        }
        if !r.transit || !ready {
            return Ok(None);
        }
        self.stage = r.nsg;
        if r.nsg != FULL_FEATURE {
            return Ok(Some(Then::Continue));
        }
        known.negotiation.reconcile();
        Ok(Some(Then::Finish(Box::new(LoggedIn {
            applicant: known.applicant.clone(),
            alias: known.alias.clone(),
            parameters: known.negotiation.parameters,
            proved: known.admission.chap.clone(),
        }))))
    }

    /// Compares a request's header with the headers before it (§11.12).
    fn check(&mut self, r: &LoginRequest) -> Result<(), Refusal> {
        self.pdus += 1;
        if r.version_min > 0 {
            return Err(status(LoginStatus::UNSUPPORTED_VERSION));
        }
        let first = self.first.get_or_insert_with(|| {
            self.stage = r.csg;
            *r
        });
        let same = (first.isid, first.tsih, first.cid, first.itt) == (r.isid, r.tsih, r.cid, r.itt);
        let staged = r.csg == self.stage && matches!(r.csg, SECURITY | OPERATIONAL);
        let forward = !r.transit || r.nsg > r.csg && matches!(r.nsg, OPERATIONAL | FULL_FEATURE);
        // §11.12.2: with C, T must be 0.
        if self.pdus > LOGIN_PDUS_MAX || !same || !staged || !forward || r.transit && r.more {
            return Err(status(LoginStatus::INITIATOR_ERROR));
        }
        Ok(())
    }
}

fn status(s: LoginStatus) -> Refusal {
    Refusal::Status(s)
}

/// Reads the names, and asks the realm (§6.3: the first request names both ends).
fn introduce(
    r: &LoginRequest,
    pairs: &Pairs,
    offer: &Offer,
    realm: &dyn Realm,
) -> Result<Known, Refusal> {
    let missing = || status(LoginStatus::MISSING_PARAMETER);
    let invalid = |_| status(LoginStatus::INITIATOR_ERROR);
    let initiator = pairs.get("InitiatorName").ok_or_else(missing)?;
    let initiator = IscsiName::new(initiator).map_err(invalid)?;
    let discovery = match pairs.get("SessionType") {
        None | Some("Normal") => false,
        Some("Discovery") => true,
        Some(_) => return Err(status(LoginStatus::SESSION_TYPE_NOT_SUPPORTED)),
    };
    let target = match pairs.get("TargetName") {
        // §4.2.7: an unknown name is not found, also if it is malformed.
        Some(name) if !discovery => {
            Some(IscsiName::new(name).map_err(|_| status(LoginStatus::NOT_FOUND))?)
        }
        None if !discovery => return Err(missing()),
        _ => None,
    };
    let applicant = Applicant {
        initiator,
        target,
        isid: r.isid,
        tsih: r.tsih,
        cid: r.cid,
    };
    let admission = realm.admit(&applicant)?;
    Ok(Known {
        negotiation: Negotiation::new(offer, discovery, admission.joined),
        applicant,
        admission,
        alias: pairs.get("InitiatorAlias").map(str::to_owned),
        auth: Auth::Open,
    })
}

impl Known {
    /// Keys of the first response about the target (§13.9).
    fn introduce_target(&self, out: &mut Text) {
        if let Some(tag) = self.admission.portal_group {
            out.put("TargetPortalGroupTag", &tag.to_string());
        }
        if let Some(alias) = &self.admission.alias {
            out.put("TargetAlias", alias);
        }
    }

    /// Security stage (§12). `Ok(true)`: the initiator may go on.
    fn security(
        &mut self,
        pairs: &Pairs,
        realm: &dyn Realm,
        out: &mut Text,
    ) -> Result<bool, Refusal> {
        let failed = || status(LoginStatus::AUTHENTICATION_FAILURE);
        self.answer_all(pairs, out, |key| {
            key == "AuthMethod" || key.starts_with("CHAP_")
        })?;
        if let Some(methods) = pairs.get("AuthMethod") {
            if !matches!(self.auth, Auth::Open) {
                return Err(status(LoginStatus::INITIATOR_ERROR));
            }
            let wanted = if self.admission.chap.is_some() {
                "CHAP"
            } else {
                "None"
            };
            if !methods.split(',').any(|m| m == wanted) {
                return Err(failed());
            }
            out.put("AuthMethod", wanted);
            self.auth = match wanted {
                "CHAP" => Auth::Chosen,
                _ => Auth::Done,
            };
            return Ok(matches!(self.auth, Auth::Done));
        }
        let Some(policy) = &self.admission.chap else {
            self.auth = Auth::Done;
            return Ok(true);
        };
        let initiator = &self.applicant.initiator;
        match std::mem::replace(&mut self.auth, Auth::Open) {
            Auth::Done => self.auth = Auth::Done,
            // A first request may have names only; AuthMethod follows.
            Auth::Open => {}
            Auth::Chosen if pairs.get("CHAP_A").is_some() => {
                if realm.is_throttled(initiator) {
                    return Err(failed());
                }
                let mut random = [0; CHAP_CHALLENGE_LEN + 1];
                realm.random(&mut random);
                let challenge = Challenge::issue(pairs, random, out).map_err(|_| failed())?;
                self.auth = Auth::Challenged(challenge);
            }
            Auth::Chosen => self.auth = Auth::Chosen,
            Auth::Challenged(challenge) => {
                let result = challenge.verify(pairs, policy, out);
                // A malformed answer counts too: otherwise it would clear the wrong answers before it.
                realm.proven(initiator, result.is_ok());
                result.map_err(|_| failed())?;
                self.auth = Auth::Done;
            }
        }
        Ok(matches!(self.auth, Auth::Done))
    }

    /// Operational stage (§6.2).
    fn operational(&mut self, pairs: &Pairs, out: &mut Text) -> Result<bool, Refusal> {
        self.answer_all(pairs, out, |_| false)?;
        self.negotiation.declare(out);
        Ok(true)
    }

    /// Answers all operational keys except the keys in `skip`.
    fn answer_all(
        &mut self,
        pairs: &Pairs,
        out: &mut Text,
        skip: impl Fn(&str) -> bool,
    ) -> Result<(), Refusal> {
        for (key, value) in pairs.iter() {
            if matches!(key, "InitiatorName" | "TargetName" | "SessionType") || skip(key) {
                continue;
            }
            // §13: only targets send these keys.
            if matches!(
                key,
                "TargetAlias" | "TargetAddress" | "TargetPortalGroupTag"
            ) {
                return Err(status(LoginStatus::INITIATOR_ERROR));
            }
            if key == "InitiatorAlias" {
                self.alias = Some(value.to_owned());
            }
            self.negotiation
                .answer(key, value, out)
                .map_err(|_| status(LoginStatus::INITIATOR_ERROR))?;
        }
        Ok(())
    }
}

fn step(r: &LoginRequest, out: Text, transit: bool, then: Then) -> Step {
    let response = LoginResponse {
        transit,
        csg: r.csg,
        nsg: r.nsg,
        isid: r.isid,
        tsih: r.tsih,
        itt: r.itt,
        status: LoginStatus::SUCCESS,
    };
    Step {
        status: response.status,
        response,
        text: out.into_bytes(),
        then,
    }
}

/// The response that refuses a login.
#[must_use]
pub fn refuse(r: &LoginRequest, refusal: Refusal) -> Step {
    let mut out = Text::new();
    let (why, told) = match refusal {
        Refusal::Status(s) => (s, s),
        Refusal::Forbidden(s) => (s, LoginStatus::NOT_FOUND),
        Refusal::Moved {
            address,
            permanently,
        } => {
            out.put("TargetAddress", &address);
            let moved = match permanently {
                true => LoginStatus::MOVED_PERMANENTLY,
                false => LoginStatus::MOVED_TEMPORARILY,
            };
            (moved, moved)
        }
    };
    let mut s = step(r, out, false, Then::Close);
    (s.status, s.response.status) = (why, told);
    s.response.csg &= 1;
    s
}
