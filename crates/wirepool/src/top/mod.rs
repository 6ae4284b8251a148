//! `wirepool top`: live tables of pools, devices, exports and sessions.
//!
//! [`reading`] has the server's answers at one time; [`rows`] makes tables of two readings; [`state`] has the state of the screen and
//! the effect of keys; [`view`] draws it; [`screen`] is the terminal. **Owns** the command's arguments and its output without a terminal. **Called by** the commands.
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
use crate::pools::usage;
use anyhow::{Result, bail};
use clap::Args;
use reading::Reading;
use std::io::IsTerminal;
use std::time::Duration;

/// Bounds of the interval between two readings, seconds.
const INTERVAL_SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

const HELP: &str = "\
Keys: 1 to 4 or Tab choose a table; < and > or a capital letter choose the column to sort by, r reverses; / filters; arrows,
j, k, PgUp and PgDn scroll; d sets the interval; ? lists all keys; q quits.

Examples:
  wirepool top -d 1                    a reading every second
  wirepool top --once                  plain tables, for a pipe or a log
  wirepool top --once --json           the same for programs";

/// Show pools, devices, exports and sessions live.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct TopArgs {
    /// Seconds between two readings.
    #[arg(short = 'd', long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
    /// Print the tables once, with the rates of one interval, and exit.
    #[arg(long)]
    once: bool,
}

/// An interval between readings, from text in seconds.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    match INTERVAL_SECONDS.contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("the interval must be 0.1 to 3600 seconds".into()),
    }
}

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
