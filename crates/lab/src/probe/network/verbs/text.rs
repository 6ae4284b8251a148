//! Text of the probe of verbs, beside TCP.

use super::super::result::{MeasuredVerb, Probed, Verbs};
use super::super::verdict::{most, rate};
use crate::report::table::{blank, fitted};
use crate::size::{digits, nanos, size};

/// The numbers of verbs with those of TCP, or the reason why there are none; empty if they were not asked for.
pub(in crate::probe::network) fn render(p: &Probed) -> String {
    match (&p.verbs, &p.no_verbs) {
        (Some(verbs), _) => table(p, verbs),
        (None, Some(why)) => format!("RDMA was not measured: {why}\n"),
        (None, None) => String::new(),
    }
}

fn table(p: &Probed, v: &Verbs) -> String {
    let mut out = format!(
        "\nRDMA device {}, path MTU {}; times of {} bytes one at a time, rates of {} with {} outstanding\n",
        v.device,
        v.path_mtu,
        v.message,
        size(v.block.into()),
        v.depth
    );
    let header = ["", "p50", "p99", "rate", "CPU here", "CPU there"];
    let mut t = blank(&header, 1);
    let percent = |share: f64| format!("{} %", digits(share * 100.0));
    for (name, o) in v.operations() {
        let MeasuredVerb {
            latency,
            bytes_per_s,
            client_busy,
            server_busy,
        } = o;
        t.add_row([
            name.into(),
            nanos(latency.p50_ns as f64),
            nanos(latency.p99_ns as f64),
            rate(*bytes_per_s),
            percent(*client_busy),
            percent(*server_busy),
        ]);
    }
    let one_stream = p.transfers.iter().find(|t| t.to_server.is_some());
    t.add_row([
        "TCP, message and answer".into(),
        nanos(p.latency.p50_ns as f64),
        nanos(p.latency.p99_ns as f64),
        rate(most(p, "to")),
        one_stream.map_or("–".into(), |t| percent(t.client_busy)),
        one_stream.map_or("–".into(), |t| percent(t.server_busy)),
    ]);
    out += &fitted(&t);
    out
}

#[cfg(test)]
mod tests {
    use super::super::super::verdict::tests::probed;
    use super::*;
    use crate::probe::summary::Summary;

    /// Made-up numbers of verbs.
    fn verbs() -> Verbs {
        let operation = |p50_ns, gbit: f64| MeasuredVerb {
            latency: Summary {
                sent: 10,
                p50_ns,
                p99_ns: 2 * p50_ns,
                ..Summary::default()
            },
            bytes_per_s: gbit * 1e9 / 8.0,
            client_busy: 0.25,
            server_busy: 0.01,
        };
        Verbs {
            device: "mlx5_0".into(),
            path_mtu: 4096,
            inline_max: 64,
            message: 64,
            block: 64 << 10,
            depth: 16,
            send: operation(5000, 90.0),
            write: operation(2500, 96.0),
            read: operation(3500, 95.0),
        }
    }

    #[test]
    fn verbs_are_beside_tcp_or_their_absence_has_a_reason() {
        let mut p = probed(9.0, 9.5);
        assert_eq!(render(&p), "");
        p.no_verbs = Some("this machine has no RDMA device".into());
        assert_eq!(
            render(&p),
            "RDMA was not measured: this machine has no RDMA device\n"
        );
        p.verbs = Some(verbs());
        let text = render(&p);
        for word in [
            "device mlx5_0, path MTU 4096",
            "times of 64 bytes",
            "64K with 16 outstanding",
            "SEND, message and answer",
            "WRITE",
            "READ",
            "2.50 µs",
            "96.00 Gb/s",
            "TCP, message and answer",
            "9.50 Gb/s",
        ] {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
    }
}
