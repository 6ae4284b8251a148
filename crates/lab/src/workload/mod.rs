//! Workloads: directions, sizes, depth, pattern, pace, durability.
//!
//! **Owns** [`Workload`] and, below it, the choice of addresses ([`pattern`]), the contents of writes ([`fill`]) and
//! the schedule of open-loop I/Os ([`pace`]). **Called by** the engine and by everything that names a run.
//! **Invariants**: a workload that passed [`Workload::check`] fits its target: no I/O goes beyond the region.

pub mod fill;
pub mod pace;
pub mod pattern;
pub mod zipf;

use crate::limits::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, DEPTH_MAX, JOBS_MAX, RUNTIME_MAX};
use crate::size::{self, digits};
use crate::{Error, Result};
use fill::Fill;
use std::fmt;
use std::time::Duration;

/// Order of blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Access {
    /// One after the other; each job in its own part of the region.
    Sequential,
    /// Each block as likely as any other.
    Random,
    /// Zipf distribution: the k-th most frequent block has weight 1/k^θ.
    Zipf(f64),
}

/// Durability of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// No flush.
    None,
    /// Every write carries FUA (a write-through locally).
    Fua,
    /// A flush after this number of writes of a job.
    FlushEvery(u32),
}

/// One workload. Sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Order of addresses.
    pub access: Access,
    /// Share of reads, percent.
    pub read_percent: u8,
    /// Size of each I/O.
    pub block_size: u32,
    /// I/Os in flight per job.
    pub depth: u32,
    /// Threads, each with its own ring and its own queue on the target.
    pub jobs: u32,
    /// Time before measuring starts.
    pub ramp: Duration,
    /// Time measured.
    pub runtime: Duration,
    /// Ends the run after this many bytes.
    pub bytes: Option<u64>,
    /// Durability of writes.
    pub sync: Sync,
    /// Contents of writes.
    pub fill: Fill,
    /// Open loop: I/Os per second over all jobs, independent of the target's speed.
    pub rate: Option<f64>,
    /// Only this many bytes from the start of the target are used.
    pub region: Option<u64>,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            access: Access::Random,
            read_percent: 100,
            block_size: 4096,
            depth: 1,
            jobs: 1,
            ramp: Duration::from_millis(500),
            runtime: Duration::from_secs(10),
            bytes: None,
            sync: Sync::None,
            fill: Fill::Random,
            rate: None,
            region: None,
            seed: 1,
        }
    }
}

impl Workload {
    /// Sets direction and order by fio's word: read, write, randread, randwrite, rw, randrw. Errors: `Usage`.
    pub fn with_mode(mut self, mode: &str) -> Result<Workload> {
        (self.access, self.read_percent) = match mode {
            "read" => (Access::Sequential, 100),
            "write" => (Access::Sequential, 0),
            "rw" | "mixed" => (Access::Sequential, 50),
            "randread" => (Access::Random, 100),
            "randwrite" => (Access::Random, 0),
            "randrw" => (Access::Random, 50),
            _ => {
                let why = "expected read, write, rw, randread, randwrite or randrw";
                return Err(Error::usage(format!("mode {mode:?}"), why));
            }
        };
        Ok(self)
    }

    /// fio's word for direction and order.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        match (self.access == Access::Sequential, self.read_percent) {
            (true, 100) => "read",
            (true, 0) => "write",
            (true, _) => "rw",
            (false, 100) => "randread",
            (false, 0) => "randwrite",
            (false, _) => "randrw",
        }
    }

    /// True if it writes at all.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// True if it reads at all.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.read_percent > 0
    }

    /// Bytes of a target of `size` bytes that are used: whole blocks, at least one for each job.
    /// Errors: `Usage` when the workload does not fit.
    pub fn check(&self, size: u64, logical_block: u32) -> Result<u64> {
        let limit = |what: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::usage(
                format!("{what} {value}"),
                format!("expected {low} to {high}"),
            ))
        };
        limit(
            "block size",
            self.block_size.into(),
            BLOCK_SIZE_MIN.into(),
            BLOCK_SIZE_MAX.into(),
        )?;
        limit("queue depth", self.depth.into(), 1, DEPTH_MAX.into())?;
        limit("jobs", self.jobs.into(), 1, JOBS_MAX.into())?;
        limit("read share", self.read_percent.into(), 0, 100)?;
        limit(
            "runtime (s)",
            self.runtime.as_secs(),
            0,
            RUNTIME_MAX.as_secs(),
        )?;
        if !self.block_size.is_multiple_of(logical_block.max(1)) {
            let why = format!("the target works in blocks of {logical_block} bytes");
            return Err(Error::usage(format!("block size {}", self.block_size), why));
        }
        if self.rate.is_some_and(|r| !(r.is_finite() && r > 0.0)) {
            return Err(Error::usage("rate", "expected I/Os per second above zero"));
        }
        if let Access::Zipf(theta) = self.access
            && !(theta > 0.0 && theta <= 10.0)
        {
            return Err(Error::usage("zipf", "expected a skew above 0 and up to 10"));
        }
        let region = self.region.unwrap_or(size).min(size) / u64::from(self.block_size)
            * u64::from(self.block_size);
        if region < u64::from(self.block_size) * u64::from(self.jobs) {
            let why = format!(
                "the target has {}: less than one block for each job",
                size::size(size)
            );
            return Err(Error::usage(
                format!("region {}", size::size(self.region.unwrap_or(size))),
                why,
            ));
        }
        Ok(region)
    }
}

impl fmt::Display for Workload {
    /// `4K randread Q32T1`, followed by options that differ from the defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} Q{}T{}",
            size::size(self.block_size.into()),
            self.mode(),
            self.depth,
            self.jobs
        )?;
        if self.reads() && self.writes() && self.read_percent != 50 {
            write!(f, " {}%r", self.read_percent)?;
        }
        match self.sync {
            Sync::None => {}
            Sync::Fua => write!(f, " fua")?,
            Sync::FlushEvery(n) => write!(f, " flush/{n}")?,
        }
        if let Access::Zipf(theta) = self.access {
            write!(f, " zipf {}", digits(theta))?;
        }
        match self.rate {
            Some(r) => write!(f, " @{}/s", size::count(r)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_out_of_the_ordinary() {
        let w = Workload {
            depth: 32,
            ..Workload::default()
        };
        assert_eq!(w.to_string(), "4K randread Q32T1");
        let w = Workload {
            read_percent: 70,
            sync: Sync::FlushEvery(8),
            rate: Some(20_000.0),
            ..w
        };
        assert_eq!(w.to_string(), "4K randrw Q32T1 70%r flush/8 @20.0k/s");
        for mode in ["read", "write", "rw", "randread", "randwrite", "randrw"] {
            assert_eq!(
                Workload::default().with_mode(mode).expect(mode).mode(),
                mode
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let w = Workload::default();
        assert_eq!(w.check(10_000, 512).expect("two blocks"), 8192);
        assert!(w.check(4095, 512).is_err(), "less than a block");
        assert!(
            Workload {
                jobs: 3,
                ..w.clone()
            }
            .check(10_000, 512)
            .is_err(),
            "less than a block each"
        );
        assert!(
            Workload {
                block_size: 512,
                ..w.clone()
            }
            .check(1 << 20, 4096)
            .is_err(),
            "below the logical block"
        );
        assert!(
            Workload {
                depth: 0,
                ..w.clone()
            }
            .check(1 << 20, 512)
            .is_err()
        );
        assert!(
            Workload {
                rate: Some(f64::NAN),
                ..w.clone()
            }
            .check(1 << 20, 512)
            .is_err()
        );
        assert!(
            Workload {
                access: Access::Zipf(-1.0),
                ..w.clone()
            }
            .check(1 << 20, 512)
            .is_err()
        );
        assert_eq!(
            Workload {
                region: Some(1 << 30),
                ..w
            }
            .check(1 << 20, 512)
            .expect("clamped"),
            1 << 20
        );
    }
}
