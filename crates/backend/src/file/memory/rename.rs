//! Renames.
//!
//! **Owns** the rules of POSIX (`rename`) and Linux (`renameat2`) in memory. **Called by** [`super::MemoryFiles`].
//! **Invariants**: no directory ever gets into itself; a replaced name keeps its cookie; a rename that fails has changed
//! nothing.

use super::object::ENTRY_COST;
use super::state::{FilesInMemory, ROOT, now};
use crate::file::permission::{check_add, check_move, check_remove};
use crate::file::{
    Attributes, Caller, Change, Event, FileError, FileResult, Handle, Name, RenameMode, Renamed,
};

/// A rename whose names were looked up.
struct Plan<'a> {
    from: u64,
    old: &'a Name,
    object: u64,
    to: u64,
    new: &'a Name,
    other: Option<u64>,
    mode: RenameMode,
}

impl FilesInMemory {
    pub(super) fn rename(
        &mut self,
        caller: &Caller,
        (from, old): (Handle, &Name),
        (to, new): (Handle, &Name),
        mode: RenameMode,
    ) -> FileResult<Renamed> {
        let from = self.searched(caller, from)?;
        let to = self.searched(caller, to)?;
        let object = self.directory(from).get(old).ok_or(FileError::NotFound)?;
        let other = self.directory(to).get(new);
        match (mode, other) {
            (RenameMode::NoReplace, Some(_)) => return Err(FileError::Exists),
            (RenameMode::Exchange, None) => return Err(FileError::NotFound),
            _ => {}
        }
        let plan = Plan {
            from,
            old,
            object,
            to,
            new,
            other,
            mode,
        };
        if other == Some(object) {
            return Ok(self.unchanged(&plan));
        }
        self.check_loops(&plan)?;
        self.check_rename(caller, &plan)?;
        Ok(match (mode, other) {
            (RenameMode::Exchange, Some(other)) => self.exchange(&plan, other),
            _ => self.move_name(&plan),
        })
    }

    /// Both names belong to the same object: nothing is done (POSIX).
    fn unchanged(&self, plan: &Plan<'_>) -> Renamed {
        let same = |number| self.change(self.attributes(number));
        Renamed {
            object: same(plan.object),
            other: None,
            from: same(plan.from),
            to: same(plan.to),
        }
    }

    /// Whether a directory is, or is above, another one.
    fn is_above(&self, upper: u64, lower: u64) -> bool {
        let mut at = lower;
        while at != upper && at != ROOT {
            at = self.directory(at).parent();
        }
        at == upper
    }

    fn check_loops(&self, plan: &Plan<'_>) -> FileResult<()> {
        let exchanged = plan.other.filter(|_| plan.mode == RenameMode::Exchange);
        let into_itself = self.is_above(plan.object, plan.to)
            || exchanged.is_some_and(|other| self.is_above(other, plan.from));
        match into_itself {
            true => Err(FileError::Invalid),
            false => Ok(()),
        }
    }

    fn check_rename(&self, caller: &Caller, plan: &Plan<'_>) -> FileResult<()> {
        let permissions = |number| self.get(number).permissions();
        let (from, to) = (permissions(plan.from), permissions(plan.to));
        let object = self.get(plan.object);
        let changes_parent = plan.from != plan.to;
        check_remove(caller, &from, &object.permissions())?;
        match plan.other {
            Some(other) => check_remove(caller, &to, &permissions(other))?,
            None => check_add(caller, &to, object.is_directory())?,
        }
        if changes_parent {
            check_move(caller, &object.permissions())?;
        }
        let other = plan.other.map(|other| self.get(other));
        let gains = |directory: u64, gained: bool, lost: bool| {
            let links = self.attributes(directory).links;
            match changes_parent && gained && !lost && links >= self.options.links_max {
                true => Err(FileError::Links),
                false => Ok(()),
            }
        };
        let Some(other) = other else {
            return gains(plan.to, object.is_directory(), false);
        };
        if plan.mode == RenameMode::Exchange {
            if changes_parent {
                check_move(caller, &other.permissions())?;
            }
            gains(plan.to, object.is_directory(), other.is_directory())?;
            return gains(plan.from, other.is_directory(), object.is_directory());
        }
        match (object.is_directory(), other.directory()) {
            (true, None) => Err(FileError::NotDirectory),
            (false, Some(_)) => Err(FileError::IsDirectory),
            (true, Some(entries)) if entries.len() > 0 => Err(FileError::NotEmpty),
            (true, Some(_)) | (false, None) => Ok(()),
        }
    }

    /// Moves the links of a directory, and its `..`, from one directory to another.
    fn set_parent(&mut self, object: u64, from: u64, to: u64) {
        if let Some(directory) = self.get_mut(object).directory_mut() {
            directory.set_parent(to);
            self.get_mut(from).attributes.links -= 1;
            self.get_mut(to).attributes.links += 1;
        }
    }

    fn move_name(&mut self, plan: &Plan<'_>) -> Renamed {
        let before = [plan.object, plan.from, plan.to].map(|number| self.attributes(number));
        let other = plan.other.map(|other| self.attributes(other));
        let time = now();
        self.directory_mut(plan.from).remove(plan.old);
        self.directory_mut(plan.to).put(plan.new, plan.object);
        self.get_mut(plan.from).set_modified(time);
        if plan.from != plan.to {
            self.get_mut(plan.to).set_modified(time);
        }
        self.get_mut(plan.object).set_changed(time);
        let replaced = other.map(|before| {
            let number = before.handle.object;
            self.release(ENTRY_COST);
            self.send_removed(plan.to, plan.new, number);
            let after = self.drop_name(plan.to, number);
            Change { before, after }
        });
        self.set_parent(plan.object, plan.from, plan.to);
        self.send_moved((plan.from, plan.old), (plan.to, plan.new), plan.object);
        self.renamed(before, replaced)
    }

    fn exchange(&mut self, plan: &Plan<'_>, other: u64) -> Renamed {
        let before = [plan.object, plan.from, plan.to].map(|number| self.attributes(number));
        let other_before = self.attributes(other);
        let time = now();
        self.directory_mut(plan.from).put(plan.old, other);
        self.directory_mut(plan.to).put(plan.new, plan.object);
        self.set_parent(plan.object, plan.from, plan.to);
        self.set_parent(other, plan.to, plan.from);
        self.get_mut(plan.from).set_modified(time);
        if plan.from != plan.to {
            self.get_mut(plan.to).set_modified(time);
        }
        self.get_mut(plan.object).set_changed(time);
        self.get_mut(other).set_changed(time);
        let (old, new) = ((plan.from, plan.old), (plan.to, plan.new));
        self.send_moved(old, new, plan.object);
        self.send_moved(new, old, other);
        let other = self.change(other_before);
        self.renamed(before, Some(other))
    }

    fn renamed(&self, before: [Attributes; 3], other: Option<Change>) -> Renamed {
        let [object, from, to] = before;
        Renamed {
            object: self.change(object),
            other,
            from: self.change(from),
            to: self.change(to),
        }
    }

    fn send_moved(&self, (from, old): (u64, &Name), (to, new): (u64, &Name), object: u64) {
        if from == to {
            self.hub.send(from, || Event::Renamed {
                old: old.clone(),
                new: new.clone(),
                object: self.handle(object),
            });
            return;
        }
        self.send_removed(from, old, object);
        self.send_added(to, new, object);
    }
}
