//! PERSISTENT RESERVE IN and OUT (SPC-4 6.15, 6.16), RESERVE and RELEASE (SPC-2 7.16, 7.21).
//!
//! **Invariants**: with APTPL a change takes effect after it is on stable storage, and never if it cannot be saved;
//! other nexuses are notified after that.

use super::common::{Result, nothing, reply};
use crate::command::Command;
use crate::nexus::{InitiatorPort, Nexus};
use crate::reservation::{Notices, Registrant, ReservationType, Reservations, ReserveError};
use crate::sense::{Asc, Sense, SenseKey};
use crate::status::Refusal;
use crate::task::Task;
use crate::unit::Unit;
use io::Payload;
use session::reservation::{NotChanged, Stored};
use std::sync::Arc;

/// Service actions of PERSISTENT RESERVE IN.
mod input {
    pub(super) const READ_KEYS: u8 = 0;
    pub(super) const READ_RESERVATION: u8 = 1;
    pub(super) const REPORT_CAPABILITIES: u8 = 2;
    pub(super) const READ_FULL_STATUS: u8 = 3;
}

/// Service actions of PERSISTENT RESERVE OUT.
mod output {
    pub(super) const REGISTER: u8 = 0;
    pub(super) const RESERVE: u8 = 1;
    pub(super) const RELEASE: u8 = 2;
    pub(super) const CLEAR: u8 = 3;
    pub(super) const PREEMPT: u8 = 4;
    pub(super) const PREEMPT_AND_ABORT: u8 = 5;
    pub(super) const REGISTER_AND_IGNORE: u8 = 6;
    pub(super) const REGISTER_AND_MOVE: u8 = 7;
}

/// Length of the basic parameter list, bytes; also the offset of additional data.
const LIST_LEN: usize = 24;
const SPEC_I_PT: u8 = 0x08;
const ALL_TG_PT: u8 = 0x04;
const APTPL: u8 = 0x01;
const UNREG: u8 = 0x02;
/// SIP_C, ATP_C, PTPL_C; CRH is zero: RESERVE conflicts with any registration.
const CAPABILITIES: u8 = 0x0d;
/// TMV, and ALLOW COMMANDS 011b: TEST UNIT READY is allowed with every type, MODE SENSE and similar commands with
/// write exclusive types.
const TMV_ALLOW: u8 = 0xb0;
/// All six types.
const TYPE_MASK: [u8; 2] = [0xea, 0x01];

impl From<ReserveError> for Refusal {
    fn from(e: ReserveError) -> Refusal {
        match e {
            ReserveError::Conflict => Refusal::Conflict,
            ReserveError::InvalidRelease => {
                Sense::illegal(Asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION).into()
            }
            ReserveError::InvalidKey => Sense::field_in_list(8, None).into(),
            ReserveError::InvalidDestination => Sense::field_in_list(LIST_LEN, None).into(),
            ReserveError::Full => Sense::illegal(Asc::INSUFFICIENT_REGISTRATION_RESOURCES).into(),
        }
    }
}

/// PERSISTENT RESERVE IN.
pub(super) fn report(unit: &Unit, action: u8, allocation: u32) -> Result<Payload> {
    let r = unit.reservations();
    let out = match action {
        input::READ_KEYS => {
            let keys = r
                .registrants()
                .flat_map(|(_, key, _)| key.to_be_bytes())
                .collect();
            with_generation(&r, keys)
        }
        input::READ_RESERVATION => with_generation(&r, reservation(&r)),
        input::REPORT_CAPABILITIES => {
            let persists = u8::from(r.persists());
            vec![
                0,
                8,
                CAPABILITIES,
                TMV_ALLOW | persists,
                TYPE_MASK[0],
                TYPE_MASK[1],
                0,
                0,
            ]
        }
        input::READ_FULL_STATUS => with_generation(&r, full_status(&r)),
        _ => return Err(Sense::field_in_cdb(1, Some(4)).into()),
    };
    reply(out, allocation)
}

fn with_generation(r: &Reservations, body: Vec<u8>) -> Vec<u8> {
    let mut out = r.generation().to_be_bytes().to_vec();
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(body);
    out
}

fn reservation(r: &Reservations) -> Vec<u8> {
    let Some(kind) = r.kind() else {
        return Vec::new();
    };
    let mut out = r.holder_key().to_be_bytes().to_vec();
    out.extend([0, 0, 0, 0, 0, kind as u8, 0, 0]);
    out
}

fn full_status(r: &Reservations) -> Vec<u8> {
    let mut out = Vec::new();
    for (registrant, key, holds) in r.registrants() {
        let kind = r.kind().filter(|_| holds).map_or(0, |k| k as u8);
        out.extend(key.to_be_bytes());
        out.extend([0, 0, 0, 0, u8::from(holds), kind, 0, 0, 0, 0]);
        out.extend(registrant.port.to_be_bytes());
        let id = registrant.initiator.transport_id();
        out.extend((id.len() as u32).to_be_bytes());
        out.extend(id);
    }
    out
}

/// The fields of a parameter list.
struct List<'a> {
    key: u64,
    action_key: u64,
    flags: u8,
    more: &'a [u8],
}

fn be64(b: &[u8]) -> u64 {
    b.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn list_of(list: &[u8], action: u8) -> Result<List<'_>> {
    let short = || Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR);
    if list.len() < LIST_LEN {
        return Err(short().into());
    }
    let spec_i_pt = action != output::REGISTER_AND_MOVE && list[20] & SPEC_I_PT != 0;
    if list.len() > LIST_LEN && !spec_i_pt && action != output::REGISTER_AND_MOVE {
        return Err(short().into());
    }
    Ok(List {
        key: be64(&list[..8]),
        action_key: be64(&list[8..16]),
        flags: list[20],
        more: &list[LIST_LEN..],
    })
}

/// The initiator ports that SPEC_I_PT names.
fn named_ports(more: &[u8]) -> Result<Vec<InitiatorPort>> {
    let Some((len, ids)) = more.split_first_chunk::<4>() else {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR).into());
    };
    let len = u32::from_be_bytes(*len) as usize;
    let Some(mut ids) = ids.get(..len) else {
        return Err(Sense::field_in_list(LIST_LEN, None).into());
    };
    let mut ports = Vec::new();
    while !ids.is_empty() {
        let at = LIST_LEN + 4 + len - ids.len();
        let (port, used) = InitiatorPort::parse(ids).ok_or(Sense::field_in_list(at, None))?;
        ports.push(port);
        ids = &ids[used..];
    }
    Ok(ports)
}

/// The further registrants of a REGISTER.
fn further(task: &Task, unit: &Unit, list: &List<'_>, action: u8) -> Result<Vec<Registrant>> {
    let own = Registrant::of(&task.nexus);
    let mut initiators = vec![own.initiator.clone()];
    if list.flags & SPEC_I_PT != 0 {
        if action != output::REGISTER || unit.reservations().is_registered(&own) {
            return Err(Sense::field_in_list(20, Some(3)).into());
        }
        initiators.extend(named_ports(list.more)?);
    }
    let ports: Vec<u16> = if list.flags & ALL_TG_PT == 0 {
        vec![own.port]
    } else {
        task.device
            .ports()
            .ports
            .iter()
            .map(|p| p.relative)
            .collect()
    };
    let all = initiators.into_iter().flat_map(|initiator| {
        ports
            .iter()
            .map(move |port| Registrant {
                initiator: initiator.clone(),
                port: *port,
            })
            .collect::<Vec<_>>()
    });
    let mut all: Vec<Registrant> = all.filter(|r| *r != own).collect();
    all.sort();
    all.dedup();
    Ok(all)
}

/// The destination of REGISTER AND MOVE.
fn destination(task: &Task, list: &[u8]) -> Result<Registrant> {
    let port = u16::from_be_bytes([list[18], list[19]]);
    if task.device.ports().port(port).is_none() {
        return Err(Sense::field_in_list(18, None).into());
    }
    let len = be64(&list[20..24]) as usize;
    let id = list[LIST_LEN..]
        .get(..len)
        .ok_or(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR))?;
    let (initiator, _) = InitiatorPort::parse(id).ok_or(Sense::field_in_list(LIST_LEN, None))?;
    Ok(Registrant { initiator, port })
}

/// Actions that remain after a change.
#[derive(Default)]
struct Effects {
    notices: Notices,
    /// Registrants whose nexuses lose their tasks (PREEMPT AND ABORT).
    abort: Vec<Registrant>,
}

fn told(notices: Notices) -> Effects {
    Effects {
        notices,
        abort: Vec::new(),
    }
}

/// PERSISTENT RESERVE OUT.
pub(super) async fn change(task: &Task, unit: &Arc<Unit>, bytes: &[u8]) -> Result<Payload> {
    let Command::PersistentReserveOut {
        action,
        scope,
        kind,
        ..
    } = task.command
    else {
        return Err(Sense::illegal(Asc::INVALID_OPCODE).into());
    };
    let list = list_of(bytes, action)?;
    let own = Registrant::of(&task.nexus);
    let (key, new, aptpl) = (list.key, list.action_key, list.flags & APTPL != 0);
    let kind_code = ReservationType::from_code(kind).filter(|_| scope == 0);
    let kind = kind_code.ok_or(Sense::field_in_cdb(2, None));
    let who = own.clone();
    let effects = match action {
        output::REGISTER | output::REGISTER_AND_IGNORE => {
            let also = further(task, unit, &list, action)?;
            let current = (action == output::REGISTER).then_some(key);
            let change = move |r: &mut Reservations| r.register(&who, current, new, &also, aptpl);
            told(apply(unit, change).await?)
        }
        output::RESERVE => {
            let kind = kind?;
            apply(unit, move |r| r.reserve(&who, key, kind)).await?;
            Effects::default()
        }
        output::RELEASE => told(apply(unit, move |r| r.release(&who, key, kind_code)).await?),
        output::CLEAR => told(apply(unit, move |r| r.clear(&who, key)).await?),
        output::PREEMPT | output::PREEMPT_AND_ABORT => {
            let kind = kind?;
            let (notices, gone) = apply(unit, move |r| r.preempt(&who, key, new, kind)).await?;
            let abort = if action == output::PREEMPT_AND_ABORT {
                gone
            } else {
                Vec::new()
            };
            Effects { notices, abort }
        }
        output::REGISTER_AND_MOVE => {
            let to = destination(task, bytes)?;
            let flags = (bytes[17] & UNREG != 0, bytes[17] & APTPL != 0);
            told(
                apply(unit, move |r| {
                    r.register_and_move(&who, key, new, &to, flags)
                })
                .await?,
            )
        }
        _ => return Err(Sense::field_in_cdb(1, Some(4)).into()),
    };
    tell(task, unit, &effects);
    nothing()
}

/// Applies a change, and saves it first if it is persistent. Errors: it is refused, or it cannot be saved and has no
/// effect.
async fn apply<T: Send + 'static>(
    unit: &Arc<Unit>,
    change: impl Fn(&mut Reservations) -> std::result::Result<T, ReserveError> + Send + 'static,
) -> Result<T> {
    if let Some(changed) = unit.change_unsaved(&change) {
        return Ok(changed?);
    }
    let (lun, unit) = (unit.lun, unit.clone());
    let unsaved = |error: &dyn std::fmt::Display| {
        tracing::error!(lun = lun.0, %error, "reservations could not be saved: the change is refused");
        Sense::new(SenseKey::HardwareError, Asc::INTERNAL_TARGET_FAILURE).into()
    };
    match io::blocking(move || unit.change(&change)).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(NotChanged::Refused(refusal))) => Err(refusal.into()),
        Ok(Err(NotChanged::Unsaved(e))) => Err(unsaved(&e)),
        Err(e) => Err(unsaved(&e)),
    }
}

fn tell(task: &Task, unit: &Unit, effects: &Effects) {
    if !effects.abort.is_empty() {
        let nexuses = task.device.nexuses();
        let others = nexuses.iter().filter(|n| n.id != task.nexus.id);
        for nexus in others.filter(|n| effects.abort.contains(&Registrant::of(n))) {
            nexus
                .aborter
                .abort_tasks(Some(unit.lun), unit.task_aborted_status());
        }
    }
    if !effects.notices.is_empty() {
        let requester = Some(task.nexus.id);
        task.device.notify(unit.lun, &effects.notices, requester);
    }
}

/// RESERVE: conflicts with another nexus's RESERVE and with any registration.
pub(super) fn reserve(unit: &Unit, nexus: &Nexus) -> Result<Payload> {
    let registered = !unit.reservations().is_empty();
    if registered || !unit.reserve(nexus.id) {
        return Err(Refusal::Conflict);
    }
    nothing()
}

/// RELEASE: GOOD also for a nexus that does not hold the reservation.
pub(super) fn release(unit: &Unit, nexus: &Nexus) -> Result<Payload> {
    if !unit.reservations().is_empty() {
        return Err(Refusal::Conflict);
    }
    unit.release(nexus.id);
    nothing()
}
