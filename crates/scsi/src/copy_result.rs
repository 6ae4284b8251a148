//! Results of copies, kept for RECEIVE COPY RESULTS (SPC-4 6.20 to 6.26).
//!
//! **Called by** EXTENDED COPY, which makes them, by the unit, which keeps them, and by the commands that report them.

use crate::nexus::NexusId;

/// State of a copy.
#[derive(Debug, Clone)]
pub(crate) enum CopyState {
    /// In progress.
    Running,
    /// Everything was copied.
    Completed,
    /// It ended with this sense data.
    Failed(Vec<u8>),
}

impl CopyState {
    /// COPY MANAGER STATUS (SPC-4 6.23).
    pub(crate) fn lid1(&self) -> u8 {
        match self {
            CopyState::Running => 0,
            CopyState::Completed => 1,
            CopyState::Failed(_) => 2,
        }
    }

    /// COPY OPERATION STATUS (SPC-4 6.24).
    pub(crate) fn lid4(&self) -> u8 {
        match self {
            CopyState::Running => 0x10,
            CopyState::Completed => 1,
            CopyState::Failed(_) => 2,
        }
    }

    /// Sense data of a failed copy.
    pub(crate) fn sense(&self) -> Option<&[u8]> {
        match self {
            CopyState::Failed(sense) => Some(sense),
            CopyState::Running | CopyState::Completed => None,
        }
    }
}

/// The result of a copy so far.
#[derive(Debug, Clone)]
pub(crate) struct CopyResult {
    pub(crate) nexus: NexusId,
    pub(crate) list: u32,
    pub(crate) segments: u16,
    pub(crate) bytes: u64,
    pub(crate) state: CopyState,
}

impl CopyResult {
    /// Whether it has the same nexus and list identifier.
    pub(crate) fn is_of(&self, other: &CopyResult) -> bool {
        (self.nexus, self.list) == (other.nexus, other.list)
    }

    /// Whether the copy is in progress.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, CopyState::Running)
    }
}
