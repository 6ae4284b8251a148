//! Operations that are possible in a state, and operations that the pool must refuse.
//!
//! **Owns** that choice. **Called by** the world and the search. **Invariant**: it depends on the state and not on the names of
//! disks, as `state` demands.

use pool::vdev::{MemberState, SetupError};

use super::Op;
use super::world::{Member, World};
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
        let tested = self.start.vdev();
        let of_first: Vec<_> = members.iter().filter(|m| m.vdev == tested).collect();
        let all_in = of_first.iter().filter(|m| m.state == MemberState::Online);
        let count_in = all_in.count();
        let needed = self.start.needed(of_first.len());
        let is_there = |m: &&Member| matches!(m.state, MemberState::Online | MemberState::Stale);
        if !self.has_grown && self.start.can_grow() && of_first.iter().all(is_there) {
            ops.push(Op::Grow);
        }
        let is_mirror = self.start.is_mirror();
        let may_attach = is_mirror || count_in == of_first.len();
        if may_attach && of_first.len() <= self.start.members {
            ops.extend(free.iter().map(|disk| Op::Attach(*disk)));
        }
        if of_first.len() + self.start.disks_beside() == members.len() {
            ops.extend(free.iter().map(|disk| Op::Add(*disk)));
        }
        for member in of_first {
            let is_in = member.state == MemberState::Online;
            let may_leave = !is_in || count_in > needed;
            if is_mirror && may_leave {
                ops.push(Op::Detach(member.disk));
            }
            if matches!(member.state, MemberState::Online | MemberState::Stale) && may_leave {
                ops.push(Op::Offline(member.disk));
            }
            if matches!(member.state, MemberState::Offline | MemberState::Stale)
                && self.present[member.disk]
            {
                ops.push(Op::Online(member.disk));
            }
            if is_mirror || may_leave {
                let replaced = |new: &usize| Op::Replace(member.disk, *new);
                ops.extend(free.iter().map(replaced));
            }
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

    /// Tries each operation that the pool must refuse: to take a member offline that the vdev needs, to detach it, and to
    /// bring a member online whose disk is missing. Returns their number. Fails with an operation that is not refused.
    pub(super) async fn refusals(&mut self) -> Result<u64, Violation> {
        let Some(pool) = self.pool.clone() else {
            return Ok(0);
        };
        let members = self.members();
        let tested = self.start.vdev();
        let of_first: Vec<_> = members.iter().filter(|m| m.vdev == tested).collect();
        let all_in = of_first.iter().filter(|m| m.state == MemberState::Online);
        let all_in: Vec<_> = all_in.collect();
        let mut refused = 0;
        if let [last, ..] = all_in[..]
            && all_in.len() == self.start.needed(of_first.len())
        {
            let (pool, guid) = (pool.clone(), last.guid);
            let leave = async move {
                let vdevs = pool.vdevs();
                [vdevs.offline(guid).await, vdevs.detach(guid).await]
            };
            let tried = self.node.spawn(leave);
            for done in tried.await.expect("it has power") {
                let is_refused = match done {
                    Err(SetupError::LastMember { .. }) => true,
                    Err(SetupError::FixedMembers { .. }) => !self.start.is_mirror(),
                    _ => false,
                };
                if !is_refused {
                    let text = format!("a member that is needed may leave: {last:?}: {done:?}");
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
