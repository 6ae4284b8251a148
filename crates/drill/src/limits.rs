//! The named limits of this crate.

use std::time::Duration;

/// Most events of a timeline; later ones are counted only.
pub(crate) const EVENTS_MAX: usize = 4096;
/// Width of one step of the timeline.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// Most steps; later answers are counted in the last one.
pub(crate) const STEPS_MAX: usize = 10 * 24 * 3600;
/// Shortest pause that is kept.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Most pauses kept.
pub(crate) const PAUSES_MAX: usize = 4096;
/// Most wrong blocks and failed commands described one by one.
pub(crate) const TOLD_MAX: usize = 16;
/// Wait of a writer after a failed command.
pub(crate) const FAILED_WAIT: Duration = Duration::from_millis(20);
/// Interval at which the drill looks at its own state.
pub(crate) const POLL: Duration = Duration::from_millis(2);
/// Bytes that the relay holds for each direction of a connection.
pub(crate) const RELAY_BUFFER: usize = 64 << 10;
/// Wait for answers that were sent before a disturbance ended.
pub(crate) const SETTLE: Duration = Duration::from_millis(200);
/// Shortest calm time around a disturbance.
pub(crate) const CALM_MIN: Duration = Duration::from_millis(250);
/// Most time for a session that was closed to end, and for commands in flight to be answered.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(60);
