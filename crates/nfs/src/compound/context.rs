//! The context of a COMPOUND: who calls, from where, in which session, and on which object (§16.2.3.1).
//!
//! **Owns** [`Compound`] and [`Context`]. **Called by** every operation. **Invariants**: a current stateid belongs to the current file handle.

pub(super) use crate::access::{Object, Target};
use crate::access::{Origin, View};
use crate::client::{CallbackPath, Principal, Session, Visitor};
use crate::dispatch::ReplyLimits;
use crate::rpc::Credential;
use crate::shared::Shared;
use crate::wire::callback::ReferringCall;
use crate::wire::{Bitmap, Stateid, Status};
use crate::xdr::Writer;
use filestate::Denied;
use io::SharedBuf;
use session::latency::CommandKind;
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A COMPOUND that is being executed.
pub(super) struct Compound<'a> {
    pub(super) context: Context<'a>,
    pub(super) out: Writer,
    /// The record of the request.
    pub(super) record: &'a SharedBuf,
    /// The limits of the reply.
    pub(super) limits: ReplyLimits,
    /// Minor version.
    pub(super) minor: u32,
}

/// The context of a COMPOUND.
pub(super) struct Context<'a> {
    pub(super) view: View<'a>,
    /// The connection, as it may be used for callbacks.
    pub(super) path: &'a Arc<CallbackPath>,
    pub(super) session: Option<Arc<Session>>,
    /// The slot and sequence number of the COMPOUND.
    pub(super) request: Option<ReferringCall>,
    /// Whether a session was created.
    pub(super) made_session: bool,
    pub(super) current: Option<Object>,
    pub(super) saved: Option<Object>,
    pub(super) current_stateid: Option<Stateid>,
    pub(super) saved_stateid: Option<Stateid>,
    /// The lock that refused the last LOCK or LOCKT.
    pub(super) denied: Option<Denied>,
    /// Attributes that a SETATTR set before it failed.
    pub(super) partly_set: Bitmap,
    /// Most bytes of the results, if they must be kept for a retry.
    pub(super) cached_max: Option<usize>,
    /// The kind of the request: that of its last READ, WRITE or COMMIT.
    pub(super) kind: CommandKind,
}

impl<'a> Deref for Context<'a> {
    type Target = View<'a>;

    fn deref(&self) -> &View<'a> {
        &self.view
    }
}

impl<'a> Context<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        (origin, path): (Origin, &'a Arc<CallbackPath>),
        (credential, rights): (&'a Credential, &'a Credential),
    ) -> Self {
        Self {
            view: View::new(shared, origin, (credential, rights)),
            path,
            session: None,
            request: None,
            made_session: false,
            current: None,
            saved: None,
            current_stateid: None,
            saved_stateid: None,
            denied: None,
            partly_set: Bitmap::default(),
            cached_max: None,
            kind: CommandKind::Other,
        }
    }

    pub(super) fn principal(&self) -> Principal {
        Principal::from(self.credential)
    }

    /// The host, as the exports know it.
    pub(super) fn visitor(&self) -> Visitor {
        Visitor {
            address: self.peer,
            standing: self.tree.standing(self.peer),
            is_reserving: self.tree.lists_hosts(),
            protection: self.protection.clone(),
        }
    }

    /// A hash of the credential, to recognise retries.
    pub(super) fn credential_print(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        self.credential.hash(&mut hasher);
        hasher.finish()
    }

    /// The client of the session.
    pub(super) fn client(&self) -> Result<u64, Status> {
        let session = self.session.as_ref().ok_or(Status::OpNotInSession)?;
        Ok(session.client())
    }

    /// The object becomes the current one; it has no stateid.
    pub(super) fn set_current(&mut self, object: Object) {
        self.current = Some(object);
        self.current_stateid = None;
    }

    /// The current object. Errors: `Nofilehandle`.
    pub(super) fn current(&self) -> Result<&Object, Status> {
        self.current.as_ref().ok_or(Status::Nofilehandle)
    }

    /// This object of an export. Errors: `Nofilehandle`; `pseudo` for a directory of the pseudo file system.
    pub(super) fn target_of(
        &self,
        object: Option<&Object>,
        pseudo: Status,
    ) -> Result<Target, Status> {
        match object.ok_or(Status::Nofilehandle)? {
            Object::Pseudo(_) => Err(pseudo),
            Object::File(export, handle) => Ok(self.view.target(export, *handle)?),
        }
    }

    /// The current object of an export. Errors: `Nofilehandle`; `pseudo` for a directory of the pseudo file system.
    pub(super) fn target(&self, pseudo: Status) -> Result<Target, Status> {
        self.target_of(self.current.as_ref(), pseudo)
    }

    /// The saved object of an export, likewise.
    pub(super) fn saved_target(&self, pseudo: Status) -> Result<Target, Status> {
        self.target_of(self.saved.as_ref(), pseudo)
    }

    /// A stateid in arguments: the current one if that is meant (§8.2.3). Errors: `BadStateid` if there is none.
    pub(super) fn stateid(&self, stateid: &Stateid) -> Result<Stateid, Status> {
        match *stateid == Stateid::CURRENT {
            true => self.current_stateid.ok_or(Status::BadStateid),
            false => Ok(*stateid),
        }
    }

    /// The client was granted state. Errors: `Delay` if that cannot be recorded.
    pub(super) async fn granted(&self) -> Result<(), Status> {
        let session = self.session.as_ref().ok_or(Status::OpNotInSession)?;
        self.shared.granted(session).await
    }

    /// A stateid in arguments that belongs to the saved object. Errors: `BadStateid` if the saved one is meant and there is none.
    pub(super) fn saved_stateid_of(&self, stateid: &Stateid) -> Result<Stateid, Status> {
        match *stateid == Stateid::CURRENT {
            true => self.saved_stateid.ok_or(Status::BadStateid),
            false => Ok(*stateid),
        }
    }
}
