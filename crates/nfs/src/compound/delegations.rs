//! Delegations in operations: OPEN's grant, DELEGRETURN, and conflicts with other operations (§10.2 to §10.5, §18.6).
//!
//! **Owns** [`Delegated`]. **Invariants**: an operation that a delegation excludes begins its recall and ends with `Delay`: nothing waits for
//! a client here, except a question for attributes, for at most [`ATTRIBUTES_WAIT`].

use super::context::{Compound, Context, Object, Target};
use super::status::{name, status_of};
use crate::attribute;
use crate::callback;
use crate::client::BackState;
use crate::service::Delegations;
use crate::shared::{Changing, NameChange};
use crate::state::{Asked, BOTH, DelegationArgs, READ, Why};
use crate::wire::{Bitmap, Stateid, Status};
use crate::xdr::Writer;
use backend::file::{Access, Attributes, Handle};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long GETATTR waits for the holder of a write delegation before it ends with `Delay`.
const ATTRIBUTES_WAIT: Duration = Duration::from_millis(100);

/// `OPEN4_SHARE_ACCESS_WANT_…`: the wish for a kind of delegation.
const WISH_MASK: u32 = 0xff00;
const WANT_READ: u32 = 0x100;
const WANT_NONE: u32 = 0x400;
const WANT_CANCEL: u32 = 0x500;
/// `open_delegation_type4`.
const DELEGATE_NONE: u32 = 0;
const DELEGATE_READ: u32 = 1;
const DELEGATE_WRITE: u32 = 2;
const DELEGATE_NONE_EXT: u32 = 3;
/// `NFS_LIMIT_SIZE`.
const LIMIT_SIZE: u32 = 1;

/// A delegation that OPEN returns.
pub(super) struct Granted {
    stateid: Stateid,
    is_write: bool,
    /// Whether the client must return it at once.
    is_recalled: bool,
}

/// The result of OPEN about delegations.
pub(super) enum Delegated {
    Granted(Granted),
    /// There is none; the reason is shown if the client had a wish.
    None(Why),
}

impl Delegated {
    /// Writes `open_delegation4` for a wish.
    pub(super) fn encode(&self, access: u32, out: &mut Writer) {
        match self {
            Delegated::Granted(granted) => granted.encode(out),
            Delegated::None(_) if access & WISH_MASK == 0 => out.u32(DELEGATE_NONE),
            Delegated::None(why) => {
                out.u32(DELEGATE_NONE_EXT);
                out.u32(*why as u32);
                // The server does not signal that there is one later.
                if matches!(why, Why::Contention | Why::Resource) {
                    out.bool(false);
                }
            }
        }
    }
}

impl Granted {
    fn encode(&self, out: &mut Writer) {
        out.u32(match self.is_write {
            true => DELEGATE_WRITE,
            false => DELEGATE_READ,
        });
        self.stateid.encode(out);
        out.bool(self.is_recalled);
        if self.is_write {
            out.u32(LIMIT_SIZE);
            out.u64(u64::MAX);
        }
        // An ACE that allows nobody anything: the client asks ACCESS for each user.
        [0, 0, 0, 0].iter().for_each(|word| out.u32(*word));
    }
}

impl Context<'_> {
    /// A change of a file without the state of an open begins. Errors: `Grace` while clients may reclaim opens and delegations that
    /// would exclude it (§8.4.2.1); `Delay` while delegations of other clients exclude it.
    pub(super) fn changing(&self, file: Handle) -> Result<Changing, Status> {
        self.check_grace()?;
        self.changing_held(file)
    }

    /// Errors: `Grace` while clients may reclaim state.
    pub(super) fn check_grace(&self) -> Result<(), Status> {
        match self.is_grace() {
            true => Err(Status::Grace),
            false => Ok(()),
        }
    }

    /// A change of a file begins that the client's own open or delegation allows, also in the grace period. Errors: `Delay` while
    /// delegations of other clients exclude it.
    pub(super) fn changing_held(&self, file: Handle) -> Result<Changing, Status> {
        let client = self.client()?;
        let changing = self.shared.change(file, Some(client));
        changing.ok_or(Status::Delay)
    }
}

impl Compound<'_> {
    /// The change of the object of a name begins, if there is one. Errors: `Grace`, `Delay` as above.
    pub(super) async fn changing_name(
        &self,
        directory: &Target,
        bytes: &[u8],
    ) -> Result<NameChange, Status> {
        self.context.check_grace()?;
        let (entry, client) = (name(bytes)?, self.context.client()?);
        let at = (&directory.caller, directory.handle, &entry);
        let shared = self.context.shared;
        match shared
            .change_name(directory.files(), at, Some(client))
            .await
        {
            NameChange::Excluded => Err(Status::Delay),
            change => Ok(change),
        }
    }

    /// Whether the client can be called back now.
    pub(super) fn can_call(&self, client: u64) -> bool {
        let sessions = self.context.shared.clients().sessions_of(client);
        let works = |state| state == BackState::Working;
        sessions.iter().any(|session| works(session.back().state()))
    }

    /// The delegation that OPEN returns, for these access and wish bits.
    pub(super) async fn delegate(
        &self,
        target: &Target,
        file: &Attributes,
        access: u32,
    ) -> Result<Delegated, Status> {
        let client = self.context.client()?;
        let level = self.context.shared.config.delegations;
        let is_write = match (access & WISH_MASK, access & BOTH) {
            (WANT_NONE, _) => return Ok(Delegated::None(Why::NotWanted)),
            (WANT_CANCEL, _) => return Ok(Delegated::None(Why::Cancelled)),
            (_, READ) if level >= Delegations::Read => false,
            (wish, BOTH) if level >= Delegations::Write && wish != WANT_READ => true,
            _ => return Ok(Delegated::None(Why::Resource)),
        };
        if !self.can_call(client) {
            return Ok(Delegated::None(Why::Resource));
        }
        let args =
            self.delegation_args(client, (target.export.config.id, file), is_write, false)?;
        self.grant(target, &args, false).await
    }

    /// The delegation that a client reclaims with CLAIM_PREVIOUS.
    pub(super) async fn reclaim_delegation(
        &self,
        target: &Target,
        file: &Attributes,
        kind: u32,
    ) -> Result<Delegated, Status> {
        let client = self.context.client()?;
        if !(DELEGATE_READ..=DELEGATE_WRITE).contains(&kind) {
            return Ok(Delegated::None(Why::NotWanted));
        }
        let args = self.delegation_args(
            client,
            (target.export.config.id, file),
            kind == DELEGATE_WRITE,
            true,
        )?;
        let is_recalled = !self.can_call(client);
        self.grant(target, &args, is_recalled).await
    }

    fn delegation_args(
        &self,
        client: u64,
        (export, file): (u32, &Attributes),
        is_write: bool,
        is_reclaim: bool,
    ) -> Result<DelegationArgs, Status> {
        Ok(DelegationArgs {
            client,
            file: file.handle,
            export,
            is_write,
            origin: self.context.request.ok_or(Status::OpNotInSession)?,
            change: file.change,
            is_reclaim,
        })
    }

    async fn grant(
        &self,
        target: &Target,
        args: &DelegationArgs,
        is_recalled: bool,
    ) -> Result<Delegated, Status> {
        let shared = self.context.shared;
        let held = target.files().open(&target.caller, args.file, Access::NONE);
        let hold = held.await.map_err(status_of)?;
        let granted = shared.states().delegate(args, hold, io::time::now());
        callback::recall_any(shared);
        Ok(match granted {
            Ok(stateid) => {
                shared.counters.delegations.fetch_add(1, Ordering::Relaxed);
                Delegated::Granted(Granted {
                    stateid,
                    is_write: args.is_write,
                    is_recalled,
                })
            }
            Err(why) => Delegated::None(why),
        })
    }

    /// DELEGRETURN (§18.6).
    pub(super) fn delegreturn(&mut self, stateid: &Stateid) -> Result<(), Status> {
        let target = self.context.target(Status::BadStateid)?;
        let stateid = self.context.stateid(stateid)?;
        let client = self.context.client()?;
        let mut states = self.context.shared.states();
        let returned = states.give_back(client, &stateid, target.handle);
        drop(states);
        returned.map(drop)
    }

    /// The attributes of a file as this client must see them, while another one has a write delegation (§10.4.3). Errors: `Delay`
    /// while that client is being asked.
    pub(super) async fn seen_attributes(
        &self,
        object: &Object,
        wanted: &Bitmap,
    ) -> Result<Option<Attributes>, Status> {
        let of_size = Bitmap::of(&[attribute::CHANGE, attribute::SIZE]);
        let Object::File(export, handle) = object else {
            return Ok(None);
        };
        let shared = self.context.shared;
        if shared.states().delegations() == 0 || wanted.and(&of_size).is_empty() {
            return Ok(None);
        }
        let client = self.context.client()?;
        let asked = shared.states().ask(*handle, client, io::time::now());
        let Some(asked) = asked else { return Ok(None) };
        let of = export
            .files()
            .attributes(*handle)
            .await
            .map_err(status_of)?;
        if let Asked::Ask(recall) = asked {
            let (owner, change) = (shared.clone(), of.change);
            let asking = io::spawn(async move { callback::ask(&owner, recall, change).await });
            let _ = io::timeout(ATTRIBUTES_WAIT, asking).await;
        }
        match shared.states().told_to(*handle, client, io::time::now()) {
            Some(Some((change, size))) => Ok(Some(Attributes { change, size, ..of })),
            Some(None) => Err(Status::Delay),
            // It was returned meanwhile.
            None => Ok(None),
        }
    }
}
