//! The objects that a host may use, and the rights of a caller there.
//!
//! **Invariants**: each use of an object checks again that the host may use its export, and over this connection.

use crate::export::{Access, Export, Protection, Rule, Tree};
use crate::handle::ObjectId;
use crate::rpc::Credential;
use crate::shared::Shared;
use crate::transport::NfsTransport;
use backend::file::{Caller, FileBackend, Handle};
use std::net::IpAddr;
use std::sync::Arc;

/// An object that a file handle names.
#[derive(Clone)]
pub(crate) enum Object {
    /// A directory of the pseudo file system.
    Pseudo(u64),
    /// An object of an export.
    File(Arc<Export>, Handle),
}

/// Why a file handle names no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoObject {
    /// The bytes are no handle of this server.
    Forged,
    /// The export is gone, or the host may not use it.
    Stale,
    /// The connection is not protected as the export demands.
    Insecure,
    /// The connection does not come from a privileged port, as the export demands.
    Unprivileged,
    /// Whether the host may use the export depends on a name that cannot be resolved now. The client asks again.
    Undecided,
}

/// The connection of a request.
#[derive(Clone)]
pub(crate) struct Origin {
    /// The address of the client.
    pub(crate) peer: IpAddr,
    pub(crate) transport: NfsTransport,
    pub(crate) protection: Protection,
    /// Whether only the administrator of the client's machine can have made the connection: it comes from a privileged port, is over RDMA,
    /// or has shown the machine's certificate.
    pub(crate) is_privileged: bool,
}

/// The host may not change anything in an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadOnly;

/// An object of an export, with the rights of the caller there.
pub(crate) struct Target {
    pub(crate) export: Arc<Export>,
    pub(crate) handle: Handle,
    pub(crate) caller: Caller,
    pub(crate) is_read_only: bool,
}

impl Target {
    pub(crate) fn files(&self) -> &dyn FileBackend {
        self.export.files()
    }

    /// Whether another object is of the same file system and the same export.
    pub(crate) fn is_beside(&self, other: &Target) -> bool {
        self.export.config.id == other.export.config.id
            && self.handle.filesystem == other.handle.filesystem
    }

    /// Errors: the host may only read.
    pub(crate) fn writable(self) -> Result<Self, ReadOnly> {
        match self.is_read_only {
            true => Err(ReadOnly),
            false => Ok(self),
        }
    }
}

/// The exports as one caller sees them.
pub(crate) struct View<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) peer: IpAddr,
    /// How the connection is protected.
    pub(crate) protection: Protection,
    /// See [`Origin::is_privileged`].
    pub(crate) is_privileged: bool,
    pub(crate) credential: &'a Credential,
    /// The credential that decides about rights.
    pub(crate) rights: &'a Credential,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        origin: Origin,
        (credential, rights): (&'a Credential, &'a Credential),
    ) -> Self {
        Self {
            shared,
            tree: shared.tree(),
            peer: origin.peer,
            protection: origin.protection,
            is_privileged: origin.is_privileged,
            credential,
            rights,
        }
    }

    /// The object of a directory of the pseudo file system: the root of the export that takes its place, if the host may use it.
    pub(crate) fn node(&self, id: u64) -> Result<Object, NoObject> {
        let node = self.tree.node(id, self.peer).ok_or(NoObject::Stale)?;
        let Some(export) = &node.export else {
            return Ok(Object::Pseudo(id));
        };
        match export.access(self.peer) {
            Access::Granted(_) => Ok(Object::File(export.clone(), export.files().root())),
            Access::Undecided => Err(NoObject::Undecided),
            Access::Denied => Ok(Object::Pseudo(id)),
        }
    }

    /// The rights of the host at an export. Errors: `Stale`, `Undecided`.
    fn rule<'e>(&self, export: &'e Export) -> Result<&'e Rule, NoObject> {
        match export.access(self.peer) {
            Access::Granted(rule) => Ok(rule),
            Access::Undecided => Err(NoObject::Undecided),
            Access::Denied => Err(NoObject::Stale),
        }
    }

    /// The object of a handle.
    pub(crate) fn object(&self, handle: &[u8]) -> Result<Object, NoObject> {
        match self.shared.handles.open(handle).ok_or(NoObject::Forged)? {
            ObjectId::Pseudo(id) => {
                self.tree.node(id, self.peer).ok_or(NoObject::Stale)?;
                Ok(Object::Pseudo(id))
            }
            ObjectId::File(export, handle) => {
                let export = self.tree.export(export, self.peer);
                let export = export.ok_or(NoObject::Stale)?;
                self.rule(export)?;
                Ok(Object::File(export.clone(), handle))
            }
        }
    }

    /// The handle of an object.
    pub(crate) fn handle(&self, object: &Object) -> Vec<u8> {
        let id = match object {
            Object::Pseudo(id) => ObjectId::Pseudo(*id),
            Object::File(export, handle) => ObjectId::File(export.config.id, *handle),
        };
        self.shared.handles.seal(id).to_vec()
    }

    /// Whether the rights of a rule may be used over the connection. Errors: `Insecure`, `Unprivileged`.
    fn check_connection(&self, export: &Export, rule: &Rule) -> Result<(), NoObject> {
        if rule.security > self.protection.security {
            return Err(NoObject::Insecure);
        }
        if rule.needs_privileged_port && !self.is_privileged {
            let path = export.config.path.clone();
            self.shared
                .note_unprivileged(self.peer, path, rule.is_read_only);
            return Err(NoObject::Unprivileged);
        }
        Ok(())
    }

    /// Whether an object may be used over the connection. Errors: `Insecure`, `Unprivileged`.
    pub(crate) fn check_security(&self, object: &Object) -> Result<(), NoObject> {
        let Object::File(export, _) = object else {
            return Ok(());
        };
        match export.rule(self.peer) {
            Some(rule) => self.check_connection(export, rule),
            None => Ok(()),
        }
    }

    /// An object of an export, with the rights of the caller. Errors: `Stale` if the host may not use the export, `Undecided` if that
    /// is not known now, `Insecure` or `Unprivileged` if it may not over this connection.
    pub(crate) fn target(&self, export: &Arc<Export>, handle: Handle) -> Result<Target, NoObject> {
        let rule = self.rule(export)?;
        self.check_connection(export, rule)?;
        Ok(Target {
            caller: rule.caller(self.rights),
            is_read_only: rule.is_read_only,
            export: export.clone(),
            handle,
        })
    }

    /// Whether state of before a restart may still be reclaimed, so that data must not be read or written without it (§8.4.2).
    pub(crate) fn is_grace(&self) -> bool {
        self.shared.grace().is_active(io::time::now())
    }
}
