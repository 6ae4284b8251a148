//! Text of `wirepool ping`.

use super::result::{Pinged, Round};
use crate::probe::summary::{Summary, bars};
use crate::report::table::{blank, fitted};
use crate::size::nanos;
use std::fmt::Write;
use std::time::Duration;

/// One round as a line.
#[must_use]
pub fn line(round: &Round) -> String {
    let one = |of: &Result<Duration, String>| match of {
        Ok(time) => nanos(time.as_nanos() as f64),
        Err(_) => "lost".into(),
    };
    let mut text = format!(
        "{:>4}: TCP connect {:>8}, keep-alive {:>8}, read {:>8}",
        round.number,
        one(&round.tcp),
        one(&round.keep_alive),
        one(&round.read)
    );
    let lost = [&round.tcp, &round.keep_alive, &round.read];
    if let Some(why) = lost.iter().find_map(|r| r.as_ref().err()) {
        let _ = write!(text, " ({why})");
    }
    text
}

/// The cells of a summary behind its name.
pub(in crate::probe) fn cells(name: &str, s: &Summary) -> Vec<String> {
    let mut cells = vec![name.to_owned(), s.sent.to_string(), s.lost.to_string()];
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
    cells.push(String::new());
    cells
}

/// The heading of [`cells`].
pub(in crate::probe) const HEADER: [&str; 9] =
    ["", "sent", "lost", "min", "avg", "p50", "p99", "max", ""];

/// The result: numbers, histograms and verdict.
#[must_use]
pub fn render(p: &Pinged) -> String {
    let mut out = format!(
        "\n{} at {}, {} rounds in {:.1} s\n",
        p.target, p.address, p.tcp.sent, p.seconds
    );
    let mut t = blank(&HEADER, 1);
    let read = format!("read of {} bytes", p.size);
    let rungs = [
        ("TCP connect", &p.tcp),
        (p.keep_alive_name.as_str(), &p.keep_alive),
        (read.as_str(), &p.read),
    ];
    for (name, s) in rungs {
        t.add_row(cells(name, s));
    }
    out += &fitted(&t);
    for (name, s) in rungs.iter().filter(|(_, s)| s.answered() > 0) {
        let _ = write!(out, "{name}\n{}", bars(&s.histogram));
    }
    let _ = write!(out, "\n{}", p.verdict.text());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::ping::verdict::tests::pinged;

    #[test]
    fn a_result_has_every_rung_and_the_verdict() {
        let mut p = pinged(20, 30, 900);
        p.verdict.summary = "storage takes most of it".into();
        p.tcp.lost = 100;
        let text = render(&p);
        for word in [
            "TCP connect",
            "Keep Alive",
            "read of 4096 bytes",
            "900 µs",
            "storage takes",
            "–",
        ] {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
    }

    #[test]
    fn a_lost_request_has_its_reason_in_the_line() {
        let round = Round {
            number: 7,
            tcp: Ok(Duration::from_micros(40)),
            keep_alive: Err("no answer within 2.00 s".into()),
            read: Err("disconnected".into()),
        };
        let text = line(&round);
        assert!(
            text.contains("TCP connect  40.0 µs") && text.contains("lost (no answer within"),
            "{text}"
        );
    }
}
