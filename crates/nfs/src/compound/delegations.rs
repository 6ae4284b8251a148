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
use crate::wire::{Bitmap, Stateid, Status};
use crate::xdr::{Writer, Xdr};
use backend::file::{Access, Attributes, Handle};
use filestate::{Asked, BOTH, DelegationArgs, HeldTimes, READ, Seen, Why};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long GETATTR waits for the holder of a write delegation before it ends with `Delay`.
const ATTRIBUTES_WAIT: Duration = Duration::from_millis(100);

/// `OPEN4_SHARE_ACCESS_WANT_…`: the wish for a kind of delegation.
const WISH_MASK: u32 = 0xff00;
const WANT_READ: u32 = 0x100;
const WANT_NONE: u32 = 0x400;
const WANT_CANCEL: u32 = 0x500;
/// `OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS` (RFC 9754, section 5).
pub(super) const WANT_TIMES: u32 = 0x10_0000;
/// `OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION` (RFC 9754, section 4).
pub(super) const WANT_ONE: u32 = 0x20_0000;
/// `open_delegation_type4`.
const DELEGATE_NONE: u32 = 0;
const DELEGATE_READ: u32 = 1;
const DELEGATE_WRITE: u32 = 2;
const DELEGATE_NONE_EXT: u32 = 3;
/// The kinds with times, of the kinds without them (RFC 9754, section 5).
const WITH_TIMES: u32 = 3;
/// `NFS_LIMIT_SIZE`.
const LIMIT_SIZE: u32 = 1;

/// A delegation that OPEN returns.
pub(super) struct Granted {
    pub(super) stateid: Stateid,
    is_write: bool,
    /// Whether the file's times are delegated, too.
    has_times: bool,
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
        let kind = match self.is_write {
            true => DELEGATE_WRITE,
            false => DELEGATE_READ,
        };
        out.u32(if self.has_times {
            kind + WITH_TIMES
        } else {
            kind
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
        self.has_back_channel(client, &[BackState::Working])
    }

    /// Whether a session of the client has a back channel in one of these states.
    fn has_back_channel(&self, client: u64, states: &[BackState]) -> bool {
        let sessions = self.context.shared.clients().sessions_of(client);
        sessions
            .iter()
            .any(|session| states.contains(&session.back().state()))
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
        let times = access & WANT_TIMES != 0;
        let args = self.delegation_args(client, (target, file), (is_write, times), false)?;
        self.grant(target, &args, false).await
    }

    /// The delegation that a client reclaims with CLAIM_PREVIOUS, for these access and wish bits. A client reclaims at once, often
    /// before it has answered the first call of its new back channel: such a channel counts as one. If it does not work, the next
    /// conflict takes the delegation away, as from any client that is silent.
    pub(super) async fn reclaim_delegation(
        &self,
        target: &Target,
        file: &Attributes,
        (kind, access): (u32, u32),
    ) -> Result<Delegated, Status> {
        const READ_TIMES: u32 = DELEGATE_READ + WITH_TIMES;
        const WRITE_TIMES: u32 = DELEGATE_WRITE + WITH_TIMES;
        let client = self.context.client()?;
        let wants_times = access & WANT_TIMES != 0;
        let kind = match kind {
            DELEGATE_READ => (false, wants_times),
            DELEGATE_WRITE => (true, wants_times),
            READ_TIMES if self.minor >= 2 => (false, true),
            WRITE_TIMES if self.minor >= 2 => (true, true),
            _ => return Ok(Delegated::None(Why::NotWanted)),
        };
        let args = self.delegation_args(client, (target, file), kind, true)?;
        let may_be_called = [BackState::Untried, BackState::Working];
        let is_recalled = !self.has_back_channel(client, &may_be_called);
        self.grant(target, &args, is_recalled).await
    }

    fn delegation_args(
        &self,
        client: u64,
        (target, file): (&Target, &Attributes),
        (is_write, has_times): (bool, bool),
        is_reclaim: bool,
    ) -> Result<DelegationArgs, Status> {
        Ok(DelegationArgs {
            client,
            file: file.handle,
            export: target.export.config.id,
            is_write,
            origin: self.context.request.ok_or(Status::OpNotInSession)?,
            change: file.change,
            is_reclaim,
            // Where nothing can be set, nobody holds times.
            held: (has_times && !target.is_read_only).then_some(HeldTimes {
                accessed: file.accessed,
                modified: file.modified,
            }),
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
        let granted = shared
            .states
            .of_file(args.file)
            .delegate(args, hold, io::time::now());
        callback::recall_any(shared);
        Ok(match granted {
            Ok(stateid) => {
                shared.counters.delegations.fetch_add(1, Ordering::Relaxed);
                Delegated::Granted(Granted {
                    stateid,
                    is_write: args.is_write,
                    has_times: args.held.is_some(),
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
        let mut states = self.context.shared.states.of_file(target.handle);
        let returned = states.give_back(client, &stateid, target.handle);
        drop(states);
        Ok(returned.map(drop)?)
    }

    /// The attributes of a file as this client must see them, while another one has a write delegation (§10.4.3). Errors: `Delay`
    /// while that client is being asked.
    pub(super) async fn seen_attributes(
        &self,
        object: &Object,
        wanted: &Bitmap,
    ) -> Result<Option<Attributes>, Status> {
        let of_data = Bitmap::of(&[attribute::CHANGE, attribute::SIZE]);
        let of_times = Bitmap::of(&[
            attribute::TIME_ACCESS,
            attribute::TIME_METADATA,
            attribute::TIME_MODIFY,
        ]);
        let is_only_times = wanted.and(&of_data).is_empty();
        let Object::File(export, handle) = object else {
            return Ok(None);
        };
        let shared = self.context.shared;
        if shared.states.delegations() == 0 || wanted.and(&of_data.or(&of_times)).is_empty() {
            return Ok(None);
        }
        let client = self.context.client()?;
        let now = io::time::now();
        let asked = shared
            .states
            .of_file(*handle)
            .ask(*handle, client, is_only_times, now);
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
        match shared
            .states
            .of_file(*handle)
            .told_to(*handle, client, io::time::now())
        {
            Some(Some(seen)) => Ok(Some(shown(&of, &seen))),
            Some(None) => Err(Status::Delay),
            // It was returned meanwhile.
            None => Ok(None),
        }
    }
}

/// Attributes of a file, replaced by the ones that the holder of a write delegation told. The last change follows the modification.
fn shown(of: &Attributes, seen: &Seen) -> Attributes {
    let modified = seen.times.modified;
    Attributes {
        change: seen.change,
        size: seen.size,
        accessed: seen.times.accessed.unwrap_or(of.accessed),
        modified: modified.unwrap_or(of.modified),
        changed: modified.map_or(of.changed, |time| time.max(of.changed)),
        ..*of
    }
}
