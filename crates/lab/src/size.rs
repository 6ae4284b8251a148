//! Sizes, times and dates in text form: `4k`, `1G`, `10s`, `250ms`.
//!
//! **Called by** the command line, target addresses and tables. Sizes are binary: `k` is 1024.

use crate::{Error, Result};
use std::time::Duration;

fn split(text: &str) -> (&str, String) {
    let at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    (text[..at].trim(), text[at..].trim().to_ascii_lowercase())
}

/// Bytes of `512`, `4k`, `128KiB`, `1.5G`, `2T`. Errors: `Usage`.
pub fn parse_size(text: &str) -> Result<u64> {
    let bad = || {
        Error::usage(
            format!("size {text:?}"),
            "expected a number with k, M, G or T, such as 4k or 1G",
        )
    };
    let (number, unit) = split(text);
    let shift = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    let bytes = number * (1u64 << shift) as f64;
    if !(0.0..=9e18).contains(&bytes) {
        return Err(bad());
    }
    Ok(bytes as u64)
}

/// The time of `10`, `10s`, `250ms`, `2m`, `1h`. Errors: `Usage`.
pub fn parse_time(text: &str) -> Result<Duration> {
    let bad = || {
        Error::usage(
            format!("time {text:?}"),
            "expected a number with us, ms, s, m or h, such as 10s",
        )
    };
    let (number, unit) = split(text);
    let scale = match unit.as_str() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| bad())
}

/// `4K`, `128K`, `1M`, `4G`; bytes if no unit divides the size.
#[must_use]
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}")
}

/// Three significant digits and a unit: `853 ns`, `12.4 µs`, `1.20 ms`, `3.00 s`.
#[must_use]
pub fn nanos(ns: f64) -> String {
    let (value, unit) = match ns {
        n if n < 1e3 => return format!("{n:.0} ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// Three significant digits.
#[must_use]
pub fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A count: `853`, `35.0k`, `1.20M`.
#[must_use]
pub fn count(value: f64) -> String {
    match value {
        v if v < 10_000.0 => format!("{v:.0}"),
        v if v < 1e6 => format!("{}k", digits(v / 1e3)),
        v => format!("{}M", digits(v / 1e6)),
    }
}

/// `2026-11-21 02:45:12 UTC` from milliseconds since 1970.
#[must_use]
pub fn utc(ms: u64) -> String {
    let (days, second) = (ms / 86_400_000, ms / 1000 % 86_400);
    // Civil date of a day, by eras of 400 years that begin with March.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = year + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("512", 512),
            ("4k", 4096),
            ("128KiB", 131_072),
            ("1.5G", 3 << 29),
            ("2TB", 2 << 40),
        ] {
            assert_eq!(parse_size(text).expect(text), bytes);
        }
        for bad in ["", "k", "4x", "-1", "1e40G", "nan"] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
        for (text, ms) in [
            ("2", 2000),
            ("250ms", 250),
            ("0.5s", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_time(text).expect(text), Duration::from_millis(ms));
        }
        for bad in ["", "s", "4y", "-1s"] {
            assert!(parse_time(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_are_written_with_three_digits() {
        assert_eq!(
            [size(4096), size(4 << 30), size(4097)],
            ["4K", "4G", "4097"]
        );
        assert_eq!(
            [nanos(853.0), nanos(12_400.0), nanos(1.2e6)],
            ["853 ns", "12.4 µs", "1.20 ms"]
        );
        assert_eq!(
            [count(853.0), count(35_000.0), count(1.2e6)],
            ["853", "35.0k", "1.20M"]
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_229_418_999), "2026-11-21 02:50:18 UTC");
    }
}
