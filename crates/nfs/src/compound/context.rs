//! The context of a COMPOUND: who calls, from where, in which session, and on which object (§16.2.3.1).
//!
//! **Owns** [`Compound`], [`Context`], [`Object`] and [`Target`]. **Called by** every operation. **Invariants**: each use of an object checks
//! again that the host may use its export; a current stateid belongs to the current file handle.

use crate::client::{CallbackPath, Principal, Session};
use crate::export::{Export, Tree};
use crate::handle::ObjectId;
use crate::rpc::Credential;
use crate::shared::Shared;
use crate::state::Denied;
use crate::wire::callback::ReferringCall;
use crate::wire::{Stateid, Status};
use crate::xdr::Writer;
use backend::file::{Caller, FileBackend, Handle};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

/// An object that a file handle names.
#[derive(Clone)]
pub(super) enum Object {
    /// A directory of the pseudo file system.
    Pseudo(u64),
    /// An object of an export.
    File(Arc<Export>, Handle),
}

/// An object of an export, with the rights of the caller there.
pub(super) struct Target {
    pub(super) export: Arc<Export>,
    pub(super) handle: Handle,
    pub(super) caller: Caller,
    pub(super) is_read_only: bool,
}

impl Target {
    pub(super) fn files(&self) -> &dyn FileBackend {
        self.export.files()
    }

    /// Errors: `Rofs`.
    pub(super) fn writable(self) -> Result<Self, Status> {
        match self.is_read_only {
            true => Err(Status::Rofs),
            false => Ok(self),
        }
    }
}

/// A COMPOUND that is being executed.
pub(super) struct Compound<'a> {
    pub(super) context: Context<'a>,
    pub(super) out: Writer,
    /// Bytes of the request.
    pub(super) record_len: usize,
    /// Most bytes that one READ returns.
    pub(super) read_max: u32,
}

/// The context of a COMPOUND.
pub(super) struct Context<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) tree: Arc<Tree>,
    pub(super) peer: IpAddr,
    /// The connection, as it may be used for callbacks.
    pub(super) path: &'a Arc<CallbackPath>,
    /// The minor version of the COMPOUND.
    pub(super) minor: u32,
    credential: &'a Credential,
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
    /// Most bytes of the results, if they must be kept for a retry.
    pub(super) cached_max: Option<usize>,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        (peer, path): (IpAddr, &'a Arc<CallbackPath>),
        credential: &'a Credential,
        minor: u32,
    ) -> Self {
        Self {
            shared,
            tree: shared.tree(),
            peer,
            path,
            minor,
            credential,
            session: None,
            request: None,
            made_session: false,
            current: None,
            saved: None,
            current_stateid: None,
            saved_stateid: None,
            denied: None,
            cached_max: None,
        }
    }

    pub(super) fn principal(&self) -> Principal {
        Principal::from(self.credential)
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

    /// The object of a directory of the pseudo file system: the root of the export that takes its place, if the host may use it.
    pub(super) fn node(&self, id: u64) -> Result<Object, Status> {
        let node = self.tree.node(id, self.peer).ok_or(Status::Stale)?;
        let export = node.export.as_ref().filter(|e| e.rule(self.peer).is_some());
        Ok(match export {
            Some(export) => Object::File(export.clone(), export.files().root()),
            None => Object::Pseudo(id),
        })
    }

    /// The object of a handle. Errors: `Badhandle`; `Stale` if the export is gone, or the host may not use it.
    pub(super) fn object(&self, handle: &[u8]) -> Result<Object, Status> {
        match self.shared.handles.open(handle).ok_or(Status::Badhandle)? {
            ObjectId::Pseudo(id) => {
                self.tree.node(id, self.peer).ok_or(Status::Stale)?;
                Ok(Object::Pseudo(id))
            }
            ObjectId::File(export, handle) => {
                let export = self.tree.export(export, self.peer).ok_or(Status::Stale)?;
                Ok(Object::File(export.clone(), handle))
            }
        }
    }

    /// The handle of an object.
    pub(super) fn handle(&self, object: &Object) -> Vec<u8> {
        let id = match object {
            Object::Pseudo(id) => ObjectId::Pseudo(*id),
            Object::File(export, handle) => ObjectId::File(export.config.id, *handle),
        };
        self.shared.handles.seal(id).to_vec()
    }

    /// The current object. Errors: `Nofilehandle`.
    pub(super) fn current(&self) -> Result<&Object, Status> {
        self.current.as_ref().ok_or(Status::Nofilehandle)
    }

    fn target_of(&self, object: Option<&Object>, pseudo: Status) -> Result<Target, Status> {
        match object.ok_or(Status::Nofilehandle)? {
            Object::Pseudo(_) => Err(pseudo),
            Object::File(export, handle) => {
                let rule = export.rule(self.peer).ok_or(Status::Stale)?;
                Ok(Target {
                    caller: rule.caller(self.credential),
                    is_read_only: rule.is_read_only,
                    export: export.clone(),
                    handle: *handle,
                })
            }
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

    /// Whether new locks and opens are refused, because a grace period goes on (§8.4.2).
    pub(super) fn is_grace(&self) -> bool {
        self.shared.grace().is_active(io::time::now())
    }
}
