//! Expectations about the names of one client: the directories that are possible after all changes and answers so far.
//!
//! **Owns** [`NameModel`]. **Called by** the naming job, which makes one change at a time. **Invariants** that it checks: an answered
//! change happened, and is there after every crash; a refused one had a reason; a change without an answer happened, did not, or
//! happens later, until the server crashes; an object keeps its handle under all names, and no other object has it.

use nfs_initiator::FileHandle;
use std::collections::{BTreeMap, BTreeSet};

/// Number of names.
pub(super) const NAMES: u64 = 6;

/// A name, by its number.
pub(super) type NameNumber = u64;
/// A change, by its number. An object has the number of the change that creates it.
type ChangeNumber = u64;

/// A change of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameChange {
    /// Opens a file, and creates it if there is none.
    Open(NameNumber),
    /// Creates a directory.
    Directory(NameNumber),
    Remove(NameNumber),
    Rename(NameNumber, NameNumber),
}

/// An object: the number of the change that created it, and whether it is a directory.
type Object = (ChangeNumber, bool);

/// A possible state: the objects with a name, and the changes that may happen later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Possible {
    names: BTreeMap<NameNumber, Object>,
    later: BTreeSet<ChangeNumber>,
}

impl Possible {
    /// Makes a change. Returns the object of an opened or created name. Errors: it is refused.
    fn make(&mut self, number: ChangeNumber, change: NameChange) -> Result<Option<Object>, ()> {
        match change {
            NameChange::Open(name) => {
                let object = *self.names.entry(name).or_insert((number, false));
                if object.1 { Err(()) } else { Ok(Some(object)) }
            }
            NameChange::Directory(name) if self.names.contains_key(&name) => Err(()),
            NameChange::Directory(name) => {
                self.names.insert(name, (number, true));
                Ok(Some((number, true)))
            }
            NameChange::Remove(name) => self.names.remove(&name).map(|_| None).ok_or(()),
            NameChange::Rename(from, to) => {
                let object = *self.names.get(&from).ok_or(())?;
                if self.names.get(&to).is_some_and(|other| other.1 != object.1) {
                    return Err(());
                }
                self.names.remove(&from);
                self.names.insert(to, object);
                Ok(None)
            }
        }
    }
}

/// See the module header.
#[derive(Debug)]
pub(super) struct NameModel {
    changes: Vec<NameChange>,
    /// States that are possible by answered changes alone: those after a crash.
    durable: BTreeSet<Possible>,
    /// States that are possible by what was seen, too.
    now: BTreeSet<Possible>,
    handles: BTreeMap<ChangeNumber, FileHandle>,
    epoch: u32,
}

impl Default for NameModel {
    fn default() -> Self {
        let empty = BTreeSet::from([Possible::default()]);
        Self {
            changes: Vec::new(),
            durable: empty.clone(),
            now: empty,
            handles: BTreeMap::new(),
            epoch: 0,
        }
    }
}

impl NameModel {
    /// Begins a change. Returns its number.
    pub(super) fn begin(&mut self, change: NameChange) -> ChangeNumber {
        self.changes.push(change);
        self.changes.len() as ChangeNumber - 1
    }

    /// A change was answered with success, and the handle of the object, if it names one. Errors: it cannot have succeeded.
    pub(super) fn done(
        &mut self,
        number: ChangeNumber,
        handle: Option<&FileHandle>,
    ) -> Result<(), String> {
        let change = self.changes[number as usize];
        self.retain(|possible, model| {
            let object = possible.make(number, change)?;
            match (object, handle) {
                (Some((object, _)), Some(handle)) => model.fits(object, handle),
                _ => Ok(()),
            }
        });
        self.learn(match change {
            NameChange::Open(name) | NameChange::Directory(name) => Some((name, handle)),
            _ => None,
        });
        self.judged(|| format!("{change:?} succeeded"))
    }

    /// A change was refused, because of a name that is there or is not. The server need not keep that name over a crash: the change that
    /// made it may have failed for lack of space. Errors: it cannot have been refused.
    pub(super) fn refused(&mut self, number: ChangeNumber) -> Result<(), String> {
        self.expand();
        let change = self.changes[number as usize];
        let is_refused = |possible: &Possible| possible.clone().make(number, change).is_err();
        self.now.retain(is_refused);
        self.judged(|| format!("{change:?} was refused"))
    }

    /// A change was answered with an error that does not say whether it happened.
    pub(super) fn failed(&mut self, number: ChangeNumber) {
        self.expand();
        let change = self.changes[number as usize];
        for states in [&mut self.durable, &mut self.now] {
            let mut changed = states.clone();
            for mut possible in std::mem::take(states) {
                if possible.make(number, change).is_ok() {
                    changed.insert(possible);
                }
            }
            *states = changed;
        }
    }

    /// A change has no answer.
    pub(super) fn unknown(&mut self, number: ChangeNumber) {
        for states in [&mut self.durable, &mut self.now] {
            let mut with = BTreeSet::new();
            for mut possible in std::mem::take(states) {
                possible.later.insert(number);
                with.insert(possible);
            }
            *states = with;
        }
    }

    /// A name was looked up. Errors: the answer is not possible.
    pub(super) fn seen(
        &mut self,
        name: NameNumber,
        found: Option<&FileHandle>,
    ) -> Result<(), String> {
        self.expand();
        let now = std::mem::take(&mut self.now);
        let is_possible = |possible: &Possible| match (possible.names.get(&name), found) {
            (None, None) => true,
            (Some((object, _)), Some(handle)) => self.fits(*object, handle).is_ok(),
            _ => false,
        };
        self.now = now.into_iter().filter(is_possible).collect();
        self.learn(Some((name, found)));
        self.judged(|| format!("name {name} was found as {found:?}"))
    }

    /// All names were listed. Errors: the answer is not possible.
    pub(super) fn listed(
        &mut self,
        found: &BTreeMap<NameNumber, FileHandle>,
    ) -> Result<(), String> {
        // What happens amid a listing may be in it or not.
        if self.now.iter().any(|possible| !possible.later.is_empty()) {
            return Ok(());
        }
        (0..NAMES).try_for_each(|name| self.seen(name, found.get(&name)))
    }

    /// The server is in this incarnation. A change of an earlier one that has not happened does not happen.
    pub(super) fn follow(&mut self, epoch: u32) {
        if std::mem::replace(&mut self.epoch, epoch) == epoch {
            return;
        }
        self.expand();
        let over = std::mem::take(&mut self.durable).into_iter();
        self.durable = over
            .map(|possible| Possible {
                later: BTreeSet::new(),
                ..possible
            })
            .collect();
        self.now = self.durable.clone();
    }

    /// Adds the states in which changes that may happen later have happened.
    fn expand(&mut self) {
        for states in [&mut self.durable, &mut self.now] {
            let mut new: Vec<Possible> = states.iter().cloned().collect();
            while let Some(possible) = new.pop() {
                for number in &possible.later {
                    let mut next = possible.clone();
                    next.later.remove(number);
                    let change = self.changes[*number as usize];
                    if next.make(*number, change).is_ok() && states.insert(next.clone()) {
                        new.push(next);
                    }
                }
            }
        }
    }

    /// Keeps the states for which `step` does not fail, as it left them.
    fn retain(&mut self, step: impl Fn(&mut Possible, &NameModel) -> Result<(), ()>) {
        self.expand();
        let kept = |states: &BTreeSet<Possible>| {
            let mut kept = BTreeSet::new();
            for mut possible in states.iter().cloned() {
                if step(&mut possible, self).is_ok() {
                    kept.insert(possible);
                }
            }
            kept
        };
        let (durable, now) = (kept(&self.durable), kept(&self.now));
        (self.durable, self.now) = (durable, now);
    }

    /// Whether an object may have this handle.
    fn fits(&self, object: ChangeNumber, handle: &FileHandle) -> Result<(), ()> {
        let is_other =
            |(other, known): (&ChangeNumber, &FileHandle)| (*other == object) != (known == handle);
        let wrong = match self.handles.contains_key(&object) {
            true => self.handles.iter().any(is_other),
            false => self.handles.values().any(|known| known == handle),
        };
        if wrong { Err(()) } else { Ok(()) }
    }

    /// Remembers the handle of an object, if it is certain which one the name has.
    fn learn(&mut self, seen: Option<(NameNumber, Option<&FileHandle>)>) {
        let Some((name, Some(handle))) = seen else {
            return;
        };
        let objects: BTreeSet<Option<&Object>> =
            self.now.iter().map(|p| p.names.get(&name)).collect();
        if let [Some((object, _))] = objects.into_iter().collect::<Vec<_>>()[..] {
            self.handles.insert(*object, handle.clone());
        }
    }

    fn judged(&self, what: impl FnOnce() -> String) -> Result<(), String> {
        match self.now.is_empty() {
            false => Ok(()),
            true => Err(format!("{}, but that is not possible", what())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: seed 69490527725703 of scenario `nfs`. A directory was visible, although its creation had failed for lack of space. A
    /// refusal because of it counted as if the directory were durable.
    #[test]
    fn a_refusal_promises_no_name() {
        let mut names = NameModel::default();
        let made = names.begin(NameChange::Directory(3));
        names.failed(made);
        let opened = names.begin(NameChange::Open(3));
        names.refused(opened).expect("the directory may be there");
        names.follow(1);
        names.seen(3, None).expect("the crash may have undone it");
    }

    #[test]
    fn an_answered_name_survives_a_crash() {
        let mut names = NameModel::default();
        let made = names.begin(NameChange::Directory(3));
        names.done(made, None).expect("it is possible");
        let opened = names.begin(NameChange::Open(3));
        names.refused(opened).expect("the directory is there");
        names.follow(1);
        let missing = names.seen(3, None);
        assert!(missing.is_err_and(|what| what.contains("not possible")));
    }
}
