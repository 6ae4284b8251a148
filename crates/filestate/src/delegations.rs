//! Delegations, from grant to return or revocation (§10.2 to §10.5).
//!
//! **Owns** [`DelegationArgs`], and the delegations of [`Table`]. **Called by** the service, under its lock. **Invariants**: a file
//! has one write delegation, or read delegations, or none; a delegation is granted only while no other client has an open that
//! conflicts with it and nobody is changing the file; a file whose delegation was recalled gets none for a while.

use crate::Origin;
use crate::entry::{Delegation, Kind, State, Told};
use crate::held::{HeldTimes, ReportedTimes};
use crate::table::{Table, next};
use crate::{Revocation, StateError, Stateid};
use backend::file::{Handle, Hold, Timestamp};
use io::time::Instant;

/// Why there is no delegation (`why_no_delegation4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// WND4_NOT_WANTED.
    NotWanted = 0,
    /// WND4_CONTENTION: other clients use the file, or did so a short time ago.
    Contention = 1,
    /// WND4_RESOURCE: a limit, or no back channel.
    Resource = 2,
    /// WND4_NOT_SUPP_UPGRADE: the client has a read delegation.
    Upgrade = 5,
    /// WND4_NOT_SUPP_DOWNGRADE: the client has a write delegation.
    Downgrade = 6,
    /// WND4_CANCELLED.
    Cancelled = 7,
}

/// A delegation that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct DelegationArgs {
    /// The client.
    pub client: u64,
    /// The file.
    pub file: Handle,
    /// The number of the export by which the client reached it.
    pub export: u32,
    /// Whether it is for writing.
    pub is_write: bool,
    /// The request that is answered with the delegation.
    pub origin: Origin,
    /// The `change` attribute of the file.
    pub change: u64,
    /// Whether it is one of before the server's restart.
    pub is_reclaim: bool,
    /// The file's times, if they are delegated, too.
    pub held: Option<HeldTimes>,
}

/// A delegation that must be recalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recall {
    /// Its number.
    pub id: u64,
    /// Its client.
    pub client: u64,
    /// Its stateid.
    pub stateid: Stateid,
    /// The file.
    pub file: Handle,
    /// The number of its export.
    pub export: u32,
    /// The request that was answered with it.
    pub origin: Origin,
    /// Whether the file's times are delegated, too.
    pub has_times: bool,
}

/// Attributes of a file as the holder of a write delegation told them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// `change`.
    pub change: u64,
    /// The size, bytes.
    pub size: u64,
    /// The times, as far as the holder changed them.
    pub times: ReportedTimes,
}

/// Whether the holder of a write delegation must be asked for attributes (§10.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It told them a moment ago, or is being asked.
    Known,
    /// It must be asked now.
    Ask(Recall),
}

impl Table {
    /// The client of each delegation.
    pub(crate) fn delegation_clients(&self) -> impl Iterator<Item = u64> + '_ {
        let all = self.states.values();
        let delegations = all.filter(|state| matches!(state.kind, Kind::Delegation(_)));
        delegations.map(|state| state.client)
    }

    fn delegation(&self, id: u64) -> Option<(&State, &Delegation)> {
        let state = self.states.get(&id)?;
        match &state.kind {
            Kind::Delegation(delegation) => Some((state, delegation)),
            _ => None,
        }
    }

    fn delegation_mut(&mut self, id: u64) -> Option<&mut Delegation> {
        match &mut self.states.get_mut(&id)?.kind {
            Kind::Delegation(delegation) => Some(delegation),
            _ => None,
        }
    }

    /// Delegations of a file that exclude a use by `client`, or by nobody that has a client ID. A change of data or names is
    /// excluded by all, other uses by write delegations.
    fn conflicting(
        &self,
        file: Handle,
        client: Option<u64>,
        is_change: bool,
    ) -> impl Iterator<Item = u64> + '_ {
        let of_file = self.files.get(&file).map(|file| file.delegations.iter());
        let all = of_file.into_iter().flatten().copied();
        all.filter(move |id| {
            self.delegation(*id).is_some_and(|(state, delegation)| {
                Some(state.client) != client && (is_change || delegation.is_write)
            })
        })
    }

    /// Whether a delegation excludes a use of a file.
    #[must_use]
    pub fn is_delegated(&self, file: Handle, client: Option<u64>, is_change: bool) -> bool {
        self.register.count > 0 && self.conflicting(file, client, is_change).next().is_some()
    }

    /// Grants a delegation. `hold` keeps the file. Errors: the reason why there is none.
    pub fn delegate(
        &mut self,
        args: &DelegationArgs,
        hold: Hold,
        now: Instant,
    ) -> Result<Stateid, Why> {
        let own = self.files.get(&args.file).and_then(|file| {
            let own = |id: &&u64| self.states.get(id).is_some_and(|s| s.client == args.client);
            file.delegations.iter().find(own)
        });
        if let Some((_, own)) = own.and_then(|id| self.delegation(*id)) {
            return Err(match own.is_write {
                true => Why::Downgrade,
                false => Why::Upgrade,
            });
        }
        let is_used = self.is_delegated(args.file, Some(args.client), args.is_write)
            || self.is_open_elsewhere(args);
        let is_resting = !args.is_reclaim && self.register.is_resting(args.file, now);
        if is_used || is_resting || self.register.changing.contains_key(&args.file) {
            return Err(Why::Contention);
        }
        let has_room =
            self.totals.delegations_left() > 0 && !self.withdrawn.is_frozen(args.file.filesystem);
        if !has_room || self.check_room(args.client).is_err() {
            return Err(Why::Resource);
        }
        let id = self.insert(State {
            client: args.client,
            owner: Vec::new(),
            file: args.file,
            seqid: next(0),
            kind: Kind::Delegation(Delegation {
                is_write: args.is_write,
                export: args.export,
                origin: args.origin,
                recalled_at: None,
                progress: 0,
                change: args.change,
                told: None,
                is_asked: false,
                held: args.held,
                hold: Some(hold),
            }),
        });
        Ok(self.stateid(id))
    }

    /// Whether another client has an open that excludes the delegation.
    fn is_open_elsewhere(&self, args: &DelegationArgs) -> bool {
        let file = self.files.get(&args.file);
        file.is_some_and(|file| file.opens.has_others(args.client, !args.is_write))
    }

    /// Whether a client holds this delegation of a file (CLAIM_DELEGATE_CUR). Errors: those of a stateid.
    pub fn check_delegation(
        &self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
    ) -> Result<(), StateError> {
        let id = self.find(client, stateid)?;
        match self.delegation(id) {
            Some((state, _)) if state.file == file => Ok(()),
            _ => Err(StateError::Unknown),
        }
    }

    /// Whether a client may set the times that it reports, under this delegation of a file (RFC 9754, section 5): the times that count at
    /// this time. Errors: `Unknown` if times are not delegated with it, `Mode` for the modification under a read delegation;
    /// those of a stateid.
    pub fn check_held(
        &self,
        (client, stateid, file): (u64, &Stateid, Handle),
        reported: ReportedTimes,
        now: Timestamp,
    ) -> Result<ReportedTimes, StateError> {
        self.check_delegation(client, stateid, file)?;
        let id = self.find(client, stateid)?;
        let (_, delegation) = self.delegation(id).ok_or(StateError::Unknown)?;
        let held = delegation.held.ok_or(StateError::Unknown)?;
        match reported.modified.is_none() || delegation.is_write {
            true => Ok(held.accepted(reported, now)),
            false => Err(StateError::Mode),
        }
    }

    /// The holder of a delegation set these times.
    pub fn set_held(&mut self, client: u64, stateid: &Stateid, accepted: ReportedTimes) {
        if let Ok(id) = self.find(client, stateid)
            && let Some(delegation) = self.delegation_mut(id)
        {
            delegation.held.iter_mut().for_each(|h| h.set(accepted));
            delegation.told = None;
        }
    }

    /// DELEGRETURN (§18.6). Returns the file's hold. Errors: those of a stateid.
    pub fn give_back(
        &mut self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
    ) -> Result<Option<Hold>, StateError> {
        self.check_delegation(client, stateid, file)?;
        let id = self.find(client, stateid)?;
        Ok(self.remove(id))
    }

    /// A use of a file is excluded by delegations. Returns the ones that are not recalled yet: the caller must recall them now.
    pub fn recall(
        &mut self,
        file: Handle,
        client: Option<u64>,
        is_change: bool,
        now: Instant,
    ) -> Vec<Recall> {
        let all: Vec<u64> = self.conflicting(file, client, is_change).collect();
        if !all.is_empty() {
            self.register.recalled(file, now);
        }
        let mut begun = Vec::new();
        for id in all {
            if let Some(delegation) = self.delegation_mut(id)
                && delegation.recalled_at.is_none()
            {
                delegation.recalled_at = Some(now);
                begun.extend(self.recall_of(id));
            }
        }
        begun
    }

    fn recall_of(&self, id: u64) -> Option<Recall> {
        let (state, delegation) = self.delegation(id)?;
        Some(Recall {
            id,
            client: state.client,
            stateid: self.stateid(id),
            file: state.file,
            export: delegation.export,
            origin: delegation.origin,
            has_times: delegation.held.is_some(),
        })
    }

    /// The number of uses of the file by the holder of a delegation since its recall; `None` if it was returned or revoked.
    #[must_use]
    pub fn progress(&self, id: u64) -> Option<u64> {
        self.delegation(id)
            .map(|(_, delegation)| delegation.progress)
    }

    /// A client writes data of a file back, or takes opens for a delegation that it is about to return.
    pub fn note_progress(&mut self, file: Handle, client: u64) {
        if self.register.count == 0 {
            return;
        }
        let of_file = self.files.get(&file).map(|file| file.delegations.clone());
        for id in of_file.into_iter().flatten() {
            if self.states.get(&id).is_some_and(|s| s.client == client)
                && let Some(delegation) = self.delegation_mut(id)
                && delegation.recalled_at.is_some()
            {
                delegation.progress += 1;
            }
        }
    }

    /// Revokes a delegation (§10.4.5): its stateid stays until the client frees it. Returns the file's hold.
    pub fn revoke(&mut self, id: u64) -> Option<Hold> {
        let (state, _) = self.delegation(id)?;
        let (client, file) = (state.client, state.file);
        let stateid = self.stateid(id);
        let hold = self.remove(id);
        self.put_revoked(id, (client, file, stateid.seqid), Revocation::Recall);
        hold
    }

    /// Whether a client has stateids that it did not free and that were revoked after a recall, and by the administrator.
    #[must_use]
    pub fn has_revoked(&self, client: u64) -> (bool, bool) {
        let counts = self.register.revoked.get(&client);
        counts.map_or((false, false), |(recall, admin)| (*recall > 0, *admin > 0))
    }

    /// A change of a file begins that no open excludes from others: until [`Table::changed_file`], the file gets no delegation.
    /// Errors: `false` if a delegation excludes it.
    #[must_use]
    pub fn change_file(&mut self, file: Handle, client: Option<u64>) -> bool {
        let may = !self.is_delegated(file, client, true);
        if may {
            if let Some(client) = client {
                self.note_progress(file, client);
            }
            *self.register.changing.entry(file).or_default() += 1;
        }
        may
    }

    /// The change ended.
    pub fn changed_file(&mut self, file: Handle) {
        if let Some(count) = self.register.changing.get_mut(&file) {
            *count -= 1;
            if *count == 0 {
                self.register.changing.remove(&file);
            }
        }
    }

    /// Whether the holder of a write delegation must be asked for the attributes that `client` must see, only times or others, too. `None`
    /// if there is no such delegation.
    pub fn ask(
        &mut self,
        file: Handle,
        client: u64,
        is_only_times: bool,
        now: Instant,
    ) -> Option<Asked> {
        let id = self.write_delegation(file, client)?;
        let recall = self.recall_of(id)?;
        if is_only_times && !recall.has_times {
            return None;
        }
        let delegation = self.delegation_mut(id)?;
        let is_fresh = delegation.told.is_some_and(|told| told.is_fresh(now));
        if is_fresh || delegation.is_asked {
            return Some(Asked::Known);
        }
        delegation.is_asked = true;
        Some(Asked::Ask(recall))
    }

    /// The attributes that `client` must see, as far as the holder of a write delegation told. `None` if there is no such delegation.
    #[must_use]
    pub fn told_to(&self, file: Handle, client: u64, now: Instant) -> Option<Option<Seen>> {
        let id = self.write_delegation(file, client)?;
        let (_, delegation) = self.delegation(id)?;
        let told = delegation.told.filter(|told| told.is_fresh(now));
        Some(told.map(|told| Seen {
            change: told.shown,
            size: told.own.1,
            times: told.times,
        }))
    }

    fn write_delegation(&self, file: Handle, client: u64) -> Option<u64> {
        self.conflicting(file, Some(client), false).next()
    }

    /// The holder answered CB_GETATTR with its `change` and the size, and the times; or not. `server` is the file's `change` here, `wall` the
    /// present for times.
    pub fn told(
        &mut self,
        id: u64,
        answer: Option<((u64, u64), ReportedTimes)>,
        server: u64,
        (now, wall): (Instant, Timestamp),
    ) {
        let Some(delegation) = self.delegation_mut(id) else {
            return;
        };
        delegation.is_asked = false;
        if let Some((own, reported)) = answer {
            let before = delegation.told;
            let shown = match before {
                Some(told) if told.own == own => told.shown,
                _ if own.0 == delegation.change => server,
                _ => before.map_or(server, |told| told.shown.max(server)) + 1,
            };
            let times = delegation.held.map(|held| held.accepted(reported, wall));
            delegation.told = Some(Told {
                own,
                shown,
                times: times.unwrap_or_default(),
                at: now,
            });
        }
    }
}
