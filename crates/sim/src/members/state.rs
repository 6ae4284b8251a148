//! State keys, which tell whether a sequence of operations leads to a new state.
//!
//! **Owns** the definition of equal states: members that are in by the pool and by each label, present disks, and the order
//! of epochs, branches and births, but not their values, which only grow. **Called by** the world at the end of a sequence.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pool::format::SideGuid;

use super::tank::label;
use super::world::{Member, World};

impl World {
    /// Returns the key of the present state.
    pub(super) async fn key(&mut self, members: &[Member]) -> String {
        let used: Vec<usize> = self.used().into_iter().collect();
        let labels = self.node.spawn(async move {
            let mut labels = Vec::new();
            for disk in used {
                labels.push(label(disk).await);
            }
            labels
        });
        let labels = labels.await.expect("it has power");
        let known = || labels.iter().flatten();
        // A fork from a branch that no label has any longer decides nothing.
        let in_use = |b| known().any(|l| l.history.branch == b);
        let forks = || {
            let all = known().flat_map(|l| &l.history.forks);
            all.filter(|f| in_use(f.branch))
        };
        let mut epochs: BTreeSet<u64> = known().map(|l| l.epoch.0).collect();
        epochs.extend(forks().flat_map(|f| [f.last.0, f.vdev_last.0]));
        let last = self.memory.epoch();
        epochs.insert(last);
        let mut branches = Vec::new();
        for branch in known().map(|l| l.history.branch) {
            if !branches.contains(&branch) {
                branches.push(branch);
            }
        }
        let mut births: BTreeSet<u64> = members.iter().map(|m| m.held).collect();
        births.extend(known().flat_map(|l| l.sides.iter().map(|s| s.held.0)));
        let rank = |of: &BTreeSet<u64>, n: u64| of.iter().take_while(|m| **m < n).count();
        let branch = |b| branches.iter().position(|known| *known == b);
        let disk = |guid: &SideGuid| self.disks.get(guid);
        let mut key = format!("{:?} {:?} {}", self.present, self.current, self.has_grown);
        for m in members {
            let held = rank(&births, m.held);
            let _ = write!(key, " {:?}", (m.vdev, m.disk, m.state, held));
        }
        for label in &labels {
            let Some(l) = label else {
                key += " -";
                continue;
            };
            let sides = l.sides.iter();
            let sides = sides.map(|s| (disk(&s.guid), s.membership, rank(&births, s.held.0)));
            let sizes: Vec<_> = l.vdevs.iter().map(|v| v.data_size).collect();
            let old = l.history.forks.iter().filter(|f| in_use(f.branch));
            let old = old.map(|f| {
                let at = (rank(&epochs, f.last.0), rank(&epochs, f.vdev_last.0));
                (branch(f.branch), at)
            });
            let at = (branch(l.history.branch), rank(&epochs, l.epoch.0), l.state);
            let (sides, old): (Vec<_>, Vec<_>) = (sides.collect(), old.collect());
            let _ = write!(key, " {:?}", (disk(&l.disk), l.vdev, sides, sizes, at, old));
        }
        let _ = write!(key, " {}", rank(&epochs, last));
        key
    }
}
