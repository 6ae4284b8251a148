//! A timeline as SVG: a rate over time, bands for disturbances, and lanes with marks for events.
//!
//! **Called by** the drills. **Invariants**: nothing is fetched; texts are escaped; colours come from the style sheet of
//! [`super::page`].

use super::page::text;
use crate::size::{count, digits};
use std::fmt::Write;

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 34.0;
/// Height of the plot of rates.
const PLOT: f64 = 150.0;
/// Height of one lane.
const LANE: f64 = 24.0;
const BOTTOM: f64 = 40.0;
/// Number of steps between the marks of the time axis.
const STEPS: u32 = 8;

/// A stretch of time.
#[derive(Debug, Clone)]
pub struct Band {
    /// Its begin, seconds.
    pub from: f64,
    /// Its end, seconds.
    pub to: f64,
    /// Its name.
    pub name: String,
}

/// Events of one layer.
#[derive(Debug, Clone)]
pub struct Lane {
    /// The layer.
    pub name: String,
    /// Time in seconds, and text, of each event.
    pub marks: Vec<(f64, String)>,
}

/// Contents of a timeline.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Its title.
    pub title: String,
    /// Its end, seconds.
    pub end: f64,
    /// Begin in seconds of each step of equal length, and the rate in it.
    pub rates: Vec<(f64, f64)>,
    /// Begin and name of a last phase, such as a check of all data, whose rates say nothing about the load: they may leave the scale.
    pub last_phase: Option<(f64, String)>,
    /// Disturbances.
    pub bands: Vec<Band>,
    /// Layers, from top to bottom.
    pub lanes: Vec<Lane>,
}

/// Draws the timeline.
#[must_use]
pub fn timeline(t: &Timeline) -> String {
    let end = t.rates.iter().map(|r| r.0).fold(t.end.max(0.1), f64::max);
    let last_phase = t.last_phase.as_ref();
    let load = || {
        t.rates
            .iter()
            .filter(|r| last_phase.is_none_or(|(begin, _)| r.0 < *begin))
    };
    let top = load().map(|r| r.1).fold(1.0, f64::max);
    let height = TOP + PLOT + t.lanes.len() as f64 * LANE + BOTTOM;
    let lanes_end = height - BOTTOM;
    let x_at = |seconds: f64| LEFT + (seconds / end).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
    let y_at = |rate: f64| TOP + PLOT - rate.min(top) / top * PLOT;
    let mut out = format!(
        r#"<svg class="wide" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{0}"><text class="title" x="4" y="16">{0}</text>"#,
        text(&t.title)
    );
    if let Some((begin, name)) = last_phase {
        let from = x_at(*begin);
        let _ = write!(
            out,
            r#"<rect class="after" x="{from:.1}" y="{TOP}" width="{:.1}" height="{PLOT}"/><text class="tick end" x="{:.1}" y="{:.1}">{}</text>"#,
            (WIDTH - RIGHT - from).max(1.5),
            WIDTH - RIGHT,
            TOP - 6.0,
            text(&format!(
                "{name}, from {begin:.2} s; its rate is not to scale"
            ))
        );
    }
    for band in &t.bands {
        let (from, to) = (x_at(band.from), x_at(band.to));
        let _ = write!(
            out,
            r#"<rect class="band" x="{from:.1}" y="{TOP}" width="{:.1}" height="{:.1}"><title>{}</title></rect>"#,
            (to - from).max(1.5),
            lanes_end - TOP,
            text(&format!(
                "{}, {:.2} s to {:.2} s",
                band.name, band.from, band.to
            ))
        );
    }
    for rate in [0.0, top] {
        let y = y_at(rate);
        let _ = write!(
            out,
            r#"<line class="grid" x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}"/><text class="tick end" x="{:.1}" y="{:.1}">{}</text>"#,
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            text(&count(rate))
        );
    }
    let mut points = format!("{:.1},{:.1}", x_at(0.0), y_at(0.0));
    for (seconds, rate) in &t.rates {
        let _ = write!(points, " {:.1},{:.1}", x_at(*seconds), y_at(*rate));
    }
    let _ = write!(points, " {:.1},{:.1}", x_at(end), y_at(0.0));
    let _ = write!(out, r#"<polygon class="area" points="{points}"/>"#);
    for (number, lane) in t.lanes.iter().enumerate() {
        draw_lane(
            &mut out,
            lane,
            TOP + PLOT + (number as f64 + 0.6) * LANE,
            x_at,
        );
    }
    for step in 0..=STEPS {
        let seconds = end * f64::from(step) / f64::from(STEPS);
        let _ = write!(
            out,
            r#"<text class="tick mid" x="{:.1}" y="{:.1}">{}</text>"#,
            x_at(seconds),
            lanes_end + 18.0,
            text(&digits(seconds))
        );
    }
    let _ = write!(
        out,
        r#"<text class="axis mid" x="{:.1}" y="{:.1}">seconds</text></svg>"#,
        (LEFT + WIDTH - RIGHT) / 2.0,
        height - 6.0
    );
    out
}

fn draw_lane(out: &mut String, lane: &Lane, y: f64, x_at: impl Fn(f64) -> f64) {
    let _ = write!(
        out,
        r#"<line class="lane" x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}"/><text class="tick end" x="{:.1}" y="{:.1}">{}</text>"#,
        WIDTH - RIGHT,
        LEFT - 6.0,
        y + 4.0,
        text(&lane.name)
    );
    for (seconds, what) in &lane.marks {
        let _ = write!(
            out,
            r#"<circle class="mark" cx="{:.1}" cy="{y:.1}" r="4"><title>{}</title></circle>"#,
            x_at(*seconds),
            text(&format!("{seconds:.2} s: {what}"))
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_times_stay_within_the_plot() {
        let drawn = timeline(&Timeline {
            title: "A <title>".into(),
            end: 0.0,
            rates: Vec::new(),
            last_phase: Some((-5.0, "<check>".into())),
            bands: vec![Band {
                from: -1.0,
                to: 99.0,
                name: "<cut>".into(),
            }],
            lanes: vec![Lane {
                name: "pool".into(),
                marks: vec![(5.0, "a & \u{1b}b".into())],
            }],
        });
        for raw in [
            "<title>A", "<cut>", "<check>", "& ", "\u{1b}", "NaN", "inf", "x=\"-",
        ] {
            assert!(!drawn.contains(raw), "{raw}: {drawn}");
        }
        assert!(drawn.contains("&lt;cut&gt;") && drawn.ends_with("</svg>"));
    }
    /// The heights of the plot's points, from the polygon.
    fn heights(drawn: &str) -> Vec<f64> {
        let points = drawn
            .split("points=\"")
            .nth(1)
            .and_then(|p| p.split('"').next());
        let points = points.expect("a polygon").split(' ');
        points
            .filter_map(|p| p.split_once(',')?.1.parse().ok())
            .collect()
    }

    #[test]
    fn a_fast_last_phase_does_not_flatten_the_load() {
        let mut drawing = Timeline {
            title: "rates".into(),
            end: 4.0,
            rates: vec![
                (0.0, 100.0),
                (1.0, 50.0),
                (2.0, 100_000.0),
                (3.0, 100_000.0),
            ],
            last_phase: Some((2.0, "every block is read back".into())),
            bands: Vec::new(),
            lanes: Vec::new(),
        };
        let drawn = timeline(&drawing);
        assert!(drawn.contains("every block is read back, from 2.00 s"));
        let with = heights(&drawn);
        assert_eq!(with[1..5], [TOP, TOP + PLOT / 2.0, TOP, TOP], "{with:?}");
        drawing.last_phase = None;
        let without = heights(&timeline(&drawing));
        assert!(
            without[1] > TOP + PLOT * 0.9,
            "flat without it: {without:?}"
        );
    }
}
