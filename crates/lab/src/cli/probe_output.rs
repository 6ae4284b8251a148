//! Output of the probes.

use crate::terminal::print;
use crate::{Error, Result};
use serde::Serialize;

/// Whether each line of a running probe is printed.
pub(super) fn is_live(quiet: bool, json: bool) -> bool {
    !quiet && !json
}

/// Prints one line. A reader that exits early ends nothing: the summary meets the same end.
pub(super) fn say(line: &str) {
    let line = io::printable::printable(line);
    let _ = print(&format!("{line}\n"));
}

/// Prints a result as JSON, or as the text that `text` makes.
pub(super) fn deliver<T: Serialize>(
    result: &T,
    json: bool,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if !json {
        return print(&text());
    }
    let text = serde_json::to_string_pretty(result).map_err(|e| Error::Status(e.to_string()))?;
    print(&(io::printable::json(&text).into_owned() + "\n"))
}
