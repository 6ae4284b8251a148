//! Reservation Register, Acquire, Release and Report (Base 7.2 to 7.5).
//!
//! **Called by** the I/O dispatcher. **Invariants**: with persistence through power loss, a
//! change takes effect after it is on stable storage, and never if it cannot be saved; other hosts are told after that.

use super::Shared;
use super::connection::Core;
use super::limits::REGISTRANTS_MAX;
use super::namespace::Namespace;
use super::reservation::{Notices, Refusal, Reservations};
use super::status::Completion;
use super::subsystem::Subsystem;
use crate::wire::command::{Nsid, Sqe};
use crate::wire::nqn::HostId;
use crate::wire::reservation::{
    AcquireAction, PersistChange, RegisterAction, RegistrantStatus, ReleaseAction, ReservationKeys,
    ReservationStatus, parse_release_key,
};
use crate::wire::status::Status;
use io::Payload;
use session::reservation::{NotChanged, Stored};
use std::sync::Arc;

/// CNTLID of a registrant without a controller.
const CNTLID_NONE: u16 = 0xffff;

fn status_of(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Conflict => Status::RESERVATION_CONFLICT.dnr(),
        Refusal::InvalidField => Status::INVALID_FIELD.dnr(),
        Refusal::Full => Status::INTERNAL_ERROR,
    }
}

impl Core {
    /// Reservation Register (Base 7.3).
    pub(super) fn reservation_register(&mut self, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        let invalid = Status::INVALID_FIELD.dnr();
        let keys =
            ReservationKeys::parse(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
        let action = RegisterAction::from_sqe(sqe).ok_or(invalid)?;
        let persist = sqe.persist_change().ok_or(invalid)?;
        let (current, new) = (keys.current.get(), keys.other.get());
        let ignore = sqe.ignores_existing_key();
        self.change_reservations(sqe, move |r, host| match action {
            RegisterAction::Register => r.register(host, new, persist).map(|()| Notices::new()),
            RegisterAction::Unregister => r.unregister(host, current, ignore, persist),
            RegisterAction::Replace => r
                .replace(host, current, new, ignore, persist)
                .map(|()| Notices::new()),
        })
    }

    /// Reservation Acquire (Base 7.2).
    pub(super) fn reservation_acquire(&mut self, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        let invalid = Status::INVALID_FIELD.dnr();
        let keys =
            ReservationKeys::parse(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
        let action = AcquireAction::from_sqe(sqe).ok_or(invalid)?;
        let kind = sqe.reservation_type().ok_or(invalid)?;
        // IEKEY is obsolete for this command since 1.3 and must be zero.
        if sqe.ignores_existing_key() {
            return Err(invalid);
        }
        let (key, victim) = (keys.current.get(), keys.other.get());
        self.change_reservations(sqe, move |r, host| match action {
            AcquireAction::Acquire => r.acquire(host, key, kind).map(|()| Notices::new()),
            // Commands of a preempted host that the backend has are not recalled; those that wait meet the conflict
            // when they are executed.
            AcquireAction::Preempt | AcquireAction::PreemptAndAbort => {
                r.preempt(host, key, victim, kind)
            }
        })
    }

    /// Reservation Release (Base 7.4).
    pub(super) fn reservation_release(&mut self, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        let invalid = Status::INVALID_FIELD.dnr();
        let key = parse_release_key(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
        let action = ReleaseAction::from_sqe(sqe).ok_or(invalid)?;
        if sqe.ignores_existing_key() {
            return Err(invalid);
        }
        let kind = sqe.reservation_type();
        self.change_reservations(sqe, move |r, host| match action {
            ReleaseAction::Release => r.release(host, key, kind),
            ReleaseAction::Clear => r.clear(host, key),
        })
    }

    /// Reservation Report (Base 7.5).
    pub(super) fn reservation_report(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let view = self.namespace(sqe.nsid())?;
        // With fabrics, host identifiers have 128 bits: only the extended structure can hold them.
        if !sqe.report_is_extended() {
            return Err(Status::HOST_ID_INCONSISTENT.dnr());
        }
        let Some(q) = &self.queue else {
            return Err(Status::COMMAND_SEQUENCE_ERROR.dnr());
        };
        let controllers = self
            .target()
            .controllers_of_subsystem(q.controller.subsystem());
        let status = {
            let r = view.ns.reservations();
            let registrants = r.registrants().flat_map(|(host_id, key, holder)| {
                let mut ids: Vec<u16> = controllers
                    .iter()
                    .filter(|c| c.host_id == host_id)
                    .map(|c| c.cntlid)
                    .collect();
                if ids.is_empty() {
                    ids.push(CNTLID_NONE);
                }
                ids.into_iter().map(move |cntlid| RegistrantStatus {
                    cntlid,
                    holder,
                    key,
                    host_id,
                })
            });
            ReservationStatus {
                generation: r.generation(),
                kind: r.kind(),
                persist: r.persists(),
                registrants: registrants.collect(),
            }
        };
        let mut bytes = status.to_bytes(true);
        let want = sqe.report_len();
        // The host may have asked for far more than there can be; what is beyond the end stays as it was.
        let most = (64 * (REGISTRANTS_MAX as u64 + 1)).max(bytes.len() as u64);
        bytes.resize(want.min(most) as usize, 0);
        self.send_structure(sqe, Payload::from(bytes));
        Ok(())
    }

    /// The Reservation Persistence feature (Base 5.27.1.27).
    pub(super) fn set_persistence(&mut self, sqe: &Sqe, on: bool) -> Result<(), Status> {
        if sqe.nsid() == Nsid::ALL || sqe.nsid() == Nsid::NONE {
            return Err(Status::INVALID_NAMESPACE.dnr());
        }
        let change = if on {
            PersistChange::On
        } else {
            PersistChange::Off
        };
        self.change_reservations(sqe, move |r, _| {
            r.set_persistence(change);
            Ok(Notices::new())
        })
    }

    /// Applies a change, saved first where it is to persist; then tells other hosts, and answers.
    fn change_reservations(
        &mut self,
        sqe: &Sqe,
        change: impl Fn(&mut Reservations, HostId) -> Result<Notices, Refusal> + Send + 'static,
    ) -> Result<(), Status> {
        let view = self.namespace(sqe.nsid())?;
        let Some(q) = &self.queue else {
            return Err(Status::COMMAND_SEQUENCE_ERROR.dnr());
        };
        let host = q.controller.host_id;
        let change = move |r: &mut Reservations| change(r, host);
        let audience = Audience {
            target: self.target().clone(),
            subsystem: q.controller.subsystem().cloned(),
            nsid: view.ns.nsid,
        };
        let cid = sqe.cid();
        if let Some(changed) = view.ns.change_unsaved(&change) {
            audience.tell(&changed.map_err(status_of)?);
            self.complete(Completion::success(cid));
            return Ok(());
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
        self.wait_on(sqe, changed, move |core, changed| {
            core.complete(match changed {
                Ok(_) => Completion::success(cid),
                Err(status) => Completion::failed(cid, status),
            });
        });
        Ok(())
    }
}

/// The hosts that learn of a change.
struct Audience {
    target: Arc<Shared>,
    subsystem: Option<Arc<Subsystem>>,
    nsid: Nsid,
}

impl Audience {
    fn tell(&self, notices: &Notices) {
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
