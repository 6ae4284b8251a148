//! `wirepool top`: live tables of pools, devices, exports and sessions.
//!
//! [`reading`] has the server's answers at one time; [`rows`] makes tables of two readings; [`state`] has the state of the screen and
//! the effect of keys; [`view`] draws it; [`screen`] is the terminal. **Owns** the command's output without a terminal. **Called by** the commands.
//! **Invariants**: tables, keys and drawing need no terminal and no server, and are tested without; every text of a cell is
//! printable before it is shown; a screen lays out only the rows that fit it.

mod reading;
mod rows;
mod screen;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod view;

use crate::ask::{Ask, exact};
use crate::cli::top::TopArgs;
use crate::pools::usage;
use anyhow::{Result, bail};
use reading::Reading;
use std::io::IsTerminal;
use std::time::Duration;

/// Runs the command; returns its output, if it does not need the terminal.
pub(crate) fn run(ask: Ask, args: &TopArgs) -> Result<String> {
    if args.once {
        return once(&ask, args.interval);
    }
    if ask.json {
        usage("--json needs --once");
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!("`top` needs a terminal: use `wirepool top --once` for plain tables");
    }
    screen::run(ask.client, args.interval)?;
    Ok(String::new())
}

fn once(ask: &Ask, interval: Duration) -> Result<String> {
    let before = Reading::take(&ask.client)?;
    std::thread::sleep(interval);
    let now = Reading::take(&ask.client)?;
    let all = rows::all(Some(&before), &now);
    match ask.json {
        true => Ok(exact(&serde_json::to_string_pretty(&all)?)),
        false => Ok(all.text()),
    }
}
