//! Memory that this process may lock for RDMA.
//!
//! **Called by** the driver, which logs the first refusal of each device, and by commands that show the state of RDMA.

use crate::linux;
use std::fmt;

/// Memory that this process may lock for RDMA, and how often that was not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockedMemory {
    /// The limit (RLIMIT_MEMLOCK), bytes; `None` if there is none.
    pub limit: Option<u64>,
    /// Registrations that were refused since the process began.
    pub refused: u64,
}

impl fmt::Display for LockedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited";
        match self.limit {
            Some(bytes) => write!(
                f,
                "the limit of locked memory is {} KiB: raise it ({remedy})",
                bytes >> 10
            ),
            None => f.write_str("the process has no limit of locked memory: look for limits of its container, and for free memory"),
        }
    }
}

/// Memory that this process may lock, and how often that was not enough.
#[must_use]
pub fn locked_memory() -> LockedMemory {
    linux::locked_memory()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_and_its_remedy_are_named() {
        let limit = Some(8 << 20);
        let small = LockedMemory { limit, refused: 1 }.to_string();
        assert!(small.contains("8192 KiB"), "{small}");
        assert!(small.contains("LimitMEMLOCK=infinity"), "{small}");
        let limit = None;
        let none = LockedMemory { limit, refused: 1 }.to_string();
        assert!(none.contains("no limit"), "{none}");
    }
}
