//! Statistics: latencies, time series, medians and their spread, processor time.
//!
//! **Called by** the engine, which records, and by reports and validity rules, which read.

pub mod latency;
pub mod process;
pub mod series;

pub use latency::Latency;
pub use series::Series;

/// Median and extremes of several measurements.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spread {
    /// The median; the mean of the two middle values for an even count.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Number of values.
    pub count: usize,
}

impl Spread {
    /// Of `values`; all zero if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Spread {
        let mut v = values.to_vec();
        v.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (v.first(), v.last()) else {
            return Spread::default();
        };
        let mid = v.len() / 2;
        let median = if v.len() % 2 == 1 {
            v[mid]
        } else {
            (v[mid - 1] + v[mid]) / 2.0
        };
        let count = v.len();
        Spread {
            median,
            min,
            max,
            count,
        }
    }

    /// Half the distance from smallest to largest, in percent of the median; `None` for fewer than two values and for
    /// a median of zero.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.count > 1 && self.median != 0.0)
            .then(|| (self.max - self.min) / 2.0 / self.median * 100.0)
    }
}

/// Standard deviation over mean; `None` for fewer than three values or a mean of zero.
#[must_use]
pub fn variation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 3 || mean <= 0.0 {
        return None;
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    Some(variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_median_has_as_many_below_as_above(values in prop::collection::vec(0.0f64..1e6, 1..40)) {
            let s = Spread::of(&values);
            let below = values.iter().filter(|v| **v < s.median).count();
            let above = values.iter().filter(|v| **v > s.median).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
            prop_assert!(values.iter().all(|v| (s.min..=s.max).contains(v)));
        }
    }

    #[test]
    fn variation_is_that_of_the_textbook() {
        assert_eq!(variation(&[5.0, 5.0, 5.0, 5.0]), Some(0.0));
        let v = variation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("eight values");
        assert!((v - 0.4).abs() < 1e-12);
        assert_eq!(variation(&[1.0, 2.0]), None);
        assert_eq!(variation(&[0.0, 0.0, 0.0]), None);
        assert_eq!(Spread::of(&[]).median, 0.0);
        assert_eq!(Spread::of(&[90.0, 100.0, 110.0]).percent(), Some(10.0));
        assert_eq!(Spread::of(&[100.0, 100.0]).percent(), Some(0.0));
        assert_eq!(Spread::of(&[100.0]).percent(), None);
    }
}
