//! Operations on the members of a mirror or raidz.
//!
//! **Owns** the operations and their text form. **Called by** the search. A disk is named by its number.

use std::fmt;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The operator takes a member offline.
    Offline(usize),
    /// The operator brings an offline or stale member online, and it is resilvered.
    Online(usize),
    /// The server restarts without the disk.
    Vanish(usize),
    /// The server restarts, and the disk is present again.
    Return(usize),
    /// A free disk, new or a former member, becomes a stale member of the mirror. A raidz is expanded by it.
    Attach(usize),
    /// A member is detached for good.
    Detach(usize),
    /// A free disk (the second) replaces a member (the first).
    Replace(usize, usize),
    /// A free disk becomes a second vdev.
    Add(usize),
    /// All disks grow, and the first vdev uses the new space.
    Grow,
    /// Every record is written again, durably.
    Write,
    /// The server stops in order and starts again.
    Restart,
}

impl Op {
    /// A number for each kind of operation.
    pub(crate) fn kind(self) -> u8 {
        match self {
            Op::Offline(_) => 0,
            Op::Online(_) => 1,
            Op::Vanish(_) => 2,
            Op::Return(_) => 3,
            Op::Attach(_) => 4,
            Op::Detach(_) => 5,
            Op::Replace(..) => 6,
            Op::Add(_) => 7,
            Op::Grow => 8,
            Op::Write => 9,
            Op::Restart => 10,
        }
    }

    /// Its kind and the disks that it names; zero for none.
    pub(super) fn numbers(self) -> (u8, usize, usize) {
        let (a, b) = match self {
            Op::Offline(n) | Op::Online(n) | Op::Vanish(n) | Op::Return(n) => (n, 0),
            Op::Attach(n) | Op::Detach(n) | Op::Add(n) => (n, 0),
            Op::Replace(old, new) => (old, new),
            Op::Grow | Op::Write | Op::Restart => (0, 0),
        };
        (self.kind(), a, b)
    }

    /// The operation of [`Op::numbers`].
    pub(super) fn of_numbers(kind: usize, a: usize, b: usize) -> Option<Op> {
        Some(match kind {
            0 => Op::Offline(a),
            1 => Op::Online(a),
            2 => Op::Vanish(a),
            3 => Op::Return(a),
            4 => Op::Attach(a),
            5 => Op::Detach(a),
            6 => Op::Replace(a, b),
            7 => Op::Add(a),
            8 => Op::Grow,
            9 => Op::Write,
            10 => Op::Restart,
            _ => return None,
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Offline(n) => write!(f, "offline d{n}"),
            Op::Online(n) => write!(f, "online d{n}"),
            Op::Vanish(n) => write!(f, "restart without d{n}"),
            Op::Return(n) => write!(f, "restart with d{n} back"),
            Op::Attach(n) => write!(f, "attach d{n}"),
            Op::Detach(n) => write!(f, "detach d{n}"),
            Op::Replace(old, new) => write!(f, "replace d{old} d{new}"),
            Op::Add(n) => write!(f, "add d{n}"),
            Op::Grow => write!(f, "grow"),
            Op::Write => write!(f, "write"),
            Op::Restart => write!(f, "restart"),
        }
    }
}
