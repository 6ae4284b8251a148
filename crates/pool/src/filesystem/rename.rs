//! Renames.
//!
//! **Owns** the rules of POSIX (`rename`) and Linux (`renameat2`). **Called by** [`super::FileSystem`]: within one directory in
//! its turn, between two in the turn of such renames. **Invariants**: no directory ever gets into itself; a replaced name
//! keeps its place; a rename is one transaction, and one that fails has changed nothing.

use backend::Turn;
use backend::file::permission::{check_add, check_move, check_remove};
use backend::file::{
    Attributes, Caller, Change, FileError, FileKind, FileResult, Handle, Name, RenameMode, Renamed,
    Timestamp,
};

use super::create::LINKS_MAX;
use super::entries::{Entry, delete_entry, put_entry};
use super::inner::Inner;
use super::numbers::Files;
use super::object::{Object, now};
use super::store::{Purpose, Store, Transaction};
use crate::format::filesystem::{Dirent, Link};

/// One side of a rename: a directory, a name, and the entry of that name.
struct Side<'a> {
    directory: Handle,
    name: &'a Name,
}

/// A rename whose names were looked up. The objects are read in their turns.
struct Plan {
    from: Object,
    /// `None` if it is the directory of the old name.
    to: Option<Object>,
    old: Entry,
    object: Object,
    /// The name's entry, and its object unless that is the object of the old name.
    replaced: Option<(Entry, Option<Object>)>,
    /// The place of the new name.
    place: Link,
    mode: RenameMode,
    /// The turns of the objects, until the rename is done.
    _turns: Vec<Turn>,
}

fn is_directory(of: &Dirent) -> bool {
    of.kind == FileKind::Directory
}

impl Plan {
    fn to(&self) -> &Object {
        self.to.as_ref().unwrap_or(&self.from)
    }

    fn to_mut(&mut self) -> &mut Object {
        self.to.as_mut().unwrap_or(&mut self.from)
    }

    fn is_between(&self) -> bool {
        self.to.is_some()
    }

    fn other(&self) -> Option<&Object> {
        self.replaced.as_ref()?.1.as_ref()
    }

    /// Whether both names lead to the same object.
    fn is_same_object(&self) -> bool {
        self.replaced.is_some() && self.other().is_none()
    }
}

impl<S: Store> Inner<S> {
    pub(super) async fn rename(
        &self,
        caller: &Caller,
        (from, old): (Handle, &Name),
        (to, new): (Handle, &Name),
        mode: RenameMode,
    ) -> FileResult<Renamed> {
        let (old, new) = (
            Side {
                directory: from,
                name: old,
            },
            Side {
                directory: to,
                name: new,
            },
        );
        let _turns = match from == to {
            true => Vec::new(),
            false => self.take_directories(from, to).await?,
        };
        let plan = self.plan(caller, &old, &new, mode).await?;
        if plan.is_same_object() {
            let is_respelled = mode != RenameMode::Exchange
                && plan.old.place == plan.place
                && plan.old.dirent.name != *new.name;
            return match is_respelled {
                true => self.respell(caller, plan, new.name).await,
                false => Ok(self.unchanged(&plan)),
            };
        }
        self.check_rename(caller, &plan).await?;
        match mode {
            RenameMode::Exchange => self.exchange(plan).await,
            RenameMode::Replace | RenameMode::NoReplace => self.move_name(plan, &new).await,
        }
    }

    /// The turns of two directories, in the turn of renames between directories: an ancestor first, else by number.
    async fn take_directories(&self, from: Handle, to: Handle) -> FileResult<Vec<Turn>> {
        for of in [from, to] {
            self.directory(of).await?;
        }
        let (from, to) = (self.number(from)?, self.number(to)?);
        let is_from_first = match (
            self.is_above(from, to).await?,
            self.is_above(to, from).await?,
        ) {
            (false, false) => from < to,
            (is_above, _) => is_above,
        };
        let order = if is_from_first {
            [from, to]
        } else {
            [to, from]
        };
        let mut turns = Vec::new();
        for directory in order {
            turns.push(self.turns.take(directory).await);
        }
        Ok(turns)
    }

    /// Looks up both names and takes the turns of their objects: directories first, then by number.
    async fn plan(
        &self,
        caller: &Caller,
        old: &Side<'_>,
        new: &Side<'_>,
        mode: RenameMode,
    ) -> FileResult<Plan> {
        let from = self.searched(caller, old.directory).await?;
        let to = match old.directory == new.directory {
            true => None,
            false => Some(self.searched(caller, new.directory).await?),
        };
        let found = self.find(from.number, old.name).await?;
        let old = found.ok_or(FileError::NotFound)?;
        let to_number = to.as_ref().map_or(from.number, |to| to.number);
        let (found, place) = self.place(to_number, new.name).await?;
        let is_same_entry = found.as_ref() == Some(&old);
        match (mode, &found) {
            (RenameMode::NoReplace, Some(_)) if !is_same_entry || old.dirent.name == *new.name => {
                return Err(FileError::Exists);
            }
            (RenameMode::Exchange, None) => return Err(FileError::NotFound),
            _ => {}
        }
        for entry in [Some(&old), found.as_ref()].into_iter().flatten() {
            self.check_entry(entry).await?;
        }
        let mut objects = vec![&old.dirent];
        let other = found.as_ref().map(|other| &other.dirent);
        let other = other.filter(|other| other.target != old.dirent.target);
        objects.extend(other);
        let is_above = match &to {
            Some(to) => self.check_loops(&from, to, &objects, mode).await?,
            None => false,
        };
        if is_above {
            // It is not empty, and its turn must not be waited for here.
            objects.truncate(1);
        }
        let turns = self.take_objects(&mut objects).await;
        let object = self.target(&old.dirent).await?;
        let other = match other {
            Some(other) => Some(self.target(other).await?),
            None => None,
        };
        let place = match &found {
            Some(found) => found.place,
            None => place?,
        };
        Ok(Plan {
            from,
            to,
            object,
            replaced: found.map(|found| (found, other)),
            old,
            place,
            mode,
            _turns: turns,
        })
    }

    /// Errors: `Invalid` if a directory would get into itself. Returns whether the object of the new name is above the
    /// directory of the old one, so that it cannot be replaced.
    async fn check_loops(
        &self,
        from: &Object,
        to: &Object,
        objects: &[&Dirent],
        mode: RenameMode,
    ) -> FileResult<bool> {
        let object = objects.first().filter(|of| is_directory(of));
        if let Some(object) = object
            && self.is_above(object.target.object, to.number).await?
        {
            return Err(FileError::Invalid);
        }
        let Some(other) = objects.get(1).filter(|of| is_directory(of)) else {
            return Ok(false);
        };
        match self.is_above(other.target.object, from.number).await? {
            true if mode == RenameMode::Exchange => Err(FileError::Invalid),
            is_above => Ok(is_above),
        }
    }

    async fn take_objects(&self, objects: &mut [&Dirent]) -> Vec<Turn> {
        objects.sort_by_key(|of| (!is_directory(of), of.target.object));
        let mut turns = Vec::new();
        for of in objects {
            turns.push(self.turns.take(of.target.object).await);
        }
        turns
    }

    async fn check_rename(&self, caller: &Caller, plan: &Plan) -> FileResult<()> {
        let (object, to) = (&plan.object, plan.to());
        check_remove(caller, &plan.from.permissions(), &object.permissions())?;
        match plan.other() {
            Some(other) => check_remove(caller, &to.permissions(), &other.permissions())?,
            None => check_add(caller, &to.permissions(), object.is_directory())?,
        }
        let is_between = plan.is_between();
        if is_between {
            check_move(caller, &object.permissions())?;
        }
        let gains = |directory: &Object, gained: bool, lost: bool| {
            let is_full = directory.inode.links >= LINKS_MAX;
            match is_between && gained && !lost && is_full {
                true => Err(FileError::Links),
                false => Ok(()),
            }
        };
        let Some(other) = plan.other() else {
            return gains(to, object.is_directory(), false);
        };
        if plan.mode == RenameMode::Exchange {
            if is_between {
                check_move(caller, &other.permissions())?;
            }
            gains(to, object.is_directory(), other.is_directory())?;
            return gains(&plan.from, other.is_directory(), object.is_directory());
        }
        match (object.is_directory(), other.is_directory()) {
            (true, false) => Err(FileError::NotDirectory),
            (false, true) => Err(FileError::IsDirectory),
            (true, true) if self.has_names(other).await? => Err(FileError::NotEmpty),
            (true, true) | (false, false) => Ok(()),
        }
    }

    /// Both names belong to the same object: nothing is done (POSIX).
    fn unchanged(&self, plan: &Plan) -> Renamed {
        let same = |of: &Object| self.change(self.attributes(of), of);
        Renamed {
            object: same(&plan.object),
            other: None,
            from: same(&plan.from),
            to: same(plan.to()),
        }
    }

    fn before(&self, plan: &Plan) -> [Attributes; 3] {
        [&plan.object, &plan.from, plan.to()].map(|of| self.attributes(of))
    }

    fn renamed(&self, before: [Attributes; 3], plan: &Plan, other: Option<Change>) -> Renamed {
        let [object, from, to] = before;
        Renamed {
            object: self.change(object, &plan.object),
            other,
            from: self.change(from, &plan.from),
            to: self.change(to, plan.to()),
        }
    }

    /// Gives an entry the same name in other letters.
    async fn respell(&self, caller: &Caller, mut plan: Plan, new: &Name) -> FileResult<Renamed> {
        check_remove(caller, &plan.from.permissions(), &plan.object.permissions())?;
        check_add(caller, &plan.from.permissions(), plan.object.is_directory())?;
        let (before, time) = (self.before(&plan), now());
        let mut transaction = Transaction::new();
        let dirent = Dirent {
            name: new.clone(),
            ..plan.old.dirent.clone()
        };
        put_entry(&mut transaction, plan.place, &dirent);
        plan.from.set_modified(time);
        plan.object.set_changed(time);
        for of in [&plan.from, &plan.object] {
            transaction.put_inode(of.number, of.inode);
        }
        self.commit(transaction, Purpose::Use, Files::Same).await?;
        let directory = plan.from.number;
        let old = &plan.old.dirent.name;
        self.tell_moved((directory, old), (directory, new), &plan.object);
        Ok(self.renamed(before, &plan, None))
    }

    /// Moves the name to a new place, or to that of another object, which loses it.
    async fn move_name(&self, mut plan: Plan, new: &Side<'_>) -> FileResult<Renamed> {
        let (before, time) = (self.before(&plan), now());
        let mut transaction = Transaction::new();
        let is_directory = plan.object.is_directory();
        delete_entry(&mut transaction, plan.old.place);
        let dirent = Dirent {
            name: new.name.clone(),
            ..plan.old.dirent.clone()
        };
        put_entry(&mut transaction, plan.place, &dirent);
        let (old_place, place) = (plan.old.place, plan.place);
        self.replace_name(&mut transaction, &mut plan.object, old_place, place)
            .await?;
        plan.object.set_changed(time);
        plan.from.lose_entry(is_directory)?;
        plan.to_mut().gain_entry(is_directory);

        let replaced = plan.replaced.take();
        let mut lost = None;
        let mut doomed = None;
        if let Some((entry, Some(mut other))) = replaced {
            let before = self.attributes(&other);
            self.drop_name(&mut transaction, &mut other, place).await?;
            other.set_changed(time);
            plan.to_mut().lose_entry(other.is_directory())?;
            doomed = self.lose_name(&mut transaction, other.clone()).await?;
            lost = Some((entry, before, other));
        }
        self.put_directories(&mut transaction, &mut plan, time);
        transaction.put_inode(plan.object.number, plan.object.inode);
        self.commit_removal(transaction, Purpose::Use, doomed)
            .await?;

        let to = plan.to().number;
        let other = lost.map(|(entry, before, other)| {
            self.tell_removed(to, &entry.dirent.name, &other);
            self.change(before, &other)
        });
        let old = (plan.from.number, &plan.old.dirent.name);
        self.tell_moved(old, (to, new.name), &plan.object);
        Ok(self.renamed(before, &plan, other))
    }

    fn put_directories(&self, transaction: &mut Transaction, plan: &mut Plan, time: Timestamp) {
        plan.from.set_modified(time);
        transaction.put_inode(plan.from.number, plan.from.inode);
        if let Some(to) = &mut plan.to {
            to.set_modified(time);
            transaction.put_inode(to.number, to.inode);
        }
    }

    async fn exchange(&self, mut plan: Plan) -> FileResult<Renamed> {
        let (before, time) = (self.before(&plan), now());
        let mut transaction = Transaction::new();
        let Some((entry, Some(mut other))) = plan.replaced.take() else {
            return Err(FileError::NotFound);
        };
        let other_before = self.attributes(&other);
        let named = |dirent: &Dirent, name: &Name| Dirent {
            name: name.clone(),
            ..dirent.clone()
        };
        let (old, new) = (plan.old.dirent.name.clone(), entry.dirent.name.clone());
        put_entry(
            &mut transaction,
            plan.old.place,
            &named(&entry.dirent, &old),
        );
        put_entry(&mut transaction, plan.place, &named(&plan.old.dirent, &new));
        let (old_place, place) = (plan.old.place, plan.place);
        self.replace_name(&mut transaction, &mut plan.object, old_place, place)
            .await?;
        self.replace_name(&mut transaction, &mut other, place, old_place)
            .await?;
        let are_directories = (plan.object.is_directory(), other.is_directory());
        plan.from.lose_entry(are_directories.0)?;
        plan.from.gain_entry(are_directories.1);
        plan.to_mut().lose_entry(are_directories.1)?;
        plan.to_mut().gain_entry(are_directories.0);
        plan.object.set_changed(time);
        other.set_changed(time);
        self.put_directories(&mut transaction, &mut plan, time);
        for of in [&plan.object, &other] {
            transaction.put_inode(of.number, of.inode);
        }
        self.commit(transaction, Purpose::Use, Files::Same).await?;
        let (from, to) = (plan.from.number, plan.to().number);
        self.tell_moved((from, &old), (to, &new), &plan.object);
        self.tell_moved((to, &new), (from, &old), &other);
        let other = self.change(other_before, &other);
        Ok(self.renamed(before, &plan, Some(other)))
    }
}
