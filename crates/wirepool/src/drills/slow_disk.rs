//! The drill `slow-disk`: one disk of a mirror of the drill's own answers late.
//!
//! **Called by** drills. **Invariants**: only a server that the drill started delays its disks.

use super::kill::failed;
use super::own::{DISKS, OwnServer};
use crate::rehearsal;
use drill::{Disturbance, Layer, Result, Timeline};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Delays of each operation, in this order and from the start again: below the time after which a pool faults a disk as hung.
const DELAYS: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(200),
    Duration::from_secs(2),
];
/// A slow stretch for each stretch of this length.
const EVERY: Duration = Duration::from_secs(10);
const TIMES: std::ops::RangeInclusive<u32> = 2..=1000;
/// Largest part of a slow stretch that one operation takes.
const PART_OF_ONE: u32 = 4;

/// Length of each slow stretch in a drill of this length, its delay, and the disk.
pub(super) fn default_times(time: Duration) -> Vec<(Duration, Duration, &'static str)> {
    let times = (time.as_millis() / EVERY.as_millis()) as u32;
    let times = times.clamp(*TIMES.start(), *TIMES.end());
    let length = time / (2 * times);
    let delays = DELAYS.into_iter().cycle().zip(DISKS.into_iter().cycle());
    let delays = delays.take(times as usize);
    let slow = delays.map(|(delay, disk)| (length, delay.min(length / PART_OF_ONE), disk));
    slow.collect()
}

/// A slow stretch of one disk.
pub(super) struct Slow {
    pub(super) server: Rc<RefCell<OwnServer>>,
    pub(super) timeline: Arc<Timeline>,
    pub(super) disk: &'static str,
    pub(super) delay: Duration,
    pub(super) length: Duration,
}

impl Slow {
    fn delay(&self, delay: Duration) -> Result<()> {
        let mut server = self.server.borrow_mut();
        let path = server.path(self.disk);
        server
            .command(&rehearsal::slow(&path, delay))
            .map_err(failed)?;
        let text = match delay.is_zero() {
            true => format!("{} is as fast as before", self.disk),
            false => format!(
                "{} takes {} ms more for each operation",
                self.disk,
                delay.as_millis()
            ),
        };
        self.timeline.note(Layer::Device, text);
        Ok(())
    }
}

impl Disturbance for Slow {
    fn name(&self) -> String {
        format!("{} slow by {} ms", self.disk, self.delay.as_millis())
    }

    fn length(&self) -> Duration {
        self.length
    }

    async fn begin(&self) -> Result<()> {
        self.delay(self.delay)
    }

    async fn end(&self) -> Result<()> {
        self.delay(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_disks_are_slow_in_turn() {
        let slow = default_times(Duration::from_secs(60));
        let disks: Vec<_> = slow.iter().map(|(_, _, disk)| *disk).collect();
        assert_eq!(disks[..2], DISKS);
        assert!(slow.iter().all(|(length, delay, _)| delay < length));
    }
}
