//! All opens and lock states.
//!
//! **Owns** [`Table`]. **Called by** the service, under its lock. **Invariants**: each state is in the lists of its file and of
//! its client; a file is in the table while it has a state; a lock state belongs to an open of the same file and goes with it.

use super::ranges::{Range, Ranges};
use super::{READ, WRITE};
use crate::limits::{FILE_LOCKS_MAX, STATES_MAX, STATES_OF_CLIENT_MAX};
use crate::wire::{Stateid, Status};
use backend::file::{Handle, Hold};
use std::collections::{BTreeSet, HashMap};

/// An open that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct OpenArgs<'a> {
    /// The client.
    pub client: u64,
    /// The open owner.
    pub owner: &'a [u8],
    /// The file.
    pub file: Handle,
    /// `OPEN4_SHARE_ACCESS_…`: 1 to 3.
    pub access: u32,
    /// `OPEN4_SHARE_DENY_…`: 0 to 3.
    pub deny: u32,
}

/// The state from which a lock is taken.
#[derive(Debug, Clone, Copy)]
pub enum LockFrom<'a> {
    /// An open, and the lock owner.
    Open(Stateid, &'a [u8]),
    /// The state of a lock owner.
    Lock(Stateid),
}

/// A lock that excludes another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Its bytes.
    pub range: Range,
    /// Whether it excludes every other lock.
    pub is_exclusive: bool,
    /// Its client.
    pub client: u64,
    /// Its lock owner.
    pub owner: Vec<u8>,
}

/// Why an operation was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// For this reason.
    Status(Status),
    /// An open of this client conflicts.
    Share(u64),
    /// A lock conflicts.
    Lock(Denied),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

#[derive(Debug)]
struct Open {
    /// Combinations of access and deny that were opened and not downgraded: bit `(access - 1) * 4 + deny`.
    combinations: u16,
    lockers: Vec<u64>,
    /// Keeps the file.
    hold: Hold,
}

impl Open {
    fn all(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let bits = (0..12).filter(|bit| self.combinations & (1 << bit) != 0);
        bits.map(|bit| (bit / 4 + 1, bit % 4))
    }

    /// Access and deny of all combinations together.
    fn share(&self) -> (u32, u32) {
        self.all()
            .fold((0, 0), |(a, d), (access, deny)| (a | access, d | deny))
    }
}

fn bit_of(access: u32, deny: u32) -> u16 {
    1 << ((access - 1) * 4 + deny)
}

#[derive(Debug)]
enum Kind {
    Open(Open),
    /// Of this open.
    Lock(u64),
}

#[derive(Debug)]
struct State {
    client: u64,
    owner: Vec<u8>,
    file: Handle,
    seqid: u32,
    kind: Kind,
}

#[derive(Debug, Default)]
struct File {
    opens: Vec<u64>,
    lockers: Vec<u64>,
    ranges: Ranges,
}

/// All states.
#[derive(Debug)]
pub struct Table {
    /// Distinguishes stateids of this server instance from earlier ones.
    instance: u32,
    next: u64,
    states: HashMap<u64, State>,
    files: HashMap<Handle, File>,
    clients: HashMap<u64, BTreeSet<u64>>,
}

type Result<T> = std::result::Result<T, Refused>;

impl Table {
    /// No states.
    #[must_use]
    pub fn new(instance: u32) -> Self {
        Self {
            instance,
            next: 1,
            states: HashMap::new(),
            files: HashMap::new(),
            clients: HashMap::new(),
        }
    }

    /// Number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there are no states, and nothing is kept about any file or client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty() && self.files.is_empty() && self.clients.is_empty()
    }

    /// Whether a client has states.
    #[must_use]
    pub fn has_state(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    fn stateid(&self, id: u64) -> Stateid {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.instance.to_be_bytes());
        other[4..].copy_from_slice(&id.to_be_bytes());
        let seqid = self.states.get(&id).map_or(0, |state| state.seqid);
        Stateid { seqid, other }
    }

    /// A state of a client (§8.2.4). Errors: `BadStateid`, `StaleStateid`, `OldStateid`.
    fn find(&self, client: u64, stateid: &Stateid) -> std::result::Result<u64, Status> {
        if stateid.is_special() {
            return Err(Status::BadStateid);
        }
        let (instance, id) = stateid.other.split_at(4);
        if instance != self.instance.to_be_bytes() {
            return Err(Status::StaleStateid);
        }
        let id = id
            .try_into()
            .map(u64::from_be_bytes)
            .map_err(|_| Status::BadStateid)?;
        let state = self.states.get(&id).filter(|s| s.client == client);
        let state = state.ok_or(Status::BadStateid)?;
        match stateid.seqid {
            0 => Ok(id),
            seqid if seqid == state.seqid => Ok(id),
            seqid if seqid < state.seqid => Err(Status::OldStateid),
            _ => Err(Status::BadStateid),
        }
    }

    /// The same, of an open of this file.
    fn find_open(
        &mut self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
    ) -> Result<(u64, &mut State)> {
        let id = self.find(client, stateid)?;
        let state = self.states.get_mut(&id).ok_or(Status::BadStateid)?;
        match state.kind {
            Kind::Open(_) if state.file == file => Ok((id, state)),
            Kind::Open(_) | Kind::Lock(_) => Err(Status::BadStateid.into()),
        }
    }

    fn insert(&mut self, state: State) -> u64 {
        let id = self.next;
        self.next += 1;
        self.clients.entry(state.client).or_default().insert(id);
        let file = self.files.entry(state.file).or_default();
        match state.kind {
            Kind::Open(_) => file.opens.push(id),
            Kind::Lock(_) => file.lockers.push(id),
        }
        self.states.insert(id, state);
        id
    }

    /// Removes a state, and the lock states of an open. Returns its hold.
    fn remove(&mut self, id: u64) -> Option<Hold> {
        let state = self.states.remove(&id)?;
        if let Some(of_client) = self.clients.get_mut(&state.client) {
            of_client.remove(&id);
            if of_client.is_empty() {
                self.clients.remove(&state.client);
            }
        }
        if let Some(file) = self.files.get_mut(&state.file) {
            file.opens.retain(|open| *open != id);
            file.lockers.retain(|locker| *locker != id);
            file.ranges.release(id);
            if file.opens.is_empty() && file.lockers.is_empty() {
                self.files.remove(&state.file);
            }
        }
        match state.kind {
            Kind::Open(open) => {
                for locker in open.lockers {
                    self.remove(locker);
                }
                Some(open.hold)
            }
            Kind::Lock(open) => {
                if let Some(Kind::Open(open)) = self.states.get_mut(&open).map(|s| &mut s.kind) {
                    open.lockers.retain(|locker| *locker != id);
                }
                None
            }
        }
    }

    /// Errors: `Delay` at a limit.
    fn check_room(&self, client: u64) -> Result<()> {
        let of_client = self.clients.get(&client).map_or(0, BTreeSet::len);
        match of_client < STATES_OF_CLIENT_MAX && self.states.len() < STATES_MAX {
            true => Ok(()),
            false => Err(Status::Delay.into()),
        }
    }

    fn open_of(&self, id: u64) -> Option<(&State, &Open)> {
        let state = self.states.get(&id)?;
        match &state.kind {
            Kind::Open(open) => Some((state, open)),
            Kind::Lock(_) => None,
        }
    }

    /// The client of an open of this file, except one, that excludes this access or that this reservation excludes.
    fn share_conflict(
        &self,
        file: Handle,
        except: Option<u64>,
        access: u32,
        deny: u32,
    ) -> Option<u64> {
        let opens = self.files.get(&file)?.opens.iter();
        opens
            .filter(|id| Some(**id) != except)
            .filter_map(|id| self.open_of(*id))
            .find(|(_, open)| {
                let (has, denies) = open.share();
                access & denies != 0 || deny & has != 0
            })
            .map(|(state, _)| state.client)
    }

    /// Opens a file, or adds to the open of this owner (§9.7, §18.16.3). `hold` keeps the file. Errors: `Share`; `Delay` at a
    /// limit.
    pub fn open(&mut self, args: &OpenArgs<'_>, hold: Hold) -> Result<Stateid> {
        let is_own = |id: &&u64| {
            let state = self.states.get(id);
            state.is_some_and(|s| s.client == args.client && s.owner == args.owner)
        };
        let opens = self.files.get(&args.file).map(|file| file.opens.iter());
        let own = opens.and_then(|mut opens| opens.find(is_own)).copied();
        if let Some(client) = self.share_conflict(args.file, own, args.access, args.deny) {
            return Err(Refused::Share(client));
        }
        let combination = bit_of(args.access, args.deny);
        if let Some(id) = own
            && let Some(state) = self.states.get_mut(&id)
        {
            if let Kind::Open(open) = &mut state.kind {
                open.combinations |= combination;
            }
            state.seqid = next(state.seqid);
            return Ok(self.stateid(id));
        }
        self.check_room(args.client)?;
        let id = self.insert(State {
            client: args.client,
            owner: args.owner.to_vec(),
            file: args.file,
            seqid: 1,
            kind: Kind::Open(Open {
                combinations: combination,
                lockers: Vec::new(),
                hold,
            }),
        });
        Ok(self.stateid(id))
    }

    /// CLOSE (§18.2): the open's locks go, too. Returns the file's hold. Errors: `BadStateid` and others of a stateid.
    pub fn close(&mut self, client: u64, stateid: &Stateid, file: Handle) -> Result<Option<Hold>> {
        let (id, _) = self.find_open(client, stateid, file)?;
        Ok(self.remove(id))
    }

    /// OPEN_DOWNGRADE (§18.18). Errors: `Inval` if access and deny are no union of opens of this owner.
    pub fn downgrade(
        &mut self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
        (access, deny): (u32, u32),
    ) -> Result<Stateid> {
        let (id, state) = self.find_open(client, stateid, file)?;
        let Kind::Open(open) = &mut state.kind else {
            return Err(Status::BadStateid.into());
        };
        let (mut kept, mut union) = (0, (0, 0));
        for (a, d) in open.all() {
            if a & !access == 0 && d & !deny == 0 {
                kept |= bit_of(a, d);
                union = (union.0 | a, union.1 | d);
            }
        }
        if union != (access, deny) {
            return Err(Status::Inval.into());
        }
        open.combinations = kept;
        state.seqid = next(state.seqid);
        Ok(self.stateid(id))
    }

    /// Whether data of a file may be read or written with this stateid (§8.2.3, §9.1.2). Errors: `Openmode`, those of a stateid;
    /// `Share` if an open denies it to a special stateid.
    pub fn check_io(
        &self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
        is_write: bool,
    ) -> Result<()> {
        let access = if is_write { WRITE } else { READ };
        if *stateid == Stateid::BYPASS && !is_write {
            return Ok(());
        }
        if *stateid == Stateid::ANONYMOUS || *stateid == Stateid::BYPASS {
            return match self.share_conflict(file, None, access, 0) {
                Some(client) => Err(Refused::Share(client)),
                None => Ok(()),
            };
        }
        let id = self.find(client, stateid)?;
        let open = match self.states.get(&id) {
            Some(state) if state.file != file => None,
            Some(State {
                kind: Kind::Lock(open),
                ..
            }) => self.open_of(*open),
            _ => self.open_of(id),
        };
        let (_, open) = open.ok_or(Status::BadStateid)?;
        match open.share().0 & access != 0 {
            true => Ok(()),
            false => Err(Status::Openmode.into()),
        }
    }

    fn denied(&self, id: u64, range: Range, is_exclusive: bool) -> Option<Denied> {
        let state = self.states.get(&id)?;
        Some(Denied {
            range,
            is_exclusive,
            client: state.client,
            owner: state.owner.clone(),
        })
    }

    fn locker(&self, client: u64, owner: &[u8], file: Handle) -> Option<u64> {
        let lockers = self.files.get(&file)?.lockers.iter();
        let is_own = |id: &&u64| {
            let state = self.states.get(id);
            state.is_some_and(|s| s.client == client && s.owner == owner)
        };
        lockers.copied().find(|id| is_own(&id))
    }

    /// The lock that excludes a lock of this owner (LOCKT, §18.11).
    #[must_use]
    pub fn test_lock(
        &self,
        (client, owner): (u64, &[u8]),
        file: Handle,
        range: Range,
        is_exclusive: bool,
    ) -> Option<Denied> {
        // No state has the number 0.
        let own = self.locker(client, owner, file).unwrap_or(0);
        let ranges = &self.files.get(&file)?.ranges;
        let found = ranges.conflict(own, range, is_exclusive)?;
        self.denied(found.owner, found.range, found.is_exclusive)
    }

    /// LOCK (§18.10). Errors: `Lock`, `Openmode`, those of a stateid; `Delay` at a limit.
    pub fn lock(
        &mut self,
        client: u64,
        from: LockFrom<'_>,
        file: Handle,
        range: Range,
        is_exclusive: bool,
    ) -> Result<Stateid> {
        let (open_id, owner, existing) = match from {
            LockFrom::Open(stateid, owner) => {
                let (open, _) = self.find_open(client, &stateid, file)?;
                (open, owner.to_vec(), self.locker(client, owner, file))
            }
            LockFrom::Lock(stateid) => {
                let id = self.find(client, &stateid)?;
                match self.states.get(&id) {
                    Some(State {
                        kind: Kind::Lock(open),
                        owner,
                        file: of,
                        ..
                    }) if *of == file => (*open, owner.clone(), Some(id)),
                    _ => return Err(Status::BadStateid.into()),
                }
            }
        };
        let access = if is_exclusive { WRITE } else { READ };
        let (_, open) = self.open_of(open_id).ok_or(Status::BadStateid)?;
        if open.share().0 & access == 0 {
            return Err(Status::Openmode.into());
        }
        if let Some(denied) = self.test_lock((client, &owner), file, range, is_exclusive) {
            return Err(Refused::Lock(denied));
        }
        let locks = self.files.get(&file).map_or(0, |file| file.ranges.len());
        if locks >= FILE_LOCKS_MAX {
            return Err(Status::Delay.into());
        }
        let id = match existing {
            Some(id) => id,
            None => {
                self.check_room(client)?;
                self.new_locker(client, owner, file, open_id)
            }
        };
        if let Some(file) = self.files.get_mut(&file) {
            file.ranges.lock(id, range, is_exclusive);
        }
        Ok(self.changed(id))
    }

    fn new_locker(&mut self, client: u64, owner: Vec<u8>, file: Handle, open: u64) -> u64 {
        let id = self.insert(State {
            client,
            owner,
            file,
            seqid: 0,
            kind: Kind::Lock(open),
        });
        if let Some(Kind::Open(open)) = self.states.get_mut(&open).map(|s| &mut s.kind) {
            open.lockers.push(id);
        }
        id
    }

    fn changed(&mut self, id: u64) -> Stateid {
        if let Some(state) = self.states.get_mut(&id) {
            state.seqid = next(state.seqid);
        }
        self.stateid(id)
    }

    /// LOCKU (§18.12). Errors: those of a stateid; `Delay` if a lock would be cut in two at the limit of locks.
    pub fn unlock(
        &mut self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
        range: Range,
    ) -> Result<Stateid> {
        let id = self.find(client, stateid)?;
        let state = self.states.get(&id);
        let is_locker = state.is_some_and(|s| matches!(s.kind, Kind::Lock(_)) && s.file == file);
        let locks = self.files.get_mut(&file).filter(|_| is_locker);
        let locks = &mut locks.ok_or(Status::BadStateid)?.ranges;
        if locks.len() >= FILE_LOCKS_MAX {
            let mut after = locks.clone();
            after.unlock(id, range);
            if after.len() > FILE_LOCKS_MAX {
                return Err(Status::Delay.into());
            }
            *locks = after;
        } else {
            locks.unlock(id, range);
        }
        Ok(self.changed(id))
    }

    /// TEST_STATEID (§18.48): the status of one stateid. It renews nothing.
    #[must_use]
    pub fn test(&self, client: u64, stateid: &Stateid) -> Status {
        match self.find(client, stateid) {
            Ok(_) => Status::Ok,
            Err(status) => status,
        }
    }

    /// FREE_STATEID (§18.38). Errors: `LocksHeld` for an open, and for a lock owner that holds locks; those of a stateid.
    pub fn free(&mut self, client: u64, stateid: &Stateid) -> Result<()> {
        let id = self.find(client, stateid)?;
        let state = self.states.get(&id).ok_or(Status::BadStateid)?;
        let holds = self.files.get(&state.file).map(|f| f.ranges.holds(id));
        if matches!(state.kind, Kind::Open(_)) || holds == Some(true) {
            return Err(Status::LocksHeld.into());
        }
        self.remove(id);
        Ok(())
    }

    /// Numbers of opens and lock states of a client.
    pub fn count_of(&self, client: u64) -> (usize, usize) {
        let ids = self.clients.get(&client).into_iter().flatten();
        let all = ids.filter_map(|id| self.states.get(id));
        all.fold((0, 0), |(opens, locks), state| match state.kind {
            Kind::Open(_) => (opens + 1, locks),
            Kind::Lock(_) => (opens, locks + 1),
        })
    }

    /// Removes all states of files of this file system. Returns the holds of the files.
    pub fn forget_files(&mut self, filesystem: u64) -> Vec<Hold> {
        let is_there = |(_, state): &(&u64, &State)| state.file.filesystem == filesystem;
        let ids: Vec<u64> = self
            .states
            .iter()
            .filter(is_there)
            .map(|(id, _)| *id)
            .collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Removes all states of a client. Returns the holds of its files.
    pub fn forget(&mut self, client: u64) -> Vec<Hold> {
        let ids = self.clients.get(&client).cloned().unwrap_or_default();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}

/// The number behind `seqid`; 0 is left out (§8.2.2).
fn next(seqid: u32) -> u32 {
    seqid.wrapping_add(1).max(1)
}
