//! The drill `kill`: SIGKILL of a server of the drill's own, and its start.
//!
//! **Called by** drills. **Invariants**: only the process that the drill started is killed.

use super::own::OwnServer;
use drill::{Disturbance, Error, Layer, Relay, Result, Timeline};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Times for which the server stays dead, in this order and from the start again.
const DEAD: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(300),
    Duration::from_secs(3),
];
/// A kill for each stretch of this length.
const EVERY: Duration = Duration::from_secs(6);
const KILLS: std::ops::RangeInclusive<u32> = 2..=1000;
/// Smallest part of the drill's time for the load.
const PART_OF_ONE: u32 = 5;

/// Times for which the server stays dead in a drill of this length.
pub(super) fn default_times(time: Duration) -> Vec<Duration> {
    let kills = (time.as_millis() / EVERY.as_millis()) as u32;
    let kills = kills.clamp(*KILLS.start(), *KILLS.end());
    let all = DEAD.into_iter().cycle().take(kills as usize);
    all.map(|dead| dead.min(time / PART_OF_ONE)).collect()
}

/// One kill.
pub(super) struct Kill {
    pub(super) server: Rc<RefCell<OwnServer>>,
    pub(super) relay: Rc<Relay>,
    pub(super) timeline: Arc<Timeline>,
    pub(super) dead: Duration,
}

/// An error of a server of the drill's own.
pub(super) fn failed(error: anyhow::Error) -> Error {
    Error::Disturbance(format!("{error:#}"))
}

/// Starts the server again, and sends new connections to it.
pub(super) async fn restart(
    server: &RefCell<OwnServer>,
    relay: &Relay,
    timeline: &Timeline,
) -> Result<()> {
    let starting = server.borrow_mut().spawn().map_err(failed)?;
    let ready = io::blocking(move || starting.wait()).await;
    let ready = ready.map_err(|e| Error::Disturbance(e.to_string()))?;
    relay.set_upstream(ready.map_err(failed)?);
    timeline.note(Layer::Server, "started, and the pool is open");
    Ok(())
}

impl Disturbance for Kill {
    fn name(&self) -> String {
        "SIGKILL".to_owned()
    }

    fn length(&self) -> Duration {
        self.dead
    }

    fn loses_server(&self) -> bool {
        true
    }

    async fn begin(&self) -> Result<()> {
        self.server.borrow_mut().kill().map_err(failed)?;
        self.timeline.note(Layer::Server, "killed with SIGKILL");
        Ok(())
    }

    async fn end(&self) -> Result<()> {
        restart(&self.server, &self.relay, &self.timeline).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_drill_kills_twice() {
        assert_eq!(default_times(Duration::from_secs(1)).len(), 2);
        assert_eq!(default_times(Duration::from_secs(60)).len(), 10);
    }
}
