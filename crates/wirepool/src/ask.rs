//! One request of a command, and the form of its answer.
//!
//! **Owns** the choice between text and JSON. **Called by** all commands that ask a server. **Invariants**: JSON is exact; control
//! characters are escaped in both.

use crate::client::Client;
use anyhow::Result;
use serde::Serialize;
use server::api::Call;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// The server, and the form of answers.
pub(crate) struct Ask {
    pub(crate) client: Client,
    pub(crate) json: bool,
}

impl Ask {
    /// Asks the server at this control socket.
    pub(crate) fn new(control: Option<PathBuf>, json: bool) -> Ask {
        Ask {
            client: Client::new(control, json),
            json,
        }
    }

    /// Sends a request and formats the answer.
    pub(crate) fn show<C: Call>(
        &self,
        call: &C,
        text: impl FnOnce(&C::Reply) -> String,
    ) -> Result<String> {
        let reply = self.client.ask(call)?;
        self.print(&reply, text)
    }

    /// One part of a continuous output: JSON has one line for it.
    pub(crate) fn line<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<String> {
        if self.json {
            return Ok(exact(&serde_json::to_string(value)?));
        }
        Ok(text(value))
    }

    pub(crate) fn print<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<String> {
        if self.json {
            return Ok(exact(&serde_json::to_string_pretty(value)?));
        }
        Ok(text(value))
    }
}

/// JSON output: exact, and with control characters escaped.
pub(crate) fn exact(json: &str) -> String {
    io::printable::json(json).into_owned() + "\n"
}

/// Prints whole lines to stdout; a reader that exits early (`| head`) is not an error. Control characters of a
/// terminal are escaped here at the latest; fields passed [`io::printable::printable`] before they became part of a
/// line.
pub(crate) fn print(text: &str) -> Result<()> {
    write(&io::printable::printable_lines(text))
}

/// As [`print()`], for rows of columns that tabs separate. A tab inside a column was escaped when the row was composed.
pub(crate) fn print_columns(text: &str) -> Result<()> {
    write(&io::printable::printable_columns(text))
}

fn write(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}
