//! Goals of the suite: words that are also numbers.
//!
//! **Owns** their language. A goal is a list of parts, which all must be met: `p50 ≤ 30 µs, CPU < 1 x`. A part is a value of a [`Point`], a
//! comparison, a number and a unit. `x` is a multiple of the contender that the row compares with; a number with `+` is a difference to it.
//! **Called by** the table. **Invariants**: a ratio is of one round, because both contenders ran next to each other in it; a missing
//! measurement leaves a goal open, unless another part of it is missed.

use crate::point::{MIB, Measure, Point, median};
use lab::size::{count, digits};
use lab::stats::Spread;

/// Result of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Measured and reached.
    Met,
    /// Measured and not reached.
    NotMet,
    /// A part of it could not be measured: the other side of the comparison is missing.
    Unknown,
    /// No goal: the row is for information.
    NoGoal,
}

impl Outcome {
    fn of(known: &[Option<bool>]) -> Outcome {
        match known {
            [] => Outcome::NoGoal,
            _ if known.contains(&Some(false)) => Outcome::NotMet,
            _ if known.contains(&None) => Outcome::Unknown,
            _ => Outcome::Met,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::NotMet => "NOT MET",
            Outcome::Unknown => "nothing to compare with",
            Outcome::NoGoal => "no goal",
        }
    }
}

/// A part of a goal.
struct Part {
    of: Measure,
    sign: &'static str,
    limit: f64,
    is_difference: bool,
    unit: &'static str,
}

/// Signs of comparisons.
const SIGNS: [&str; 3] = ["≥", "≤", "<"];

fn value(word: &str) -> Option<Measure> {
    Some(match word {
        "rate" => |p| p.rate,
        "bytes" => |p| p.bytes_per_s,
        "p50" | "time" => |p| p.time_us,
        "slowest" => |p| p.slowest_us,
        "CPU" => |p| p.cpu_us,
        "idle" => |p| p.idle_percent,
        "written" => |p| p.written,
        "memory" => |p| p.bytes,
        "replay" => |p| {
            p.time_us
                .zip(p.bytes)
                .map(|(us, bytes)| us / (bytes / (1024.0 * MIB)))
        },
        _ => return None,
    })
}

/// The size of a unit in the unit of its value.
fn scale(unit: &str) -> Option<f64> {
    Some(match unit {
        "x" | "µs" | "%" | "each" => 1.0,
        "k/s" | "ms" => 1e3,
        "s" | "s/GiB" => 1e6,
        "GB/s" => 1e9,
        "MiB" => MIB,
        _ => return None,
    })
}

fn part(text: &'static str) -> Option<Part> {
    let [word, sign, number, unit] = text.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    scale(unit)?;
    Some(Part {
        of: value(word)?,
        sign: SIGNS.into_iter().find(|s| *s == sign)?,
        limit: number.parse().ok()?,
        is_difference: number.starts_with('+'),
        unit,
    })
}

fn parts(goal: &'static str) -> Vec<Part> {
    let texts = goal.split(", ").filter(|text| !text.is_empty());
    texts
        .map(|text| part(text).expect("a goal of the table is well formed"))
        .collect()
}

impl Part {
    fn is_met(&self, found: f64) -> bool {
        match self.sign {
            "≥" => found >= self.limit,
            "≤" => found <= self.limit,
            _ => found < self.limit,
        }
    }

    /// What was found, in the part's unit, and in words.
    fn find(&self, ours: &[Point], other: &[Point]) -> (Option<f64>, String) {
        if self.unit == "x" {
            let ratios = ratios(self.of, ours, other);
            let found = ratios.as_ref().map(|r| r.median);
            return (found, ratios.map_or("? x".into(), |r| spread(&r)));
        }
        let mut found = median(ours, self.of);
        if self.is_difference {
            found = found.zip(median(other, self.of)).map(|(a, b)| a - b);
        }
        let found = found.map(|v| v / scale(self.unit).unwrap_or(1.0));
        let sign = if self.is_difference { "+" } else { "" };
        let text = found.map_or("?".into(), digits);
        (found, format!("{sign}{text} {}", self.unit))
    }
}

/// Ratios of the rounds; none if a value is missing.
fn ratios(of: Measure, ours: &[Point], other: &[Point]) -> Option<Spread> {
    let values = |points: &[Point]| points.iter().map(of).collect::<Option<Vec<f64>>>();
    let ratios = values(ours)?.into_iter().zip(values(other)?);
    let ratios: Vec<f64> = ratios.filter(|p| p.1 > 0.0).map(|(a, b)| a / b).collect();
    (!ratios.is_empty()).then(|| Spread::of(&ratios))
}

fn spread(r: &Spread) -> String {
    match r.count {
        1 => format!("{:.2} x", r.median),
        _ => format!("{:.2} ({:.2}–{:.2}) x", r.median, r.min, r.max),
    }
}

/// The measurement in words, and whether it meets the goal. A row without a goal has the ratio of rates.
pub(crate) fn judge(goal: &'static str, ours: &[Point], other: &[Point]) -> (String, Outcome) {
    let (mut words, mut known) = (Vec::new(), Vec::new());
    for part in parts(goal) {
        let (found, text) = part.find(ours, other);
        known.push(found.map(|found| part.is_met(found)));
        words.push(text);
    }
    if goal.is_empty() {
        words.extend(ratios(|p| p.rate, ours, other).map(|r| format!("rate {}", spread(&r))));
        words.extend(
            median(ours, |p| p.rate)
                .filter(|_| words.is_empty())
                .map(count),
        );
    }
    (words.join(", "), Outcome::of(&known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    fn point(rate: f64, time_us: f64, cpu_us: f64) -> Vec<Point> {
        vec![Point {
            rate: Some(rate),
            time_us: Some(time_us),
            cpu_us: Some(cpu_us),
            ..Point::default()
        }]
    }

    #[test]
    fn every_goal_of_the_table_is_well_formed() {
        for row in ROWS {
            for text in row.goal.split(", ").filter(|text| !text.is_empty()) {
                assert!(part(text).is_some(), "{}: {text}", row.name);
            }
        }
    }

    #[test]
    fn each_goal_can_be_met_missed_and_left_open() {
        let (ours, peer) = (point(100.0, 30.0, 3.0), point(30.0, 70.0, 20.0));
        let outcome = |goal, ours, other| judge(goal, ours, other).1;
        for (met, missed) in [
            ("CPU ≤ 3.5 µs, CPU ≤ 0.2 x", "CPU ≤ 2.5 µs, CPU ≤ 0.2 x"),
            ("CPU ≤ 3.5 µs", "CPU ≤ 3.5 µs, CPU ≤ 0.1 x"),
            ("p50 ≤ 0.5 x", "p50 ≤ 0.4 x"),
            ("rate ≥ 2.5 x, CPU ≤ 0.25 x", "rate ≥ 4 x, CPU ≤ 0.25 x"),
            ("rate ≥ 3 x, CPU < 1 x", "rate ≥ 3.5 x, CPU < 1 x"),
            ("rate ≥ 0.1 k/s", "rate ≥ 0.2 k/s"),
        ] {
            assert_eq!(outcome(met, &ours, &peer), Outcome::Met, "{met}");
            assert_eq!(outcome(missed, &ours, &peer), Outcome::NotMet, "{missed}");
        }
        assert_eq!(outcome("p50 ≤ +40 µs", &peer, &ours), Outcome::Met);
        assert_eq!(outcome("p50 ≤ +39 µs", &peer, &ours), Outcome::NotMet);
        for goal in ["CPU ≤ 3.5 µs, CPU ≤ 0.2 x", "p50 ≤ 0.5 x", "p50 ≤ +30 µs"] {
            assert_eq!(outcome(goal, &ours, &[]), Outcome::Unknown, "{goal}");
        }
        let missed = outcome("CPU ≤ 2 µs, CPU ≤ 0.2 x", &ours, &[]);
        assert_eq!(missed, Outcome::NotMet, "missed whatever the peer does");
        assert_eq!(outcome("", &ours, &peer), Outcome::NoGoal);
    }
}
