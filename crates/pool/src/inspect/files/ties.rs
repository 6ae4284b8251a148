//! Ties: statements that one object makes about another, each of which needs an equal answer there.
//!
//! A directory entry says that an object has a name here; the object answers with its list of names. A table of sums by
//! object shows in one pass, and in constant memory, which objects have a statement without an answer. A second pass collects
//! the ties of these objects only.
//!
//! **Owns** both tables. **Called by** the check of a filesystem's contents. **Invariant**: equal sums mean equal ties, but
//! for collisions of a 64-bit hash.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use backend::file::FileKind;
use siphasher::sip::SipHasher13;

use crate::format::ObjectId;
use crate::format::filesystem::Link;
use crate::inspect::limits::{SUSPECTS_MAX, TIE_SUMS, TIES_MAX};

/// A statement about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Tie {
    /// It has this generation, this kind, and this name.
    Name {
        object: ObjectId,
        generation: u64,
        kind: FileKind,
        name: Link,
    },
    /// It has no names.
    Orphan { object: ObjectId },
    /// It is the value of an extended attribute of this length, bytes.
    Value { object: ObjectId, size: u64 },
}

impl Tie {
    /// The object that the statement is about.
    pub(super) fn object(&self) -> ObjectId {
        match *self {
            Tie::Name { object, .. } | Tie::Orphan { object } | Tie::Value { object, .. } => object,
        }
    }

    fn hash(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }

    /// Description of a tie that is stated `stated` times more often than it is answered.
    pub(super) fn describe(&self, stated: i64) -> String {
        match (*self, stated > 0) {
            (Tie::Name { name, .. }, true) => format!(
                "entry {:x} of directory {} leads to it, but it has no such name, generation or kind",
                name.entry, name.parent.0
            ),
            (Tie::Name { name, .. }, false) => format!(
                "it has a name that is entry {:x} of directory {}, which does not lead to it",
                name.entry, name.parent.0
            ),
            (Tie::Orphan { .. }, true) => {
                "an orphan by the list of orphans, but it has names, or does not exist".into()
            }
            (Tie::Orphan { .. }, false) => {
                "it has no names, and is not in the list of orphans".into()
            }
            (Tie::Value { size, .. }, true) => {
                format!("an attribute has its value of {size} bytes there, which it does not have")
            }
            (Tie::Value { size, .. }, false) => {
                format!("it has {size} bytes of an attribute's value, and belongs to no attribute")
            }
        }
    }
}

/// A table of ties.
pub(super) trait Ties {
    /// Adds a statement.
    fn state(&mut self, tie: Tie);
    /// Adds an answer.
    fn answer(&mut self, tie: Tie);
}

/// Sums of the ties of all objects, by the object's number.
pub(super) struct TieSums(Vec<u64>);

impl TieSums {
    pub(super) fn new() -> Self {
        Self(vec![0; TIE_SUMS])
    }

    fn slot(object: ObjectId) -> usize {
        (object.0 % TIE_SUMS as u64) as usize
    }

    /// The objects that may have ties without an answer; `None` if there are none.
    pub(super) fn suspects(&self) -> Option<Suspects> {
        let all: Vec<usize> = (0..TIE_SUMS).filter(|slot| self.0[*slot] != 0).collect();
        let more = all.len().saturating_sub(SUSPECTS_MAX);
        let mut slots = all;
        slots.truncate(SUSPECTS_MAX);
        (!slots.is_empty()).then_some(Suspects {
            slots,
            ties: BTreeMap::new(),
            more: more as u64,
        })
    }
}

impl Ties for TieSums {
    fn state(&mut self, tie: Tie) {
        let slot = &mut self.0[Self::slot(tie.object())];
        *slot = slot.wrapping_add(tie.hash());
    }

    fn answer(&mut self, tie: Tie) {
        let slot = &mut self.0[Self::slot(tie.object())];
        *slot = slot.wrapping_sub(tie.hash());
    }
}

/// The ties of the objects whose sums are wrong.
pub(super) struct Suspects {
    slots: Vec<usize>,
    /// Statements less answers.
    ties: BTreeMap<Tie, i64>,
    /// Wrong sums, or ties, that are not collected.
    pub(super) more: u64,
}

impl Suspects {
    fn add(&mut self, tie: Tie, by: i64) {
        if self
            .slots
            .binary_search(&TieSums::slot(tie.object()))
            .is_err()
        {
            return;
        }
        let is_full = self.ties.len() >= TIES_MAX;
        if is_full && !self.ties.contains_key(&tie) {
            self.more += 1;
            return;
        }
        let stated = self.ties.entry(tie).or_insert(0);
        *stated += by;
        if *stated == 0 {
            self.ties.remove(&tie);
        }
    }

    /// The ties without an answer, and the answers without a tie, by object.
    pub(super) fn wrong(&self) -> impl Iterator<Item = (ObjectId, String)> + '_ {
        let all = self.ties.iter();
        all.map(|(tie, stated)| (tie.object(), tie.describe(*stated)))
    }
}

impl Ties for Suspects {
    fn state(&mut self, tie: Tie) {
        self.add(tie, 1);
    }

    fn answer(&mut self, tie: Tie) {
        self.add(tie, -1);
    }
}
