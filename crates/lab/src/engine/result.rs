//! Measurements of one run.

use crate::stats::process::Usage;
use crate::stats::{Latency, Series};
use crate::targets::Facts;
use crate::workload::Workload;
use io::time::Instant;
use std::time::Duration;

/// Measurements of one job.
pub(super) struct JobReport {
    pub(super) read: Direction,
    pub(super) write: Direction,
    pub(super) flush: Latency,
    pub(super) series: Series,
    pub(super) cpu: Duration,
    pub(super) zeroes: (u64, u64),
    pub(super) missed: u64,
    pub(super) reconnects: u64,
    pub(super) ended: Instant,
}

/// One direction of a run.
#[derive(Clone, Default)]
pub struct Direction {
    /// Latencies of the I/Os that count.
    pub latency: Latency,
    /// Bytes they moved.
    pub bytes: u64,
}

impl Direction {
    /// Number of I/Os that count.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.latency.count()
    }

    pub(crate) fn merge(&mut self, other: &Direction) {
        self.latency.merge(&other.latency);
        self.bytes += other.bytes;
    }
}

/// Measurements of one run.
#[derive(Clone)]
pub struct Run {
    /// The workload.
    pub workload: Workload,
    /// Facts in effect on the target.
    pub facts: Facts,
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// Flushes.
    pub flush: Latency,
    /// The measured time, with the I/Os that ended after the window.
    pub elapsed: Duration,
    /// I/Os completed over time.
    pub series: Series,
    /// Processor time of each job's thread within the window.
    pub client_cpu: Vec<Duration>,
    /// Resources that the server's process used within the window, if it is known.
    pub server: Option<Usage>,
    /// Resources that this process used within the window.
    pub own: Option<Usage>,
    /// Number of sampled reads, and how many of them were all zero.
    pub zeroes: (u64, u64),
    /// I/Os of an open loop that were due and never started. Their waiting time is in the latencies.
    pub missed: u64,
    /// Number of reconnects.
    pub reconnects: u64,
}

impl Run {
    pub(super) fn new(w: &Workload, facts: Facts) -> Run {
        Run {
            workload: w.clone(),
            facts,
            read: Direction::default(),
            write: Direction::default(),
            flush: Latency::default(),
            elapsed: Duration::ZERO,
            series: Series::default(),
            client_cpu: Vec::new(),
            server: None,
            own: None,
            zeroes: (0, 0),
            missed: 0,
            reconnects: 0,
        }
    }

    pub(super) fn add(&mut self, job: JobReport) {
        self.read.merge(&job.read);
        self.write.merge(&job.write);
        self.flush.merge(&job.flush);
        self.series.merge(&job.series);
        self.client_cpu.push(job.cpu);
        self.zeroes.0 += job.zeroes.0;
        self.zeroes.1 += job.zeroes.1;
        self.missed += job.missed;
        self.reconnects += job.reconnects;
    }

    /// I/Os that were begun and count.
    #[must_use]
    pub fn ios(&self) -> u64 {
        (self.read.ios() + self.write.ios()).saturating_sub(self.missed)
    }

    /// I/Os per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        per_second(self.ios() as f64, self.elapsed)
    }

    /// Bytes per second.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        per_second((self.read.bytes + self.write.bytes) as f64, self.elapsed)
    }

    /// Latencies of both directions.
    #[must_use]
    pub fn latency(&self) -> Latency {
        let mut all = self.read.latency.clone();
        all.merge(&self.write.latency);
        all
    }

    /// I/Os in flight on average (Little's law).
    #[must_use]
    pub fn in_flight(&self) -> f64 {
        per_second(
            (self.read.latency.total() + self.write.latency.total()) / 1e9,
            self.elapsed,
        )
    }

    /// Processor time of the client per I/O, µs.
    #[must_use]
    pub fn client_us(&self) -> f64 {
        self.per_io_us(self.client_cpu.iter().sum())
    }

    /// Processor time of the server per I/O, µs, if it is known.
    #[must_use]
    pub fn server_us(&self) -> Option<f64> {
        self.server.map(|u| self.per_io_us(u.cpu))
    }

    fn per_io_us(&self, cpu: Duration) -> f64 {
        if self.ios() == 0 {
            0.0
        } else {
            cpu.as_secs_f64() * 1e6 / self.ios() as f64
        }
    }

    /// Resources of the process that holds the medium: the server's, or ours for a local target.
    #[must_use]
    pub fn medium_use(&self) -> Option<Usage> {
        if self.facts.transport.is_some() {
            self.server
        } else {
            self.own
        }
    }

    /// Bytes that devices wrote for each byte the client wrote, if both are known.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let used = self.medium_use()?.device?;
        (self.write.bytes > 0).then(|| used.written as f64 / self.write.bytes as f64)
    }

    /// Bytes that devices read for each byte the client read, if both are known.
    #[must_use]
    pub fn device_read_share(&self) -> Option<f64> {
        let used = self.medium_use()?.device?;
        (self.read.bytes > 0).then(|| used.read as f64 / self.read.bytes as f64)
    }
}

fn per_second(value: f64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        0.0
    } else {
        value / elapsed.as_secs_f64()
    }
}
