//! Object numbers, and the number of files.
//!
//! **Owns** the claim of numbers and the count. **Called by** creations and removals. **Invariants**: a number is handed out
//! only after the transaction that claims it was applied, so that none is used twice after a crash; the count is changed by
//! the transaction that adds or removes an object, in the order of those transactions. `docs/format.md`, "Header".

use std::sync::Mutex;

use backend::file::{FileError, FileResult};

use super::store::{Purpose, Store, Transaction};
use crate::format::ObjectId;
use crate::format::filesystem::{CLAIMED_END, Header, encode_files, files_key, header_key};
use io::sync::lock;

/// Numbers that one transaction claims.
const CLAIM: u64 = 1024;
/// Bytes of a transaction for the number of files.
pub(super) const COUNT_BYTES: usize = 64;

struct State {
    /// Its `next` is the end of the claimed numbers.
    header: Header,
    next: u64,
    files: u64,
}

/// The numbers of a filesystem.
pub(super) struct Numbers(Mutex<State>);

/// A change of the number of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    Same,
    More,
    Fewer,
}

impl Numbers {
    pub(super) fn new(header: Header, files: u64) -> Self {
        Self(Mutex::new(State {
            next: header.next.0,
            header,
            files,
        }))
    }

    /// Number of objects that have an inode.
    pub(super) fn files(&self) -> u64 {
        lock(&self.0).files
    }

    fn take(&self) -> Option<ObjectId> {
        let mut state = lock(&self.0);
        if state.next >= state.header.next.0 {
            return None;
        }
        state.next += 1;
        Some(ObjectId(state.next - 1))
    }

    /// A number that was never used. Errors: `NoSpace` if all numbers are used, or without space for the claim.
    pub(super) async fn claim<S: Store>(&self, store: &S) -> FileResult<ObjectId> {
        loop {
            if let Some(number) = self.take() {
                return Ok(number);
            }
            let mut transaction = Transaction::new();
            let header = lock(&self.0).header;
            transaction.put(header_key(), header.encode());
            let admitted = store.admit(transaction.bytes(), Purpose::Use).await?;
            let mut state = lock(&self.0);
            if state.next < state.header.next.0 {
                continue;
            }
            if state.header.next.0 > CLAIMED_END - CLAIM {
                return Err(FileError::NoSpace);
            }
            let mut header = state.header;
            header.next.0 += CLAIM;
            let mut transaction = Transaction::new();
            transaction.put(header_key(), header.encode());
            store.apply(transaction, admitted)?;
            state.header = header;
        }
    }

    /// Applies a transaction, with the new number of files.
    pub(super) fn apply<S: Store>(
        &self,
        store: &S,
        mut transaction: Transaction,
        admitted: S::Admitted,
        files: Files,
    ) -> FileResult<()> {
        if files == Files::Same {
            return store.apply(transaction, admitted);
        }
        let mut state = lock(&self.0);
        let count = match files {
            Files::More => state.files.saturating_add(1),
            Files::Same => state.files,
            Files::Fewer => state.files.saturating_sub(1),
        };
        transaction.put(files_key(), encode_files(count));
        store.apply(transaction, admitted)?;
        state.files = count;
        Ok(())
    }
}
