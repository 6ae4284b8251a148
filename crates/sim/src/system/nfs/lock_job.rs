//! A job that locks ranges of a file, holds them for a while, also over restarts of the server, and unlocks them.

use super::expectations::failure;
use super::locks::RANGES;
use super::mount::{EXCLUSIVE, HeldLock, Live, SimMount, bytes_of, patiently};
use crate::workload::Expected;
use io::rng::Prng;
use io::time::sleep;
use std::rc::Rc;
use std::time::Duration;

/// Most attempts to get a lock.
const ATTEMPTS_MAX: u64 = 12;
/// Longest pause before an attempt.
const PAUSE_MAX: Duration = Duration::from_millis(300);
/// Time after which a holder looks whether it is still connected.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// See the module header.
pub(super) struct Locking {
    pub(super) who: usize,
    pub(super) mounted: Rc<SimMount>,
    pub(super) rng: Prng,
    pub(super) expected: Expected,
}

impl Locking {
    /// Runs all attempts. Ends early at a violation.
    pub(super) async fn run(mut self) {
        for _ in 0..self.rng.below(ATTEMPTS_MAX) {
            if self.mounted.share.is_wrong() {
                return;
            }
            sleep(PAUSE_MAX.mul_f64(self.rng.below(100) as f64 / 100.0)).await;
            let range = self.rng.below(RANGES as u64) as usize;
            if self.lock(range).await {
                self.hold().await;
                self.unlock().await;
            }
        }
    }

    /// Asks for the lock of a range. Returns whether it was granted.
    async fn lock(&self, range: usize) -> bool {
        let live = self.mounted.live().await;
        let share = &self.mounted.share;
        let (began, owner) = (share.epoch(), self.mounted.new_owner());
        let asked = live.locked.lock(&owner, bytes_of(range), EXCLUSIVE).await;
        if let Err(error) = asked {
            self.judge(&live, &error);
            return false;
        }
        let claimant = (self.who, began, Rc::downgrade(&live.session));
        let granted = share
            .locks
            .borrow_mut()
            .granted(range, claimant, share.epoch());
        match granted {
            Ok(grant) => {
                self.mounted.set_held(Some(HeldLock {
                    range,
                    grant,
                    owner: Rc::new(owner),
                    file: live.locked.handle().clone(),
                }));
                true
            }
            Err(what) => {
                share.blame(what);
                false
            }
        }
    }

    /// Keeps the lock for a while, mostly short. A session that ends meanwhile is made again.
    async fn hold(&mut self) {
        let mut left = Duration::from_millis(1 << self.rng.below(14));
        while !left.is_zero() {
            let part = left.min(LOOK_EVERY);
            sleep(part).await;
            left -= part;
            self.mounted.live().await;
        }
    }

    async fn unlock(&self) {
        let live = self.mounted.live().await;
        let Some(held) = self.mounted.held() else {
            return;
        };
        let locks = &self.mounted.share.locks;
        locks.borrow_mut().released(held.range, self.who);
        self.mounted.set_held(None);
        let unlock = async || live.locked.unlock(&held.owner, bytes_of(held.range)).await;
        if let Err(error) = patiently(unlock).await {
            self.judge(&live, &error);
        }
    }

    fn judge(&self, live: &Rc<Live>, error: &nfs_initiator::Error) {
        self.mounted.failed(live, error);
        if !self.expected.explains(failure(error)) {
            let what = format!(
                "client {}: a lock failed without a reason: {error}",
                self.who
            );
            self.mounted.share.blame(what);
        }
    }
}
