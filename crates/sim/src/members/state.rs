//! State keys, which tell whether a sequence of operations leads to a new state.
//!
//! **Owns** the definition of equal states. **Called by** the world at the end of a sequence. **Invariants**: two states have
//! one key only if a renaming of disks, members and branches makes all of this equal: for each disk, its label, whether it is
//! present, and whether it has every durable write; for each member, its state in the open pool and the epoch up to which it
//! has data; the order of all epochs and births that labels, forks, members and the server's memory name.
//!
//! Equal states behave alike: an opening reads labels, presence and memory and nothing else to choose members; it compares
//! identifiers, branches, epochs and births, but computes with none of them; and the operations name no disk by its number
//! (a free disk is a new one or any of the former members). Members are not told apart by their place in the vdev.
//! `search::prove` checks it: it continues *every* sequence and compares the continuations of all that have one key.
//!
//! The order of the disks is found by refinement: disks are sorted by their own facts, then by those of the disks that their
//! labels name and that name them, until no further pair is distinguished. Disks that remain tied keep their order, so that
//! a state may have two keys; two states never share one, because the key has all facts in full.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use pool::format::{Label, LabelBranch, MemberGuid, Membership};

use super::Key;
use super::tank::label;
use super::world::{Member, World};

/// A disk that is or was a member, or a member that no disk's label names itself as.
struct Entity {
    guid: Option<MemberGuid>,
    /// Everything about it that names no other entity and no branch.
    own: String,
    /// Its label's branch, then those of its forks with their epochs.
    branches: Vec<(LabelBranch, usize, usize)>,
    /// The members that its label names.
    named: Vec<(MemberGuid, Membership, usize)>,
}

/// Positions in the order of all epochs, and of all births.
struct Ranks {
    epochs: BTreeSet<u64>,
    births: BTreeSet<u64>,
}

impl Ranks {
    fn epoch(&self, n: u64) -> usize {
        self.epochs.range(..n).count()
    }

    fn birth(&self, n: u64) -> usize {
        self.births.range(..n).count()
    }
}

/// Forks from branches that some label has. A fork from another branch decides nothing.
fn forks<'a>(label: &'a Label, in_use: &BTreeSet<u64>) -> Vec<&'a pool::format::Fork> {
    let all = label.history.forks.iter();
    all.filter(|f| in_use.contains(&f.branch.0)).collect()
}

impl World {
    /// Returns the key of the present state, in which the pool reported `members` if it was open. It is killed.
    pub(super) async fn key(&mut self, members: &[Member], was_open: bool) -> Key {
        let used: Vec<usize> = self.used().into_iter().collect();
        let read = used.clone();
        let labels = self.node.spawn(async move {
            let mut labels = Vec::new();
            for disk in read {
                labels.push(label(disk).await);
            }
            labels
        });
        let labels = labels.await.expect("it has power");
        let known = || labels.iter().flatten();
        let in_use: BTreeSet<u64> = known().map(|l| l.history.branch.0).collect();
        let memory = self.memory.epoch();
        let mut ranks = Ranks {
            epochs: known().map(|l| l.epoch.0).chain([memory]).collect(),
            births: members.iter().map(|m| m.held).collect(),
        };
        for label in known() {
            let forks = forks(label, &in_use).into_iter();
            ranks
                .epochs
                .extend(forks.flat_map(|f| [f.last.0, f.vdev_last.0]));
            ranks.births.extend(label.members.iter().map(|s| s.held.0));
        }
        let mut entities = Vec::new();
        for (disk, label) in used.iter().zip(&labels) {
            let guid = label.as_ref().map(|l| l.disk);
            let member = members.iter().find(|m| Some(m.guid) == guid);
            let own = format!("{} {}", self.facts(*disk), member_facts(member, &ranks));
            entities.push(entity(guid, own, label.as_ref(), &ranks, &in_use));
        }
        let of_labels = known().flat_map(|l| &l.members).map(|s| s.guid);
        let others: BTreeSet<MemberGuid> =
            of_labels.chain(members.iter().map(|m| m.guid)).collect();
        for guid in others {
            if !entities.iter().any(|e| e.guid == Some(guid)) {
                let member = members.iter().find(|m| m.guid == guid);
                let own = format!("no disk {}", member_facts(member, &ranks));
                entities.push(entity(Some(guid), own, None, &ranks, &in_use));
            }
        }
        let text = canonical(&entities);
        let world = (self.has_grown, was_open, ranks.epoch(memory));
        hash(&format!("{world:?} {text}"))
    }
}

fn member_facts(member: Option<&Member>, ranks: &Ranks) -> String {
    let facts = member.map(|m| (m.vdev, m.state, ranks.birth(m.held)));
    format!("{facts:?}")
}

fn entity(
    guid: Option<MemberGuid>,
    mut own: String,
    label: Option<&Label>,
    ranks: &Ranks,
    in_use: &BTreeSet<u64>,
) -> Entity {
    let mut branches = Vec::new();
    let mut named = Vec::new();
    if let Some(l) = label {
        let vdevs: Vec<_> = l
            .vdevs
            .iter()
            .map(|v| (v.kind, v.class, v.data_size, v.has_journal))
            .collect();
        let at = (l.vdev, l.state, ranks.epoch(l.epoch.0));
        let _ = write!(own, " {at:?} {vdevs:?}");
        branches.push((l.history.branch, 0, 0));
        let forks = forks(l, in_use).into_iter();
        let place = |n: u64| 1 + ranks.epoch(n);
        branches.extend(forks.map(|f| (f.branch, place(f.last.0), place(f.vdev_last.0))));
        let members = l.members.iter();
        named.extend(members.map(|s| (s.guid, s.membership, ranks.birth(s.held.0))));
    }
    Entity {
        guid,
        own,
        branches,
        named,
    }
}

/// All facts as a text, with entities and branches numbered in an order that does not depend on their names.
fn canonical(entities: &[Entity]) -> String {
    let colours = refine(entities);
    let mut order: Vec<usize> = (0..entities.len()).collect();
    order.sort_by_key(|i| colours[*i]);
    let number: BTreeMap<MemberGuid, usize> = order
        .iter()
        .enumerate()
        .filter_map(|(number, i)| Some((entities[*i].guid?, number)))
        .collect();
    let mut branches: Vec<LabelBranch> = Vec::new();
    let mut text = String::new();
    for i in order {
        let e = &entities[i];
        let mut of_branches = Vec::new();
        for (branch, last, vdev_last) in &e.branches {
            let known = branches.iter().position(|b| b == branch);
            let number = known.unwrap_or(branches.len());
            if known.is_none() {
                branches.push(*branch);
            }
            of_branches.push((number, *last, *vdev_last));
        }
        let named = e.named.iter();
        let mut named: Vec<_> = named
            .map(|(guid, membership, held)| (number[guid], code(*membership), *held))
            .collect();
        named.sort_unstable();
        let _ = write!(text, "[{} {of_branches:?} {named:?}]", e.own);
    }
    text
}

fn code(membership: Membership) -> u8 {
    match membership {
        Membership::In => 0,
        Membership::Stale => 1,
        Membership::Offline => 2,
    }
}

/// The class of each entity: equal for entities that nothing distinguishes.
fn refine(entities: &[Entity]) -> Vec<usize> {
    let index = |guid: &MemberGuid| entities.iter().position(|e| e.guid == Some(*guid));
    let mut colours = rank(entities.iter().map(|e| (e.own.clone(), e.branches.len())));
    for _ in 0..entities.len() {
        let signatures = entities.iter().enumerate().map(|(i, e)| {
            let of = |(guid, membership, held): &(MemberGuid, Membership, usize)| {
                let other = index(guid).expect("each named member is an entity");
                (colours[other], code(*membership), *held, other == i)
            };
            let mut names: Vec<_> = e.named.iter().map(of).collect();
            names.sort_unstable();
            let others = entities.iter().enumerate();
            let mut named_by: Vec<_> = others
                .flat_map(|(j, other)| {
                    let here = other.named.iter().filter(|n| e.guid == Some(n.0));
                    let colour = colours[j];
                    here.map(move |(_, membership, held)| (colour, code(*membership), *held))
                })
                .collect();
            named_by.sort_unstable();
            let mut peers: Vec<_> = entities
                .iter()
                .enumerate()
                .flat_map(|(j, other)| shared(&e.branches, &other.branches, colours[j]))
                .collect();
            peers.sort_unstable();
            (colours[i], names, named_by, peers)
        });
        colours = rank(signatures);
    }
    colours
}

type Place = (usize, usize);

/// Branches that two entities both name: the second one's colour, and the epochs of both.
fn shared(
    own: &[(LabelBranch, usize, usize)],
    other: &[(LabelBranch, usize, usize)],
    colour: usize,
) -> Vec<(usize, Place, Place)> {
    let pairs = own.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let same = pairs.filter(|(a, b)| a.0 == b.0);
    same.map(|(a, b)| (colour, (a.1, a.2), (b.1, b.2)))
        .collect()
}

/// The position of each value among the different values.
fn rank<T: Ord>(values: impl Iterator<Item = T>) -> Vec<usize> {
    let values: Vec<T> = values.collect();
    let different: BTreeSet<&T> = values.iter().collect();
    let rank: BTreeMap<&T, usize> = different.into_iter().zip(0..).collect();
    values.iter().map(|v| rank[v]).collect()
}

fn hash(text: &str) -> Key {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(guid: u64, own: &str, branch: u64, named: &[(u64, usize)]) -> Entity {
        let named = named.iter();
        Entity {
            guid: Some(MemberGuid(guid)),
            own: own.into(),
            branches: vec![(LabelBranch(branch), 0, 0)],
            named: named
                .map(|(guid, held)| (MemberGuid(*guid), Membership::In, *held))
                .collect(),
        }
    }

    #[test]
    fn a_renaming_keeps_the_key() {
        let one = [
            disk(1, "in", 7, &[(1, 0), (2, 0)]),
            disk(2, "in", 7, &[(2, 0), (1, 0)]),
            disk(3, "old", 8, &[(3, 0), (1, 4)]),
        ];
        let renamed = [
            disk(30, "old", 5, &[(20, 4), (30, 0)]),
            disk(10, "in", 4, &[(10, 0), (20, 0)]),
            disk(20, "in", 4, &[(20, 0), (10, 0)]),
        ];
        assert_eq!(canonical(&one), canonical(&renamed));
    }

    #[test]
    fn a_difference_changes_the_key() {
        let pair = |held, branch| {
            [
                disk(1, "in", 7, &[(1, 0), (2, held)]),
                disk(2, "in", branch, &[(2, 0)]),
            ]
        };
        let text = canonical(&pair(0, 7));
        assert_ne!(text, canonical(&pair(1, 7)), "an epoch");
        assert_ne!(text, canonical(&pair(0, 8)), "a branch");
    }
}
