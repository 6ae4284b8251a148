//! Writing of families of values in the OpenMetrics format.
//!
//! **Called by** the metrics of the server and of each protocol. **Invariants**: each family is in the [table], with its kind and
//! labels; the encoder escapes label values.

use super::table::{self, Kind, Metric};
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// Labels of one value.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A histogram.
pub(crate) struct Histogram {
    /// Sum of all values.
    pub(crate) sum: f64,
    /// Upper bound of each bucket, and the number of values in it.
    pub(crate) buckets: Vec<(f64, u64)>,
}

/// Writes families of values.
pub(crate) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

pub(crate) fn none() -> Labels {
    Labels::new()
}

pub(crate) fn one(key: &'static str, value: impl fmt::Display) -> Labels {
    vec![(key, value.to_string())]
}

/// The metric of the table. Panics if there is none of this name and kind.
fn known(name: &'static str, kind: Kind) -> &'static Metric {
    let found = table::metric(name).filter(|m| m.kind == kind);
    found.unwrap_or_else(|| panic!("{name}: no such metric in the table"))
}

/// Checks, in debug builds, that a series has the labels of the table, in their order.
fn check(metric: &Metric, labels: &Labels) {
    let names = labels.iter().map(|(name, _)| name);
    debug_assert!(names.eq(metric.labels), "{}: {labels:?}", metric.name);
}

impl Families<'_> {
    pub(crate) fn counter<V: EncodeCounterValue>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let known = known(name, Kind::Counter);
        let mut metric = self
            .0
            .encode_descriptor(name, known.help, None, MetricType::Counter)?;
        values
            .into_iter()
            .inspect(|(labels, _)| check(known, labels))
            .try_for_each(|(labels, v)| match labels.is_empty() {
                true => metric.encode_counter::<NoLabelSet, _, u64>(&v, None),
                false => metric
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&v, None),
            })
    }

    /// Histograms.
    pub(crate) fn histograms(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = (Labels, Histogram)>,
    ) -> fmt::Result {
        let known = known(name, Kind::Histogram);
        let mut metric = self
            .0
            .encode_descriptor(name, known.help, None, MetricType::Histogram)?;
        values.into_iter().try_for_each(|(labels, h)| {
            check(known, &labels);
            let count = h.buckets.iter().map(|(_, n)| n).sum();
            metric
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(h.sum, count, &h.buckets, None)
        })
    }

    pub(crate) fn gauge(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let known = known(name, Kind::Gauge);
        let mut metric = self
            .0
            .encode_descriptor(name, known.help, None, MetricType::Gauge)?;
        values
            .into_iter()
            .inspect(|(labels, _)| check(known, labels))
            .try_for_each(|(labels, v)| match labels.is_empty() {
                true => metric.encode_gauge(&v),
                false => metric.encode_family(&labels)?.encode_gauge(&v),
            })
    }
}
