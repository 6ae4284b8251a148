//! What commands are answered with: a storage error's status, and completions.
//!
//! **Owns** the one mapping from [`StorageError`] to NVMe status, and [`Completion`].
//! **Invariants**: the mapping has no catch-all, so that a new error must be given its status; a completion that
//! promises stable storage is made from a [`Durable`] and in no other way.

use crate::wire::command::Cid;
use crate::wire::status::Status;
use backend::{Durable, StorageError};

/// The status of a command that the backend refused or failed (Base figures 94 to 97, NVM figures 15 to 17).
#[must_use]
pub fn of_storage(e: StorageError) -> Status {
    match e {
        StorageError::OutOfRange => Status::LBA_OUT_OF_RANGE.dnr(),
        StorageError::ReadOnly => Status::WRITE_PROTECTED.dnr(),
        StorageError::NoSpace => Status::CAPACITY_EXCEEDED.dnr(),
        StorageError::MediaRead => Status::UNRECOVERED_READ.dnr(),
        StorageError::MediaWrite => Status::WRITE_FAULT.dnr(),
        StorageError::Corrupt => Status::GUARD_CHECK.dnr(),
        StorageError::Offline => Status::NAMESPACE_NOT_READY,
        StorageError::Exhausted => Status::COMMAND_INTERRUPTED,
        StorageError::Aborted => Status::ABORT_REQUESTED,
        StorageError::Miscompare(_) => Status::COMPARE_FAILURE.dnr(),
        StorageError::Unsupported => Status::INVALID_OPCODE.dnr(),
    }
}

/// How a command ended: what becomes of it on the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) cid: Cid,
    pub(crate) status: Status,
    pub(crate) result: u64,
}

impl Completion {
    /// Success that promises nothing about stable storage.
    pub(crate) fn success(cid: Cid) -> Completion {
        Completion {
            cid,
            status: Status::SUCCESS,
            result: 0,
        }
    }

    /// Success with DW1:DW0.
    pub(crate) fn with_result(cid: Cid, result: u64) -> Completion {
        Completion {
            cid,
            status: Status::SUCCESS,
            result,
        }
    }

    /// Success of a Flush or of a command with FUA: consumes the proof.
    pub(crate) fn durable(cid: Cid, proof: Durable) -> Completion {
        let _ = proof;
        Completion {
            cid,
            status: Status::SUCCESS,
            result: 0,
        }
    }

    /// Failure.
    pub(crate) fn failed(cid: Cid, status: Status) -> Completion {
        debug_assert!(!status.is_success(), "a failure has a status of its own");
        Completion {
            cid,
            status,
            result: 0,
        }
    }

    /// A backend's answer that promises stable storage.
    pub(crate) fn of_durable(cid: Cid, result: backend::Result<Durable>) -> Completion {
        match result {
            Ok(proof) => Completion::durable(cid, proof),
            Err(e) => Completion::failed(cid, of_storage(e)),
        }
    }

    /// A backend's answer that promises nothing about stable storage.
    pub(crate) fn of_plain(cid: Cid, result: backend::Result<()>) -> Completion {
        match result {
            Ok(()) => Completion::success(cid),
            Err(e) => Completion::failed(cid, of_storage(e)),
        }
    }
}
