//! Commands that the initiator has no call for.
//!
//! **Called by** users who know more of SCSI than it does. **Invariants**: a command whose connection broke before its
//! answer is not sent again, since nobody here knows what that would do.

use super::commands::Cdb;
use super::error::{Error, Result};
use super::limits::ANSWER_MAX;
use super::tasks::{Data, Replay};
use super::unit::Unit;

fn padded(cdb: &[u8]) -> Result<Cdb> {
    let mut whole = Cdb::default();
    let part = whole.get_mut(..cdb.len());
    part.ok_or(Error::Invalid("a CDB has 16 bytes at most"))?
        .copy_from_slice(cdb);
    Ok(whole)
}

impl Unit {
    /// Sends a CDB of at most 16 bytes, and gives back what it returned: [`ANSWER_MAX`] bytes at most.
    ///
    /// # Errors
    /// `Invalid` for a CDB that is too long; those of the unit and of the connection.
    pub async fn command_in(&self, cdb: &[u8]) -> Result<Vec<u8>> {
        self.ask(padded(cdb)?, ANSWER_MAX).await
    }

    /// Sends a CDB of at most 16 bytes with its parameter list.
    ///
    /// # Errors
    /// As [`Unit::command_in`].
    pub async fn command_out(&self, cdb: &[u8], list: &[u8]) -> Result<()> {
        self.command(padded(cdb)?, Data::Small(list.into()), Replay::No)
            .await
    }
}
