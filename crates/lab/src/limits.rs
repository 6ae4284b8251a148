//! The named limits of this crate.

use std::time::Duration;

/// Most I/Os one job keeps in flight.
pub const DEPTH_MAX: u32 = 1024;
/// Most jobs (threads) of one run.
pub const JOBS_MAX: u32 = 256;
/// Largest I/O, bytes.
pub const BLOCK_SIZE_MAX: u32 = 1 << 20;
/// Smallest I/O, bytes.
pub const BLOCK_SIZE_MIN: u32 = 512;
/// Longest run.
pub const RUNTIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most rounds of one comparison.
pub const ROUNDS_MAX: u32 = 1000;
/// Longest latency of a histogram; longer ones are counted as this.
pub const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Width of one step of the time series.
pub const SERIES_STEP: Duration = Duration::from_millis(100);
/// Most steps of a time series: a longer run's later steps are counted in the last one.
pub const SERIES_STEPS_MAX: usize = 1 << 20;
/// One in this number of reads is checked for zeroes.
pub const ZERO_SAMPLE_EVERY: u64 = 32;
/// Buffer pool beyond what the queue slots need, bytes.
pub const POOL_SLACK: usize = 4 << 20;
/// Largest journal of a verify run, bytes; the run ends when it is full.
pub const JOURNAL_MAX: u64 = 4 << 30;
/// Most mismatches reported in detail.
pub const MISMATCHES_TOLD: usize = 32;
/// Most blocks of a verified region.
pub const VERIFY_BLOCKS_MAX: u64 = 1 << 28;
/// Time-out for the start of a child program.
pub const CHILD_START_MAX: Duration = Duration::from_secs(20);
/// Time-out for the end of a child program.
pub const CHILD_STOP_MAX: Duration = Duration::from_secs(15);
