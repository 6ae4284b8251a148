//! One measured point, and the medians of several.

use crate::Result;
use crate::engine::{Setup, run};
use crate::size::{count, digits};
use crate::stats::Spread;
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::workload::Workload;

/// One measured point of one contender in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) iops: f64,
    pub(super) bytes_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) server_us: Option<f64>,
}

/// One round of our own client, with the processor time of the server.
pub(super) async fn point(
    address: &Address,
    w: &Workload,
    setup: &Setup,
    server_pid: Option<u32>,
) -> Result<Point> {
    let how = OpenAs {
        writable: w.writes(),
        create: None,
    };
    let target = AnyTarget::open(address, how).await?;
    let setup = Setup {
        server_pid,
        ..setup.clone()
    };
    let run = run(&target, w, &setup).await?;
    Ok(Point {
        iops: run.iops(),
        bytes_per_s: run.bandwidth(),
        p50_us: run.latency().percentile(50.0) as f64 / 1000.0,
        server_us: run.server_us(),
    })
}

/// The median of the rounds of one contender; none without rounds.
pub(super) fn median<P>(points: &[P], of: impl Fn(&P) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = points.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| Spread::of(&values).median)
}

/// Rate, p50 and server time of one contender, short.
pub(super) fn summary(points: &[Point], block_size: u32) -> String {
    let Some(iops) = median(points, |p| Some(p.iops)) else {
        return "–".into();
    };
    let rate = if block_size >= 64 << 10 {
        format!(
            "{} MiB/s",
            digits(median(points, |p| Some(p.bytes_per_s)).unwrap_or(0.0) / f64::from(1 << 20))
        )
    } else {
        count(iops)
    };
    let p50 = median(points, |p| Some(p.p50_us)).unwrap_or(0.0);
    let cpu =
        median(points, |p| p.server_us).map_or(String::new(), |c| format!(", CPU {}", digits(c)));
    format!("{rate}, p50 {}{cpu}", digits(p50))
}
