//! The reservations of one namespace (Base 8.19): registrants, holder and type.
//!
//! **Owns** the state machine and its stored form; knows no connection and no command. **Called by** the reservation
//! commands, and by every I/O command for [`Reservations::access`]. **Invariants**: a holder is a registrant;
//! registrants are named by host identifier; there is a holder if and only if the type is one that is not
//! "all registrants".

use super::limits::REGISTRANTS_MAX;
use crate::wire::nqn::HostId;
use crate::wire::reservation::{PersistChange, ReservationType};
use session::reservation::{RegisteredClient, Reserved, Stored};
use std::collections::BTreeMap;

/// Why a reservation command fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Reservation Conflict.
    Conflict,
    /// Invalid Field in Command.
    InvalidField,
    /// No room for another registrant.
    Full,
}

/// A notice of a change to another host (Base 8.19.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The host's registration was preempted.
    RegistrationPreempted = 1,
    /// A reservation that needs registration was released.
    ReservationReleased = 2,
    /// The host's reservation was preempted.
    ReservationPreempted = 3,
}

/// The access of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Access {
    pub(crate) const FULL: Access = Access {
        read: true,
        write: true,
    };
}

pub(crate) type Notices = Vec<(HostId, Notice)>;

/// Registrations and the reservation of one namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reservations {
    generation: u32,
    registrants: BTreeMap<HostId, u64>,
    holder: Option<HostId>,
    kind: Option<ReservationType>,
    persist: bool,
}

fn all_registrants(kind: ReservationType) -> bool {
    matches!(
        kind,
        ReservationType::WriteExclusiveAllRegistrants
            | ReservationType::ExclusiveAccessAllRegistrants
    )
}

/// Types whose release is announced to other registrants: these lose access that they had as registrants.
fn needs_registration(kind: ReservationType) -> bool {
    !matches!(
        kind,
        ReservationType::WriteExclusive | ReservationType::ExclusiveAccess
    )
}

impl Reservations {
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn kind(&self) -> Option<ReservationType> {
        self.kind
    }

    /// The registrants with their keys and whether they hold the reservation.
    pub(crate) fn registrants(&self) -> impl Iterator<Item = (HostId, u64, bool)> + '_ {
        self.registrants
            .iter()
            .map(|(host, key)| (*host, *key, self.holds(*host)))
    }

    fn holds(&self, host: HostId) -> bool {
        match self.kind {
            Some(kind) if all_registrants(kind) => self.registrants.contains_key(&host),
            Some(_) => self.holder == Some(host),
            None => false,
        }
    }

    /// The access of `host` (Base figure 457, NVM figure 22).
    pub(crate) fn access(&self, host: HostId) -> Access {
        let Some(kind) = self.kind else {
            return Access::FULL;
        };
        if self.holds(host) {
            return Access::FULL;
        }
        let registered = self.registrants.contains_key(&host);
        match kind {
            ReservationType::WriteExclusive => Access {
                read: true,
                write: false,
            },
            ReservationType::ExclusiveAccess => Access {
                read: false,
                write: false,
            },
            ReservationType::WriteExclusiveRegistrants
            | ReservationType::WriteExclusiveAllRegistrants => Access {
                read: true,
                write: registered,
            },
            ReservationType::ExclusiveAccessRegistrants
            | ReservationType::ExclusiveAccessAllRegistrants => Access {
                read: registered,
                write: registered,
            },
        }
    }

    fn check_key(&self, host: HostId, key: u64) -> Result<(), Refusal> {
        match self.registrants.get(&host) {
            Some(k) if *k == key => Ok(()),
            _ => Err(Refusal::Conflict),
        }
    }

    /// Changes whether reservations persist through power loss.
    pub(crate) fn set_persistence(&mut self, change: PersistChange) {
        match change {
            PersistChange::Keep => {}
            PersistChange::Off => self.persist = false,
            PersistChange::On => self.persist = true,
        }
    }

    /// Register (Base 7.3, RREGA 0). The same key again is no change.
    pub(crate) fn register(
        &mut self,
        host: HostId,
        new: u64,
        persist: PersistChange,
    ) -> Result<(), Refusal> {
        match self.registrants.get(&host) {
            Some(k) if *k != new => return Err(Refusal::Conflict),
            Some(_) => {}
            None if self.registrants.len() >= REGISTRANTS_MAX => return Err(Refusal::Full),
            None => {
                self.registrants.insert(host, new);
                self.generation = self.generation.wrapping_add(1);
            }
        }
        self.set_persistence(persist);
        Ok(())
    }

    /// Replace (RREGA 2). With `ignore_existing` (IEKEY) the current key is not looked at, and a host that is not
    /// registered is registered.
    pub(crate) fn replace(
        &mut self,
        host: HostId,
        current: u64,
        new: u64,
        ignore_existing: bool,
        persist: PersistChange,
    ) -> Result<(), Refusal> {
        if !ignore_existing {
            self.check_key(host, current)?;
        }
        if !self.registrants.contains_key(&host) && self.registrants.len() >= REGISTRANTS_MAX {
            return Err(Refusal::Full);
        }
        self.registrants.insert(host, new);
        self.generation = self.generation.wrapping_add(1);
        self.set_persistence(persist);
        Ok(())
    }

    /// Unregister (RREGA 1); releases the reservation that the host holds.
    pub(crate) fn unregister(
        &mut self,
        host: HostId,
        current: u64,
        ignore_existing: bool,
        persist: PersistChange,
    ) -> Result<Notices, Refusal> {
        if !self.registrants.contains_key(&host) {
            return Err(Refusal::Conflict);
        }
        if !ignore_existing {
            self.check_key(host, current)?;
        }
        self.set_persistence(persist);
        let notices = self.remove(host);
        self.generation = self.generation.wrapping_add(1);
        Ok(notices)
    }

    /// Removes a registrant, and the reservation with it if it has no holder any longer.
    fn remove(&mut self, host: HostId) -> Notices {
        self.registrants.remove(&host);
        let Some(kind) = self.kind else {
            return Notices::new();
        };
        let gone = if all_registrants(kind) {
            self.registrants.is_empty()
        } else {
            self.holder == Some(host)
        };
        if !gone {
            return Notices::new();
        }
        self.kind = None;
        self.holder = None;
        if needs_registration(kind) {
            self.tell_all_but(host, Notice::ReservationReleased)
        } else {
            Notices::new()
        }
    }

    fn tell_all_but(&self, host: HostId, notice: Notice) -> Notices {
        self.registrants
            .keys()
            .filter(|h| **h != host)
            .map(|h| (*h, notice))
            .collect()
    }

    fn take(&mut self, host: HostId, kind: ReservationType) {
        self.kind = Some(kind);
        self.holder = (!all_registrants(kind)).then_some(host);
    }

    /// Acquire (Base 7.2, RACQA 0).
    pub(crate) fn acquire(
        &mut self,
        host: HostId,
        key: u64,
        kind: ReservationType,
    ) -> Result<(), Refusal> {
        self.check_key(host, key)?;
        match self.kind {
            None => {
                self.take(host, kind);
                Ok(())
            }
            Some(held) if held == kind && self.holds(host) => Ok(()),
            Some(_) => Err(Refusal::Conflict),
        }
    }

    /// Preempt (RACQA 1 and 2; Base 8.19.7).
    pub(crate) fn preempt(
        &mut self,
        host: HostId,
        key: u64,
        victim: u64,
        kind: ReservationType,
    ) -> Result<Notices, Refusal> {
        self.check_key(host, key)?;
        let takes_over = match (self.kind, self.holder) {
            (Some(held), _) if all_registrants(held) => victim == 0,
            (Some(_), Some(holder)) => self.registrants.get(&holder) == Some(&victim),
            _ => false,
        };
        let everybody = victim == 0 && takes_over;
        if victim == 0 && !everybody {
            return Err(Refusal::InvalidField);
        }
        let hit: Vec<HostId> = self
            .registrants
            .iter()
            .filter(|(_, k)| everybody || **k == victim)
            .map(|(h, _)| *h)
            .collect();
        if hit.is_empty() {
            return Err(Refusal::Conflict);
        }
        let (before, holder) = (self.kind, self.holder);
        let mut notices = Notices::new();
        for h in hit.into_iter().filter(|h| *h != host || !takes_over) {
            let lost = takes_over && (everybody || holder == Some(h));
            let notice = if lost {
                Notice::ReservationPreempted
            } else {
                Notice::RegistrationPreempted
            };
            if h != host {
                notices.push((h, notice));
            }
            if takes_over {
                self.registrants.remove(&h);
            } else {
                notices.extend(self.remove(h));
            }
        }
        self.generation = self.generation.wrapping_add(1);
        if takes_over {
            self.take(host, kind);
            // Hosts that stay registered are told that the type has changed.
            if before.is_some_and(|held| held != kind && needs_registration(held)) {
                notices.extend(self.tell_all_but(host, Notice::ReservationReleased));
            }
        }
        Ok(notices)
    }

    /// Release (Base 7.4, RRELA 0). `None` is an undefined type in the command.
    pub(crate) fn release(
        &mut self,
        host: HostId,
        key: u64,
        kind: Option<ReservationType>,
    ) -> Result<Notices, Refusal> {
        self.check_key(host, key)?;
        let Some(held) = self.kind.filter(|_| self.holds(host)) else {
            return Ok(Notices::new());
        };
        if kind != Some(held) {
            return Err(Refusal::InvalidField);
        }
        self.kind = None;
        self.holder = None;
        Ok(if needs_registration(held) {
            self.tell_all_but(host, Notice::ReservationReleased)
        } else {
            Notices::new()
        })
    }

    /// Clear (RRELA 1): removes all registrants and the reservation.
    pub(crate) fn clear(&mut self, host: HostId, key: u64) -> Result<Notices, Refusal> {
        self.check_key(host, key)?;
        let mut notices = self.clear_all();
        notices.retain(|(told, _)| *told != host);
        Ok(notices)
    }

    /// Removes all registrants and the reservation, for the server's operator. All of them are told.
    pub(crate) fn clear_all(&mut self) -> Notices {
        let notice = |host: &HostId| (*host, Notice::ReservationPreempted);
        let notices = self.registrants.keys().map(notice).collect();
        self.registrants.clear();
        self.kind = None;
        self.holder = None;
        self.generation = self.generation.wrapping_add(1);
        notices
    }

    /// The reservations for people.
    pub(crate) fn view(&self) -> Reserved {
        let client = |(host, key, is_holder): (HostId, u64, bool)| RegisteredClient {
            client: host.to_string(),
            key,
            is_holder,
        };
        Reserved {
            kind: self.kind.map(ReservationType::words),
            persists: self.persist,
            registrants: self.registrants().map(client).collect(),
        }
    }
}

impl Stored for Reservations {
    fn persists(&self) -> bool {
        self.persist
    }

    /// Little endian: magic `WPRS`, version 1, PTPLS, type, holder flag, generation, count, holder, then host and
    /// key of each registrant.
    fn to_bytes(&self) -> Vec<u8> {
        let empty = Reservations {
            generation: self.generation,
            ..Reservations::default()
        };
        let kept = if self.persist { self } else { &empty };
        let mut out = b"WPRS".to_vec();
        out.extend([
            1,
            u8::from(kept.persist),
            kept.kind.map_or(0, |k| k as u8),
            u8::from(kept.holder.is_some()),
        ]);
        out.extend(kept.generation.to_le_bytes());
        out.extend((kept.registrants.len() as u32).to_le_bytes());
        out.extend(kept.holder.map_or([0; 16], |h| h.0));
        for (host, key) in &kept.registrants {
            out.extend(host.0);
            out.extend(key.to_le_bytes());
        }
        out
    }

    fn parse(bytes: &[u8]) -> Option<Reservations> {
        let (head, rest) = bytes.split_first_chunk::<32>()?;
        if head[..5] != *b"WPRS\x01" || head[5] > 1 || head[7] > 1 {
            return None;
        }
        let kind = match head[6] {
            0 => None,
            code => Some(ReservationType::from_code(code)?),
        };
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let count = word(12) as usize;
        if count > REGISTRANTS_MAX || rest.len() != count * 24 {
            return None;
        }
        let mut registrants = BTreeMap::new();
        for entry in rest.chunks_exact(24) {
            let (host, key) = entry.split_at(16);
            registrants.insert(
                HostId(host.try_into().ok()?),
                u64::from_le_bytes(key.try_into().ok()?),
            );
        }
        let holder = (head[7] == 1)
            .then(|| head[16..].try_into().map(HostId))
            .transpose()
            .ok()?;
        let sound = match (kind, holder) {
            (None, None) => true,
            (Some(k), None) => all_registrants(k) && !registrants.is_empty(),
            (Some(k), Some(h)) => !all_registrants(k) && registrants.contains_key(&h),
            (None, Some(_)) => false,
        };
        sound.then_some(Reservations {
            generation: word(8),
            registrants,
            holder,
            kind,
            persist: head[5] == 1,
        })
    }
}

#[cfg(test)]
#[path = "tests/reservation.rs"]
mod tests;
