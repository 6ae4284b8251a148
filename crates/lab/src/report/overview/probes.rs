//! Ping, ioping and the probe of TCP and RDMA.

use super::server::list;
use crate::probe::ioping::result::Iopinged;
use crate::probe::network::result::{Flow, Probed};
use crate::probe::ping::result::Pinged;
use crate::probe::summary::{Bin, Summary, round};
use crate::probe::verdict::Verdict;
use crate::report::frame::{safe, table};
use crate::report::svg::columns;
use crate::size::{digits, nanos};
use std::fmt::Write;

const HEADER: [&str; 8] = ["", "sent", "lost", "min", "avg", "p50", "p99", "max"];

fn numbers(name: &str, s: &Summary) -> Vec<String> {
    let mut cells = vec![safe(name), s.sent.to_string(), s.lost.to_string()];
    let times = [
        s.min_ns as f64,
        s.mean_ns,
        s.p50_ns as f64,
        s.p99_ns as f64,
        s.max_ns as f64,
    ];
    cells.extend(times.map(|ns| match s.answered() {
        0 => "–".into(),
        _ => nanos(ns),
    }));
    cells
}

fn histogram(title: &str, bins: &[Bin]) -> String {
    let bars: Vec<(String, f64)> = bins
        .iter()
        .map(|b| (round(b.from_ns), b.count as f64))
        .collect();
    match bars.is_empty() {
        true => String::new(),
        false => columns(&io::printable::printable(title), &bars),
    }
}

fn verdict(out: &mut String, v: &Verdict) {
    let _ = write!(
        out,
        "<p><b>{}:</b> {}</p>",
        v.limit.name(),
        safe(&v.summary)
    );
    list(out, &v.evidence);
    if !v.helps.is_empty() {
        out.push_str("<p>would help:</p>");
    }
    list(out, &v.helps);
}

/// A result of `wirepool ping`.
pub(super) fn ping(p: &Pinged) -> String {
    let mut out = format!("<h3>ping {}</h3>", safe(&p.target));
    verdict(&mut out, &p.verdict);
    let read = format!("read of {} bytes", p.size);
    let rungs = [
        ("TCP connect", &p.tcp),
        (p.keep_alive_name.as_str(), &p.keep_alive),
        (read.as_str(), &p.read),
    ];
    out.push_str(&table(&HEADER, &rungs.map(|(name, s)| numbers(name, s))));
    out.push_str("<div class=\"plots\">");
    rungs
        .iter()
        .for_each(|(name, s)| out.push_str(&histogram(name, &s.histogram)));
    out.push_str("</div>");
    out
}

/// A result of `wirepool ioping`.
pub(super) fn ioping(p: &Iopinged) -> String {
    let mut out = format!("<h3>ioping {}</h3>", safe(&p.target));
    let _ = write!(
        out,
        "<p class=\"about\">{}; {}</p>",
        safe(&p.description),
        p.way.words()
    );
    verdict(&mut out, &p.verdict);
    let name = format!("{} of {} bytes", p.operation.words(), p.size);
    out.push_str(&table(&HEADER, &[numbers(&name, &p.requests)]));
    let _ = write!(
        out,
        "<div class=\"plots\">{}</div>",
        histogram(&name, &p.requests.histogram)
    );
    out
}

/// A result of `wirepool probe run`.
pub(super) fn network(p: &Probed) -> String {
    let mut out = format!("<h3>TCP to {}</h3>", p.address);
    verdict(&mut out, &p.verdict);
    let name = format!("message of {} bytes and its answer", p.message);
    out.push_str(&table(&HEADER, &[numbers(&name, &p.latency)]));
    let rate = |f: &Option<Flow>| {
        f.as_ref().map_or("–".into(), |f| {
            format!("{} Gb/s", digits(f.bytes_per_s * 8.0 / 1e9))
        })
    };
    let rows = p.transfers.iter().map(|t| {
        let flows = [&t.to_server, &t.from_server];
        let again: u64 = flows
            .iter()
            .filter_map(|f| f.as_ref())
            .map(|f| f.retransmits)
            .sum();
        vec![
            t.streams.to_string(),
            rate(&t.to_server),
            rate(&t.from_server),
            again.to_string(),
        ]
    });
    let header = ["streams", "to it", "from it", "sent again"];
    out.push_str(&table(&header, &rows.collect::<Vec<_>>()));
    if let Some(v) = &p.verbs {
        let _ = write!(
            out,
            "<h3>RDMA, device {}, path MTU {}</h3>",
            safe(&v.device),
            v.path_mtu
        );
        let latencies = v.operations().map(|(name, o)| numbers(name, &o.latency));
        out.push_str(&table(&HEADER, &latencies));
        let rates = v.operations().map(|(name, o)| {
            vec![
                name.to_owned(),
                format!("{} Gb/s", digits(o.bytes_per_s * 8.0 / 1e9)),
                format!("{} %", digits(o.client_busy * 100.0)),
                format!("{} %", digits(o.server_busy * 100.0)),
            ]
        });
        out.push_str(&table(&["", "rate", "CPU here", "CPU there"], &rates));
    }
    let _ = write!(
        out,
        "<div class=\"plots\">{}</div>",
        histogram(&name, &p.latency.histogram)
    );
    out
}
