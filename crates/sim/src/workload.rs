//! What clients do: seeded requests on overlapping extents, each told to the model before and after.

use crate::access::{Access, Failure};
use crate::model::{Model, WriteEnd};
use io::rng::Prng;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// The failures that the faults of a run explain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Media errors.
    pub media: bool,
    /// A full medium.
    pub no_space: bool,
    /// Servers or connections that go away.
    pub gone: bool,
}

/// How one client behaves.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Requests of one job.
    pub requests: u32,
    /// Largest extent, blocks.
    pub blocks_max: u64,
    /// Where most extents begin.
    pub hot: Range<u64>,
    /// Longest pause between two requests of one job.
    pub pause: Duration,
    /// Failures that are no violations.
    pub expected: Expected,
}

/// Blocks that one compare is about.
const COMPARE_BLOCKS_MAX: u64 = 4;

/// One sequence of requests.
pub struct Job<A> {
    access: A,
    model: Rc<RefCell<Model>>,
    rng: Prng,
    profile: Profile,
}

impl<A: Access> Job<A> {
    /// A job with its own randomness.
    pub fn new(access: A, model: Rc<RefCell<Model>>, seed: u64, profile: Profile) -> Job<A> {
        Job {
            access,
            model,
            rng: Prng::new(seed),
            profile,
        }
    }

    /// Runs all requests, or until something went wrong or the disk is gone.
    pub async fn run(mut self) {
        for _ in 0..self.profile.requests {
            if self.model.borrow().violation().is_some() {
                return;
            }
            let pause = self.rng.below(self.profile.pause.as_nanos() as u64 + 1);
            if pause > 0 && self.rng.chance(0.3) {
                io::time::sleep(Duration::from_nanos(pause)).await;
            }
            match self.one().await {
                Ok(()) | Err(Failure::Miscompare | Failure::NotNow | Failure::OutOfRange) => {}
                Err(Failure::Media) if self.profile.expected.media => {}
                Err(Failure::NoSpace) if self.profile.expected.no_space => {}
                Err(Failure::Gone | Failure::Unknown) if self.profile.expected.gone => return,
                Err(f) => self
                    .model
                    .borrow_mut()
                    .blame(format!("a request failed without a reason: {f:?}")),
            }
        }
    }

    fn extent(&mut self, most: u64) -> Range<u64> {
        let len = self.model.borrow().len();
        let hot = &self.profile.hot;
        let start = match self.rng.below(8) {
            0 => self.rng.below(len),
            _ => hot.start + self.rng.below(hot.end - hot.start),
        };
        let most = most.min(self.profile.blocks_max);
        let blocks = match self.rng.below(4) {
            0 => 1,
            1 => 1 + self.rng.below(most),
            _ => 1 + self.rng.below(most.min(8)),
        };
        start..(start + blocks).min(len)
    }

    async fn one(&mut self) -> Result<(), Failure> {
        let most = self.profile.blocks_max;
        match self.rng.below(100) {
            0..=29 => {
                let at = self.extent(most);
                self.read(at).await
            }
            30..=59 => {
                let (at, fua) = (self.extent(most), self.rng.chance(0.25));
                self.write(at, fua).await
            }
            60..=67 => self.flush().await,
            68..=75 => {
                let at = self.extent(most);
                self.zero(at).await
            }
            76..=81 => {
                let at = self.extent(most);
                self.deallocate(at).await
            }
            82..=87 => {
                let at = self.extent(COMPARE_BLOCKS_MAX);
                self.compare(at).await
            }
            _ => {
                let at = self.extent(COMPARE_BLOCKS_MAX);
                self.compare_and_write(at).await
            }
        }
    }

    async fn read(&mut self, at: Range<u64>) -> Result<(), Failure> {
        self.read_bytes(at).await.map(drop)
    }

    async fn read_bytes(&mut self, at: Range<u64>) -> Result<Vec<u8>, Failure> {
        let token = self.model.borrow_mut().begin_read();
        let answer = self.access.read(at.start, at.end - at.start).await;
        let mut model = self.model.borrow_mut();
        match &answer {
            Ok(bytes) => model.end_read(&token, at.start, bytes),
            Err(_) => model.end_failed_read(&token),
        }
        answer
    }

    async fn write(&mut self, at: Range<u64>, fua: bool) -> Result<(), Failure> {
        let token = self.model.borrow_mut().begin_write(at.clone(), false);
        let data = self.model.borrow().content(&token);
        let answer = self.access.write(at.start, &data, fua).await;
        let done = if fua {
            WriteEnd::Durable
        } else {
            WriteEnd::Done
        };
        self.model
            .borrow_mut()
            .end_write(&token, ended(answer, done));
        answer
    }

    async fn zero(&mut self, at: Range<u64>) -> Result<(), Failure> {
        let token = self.model.borrow_mut().begin_write(at.clone(), true);
        let deallocate = self.rng.chance(0.5);
        let answer = self
            .access
            .write_zeroes(at.start, at.end - at.start, deallocate)
            .await;
        self.model
            .borrow_mut()
            .end_write(&token, ended(answer, WriteEnd::Done));
        answer
    }

    async fn deallocate(&mut self, at: Range<u64>) -> Result<(), Failure> {
        let token = self.model.borrow_mut().begin_write(at.clone(), true);
        let answer = self.access.deallocate(at.start, at.end - at.start).await;
        self.model
            .borrow_mut()
            .end_write(&token, ended(answer, WriteEnd::Hint));
        answer
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        let token = self.model.borrow_mut().begin_flush();
        let answer = self.access.flush().await;
        if answer.is_ok() {
            self.model.borrow_mut().end_flush(&token);
        }
        answer
    }

    /// What a read finds, or now and then something that is not there.
    async fn guess(&mut self, at: Range<u64>) -> Result<Vec<u8>, Failure> {
        let mut guess = self.read_bytes(at).await?;
        if self.rng.chance(0.2) {
            let i = self.rng.below(guess.len() as u64) as usize;
            guess[i] ^= 1;
        }
        Ok(guess)
    }

    async fn compare(&mut self, at: Range<u64>) -> Result<(), Failure> {
        let guess = self.guess(at.clone()).await?;
        let token = self.model.borrow_mut().begin_read();
        let answer = self.access.compare(at.start, &guess).await;
        let mut model = self.model.borrow_mut();
        match answer {
            // Equal: as good as a read of the same.
            Ok(()) => model.end_read(&token, at.start, &guess),
            Err(_) => model.end_failed_read(&token),
        }
        answer
    }

    async fn compare_and_write(&mut self, at: Range<u64>) -> Result<(), Failure> {
        let guess = self.guess(at.clone()).await?;
        let mut model = self.model.borrow_mut();
        let (read, write) = (model.begin_read(), model.begin_write(at.clone(), false));
        let data = model.content(&write);
        drop(model);
        let answer = self.access.compare_and_write(at.start, &guess, &data).await;
        let mut model = self.model.borrow_mut();
        match answer {
            Ok(()) => model.end_compare_and_write(&read, at.start, &guess, &write),
            Err(f) => {
                model.end_failed_read(&read);
                model.end_write(&write, f.of_write());
            }
        }
        answer
    }
}

fn ended(answer: Result<(), Failure>, done: WriteEnd) -> WriteEnd {
    answer.map_or_else(Failure::of_write, |()| done)
}

/// Reads the whole disk and tells the model, in pieces of `blocks_max`.
pub async fn verify_all<A: Access>(access: &A, model: &Rc<RefCell<Model>>, blocks_max: u64) {
    let len = model.borrow().len();
    let mut at = 0;
    while at < len {
        let n = blocks_max.min(len - at);
        let token = model.borrow_mut().begin_read();
        match access.read(at, n).await {
            Ok(bytes) => model.borrow_mut().end_read(&token, at, &bytes),
            Err(f) => {
                model.borrow_mut().end_failed_read(&token);
                model
                    .borrow_mut()
                    .blame(format!("without faults, reading block {at} failed: {f:?}"));
            }
        }
        at += n;
    }
}
