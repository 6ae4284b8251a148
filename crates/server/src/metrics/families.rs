//! Writing of series in the OpenMetrics format.
//!
//! **Called by** the metrics of the server and of each protocol. **Invariants**: the encoder escapes label values.

use super::table::{Kind, Metric, Series, Value};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// Writes metrics.
pub(crate) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

impl Families<'_> {
    /// Writes the series of a metric.
    pub(crate) fn put(
        &mut self,
        metric: &Metric,
        series: impl IntoIterator<Item = Series>,
    ) -> fmt::Result {
        let kind = match metric.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        let mut encoder = self
            .0
            .encode_descriptor(metric.name, metric.help, None, kind)?;
        for (texts, value) in series {
            let labels: Vec<(&str, String)> = metric.labels().zip(texts).collect();
            match labels.is_empty() {
                true => encode(metric.kind, &mut encoder, &value)?,
                false => encode(metric.kind, &mut encoder.encode_family(&labels)?, &value)?,
            }
        }
        Ok(())
    }
}

fn encode(kind: Kind, encoder: &mut MetricEncoder, value: &Value) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Int(n)) => encoder.encode_counter::<NoLabelSet, _, u64>(n, None),
        (Kind::Counter, Value::Float(n)) => encoder.encode_counter::<NoLabelSet, _, u64>(n, None),
        (_, Value::Int(n)) => encoder.encode_gauge(&(*n as f64)),
        (_, Value::Float(n)) => encoder.encode_gauge(n),
        (_, Value::Histogram(h)) => {
            let count = h.buckets.iter().map(|(_, n)| n).sum();
            encoder.encode_histogram::<NoLabelSet>(h.sum, count, &h.buckets, None)
        }
    }
}
