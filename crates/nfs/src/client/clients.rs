//! Client records: EXCHANGE_ID, CREATE_SESSION, destruction, leases with courtesy.
//!
//! **Owns** [`Clients`]. **Called by** the service, under its lock. **Invariants**: of each client owner there is at most one
//! confirmed and one unconfirmed record (§18.35.4); a record is found by its ID until it is removed; the budget has the
//! slots of all sessions. A client whose lease has expired is kept as a *courtesy* until its state is in the way, a limit is
//! reached, or [`Bounds::courtesy`] has passed.

use super::back::{BackChannel, CallbackProgram};
use super::budget::SlotBudget;
use super::{ClientInfo, Lease, Principal, Session, Sessions, Visitor};
use crate::export::{Protection, Standing};
use crate::limits::{
    BACK_SLOTS_MAX, CACHED_REPLY_MAX, MESSAGE_MIN, OPERATIONS_MAX, REPLY_MAX, REQUEST_MAX,
    SESSION_SLOTS_MAX,
};
use crate::wire::channel::{Channel, CreateSession, ExchangeId, StateProtection};
use crate::wire::{SessionId, Status, Verifier};
use filestate::NO_CLIENT;
use io::time::Instant;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// `EXCHGID4_FLAG_UPD_CONFIRMED_REC_A`.
const UPDATE: u32 = 1 << 30;
/// The flags that a client may set (§18.35.3).
const EXCHANGE_FLAGS: u32 = 0x0007_0103 | UPDATE;
/// `CREATE_SESSION4_FLAG_PERSIST`, `CONN_BACK_CHAN` and `CONN_RDMA`.
const CREATE_FLAGS: u32 = 7;
/// `CREATE_SESSION4_FLAG_CONN_BACK_CHAN`.
const BACK_CHANNEL: u32 = 2;

/// Limits of the records.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time for which a client keeps its state without a renewal.
    pub lease: Duration,
    /// Further time for which state is kept unless it is in the way.
    pub courtesy: Duration,
    /// Most client records.
    pub clients_max: usize,
    /// Most sessions of one client.
    pub sessions_max: usize,
    /// Most slots of all sessions.
    pub slots_max: usize,
}

#[derive(Debug)]
pub(super) struct Record {
    owner: Vec<u8>,
    pub(super) verifier: Verifier,
    pub(super) principal: Principal,
    /// The address that it was made from.
    pub(super) address: IpAddr,
    /// How the exports knew that address.
    pub(super) standing: Standing,
    /// How the connection was protected.
    pub(super) protection: Protection,
    /// Counts the records, so that of two the older one is known.
    pub(super) number: u64,
    pub(super) is_confirmed: bool,
    created_at: Instant,
    pub(super) lease: Arc<Lease>,
    /// Sequence number of the last CREATE_SESSION, and its result.
    sequence: u32,
    created: Option<Created>,
    pub(super) sessions: Vec<SessionId>,
}

#[derive(Debug, Default, Clone, Copy)]
struct OfOwner {
    confirmed: Option<u64>,
    unconfirmed: Option<u64>,
}

/// The result of EXCHANGE_ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchanged {
    /// The client ID.
    pub client: u64,
    /// The sequence number of its next CREATE_SESSION.
    pub sequence: u32,
    /// Whether the record is confirmed.
    pub is_confirmed: bool,
    /// Clients that were removed, whose state must go.
    pub removed: Vec<u64>,
}

/// The result of CREATE_SESSION.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The session.
    pub session: SessionId,
    /// Its sequence number.
    pub sequence: u32,
    /// The flags that were granted: the connection may be for the back channel, too.
    pub flags: u32,
    /// Limits of requests.
    pub fore: Channel,
    /// Limits of callbacks.
    pub back: Channel,
    /// Clients that were removed, whose state must go. Empty in a replay.
    pub removed: Vec<u64>,
}

/// All clients and sessions.
#[derive(Debug)]
pub struct Clients {
    pub(super) bounds: Bounds,
    /// Records made so far.
    made: u64,
    pub(super) records: HashMap<u64, Record>,
    owners: HashMap<Vec<u8>, OfOwner>,
    sessions: Arc<Sessions>,
    pub(super) budget: Arc<SlotBudget>,
    /// Owners of removed clients that had state.
    forgotten: Vec<Vec<u8>>,
}

impl Clients {
    /// No clients.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            budget: Arc::new(SlotBudget::new(bounds.slots_max)),
            bounds,
            made: 0,
            records: HashMap::new(),
            owners: HashMap::new(),
            sessions: Arc::default(),
            forgotten: Vec::new(),
        }
    }

    /// A new client ID: random, so that it cannot be guessed (§2.10.8.3), and not the number of users that are no clients.
    fn next_id(&mut self) -> u64 {
        self.made += 1;
        loop {
            let id = io::rng::u64();
            if id != NO_CLIENT && !self.records.contains_key(&id) {
                return id;
            }
        }
    }

    /// EXCHANGE_ID (§18.35) of a host. `has_state` tells whether a client has opens. Errors: `Inval`, `EncrAlgUnsupp`, `ClidInuse`,
    /// `Noent`, `NotSame`, `Perm`, and `Delay` at the limit of clients.
    pub fn exchange_id(
        &mut self,
        args: &ExchangeId<'_>,
        (principal, visitor): (Principal, &Visitor),
        now: Instant,
        has_state: impl Fn(u64) -> bool,
    ) -> Result<Exchanged, Status> {
        if args.flags & !EXCHANGE_FLAGS != 0 {
            return Err(Status::Inval);
        }
        match args.protection {
            StateProtection::None => {}
            // It needs a flavour with integrity.
            StateProtection::MachineCredential => return Err(Status::Inval),
            StateProtection::Secret => return Err(Status::EncrAlgUnsupp),
        }
        let of_owner = self.owners.get(args.owner).copied().unwrap_or_default();
        let confirmed = of_owner
            .confirmed
            .and_then(|id| Some((id, self.records.get(&id)?)));
        if confirmed.is_some_and(|(_, record)| !visitor.may_act_for(record)) {
            return Err(Status::ClidInuse);
        }
        let is_update = args.flags & UPDATE != 0;
        let mut removed = Vec::new();
        if let Some((id, record)) = confirmed {
            let is_held = record.lease.age(now) <= self.bounds.lease;
            if is_held {
                let incarnation = (principal, args.verifier);
                visitor.check_takeover(record, incarnation, || has_state(id))?;
            }
            let is_protected = visitor.is_as_protected(record);
            let is_same = (
                record.principal == principal,
                record.verifier == args.verifier && (is_held || is_protected),
            );
            match (is_update, is_same) {
                // Cases 2 and 6: the record stays.
                (_, (true, true)) => {
                    // A host that tests for trunking learns the client ID over a less protected connection; it cannot use it, or
                    // keep the lease.
                    if is_protected {
                        record.lease.renew(now);
                    }
                    return Ok(Exchanged {
                        client: id,
                        sequence: record.sequence.wrapping_add(1),
                        is_confirmed: true,
                        removed,
                    });
                }
                // Cases 8 and 9.
                (true, (_, false)) => return Err(Status::NotSame),
                (true, (false, true)) => return Err(Status::Perm),
                // Case 3: the client owners collide.
                (false, (false, _)) => {
                    let is_expired = record.lease.age(now) > self.bounds.lease;
                    if has_state(id) && !is_expired {
                        return Err(Status::ClidInuse);
                    }
                    self.remove(id);
                    removed.push(id);
                }
                // Case 5: the client restarted. The confirmed record goes when the new one is confirmed.
                (false, (true, false)) => {}
            }
        } else if is_update {
            // Case 7.
            return Err(Status::Noent);
        }
        // Cases 1, 3, 4 and 5: a new unconfirmed record takes the place of an old one.
        if let Some(id) = of_owner.unconfirmed {
            self.remove(id);
        }
        removed.extend(self.make_room(visitor, now, &has_state)?);
        let client = self.insert(args, (principal, visitor), now);
        Ok(Exchanged {
            client,
            sequence: 1,
            is_confirmed: false,
            removed,
        })
    }

    fn insert(
        &mut self,
        args: &ExchangeId<'_>,
        (principal, visitor): (Principal, &Visitor),
        now: Instant,
    ) -> u64 {
        let id = self.next_id();
        let owner = args.owner.to_vec();
        self.owners.entry(owner.clone()).or_default().unconfirmed = Some(id);
        let record = Record {
            owner,
            verifier: args.verifier,
            principal,
            address: visitor.address,
            standing: visitor.standing,
            protection: visitor.protection.clone(),
            number: self.made,
            is_confirmed: false,
            created_at: now,
            lease: Arc::new(Lease::new(now)),
            sequence: 0,
            created: None,
            sessions: Vec::new(),
        };
        self.records.insert(id, record);
        id
    }

    /// Removes a client and its sessions. The caller removes its state. Returns whether there was one.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let Some(record) = self.records.remove(&id) else {
            return false;
        };
        record.lease.remove();
        if record.lease.is_recorded() {
            self.forgotten.push(record.owner.clone());
        }
        for session in &record.sessions {
            self.forget(session);
        }
        if let Some(of_owner) = self.owners.get_mut(&record.owner) {
            for place in [&mut of_owner.confirmed, &mut of_owner.unconfirmed] {
                if *place == Some(id) {
                    *place = None;
                }
            }
            if of_owner.confirmed.is_none() && of_owner.unconfirmed.is_none() {
                self.owners.remove(&record.owner);
            }
        }
        true
    }

    fn forget(&mut self, session: &SessionId) {
        if let Some(session) = self.sessions.remove(session) {
            session.destroy();
        }
    }

    /// CREATE_SESSION (§18.36) of a host, in a COMPOUND of this minor version. `has_state` as in EXCHANGE_ID. Errors: `StaleClientid`,
    /// `SeqMisordered`, `ClidInuse`, `Inval`, `Toosmall`, and `Delay` at a limit.
    pub fn create_session(
        &mut self,
        args: &CreateSession,
        (principal, minor, visitor): (Principal, u32, &Visitor),
        now: Instant,
        has_state: impl Fn(u64) -> bool,
    ) -> Result<Created, Status> {
        let record = self
            .records
            .get(&args.client)
            .filter(|record| visitor.may_act_for(record) && visitor.is_as_protected(record))
            .ok_or(Status::StaleClientid)?;
        // An unconfirmed record does not outlive a lease (§8.3).
        if !record.is_confirmed && record.lease.age(now) > self.bounds.lease {
            self.remove(args.client);
            return Err(Status::StaleClientid);
        }
        match (args.sequence.wrapping_sub(record.sequence), &record.created) {
            // Any user of the client's host may repeat it, as any of them may ask for another session (§18.36.4).
            (0, Some(created)) => return Ok(created.clone()),
            (1, _) => {}
            _ => return Err(Status::SeqMisordered),
        }
        if !record.is_confirmed && record.principal != principal {
            return Err(Status::ClidInuse);
        }
        if args.flags & !CREATE_FLAGS != 0 {
            return Err(Status::Inval);
        }
        if record.sessions.len() >= self.bounds.sessions_max {
            return Err(Status::Delay);
        }
        let is_confirmed = record.is_confirmed;
        check_lengths(&args.back)?;
        check_lengths(&args.fore)?;
        let (free, mut removed) = self.make_slots((args.client, visitor), now, &has_state)?;
        let most = match visitor.standing {
            Standing::Stranger => 1,
            Standing::Admitted | Standing::Listed => SESSION_SLOTS_MAX,
        };
        let fore = granted(&args.fore, free, most);
        if !self.budget.take(fore.slots as usize) {
            return Err(Status::Delay);
        }
        if !is_confirmed {
            removed.extend(self.confirm(args.client));
        }
        let program = CallbackProgram::of(args.callback_program, &args.security);
        let back = Channel {
            slots: args.back.slots.min(BACK_SLOTS_MAX),
            ..args.back
        };
        let channel = BackChannel::new(back, minor, program);
        let flags = match channel.is_possible() {
            true => args.flags & BACK_CHANNEL,
            false => 0,
        };
        let session = self.open_session(args.client, fore, channel, visitor);
        let created = Created {
            session,
            sequence: args.sequence,
            flags,
            fore,
            back,
            removed: Vec::new(),
        };
        if let Some(record) = self.records.get_mut(&args.client) {
            record.sequence = args.sequence;
            record.created = Some(created.clone());
            record.sessions.push(session);
            record.lease.renew(now);
        }
        Ok(Created { removed, ..created })
    }

    /// Confirms a record; the confirmed record of an earlier incarnation goes. Returns the removed client.
    fn confirm(&mut self, id: u64) -> Vec<u64> {
        let Some(record) = self.records.get_mut(&id) else {
            return Vec::new();
        };
        record.is_confirmed = true;
        let owner = record.owner.clone();
        let of_owner = self.owners.entry(owner).or_default();
        of_owner.unconfirmed = None;
        let before = of_owner.confirmed.replace(id);
        before.into_iter().filter(|id| self.remove(*id)).collect()
    }

    fn open_session(
        &mut self,
        client: u64,
        fore: Channel,
        back: BackChannel,
        visitor: &Visitor,
    ) -> SessionId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&client.to_be_bytes());
        id[8..].copy_from_slice(&io::rng::u64().to_be_bytes());
        if let Some(record) = self.records.get(&client) {
            let (lease, budget) = (record.lease.clone(), self.budget.clone());
            let session = Session::new((id, client), lease, (fore, back), budget, visitor);
            self.sessions.insert(session);
        }
        id
    }

    /// All sessions, for lookups without the lock of the clients.
    pub fn sessions(&self) -> Arc<Sessions> {
        self.sessions.clone()
    }

    /// A session.
    pub fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.sessions.get(id)
    }

    /// Sessions that should shrink, at most `max`, and the size to which they should.
    pub fn shrinking(&self, max: usize) -> (Vec<Arc<Session>>, u32) {
        let Some(share) = self.budget.shrink_to() else {
            return (Vec::new(), 0);
        };
        (self.sessions.larger(share, max), share)
    }

    /// The sessions of a client.
    pub fn sessions_of(&self, client: u64) -> Vec<Arc<Session>> {
        let record = self.records.get(&client);
        let ids = record.map_or(&[][..], |record| record.sessions.as_slice());
        ids.iter().filter_map(|id| self.session(id)).collect()
    }

    /// A session, for an operation that is not part of it. `None` too if this host may not act for its client.
    pub fn session_for(&self, id: &SessionId, visitor: &Visitor) -> Option<Arc<Session>> {
        let session = self.session(id)?;
        session
            .admits(visitor.address, visitor.standing, &visitor.protection)
            .then_some(session)
    }

    /// DESTROY_SESSION (§18.37) by a host. Errors: `Badsession`.
    pub fn destroy_session(&mut self, id: &SessionId, visitor: &Visitor) -> Result<(), Status> {
        let session = self.session_for(id, visitor).ok_or(Status::Badsession)?;
        if let Some(record) = self.records.get_mut(&session.client()) {
            record.sessions.retain(|of_client| of_client != id);
        }
        self.forget(id);
        Ok(())
    }

    /// DESTROY_CLIENTID (§18.50) by a host. Errors: `StaleClientid`; `ClientidBusy` while it has sessions or state.
    pub fn destroy_client(
        &mut self,
        id: u64,
        visitor: &Visitor,
        has_state: bool,
    ) -> Result<(), Status> {
        let record = self.records.get(&id);
        let may = |r: &&Record| visitor.may_act_for(r) && visitor.is_as_protected(r);
        let record = record.filter(may);
        let record = record.ok_or(Status::StaleClientid)?;
        if has_state || !record.sessions.is_empty() {
            return Err(Status::ClientidBusy);
        }
        self.remove(id);
        Ok(())
    }

    /// The owner of a client that exists.
    pub fn owner(&self, id: u64) -> Option<&[u8]> {
        self.records.get(&id).map(|record| record.owner.as_slice())
    }

    /// A client has state now. Returns its owner if it had none before; `None` if there is no such client.
    pub fn record(&mut self, id: u64) -> Option<Option<Vec<u8>>> {
        let record = self.records.get(&id)?;
        let was_recorded = record.lease.is_recorded.swap(true, Ordering::AcqRel);
        Some((!was_recorded).then(|| record.owner.clone()))
    }

    /// Whether this owner has a confirmed client that had state.
    pub fn is_recorded(&self, owner: &[u8]) -> bool {
        let confirmed = self.owners.get(owner).and_then(|of| of.confirmed);
        let record = confirmed.and_then(|id| self.records.get(&id));
        record.is_some_and(|record| record.lease.is_recorded())
    }

    /// Takes the owners of removed clients that had state.
    pub fn take_forgotten(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.forgotten)
    }

    /// RECLAIM_COMPLETE (§18.51). Errors: `CompleteAlready`.
    pub fn reclaim_complete(&self, id: u64) -> Result<(), Status> {
        let record = self.records.get(&id).ok_or(Status::Badsession)?;
        match record.lease.has_reclaimed.swap(true, Ordering::AcqRel) {
            true => Err(Status::CompleteAlready),
            false => Ok(()),
        }
    }

    /// Removes a client if its lease has expired: its state is in the way. Returns whether the caller must remove the state.
    pub fn expire(&mut self, id: u64, now: Instant) -> bool {
        let record = self.records.get(&id);
        let is_expired = record.is_some_and(|r| r.lease.age(now) > self.bounds.lease);
        is_expired && self.remove(id)
    }

    /// Removes clients whose courtesy is over, and unconfirmed ones without a lease. Returns them; the caller removes their state.
    pub fn sweep(&mut self, now: Instant) -> Vec<u64> {
        let Bounds {
            lease, courtesy, ..
        } = self.bounds;
        let is_over = |record: &Record| {
            let kept = match record.is_confirmed {
                true => lease + courtesy,
                false => lease,
            };
            record.lease.age(now) > kept
        };
        let over = self.records.iter().filter(|(_, r)| is_over(r));
        let over: Vec<u64> = over.map(|(id, _)| *id).collect();
        for id in &over {
            self.remove(*id);
        }
        over
    }

    /// Removes a client that the administrator ends. Returns whether the caller must remove the state.
    pub fn end(&mut self, id: u64) -> bool {
        self.remove(id)
    }

    /// The confirmed clients by ID, without their states and connections. `started` is a point in time, and the same one in
    /// milliseconds since 1970.
    pub fn infos(&self, now: Instant, started: (Instant, u64)) -> Vec<ClientInfo> {
        let confirmed = self.records.iter().filter(|(_, r)| r.is_confirmed);
        let slots = |id: &SessionId| self.sessions.get(id).map_or(0, |s| s.size() as usize);
        let info = |(id, record): (&u64, &Record)| ClientInfo {
            id: *id,
            owner: record.owner.clone(),
            age: record.lease.age(now),
            connected_at_ms: started.1 + record.created_at.since(started.0).as_millis() as u64,
            sessions: record.sessions.len(),
            slots: record.sessions.iter().map(slots).sum(),
            opens: 0,
            locks: 0,
            delegations: 0,
            minor: 0,
            connections: Vec::new(),
            latency: Vec::new(),
        };
        let mut infos: Vec<ClientInfo> = confirmed.map(info).collect();
        infos.sort_by_key(|info| info.id);
        infos
    }

    /// Number of client records, sessions, and slots.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.records.len(), self.sessions.len(), self.budget.used())
    }
}

/// The limits of a new session of at most `most` slots, while `free` slots are left in all, at least one.
fn granted(wanted: &Channel, free: usize, most: u32) -> Channel {
    // Near the limit, each session gets only a part of the slots that are left.
    let share = (free / 8).clamp(1, most as usize) as u32;
    Channel {
        header_padding: 0,
        request_max: wanted.request_max.min(REQUEST_MAX),
        reply_max: wanted.reply_max.min(REPLY_MAX),
        cached_max: wanted.cached_max.min(CACHED_REPLY_MAX),
        operations_max: wanted.operations_max.clamp(1, OPERATIONS_MAX),
        slots: wanted.slots.clamp(1, share),
    }
}

/// Whether requests and replies of a channel have room for their headers. Errors: `Toosmall`.
fn check_lengths(wanted: &Channel) -> Result<(), Status> {
    match wanted.request_max.min(wanted.reply_max) < MESSAGE_MIN {
        true => Err(Status::Toosmall),
        false => Ok(()),
    }
}
