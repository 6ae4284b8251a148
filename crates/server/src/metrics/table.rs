//! Metrics: their descriptions and values.
//!
//! **Owns** [`Metric`] and its values. **Called by** [`super::families`], and by all that describe metrics. **Invariants**: a series has the labels of its metric; names follow the conventions of Prometheus (prefix, base units, `_total`
//! of counters), which its own linter checks in a test.

/// Prefix of all names.
pub(crate) const PREFIX: &str = "wirepool";

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only grows; its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It has series for buckets, sum and count.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) kind: Kind,
    /// Its name without prefix and suffix.
    pub(crate) name: &'static str,
    /// Labels of its item.
    pub(crate) of_item: &'static [&'static str],
    /// Further labels, by which the values of one item differ.
    pub(crate) further: &'static [&'static str],
    pub(crate) help: &'static str,
}

impl Metric {
    /// The name by which it is known: that of a histogram has no suffix.
    pub(crate) fn full_name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{PREFIX}_{}_total", self.name),
            Kind::Gauge | Kind::Histogram => format!("{PREFIX}_{}", self.name),
        }
    }

    /// All its labels.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &'static str> {
        self.of_item.iter().chain(self.further).copied()
    }
}

/// The value of a series.
pub(crate) enum SeriesValue {
    /// A whole number.
    Int(u64),
    /// Another number.
    Float(f64),
    /// The values in buckets.
    Histogram(Histogram),
}

/// A histogram.
pub(crate) struct Histogram {
    /// Sum of all values.
    pub(crate) sum: f64,
    /// Upper bound of each bucket, and the number of values in it.
    pub(crate) buckets: Vec<(f64, u64)>,
}

/// A number, or none: a value that is unknown has no series.
pub(crate) trait IntoValue {
    fn into_value(self) -> Option<SeriesValue>;
}

/// Implements [`IntoValue`] for types with a value each.
macro_rules! values {
    ($($type:ty: $n:ident => $value:expr;)*) => {
        $(impl IntoValue for $type {
            fn into_value(self) -> Option<SeriesValue> {
                let $n = self;
                Some($value)
            }
        })*
    };
}

values! {
    u64: n => SeriesValue::Int(n);
    u32: n => SeriesValue::Int(n.into());
    usize: n => SeriesValue::Int(n as u64);
    bool: flag => SeriesValue::Int(flag.into());
    f64: n => SeriesValue::Float(n);
    Histogram: h => SeriesValue::Histogram(h);
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Option<SeriesValue> {
        self?.into_value()
    }
}

/// Texts of further labels, in the order of their names.
pub(crate) trait LabelTexts {
    fn texts(self) -> Vec<String>;
}

impl LabelTexts for &str {
    fn texts(self) -> Vec<String> {
        vec![self.to_owned()]
    }
}

impl LabelTexts for String {
    fn texts(self) -> Vec<String> {
        vec![self]
    }
}

impl<A: ToString, B: ToString> LabelTexts for (A, B) {
    fn texts(self) -> Vec<String> {
        vec![self.0.to_string(), self.1.to_string()]
    }
}

/// A series: the texts of its labels, and its value.
pub(crate) type Series = (Vec<String>, SeriesValue);

/// The usual percentiles of times in µs, for the label `percentile`, in seconds.
pub(crate) fn percentiles(
    [p50, p90, p99, p999]: [u64; 4],
) -> impl Iterator<Item = (&'static str, f64)> {
    let all = [("50", p50), ("90", p90), ("99", p99), ("99.9", p999)];
    all.into_iter().map(|(name, us)| (name, us as f64 / 1e6))
}

/// The series of a metric with one value of an item.
pub(crate) fn one(labels: &[String], value: impl IntoValue) -> Vec<Series> {
    let value = value.into_value();
    value.map(|v| (labels.to_vec(), v)).into_iter().collect()
}

/// The series of a metric with several values of an item, each with the texts of further labels.
pub(crate) fn several<L: LabelTexts, V: IntoValue>(
    labels: &[String],
    values: impl IntoIterator<Item = (L, V)>,
) -> Vec<Series> {
    let series = |(further, value): (L, V)| {
        let labels = labels.iter().cloned().chain(further.texts());
        Some((labels.collect(), value.into_value()?))
    };
    values.into_iter().filter_map(series).collect()
}
