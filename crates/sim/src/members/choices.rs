//! Operations that are possible in a state, and operations that the pool must refuse.
//!
//! **Owns** that choice. **Called by** the world and the search. **Invariant**: it depends on the state and not on the names of
//! disks, as `state` demands.

use pool::vdev::{MemberState, SetupError};

use super::Op;
use super::world::{MIRROR, Member, World};
use crate::model::Violation;

impl World {
    /// Operations that are possible next.
    pub(super) fn next(&self) -> Vec<Op> {
        let members = self.members();
        let mut ops = Vec::new();
        for disk in self.used() {
            ops.push(match self.present[disk] {
                true => Op::Vanish(disk),
                false => Op::Return(disk),
            });
        }
        if self.pool.is_none() {
            return ops;
        }
        ops.extend([Op::Write, Op::Restart]);
        let free = self.free(&members);
        let of_mirror: Vec<_> = members.iter().filter(|m| m.vdev == MIRROR).collect();
        let all_in = of_mirror.iter().filter(|m| m.state == MemberState::Online);
        let count_in = all_in.count();
        let is_there = |m: &&Member| matches!(m.state, MemberState::Online | MemberState::Stale);
        if !self.has_grown && of_mirror.iter().all(is_there) {
            ops.push(Op::Grow);
        }
        if of_mirror.len() <= self.start.members {
            ops.extend(free.iter().map(|disk| Op::Attach(*disk)));
        }
        if of_mirror.len() == members.len() {
            ops.extend(free.iter().map(|disk| Op::Add(*disk)));
        }
        for member in of_mirror {
            let is_in = member.state == MemberState::Online;
            if !is_in || count_in > 1 {
                ops.push(Op::Detach(member.disk));
            }
            if matches!(member.state, MemberState::Online | MemberState::Stale)
                && (!is_in || count_in > 1)
            {
                ops.push(Op::Offline(member.disk));
            }
            if matches!(member.state, MemberState::Offline | MemberState::Stale)
                && self.present[member.disk]
            {
                ops.push(Op::Online(member.disk));
            }
            let replaced = |new: &usize| Op::Replace(member.disk, *new);
            ops.extend(free.iter().map(replaced));
        }
        ops
    }

    /// Disks that can become members: one new disk, and every present one that was a member.
    fn free(&self, members: &[Member]) -> Vec<usize> {
        let used = self.used();
        let is_member = |disk: &usize| members.iter().any(|m| m.disk == *disk);
        let new = (0..self.present.len()).find(|disk| !used.contains(disk));
        let former = used
            .iter()
            .filter(|disk| self.present[**disk] && !is_member(disk));
        former.copied().chain(new).collect()
    }

    /// Tries each operation that the pool must refuse: to take the last complete member of the mirror offline, to detach it,
    /// and to bring a member online whose disk is missing. Returns their number. Fails with an operation that is not refused.
    pub(super) async fn refusals(&mut self) -> Result<u64, Violation> {
        let Some(pool) = self.pool.clone() else {
            return Ok(0);
        };
        let members = self.members();
        let of_mirror = members.iter().filter(|m| m.vdev == MIRROR);
        let all_in: Vec<_> = of_mirror
            .filter(|m| m.state == MemberState::Online)
            .collect();
        let mut refused = 0;
        if let [last] = all_in[..] {
            let (pool, guid) = (pool.clone(), last.guid);
            let leave = async move {
                let vdevs = pool.vdevs();
                [vdevs.offline(guid).await, vdevs.detach(guid).await]
            };
            let tried = self.node.spawn(leave);
            for done in tried.await.expect("it has power") {
                if !matches!(done, Err(SetupError::LastMember { .. })) {
                    let text = format!("the last member may leave: {last:?}: {done:?}");
                    return Err(Violation(text));
                }
                refused += 1;
            }
        }
        for member in members.iter().filter(|m| m.state == MemberState::Missing) {
            let (pool, guid) = (pool.clone(), member.guid);
            let online = async move { pool.vdevs().online(guid, None).await };
            let tried = self.node.spawn(online);
            match tried.await.expect("it has power") {
                Err(SetupError::Absent { .. }) => refused += 1,
                done => {
                    let text = format!("a member without a disk is online: {member:?}: {done:?}");
                    return Err(Violation(text));
                }
            }
        }
        Ok(refused)
    }
}
