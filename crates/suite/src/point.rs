//! One measurement, and the medians of several.

use lab::Result;
use lab::engine::{Setup, run};
use lab::size::{count, digits, nanos};
use lab::stats::Spread;
use lab::targets::{Address, AnyTarget, OpenAs};
use lab::workload::Workload;
use std::time::Duration;

/// Blocks from this size on have their rate in MiB/s, bytes.
const LARGE: u32 = 64 << 10;
pub(crate) const MIB: f64 = 1048576.0;

/// One contender in one round. Unmeasured values are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Point {
    /// Requests a second.
    pub(crate) rate: Option<f64>,
    /// Bytes a second.
    pub(crate) bytes_per_s: Option<f64>,
    /// Median latency, or the time of a single act, µs.
    pub(crate) time_us: Option<f64>,
    /// Latency of the slowest request, µs.
    pub(crate) slowest_us: Option<f64>,
    /// Processor time of a request, µs: the server's, or this process's if there is none.
    pub(crate) cpu_us: Option<f64>,
    /// Processor time of an idle server, percent of a processor.
    pub(crate) idle_percent: Option<f64>,
    /// Bytes that devices wrote for each written byte.
    pub(crate) written: Option<f64>,
    /// Resident memory, or replayed journal, bytes.
    pub(crate) bytes: Option<f64>,
}

/// A measurement of the contender in a column.
pub(crate) struct Sample {
    pub(crate) column: usize,
    /// How the contender did it, if that is to be told. The fastest way of a column counts.
    pub(crate) way: String,
    pub(crate) point: Point,
}

/// A measurement without a way.
pub(crate) fn sample(column: usize, point: Point) -> Sample {
    Sample {
        column,
        way: String::new(),
        point,
    }
}

/// A value of a point.
pub(crate) type Measure = fn(&Point) -> Option<f64>;

pub(crate) fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Opens an existing target. Errors: `Target`.
pub(crate) async fn open(address: &Address, writable: bool) -> Result<AnyTarget> {
    let how = OpenAs {
        writable,
        create: None,
    };
    AnyTarget::open(address, how).await
}

/// One round of our own client, with the processor time of the server.
pub(crate) async fn point(
    address: &Address,
    w: &Workload,
    setup: &Setup,
    server_pid: Option<u32>,
) -> Result<Point> {
    let target = open(address, w.writes()).await?;
    let setup = Setup {
        server_pid,
        ..setup.clone()
    };
    let run = run(&target, w, &setup).await?;
    Ok(Point {
        rate: Some(run.iops()),
        bytes_per_s: Some(run.bandwidth()),
        time_us: Some(run.latency().percentile(50.0) as f64 / 1000.0),
        cpu_us: run.server_us(),
        ..Point::default()
    })
}

/// The median of a value; none without rounds.
pub(crate) fn median(points: &[Point], of: Measure) -> Option<f64> {
    let values: Vec<f64> = points.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| Spread::of(&values).median)
}

/// The medians of a contender, short. Requests have `block_size` bytes.
pub(crate) fn summary(points: &[Point], block_size: u32) -> String {
    let rate = |points| match block_size >= LARGE {
        true => median(points, |p| p.bytes_per_s).map(|v| format!("{} MiB/s", digits(v / MIB))),
        false => median(points, |p| p.rate).map(count),
    };
    let value = |of, text: fn(f64) -> String| median(points, of).map(text);
    let parts = [
        rate(points),
        value(|p| p.time_us, |v| nanos(v * 1e3)),
        value(|p| p.cpu_us, |v| format!("CPU {}", digits(v))),
        value(|p| p.idle_percent, |v| format!("{v:.2} %")),
        value(|p| p.bytes, |v| format!("{} MiB", digits(v / MIB))),
        value(|p| p.slowest_us, |v| format!("slowest {}", nanos(v * 1e3))),
    ];
    match parts.into_iter().flatten().collect::<Vec<_>>() {
        none if none.is_empty() => "–".into(),
        parts => parts.join(", "),
    }
}
