//! Operations on attributes: modes, owners, sizes, times, extended attributes, access control lists.
//!
//! **Owns** their order in memory: checks, memory, then the change as one step. **Called by** [`super::MemoryFiles`].
//! **Invariants**: an operation that fails has changed nothing; the mode of an object with a list is that of the list.

use super::object::{acl_cost, xattr_cost};
use super::state::{FilesInMemory, now};
use crate::file::permission::{
    Settled, check_acl, check_get_xattr, check_set, check_set_xattr, is_xattr_visible,
};
use crate::file::{
    Acl, Attributes, Caller, Change, Event, FileError, FileResult, Handle, SetAttributes, SetTime,
    SetXattr, XATTR_NAMES_MAX,
};

impl FilesInMemory {
    pub(super) fn set_attributes(
        &mut self,
        caller: &Caller,
        of: Handle,
        set: &SetAttributes,
    ) -> FileResult<Change> {
        let number = self.number(of)?;
        let before = self.attributes(number);
        if set.guard.is_some_and(|guard| guard != before.changed) {
            return Err(FileError::Guard);
        }
        let unguarded = SetAttributes {
            guard: None,
            ..*set
        };
        if unguarded == SetAttributes::default() {
            return Ok(self.change(before));
        }
        let settled = check_set(caller, &self.get(number).permissions(), set)?;
        self.fit_acl(number, &before, set, &settled)?;
        if let Some(size) = set.size {
            self.set_size(number, size);
        }

        let time = now();
        let object = self.get_mut(number);
        object.attributes.mode = settled.mode;
        object.attributes.uid = settled.uid;
        object.attributes.gid = settled.gid;
        match (set.size, set.modified) {
            (Some(_), _) => object.set_modified(time),
            (None, SetTime::Held(at)) if set.is_only_held() => {
                object.set_changed(at.max(before.changed));
            }
            (None, _) if set.is_only_held() => {}
            (None, _) => object.set_changed(time),
        }
        let of = &mut object.attributes;
        of.accessed = set.accessed.after(of.accessed, time);
        of.modified = set.modified.after(of.modified, time);
        of.created = set.created.unwrap_or(of.created);
        if set.accessed != SetTime::Keep || set.modified != SetTime::Keep {
            object.verifier = None;
        }
        if set.size.is_some() {
            self.notify(number, |name, object| Event::Contents { name, object });
        }
        let only_size = SetAttributes {
            size: set.size,
            ..SetAttributes::default()
        };
        if unguarded != only_size {
            self.notify(number, |name, object| Event::Attributes { name, object });
        }
        Ok(self.change(before))
    }

    /// Changes the list by the rule for new permission bits. Errors: `NotOwner`, `TooLarge`, `NoSpace`.
    fn fit_acl(
        &mut self,
        number: u64,
        before: &Attributes,
        set: &SetAttributes,
        settled: &Settled,
    ) -> FileResult<()> {
        let rule = self.options.acl_rules.on_chmod;
        if let Some(acl) = &self.get(number).acl {
            let modes = (before.mode, settled.mode);
            let new = acl.after_set(modes, set.mode.is_some(), rule)?;
            let old = acl_cost(Some(acl));
            self.recharge(old, acl_cost(new.as_ref()))?;
            self.get_mut(number).acl = new;
        }
        Ok(())
    }

    /// Notes a change of attributes, and tells the watches.
    fn finish(&mut self, before: Attributes) -> Change {
        let number = before.handle.object;
        self.get_mut(number).set_changed(now());
        self.notify(number, |name, object| Event::Attributes { name, object });
        self.change(before)
    }

    pub(super) fn acl(&self, of: Handle) -> FileResult<Option<Acl>> {
        Ok(self.get(self.number(of)?).acl.clone())
    }

    pub(super) fn set_acl(
        &mut self,
        caller: &Caller,
        of: Handle,
        acl: Option<Acl>,
    ) -> FileResult<Change> {
        let number = self.number(of)?;
        let object = self.get(number);
        let before = object.attributes;
        let mode = check_acl(caller, &object.permissions(), acl.as_ref())?;
        let old = acl_cost(object.acl.as_ref());
        self.recharge(old, acl_cost(acl.as_ref()))?;
        let object = self.get_mut(number);
        object.attributes.mode = mode;
        object.acl = acl;
        Ok(self.finish(before))
    }

    pub(super) fn xattr(&self, caller: &Caller, of: Handle, name: &[u8]) -> FileResult<Vec<u8>> {
        let object = self.get(self.number(of)?);
        check_get_xattr(caller, &object.permissions(), name)?;
        let value = object.xattrs.get(name);
        Ok(value.ok_or(FileError::NoAttribute)?.clone())
    }

    pub(super) fn xattrs(&self, caller: &Caller, of: Handle) -> FileResult<Vec<Vec<u8>>> {
        let names = self.get(self.number(of)?).xattrs.keys();
        let visible = names.filter(|name| is_xattr_visible(caller, name));
        Ok(visible.cloned().collect())
    }

    pub(super) fn set_xattr(
        &mut self,
        caller: &Caller,
        of: Handle,
        name: &[u8],
        value: Option<Vec<u8>>,
        how: SetXattr,
    ) -> FileResult<Change> {
        let number = self.number(of)?;
        let object = self.get(number);
        let before = object.attributes;
        let len = value.as_ref().map(Vec::len);
        check_set_xattr(caller, &object.permissions(), name, len)?;
        let old = object.xattrs.get(name);
        match (old, &value, how) {
            (None, None, _) | (None, Some(_), SetXattr::Replace) => {
                return Err(FileError::NoAttribute);
            }
            (Some(_), Some(_), SetXattr::Create) => return Err(FileError::Exists),
            _ => {}
        }
        let names: usize = object.xattrs.keys().map(|name| name.len() + 1).sum();
        if old.is_none() && names + name.len() + 1 > XATTR_NAMES_MAX {
            return Err(FileError::NoSpace);
        }
        let cost = |value: Option<&Vec<u8>>| value.map_or(0, |value| xattr_cost(name, value));
        let (old, new) = (cost(old), cost(value.as_ref()));
        self.recharge(old, new)?;
        let xattrs = &mut self.get_mut(number).xattrs;
        match value {
            Some(value) => xattrs.insert(name.to_vec(), value),
            None => xattrs.remove(name),
        };
        Ok(self.finish(before))
    }
}
