//! Workloads of clients: seeded requests on overlapping extents. Each is reported to the model before and after.

use crate::access::{Access, Failure};
use crate::model::{Model, Token, WriteEnd, WriteToken};
use io::rng::Prng;
use io::sim::remark;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Failures that the faults of a run explain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Media errors.
    pub media: bool,
    /// A full medium.
    pub no_space: bool,
    /// Servers, connections or disks that disappear.
    pub gone: bool,
}

impl Expected {
    /// Whether a failure is no violation.
    #[must_use]
    pub fn explains(&self, failure: Failure) -> bool {
        match failure {
            Failure::Miscompare | Failure::NotNow | Failure::OutOfRange => true,
            Failure::Media => self.media,
            Failure::NoSpace => self.no_space,
            Failure::Gone | Failure::Unknown => self.gone,
            Failure::Wrong(_) => false,
        }
    }
}

/// Behavior of one client.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Requests of one job.
    pub requests: u32,
    /// Largest extent, blocks.
    pub blocks_max: u64,
    /// Blocks in which most extents begin.
    pub hot: Range<u64>,
    /// Longest pause between two requests of one job.
    pub pause: Duration,
    /// Most blocks of a compare-and-write; zero if there are none, and writes instead.
    pub fused_max: u64,
    /// Whether blocks are zeroed and deallocated; if not, they are written instead.
    pub zeroes: bool,
    /// Whether each request covers the whole disk.
    pub whole: bool,
    /// Longest allowed time of a request that no fault delays.
    pub latency_max: Option<Duration>,
    /// Whether the disk reserves space when it acknowledges a write: a flush never fails for lack of space.
    pub reserves_space: bool,
    /// Failures that are no violations.
    pub expected: Expected,
}

/// Most blocks of one compare.
const COMPARE_BLOCKS_MAX: u64 = 4;
/// Pause of a job after its disk disappeared.
const GONE_PAUSE: Duration = Duration::from_millis(100);

/// One sequence of requests.
pub struct Job<A> {
    access: A,
    model: Rc<RefCell<Model>>,
    rng: Prng,
    profile: Profile,
}

impl<A: Access> Job<A> {
    /// Creates a job with its own random numbers.
    pub fn new(access: A, model: Rc<RefCell<Model>>, seed: u64, profile: Profile) -> Job<A> {
        Job {
            access,
            model,
            rng: Prng::new(seed),
            profile,
        }
    }

    /// Runs all requests. Ends early at a violation or if the disk is gone for good.
    pub async fn run(mut self) {
        for _ in 0..self.profile.requests {
            if self.model.borrow().violation().is_some() {
                return;
            }
            let pause = self.rng.below(self.profile.pause.as_nanos() as u64 + 1);
            if pause > 0 && self.rng.chance(0.3) {
                io::time::sleep(Duration::from_nanos(pause)).await;
            }
            let asked_at = io::time::now();
            let answer = self.one().await;
            if let Some(max) = self.profile.latency_max
                && asked_at.elapsed() > max
            {
                self.model
                    .borrow_mut()
                    .blame(format!("a request took {:?}", asked_at.elapsed()));
            }
            match answer {
                Ok(()) => {}
                Err(f) if !self.profile.expected.explains(f) => self
                    .model
                    .borrow_mut()
                    .blame(format!("a request failed without a reason: {f:?}")),
                Err(Failure::Gone | Failure::Unknown) => io::time::sleep(GONE_PAUSE).await,
                Err(_) => {}
            }
        }
    }

    fn extent(&mut self, most: u64) -> Range<u64> {
        let len = self.model.borrow().len();
        if self.profile.whole {
            return 0..len;
        }
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
            68..=81 if !self.profile.zeroes => {
                let at = self.extent(most);
                self.write(at, false).await
            }
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
            _ if self.profile.fused_max == 0 => {
                let at = self.extent(most);
                self.write(at, false).await
            }
            _ => {
                let at = self.extent(self.profile.fused_max);
                self.compare_and_write(at).await
            }
        }
    }

    async fn read(&mut self, at: Range<u64>) -> Result<(), Failure> {
        self.read_bytes(at).await.map(drop)
    }

    async fn read_bytes(&mut self, at: Range<u64>) -> Result<Vec<u8>, Failure> {
        let asked = Asked::read(&self.model);
        let answer = self.access.read(at.start, at.end - at.start).await;
        if let Ok(bytes) = &answer {
            asked.end_read(at.start, bytes);
        }
        answer
    }

    async fn write(&mut self, at: Range<u64>, fua: bool) -> Result<(), Failure> {
        let asked = Asked::write(&self.model, at.clone(), false);
        let answer = self.access.write(at.start, &asked.content(), fua).await;
        asked.end_write(
            answer,
            if fua {
                WriteEnd::Durable
            } else {
                WriteEnd::Done
            },
        );
        answer
    }

    async fn zero(&mut self, at: Range<u64>) -> Result<(), Failure> {
        let asked = Asked::write(&self.model, at.clone(), true);
        let deallocate = self.rng.chance(0.5);
        let answer = self
            .access
            .write_zeroes(at.start, at.end - at.start, deallocate)
            .await;
        asked.end_write(answer, WriteEnd::Done);
        answer
    }

    async fn deallocate(&mut self, at: Range<u64>) -> Result<(), Failure> {
        let asked = Asked::write(&self.model, at.clone(), true);
        let answer = self.access.deallocate(at.start, at.end - at.start).await;
        asked.end_write(answer, WriteEnd::Hint);
        answer
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        let token = self.model.borrow_mut().begin_flush();
        let answer = self.access.flush().await;
        match answer {
            Ok(()) => self.model.borrow_mut().end_flush(&token),
            Err(Failure::NoSpace) if self.profile.reserves_space => {
                let mut model = self.model.borrow_mut();
                model.blame("an acknowledged write has no space".into());
            }
            Err(_) => {}
        }
        answer
    }

    /// Returns data to compare with: the result of a read, or sometimes different data.
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
        let asked = Asked::read(&self.model);
        let answer = self.access.compare(at.start, &guess).await;
        if answer.is_ok() {
            // A successful compare counts as a read of the same data.
            asked.end_read(at.start, &guess);
        }
        answer
    }

    async fn compare_and_write(&mut self, at: Range<u64>) -> Result<(), Failure> {
        let guess = self.guess(at.clone()).await?;
        let read = Asked::read(&self.model);
        let write = Asked::write(&self.model, at.clone(), false);
        let answer = self
            .access
            .compare_and_write(at.start, &guess, &write.content())
            .await;
        match answer {
            Ok(()) => write.end_compare_and_write(read, at.start, &guess),
            Err(_) => write.end_write(answer, WriteEnd::Done),
        }
        answer
    }
}

/// A request that was reported to the model. If it is dropped without an answer (its client lost power), its effect is
/// unknown.
pub(crate) struct Asked<T> {
    model: Rc<RefCell<Model>>,
    token: Option<T>,
    give_up: fn(&mut Model, &T),
}

impl<T> Asked<T> {
    fn answered(mut self) -> (Rc<RefCell<Model>>, T) {
        let token = self.token.take().expect("a request is answered once");
        (self.model.clone(), token)
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        if let Some(t) = &self.token {
            (self.give_up)(&mut self.model.borrow_mut(), t);
        }
    }
}

impl Asked<Token> {
    fn read(model: &Rc<RefCell<Model>>) -> Asked<Token> {
        let token = model.borrow_mut().begin_read();
        Asked {
            model: model.clone(),
            token: Some(token),
            give_up: |m, t| m.end_failed_read(t),
        }
    }

    fn end_read(self, first: u64, bytes: &[u8]) {
        let (model, token) = self.answered();
        model.borrow_mut().end_read(&token, first, bytes);
    }
}

impl Asked<WriteToken> {
    /// Reports a write of new content, or of zeroes, to the model.
    pub(crate) fn write(
        model: &Rc<RefCell<Model>>,
        at: Range<u64>,
        zeroes: bool,
    ) -> Asked<WriteToken> {
        let token = model.borrow_mut().begin_write(at, zeroes);
        remark(|| format!("asks        {token:?}"));
        let give_up = |m: &mut Model, t: &WriteToken| m.end_write(t, WriteEnd::Unknown);
        Asked {
            model: model.clone(),
            token: Some(token),
            give_up,
        }
    }

    fn content(&self) -> Vec<u8> {
        let token = self.token.as_ref().expect("it is not answered yet");
        self.model.borrow().content(token)
    }

    fn end_write(self, answer: Result<(), Failure>, done: WriteEnd) {
        self.end_as(answer.map_or_else(Failure::of_write, |()| done));
    }

    /// Reports the end of the write to the model.
    pub(crate) fn end_as(self, how: WriteEnd) {
        let (model, token) = self.answered();
        remark(|| format!("is answered {token:?}: {how:?}"));
        model.borrow_mut().end_write(&token, how);
    }

    fn end_compare_and_write(self, read: Asked<Token>, first: u64, expected: &[u8]) {
        let ((model, write), (_, read)) = (self.answered(), read.answered());
        model
            .borrow_mut()
            .end_compare_and_write(&read, first, expected, &write);
    }
}

/// Reads the whole disk, at most `blocks_max` blocks at a time, and reports the reads to the model.
pub async fn verify_all<A: Access>(access: &A, model: &Rc<RefCell<Model>>, blocks_max: u64) {
    let len = model.borrow().len();
    let mut at = 0;
    while at < len {
        let n = blocks_max.min(len - at);
        let asked = Asked::read(model);
        match access.read(at, n).await {
            Ok(bytes) => asked.end_read(at, &bytes),
            Err(f) => model
                .borrow_mut()
                .blame(format!("without faults, reading block {at} failed: {f:?}")),
        }
        at += n;
    }
}
