//! Judgement of the TCP probe.
//!
//! **Invariants**: a pure function of the numbers.

use super::result::{Flow, Probed, Transfer};
use crate::probe::verdict::{Limit, Verdict};
use crate::size::nanos;

/// Share of the link's speed that data can have: headers and acknowledgements take the rest.
const FULL: f64 = 0.88;
/// Share of a thread's time from which it is the limit.
const BUSY: f64 = 0.9;
/// Share of segments sent again from which they cost throughput.
const LOSSY: f64 = 0.0005;
/// Fewer segments sent again are no loss: a busy receiver makes a sender repeat the last one.
const LOSSES_MIN: u64 = 100;
/// One stream below this share of several is limited by itself.
const ALONE: f64 = 0.6;
/// Bytes of IPv4 and TCP headers with time stamps.
const HEADERS: u32 = 52;
/// Bytes of IPv6 and TCP headers with time stamps, and some options.
const HEADERS_MOST: u32 = 100;

/// The verdict of a result.
pub(super) fn judge(p: &Probed) -> Verdict {
    let mut v = limit(p);
    evidence(&mut v, p);
    v
}

fn flows(t: &Transfer) -> impl Iterator<Item = (&'static str, &Flow)> {
    let to = t.to_server.as_ref().map(|f| ("to", f));
    to.into_iter()
        .chain(t.from_server.as_ref().map(|f| ("from", f)))
}

/// Transfers in one direction, which have the link for themselves.
fn one_way(p: &Probed) -> impl Iterator<Item = (&Transfer, &'static str, &Flow)> {
    let alone = p.transfers.iter().filter(|t| flows(t).count() == 1);
    alone.flat_map(|t| flows(t).map(move |(way, f)| (t, way, f)))
}

fn limit(p: &Probed) -> Verdict {
    let Some((t, way, best)) =
        one_way(p).max_by(|a, b| a.2.bytes_per_s.total_cmp(&b.2.bytes_per_s))
    else {
        return Verdict::new(Limit::Mixed, "ended before a transfer");
    };
    let text = format!(
        "{} {way} {} with {}, {} for a message of {} bytes and its answer",
        rate(best.bytes_per_s),
        p.address.ip(),
        count(t.streams),
        nanos(p.latency.p50_ns as f64),
        p.message
    );
    let speed = p.interface.as_ref().and_then(|i| i.speed_mbit);
    if is_loopback(p) {
        let text = format!("{text}: both ends are this machine, no network is measured");
        return Verdict::new(Limit::Processor, text);
    }
    let lossy =
        one_way(p).find(|(_, _, f)| f.retransmits >= LOSSES_MIN && f.retransmit_share >= LOSSY);
    if let Some((_, way, f)) = lossy {
        let text = format!(
            "{text}; {:.2} % of the segments {way} it were sent again",
            f.retransmit_share * 100.0
        );
        return Verdict::new(Limit::Loss, text)
            .help("cable, optics and switch ports with errors, an overloaded switch, a ring of the card that overflows: wirepool doctor on both machines");
    }
    if let Some(speed) = speed {
        let share = best.bytes_per_s * 8.0 / (speed as f64 * 1e6);
        if share >= FULL {
            return Verdict::new(
                Limit::Link,
                format!(
                    "{text}: {:.0} % of the link's {}",
                    share * 100.0,
                    mbit(speed)
                ),
            )
            .help("a faster link, or a second one (multipath)");
        }
    }
    if t.client_busy >= BUSY || t.server_busy >= BUSY {
        let side = if t.client_busy >= t.server_busy {
            "this side's"
        } else {
            "the other side's"
        };
        return Verdict::new(Limit::Processor, format!("{text}: {side} thread uses a whole processor"))
            .help("larger segments (MTU 9000), offloads of the card, a faster processor; a server with several shards uses several processors");
    }
    let single = one_way(p).find(|(s, w, _)| s.streams == 1 && *w == way);
    if let Some((_, _, one)) = single
        && t.streams > 1
        && one.bytes_per_s < best.bytes_per_s * ALONE
    {
        let text = format!("{text}; one stream alone has {}", rate(one.bytes_per_s));
        return Verdict::new(Limit::Connection, text)
            .help("more connections: I/O queues of NVMe/TCP, several sessions of iSCSI, nconnect of NFS")
            .help("larger socket buffers: net.ipv4.tcp_rmem and tcp_wmem");
    }
    Verdict::new(Limit::Network, text)
}

/// Whether both ends are this machine.
fn is_loopback(p: &Probed) -> bool {
    p.address.ip().is_loopback()
}

fn evidence(v: &mut Verdict, p: &Probed) {
    match p.interface.as_ref().map(|i| (i, i.speed_mbit)) {
        Some((i, Some(speed))) => {
            v.evidence.push(format!(
                "interface {}: {}, MTU {}",
                i.name,
                mbit(speed),
                i.mtu.unwrap_or(0)
            ));
        }
        Some((i, None)) => v
            .evidence
            .push(format!("interface {} does not tell its speed", i.name)),
        None => v
            .evidence
            .push("the interface on the way is not known".into()),
    }
    let mtu = p.interface.as_ref().and_then(|i| i.mtu);
    let small =
        one_way(p).find(|(_, _, f)| mtu.is_some_and(|mtu| f.mss > 0 && f.mss + HEADERS_MOST < mtu));
    if let Some((_, way, f)) = small {
        v.evidence.push(format!(
            "segments {way} the other machine have {} bytes, although the interface's MTU of {} would allow {}: a smaller MTU is on the way, or at the other end",
            f.mss,
            mtu.unwrap_or(0),
            mtu.unwrap_or(0).saturating_sub(HEADERS)
        ));
    }
    let (to, from) = (most(p, "to"), most(p, "from"));
    if to.min(from) > 0.0 && to.min(from) < to.max(from) * ALONE {
        v.evidence.push(format!(
            "the directions differ: {} to it, {} from it",
            rate(to),
            rate(from)
        ));
    }
    let loaded = one_way(p)
        .map(|(_, _, f)| u64::from(f.rtt_us) * 1000)
        .max()
        .unwrap_or(0);
    if p.latency.answered() > 0
        && loaded > p.latency.p50_ns.saturating_mul(10)
        && loaded > 1_000_000
    {
        v.evidence.push(format!(
            "under load a round trip takes {}, idle {}: queues on the way fill up, and requests wait behind bulk data",
            nanos(loaded as f64),
            nanos(p.latency.p50_ns as f64)
        ));
    }
    let mut names: Vec<&str> = one_way(p).map(|(_, _, f)| f.congestion.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        v.evidence
            .push(format!("congestion control: {}", names.join(", ")));
    }
}

/// The best rate of one direction, bytes/s.
pub(super) fn most(p: &Probed, direction: &str) -> f64 {
    let all = one_way(p).filter(|(_, way, _)| *way == direction);
    all.map(|(_, _, f)| f.bytes_per_s).fold(0.0, f64::max)
}

/// `1 stream`, `4 streams`.
pub(super) fn count(streams: u32) -> String {
    match streams {
        1 => "1 stream".into(),
        n => format!("{n} streams"),
    }
}

/// A rate as a network's: `9.41 Gb/s (1122 MiB/s)`.
pub(super) fn rate(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    let mib = bytes_per_s / f64::from(1 << 20);
    match bits >= 1e9 {
        true => format!("{:.2} Gb/s ({mib:.0} MiB/s)", bits / 1e9),
        false => format!("{:.1} Mb/s ({mib:.1} MiB/s)", bits / 1e6),
    }
}

fn mbit(speed: u64) -> String {
    match speed.is_multiple_of(1000) {
        true => format!("{} Gb/s", speed / 1000),
        false => format!("{speed} Mb/s"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::result::Interface;
    use super::*;
    use crate::probe::summary::Summary;

    fn transfer(streams: u32, gbit: f64, to: bool) -> Transfer {
        let flow = Flow {
            bytes_per_s: gbit * 1e9 / 8.0,
            mss: 8948,
            path_mtu: 9000,
            rtt_us: 90,
            congestion: "cubic".into(),
            ..Flow::default()
        };
        Transfer {
            streams,
            to_server: to.then(|| flow.clone()),
            from_server: (!to).then_some(flow),
            client_busy: 0.4,
            server_busy: 0.5,
        }
    }

    /// A made-up result over 10 Gb/s: rates of one and of four streams in both directions.
    pub(crate) fn probed(one: f64, four: f64) -> Probed {
        Probed {
            address: "192.0.2.1:4421".parse().expect("an address"),
            message: 64,
            latency: Summary {
                sent: 1000,
                p50_ns: 40_000,
                ..Summary::default()
            },
            transfers: [
                (1, one, true),
                (4, four, true),
                (1, one, false),
                (4, four, false),
            ]
            .map(|(n, gbit, to)| transfer(n, gbit, to))
            .into(),
            interface: Some(Interface {
                name: "eth0".into(),
                mtu: Some(9000),
                speed_mbit: Some(10_000),
            }),
            verbs: None,
            no_verbs: None,
            verdict: Verdict::new(Limit::Mixed, ""),
        }
    }

    fn has(p: &Probed, text: &str) -> bool {
        judge(p).evidence.iter().any(|e| e.contains(text))
    }

    #[test]
    fn the_limit_is_link_loss_processor_connection_or_network() {
        let full = judge(&probed(9.4, 9.9));
        assert!(
            full.limit == Limit::Link && full.summary.contains("99 % of the link's 10 Gb/s"),
            "{full:?}"
        );
        let mut lossy = probed(3.0, 5.0);
        let flow = lossy.transfers[1].to_server.as_mut().expect("there");
        (flow.retransmits, flow.retransmit_share) = (5, 0.01);
        assert_eq!(judge(&lossy).limit, Limit::Network, "too few to tell");
        let flow = lossy.transfers[1].to_server.as_mut().expect("there");
        flow.retransmits = 500;
        let v = judge(&lossy);
        assert!(
            v.limit == Limit::Loss && v.summary.contains("1.00 % of the segments to it"),
            "{v:?}"
        );
        let mut busy = probed(5.0, 5.1);
        busy.transfers.iter_mut().for_each(|t| t.server_busy = 0.97);
        let v = judge(&busy);
        assert!(
            v.limit == Limit::Processor && v.summary.contains("the other side's thread"),
            "{v:?}"
        );
        let v = judge(&probed(1.2, 4.5));
        assert!(
            v.limit == Limit::Connection && v.summary.contains("1.20 Gb/s"),
            "{v:?}"
        );
        assert_eq!(judge(&probed(4.0, 4.5)).limit, Limit::Network);
        lossy.address = "127.0.0.1:4421".parse().expect("an address");
        let v = judge(&lossy);
        assert!(
            v.limit == Limit::Processor && v.summary.contains("both ends are this machine"),
            "{v:?}"
        );
        let mut none = probed(1.0, 1.0);
        none.transfers.clear();
        assert_eq!(judge(&none).limit, Limit::Mixed);
    }

    #[test]
    fn signs_of_known_troubles_are_evidence() {
        let quiet = probed(9.4, 9.9);
        assert!(has(&quiet, "interface eth0: 10 Gb/s, MTU 9000"));
        for sign in ["smaller MTU", "directions differ", "under load"] {
            assert!(!has(&quiet, sign), "{sign}");
        }
        let mut p = quiet.clone();
        let from = p.transfers[3].from_server.as_mut().expect("there");
        (from.mss, from.rtt_us) = (1448, 9000);
        p.transfers
            .iter_mut()
            .filter_map(|t| t.from_server.as_mut())
            .for_each(|f| f.bytes_per_s /= 4.0);
        for sign in ["smaller MTU", "directions differ", "under load"] {
            assert!(has(&p, sign), "{sign}: {:?}", judge(&p));
        }
        p.interface = None;
        assert!(has(&p, "not known"));
    }
}
