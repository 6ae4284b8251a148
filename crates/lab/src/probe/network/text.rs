//! Text of `wirepool probe`.

use super::result::{Flow, Probed};
use super::verbs;
use super::verdict::rate;
use crate::probe::summary::bars;
use crate::report::table::{blank, fitted};
use crate::size::{digits, nanos};
use std::fmt::Write;

/// The result: numbers, histogram and verdict.
#[must_use]
pub fn render(p: &Probed) -> String {
    let l = &p.latency;
    let mut out = format!(
        "\n{}: {} messages of {} bytes, one at a time: min {}, avg {}, p50 {}, p99 {}, max {}\n{}\n",
        p.address,
        l.answered(),
        p.message,
        nanos(l.min_ns as f64),
        nanos(l.mean_ns),
        nanos(l.p50_ns as f64),
        nanos(l.p99_ns as f64),
        nanos(l.max_ns as f64),
        bars(&l.histogram)
    );
    let header = [
        "streams",
        "to it",
        "from it",
        "sent again",
        "MSS",
        "RTT",
        "CPU here",
        "CPU there",
        "",
    ];
    let mut t = blank(&header, 1);
    for part in &p.transfers {
        let both = [&part.to_server, &part.from_server];
        let flows = || both.iter().filter_map(|f| f.as_ref());
        let one = |flow: &Option<Flow>| flow.as_ref().map_or("–".into(), |f| rate(f.bytes_per_s));
        let again: u64 = flows().map(|f| f.retransmits).sum();
        let mss = flows().map(|f| f.mss).min().unwrap_or(0);
        let rtt = flows().map(|f| f.rtt_us).max().unwrap_or(0);
        t.add_row([
            part.streams.to_string(),
            one(&part.to_server),
            one(&part.from_server),
            again.to_string(),
            mss.to_string(),
            nanos(f64::from(rtt) * 1000.0),
            format!("{} %", digits(part.client_busy * 100.0)),
            format!("{} %", digits(part.server_busy * 100.0)),
            String::new(),
        ]);
    }
    let _ = write!(
        out,
        "{}{}\n{}",
        fitted(&t),
        verbs::render(p),
        p.verdict.text()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::super::verdict::tests::probed;
    use super::*;

    #[test]
    fn a_result_has_every_transfer() {
        let text = render(&probed(1.0, 4.0));
        for word in [
            "192.0.2.1:4421",
            "64 bytes",
            "1.00 Gb/s (119 MiB/s)",
            "4.00 Gb/s",
            "8948",
            "50.0 %",
        ] {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
    }
}
