//! Forecast of the days that a disk's endurance lasts.
//!
//! **Called by** the monitor, over the time since it first read a disk, and by `pool iostat -w`, over its interval.
//! **Invariants**: pure; an answer names the sources of endurance and rate and the length of the observation; no days are
//! given without a source for each. `docs/wear.md`.

use crate::api::{DiskHealth, EnduranceSource, RateSource, WearForecast};

/// The least growth of a disk's counter that gives a rate, bytes: NVMe counts units of 512,000 bytes, so that the error is at
/// most 5 %.
const DISK_GROWTH_MIN: u64 = 20 * 512_000;
/// The least time that a disk was powered for a rate over its life, hours.
const LIFE_HOURS_MIN: u64 = 24;
const DAY_S: f64 = 86_400.0;

/// Growth over an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// Its length, ms.
    pub span_ms: u64,
    /// Growth of the disk's own counter of bytes that hosts wrote; none if it is unknown.
    pub disk: Option<u64>,
    /// Bytes that this server wrote.
    pub server: u64,
}

/// Bytes that may be written in a disk's life. Errors: why that is unknown.
fn endurance(health: &DiskHealth) -> Result<(f64, f64, EnduranceSource), String> {
    let Some(written) = health.host_written else {
        let reason = health.unknown.as_ref();
        return Err(reason.map_or(
            "the disk does not tell how much was written to it".into(),
            String::clone,
        ));
    };
    let written = written as f64;
    match (health.rated_bytes, health.percentage_used) {
        (Some(rated), _) => Ok((rated as f64, written, EnduranceSource::Rated)),
        (None, Some(used)) if used > 0 => {
            let all = written * 100.0 / used as f64;
            Ok((all, written, EnduranceSource::PercentageUsed))
        }
        (None, Some(_)) => Err(
            "the disk has used 0 % of its endurance: set [wear] rated_tbw for a forecast".into(),
        ),
        (None, None) => {
            Err("the disk does not tell its wear: set [wear] rated_tbw for a forecast".into())
        }
    }
}

/// Bytes per second, and the time over which they were observed, s. Errors: why that is unknown.
fn rate(
    health: &DiskHealth,
    seen: Observed,
    span_min_s: u64,
) -> Result<(f64, u64, RateSource), String> {
    let by_disk = seen.disk.filter(|bytes| *bytes >= DISK_GROWTH_MIN);
    let observed = match by_disk {
        Some(bytes) => (bytes, RateSource::Disk),
        None => (seen.server, RateSource::Server),
    };
    let span_s = seen.span_ms / 1000;
    if seen.span_ms >= (span_min_s * 1000).max(1) {
        let seconds = seen.span_ms as f64 / 1000.0;
        return match observed {
            (0, _) => Err("nothing was written in this time".into()),
            (bytes, source) => Ok((bytes as f64 / seconds, span_s, source)),
        };
    }
    match (health.host_written, health.power_on_hours) {
        (Some(bytes), Some(hours)) if hours >= LIFE_HOURS_MIN && bytes > 0 => {
            let seconds = hours * 3600;
            Ok((bytes as f64 / seconds as f64, seconds, RateSource::Life))
        }
        _ => Err(format!(
            "observed for {span_s} s only; a forecast needs {span_min_s} s"
        )),
    }
}

/// The days that are left at the rate of an observation of at least `span_min_s` seconds, else at the mean rate over the
/// disk's life.
#[must_use]
pub fn forecast(health: &DiskHealth, seen: Observed, span_min_s: u64) -> WearForecast {
    let unknown = |reason| WearForecast {
        span_s: seen.span_ms / 1000,
        unknown: Some(reason),
        ..WearForecast::default()
    };
    let (all, written, endurance) = match endurance(health) {
        Ok(known) => known,
        Err(reason) => return unknown(reason),
    };
    let (per_second, span_s, rate) = match rate(health, seen, span_min_s) {
        Ok(known) => known,
        Err(reason) => return unknown(reason),
    };
    let per_day = per_second * DAY_S;
    WearForecast {
        days: Some((all - written).max(0.0) / per_day),
        endurance: Some(endurance),
        rate: Some(rate),
        bytes_per_day: Some(per_day),
        span_s,
        unknown: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TB: u64 = 1_000_000_000_000;
    const HOUR: u64 = 3600;

    fn nvme() -> DiskHealth {
        DiskHealth {
            source: Some("nvme".into()),
            host_written: Some(60 * TB),
            percentage_used: Some(10),
            power_on_hours: Some(1000),
            ..DiskHealth::default()
        }
    }

    fn day(disk: Option<u64>, server: u64) -> Observed {
        Observed {
            span_ms: 24 * HOUR * 1000,
            disk,
            server,
        }
    }

    #[test]
    fn the_rated_bytes_come_before_the_percentage() {
        let mut health = nvme();
        let by_percentage = forecast(&health, day(Some(TB), TB / 2), HOUR);
        assert_eq!(by_percentage.days.map(f64::round), Some(540.0));
        assert_eq!(
            (by_percentage.endurance, by_percentage.rate),
            (
                Some(EnduranceSource::PercentageUsed),
                Some(RateSource::Disk)
            )
        );
        health.rated_bytes = Some(100 * TB);
        let rated = forecast(&health, day(Some(TB), TB / 2), HOUR);
        assert_eq!(rated.days.map(f64::round), Some(40.0));
        assert_eq!(rated.endurance, Some(EnduranceSource::Rated));
        health.rated_bytes = Some(TB);
        let beyond = forecast(&health, day(Some(TB), TB), HOUR);
        assert_eq!(beyond.days, Some(0.0), "no negative days");
    }

    #[test]
    fn a_coarse_counter_gives_way_to_the_servers() {
        let coarse = forecast(&nvme(), day(Some(19 * 512_000), 2 * TB), HOUR);
        assert_eq!(coarse.rate, Some(RateSource::Server));
        assert_eq!(coarse.days.map(f64::round), Some(270.0));
        let none = forecast(&nvme(), day(None, 2 * TB), HOUR);
        assert_eq!(none.rate, Some(RateSource::Server));
    }

    #[test]
    fn a_short_observation_is_replaced_by_the_disks_life() {
        let short = Observed {
            span_ms: 60_000,
            disk: Some(TB),
            server: TB,
        };
        let life = forecast(&nvme(), short, HOUR);
        assert_eq!(
            (life.rate, life.span_s),
            (Some(RateSource::Life), 1000 * HOUR)
        );
        assert_eq!(life.days.map(f64::round), Some(375.0));
        let mut young = nvme();
        young.power_on_hours = Some(0);
        let unknown = forecast(&young, short, HOUR);
        assert_eq!(unknown.days, None);
        assert!(unknown.unknown.is_some_and(|u| u.contains("60 s only")));
    }

    #[test]
    fn unknown_is_said_to_be_unknown() {
        let silent = DiskHealth {
            unknown: Some("a file".into()),
            rated_bytes: Some(TB),
            ..DiskHealth::default()
        };
        let mut unworn = nvme();
        unworn.percentage_used = Some(0);
        let mut no_wear = nvme();
        no_wear.percentage_used = None;
        for (health, seen, word) in [
            (&silent, day(None, TB), "a file"),
            (&unworn, day(Some(TB), TB), "0 %"),
            (&no_wear, day(Some(TB), TB), "does not tell its wear"),
            (&nvme(), day(Some(0), 0), "nothing was written"),
        ] {
            let found = forecast(health, seen, HOUR);
            assert_eq!(found.days, None, "{word}");
            let reason = found.unknown.expect("a reason");
            assert!(reason.contains(word), "{reason}");
        }
    }
}
