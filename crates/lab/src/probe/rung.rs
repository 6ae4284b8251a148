//! Times of one kind of request, and requests without an answer.

use super::summary::{Summary, bins};
use crate::stats::Latency;
use std::time::Duration;

/// Times and losses of one kind of request.
#[derive(Clone, Default)]
pub(super) struct Rung {
    latency: Latency,
    sent: u64,
    error: Option<String>,
}

impl Rung {
    /// Counts one request: its time, or the reason why there was no answer.
    pub(super) fn record(&mut self, result: &Result<Duration, String>) {
        self.sent += 1;
        match result {
            Ok(time) => self.latency.record(*time),
            Err(why) => self.error = Some(why.clone()),
        }
    }

    /// The numbers.
    pub(super) fn summary(&self) -> Summary {
        let l = &self.latency;
        Summary {
            sent: self.sent,
            lost: self.sent - l.count(),
            min_ns: l.min(),
            mean_ns: l.mean(),
            p50_ns: l.percentile(50.0),
            p90_ns: l.percentile(90.0),
            p99_ns: l.percentile(99.0),
            max_ns: l.max(),
            histogram: bins(l),
            error: self.error.clone(),
        }
    }
}

/// The time of a request, or the reason why it has no answer, in words.
pub(super) async fn timed<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, String>>,
) -> Result<(Duration, T), String> {
    let begun = io::time::now();
    match io::timeout(limit, request).await {
        Ok(Ok(value)) => Ok((begun.elapsed(), value)),
        Ok(Err(why)) => Err(why),
        Err(_) => Err(format!("no answer within {}", seconds(limit))),
    }
}

fn seconds(limit: Duration) -> String {
    crate::size::nanos(limit.as_nanos() as f64)
}
