//! A served target: its configuration, and the settings that may change while initiators are logged in.
//!
//! **Called by** logins and the control plane.

use super::config::{Acl, Authentication, Redirect, TargetConfig, Unnamed};
use crate::login::ChapPolicy;
use crate::wire::IscsiName;
use io::sync::lock;
use session::stages::StageCounters;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// One target.
pub(crate) struct TargetEntry {
    pub(crate) name: IscsiName,
    pub(crate) alias: Option<String>,
    pub(crate) portal_group: u16,
    pub(crate) relative_port: u16,
    pub(crate) device: Arc<scsi::Device>,
    /// Time of commands by stage.
    pub(crate) stages: Arc<StageCounters>,
    /// Whether initiators are told to log in later.
    is_held: AtomicBool,
    access: Mutex<Access>,
}

struct Access {
    acl: Acl,
    authentication: Authentication,
    redirect: Option<Redirect>,
}

impl TargetEntry {
    pub(crate) fn new(c: TargetConfig) -> TargetEntry {
        TargetEntry {
            name: c.name,
            alias: c.alias,
            portal_group: c.portal_group,
            relative_port: c.relative_port,
            device: c.device,
            stages: Arc::default(),
            is_held: AtomicBool::new(false),
            access: Mutex::new(Access {
                acl: c.acl,
                authentication: c.authentication,
                redirect: c.redirect,
            }),
        }
    }

    /// Whether `initiator` is on the access list.
    pub(crate) fn lists(&self, initiator: &IscsiName) -> bool {
        matches!(&lock(&self.access).acl, Acl::List(list) if list.contains(initiator))
    }

    /// Whether the target has an access list.
    pub(crate) fn has_list(&self) -> bool {
        matches!(lock(&self.access).acl, Acl::List(_))
    }

    /// Whether a session of `initiator` may stay after a change of access.
    pub(crate) fn keeps(&self, initiator: &IscsiName, authenticated: bool) -> bool {
        let access = lock(&self.access);
        access.acl.allows(initiator) && access.authentication.keeps(initiator, authenticated)
    }

    pub(crate) fn allows(&self, initiator: &IscsiName) -> bool {
        lock(&self.access).acl.allows(initiator)
    }

    pub(crate) fn set_access(&self, acl: Acl, authentication: Authentication) {
        let mut access = lock(&self.access);
        access.acl = acl;
        access.authentication = authentication;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    pub(crate) fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }

    pub(crate) fn redirect(&self) -> Option<Redirect> {
        lock(&self.access).redirect.clone()
    }

    pub(crate) fn set_redirect(&self, redirect: Option<Redirect>) {
        lock(&self.access).redirect = redirect;
    }

    /// The proof that `initiator` must give.
    pub(crate) fn chap_for(&self, initiator: &IscsiName) -> Result<Option<ChapPolicy>, Unnamed> {
        lock(&self.access).authentication.chap_for(initiator)
    }
}
