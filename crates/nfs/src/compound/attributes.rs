//! Attributes and permissions (§18.1, §18.7, §18.15, §18.30, §18.31).

use super::context::Compound;
use super::context::Object;
use super::status::status_of;
use crate::attribute::{self, Facts, Of};
use crate::wire::{Attrs, Bitmap, Stateid, Status};
use crate::xdr::Writer;
use backend::file::{Access, Attributes, Caller, FileKind, FileLimits, Stability};

/// Limits that the attributes of the pseudo file system show.
const PSEUDO_LIMITS: FileLimits = FileLimits {
    links_max: 1,
    record_size: 4096,
    is_case_insensitive: false,
    is_read_only: true,
    has_acls: false,
};

const READ: u32 = 1;
const LOOKUP: u32 = 2;
const MODIFY: u32 = 4;
const EXTEND: u32 = 8;
const DELETE: u32 = 16;
const EXECUTE: u32 = 32;

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
        let handle = context.handle(object);
        let lease_s = context.shared.config.lease.as_secs() as u32;
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
        };
        attribute::encode(wanted, &facts, writer);
        Ok(())
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
        if !attrs.mask.is_within(&attribute::SUPPORTED) {
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
        let new = attribute::decode(attrs)?;
        if new.set.size.is_some() {
            let stateid = self.context.stateid(stateid)?;
            self.check_io(&stateid, target.handle, true)?;
        }
        let _changing = self.context.changing(target.handle)?;
        let done = target.files().set_attributes(
            &target.caller,
            target.handle,
            new.set,
            Stability::Durable,
        );
        done.await.map_err(status_of)?;
        new.mask.encode(&mut self.out);
        Ok(())
    }

    /// ACCESS (§18.1).
    pub(super) async fn access(&mut self, wanted: u32) -> Result<(), Status> {
        let (supported, granted) = match self.context.current()? {
            Object::Pseudo(_) => (READ | LOOKUP | MODIFY | EXTEND | DELETE, READ | LOOKUP),
            Object::File(..) => self.access_of_file().await?,
        };
        self.out.u32(wanted & supported);
        self.out.u32(wanted & granted);
        Ok(())
    }

    async fn access_of_file(&self) -> Result<(u32, u32), Status> {
        let target = self.context.target(Status::Notdir)?;
        let files = target.files();
        let of = files.attributes(target.handle).await.map_err(status_of)?;
        let all = Access::READ | Access::WRITE | Access::EXECUTE;
        let has = files.access(&target.caller, target.handle, all).await;
        let has = has.map_err(status_of)?;
        let (read, write, execute) = match of.kind {
            FileKind::Directory => (READ, MODIFY | EXTEND | DELETE, LOOKUP),
            _ => (READ, MODIFY | EXTEND, EXECUTE),
        };
        let may_write = !target.is_read_only && !files.limits().is_read_only;
        let granted = [
            (Access::READ, read, true),
            (Access::WRITE, write, may_write),
            (Access::EXECUTE, execute, true),
        ];
        let granted = granted
            .into_iter()
            .filter(|(kind, _, may)| *may && has.has(*kind))
            .fold(0, |bits, (_, more, _)| bits | more);
        Ok((read | write | execute, granted))
    }
}
