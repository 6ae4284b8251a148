//! Expectations that all clients of files have in common, and the meaning of errors.
//!
//! **Owns** [`Expectations`]. **Called by** the jobs of all machines. **Invariant** that it checks: a write verifier belongs to one
//! incarnation of the server.

use super::super::plan::Plan;
use super::locks::LockModel;
use super::names::NameModel;
use crate::access::Failure;
use crate::model::Model;
use nfs::service::NfsTransport;
use nfs::wire::Status;
use nfs_initiator::Error;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// Transport and address of the server.
pub(super) type To = (NfsTransport, SocketAddr);

/// Expectations that all clients have in common.
pub(in super::super) struct Expectations {
    pub(super) model: Rc<RefCell<Model>>,
    pub(super) block_size: u32,
    pub(super) locks_blocks: bool,
    pub(super) names: Vec<RefCell<NameModel>>,
    pub(super) locks: RefCell<LockModel>,
    /// The incarnation in which each write verifier was seen.
    verifiers: RefCell<BTreeMap<[u8; 8], u32>>,
}

impl Expectations {
    /// Nothing has happened yet.
    pub(in super::super) fn new(plan: &Plan, model: Rc<RefCell<Model>>) -> Expectations {
        Expectations {
            model,
            block_size: plan.block_size,
            locks_blocks: plan.locks,
            names: plan.clients.iter().map(|_| RefCell::default()).collect(),
            locks: RefCell::default(),
            verifiers: RefCell::default(),
        }
    }

    /// The incarnation of the server.
    pub(super) fn epoch(&self) -> u32 {
        self.model.borrow().epoch()
    }

    /// Records a violation.
    pub(super) fn blame(&self, what: String) {
        self.model.borrow_mut().blame(what);
    }

    /// Whether a promise was broken.
    pub(super) fn is_wrong(&self) -> bool {
        self.model.borrow().violation().is_some()
    }

    /// A reply to a request that began in incarnation `began` had this write verifier. A verifier is of one incarnation: else a client
    /// would not write again what the crash has undone.
    pub(super) fn verified(&self, began: u32, verifier: Option<[u8; 8]>) {
        let (Some(verifier), true) = (verifier, began == self.epoch()) else {
            return;
        };
        let before = self.verifiers.borrow_mut().insert(verifier, began);
        if before.is_some_and(|before| before != began) {
            self.blame(format!(
                "incarnation {began} has the write verifier of {before:?}: {verifier:x?}"
            ));
        }
    }
}

/// The model's failure for an initiator's error. A status that no fault explains is `Wrong`.
pub(super) fn failure(e: &Error) -> Failure {
    let status = match e {
        Error::Status { status, .. } => *status,
        Error::Timeout
        | Error::Disconnected
        | Error::Closed
        | Error::NotAccepted
        | Error::Unreachable(_) => return Failure::Unknown,
        Error::Refused(_) => return Failure::Wrong("RPC refused a call"),
        Error::Invalid(what) => return Failure::Wrong(what),
        Error::Protocol(_) => return Failure::Wrong("the server broke the protocol"),
        Error::UnknownStatus { .. } => return Failure::Wrong("a status of no specification"),
    };
    match status {
        Status::Io => Failure::Media,
        Status::Nospc | Status::Dquot => Failure::NoSpace,
        Status::Grace | Status::Delay | Status::Denied => Failure::NotNow,
        // The export is away for a moment, or the lease is over.
        Status::Stale | Status::Badsession | Status::StaleClientid => Failure::Gone,
        Status::BadStateid | Status::Expired | Status::AdminRevoked => Failure::Gone,
        Status::Noent => Failure::Wrong("an object is missing"),
        Status::Exist => Failure::Wrong("an object is there"),
        _ => Failure::Wrong("a status that nothing explains"),
    }
}
