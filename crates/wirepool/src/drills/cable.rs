//! The drill `cable`: cuts of the relay between load and server.
//!
//! **Called by** drills. **Invariants**: only the relay's connections are cut.

use crate::cli::drill::CutArg;
use drill::{Cut, Disturbance, Relay, Result};
use std::rc::Rc;
use std::time::Duration;

/// Default cuts, in this order and from the start again: shorter and longer than the keep-alive timeout of 5 s.
const CUTS: [CutArg; 6] = [
    reset(200),
    silent(1000),
    reset(3000),
    silent(8000),
    silent(200),
    reset(8000),
];
/// Maximum number of default cuts.
const CUTS_MAX: usize = 100;
/// Largest parts of the drill's time: of one cut, and of all.
const PART_OF_ONE: u32 = 5;
const PERCENT_OF_ALL: u32 = 60;

const fn reset(ms: u64) -> CutArg {
    CutArg {
        is_reset: true,
        length: Duration::from_millis(ms),
    }
}

const fn silent(ms: u64) -> CutArg {
    CutArg {
        is_reset: false,
        length: Duration::from_millis(ms),
    }
}

/// The cuts of a drill of this length.
pub(super) fn default_cuts(time: Duration) -> Vec<CutArg> {
    let fitting = CUTS.into_iter().filter(|c| c.length <= time / PART_OF_ONE);
    let mut fitting: Vec<CutArg> = fitting.collect();
    if fitting.is_empty() {
        let length = time / PART_OF_ONE;
        fitting = [true, false]
            .map(|is_reset| CutArg { is_reset, length })
            .to_vec();
    }
    let mut left = time * PERCENT_OF_ALL / 100;
    let mut cuts = Vec::new();
    for cut in fitting.iter().cycle().take(CUTS_MAX) {
        let Some(rest) = left.checked_sub(cut.length) else {
            break;
        };
        left = rest;
        cuts.push(*cut);
    }
    cuts
}

/// A cut of the cable.
pub(super) struct CableCut {
    pub(super) relay: Rc<Relay>,
    pub(super) cut: CutArg,
}

impl Disturbance for CableCut {
    fn name(&self) -> String {
        let kind = match self.cut.is_reset {
            true => "reset",
            false => "silent",
        };
        format!("{kind} cut")
    }

    fn length(&self) -> Duration {
        self.cut.length
    }

    async fn begin(&self) -> Result<()> {
        self.relay.cut(match self.cut.is_reset {
            true => Cut::Reset,
            false => Cut::Silent,
        });
        Ok(())
    }

    async fn end(&self) -> Result<()> {
        self.relay.join();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_leave_time_for_the_load() {
        for ms in [100, 2000, 60_000, 3_600_000] {
            let time = Duration::from_millis(ms);
            let cuts = default_cuts(time);
            let all: Duration = cuts.iter().map(|c| c.length).sum();
            assert!(
                cuts.len() >= 2 && all <= time * PERCENT_OF_ALL / 100,
                "{ms}: {cuts:?}"
            );
            assert!(cuts.iter().any(|c| c.is_reset) && cuts.iter().any(|c| !c.is_reset));
        }
    }
}
