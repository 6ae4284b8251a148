//! Room for client records and sessions: shares by standing and address, and the order of eviction.
//!
//! **Owns** [`Visitor`] and the choice of the client to evict. **Called by** EXCHANGE_ID and CREATE_SESSION at a limit, and when
//! the exports change. **Invariants** (decision 0342):
//!
//! - Strangers, whom no export admits, have at most [`STRANGERS_MAX`] records together, and sessions of one slot.
//! - While rules name hosts, an eighth of each limit is kept for these.
//! - A client is evicted for another only if it is unconfirmed, a stranger, expired, or without state. Of one kind, the address
//!   with the most clients loses the client that was silent for longest.
//! - A client with state and a valid lease is never evicted (§8.3).

use super::clients::Record;
use super::{Clients, Principal};
use crate::export::{Protection, Security, Standing};
use crate::limits::STRANGERS_MAX;
use crate::wire::{Status, Verifier};
use io::time::Instant;
use session::admission::{network_of, reserve_of};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// The host of a request, as the exports know it.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// Its address.
    pub address: IpAddr,
    /// How the exports know it.
    pub standing: Standing,
    /// Whether rules of exports name hosts.
    pub is_reserving: bool,
    /// How its connection is protected.
    pub protection: Protection,
}

impl Visitor {
    /// The part of a limit that it may use.
    pub(super) fn part_of(&self, limit: usize) -> usize {
        match self.is_reserving && self.standing < Standing::Listed {
            true => limit - reserve_of(limit),
            false => limit,
        }
    }

    /// Whether it may act for a client: a stranger only for strangers, and for clients of its address, whose export may come back.
    pub(super) fn may_act_for(&self, record: &Record) -> bool {
        let is_known = self.standing > Standing::Stranger;
        is_known || record.standing == Standing::Stranger || record.address == self.address
    }

    /// Whether its connection is as protected as the one that made a client.
    pub(super) fn is_as_protected(&self, record: &Record) -> bool {
        record.protection.is_met_by(&self.protection)
    }

    /// Whether it has proven to be the host that made a client, which may have another address now.
    pub(super) fn is_proven(&self, record: &Record) -> bool {
        record.protection.security == Security::MutualTls && self.is_as_protected(record)
    }

    /// Whether a host may send the EXCHANGE_ID of this principal and verifier for a client with a valid lease (decision 0329). Errors: `ClidInuse`
    /// if the client is protected by a certificate of another owner, or its verifier is another one and the connection is less protected; `Delay`
    /// if the client has state, the verifier is another one, and the host has another address: it may be another host with the same name.
    pub(super) fn check_takeover(
        &self,
        record: &Record,
        (principal, verifier): (Principal, Verifier),
        has_state: impl FnOnce() -> bool,
    ) -> Result<(), Status> {
        let is_same = record.verifier == verifier;
        let has_other_owner =
            self.protection.security == record.protection.security && !self.is_as_protected(record);
        if has_other_owner || !is_same && !self.is_as_protected(record) {
            return Err(Status::ClidInuse);
        }
        let is_elsewhere = self.address != record.address && !self.is_proven(record);
        match !is_same && record.principal == principal && is_elsewhere && has_state() {
            true => Err(Status::Delay),
            false => Ok(()),
        }
    }
}

/// The kinds of clients to evict, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evicted {
    Unconfirmed,
    Stranger,
    ExpiredWithoutState,
    Expired,
    WithoutState,
}

const ORDER: [Evicted; 5] = [
    Evicted::Unconfirmed,
    Evicted::Stranger,
    Evicted::ExpiredWithoutState,
    Evicted::Expired,
    Evicted::WithoutState,
];

impl Evicted {
    fn has(self, record: &Record, age: Duration, lease: Duration, visitor: &Visitor) -> bool {
        match self {
            Evicted::Unconfirmed => !record.is_confirmed,
            Evicted::Stranger => record.standing == Standing::Stranger,
            Evicted::ExpiredWithoutState | Evicted::Expired => age > lease,
            Evicted::WithoutState => record.standing <= visitor.standing,
        }
    }

    fn needs_no_state(self) -> bool {
        matches!(self, Evicted::ExpiredWithoutState | Evicted::WithoutState)
    }
}

impl Clients {
    /// Makes room for one record. Returns the removed clients. Errors: `Delay` if no client can be evicted.
    pub(super) fn make_room(
        &mut self,
        visitor: &Visitor,
        now: Instant,
        has_state: &dyn Fn(u64) -> bool,
    ) -> Result<Vec<u64>, Status> {
        let mut removed = Vec::new();
        if visitor.standing == Standing::Stranger {
            let is_stranger = |r: &&Record| r.standing == Standing::Stranger;
            let strangers = self.records.values().filter(is_stranger).count();
            if strangers >= STRANGERS_MAX {
                removed.extend(self.evict_one(&[Evicted::Stranger], visitor, now, has_state));
            }
        }
        if self.records.len() >= visitor.part_of(self.bounds.clients_max) {
            let gone = self.evict_one(&ORDER, visitor, now, has_state);
            removed.push(gone.ok_or(Status::Delay)?);
        }
        Ok(removed)
    }

    /// Slots that a new session of `keeper` may have; if there are none, other clients with sessions are evicted. Returns the slots
    /// and the removed clients. Errors: `Delay` if no client can be evicted.
    pub(super) fn make_slots(
        &mut self,
        (keeper, visitor): (u64, &Visitor),
        now: Instant,
        has_state: &dyn Fn(u64) -> bool,
    ) -> Result<(usize, Vec<u64>), Status> {
        let mut removed = Vec::new();
        loop {
            let most = visitor.part_of(self.bounds.slots_max);
            let free = most.saturating_sub(self.budget.used());
            if free > 0 {
                return Ok((free, removed));
            }
            let may_go = |id: u64| id == keeper || has_state(id);
            let kinds = &ORDER[1..];
            let gone = self.evict_with_sessions(kinds, (keeper, visitor), now, &may_go);
            removed.push(gone.ok_or(Status::Delay)?);
        }
    }

    /// Removes the client whose lease expired first among those for which `may_go` holds: its state is needed by others. Returns it; the
    /// caller removes its state.
    pub fn evict_expired(&mut self, now: Instant, may_go: impl Fn(u64) -> bool) -> Option<u64> {
        let lease = self.bounds.lease;
        let ages = self.records.iter().map(|(id, r)| (r.lease.age(now), *id));
        let expired = ages.filter(|(age, id)| *age > lease && may_go(*id));
        let (_, goes) = expired.max()?;
        self.remove(goes).then_some(goes)
    }

    fn evict_one(
        &mut self,
        kinds: &[Evicted],
        visitor: &Visitor,
        now: Instant,
        has_state: &dyn Fn(u64) -> bool,
    ) -> Option<u64> {
        let goes = kinds.iter().find_map(|kind| {
            self.candidate(*kind, visitor, now, &|id, _| {
                !kind.needs_no_state() || !has_state(id)
            })
        })?;
        self.remove(goes).then_some(goes)
    }

    fn evict_with_sessions(
        &mut self,
        kinds: &[Evicted],
        (keeper, visitor): (u64, &Visitor),
        now: Instant,
        has_state: &dyn Fn(u64) -> bool,
    ) -> Option<u64> {
        let goes = kinds.iter().find_map(|kind| {
            self.candidate(*kind, visitor, now, &|id, record| {
                let is_idle = !kind.needs_no_state() || !has_state(id);
                id != keeper && !record.sessions.is_empty() && is_idle
            })
        })?;
        self.remove(goes).then_some(goes)
    }

    /// The client of this kind that is evicted: of the address with the most, the one that was silent for longest.
    fn candidate(
        &self,
        kind: Evicted,
        visitor: &Visitor,
        now: Instant,
        may_go: &dyn Fn(u64, &Record) -> bool,
    ) -> Option<u64> {
        let lease = self.bounds.lease;
        let mut by_address: HashMap<IpAddr, (usize, Duration, u64)> = HashMap::new();
        for (id, record) in &self.records {
            let age = record.lease.age(now);
            if !kind.has(record, age, lease, visitor) || !may_go(*id, record) {
                continue;
            }
            let of_address = by_address.entry(network_of(record.address)).or_default();
            of_address.0 += 1;
            // Of the same age, the older record.
            if of_address.0 == 1 || (age, u64::MAX - record.number) > (of_address.1, of_address.2) {
                (of_address.1, of_address.2) = (age, u64::MAX - record.number);
            }
        }
        let most = by_address.into_values().max()?;
        let number = u64::MAX - most.2;
        let found = self.records.iter().find(|(_, r)| r.number == number);
        found.map(|(id, _)| *id)
    }

    /// Removes strangers whom an export admits now, so that they come again as its clients. Returns them.
    pub fn forget_strangers(&mut self, is_admitted: &dyn Fn(IpAddr) -> bool) -> Vec<u64> {
        let strangers = self.records.iter();
        let strangers = strangers.filter(|(_, r)| r.standing == Standing::Stranger);
        let admitted = strangers.filter(|(_, r)| is_admitted(r.address));
        let admitted: Vec<u64> = admitted.map(|(id, _)| *id).collect();
        for id in &admitted {
            self.remove(*id);
        }
        admitted
    }
}
