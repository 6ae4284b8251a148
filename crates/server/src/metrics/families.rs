//! Declaration of metrics, each in one line, and writing of their series in the OpenMetrics format.
//!
//! **Owns** the macro [`metrics`]. **Called by** the metrics of the server and of each protocol. **Invariants**: the encoder escapes label values.

use super::table::{Kind, Metric, Series, SeriesValue};
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

fn encode(kind: Kind, encoder: &mut MetricEncoder, value: &SeriesValue) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, SeriesValue::Int(n)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(n, None)
        }
        (Kind::Counter, SeriesValue::Float(n)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(n, None)
        }
        (_, SeriesValue::Int(n)) => encoder.encode_gauge(&(*n as f64)),
        (_, SeriesValue::Float(n)) => encoder.encode_gauge(n),
        (_, SeriesValue::Histogram(h)) => {
            let count = h.buckets.iter().map(|(_, n)| n).sum();
            encoder.encode_histogram::<NoLabelSet>(h.sum, count, &h.buckets, None)
        }
    }
}

/// Declares metrics of items of one type: the constant with their descriptions, and the function that writes their series for a slice of
/// items. A line has kind, name, further labels if an item has several values, help text, and the value or values.
macro_rules! metrics {
    (@names [$($label:ident: $text:expr),*]) => {
        &[$(stringify!($label)),*]
    };
    (@texts [$($label:ident: $text:expr),*]) => {
        vec![$($text.to_string()),*]
    };
    (@series $labels:ident, $value:expr) => {
        $crate::metrics::table::one(&$labels, $value)
    };
    (@series $labels:ident, $value:expr, $($further:ident)+) => {
        $crate::metrics::table::several(&$labels, $value)
    };
    ($(#[$about:meta])* $vis:vis $all:ident, $write:ident: $item:ident in $type:ty, $labels:tt {
        $($kind:ident $name:ident $(by [$($further:ident)+])? $help:literal: $value:expr;)*
    }) => {
        $(#[$about])*
        $vis const $all: &[$crate::metrics::table::Metric] = &[$($crate::metrics::table::Metric {
            kind: $crate::metrics::table::Kind::$kind,
            name: stringify!($name),
            of_item: $crate::metrics::families::metrics!(@names $labels),
            further: &[$($(stringify!($further)),+)?],
            help: $help,
        }),*];

        /// Writes the series of these items.
        #[allow(unused_variables)] // the labels and values of a single item may not need it
        $vis fn $write(
            items: &[$type],
            out: &mut $crate::metrics::families::Families,
        ) -> std::fmt::Result {
            let mut metrics = $all.iter();
            $({
                let series = items.iter().flat_map(|$item| {
                    let labels: Vec<String> = $crate::metrics::families::metrics!(@texts $labels);
                    $crate::metrics::families::metrics!(@series labels, $value $(, $($further)+)?)
                });
                out.put(metrics.next().expect("one for each line"), series)?;
            })*
            Ok(())
        }
    };
}
pub(crate) use metrics;
