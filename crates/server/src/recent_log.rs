//! The last lines of the log, in memory, so that the web console can show them.
//!
//! **Owns** a ring of lines. **Called by** the writer of the log, and by lists of the control API. **Invariants**: at most
//! [`LOG_LINES_MAX`] lines of [`LOG_LINE_LEN_MAX`] bytes are kept; a line is kept as it was written, without control characters. A process has
//! one log, so there is one ring.

use crate::limits::{LOG_LINE_LEN_MAX, LOG_LINES_MAX};
use io::sync::lock;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Mutex;

static RING: Mutex<Ring> = Mutex::new(Ring::new());

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LogLine {
    /// Number of the line since the process began, from 1.
    pub(crate) sequence: u64,
    /// The line, with its time and level.
    pub(crate) text: String,
}

struct Ring {
    lines: VecDeque<LogLine>,
    last: u64,
}

impl Ring {
    const fn new() -> Ring {
        Ring {
            lines: VecDeque::new(),
            last: 0,
        }
    }

    fn add(&mut self, line: &str) {
        self.last += 1;
        if self.lines.len() == LOG_LINES_MAX {
            self.lines.pop_front();
        }
        let text = match line.len() > LOG_LINE_LEN_MAX {
            true => format!("{}…", &line[..line.floor_char_boundary(LOG_LINE_LEN_MAX)]),
            false => line.to_owned(),
        };
        self.lines.push_back(LogLine {
            sequence: self.last,
            text,
        });
    }
}

/// Keeps a line of the log that was written, without its line end.
pub fn keep(line: &str) {
    lock(&RING).add(line);
}

/// The lines that are kept, newest first.
pub(crate) fn newest_first() -> Vec<LogLine> {
    lock(&RING).lines.iter().rev().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_cut() {
        let mut ring = Ring::new();
        for n in 1..=LOG_LINES_MAX + 7 {
            ring.add(&format!("line {n}"));
        }
        ring.add(&"ä".repeat(LOG_LINE_LEN_MAX));
        assert_eq!(ring.lines.len(), LOG_LINES_MAX);
        assert_eq!(ring.lines[0].text, "line 9");
        assert_eq!(ring.lines[0].sequence, 9);
        let last = &ring.lines[LOG_LINES_MAX - 1];
        assert_eq!(last.sequence, LOG_LINES_MAX as u64 + 8);
        assert_eq!(last.text.chars().count(), LOG_LINE_LEN_MAX / 2 + 1);
    }
}
