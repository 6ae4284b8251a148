//! Opens and share reservations (§9.7, §18.2, §18.16, §18.18), and access to data by stateid.
//!
//! **Owns** [`OpenArgs`] and the opens of [`Table`]. **Called by** the service, under its lock. **Invariants**: an open is entered only
//! if no reservation and no delegation of another client is in its way; both are decided in one step with it.

use crate::entry::{Kind, Open, State, bit_of};
use crate::table::{Refused, Result, Table, next};
use crate::{READ, WRITE};
use crate::{StateError, Stateid};
use backend::file::{Handle, Hold};
use std::collections::BTreeSet;

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
    /// Whether the file will be truncated.
    pub truncates: bool,
}

impl OpenArgs<'_> {
    /// Whether the open excludes read delegations of other clients, too: their holders may have opens for reading that the server
    /// does not know.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.access & WRITE != 0 || self.deny & READ != 0 || self.truncates
    }
}

/// The combinations of access and deny of an owner's open before another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenBefore {
    combinations: u16,
    seqid: u32,
}

impl Table {
    /// The same, of an open of this file.
    pub(crate) fn find_open(
        &mut self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
    ) -> Result<(u64, &mut State)> {
        let id = self.find(client, stateid)?;
        let state = self.states.get_mut(&id).ok_or(StateError::Unknown)?;
        match state.kind {
            Kind::Open(_) if state.file == file => Ok((id, state)),
            _ => Err(StateError::Unknown.into()),
        }
    }

    pub(crate) fn open_of(&self, id: u64) -> Option<(&State, &Open)> {
        let state = self.states.get(&id)?;
        match &state.kind {
            Kind::Open(open) => Some((state, open)),
            _ => None,
        }
    }

    pub(crate) fn changed(&mut self, id: u64) -> Stateid {
        if let Some(state) = self.states.get_mut(&id) {
            state.seqid = next(state.seqid);
        }
        self.stateid(id)
    }

    /// The client of an open of this file, except one, that excludes this access or that this reservation excludes.
    pub(crate) fn share_conflict(
        &self,
        file: Handle,
        except: Option<u64>,
        access: u32,
        deny: u32,
    ) -> Option<u64> {
        let opens = &self.files.get(&file)?.opens;
        let found = opens.conflict(except, (access, deny))?;
        self.states.get(&found).map(|state| state.client)
    }

    fn own_open(&self, args: &OpenArgs<'_>) -> Option<u64> {
        let opens = &self.files.get(&args.file)?.opens;
        opens.of_owner(args.client, args.owner)
    }

    /// The combinations of an open changed.
    fn shared_anew(&mut self, id: u64) {
        let Some((state, open)) = self.open_of(id) else {
            return;
        };
        let (client, file, share) = (state.client, state.file, open.share());
        if let Some(file) = self.files.get_mut(&file) {
            file.opens.set_share(id, client, share);
        }
    }

    /// The open of this owner as it is before [`Table::open`].
    #[must_use]
    pub fn open_before(&self, args: &OpenArgs<'_>) -> OpenBefore {
        let own = self.own_open(args).and_then(|id| self.open_of(id));
        OpenBefore {
            combinations: own.map_or(0, |(_, open)| open.combinations),
            seqid: own.map_or(0, |(state, _)| state.seqid),
        }
    }

    /// Takes back an open whose operation failed afterwards, or that a delegation replaces; not if the owner opened the file again
    /// meanwhile, since that request has a stateid of this open. Returns the file's hold if nothing is left of it.
    pub fn undo_open(&mut self, args: &OpenArgs<'_>, before: OpenBefore) -> Option<Hold> {
        let id = self.own_open(args)?;
        let added = bit_of(args.access, args.deny) & !before.combinations;
        let state = self.states.get_mut(&id)?;
        if state.seqid != next(before.seqid) {
            return None;
        }
        let Kind::Open(open) = &mut state.kind else {
            return None;
        };
        open.combinations &= !added;
        match open.combinations {
            0 => self.remove(id),
            _ => {
                // The client never saw the stateid of the open that is taken back.
                state.seqid = before.seqid;
                self.shared_anew(id);
                None
            }
        }
    }

    /// Opens a file, or adds to the open of this owner (§9.7, §18.16.3). `hold` keeps the file, and is taken only if it is needed. Errors: `Share`, `Delegation`;
    /// `Full` at a limit.
    pub fn open(&mut self, args: &OpenArgs<'_>, hold: &mut Option<Hold>) -> Result<Stateid> {
        let own = self.own_open(args);
        if let Some(client) = self.share_conflict(args.file, own, args.access, args.deny) {
            return Err(Refused::Share(client));
        }
        if self.is_delegated(args.file, Some(args.client), args.is_change()) {
            return Err(Refused::Delegation);
        }
        let combination = bit_of(args.access, args.deny);
        if let Some(id) = own
            && let Some(state) = self.states.get_mut(&id)
        {
            if let Kind::Open(open) = &mut state.kind {
                open.combinations |= combination;
            }
            state.seqid = next(state.seqid);
            self.shared_anew(id);
            return Ok(self.stateid(id));
        }
        self.check_room(args.client)?;
        // A refused open leaves the hold to the caller.
        let hold = hold.take().ok_or(StateError::NoHold)?;
        let id = self.insert(State {
            client: args.client,
            owner: args.owner.to_vec(),
            file: args.file,
            seqid: 1,
            kind: Kind::Open(Open {
                combinations: combination,
                lockers: BTreeSet::new(),
                hold: Some(hold),
            }),
        });
        self.shared_anew(id);
        Ok(self.stateid(id))
    }

    /// CLOSE (§18.2): the open's locks go, too. Returns the file's hold. Errors: those of a stateid.
    pub fn close(&mut self, client: u64, stateid: &Stateid, file: Handle) -> Result<Option<Hold>> {
        let (id, _) = self.find_open(client, stateid, file)?;
        Ok(self.remove(id))
    }

    /// OPEN_DOWNGRADE (§18.18). Errors: `NoUnion` if access and deny are no union of opens of this owner.
    pub fn downgrade(
        &mut self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
        (access, deny): (u32, u32),
    ) -> Result<Stateid> {
        let (id, state) = self.find_open(client, stateid, file)?;
        let Kind::Open(open) = &mut state.kind else {
            return Err(StateError::Unknown.into());
        };
        let (mut kept, mut union) = (0, (0, 0));
        for (a, d) in open.all() {
            if a & !access == 0 && d & !deny == 0 {
                kept |= bit_of(a, d);
                union = (union.0 | a, union.1 | d);
            }
        }
        if union != (access, deny) {
            return Err(StateError::NoUnion.into());
        }
        open.combinations = kept;
        state.seqid = next(state.seqid);
        self.shared_anew(id);
        Ok(self.stateid(id))
    }

    /// Whether data of a file may be read or written with this stateid (§8.2.3, §9.1.2). Errors: `Mode`, those of a stateid;
    /// `Share` if an open denies it to a special stateid, `Delegation` if a delegation of another client does.
    pub fn check_io(
        &self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
        is_write: bool,
    ) -> Result<()> {
        let access = if is_write { WRITE } else { READ };
        let is_anonymous = *stateid == Stateid::ANONYMOUS || *stateid == Stateid::BYPASS;
        if is_anonymous && self.is_delegated(file, Some(client), is_write) {
            return Err(Refused::Delegation);
        }
        if *stateid == Stateid::BYPASS && !is_write {
            return Ok(());
        }
        if is_anonymous {
            return match self.share_conflict(file, None, access, 0) {
                Some(client) => Err(Refused::Share(client)),
                None => Ok(()),
            };
        }
        let id = self.find(client, stateid)?;
        let open = match self.states.get(&id) {
            Some(state) if state.file != file => None,
            Some(State {
                kind: Kind::Delegation(delegation),
                ..
            }) => {
                return match delegation.is_write() || !is_write {
                    true => Ok(()),
                    false => Err(StateError::Mode.into()),
                };
            }
            Some(State {
                kind: Kind::Lock(open),
                ..
            }) => self.open_of(*open),
            _ => self.open_of(id),
        };
        let (_, open) = open.ok_or(StateError::Unknown)?;
        match open.share().0 & access != 0 {
            true => Ok(()),
            false => Err(StateError::Mode.into()),
        }
    }
}
