//! OPEN, CLOSE, OPEN_DOWNGRADE (§18.2, §18.16, §18.18), and FREE_STATEID, TEST_STATEID (§18.38, §18.48).
//!
//! **Invariants**: permission is checked by the file system before the open is entered; a share reservation of a client whose
//! lease has expired refuses nobody.

use super::context::{Compound, Object, Target};
use super::delegations::{Delegated, WANT_ONE, WANT_TIMES};
use super::status::{check_file, name, status_of};
use crate::access;
use crate::attribute::{self, NewAttributes};
use crate::wire::files::{Claim, CreateHow, Open};
use crate::wire::{Attrs, Bitmap, Stateid, Status};
use crate::xdr::Xdr;
use backend::file::{
    Access, Attributes, Change, FileKind, Handle, Hold, IfExists, NewFile, NewKind, SetAttributes,
    Stability,
};
use filestate::{BOTH, OpenArgs, OpenBefore, READ, Refused, WRITE, Why};

/// The bits of `share_access` that are no wish about delegations.
const ACCESS_BITS: u32 = 0xff;
/// The wishes that exist (§18.16.3).
const WISHES: u32 = 0x0003_ff00;
/// The wishes of RFC 9754, in minor version 2.
const LATER_WISHES: u32 = WANT_TIMES | WANT_ONE;
/// `OPEN4_RESULT_LOCKTYPE_POSIX`.
const LOCKTYPE_POSIX: u32 = 4;
/// `OPEN4_RESULT_MAY_NOTIFY_LOCK`.
const MAY_NOTIFY_LOCK: u32 = 32;
/// `OPEN4_RESULT_NO_OPEN_STATEID` (RFC 9754, section 4).
const NO_OPEN_STATEID: u32 = 16;
/// Mode of a new file whose creation names none.
const FILE_MODE: u16 = 0o600;

/// The file of an OPEN.
struct Found {
    of: Attributes,
    is_new: bool,
    directory: Option<Change>,
    /// Attributes that were set.
    set: Bitmap,
    /// The size to which an existing file is set.
    truncate: Option<u64>,
}

impl Compound<'_> {
    /// OPEN (§18.16).
    pub(super) async fn open(&mut self, args: &Open<'_>) -> Result<(), Status> {
        let client = self.context.client()?;
        let access = args.access & ACCESS_BITS;
        let wishes = match self.minor {
            0 | 1 => WISHES,
            _ => WISHES | LATER_WISHES,
        };
        let is_unknown = args.access & !(ACCESS_BITS | wishes) != 0;
        if is_unknown || !(READ..=BOTH).contains(&access) || args.deny > BOTH {
            return Err(Status::Inval);
        }
        self.check_claim(client, &args.claim)?;
        let target = self.context.target(Status::Isdir)?;
        if target.is_read_only && access & WRITE != 0 {
            return Err(Status::Rofs);
        }
        let mut found = match target.is_read_only && args.create.is_some() {
            true => self.found_read_only(&target, args).await?,
            false => self.found(client, &target, args).await?,
        };
        check_file(found.of.kind)?;
        let hold = self.hold(&target, &found, access).await?;
        let open = OpenArgs {
            client,
            owner: args.owner.name,
            file: found.of.handle,
            access,
            deny: args.deny,
            truncates: found.truncate.is_some(),
        };
        // An open for reading that truncates does not keep read delegations of others away.
        let changing = found.truncate.map(|_| self.context.changing(open.file));
        let changing = changing.transpose()?;
        let wants_one = args.access & WANT_ONE != 0;
        let (stateid, before) = self.enter(&open, hold)?;
        if let Some(size) = found.truncate {
            match self.truncate(&target, found.of.handle, size).await {
                Ok(of) => found.of = of,
                Err(status) => {
                    self.take_back(&open, before);
                    return Err(status);
                }
            }
        }
        drop(changing);
        self.context.granted().await?;
        let delegated = match args.claim {
            Claim::Previous(kind) => {
                let kind = (kind, args.access);
                self.reclaim_delegation(&target, &found.of, kind).await?
            }
            // A delegation does not keep what the reservation keeps.
            Claim::Name(_) | Claim::Handle if wants_one && args.deny != 0 => {
                Delegated::None(Why::Resource)
            }
            Claim::Name(_) | Claim::Handle => {
                self.delegate(&target, &found.of, args.access).await?
            }
            _ => Delegated::None(Why::NotWanted),
        };
        self.context
            .set_current(Object::File(target.export.clone(), found.of.handle));
        let only = match &delegated {
            Delegated::Granted(granted) if wants_one => Some(granted.stateid),
            Delegated::Granted(_) | Delegated::None(_) => None,
        };
        if only.is_some() {
            self.take_back(&open, before);
        }
        self.context.current_stateid = only.or(Some(stateid));
        self.write_open((only.is_none()).then_some(&stateid), &found);
        delegated.encode(args.access, &mut self.out);
        Ok(())
    }

    /// The file of an OPEN. Errors: `Notsupp` for delegations of an earlier incarnation of the client, which are not kept; those of
    /// a stateid for a delegation that the client does not hold.
    async fn found(&self, client: u64, target: &Target, args: &Open<'_>) -> Result<Found, Status> {
        let found = match (&args.claim, &args.create) {
            (Claim::DelegatePrevious(_) | Claim::DelegatePreviousHandle, _) => {
                return Err(Status::Notsupp);
            }
            (Claim::Name(bytes), Some(how)) => self.created(target, bytes, how).await?,
            (_, Some(_)) => return Err(Status::Inval),
            (Claim::Name(bytes) | Claim::DelegateCurrent(_, bytes), None) => {
                self.existing(target, bytes).await?
            }
            (Claim::Handle | Claim::Previous(_) | Claim::DelegateCurrentHandle(_), None) => {
                self.current_file(target).await?
            }
        };
        if let Claim::DelegateCurrent(stateid, _) | Claim::DelegateCurrentHandle(stateid) =
            &args.claim
        {
            let stateid = self.context.stateid(stateid)?;
            let mut states = self.context.shared.states.of_file(found.of.handle);
            states.check_delegation(client, &stateid, found.of.handle)?;
            states.note_progress(found.of.handle, client);
        }
        Ok(found)
    }

    /// The file of an OPEN that may create, where nothing can be created: one that exists and stays as it is can be opened for
    /// reading, as with open(2). Errors: `Rofs`.
    async fn found_read_only(&self, target: &Target, args: &Open<'_>) -> Result<Found, Status> {
        let (Claim::Name(bytes), Some(CreateHow::Unchecked(attrs))) = (&args.claim, &args.create)
        else {
            return Err(Status::Rofs);
        };
        match self.existing(target, bytes).await {
            Err(Status::Noent) => Err(Status::Rofs),
            Ok(_) if attrs.mask.has(attribute::SIZE) => Err(Status::Rofs),
            found => found,
        }
    }

    async fn truncate(
        &self,
        target: &Target,
        file: Handle,
        size: u64,
    ) -> Result<Attributes, Status> {
        let set = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let files = target.files();
        let done = files.set_attributes(&target.caller, file, set, Stability::Durable);
        done.await.map(|done| done.value.after).map_err(status_of)
    }

    /// Writes the result of OPEN up to the delegation. Without a stateid, there is only a delegation.
    fn write_open(&mut self, stateid: Option<&Stateid>, found: &Found) {
        stateid.unwrap_or(&Stateid::ANONYMOUS).encode(&mut self.out);
        match &found.directory {
            Some(change) => self.write_change(change),
            None => {
                self.out.bool(false);
                self.out.u64(0);
                self.out.u64(0);
            }
        }
        let is_told = self.context.client().is_ok_and(|c| self.can_call(c));
        let may_notify = if is_told { MAY_NOTIFY_LOCK } else { 0 };
        let no_stateid = if stateid.is_none() {
            NO_OPEN_STATEID
        } else {
            0
        };
        self.out.u32(LOCKTYPE_POSIX | may_notify | no_stateid);
        found.set.encode(&mut self.out);
    }

    /// The rules about the grace period (§8.4.2, §18.51.3). Errors: `Grace`, `NoGrace`, `ReclaimBad`.
    fn check_claim(&self, client: u64, claim: &Claim<'_>) -> Result<(), Status> {
        let context = &self.context;
        let has_reclaimed = context.session.as_ref().is_some_and(|s| s.has_reclaimed());
        match claim {
            Claim::Name(_) | Claim::Handle if context.is_grace() || !has_reclaimed => {
                Err(Status::Grace)
            }
            Claim::Name(_) | Claim::Handle => Ok(()),
            Claim::Previous(_) if has_reclaimed => Err(Status::NoGrace),
            Claim::Previous(_) => self.check_reclaim(client),
            // The client holds the delegation: nobody else can reclaim anything that conflicts.
            _ => Ok(()),
        }
    }

    /// Whether the client may reclaim state. Errors: `NoGrace`, `ReclaimBad`.
    pub(super) fn check_reclaim(&self, client: u64) -> Result<(), Status> {
        let shared = self.context.shared;
        let now = io::time::now();
        let owner = shared.clients().owner(client).map(<[u8]>::to_vec);
        let owner = owner.ok_or(Status::Badsession)?;
        let grace = shared.grace();
        match (grace.is_active(now), grace.may_reclaim(&owner, now)) {
            (_, true) => Ok(()),
            (true, false) => Err(Status::ReclaimBad),
            (false, false) => Err(Status::NoGrace),
        }
    }

    async fn current_file(&self, target: &Target) -> Result<Found, Status> {
        let of = target.files().attributes(target.handle).await;
        Ok(Found {
            of: of.map_err(status_of)?,
            is_new: false,
            directory: None,
            set: Bitmap::default(),
            truncate: None,
        })
    }

    async fn existing(&self, target: &Target, bytes: &[u8]) -> Result<Found, Status> {
        match self.find(bytes).await? {
            Object::Pseudo(_) => Err(Status::Isdir),
            Object::File(export, _) if export.config.id != target.export.config.id => {
                Err(Status::Isdir)
            }
            Object::File(_, handle) => {
                let of = target.files().attributes(handle).await;
                let of = of.map_err(status_of)?;
                let directory = target.files().attributes(target.handle).await;
                let directory = directory.map_err(status_of)?;
                Ok(Found {
                    of,
                    is_new: false,
                    directory: Some(Change {
                        before: directory,
                        after: directory,
                    }),
                    set: Bitmap::default(),
                    truncate: None,
                })
            }
        }
    }

    async fn created(
        &self,
        target: &Target,
        bytes: &[u8],
        how: &CreateHow<'_>,
    ) -> Result<Found, Status> {
        let entry = name(bytes)?;
        self.check_mount_point(target, bytes)?;
        let none = Attrs {
            mask: Bitmap::default(),
            values: &[],
        };
        let (attrs, if_exists) = match how {
            CreateHow::Unchecked(attrs) => (*attrs, IfExists::Open),
            CreateHow::Guarded(attrs) => (*attrs, IfExists::Fail),
            CreateHow::Exclusive(verifier) => (none, verifier_of(verifier)),
            CreateHow::Exclusive41(verifier, attrs) => {
                // §18.16.3.
                if attrs.mask.is_within(&attribute::supported(self.minor))
                    && !attrs.mask.is_within(&attribute::EXCLUSIVE)
                {
                    return Err(Status::Inval);
                }
                (*attrs, verifier_of(verifier))
            }
        };
        let new = self.new_attributes(&attrs).await?;
        let (mode, umask) = new.first_mode(FILE_MODE);
        let file = NewFile {
            kind: NewKind::File,
            mode,
            umask,
            acl: new.acl.clone(),
        };
        let done = target.files().create(
            &target.caller,
            target.handle,
            &entry,
            file,
            if_exists,
            Stability::Durable,
        );
        let created = match self.done_in(target, done.await).await {
            // §18.16.3: an existing object that is no file is named by its kind.
            Err(Status::Exist) if if_exists == IfExists::Open => {
                return self.existing(target, bytes).await;
            }
            other => other?,
        };
        let (mut set, mut truncate) = (Bitmap::default(), None);
        let handle = created.object.handle;
        // A repeated exclusive creation may be one of before a crash, which came before the attributes.
        let is_repeated = !created.is_new && matches!(if_exists, IfExists::SameVerifier(_));
        if created.is_new || is_repeated {
            let by = (self.context.shared, Some(self.context.client()?));
            let finished = access::finish_creation(by, target, handle, new.set, FileKind::File);
            finished.await.map_err(status_of)?;
            set = new.mask;
        } else if let NewAttributes {
            set: SetAttributes { size: Some(0), .. },
            ..
        } = new
        {
            // §18.16.3: of an existing file, only truncation to zero is done.
            truncate = Some(0);
            set = Bitmap::of(&[attribute::SIZE]);
        }
        Ok(Found {
            of: created.object,
            is_new: created.is_new,
            directory: Some(created.directory),
            set,
            truncate,
        })
    }

    /// Asks the file system for permission, and keeps the file. The creator of a file may open it for everything.
    async fn hold(&self, target: &Target, found: &Found, access: u32) -> Result<Hold, Status> {
        let mut wanted = Access::NONE;
        if access & READ != 0 && !found.is_new {
            wanted = wanted | Access::READ;
        }
        if access & WRITE != 0 && !found.is_new {
            wanted = wanted | Access::WRITE;
        }
        let files = target.files();
        let held = files.open(&target.caller, found.of.handle, wanted).await;
        match held {
            // Programs are read to be executed.
            Err(backend::file::FileError::Access) if wanted == Access::READ => {
                let held = files.open(&target.caller, found.of.handle, Access::EXECUTE);
                held.await.map_err(status_of)
            }
            held => held.map_err(status_of),
        }
    }

    /// Takes back an open whose stateid the client does not get.
    fn take_back(&self, open: &OpenArgs<'_>, before: OpenBefore) {
        let states = &self.context.shared.states;
        let hold = states.of_file(open.file).undo_open(open, before);
        // without the lock of the states
        drop(hold);
    }

    /// Enters an open. An expired client whose share reservation is in the way loses its state. Returns the stateid, and the open
    /// of this owner before, for [`filestate::Table::undo_open`]. Errors: `ShareDenied`; `Delay` while delegations are recalled;
    /// `Serverfault` at a limit.
    fn enter(&self, args: &OpenArgs<'_>, hold: Hold) -> Result<(Stateid, OpenBefore), Status> {
        let shared = self.context.shared;
        let mut hold = Some(hold);
        loop {
            let refused = {
                let mut states = shared.states.of_file(args.file);
                let before = states.open_before(args);
                match states.open(args, &mut hold) {
                    Ok(stateid) => return Ok((stateid, before)),
                    Err(refused) => refused,
                }
            };
            match refused {
                Refused::Share(client) if shared.expire(client, io::time::now()) => {}
                Refused::Share(_) | Refused::Lock(_) => return Err(Status::ShareDenied),
                Refused::Delegation => {
                    shared.recall(args.file, Some(args.client), args.is_change());
                    return Err(Status::Delay);
                }
                Refused::Full(file) if shared.make_state_room(file) => {}
                Refused::Full(_) => return Err(Status::Serverfault),
                Refused::State(error) => return Err(error.into()),
            }
        }
    }

    /// CLOSE (§18.2).
    pub(super) fn close(&mut self, stateid: &Stateid) -> Result<(), Status> {
        let target = self.context.target(Status::BadStateid)?;
        let stateid = self.context.stateid(stateid)?;
        let client = self.context.client()?;
        let closed = self.context.shared.states.of_file(target.handle).close(
            client,
            &stateid,
            target.handle,
        );
        drop(closed.map_err(plain)?);
        self.context.current_stateid = Some(Stateid::INVALID);
        Stateid::INVALID.encode(&mut self.out);
        Ok(())
    }

    /// OPEN_DOWNGRADE (§18.18).
    pub(super) fn open_downgrade(
        &mut self,
        stateid: &Stateid,
        access: u32,
        deny: u32,
    ) -> Result<(), Status> {
        let target = self.context.target(Status::BadStateid)?;
        let stateid = self.context.stateid(stateid)?;
        let client = self.context.client()?;
        let share = (access & ACCESS_BITS, deny);
        if !(READ..=BOTH).contains(&share.0) || deny > BOTH {
            return Err(Status::Inval);
        }
        let mut states = self.context.shared.states.of_file(target.handle);
        let changed = states.downgrade(client, &stateid, target.handle, share);
        drop(states);
        let changed = changed.map_err(plain)?;
        self.context.current_stateid = Some(changed);
        changed.encode(&mut self.out);
        Ok(())
    }

    /// TEST_STATEID (§18.48).
    pub(super) fn test_stateid(&mut self, all: &[Stateid]) -> Result<(), Status> {
        let client = self.context.client()?;
        let states = &self.context.shared.states;
        self.out.count(all.len());
        for stateid in all {
            let status = states
                .test(client, stateid)
                .err()
                .map_or(Status::Ok, Status::from);
            self.out.u32(status.code());
        }
        Ok(())
    }

    /// FREE_STATEID (§18.38).
    pub(super) fn free_stateid(&mut self, stateid: &Stateid) -> Result<(), Status> {
        let client = self.context.client()?;
        let stateid = self.context.stateid(stateid)?;
        let shared = self.context.shared;
        let freed = shared.states.of_stateid(&stateid).free(client, &stateid);
        freed.map_err(plain)?;
        shared.show_revoked(client);
        Ok(())
    }
}

fn verifier_of(verifier: &[u8; 8]) -> IfExists {
    IfExists::SameVerifier(u64::from_be_bytes(*verifier))
}

/// The status of a refusal without a conflict.
pub(super) fn plain(refused: Refused) -> Status {
    match refused {
        Refused::State(error) => error.into(),
        Refused::Share(_) => Status::Locked,
        Refused::Lock(_) => Status::Denied,
        Refused::Delegation => Status::Delay,
        // No status of this minor version names a limit; `Delay` would have clients ask for ever.
        Refused::Full(_) => Status::Serverfault,
    }
}
