//! SCSI pass-through: arbitrary CDBs.
//!
//! **Called by** users that need a command without a typed call. **Invariants**: a command whose connection broke before its
//! answer is not sent again, because its effect is unknown here.

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
    /// Sends a CDB of at most 16 bytes. Returns the data of the answer, at most [`ANSWER_MAX`] bytes.
    ///
    /// # Errors
    /// `Invalid` if the CDB is too long; errors of the unit and of the connection.
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
