//! Text of `wirepool ioping`.

use super::result::{Iopinged, Operation, Request};
use crate::probe::ping::text::{HEADER, cells};
use crate::probe::summary::bars;
use crate::report::table::{blank, fitted};
use crate::size::{nanos, size};
use std::fmt::Write;

/// One request as a line.
#[must_use]
pub fn line(target: &str, bytes: u32, operation: Operation, request: &Request) -> String {
    let verb = match operation {
        Operation::Read => "from",
        Operation::Write | Operation::DurableWrite => "to",
    };
    let time = match &request.time {
        Ok(time) => format!("time={}", nanos(time.as_nanos() as f64)),
        Err(why) => format!("failed: {why}"),
    };
    format!(
        "{} {verb} {target}: {} {} {time}",
        size(bytes.into()),
        operation.words(),
        request.number
    )
}

/// The result: numbers, histogram and verdict.
#[must_use]
pub fn render(r: &Iopinged) -> String {
    let scratch = match r.is_scratch {
        true => ", a scratch file",
        false => "",
    };
    let mut out = format!(
        "\n{}: {}{scratch}, {}; {}\n",
        r.target,
        size(r.region),
        r.description,
        r.way.words()
    );
    let mut t = blank(&HEADER, 1);
    t.add_row(cells(
        &format!("{} of {} bytes", r.operation.words(), r.size),
        &r.requests,
    ));
    out += &fitted(&t);
    let _ = write!(out, "{}\n{}", bars(&r.requests.histogram), r.verdict.text());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::ioping::result::Way;
    use crate::probe::ioping::verdict::tests::result;
    use std::time::Duration;

    #[test]
    fn a_request_and_a_result_say_how_they_were_made() {
        let request = |time| Request { number: 3, time };
        let text = line(
            "/srv",
            4096,
            Operation::Read,
            &request(Ok(Duration::from_micros(85))),
        );
        assert_eq!(text, "4K from /srv: read 3 time=85.0 µs");
        let failed = request(Err("I/O error".into()));
        let text = line("/srv", 4096, Operation::DurableWrite, &failed);
        assert_eq!(text, "4K to /srv: durable write 3 failed: I/O error");
        let text = render(&result(Operation::Read, Way::Direct, 85));
        for word in [
            "O_DIRECT",
            "direct, past the page cache",
            "read of 4096 bytes",
            "85.0 µs",
        ] {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
    }
}
