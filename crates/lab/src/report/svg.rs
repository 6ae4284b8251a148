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

/// Characters of a bold line of title that the width of a plot has room for.
const TITLE_LINE: usize = 72;
/// The same for a line of small text.
const TEXT_LINE: usize = 92;

/// Horizontal bars in named groups, with a mark at 1, and a legend of the bars' names.
pub(super) fn bars(title: &str, groups: &[(String, Vec<Bar>)]) -> String {
    const BAR: f64 = 16.0;
    const LINE: f64 = 16.0;
    let title_lines = wrap(title, TITLE_LINE);
    let legend = legend(groups);
    let count: usize = groups.iter().map(|g| g.1.len()).sum();
    let names: usize = groups.iter().map(|g| wrap(&g.0, TEXT_LINE).len()).sum();
    let top_of_bars = 12.0 + title_lines.len() as f64 * LINE;
    let end_of_bars =
        top_of_bars + count as f64 * (BAR + 3.0) + names as f64 * LINE + groups.len() as f64 * 8.0;
    let height = end_of_bars + (legend.len() + 1) as f64 * LINE + 8.0;
    let top = groups
        .iter()
        .flat_map(|g| &g.1)
        .map(|b| b.high.max(b.value))
        .fold(1.0, f64::max);
    let at = |v: f64| 4.0 + v / top * (WIDTH - 64.0);
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{}">"#,
        escape(title)
    );
    text_lines(&mut out, "title", 16.0, &title_lines);
    let one = at(1.0);
    let mut y = top_of_bars;
    for (name, group) in groups {
        let name_lines = wrap(name, TEXT_LINE);
        text_lines(&mut out, "tick", y + 12.0, &name_lines);
        y += name_lines.len() as f64 * LINE;
        for b in group {
            let tip = format!(
                "{} {}: {:.2} ({:.2}–{:.2})",
                name, b.name, b.value, b.low, b.high
            );
            let mid = y + BAR / 2.0;
            let _ = write!(
                out,
                r#"<rect class="s{}" x="4" y="{y:.1}" width="{:.1}" height="{BAR}"><title>{}</title></rect><line class="whisker" x1="{:.1}" y1="{mid:.1}" x2="{:.1}" y2="{mid:.1}"/><text class="tick" x="{:.1}" y="{:.1}">{:.2}</text>"#,
                b.colour % COLOURS,
                (at(b.value) - 4.0).max(1.0),
                escape(&tip),
                at(b.low),
                at(b.high),
                at(b.high.max(b.value)) + 6.0,
                y + BAR - 4.0,
                b.value
            );
            y += BAR + 3.0;
        }
        y += 8.0;
    }
    let _ = write!(
        out,
        r#"<line class="one" x1="{one:.1}" y1="{:.1}" x2="{one:.1}" y2="{:.1}"/><text class="tick mid" x="{one:.1}" y="{:.1}">1</text>"#,
        top_of_bars - 2.0,
        end_of_bars,
        end_of_bars + 12.0
    );
    let mut y = end_of_bars + LINE + 4.0;
    for (name, colour) in legend {
        let _ = write!(
            out,
            r#"<rect class="s{}" x="4" y="{y:.1}" width="12" height="12"/><text class="tick" x="22" y="{:.1}">{}</text>"#,
            colour % COLOURS,
            y + 10.0,
            escape(&name)
        );
        y += LINE;
    }
    out.push_str("</svg>");
    out
}

/// The names of all bars with their colours, each once.
fn legend(groups: &[(String, Vec<Bar>)]) -> Vec<(String, usize)> {
    let mut seen: Vec<(String, usize)> = Vec::new();
    for bar in groups.iter().flat_map(|g| &g.1) {
        if !seen.iter().any(|(name, _)| *name == bar.name) {
            seen.push((bar.name.clone(), bar.colour));
        }
    }
    seen
}

/// Lines of text one below the other, the first with its base line at `y`.
fn text_lines(out: &mut String, class: &str, y: f64, lines: &[String]) {
    for (number, line) in lines.iter().enumerate() {
        let _ = write!(
            out,
            r#"<text class="{class}" x="4" y="{:.1}">{}</text>"#,
            y + number as f64 * 16.0,
            escape(line)
        );
    }
}

/// A text in lines of at most this many characters, unless a word is longer.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let wrapped = super::wrap::wrap(text, "", most);
    wrapped.lines().map(str::to_owned).collect()
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

/// One bar of parts, percent, and a legend of their names.
pub(super) fn shares(title: &str, parts: &[(String, f64)]) -> String {
    const BAR: f64 = 26.0;
    const COLUMNS: usize = 4;
    const LINE: f64 = 18.0;
    let all: f64 = parts.iter().map(|p| p.1).sum::<f64>().max(1e-9);
    let height = BAR + 8.0 + parts.len().div_ceil(COLUMNS) as f64 * LINE;
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
        escape(title)
    );
    let mut x = 0.0;
    for (i, (name, percent)) in parts.iter().enumerate() {
        let width = percent / all * WIDTH;
        let name = escape(&io::printable::printable(name));
        let (key_x, key_y) = (
            (i % COLUMNS) as f64 * WIDTH / COLUMNS as f64,
            BAR + 8.0 + (i / COLUMNS) as f64 * LINE,
        );
        let colour = i % COLOURS;
        let _ = write!(
            out,
            r#"<rect class="s{colour}" x="{x:.1}" y="0" width="{width:.1}" height="{BAR}"><title>{name}: {percent:.1} %</title></rect><rect class="s{colour}" x="{key_x:.1}" y="{key_y:.1}" width="12" height="12"/><text class="tick" x="{:.1}" y="{:.1}">{name} {percent:.1} %</text>"#,
            key_x + 17.0,
            key_y + 10.0
        );
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

    fn bar(name: &str, colour: usize) -> Bar {
        Bar {
            name: name.into(),
            colour,
            value: 0.5,
            low: 0.4,
            high: 0.6,
        }
    }

    #[test]
    fn bars_have_a_legend_and_their_title_is_whole() {
        let title = "rate of a remote target as a share of the local one's (median, slowest and fastest round)";
        let groups = [
            (
                "4k randread QD1".to_owned(),
                vec![bar("nvme", 0), bar("iscsi", 1)],
            ),
            ("4k randread QD32".to_owned(), vec![bar("nvme", 0)]),
        ];
        let drawn = bars(title, &groups);
        let texts: Vec<&str> = drawn
            .split("<text ")
            .skip(1)
            .filter_map(|t| t.split_once('>')?.1.split("</text>").next())
            .collect();
        assert!(
            texts.iter().all(|t| t.chars().count() <= TEXT_LINE),
            "{texts:?}"
        );
        assert_eq!(texts[..2].join(" "), escape(title));
        for name in ["nvme", "iscsi"] {
            assert_eq!(
                texts.iter().filter(|t| **t == name).count(),
                1,
                "{name}: {texts:?}"
            );
        }
    }

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
