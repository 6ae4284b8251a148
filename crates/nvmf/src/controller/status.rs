//! Completions: the status of a storage error, and the results of commands.
//!
//! **Owns** the one mapping from [`StorageError`] to NVMe status, and [`Completion`].
//! **Invariants**: the mapping has no catch-all, so that a new error must be given its status; a completion that
//! promises stable storage is made from a [`Durable`] and in no other way.

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

/// The status and result of a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) status: Status,
    /// DW1:DW0.
    pub(crate) result: u64,
}

impl Completion {
    /// Success that promises nothing about stable storage.
    pub(crate) const SUCCESS: Completion = Completion::with_result(0);

    /// Success with DW1:DW0.
    pub(crate) const fn with_result(result: u64) -> Completion {
        Completion {
            status: Status::SUCCESS,
            result,
        }
    }

    /// Success of a Flush or of a command with FUA: consumes the proof.
    pub(crate) fn durable(proof: Durable) -> Completion {
        let _ = proof;
        Completion::SUCCESS
    }

    /// Failure.
    pub(crate) fn failed(status: Status) -> Completion {
        Completion::failed_with(status, 0)
    }

    /// Failure with DW1:DW0.
    pub(crate) fn failed_with(status: Status, result: u64) -> Completion {
        debug_assert!(!status.is_success(), "a failure has a status of its own");
        Completion { status, result }
    }

    /// A backend's answer that promises stable storage.
    pub(crate) fn of_durable(result: backend::Result<Durable>) -> Completion {
        match result {
            Ok(proof) => Completion::durable(proof),
            Err(e) => Completion::failed(of_storage(e)),
        }
    }

    /// A backend's answer that promises nothing about stable storage.
    pub(crate) fn of_plain(result: backend::Result<()>) -> Completion {
        match result {
            Ok(()) => Completion::SUCCESS,
            Err(e) => Completion::failed(of_storage(e)),
        }
    }
}
