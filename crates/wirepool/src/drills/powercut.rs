//! The drill `powercut`: SIGKILL of a server of the drill's own, and the loss of writes that no flush covered.
//!
//! **Owns** the replay of the server's recording. **Called by** drills. **Invariants**: only disks that the drill made are changed,
//! and only while no process has them locked; every second cut loses all unflushed writes, the others leave each of them in full,
//! in some sectors, or not at all.

use super::kill::{failed, restart};
use super::own::{DISKS, OwnServer};
use anyhow::{Context, Result};
use cuts::medium::{Medium, Write};
use cuts::recording::Recording;
use drill::{Disturbance, Layer, Relay, Timeline};
use io::rng::Prng;
use server::ByteSize;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The disks of a server as a power cut leaves them.
pub(super) struct Power {
    recording: Recording,
    rng: Prng,
    cuts: u64,
}

impl Power {
    /// For a server that records, and whose disks of this size were zeroes when it started for the first time.
    ///
    /// # Errors
    /// The files for the replay cannot be made.
    pub(super) fn new(server: &OwnServer, size: ByteSize, seed: u64) -> Result<Power> {
        let mut disks = Vec::new();
        for disk in DISKS {
            let path = server.path(&format!("{disk}.stable"));
            let medium = Medium::create(&path, size.0);
            disks.push((
                server.path(disk),
                medium.with_context(|| path.display().to_string())?,
            ));
        }
        Ok(Power {
            recording: Recording::new(disks),
            rng: Prng::new(seed),
            cuts: 0,
        })
    }

    /// Carries out the power cut on the disks of a server that was killed. Returns the number of unflushed writes.
    fn cut(&mut self, server: &OwnServer) -> Result<usize> {
        let record = server.record();
        let bytes = std::fs::read(&record).context("the recording of the disks")?;
        self.recording.to_end(&bytes);
        self.cuts += 1;
        let all_are_lost = self.cuts % 2 == 1;
        let mut count = 0;
        for image in self.recording.images() {
            let pending: Vec<&Write> = image.pending().collect();
            count += pending.len();
            if !all_are_lost {
                // The next recording starts with this outcome, so it is not undone.
                let _final = image.medium().cut(pending.iter().copied(), &mut self.rng)?;
            }
            let disk = File::options().write(true).open(image.path())?;
            // Operations of the killed server end before its lock does.
            disk.lock().context("the lock of a disk")?;
            for write in pending {
                let stable = image.medium().read(write.offset, write.bytes.len())?;
                disk.write_all_at(&stable, write.offset)?;
            }
        }
        self.recording.restart();
        std::fs::remove_file(&record).context("the recording of the disks")?;
        Ok(count)
    }
}

/// One power cut.
pub(super) struct PowerCut {
    pub(super) server: Rc<RefCell<OwnServer>>,
    pub(super) power: Rc<RefCell<Power>>,
    pub(super) relay: Rc<Relay>,
    pub(super) timeline: Arc<Timeline>,
    pub(super) dead: Duration,
}

impl Disturbance for PowerCut {
    fn name(&self) -> String {
        "power cut".to_owned()
    }

    fn length(&self) -> Duration {
        self.dead
    }

    fn loses_server(&self) -> bool {
        true
    }

    async fn begin(&self) -> drill::Result<()> {
        let mut server = self.server.borrow_mut();
        server.kill().map_err(failed)?;
        let count = self.power.borrow_mut().cut(&server).map_err(failed)?;
        self.timeline.note(Layer::Server, "power cut");
        let text = format!("{count} writes that no flush covered are lost, torn or kept");
        self.timeline.note(Layer::Device, text);
        Ok(())
    }

    async fn end(&self) -> drill::Result<()> {
        restart(&self.server, &self.relay, &self.timeline).await
    }
}
