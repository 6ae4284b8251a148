//! Stateids: names of states for clients, the errors of using them, and the requests that brought delegations.
//!
//! **Owns** [`Stateid`], [`StateError`] and [`Origin`]. **Called by** the table, and by the protocols, which have them on the
//! wire. **Invariants**: a value with a meaning of its own names no state.

/// Names an open, the locks of one lock owner on a file, or a delegation (RFC 8881, section 8.2): 16 bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stateid {
    /// Number of changes of the state; 0 for the present one.
    pub seqid: u32,
    /// The state.
    pub other: [u8; 12],
}

impl Stateid {
    /// The anonymous stateid (§8.2.3).
    pub const ANONYMOUS: Self = Self {
        seqid: 0,
        other: [0; 12],
    };
    /// The READ bypass stateid (§8.2.3).
    pub const BYPASS: Self = Self {
        seqid: u32::MAX,
        other: [0xff; 12],
    };
    /// The current stateid (§8.2.3).
    pub const CURRENT: Self = Self {
        seqid: 1,
        other: [0; 12],
    };
    /// A stateid that is never valid: the result of CLOSE (§8.2.3).
    pub const INVALID: Self = Self {
        seqid: u32::MAX,
        other: [0; 12],
    };

    /// Whether it has one of the values with a meaning of their own.
    #[must_use]
    pub fn is_special(&self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }
}

/// Why a state was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// A delegation was not returned in time.
    Recall,
    /// The administrator ended it: the export is gone, or denied to the host.
    Admin,
}

/// Why a stateid cannot be used. A protocol has a status of its own for each (§8.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It names no state of this client, of this file, or of the kind that the operation needs.
    #[error("the stateid names no such state of this client")]
    Unknown,
    /// It was given out before the server's restart.
    #[error("the stateid is one of before the server's restart")]
    Stale,
    /// The state has changed since.
    #[error("the state has changed since the stateid was given out")]
    Old,
    /// The state was revoked.
    #[error("the state was revoked")]
    Revoked(Revocation),
    /// The file is not open, or not delegated, for this use.
    #[error("the file is not open for this use")]
    Mode,
    /// Access and deny are no union of earlier opens of the owner.
    #[error("access and deny are no union of opens of the owner")]
    NoUnion,
    /// An open, a delegation, or a lock owner with locks cannot be freed.
    #[error("the state is in use")]
    InUse,
    /// The caller gave no hold of the file for a new open.
    #[error("no hold of the file for a new open")]
    NoHold,
}

/// The request whose reply granted a delegation: a client may see the recall before this reply (§2.10.6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The session.
    pub session: [u8; 16],
    /// The sequence number of the request.
    pub sequence: u32,
    /// Its slot.
    pub slot: u32,
}
