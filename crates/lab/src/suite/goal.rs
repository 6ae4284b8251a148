//! Goals of the suite.

use super::point::{Point, median};
use crate::size::{count, digits};
use crate::stats::Spread;

/// The goal of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Goal {
    /// The server's processor time per I/O: at most `most_us` µs, and at most this share of the peer's.
    ServerCpu { most_us: f64, share: Option<f64> },
    /// The median latency: at most this share of the peer's.
    LatencyShare(f64),
    /// Throughput: at least `times` times the peer's, at no more than this share of its processor time per I/O.
    Throughput { times: f64, cpu_share: f64 },
    /// The rate: at least `times` times the peer's, if set; and less of its processor time per I/O.
    Outdo { times: Option<f64> },
    /// The rate: at least this share of the same disk's without network.
    OfLocal(f64),
    /// The median latency: at most this many µs more than the same disk's without network.
    LatencyAdded(f64),
}

/// Result of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
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
    pub(super) fn of(known: &[Option<bool>]) -> Outcome {
        if known.contains(&Some(false)) {
            return Outcome::NotMet;
        }
        if known.contains(&None) {
            Outcome::Unknown
        } else {
            Outcome::Met
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::NotMet => "NOT MET",
            Outcome::Unknown => "nothing to compare with",
            Outcome::NoGoal => "no goal",
        }
    }
}

impl Goal {
    /// The goal in words.
    pub(super) fn text(self) -> String {
        match self {
            Goal::ServerCpu {
                most_us,
                share: None,
            } => format!("server CPU ≤ {most_us} µs"),
            Goal::ServerCpu {
                most_us,
                share: Some(s),
            } => format!("server CPU ≤ {most_us} µs and ≤ {s} of the peer's"),
            Goal::LatencyShare(s) => format!("p50 ≤ {s} of the peer's"),
            Goal::Throughput { times, cpu_share } => {
                format!("≥ {times}x the peer at ≤ {cpu_share} of its CPU")
            }
            Goal::Outdo { times: None } => "less CPU than the peer".into(),
            Goal::Outdo { times: Some(t) } => format!("≥ {t}x the peer, less CPU"),
            Goal::OfLocal(s) => format!("≥ {s} of local"),
            Goal::LatencyAdded(us) => format!("p50 ≤ local + {us} µs"),
        }
    }

    /// The measurement in words, and whether it meets the goal. `other` is the peer, or the local disk.
    pub(super) fn judge(self, ours: &[Point], other: &[Point]) -> (String, Outcome) {
        let cpu = |p: &[Point]| median(p, |p| p.server_us);
        let p50 = |p: &[Point]| median(p, |p| Some(p.p50_us));
        let rate = |p: &[Point]| median(p, |p| Some(p.iops));
        let share =
            |a: Option<f64>, b: Option<f64>| a.zip(b).filter(|v| v.1 > 0.0).map(|(a, b)| a / b);
        let say = |v: Option<f64>| v.map_or_else(|| "?".to_owned(), digits);
        match self {
            Goal::ServerCpu {
                most_us,
                share: wanted,
            } => {
                let of_peer = share(cpu(ours), cpu(other));
                let mut known = vec![cpu(ours).map(|v| v <= most_us)];
                let mut text = format!("{} µs", say(cpu(ours)));
                if let Some(s) = wanted {
                    known.push(of_peer.map(|v| v <= s));
                    text += &format!(", {} of the peer's {} µs", say(of_peer), say(cpu(other)));
                }
                (text, Outcome::of(&known))
            }
            Goal::LatencyShare(s) => {
                let got = share(p50(ours), p50(other));
                let text = format!(
                    "{} µs, {} of the peer's {} µs",
                    say(p50(ours)),
                    say(got),
                    say(p50(other))
                );
                (text, Outcome::of(&[got.map(|v| v <= s)]))
            }
            Goal::Throughput { times, cpu_share } => {
                let (more, less) = (share(rate(ours), rate(other)), share(cpu(ours), cpu(other)));
                let text = format!(
                    "{}x at {} of its CPU ({} µs)",
                    say(more),
                    say(less),
                    say(cpu(ours))
                );
                (
                    text,
                    Outcome::of(&[more.map(|v| v >= times), less.map(|v| v <= cpu_share)]),
                )
            }
            Goal::Outdo { times } => {
                let (more, less) = (share(rate(ours), rate(other)), share(cpu(ours), cpu(other)));
                let text = format!("{}x at {} of its CPU", say(more), say(less));
                let mut known = vec![less.map(|v| v < 1.0)];
                if let Some(t) = times {
                    known.push(more.map(|v| v >= t));
                }
                (text, Outcome::of(&known))
            }
            Goal::OfLocal(s) => {
                // Round by round, because both ran next to each other.
                let ratios: Vec<f64> = ours
                    .iter()
                    .zip(other)
                    .filter(|p| p.1.iops > 0.0)
                    .map(|(a, b)| a.iops / b.iops)
                    .collect();
                let r = Spread::of(&ratios);
                let known = (!ratios.is_empty()).then_some(r.median >= s);
                (
                    format!(
                        "{:.2} ({:.2}–{:.2}), {} IOPS",
                        r.median,
                        r.min,
                        r.max,
                        rate(ours).map_or("?".into(), count)
                    ),
                    Outcome::of(&[known]),
                )
            }
            Goal::LatencyAdded(us) => {
                let added = p50(ours).zip(p50(other)).map(|(a, b)| a - b);
                (
                    format!("local {} + {} µs", say(p50(other)), say(added)),
                    Outcome::of(&[added.map(|v| v <= us)]),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(iops: f64, p50_us: f64, server_us: f64) -> Vec<Point> {
        vec![Point {
            iops,
            bytes_per_s: iops * 4096.0,
            p50_us,
            server_us: Some(server_us),
        }]
    }

    #[test]
    fn each_goal_can_be_met_missed_and_left_open() {
        let (ours, peer) = (point(100.0, 30.0, 3.0), point(30.0, 70.0, 20.0));
        let cases = [
            (
                Goal::ServerCpu {
                    most_us: 3.5,
                    share: Some(0.2),
                },
                Outcome::Met,
            ),
            (
                Goal::ServerCpu {
                    most_us: 2.5,
                    share: Some(0.2),
                },
                Outcome::NotMet,
            ),
            (
                Goal::ServerCpu {
                    most_us: 3.5,
                    share: Some(0.1),
                },
                Outcome::NotMet,
            ),
            (
                Goal::ServerCpu {
                    most_us: 2.5,
                    share: None,
                },
                Outcome::NotMet,
            ),
            (Goal::LatencyShare(0.5), Outcome::Met),
            (Goal::LatencyShare(0.4), Outcome::NotMet),
            (
                Goal::Throughput {
                    times: 2.5,
                    cpu_share: 0.25,
                },
                Outcome::Met,
            ),
            (
                Goal::Throughput {
                    times: 4.0,
                    cpu_share: 0.25,
                },
                Outcome::NotMet,
            ),
            (
                Goal::Throughput {
                    times: 2.5,
                    cpu_share: 0.1,
                },
                Outcome::NotMet,
            ),
            (Goal::Outdo { times: Some(3.0) }, Outcome::Met),
            (Goal::Outdo { times: Some(3.5) }, Outcome::NotMet),
            (Goal::Outdo { times: None }, Outcome::Met),
            (Goal::OfLocal(0.9), Outcome::Met),
            (Goal::OfLocal(4.0), Outcome::NotMet),
            (Goal::LatencyAdded(-40.0), Outcome::Met),
            (Goal::LatencyAdded(-41.0), Outcome::NotMet),
        ];
        for (goal, wanted) in cases {
            assert_eq!(goal.judge(&ours, &peer).1, wanted, "{goal:?}");
        }
        for goal in [
            Goal::ServerCpu {
                most_us: 3.5,
                share: Some(0.2),
            },
            Goal::LatencyShare(0.5),
            Goal::Outdo { times: None },
            Goal::OfLocal(0.9),
        ] {
            assert_eq!(goal.judge(&ours, &[]).1, Outcome::Unknown, "{goal:?}");
        }
        let costly = Goal::Outdo { times: None }.judge(&peer, &ours).1;
        assert_eq!(costly, Outcome::NotMet, "it costs more");
        assert_eq!(
            Goal::ServerCpu {
                most_us: 2.0,
                share: Some(0.2)
            }
            .judge(&ours, &[])
            .1,
            Outcome::NotMet,
            "missed whatever the peer does"
        );
    }
}
