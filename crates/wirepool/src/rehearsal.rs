//! Commands of a drill to the server that it started.
//!
//! **Owns** their form: lines `slow MILLISECONDS PATH` and `lose PATH` on stdin. **Called by** `serve --rehearsal`, which follows them, and
//! by drills, which write them. **Invariants**: the server ends when stdin does, so it never outlives its drill.

use anyhow::{Context, Result};
use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

/// The line that delays every operation of a disk; zero ends the delay.
pub(crate) fn slow(disk: &Path, delay: Duration) -> String {
    format!("slow {} {}\n", delay.as_millis(), disk.display())
}

/// The line after which every operation of a disk fails, until [`slow`] with zero.
pub(crate) fn lose(disk: &Path) -> String {
    format!("lose {}\n", disk.display())
}

/// The disk and delay of a line, without a delay for a lost disk; none if it is no command.
fn parse(line: &str) -> Option<(&Path, Option<Duration>)> {
    if let Some(path) = line.strip_prefix("lose ") {
        return Some((Path::new(path), None));
    }
    let (ms, path) = line.strip_prefix("slow ")?.split_once(' ')?;
    let delay = Duration::from_millis(ms.parse().ok()?);
    Some((Path::new(path), Some(delay)))
}

/// Follows stdin on a thread of its own.
///
/// # Errors
/// No thread can be started.
pub(crate) fn listen() -> Result<()> {
    let follow = || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match parse(&line) {
                Some((disk, Some(delay))) => io::rehearsal::slow(disk, delay),
                Some((disk, None)) => io::rehearsal::lose(disk),
                None => tracing::warn!(line, "no command of a drill"),
            }
        }
        tracing::warn!("the drill has ended: this server ends with it");
        std::process::exit(1);
    };
    let thread = std::thread::Builder::new().name("rehearsal".into());
    thread
        .spawn(follow)
        .context("a thread for commands of a drill")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_parsed_as_it_was_written() {
        let (disk, delay) = (Path::new("/a disk/a.img"), Duration::from_millis(250));
        let slowed = slow(disk, delay);
        assert_eq!(parse(slowed.trim_end()), Some((disk, Some(delay))));
        assert_eq!(parse(lose(disk).trim_end()), Some((disk, None)));
        for wrong in ["", "slow", "slow x /a", "slow 1", "fast 1 /a"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
