//! Judgement of `wirepool ping`.
//!
//! **Invariants**: a pure function of the numbers. The rungs are nested: a keep-alive needs the network, a read needs both; so the
//! differences of their medians are the parts of a read.

use super::result::Pinged;
use crate::probe::summary::Summary;
use crate::probe::verdict::{Limit, Verdict};
use crate::size::nanos;

/// Share of a read from which one part is the limit.
const MOST: f64 = 0.5;
/// Answers from which a 99th percentile is worth a word.
const ENOUGH: u64 = 20;
/// A pause: this much above the median, and at least this long, ns.
const PAUSE_TIMES: u64 = 10;
const PAUSE_NS: u64 = 1_000_000;
/// The time of a delayed acknowledgement, ns.
const DELAYED_ACK: std::ops::Range<u64> = 38_000_000..46_000_000;
/// A connect above this is no local network, ns.
const FAR_NS: u64 = 1_000_000;

/// Median times of the parts of a read, ns.
struct Parts {
    network: u64,
    server: u64,
    storage: u64,
}

impl Parts {
    fn of(p: &Pinged) -> Parts {
        let (tcp, kept, read) = (p.tcp.p50_ns, p.keep_alive.p50_ns, p.read.p50_ns);
        let network = tcp.min(kept).min(read);
        let server = kept.min(read) - network;
        Parts {
            network,
            server,
            storage: read - network - server,
        }
    }
}

/// The verdict of a result.
pub(super) fn judge(p: &Pinged) -> Verdict {
    let mut v = failure(p).unwrap_or_else(|| share(p));
    evidence(&mut v, p);
    v
}

/// The verdict of a target that does not answer one of the rungs at all.
fn failure(p: &Pinged) -> Option<Verdict> {
    let why = |of: &Summary| of.error.clone().unwrap_or_else(|| "no answer".into());
    if p.tcp.sent == 0 {
        return Some(Verdict::new(
            Limit::Unreachable,
            "ended before the first round",
        ));
    }
    if p.tcp.answered() == 0 && p.keep_alive.answered() == 0 {
        let summary = format!("no TCP connection to {}: {}", p.address, why(&p.tcp));
        return Some(
            Verdict::new(Limit::Unreachable, summary)
                .help("`connection refused`: the server is down, or listens on another address or port (wirepool status)")
                .help("no answer at all: a firewall, the wrong network, or a machine that is off"),
        );
    }
    if p.keep_alive.answered() == 0 {
        let summary = format!(
            "{} accepts TCP connections and gives no {} session: {}",
            p.address,
            p.protocol,
            why(&p.keep_alive)
        );
        return Some(
            Verdict::new(Limit::Refused, summary)
                .help("is this the port of the protocol, and is the export's name right? (wirepool export list)")
                .help("is this host allowed? (wirepool host list)"),
        );
    }
    if p.read.answered() == 0 {
        let summary = format!(
            "the session works, and no read was answered: {}",
            why(&p.read)
        );
        return Some(Verdict::new(Limit::Storage, summary).help(
            "the state of the disk or pool at the server (wirepool status, wirepool pool status)",
        ));
    }
    None
}

/// The verdict by the largest part of a read.
fn share(p: &Pinged) -> Verdict {
    let parts = Parts::of(p);
    let all = p.read.p50_ns.max(1);
    let percent = |part: u64| part as f64 / all as f64 * 100.0;
    let is_loopback = p.address.ip().is_loopback();
    let network = match is_loopback {
        true => "this machine's loopback",
        false => "the network",
    };
    let parts_text = format!(
        "of {} for a read of {} bytes, {network} takes {} ({:.0} %), the server's protocol {} ({:.0} %), storage {} ({:.0} %)",
        nanos(all as f64),
        p.size,
        nanos(parts.network as f64),
        percent(parts.network),
        nanos(parts.server as f64),
        percent(parts.server),
        nanos(parts.storage as f64),
        percent(parts.storage),
    );
    let lost = p.tcp.lost + p.keep_alive.lost + p.read.lost;
    if lost > 0 {
        let sent = p.tcp.sent + p.keep_alive.sent + p.read.sent;
        let why = [&p.tcp, &p.keep_alive, &p.read];
        let why = why.iter().find_map(|s| s.error.clone()).unwrap_or_default();
        return Verdict::new(Limit::Loss, format!("{lost} of {sent} requests had no answer ({why}); {parts_text}"))
            .help("a server that restarts, a cable or switch that drops packets, or a server that hangs: wirepool doctor on both machines");
    }
    let is_most = |part: u64| part as f64 >= all as f64 * MOST;
    if is_most(parts.network) && is_loopback {
        return Verdict::new(Limit::Mixed, parts_text).help(
            "both ends are on this machine, and no network is between: ping from the client to measure its way",
        );
    }
    if is_most(parts.network) {
        return Verdict::new(Limit::Network, parts_text)
            .help("interrupt coalescing, power states and switches on the way: wirepool doctor on both machines")
            .help("more requests in flight hide the network's time: queue depth, more connections");
    }
    if is_most(parts.server) {
        return Verdict::new(Limit::Server, parts_text)
            .help("a busy shard or processor: wirepool top and wirepool why on the server");
    }
    if is_most(parts.storage) {
        return Verdict::new(Limit::Storage, parts_text)
            .help("wirepool why on the server tells device, journal, checkpoint and queue apart")
            .help("the transfer of the data itself counts here too: at 1 Gb/s, 4 KiB take 33 µs");
    }
    Verdict::new(Limit::Mixed, parts_text)
}

fn evidence(v: &mut Verdict, p: &Pinged) {
    let rungs = [
        ("TCP connect", &p.tcp),
        (p.keep_alive_name.as_str(), &p.keep_alive),
        ("read", &p.read),
    ];
    let pause = rungs.iter().find(|(_, s)| {
        s.answered() >= ENOUGH && s.p99_ns >= PAUSE_NS && s.p99_ns >= s.p50_ns * PAUSE_TIMES
    });
    if let Some((name, s)) = pause {
        v.evidence.push(format!(
            "pauses begin at {name}: 1 % of them take {} or longer, half of them {}",
            nanos(s.p99_ns as f64),
            nanos(s.p50_ns as f64)
        ));
    }
    let is_delayed = rungs[1..]
        .iter()
        .any(|(_, s)| s.answered() > 0 && DELAYED_ACK.contains(&s.p50_ns));
    if is_delayed && p.tcp.p50_ns < DELAYED_ACK.start / 2 {
        v.evidence.push(
            "40 ms is the time of a delayed acknowledgement: the server's socket waits for it (Nagle's algorithm is on)".into(),
        );
    }
    if p.tcp.answered() > 0 && p.tcp.p50_ns >= FAR_NS {
        v.evidence.push(format!(
            "a connect within one site takes 0.02 to 0.5 ms, this one {}: a router, VPN, WLAN or a busy network is on the way",
            nanos(p.tcp.p50_ns as f64)
        ));
    }
    if let Some(c) = &p.connection {
        if c.retransmits > 0 {
            v.evidence.push(format!(
                "{} segments to the server were sent again",
                c.retransmits
            ));
        }
        v.evidence.push(format!(
            "the kernel's smoothed round trip of the session is {} µs, segments have {} bytes, congestion control {}",
            c.rtt_us, c.mss, c.congestion
        ));
    }
}

#[cfg(test)]
pub(in crate::probe) mod tests {
    use super::*;
    use crate::probe::ping::result::Connection;

    fn rung(p50_us: u64) -> Summary {
        Summary {
            sent: 100,
            p50_ns: p50_us * 1000,
            p99_ns: p50_us * 1200,
            ..Summary::default()
        }
    }

    /// A made-up result with these medians, µs.
    pub(crate) fn pinged(tcp: u64, keep_alive: u64, read: u64) -> Pinged {
        Pinged {
            target: "nvme-tcp://h:4420/nqn.x:y?ns=1".into(),
            address: "192.0.2.1:4420".parse().expect("an address"),
            protocol: "NVMe/TCP".into(),
            keep_alive_name: "Keep Alive".into(),
            size: 4096,
            seconds: 20.0,
            tcp: rung(tcp),
            keep_alive: rung(keep_alive),
            read: rung(read),
            connection: None,
            verdict: Verdict::new(Limit::Mixed, ""),
        }
    }

    fn none(why: &str) -> Summary {
        Summary {
            sent: 5,
            lost: 5,
            error: Some(why.into()),
            ..Summary::default()
        }
    }

    #[test]
    fn the_largest_part_is_the_limit() {
        for (tcp, kept, read, limit, text) in [
            (
                80,
                90,
                110,
                Limit::Network,
                "the network takes 80.0 µs (73 %)",
            ),
            (
                20,
                200,
                240,
                Limit::Server,
                "the server's protocol 180 µs (75 %)",
            ),
            (20, 30, 900, Limit::Storage, "storage 870 µs (97 %)"),
            (
                40,
                80,
                120,
                Limit::Mixed,
                "of 120 µs for a read of 4096 bytes",
            ),
            // A connect may take longer than a request on an open connection.
            (
                50,
                40,
                60,
                Limit::Network,
                "the server's protocol 0 ns (0 %)",
            ),
            // A read from a cache may be faster than a keep-alive.
            (50, 60, 40, Limit::Network, "storage 0 ns (0 %)"),
        ] {
            let v = judge(&pinged(tcp, kept, read));
            assert_eq!(v.limit, limit, "{v:?}");
            assert!(v.summary.contains(text), "{v:?}");
        }
    }

    #[test]
    fn loopback_is_no_network() {
        let mut p = pinged(80, 90, 110);
        p.address = "127.0.0.1:4420".parse().expect("an address");
        let v = judge(&p);
        assert_eq!(v.limit, Limit::Mixed, "{v:?}");
        assert!(!v.summary.contains("the network"), "{v:?}");
        assert!(v.helps[0].contains("no network"), "{v:?}");
    }

    #[test]
    fn the_first_rung_without_an_answer_is_named() {
        let mut p = pinged(20, 30, 40);
        p.read = none("I/O error");
        let v = judge(&p);
        assert!(
            v.limit == Limit::Storage && v.summary.contains("I/O error"),
            "{v:?}"
        );
        p.keep_alive = none("no session within 2.00 s");
        let v = judge(&p);
        assert!(
            v.limit == Limit::Refused && v.summary.contains("no session"),
            "{v:?}"
        );
        assert!(v.limit.is_failure());
        p.tcp = none("connection refused");
        let v = judge(&p);
        assert!(
            v.limit == Limit::Unreachable && v.summary.contains("connection refused"),
            "{v:?}"
        );
    }

    #[test]
    fn losses_come_before_shares() {
        let mut p = pinged(20, 30, 900);
        p.read.lost = 3;
        p.read.error = Some("no answer within 2.00 s".into());
        let v = judge(&p);
        assert_eq!(v.limit, Limit::Loss);
        assert!(
            v.summary
                .starts_with("3 of 300 requests had no answer (no answer within"),
            "{v:?}"
        );
    }

    #[test]
    fn signs_of_known_troubles_are_evidence() {
        let has = |p: &Pinged, text: &str| judge(p).evidence.iter().any(|e| e.contains(text));
        let quiet = pinged(30, 40, 120);
        assert_eq!(judge(&quiet).evidence, Vec::<String>::new());
        let mut pauses = quiet.clone();
        pauses.keep_alive.p99_ns = 20_000_000;
        pauses.read.p99_ns = 30_000_000;
        assert!(has(&pauses, "pauses begin at Keep Alive"));
        assert!(has(&pinged(100, 40_500, 40_700), "delayed acknowledgement"));
        assert!(!has(
            &pinged(40_000, 40_500, 40_700),
            "delayed acknowledgement"
        ));
        assert!(has(&pinged(3000, 3100, 3200), "router"));
        let mut connected = quiet;
        connected.connection = Some(Connection {
            rtt_us: 31,
            mss: 1448,
            retransmits: 7,
            congestion: "cubic".into(),
            ..Connection::default()
        });
        assert!(has(&connected, "7 segments") && has(&connected, "1448 bytes"));
    }
}
