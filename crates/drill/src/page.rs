//! The report of a drill as one self-contained HTML page with a timeline.
//!
//! **Called by** the report. **Invariants**: nothing is fetched; every text is escaped.

use crate::report::Report;
use crate::timeline::Layer;
use lab::report::page::{page, text};
use lab::report::timeline::{Band, Lane, Timeline, timeline};
use std::fmt::Write;

/// The report as a page.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    let class = match report.passed() {
        true => "passed",
        false => "failed",
    };
    let _ = write!(out, "<p class=\"{class}\">{}</p>", text(&report.verdict()));
    out.push_str("<table class=\"plain\"><tbody>");
    for (name, value) in report.summary() {
        let _ = write!(
            out,
            "<tr><th>{}</th><td>{}</td></tr>",
            text(name),
            text(&value)
        );
    }
    for problem in report.problems() {
        let _ = write!(out, "<tr><th>problem</th><td>{}</td></tr>", text(problem));
    }
    out.push_str("</tbody></table><h2>Timeline</h2>");
    out.push_str(&timeline(&drawing(report)));
    table(&mut out, report);
    for layer in report.layers() {
        let _ = write!(out, "<h2>{}</h2><ul>", text(layer.layer.name()));
        for fact in &layer.facts {
            let _ = write!(out, "<li>{}</li>", text(fact));
        }
        out.push_str("</ul>");
    }
    out.push_str("<h2>Events</h2><table class=\"plain\"><thead><tr><th>time</th><th>layer</th><th>event</th></tr></thead><tbody>");
    for event in report.events() {
        let _ = write!(
            out,
            "<tr><td>{:.3} s</td><td>{}</td><td>{}</td></tr>",
            event.at_ms as f64 / 1000.0,
            event.layer.name(),
            text(&event.text)
        );
    }
    out.push_str("</tbody></table>");
    page(&format!("Drill: {}", report.about().drill), &out)
}

fn table(out: &mut String, report: &Report) {
    out.push_str("<h2>Disturbances</h2><table class=\"plain\"><thead><tr>");
    for head in Report::HEADS {
        let _ = write!(out, "<th>{}</th>", text(&head.to_lowercase()));
    }
    out.push_str("</tr></thead><tbody>");
    for ended in report.disturbances() {
        out.push_str("<tr>");
        for cell in Report::cells(ended) {
            let _ = write!(out, "<td>{}</td>", text(&cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
}

fn drawing(report: &Report) -> Timeline {
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let bands = report.disturbances().iter().map(|ended| Band {
        from: seconds(ended.at_ms),
        to: seconds(ended.at_ms + ended.length_ms),
        name: ended.name.clone(),
    });
    let lanes = Layer::ALL.into_iter().map(|layer| {
        let events = report.events().iter().filter(|e| e.layer == layer);
        Lane {
            name: layer.name().to_owned(),
            marks: events.map(|e| (seconds(e.at_ms), e.text.clone())).collect(),
        }
    });
    Timeline {
        title: "answered commands per second, and events of each layer".into(),
        end: report.seconds(),
        rates: report.rates(),
        last_phase: report
            .load_end()
            .map(|end| (end, "every block is read back".into())),
        bands: bands.collect(),
        lanes: lanes.filter(|lane| !lane.marks.is_empty()).collect(),
    }
}
