//! Plots as SVG.
//!
//! **Called by** the HTML report. **Invariants**: nothing is fetched; text is escaped; colours come from the page's
//! style sheet by class (`s0` to `s7`).

use std::fmt::Write;

/// A named line of points.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Contents of a plot.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
    /// Places and texts of the marks below.
    pub(super) x_marks: Vec<(f64, String)>,
    /// The vertical axis is logarithmic.
    pub(super) log: bool,
    /// Formats values of the vertical axis.
    pub(super) y_text: fn(f64) -> String,
}

/// Number of colours; further lines start over.
pub(super) const COLOURS: usize = 8;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Lines over a horizontal axis.
pub(super) fn lines(plot: &Plot<'_>, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|l| &l.points);
    let (mut x0, mut x1) = bounds(all().map(|p| p.0).chain(plot.x_marks.iter().map(|m| m.0)));
    if x1 <= x0 {
        (x0, x1) = (x0 - 0.5, x0 + 0.5);
    }
    let ticks = y_ticks(plot.log, bounds(all().map(|p| p.1)));
    let (y0, y1) = (ticks[0], ticks[ticks.len() - 1]);
    let scale = |v: f64| {
        if plot.log {
            v.max(f64::MIN_POSITIVE).log10()
        } else {
            v
        }
    };
    let x_at = |x: f64| LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT);
    let y_at = |y: f64| {
        HEIGHT - BOTTOM - (scale(y) - scale(y0)) / (scale(y1) - scale(y0)) * (HEIGHT - TOP - BOTTOM)
    };
    let mut out = open(plot.title);
    for t in &ticks {
        let y = y_at(*t);
        let _ = write!(
            out,
            r#"<line class="grid" x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}"/>"#,
            WIDTH - RIGHT
        );
        let _ = write!(
            out,
            r#"<text class="tick end" x="{:.1}" y="{:.1}">{}</text>"#,
            LEFT - 6.0,
            y + 4.0,
            escape(&(plot.y_text)(*t))
        );
    }
    for (x, text) in &plot.x_marks {
        let at = x_at(*x);
        let _ = write!(
            out,
            r#"<text class="tick mid" x="{at:.1}" y="{:.1}">{}</text>"#,
            HEIGHT - BOTTOM + 16.0,
            escape(text)
        );
    }
    let _ = write!(
        out,
        r#"<text class="axis mid" x="{:.1}" y="{:.1}">{}</text>"#,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0,
        escape(plot.x_label)
    );
    let _ = write!(
        out,
        r#"<text class="axis" x="4" y="16">{}</text>"#,
        escape(plot.y_label)
    );
    for (i, line) in lines.iter().enumerate() {
        let points: Vec<String> = line
            .points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(*y)))
            .collect();
        let _ = write!(
            out,
            r#"<polyline class="s{}" points="{}"><title>{}</title></polyline>"#,
            i % COLOURS,
            points.join(" "),
            escape(&line.name)
        );
        if line.points.len() <= 12 {
            for (x, y) in &line.points {
                let tip = format!("{}: {}", line.name, (plot.y_text)(*y));
                let _ = write!(
                    out,
                    r#"<circle class="s{}" cx="{:.1}" cy="{:.1}" r="3"><title>{}</title></circle>"#,
                    i % COLOURS,
                    x_at(*x),
                    y_at(*y),
                    escape(&tip)
                );
            }
        }
    }
    out.push_str("</svg>");
    out
}

/// One bar of a group, with its colour and the spread of its rounds.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Horizontal bars in named groups, with a mark at 1.
pub(super) fn bars(title: &str, groups: &[(String, Vec<Bar>)]) -> String {
    const BAR: f64 = 16.0;
    const NAME: f64 = 150.0;
    let count: usize = groups.iter().map(|g| g.1.len()).sum();
    let height = TOP + 20.0 + count as f64 * (BAR + 3.0) + groups.len() as f64 * 10.0;
    let top = groups
        .iter()
        .flat_map(|g| &g.1)
        .map(|b| b.high.max(b.value))
        .fold(1.0, f64::max);
    let at = |v: f64| NAME + v / top * (WIDTH - NAME - 60.0);
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{0}"><text class="title" x="4" y="16">{0}</text>"#,
        escape(title)
    );
    let mut y = TOP;
    for (name, group) in groups {
        let _ = write!(
            out,
            r#"<text class="tick" x="4" y="{:.1}">{}</text>"#,
            y + BAR - 4.0,
            escape(name)
        );
        for b in group {
            let tip = format!(
                "{} {}: {:.2} ({:.2}–{:.2})",
                name, b.name, b.value, b.low, b.high
            );
            let _ = write!(
                out,
                r#"<rect class="s{}" x="{NAME}" y="{y:.1}" width="{:.1}" height="{BAR}"><title>{}</title></rect>"#,
                b.colour % COLOURS,
                (at(b.value) - NAME).max(1.0),
                escape(&tip)
            );
            let mid = y + BAR / 2.0;
            let _ = write!(
                out,
                r#"<line class="whisker" x1="{:.1}" y1="{mid:.1}" x2="{:.1}" y2="{mid:.1}"/>"#,
                at(b.low),
                at(b.high)
            );
            let _ = write!(
                out,
                r#"<text class="tick" x="{:.1}" y="{:.1}">{:.2}</text>"#,
                at(b.high.max(b.value)) + 6.0,
                y + BAR - 4.0,
                b.value
            );
            y += BAR + 3.0;
        }
        y += 10.0;
    }
    let one = at(1.0);
    let _ = write!(
        out,
        r#"<line class="one" x1="{one:.1}" y1="{:.1}" x2="{one:.1}" y2="{:.1}"/></svg>"#,
        TOP - 4.0,
        y
    );
    out
}

/// Vertical bars with their names below and their values above.
pub(super) fn columns(title: &str, bars: &[(String, f64)]) -> String {
    let most = bars.iter().map(|b| b.1).fold(1.0, f64::max);
    let step = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
    let bottom = HEIGHT - BOTTOM;
    let mut out = open(title);
    for (i, (name, value)) in bars.iter().enumerate() {
        let height = value / most * (bottom - TOP - 14.0);
        let (x, y) = (LEFT + i as f64 * step, bottom - height);
        let middle = x + step / 2.0;
        let _ = write!(
            out,
            r#"<rect class="s0" x="{:.1}" y="{y:.1}" width="{:.1}" height="{height:.1}"><title>{}: {value}</title></rect>"#,
            x + 1.0,
            (step - 2.0).max(1.0),
            escape(name)
        );
        let _ = write!(
            out,
            r#"<text class="tick mid" x="{middle:.1}" y="{:.1}">{value}</text>"#,
            y - 4.0
        );
        let _ = write!(
            out,
            r#"<text class="tick mid" x="{middle:.1}" y="{:.1}">{}</text>"#,
            bottom + 16.0,
            escape(name)
        );
    }
    out.push_str("</svg>");
    out
}

/// One bar of parts, percent, with the names of the larger ones in it.
pub(super) fn shares(title: &str, parts: &[(String, f64)]) -> String {
    const BAR: f64 = 26.0;
    const NAMED: f64 = 8.0;
    let all: f64 = parts.iter().map(|p| p.1).sum::<f64>().max(1e-9);
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {0}" role="img" aria-label="{1}">"#,
        BAR + 18.0,
        escape(title)
    );
    let mut x = 0.0;
    for (i, (name, percent)) in parts.iter().enumerate() {
        let width = percent / all * WIDTH;
        let name = escape(&io::printable::printable(name));
        let _ = write!(
            out,
            r#"<rect class="s{}" x="{x:.1}" y="0" width="{width:.1}" height="{BAR}"><title>{name}: {percent:.1} %</title></rect>"#,
            i % COLOURS
        );
        if *percent >= NAMED {
            let _ = write!(
                out,
                r#"<text class="tick mid" x="{:.1}" y="{:.1}">{name}</text>"#,
                x + width / 2.0,
                BAR + 14.0
            );
        }
        x += width;
    }
    out.push_str("</svg>");
    out
}

fn open(title: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{0}"><text class="title mid" x="{1}" y="16">{0}</text>"#,
        escape(title),
        WIDTH / 2.0
    )
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
            (a.min(v), b.max(v))
        })
}

/// At least two marks that enclose the values: powers of ten (and their doubles and halves) or even steps from 0.
fn y_ticks(log: bool, (low, high): (f64, f64)) -> Vec<f64> {
    if !(low.is_finite() && high.is_finite() && high > 0.0) {
        return vec![if log { 1.0 } else { 0.0 }, 10.0];
    }
    if !log {
        let step = nice(high / 4.0);
        return (0..=(high / step).ceil() as usize)
            .map(|i| i as f64 * step)
            .collect();
    }
    let start = low.max(1e-9).log10().floor() as i32;
    let end = (high.log10().ceil() as i32).max(start + 1);
    let marks: &[f64] = if end - start <= 2 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let all: Vec<f64> = (start..end)
        .flat_map(|e| marks.iter().map(move |m| m * 10f64.powi(e)))
        .chain([10f64.powi(end)])
        .collect();
    let first = all.iter().rposition(|t| *t <= low).unwrap_or(0);
    let last = all.iter().position(|t| *t >= high).unwrap_or(all.len() - 1);
    all[first..=last.max(first + 1).min(all.len() - 1)].to_vec()
}

fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-9).log10().floor());
    let lead = step / power;
    power
        * if lead <= 1.0 {
            1.0
        } else if lead <= 2.0 {
            2.0
        } else if lead <= 5.0 {
            5.0
        } else {
            10.0
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn marks_enclose_what_is_drawn(a in 1e-3f64..1e9, b in 1e-3f64..1e9, log: bool) {
            let (low, high) = (a.min(b), a.max(b));
            let t = y_ticks(log, (low, high));
            prop_assert!(t.len() >= 2 && t.len() < 40);
            prop_assert!(t.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(t[0] <= low * 1.000001 && t[t.len() - 1] >= high * 0.999999, "{:?} {} {}", t, low, high);
        }
    }
}
