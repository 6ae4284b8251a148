//! Reservation Register, Acquire, Release and Report (Base 7.2 to 7.5).
//!
//! **Called by** the I/O dispatcher. **Invariants**: with persistence through power loss, a change takes effect after it is on
//! stable storage, and never if it cannot be saved; other hosts are told after that.

use super::command::Command;
use super::limits::REGISTRANTS_MAX;
use super::namespace::Namespace;
use super::phase::Ready;
use super::request::{Acquire, Register, Release};
use super::reservation::{Notices, Refusal, Reservations};
use super::shared::TargetShared;
use super::status::Completion;
use super::subsystem::Subsystem;
use crate::wire::command::Nsid;
use crate::wire::nqn::HostId;
use crate::wire::reservation::{
    AcquireAction, CNTLID_DYNAMIC, PersistChange, RegisterAction, RegistrantStatus, ReleaseAction,
    ReservationKeys, ReservationStatus, parse_release_key,
};
use crate::wire::status::Status;
use io::Payload;
use session::reservation::{NotChanged, Stored};
use std::sync::Arc;

fn status_of(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Conflict => Status::RESERVATION_CONFLICT.dnr(),
        Refusal::InvalidField => Status::INVALID_FIELD.dnr(),
        Refusal::Full => Status::INTERNAL_ERROR,
    }
}

impl Ready<'_> {
    /// Reservation Register (Base 7.3).
    pub(super) fn reservation_register(&mut self, command: Command, r: Register, data: &[u8]) {
        let Ok(keys) = ReservationKeys::parse(data) else {
            return self.fail(command, Status::DATA_SGL_LENGTH_INVALID.dnr());
        };
        let (Some(action), Some(persist)) = (r.action, r.persist) else {
            return self.fail(command, Status::INVALID_FIELD.dnr());
        };
        let (current, new) = (keys.current.get(), keys.other.get());
        let ignore = r.ignore_existing;
        self.change_reservations(command, move |r, host| match action {
            RegisterAction::Register => r.register(host, new, persist).map(|()| Notices::new()),
            RegisterAction::Unregister => r.unregister(host, current, ignore, persist),
            RegisterAction::Replace => r
                .replace(host, current, new, ignore, persist)
                .map(|()| Notices::new()),
        });
    }

    /// Reservation Acquire (Base 7.2).
    pub(super) fn reservation_acquire(&mut self, command: Command, a: Acquire, data: &[u8]) {
        let Ok(keys) = ReservationKeys::parse(data) else {
            return self.fail(command, Status::DATA_SGL_LENGTH_INVALID.dnr());
        };
        // IEKEY is obsolete for this command since 1.3 and must be zero.
        let (Some(action), Some(kind), false) = (a.action, a.kind, a.ignore_existing) else {
            return self.fail(command, Status::INVALID_FIELD.dnr());
        };
        let (key, victim) = (keys.current.get(), keys.other.get());
        self.change_reservations(command, move |r, host| match action {
            AcquireAction::Acquire => r.acquire(host, key, kind).map(|()| Notices::new()),
            // Commands of a preempted host that the backend has are not recalled. Commands that wait meet the conflict
            // when they are executed.
            AcquireAction::Preempt | AcquireAction::PreemptAndAbort => {
                r.preempt(host, key, victim, kind)
            }
        });
    }

    /// Reservation Release (Base 7.4).
    pub(super) fn reservation_release(&mut self, command: Command, r: Release, data: &[u8]) {
        let Ok(key) = parse_release_key(data) else {
            return self.fail(command, Status::DATA_SGL_LENGTH_INVALID.dnr());
        };
        let (Some(action), false) = (r.action, r.ignore_existing) else {
            return self.fail(command, Status::INVALID_FIELD.dnr());
        };
        let kind = r.kind;
        self.change_reservations(command, move |r, host| match action {
            ReleaseAction::Release => r.release(host, key, kind),
            ReleaseAction::Clear => r.clear(host, key),
        });
    }

    /// Reservation Report (Base 7.5) of `len` bytes.
    pub(super) fn reservation_report(&mut self, command: Command, len: u64, extended: bool) {
        let view = match self.namespace(command.nsid()) {
            Ok(view) => view,
            Err(status) => return self.fail(command, status),
        };
        // With fabrics, host identifiers have 128 bits: only the extended structure can hold them.
        if !extended {
            return self.fail(command, Status::HOST_ID_INCONSISTENT.dnr());
        }
        let status = {
            let r = view.ns.reservations();
            // Controllers are dynamic: an identifier of the moment would tell a host nothing about a registrant.
            let registrants = r.registrants();
            let registrants = registrants.map(|(host_id, key, holder)| RegistrantStatus {
                cntlid: CNTLID_DYNAMIC,
                holder,
                key,
                host_id,
            });
            ReservationStatus {
                generation: r.generation(),
                kind: r.kind(),
                persist: r.persists(),
                registrants: registrants.collect(),
            }
        };
        let mut bytes = status.to_bytes(true);
        // The host may have asked for far more than there can be. Bytes beyond the end stay as they were.
        let most = (64 * (REGISTRANTS_MAX as u64 + 1)).max(bytes.len() as u64);
        bytes.resize(len.min(most) as usize, 0);
        self.send_structure(command, Payload::from(bytes));
    }

    /// The Reservation Persistence feature (Base 5.27.1.27).
    pub(super) fn set_persistence(&mut self, command: Command, on: bool) {
        if command.nsid() == Nsid::ALL || command.nsid() == Nsid::NONE {
            return self.fail(command, Status::INVALID_NAMESPACE.dnr());
        }
        let change = if on {
            PersistChange::On
        } else {
            PersistChange::Off
        };
        self.change_reservations(command, move |r, _| {
            r.set_persistence(change);
            Ok(Notices::new())
        });
    }

    /// Applies a change, saved first where it is to persist; then tells other hosts, and answers.
    fn change_reservations(
        &mut self,
        command: Command,
        change: impl Fn(&mut Reservations, HostId) -> Result<Notices, Refusal> + Send + 'static,
    ) {
        let view = match self.namespace(command.nsid()) {
            Ok(view) => view,
            Err(status) => return self.fail(command, status),
        };
        let controller = self.queue.controller();
        let host = controller.host_id;
        let change = move |r: &mut Reservations| change(r, host);
        let subsystem = controller.subsystem().cloned();
        let audience = Audience::new(self.target().clone(), subsystem, view.ns.nsid);
        if let Some(changed) = view.ns.change_unsaved(&change) {
            return match changed {
                Ok(notices) => {
                    audience.tell(&notices);
                    self.complete(command, Completion::SUCCESS);
                }
                Err(refusal) => self.fail(command, status_of(refusal)),
            };
        }
        let ns = view.ns.clone();
        // Other hosts are told also when this connection has ended meanwhile.
        let changed = async move {
            let changed = change_saved(ns, change).await;
            if let Ok(notices) = &changed {
                audience.tell(notices);
            }
            changed
        };
        self.wait_on(command, changed, |ready, command, changed| match changed {
            Ok(_) => ready.complete(command, Completion::SUCCESS),
            Err(status) => ready.fail(command, status),
        });
    }
}

/// The hosts that learn of a change.
pub(super) struct Audience {
    target: Arc<TargetShared>,
    subsystem: Option<Arc<Subsystem>>,
    nsid: Nsid,
}

impl Audience {
    pub(super) fn new(
        target: Arc<TargetShared>,
        subsystem: Option<Arc<Subsystem>>,
        nsid: Nsid,
    ) -> Self {
        Self {
            target,
            subsystem,
            nsid,
        }
    }

    pub(super) fn tell(&self, notices: &Notices) {
        if notices.is_empty() {
            return;
        }
        let all = self
            .target
            .controllers_of_subsystem(self.subsystem.as_ref());
        for controller in all {
            for (_, notice) in notices.iter().filter(|(h, _)| *h == controller.host_id) {
                controller.reservation_notice(self.nsid, *notice);
            }
        }
    }
}

/// A change that is saved. Errors: the status of the command.
async fn change_saved(
    ns: Arc<Namespace>,
    change: impl Fn(&mut Reservations) -> Result<Notices, Refusal> + Send + 'static,
) -> Result<Notices, Status> {
    let nsid = ns.nsid;
    let unsaved = |error: &dyn std::fmt::Display| {
        tracing::error!(%nsid, %error, "reservations could not be saved: the change is refused");
        Status::INTERNAL_ERROR
    };
    match io::blocking(move || ns.change(&change)).await {
        Ok(Ok(notices)) => Ok(notices),
        Ok(Err(NotChanged::Refused(refusal))) => Err(status_of(refusal)),
        Ok(Err(NotChanged::Unsaved(e))) => Err(unsaved(&e)),
        Err(e) => Err(unsaved(&e)),
    }
}
