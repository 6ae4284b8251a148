//! Persistent reservations of one logical unit (SPC-4 5.13).
//!
//! **Owns** the state machine; independent of commands. **Called by** PERSISTENT RESERVE IN and OUT, and by every
//! command for [`Reservations::access`]. **Invariants**: a holder is a registrant; registrants are named by initiator
//! port and target port, so that they survive their nexus; there is a holder if and only if there is a type other
//! than "all registrants".

mod stored;

use crate::limits::REGISTRANTS_MAX;
use crate::nexus::{InitiatorPort, Nexus};
use crate::sense::Asc;
use session::reservation::{RegisteredClient, Reserved};
use std::collections::BTreeMap;

/// Reservation types (SPC-4 6.15.3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ReservationType {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrantsOnly = 5,
    ExclusiveAccessRegistrantsOnly = 6,
    WriteExclusiveAllRegistrants = 7,
    ExclusiveAccessAllRegistrants = 8,
}

use ReservationType as Type;

impl ReservationType {
    pub(crate) fn from_code(code: u8) -> Option<ReservationType> {
        Some(match code {
            1 => Type::WriteExclusive,
            3 => Type::ExclusiveAccess,
            5 => Type::WriteExclusiveRegistrantsOnly,
            6 => Type::ExclusiveAccessRegistrantsOnly,
            7 => Type::WriteExclusiveAllRegistrants,
            8 => Type::ExclusiveAccessAllRegistrants,
            _ => return None,
        })
    }

    pub(crate) fn all_registrants(self) -> bool {
        matches!(
            self,
            Type::WriteExclusiveAllRegistrants | Type::ExclusiveAccessAllRegistrants
        )
    }

    /// The type, for people.
    fn words(self) -> &'static str {
        match self {
            Type::WriteExclusive => "write exclusive",
            Type::ExclusiveAccess => "exclusive access",
            Type::WriteExclusiveRegistrantsOnly => "write exclusive, registrants only",
            Type::ExclusiveAccessRegistrantsOnly => "exclusive access, registrants only",
            Type::WriteExclusiveAllRegistrants => "write exclusive, all registrants",
            Type::ExclusiveAccessAllRegistrants => "exclusive access, all registrants",
        }
    }

    /// Whether registrants other than the holder have access, and so are notified when it ends.
    fn for_registrants(self) -> bool {
        !matches!(self, Type::WriteExclusive | Type::ExclusiveAccess)
    }
}

/// Initiator port and target port of a registration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Registrant {
    pub(crate) initiator: InitiatorPort,
    /// RELATIVE TARGET PORT IDENTIFIER.
    pub(crate) port: u16,
}

impl Registrant {
    pub(crate) fn of(nexus: &Nexus) -> Registrant {
        Registrant {
            initiator: nexus.initiator.clone(),
            port: nexus.port,
        }
    }
}

/// Permissions of a nexus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Another nexus holds the unit by RESERVE, which excludes more commands than persistent reservations do.
    pub(crate) reserved: bool,
}

impl Access {
    pub(crate) const FULL: Access = Access {
        read: true,
        write: true,
        reserved: false,
    };
    pub(crate) const LEGACY_CONFLICT: Access = Access {
        read: false,
        write: false,
        reserved: true,
    };
}

/// Why PERSISTENT RESERVE OUT fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReserveError {
    /// RESERVATION CONFLICT.
    Conflict,
    /// INVALID RELEASE OF PERSISTENT RESERVATION.
    InvalidRelease,
    /// The service action key must not be zero here: INVALID FIELD IN PARAMETER LIST.
    InvalidKey,
    /// The registrant named by REGISTER AND MOVE may not get it: INVALID FIELD IN PARAMETER LIST.
    InvalidDestination,
    /// INSUFFICIENT REGISTRATION RESOURCES.
    Full,
}

/// The unit attention conditions that a change raises.
pub(crate) type Notices = Vec<(Registrant, Asc)>;

type Result<T> = std::result::Result<T, ReserveError>;

/// Registrations and the reservation of one logical unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reservations {
    generation: u32,
    registrants: BTreeMap<Registrant, u64>,
    holder: Option<Registrant>,
    kind: Option<ReservationType>,
    /// APTPL: persists across restarts.
    persist: bool,
}

impl Reservations {
    /// PRGENERATION.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn kind(&self) -> Option<ReservationType> {
        self.kind
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.registrants.is_empty()
    }

    /// The registrants with their keys and whether they hold the reservation.
    pub(crate) fn registrants(&self) -> impl Iterator<Item = (&Registrant, u64, bool)> + '_ {
        self.registrants
            .iter()
            .map(|(r, key)| (r, *key, self.holds(r)))
    }

    /// RESERVATION KEY of READ RESERVATION: the holder's, or zero if all registrants hold it.
    pub(crate) fn holder_key(&self) -> u64 {
        self.holder
            .as_ref()
            .and_then(|h| self.registrants.get(h))
            .copied()
            .unwrap_or(0)
    }

    fn holds(&self, r: &Registrant) -> bool {
        match self.kind {
            Some(kind) if kind.all_registrants() => self.registrants.contains_key(r),
            Some(_) => self.holder.as_ref() == Some(r),
            None => false,
        }
    }

    /// Permissions of a registrant or of an unregistered nexus (SPC-4 table 64, SBC-3 table 13).
    pub(crate) fn access(&self, r: &Registrant) -> Access {
        let Some(kind) = self.kind else {
            return Access::FULL;
        };
        if self.holds(r) {
            return Access::FULL;
        }
        let registered = self.registrants.contains_key(r);
        let (read, write) = match kind {
            Type::WriteExclusive => (true, false),
            Type::ExclusiveAccess => (false, false),
            Type::WriteExclusiveRegistrantsOnly | Type::WriteExclusiveAllRegistrants => {
                (true, registered)
            }
            Type::ExclusiveAccessRegistrantsOnly | Type::ExclusiveAccessAllRegistrants => {
                (registered, registered)
            }
        };
        Access {
            read,
            write,
            reserved: false,
        }
    }

    pub(crate) fn is_registered(&self, r: &Registrant) -> bool {
        self.registrants.contains_key(r)
    }

    fn check_key(&self, r: &Registrant, key: u64) -> Result<()> {
        if self.registrants.get(r) == Some(&key) {
            Ok(())
        } else {
            Err(ReserveError::Conflict)
        }
    }

    fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    fn others(&self, but: &Registrant, asc: Asc) -> Notices {
        self.registrants
            .keys()
            .filter(|r| *r != but)
            .map(|r| (r.clone(), asc))
            .collect()
    }

    /// REGISTER and REGISTER AND IGNORE EXISTING KEY (`current` is `None`), SPC-4 5.13.7. `also` are the further
    /// registrants of SPEC_I_PT and ALL_TG_PT.
    pub(crate) fn register(
        &mut self,
        r: &Registrant,
        current: Option<u64>,
        new: u64,
        also: &[Registrant],
        persist: bool,
    ) -> Result<Notices> {
        let registered = self.registrants.get(r).copied();
        if current.is_some_and(|key| key != registered.unwrap_or(0)) {
            return Err(ReserveError::Conflict);
        }
        let mut notices = Notices::new();
        if new == 0 {
            if registered.is_some() {
                notices = self.remove(r);
                self.changed();
            }
        } else {
            let newcomers = also
                .iter()
                .chain([r])
                .filter(|r| !self.registrants.contains_key(r))
                .count();
            if self.registrants.len() + newcomers > REGISTRANTS_MAX {
                return Err(ReserveError::Full);
            }
            for r in also.iter().chain([r]) {
                self.registrants.insert(r.clone(), new);
            }
            self.changed();
        }
        self.persist = persist;
        Ok(notices)
    }

    /// Removes a registrant, and the reservation too if no holder remains.
    fn remove(&mut self, r: &Registrant) -> Notices {
        let held = self.holds(r);
        self.registrants.remove(r);
        let Some(kind) = self.kind.filter(|_| held) else {
            return Notices::new();
        };
        if kind.all_registrants() && !self.registrants.is_empty() {
            return Notices::new();
        }
        (self.kind, self.holder) = (None, None);
        if kind.for_registrants() {
            self.others(r, Asc::RESERVATIONS_RELEASED)
        } else {
            Notices::new()
        }
    }

    fn take(&mut self, r: &Registrant, kind: Type) {
        self.kind = Some(kind);
        self.holder = (!kind.all_registrants()).then(|| r.clone());
    }

    /// RESERVE (SPC-4 5.13.9).
    pub(crate) fn reserve(&mut self, r: &Registrant, key: u64, kind: Type) -> Result<()> {
        self.check_key(r, key)?;
        match self.kind {
            None => {
                self.take(r, kind);
                Ok(())
            }
            Some(held) if held == kind && self.holds(r) => Ok(()),
            Some(_) => Err(ReserveError::Conflict),
        }
    }

    /// RELEASE (SPC-4 5.13.11.2). `None` is an unknown type.
    pub(crate) fn release(
        &mut self,
        r: &Registrant,
        key: u64,
        kind: Option<Type>,
    ) -> Result<Notices> {
        self.check_key(r, key)?;
        let Some(held) = self.kind.filter(|_| self.holds(r)) else {
            return Ok(Notices::new());
        };
        if kind != Some(held) {
            return Err(ReserveError::InvalidRelease);
        }
        (self.kind, self.holder) = (None, None);
        Ok(if held.for_registrants() {
            self.others(r, Asc::RESERVATIONS_RELEASED)
        } else {
            Notices::new()
        })
    }

    /// CLEAR (SPC-4 5.13.11.6).
    pub(crate) fn clear(&mut self, r: &Registrant, key: u64) -> Result<Notices> {
        self.check_key(r, key)?;
        let mut notices = self.clear_all();
        notices.retain(|(told, _)| told != r);
        Ok(notices)
    }

    /// Removes all registrants and the reservation, for the server's operator. All of them are told.
    pub(crate) fn clear_all(&mut self) -> Notices {
        let notice = |r: &Registrant| (r.clone(), Asc::RESERVATIONS_PREEMPTED);
        let notices = self.registrants.keys().map(notice).collect();
        self.registrants.clear();
        (self.kind, self.holder) = (None, None);
        self.changed();
        notices
    }

    /// The reservations for people.
    pub(crate) fn view(&self) -> Reserved {
        let client = |(r, key, is_holder): (&Registrant, u64, bool)| RegisteredClient {
            client: r.initiator.to_string(),
            key,
            is_holder,
        };
        Reserved {
            kind: self.kind.map(Type::words),
            persists: self.persist,
            registrants: self.registrants().map(client).collect(),
        }
    }

    /// PREEMPT and PREEMPT AND ABORT (SPC-4 5.13.11.4). Also returns the removed registrants.
    pub(crate) fn preempt(
        &mut self,
        r: &Registrant,
        key: u64,
        victim: u64,
        kind: Type,
    ) -> Result<(Notices, Vec<Registrant>)> {
        self.check_key(r, key)?;
        let takes_over = match (self.kind, &self.holder) {
            (Some(held), _) if held.all_registrants() => victim == 0,
            (Some(_), Some(holder)) => self.registrants.get(holder) == Some(&victim),
            _ => false,
        };
        if victim == 0 && !takes_over {
            return Err(ReserveError::InvalidKey);
        }
        let everybody = victim == 0;
        let hit = |k: u64| everybody || k == victim;
        if !everybody && !self.registrants.values().any(|k| hit(*k)) {
            return Err(ReserveError::Conflict);
        }
        let gone: Vec<Registrant> = (self.registrants.iter())
            .filter(|(other, k)| hit(**k) && (*other != r || !takes_over))
            .map(|(other, _)| other.clone())
            .collect();
        let mut notices = Notices::new();
        for other in &gone {
            if takes_over {
                self.registrants.remove(other);
            } else {
                notices.extend(self.remove(other));
            }
        }
        notices.retain(|(other, _)| !gone.contains(other));
        notices.extend(
            gone.iter()
                .filter(|o| *o != r)
                .map(|o| (o.clone(), Asc::REGISTRATIONS_PREEMPTED)),
        );
        if takes_over {
            let before = self.kind;
            self.take(r, kind);
            // Remaining registrants are notified that the rules have changed.
            if before.is_some_and(|held| held != kind && held.for_registrants()) {
                notices.extend(self.others(r, Asc::RESERVATIONS_RELEASED));
            }
        }
        self.changed();
        Ok((notices, gone))
    }

    /// REGISTER AND MOVE (SPC-4 5.13.8): registers `to` with key `new` and gives it the reservation.
    pub(crate) fn register_and_move(
        &mut self,
        r: &Registrant,
        key: u64,
        new: u64,
        to: &Registrant,
        (unregister, persist): (bool, bool),
    ) -> Result<Notices> {
        self.check_key(r, key)?;
        let Some(kind) = self.kind.filter(|k| !k.all_registrants() && self.holds(r)) else {
            return Err(ReserveError::Conflict);
        };
        if new == 0 {
            return Err(ReserveError::InvalidKey);
        }
        if to == r {
            return Err(ReserveError::InvalidDestination);
        }
        if !self.registrants.contains_key(to) && self.registrants.len() >= REGISTRANTS_MAX {
            return Err(ReserveError::Full);
        }
        self.registrants.insert(to.clone(), new);
        self.take(to, kind);
        if unregister {
            self.registrants.remove(r);
        }
        self.persist = persist;
        self.changed();
        Ok(Notices::new())
    }
}

#[cfg(test)]
mod tests;
