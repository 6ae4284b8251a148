//! Settings: limits and deadlines, targets, access lists, authentication.

use crate::limits;
use crate::login::negotiate::Offer;
use crate::login::{ChapPolicy, Parameters};
use crate::wire::IscsiName;
use session::admission::AdmissionLimits;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Settings of all targets. Values above the named limits are lowered to them.
#[derive(Debug, Clone)]
pub struct Config {
    /// Our offer in negotiations.
    pub offer: Offer,
    /// Commands that a session may have outstanding.
    pub command_window: u32,
    /// Most connections that have logged in to a target; further ones are refused. Also bounds all connections together.
    pub connections_max: usize,
    /// Most connections that have not logged in; for a new one an old one is closed ([`session::admission`]).
    pub logins_max: usize,
    /// Most discovery sessions; for a new one an old one is closed.
    pub discovery_max: usize,
    /// Most sessions with targets; further ones are refused.
    pub sessions_max: usize,
    /// Bytes of buffers that one connection may hold: data on its way to the initiator or from it.
    pub connection_budget: usize,
    /// How long a login may take.
    pub login_timeout: Duration,
    /// How long the data that an R2T asked for may take.
    pub data_timeout: Duration,
    /// How long replies may lie unsent because the initiator does not receive them.
    pub stall_timeout: Duration,
    /// Silence after which an initiator is pinged (NOP-In); zero means never.
    pub nop_interval: Duration,
    /// How long it has to answer the ping.
    pub nop_timeout: Duration,
    /// How long an initiator has to log out after it was asked to, and to close after it was refused.
    pub linger: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            offer: Offer::default(),
            command_window: 128,
            connections_max: 4096,
            logins_max: 1024,
            discovery_max: 256,
            sessions_max: 1024,
            connection_budget: 8 << 20,
            login_timeout: Duration::from_secs(10),
            data_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            nop_interval: Duration::from_secs(15),
            nop_timeout: Duration::from_secs(15),
            linger: Duration::from_secs(2),
        }
    }
}

impl Config {
    /// The limits by phase.
    pub(crate) fn admission(&self) -> AdmissionLimits {
        AdmissionLimits {
            connections_max: self.connections_max,
            connecting_max: self.logins_max,
            discovery_max: self.discovery_max,
            companions: usize::from(limits::SESSION_CONNECTIONS_MAX),
        }
    }

    /// The same settings, lowered to the named limits.
    pub(crate) fn bounded(mut self) -> Config {
        self.offer = self.offer.bounded();
        self.command_window = self.command_window.clamp(2, limits::COMMAND_WINDOW_MAX);
        self.discovery_max = self.discovery_max.clamp(1, limits::DISCOVERY_MAX);
        let most = limits::SESSIONS_MAX - limits::DISCOVERY_MAX;
        self.sessions_max = self.sessions_max.clamp(1, most);
        self.connection_budget = self.connection_budget.max(2 * io::limits::BUF_LEN_MAX);
        self
    }
}

/// A transport of iSCSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IscsiTransport {
    /// TCP.
    Tcp,
    /// RDMA (iSER, RFC 7145).
    Iser,
}

impl IscsiTransport {
    /// The transport as a word of the control API and of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            IscsiTransport::Tcp => "tcp",
            IscsiTransport::Iser => "rdma",
        }
    }
}

/// A listening address of a portal group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portal {
    /// The address.
    pub address: SocketAddr,
    /// The tag of the portal group.
    pub group: u16,
    /// The transport that is served there.
    pub transport: IscsiTransport,
}

/// Which initiators may log in to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acl {
    /// Every initiator.
    Any,
    /// These initiators.
    List(BTreeSet<IscsiName>),
}

impl Acl {
    /// Whether `initiator` may log in.
    #[must_use]
    pub fn allows(&self, initiator: &IscsiName) -> bool {
        match self {
            Acl::Any => true,
            Acl::List(list) => list.contains(initiator),
        }
    }
}

/// Authentication that a target asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Authentication {
    /// Nothing.
    #[default]
    None,
    /// The same secret for all.
    Shared(ChapPolicy),
    /// Each initiator has its own secret; an initiator without one is refused.
    Each(BTreeMap<IscsiName, ChapPolicy>),
}

/// An initiator without a secret, where each has its own.
pub(crate) struct Unnamed;

impl Authentication {
    /// Whether a session of `initiator` may stay. `authenticated`: the initiator proved itself when it logged in. A new secret
    /// concerns new logins only.
    pub(crate) fn keeps(&self, initiator: &IscsiName, authenticated: bool) -> bool {
        match self.chap_for(initiator) {
            Ok(None) => true,
            Ok(Some(_)) => authenticated,
            Err(Unnamed) => false,
        }
    }

    /// The proof that `initiator` must give, if any.
    pub(crate) fn chap_for(&self, initiator: &IscsiName) -> Result<Option<ChapPolicy>, Unnamed> {
        match self {
            Authentication::None => Ok(None),
            Authentication::Shared(policy) => Ok(Some(policy.clone())),
            Authentication::Each(all) => all.get(initiator).cloned().map(Some).ok_or(Unnamed),
        }
    }
}

/// New address of a target (§11.13.5, class 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// `domainname[:port][,portal-group-tag]`.
    pub address: String,
    /// Whether it has moved for good.
    pub permanently: bool,
}

/// A target to serve.
#[derive(Clone)]
pub struct TargetConfig {
    /// Its name.
    pub name: IscsiName,
    /// TargetAlias.
    pub alias: Option<String>,
    /// Tag of the portal group that serves it.
    pub portal_group: u16,
    /// Relative target port identifier of that portal group in `device`.
    pub relative_port: u16,
    /// Initiators that may log in.
    pub acl: Acl,
    /// Authentication of these initiators.
    pub authentication: Authentication,
    /// New address, if it has moved.
    pub redirect: Option<Redirect>,
    /// The SCSI device behind it.
    pub device: Arc<scsi::Device>,
}

impl fmt::Debug for TargetConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetConfig")
            .field("name", &self.name)
            .field("portal_group", &self.portal_group)
            .field("acl", &self.acl)
            .finish_non_exhaustive()
    }
}

/// Why a control call was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// A target of this name is served already: choose another name.
    #[error("target {0} exists already")]
    TargetExists(IscsiName),
    /// No such target: add it first.
    #[error("there is no target {0}")]
    NoTarget(IscsiName),
    /// No such session.
    #[error("there is no session {0}")]
    NoSession(u16),
}

/// The negotiated parameters of a session.
pub type SessionParameters = Parameters;
