//! Command line of `wirepool top`.

use clap::Args;
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
    pub(crate) interval: Duration,
    /// Print the tables once, with the rates of one interval, and exit.
    #[arg(long)]
    pub(crate) once: bool,
}

/// An interval between readings, from text in seconds.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    match INTERVAL_SECONDS.contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("the interval must be 0.1 to 3600 seconds".into()),
    }
}
