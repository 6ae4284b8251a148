//! The order of the sections.

use super::input::{Input, Runs};
use super::{probes, runs, server};
use crate::plan::Machine;
use crate::report::frame;
use std::fmt::Write;

/// The contents of the page.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Its heading.
    pub title: String,
    /// The machine that makes the page.
    pub machine: Machine,
    /// Time, milliseconds since 1970.
    pub at_ms: u64,
    /// Results of commands.
    pub inputs: Vec<Input>,
    /// Reasons why an input is missing.
    pub missing: Vec<String>,
}

/// The page.
#[must_use]
pub fn render(o: &Overview) -> String {
    let mut out = frame::open(&o.title);
    out.push_str("<h2>Machine</h2>");
    out.push_str(&frame::machine(&o.machine, o.at_ms));
    server::list(&mut out, &o.missing);
    section(
        &mut out,
        o,
        "Doctor",
        "wirepool doctor --json",
        |i| match i {
            Input::Doctor(d) => Some(server::doctor(d)),
            _ => None,
        },
    );
    let probed = "wirepool ping, ioping or probe run with --json";
    section(&mut out, o, "Probes", probed, |i| match i {
        Input::Ping(p) => Some(probes::ping(p)),
        Input::Ioping(p) => Some(probes::ioping(p)),
        Input::Network(p) => Some(probes::network(p)),
        _ => None,
    });
    let measured = "wirepool bench run, matrix or compare with --json";
    section(&mut out, o, "Results", measured, |i| match i {
        Input::Runs(r) => Some(runs::matrix(r)),
        _ => None,
    });
    let all: Vec<&Runs> = o
        .inputs
        .iter()
        .filter_map(|i| match i {
            Input::Runs(r) => Some(r),
            _ => None,
        })
        .collect();
    out.push_str("<h2>Local against remote</h2>");
    let none = "<p class=\"about\">No input: wirepool bench compare of a local and a remote target with --json.</p>";
    out.push_str(&runs::against(&all).unwrap_or_else(|| none.into()));
    section(&mut out, o, "Stages", "wirepool why --json", |i| match i {
        Input::Why(all) => Some(all.iter().map(server::why).collect()),
        _ => None,
    });
    out.push_str("<h2>Published results</h2>");
    out.push_str(&runs::published(&all));
    out.push_str(frame::CLOSE);
    out
}

/// A section: its inputs, or the command that makes one.
fn section(
    out: &mut String,
    o: &Overview,
    title: &str,
    command: &str,
    part: impl Fn(&Input) -> Option<String>,
) {
    let _ = write!(out, "<h2>{title}</h2>");
    let parts: String = o.inputs.iter().filter_map(part).collect();
    match parts.is_empty() {
        true => {
            let _ = write!(out, "<p class=\"about\">No input: {command}.</p>");
        }
        false => out.push_str(&parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::network::result::Verbs;
    use crate::probe::samples;
    use crate::report::html::tests::{assert_well_formed, sample};
    use crate::report::overview::input::recognize;
    use serde_json::json;

    const HOSTILE: &str = "<script>alert('x')</script>\x1b[2J\u{202e}\"";

    fn overview(name: &str) -> Overview {
        let mut report = sample();
        report.targets[0].1 = "file:/d".into();
        report.targets[1].1 = format!("nvme-tcp://h:1/{name}");
        report.targets[1].0.push_str(name);
        let mut ping = samples::pinged();
        ping.target.push_str(name);
        ping.keep_alive_name.push_str(name);
        let mut ioping = samples::iopinged();
        ioping.description.push_str(name);
        let mut network = samples::probed();
        network.verdict.evidence.push(name.into());
        network.verbs = Some(Verbs {
            device: name.into(),
            ..Verbs::default()
        });
        let doctor = json!({ "checks": 112, "not_checked": [1], "findings": [{
            "check": "mtu", "severity": "warning", "object": name, "evidence": name, "why": "w", "steps": [], "risk": "r" }] });
        let why = json!([{ "protocol": "nvme", "export": name, "seconds": 3.0,
            "stages": [{ "stage": name, "percent": 60.0, "mean_us": 1.0, "p99_us": 2.0 },
                { "stage": "device", "percent": 40.0, "mean_us": 1.0, "p99_us": 2.0 }],
            "limit": { "summary": name, "evidence": [name], "helps": [name] } }]);
        let values = [
            serde_json::to_value(ping),
            serde_json::to_value(ioping),
            serde_json::to_value(network),
            Ok(doctor),
            Ok(why),
            Ok(crate::report::fio::render(&report)),
        ];
        let inputs = values.map(|v| recognize(v.expect("JSON")).expect("recognized"));
        Overview {
            title: format!("Overview {name}"),
            machine: report.machine,
            at_ms: report.at_ms,
            inputs: inputs.into(),
            missing: vec![name.to_owned()],
        }
    }

    #[test]
    fn every_input_is_on_a_page_that_needs_nothing_from_elsewhere() {
        let page = render(&overview("name"));
        for word in [
            "Machine",
            "Doctor",
            "112 checks",
            "mtu",
            "Probes",
            "TCP connect",
            "ioping",
            "Gb/s",
            "Results",
            "4K randread Q1T1",
            "Local against remote",
            "share of the local rate",
            "Stages",
            "device",
            "Published results",
            "iser-nvme-4k-randwrite",
        ] {
            assert!(page.contains(word), "{word}");
        }
        assert!(!page.contains("No input"), "{page}");
        for outside in [
            "http:", "https:", "url(", "@import", "<script", "<link", "<img", "src=", "href=",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_well_formed(&page);
    }

    #[test]
    fn names_are_no_part_of_the_markup() {
        let page = render(&overview(HOSTILE));
        assert!(!page.contains("<script") && !page.contains(['\x1b', '\u{202e}']));
        assert!(page.contains("&lt;script&gt;"));
        assert_well_formed(&page);
    }

    #[test]
    fn a_page_without_inputs_says_what_would_make_them() {
        let mut empty = overview("name");
        empty.inputs.clear();
        let page = render(&empty);
        assert_eq!(page.matches("No input").count(), 5, "{page}");
        assert!(page.contains("wirepool doctor --json"));
        assert_well_formed(&page);
    }
}
