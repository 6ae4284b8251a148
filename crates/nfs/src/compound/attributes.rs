//! Attributes and permissions (§18.1, §18.7, §18.15, §18.30, §18.31).

use super::context::{Compound, Object, Target};
use super::status::status_of;
use super::xattr::XATTR_ACCESS;
use crate::access;
use crate::attribute::{self, Facts, NewAttributes, Of};
use crate::identity::Names;
use crate::shared::{Changing, wall_clock};
use crate::wire::{Attrs, Bitmap, Stateid, Status};
use crate::xdr::{Writer, Xdr};
use backend::file::permission::{AclRules, Permissions, check_read_acl};
use backend::file::{
    Acl, Attributes, Caller, FileError, FileKind, FileLimits, SetAttributes, SetTime, Stability,
    Who,
};
use filestate::ReportedTimes;

/// Limits that the attributes of the pseudo file system show.
const PSEUDO_LIMITS: FileLimits = FileLimits {
    links_max: 1,
    record_size: 4096,
    is_case_insensitive: false,
    is_read_only: true,
    has_acls: false,
    acl_rules: AclRules::STANDARD,
};

impl Compound<'_> {
    /// Writes the attributes of an object. `known` saves a question to the file system.
    pub(super) async fn write_attributes(
        &self,
        object: &Object,
        known: Option<&Attributes>,
        wanted: &Bitmap,
        writer: &mut Writer,
    ) -> Result<(), Status> {
        let context = &self.context;
        context.check_security(object)?;
        let handle = context.handle(object);
        let lease_s = context.shared.config.lease.as_secs() as u32;
        let numbers = Names::default();
        let (export, of) = match object {
            Object::Pseudo(id) => {
                let facts = Facts {
                    of: Of::Pseudo(*id, context.tree.change),
                    handle: &handle,
                    fsid: (0, 0),
                    mounted_on: *id,
                    limits: &PSEUDO_LIMITS,
                    space: None,
                    lease_s,
                    minor: self.minor,
                    acl: None,
                    names: &numbers,
                };
                attribute::encode(wanted, &facts, writer);
                return Ok(());
            }
            Object::File(export, handle) => match known {
                Some(known) => (export, *known),
                None => {
                    let of = export.files().attributes(*handle).await;
                    (export, of.map_err(status_of)?)
                }
            },
        };
        let space = match wanted.and(&attribute::OF_SPACE).is_empty() {
            true => None,
            false => {
                // The space that an ordinary user can use.
                let caller = Caller::new(u32::MAX, u32::MAX, []);
                let space = export.files().space(&caller).await;
                Some(space.map_err(status_of)?)
            }
        };
        let acl = self.list_to_show(object, &of, wanted).await?;
        let names = self.names_to_show(&of, acl.as_ref(), wanted).await;
        let is_root = of.handle == export.files().root();
        let facts = Facts {
            of: Of::File(&of),
            handle: &handle,
            fsid: (u64::from(export.config.id) + 1, of.handle.filesystem),
            mounted_on: if is_root {
                export.node
            } else {
                of.handle.object
            },
            limits: &export.files().limits(),
            space,
            lease_s,
            minor: self.minor,
            acl: acl.as_ref(),
            names: &names,
        };
        attribute::encode(wanted, &facts, writer);
        Ok(())
    }

    /// The access control list, if it is wanted (§6.2.1.3.1: with `ACE4_READ_ACL` only). Errors: `Access`.
    async fn list_to_show(
        &self,
        object: &Object,
        of: &Attributes,
        wanted: &Bitmap,
    ) -> Result<Option<Acl>, Status> {
        if wanted.and(&attribute::OF_ACL).is_empty() {
            return Ok(None);
        }
        let target = self.context.target_of(Some(object), Status::Inval)?;
        if !target.files().limits().has_acls {
            return Ok(None);
        }
        let acl = target.files().acl(of.handle).await.map_err(status_of)?;
        let permissions = Permissions::new(of, acl.as_ref());
        check_read_acl(&target.caller, &permissions).map_err(status_of)?;
        Ok(acl)
    }

    /// Names of the users and groups of an object, if they are wanted.
    async fn names_to_show(&self, of: &Attributes, acl: Option<&Acl>, wanted: &Bitmap) -> Names {
        if wanted.and(&attribute::OF_PRINCIPALS).is_empty() {
            return Names::default();
        }
        let all = || acl.into_iter().flat_map(attribute::principals);
        let users = all().filter_map(|who| match who {
            Who::User(uid) => Some(*uid),
            _ => None,
        });
        let groups = all().filter_map(|who| match who {
            Who::Group(gid) => Some(*gid),
            _ => None,
        });
        let identity = &self.context.shared.identity;
        let users = std::iter::once(of.uid).chain(users);
        let groups = std::iter::once(of.gid).chain(groups);
        identity.names(users, groups).await
    }

    /// GETATTR (§18.7).
    pub(super) async fn getattr(&mut self, wanted: &Bitmap) -> Result<(), Status> {
        let object = self.context.current()?.clone();
        if !wanted.and(&attribute::WRITE_ONLY).is_empty() {
            return Err(Status::Inval);
        }
        let seen = self.seen_attributes(&object, wanted).await?;
        let mut writer = Writer::new();
        self.write_attributes(&object, seen.as_ref(), wanted, &mut writer)
            .await?;
        self.out.fixed(&writer.to_vec());
        Ok(())
    }

    /// VERIFY (§18.31) and NVERIFY (§18.15): fails with `NotSame` and `Same`.
    pub(super) async fn verify(&mut self, attrs: &Attrs<'_>, fails: Status) -> Result<(), Status> {
        let object = self.context.current()?.clone();
        if !attrs.mask.is_within(&attribute::supported(self.minor)) {
            return Err(Status::Attrnotsupp);
        }
        let is_unfit = attrs.mask.has(attribute::RDATTR_ERROR)
            || !attrs.mask.and(&attribute::WRITE_ONLY).is_empty();
        if is_unfit {
            return Err(Status::Inval);
        }
        let (mut now, mut given) = (Writer::new(), Writer::new());
        let seen = self.seen_attributes(&object, &attrs.mask).await?;
        self.write_attributes(&object, seen.as_ref(), &attrs.mask, &mut now)
            .await?;
        attrs.encode(&mut given);
        match (now.to_vec() == given.to_vec()) == (fails == Status::Same) {
            true => Err(fails),
            false => Ok(()),
        }
    }

    /// SETATTR (§18.30).
    pub(super) async fn setattr(
        &mut self,
        stateid: &Stateid,
        attrs: &Attrs<'_>,
    ) -> Result<(), Status> {
        let target = self.context.target(Status::Rofs)?.writable()?;
        if attrs.mask.has(attribute::MODE_UMASK) {
            // RFC 8275, section 4.1: only a creation has an umask.
            return Err(Status::Inval);
        }
        let mut new = self.decoded(attrs).await?;
        if new.held != ReportedTimes::default() {
            self.set_held_times(&target, stateid, new.held).await?;
            if new.mask.is_within(&attribute::HELD_TIMES) {
                new.mask.encode(&mut self.out);
                return Ok(());
            }
            self.context.partly_set = new.mask.and(&attribute::HELD_TIMES);
        }
        // A symbolic link has no permissions: its mode is ignored, as by other servers, and everything else is set.
        if new.set.mode.is_some() {
            let of = target.files().attributes(target.handle).await;
            if of.map_err(status_of)?.kind == FileKind::Symlink {
                new.set.mode = None;
                new.mask.remove(attribute::MODE);
            }
        }
        let _changing = self.changing_attributes(&target, stateid, new.set.size.is_some())?;
        if new.acl.is_none() || new.set != SetAttributes::default() {
            let done = target.files().set_attributes(
                &target.caller,
                target.handle,
                new.set,
                Stability::Durable,
            );
            done.await.map_err(status_of)?;
        }
        // §6.4.1.3: the mode first, then the list, which may change the mode.
        if let Some(acl) = new.acl {
            self.context.partly_set = new.mask.without(&attribute::OF_ACL);
            let done = target.files().set_acl(
                &target.caller,
                target.handle,
                Some(acl),
                Stability::Durable,
            );
            done.await.map_err(|error| match error {
                FileError::Unsupported => Status::Attrnotsupp,
                other => status_of(other),
            })?;
        }
        self.context.partly_set = Bitmap::default();
        new.mask.encode(&mut self.out);
        Ok(())
    }

    /// A change of attributes begins. In the grace period, only a client with an open for writing or a write delegation, which it
    /// reclaimed, may change attributes. Errors: `Grace`, `Delay`; of a size, those of a stateid.
    fn changing_attributes(
        &self,
        target: &Target,
        stateid: &Stateid,
        is_of_size: bool,
    ) -> Result<Changing, Status> {
        let stateid = self.context.stateid(stateid);
        let checked = stateid.and_then(|stateid| {
            self.check_io(&stateid, target.handle, true)?;
            Ok(!stateid.is_special())
        });
        let is_held = match is_of_size {
            true => checked?,
            false => checked.unwrap_or(false),
        };
        match is_held {
            true => self.context.changing_held(target.handle),
            false => self.context.changing(target.handle),
        }
    }

    /// Sets times that the client kept under a delegation (RFC 9754, section 5). Nobody else's delegation is recalled: a write delegation
    /// is the only one, and an access changes nothing that is delegated for reading. Errors: those of the stateid, which must be
    /// of such a delegation.
    async fn set_held_times(
        &self,
        target: &Target,
        stateid: &Stateid,
        reported: ReportedTimes,
    ) -> Result<(), Status> {
        let (client, shared) = (self.context.client()?, self.context.shared);
        let stateid = self.context.stateid(stateid)?;
        let by = (client, &stateid, target.handle);
        let accepted =
            shared
                .states
                .of_file(target.handle)
                .check_held(by, reported, wall_clock())?;
        let held = |time: Option<_>| time.map_or(SetTime::Keep, SetTime::Held);
        let set = SetAttributes {
            accessed: held(accepted.accessed),
            modified: held(accepted.modified),
            ..SetAttributes::default()
        };
        // The delegation is the permission: a user that may only read moves the access time, too.
        let files = target.files();
        let done = files.set_attributes(&Caller::root(), target.handle, set, Stability::Durable);
        done.await.map_err(status_of)?;
        shared
            .states
            .of_file(target.handle)
            .set_held(client, &stateid, accepted);
        Ok(())
    }

    async fn decoded(&self, attrs: &Attrs<'_>) -> Result<NewAttributes, Status> {
        attribute::decode(attrs, self.minor, &self.context.shared.identity).await
    }

    /// Reads the attributes of a new object. Errors: `Inval` for times that only the holder of a delegation has.
    pub(super) async fn new_attributes(&self, attrs: &Attrs<'_>) -> Result<NewAttributes, Status> {
        let new = self.decoded(attrs).await?;
        match new.held == ReportedTimes::default() {
            true => Ok(new),
            false => Err(Status::Inval),
        }
    }

    /// ACCESS (§18.1).
    pub(super) async fn access(&mut self, wanted: u32) -> Result<(), Status> {
        let (mut supported, mut granted) = match self.context.current()? {
            Object::Pseudo(_) => {
                let reads = access::READ | access::LOOKUP;
                (reads | access::WRITES, reads)
            }
            Object::File(..) => {
                let target = self.context.target(Status::Notdir)?;
                access::granted(&target).await.map_err(status_of)?
            }
        };
        let of_xattrs = wanted & XATTR_ACCESS != 0 && self.minor >= 2;
        if of_xattrs && let Ok(target) = self.context.target(Status::Notdir) {
            let more = self.xattr_access(&target).await?;
            supported |= more.0;
            granted |= more.1;
        }
        self.out.u32(wanted & supported);
        self.out.u32(wanted & granted);
        Ok(())
    }
}
