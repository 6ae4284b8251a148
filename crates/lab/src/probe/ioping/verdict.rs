//! Judgement of `wirepool ioping`.
//!
//! **Invariants**: a pure function of the numbers. Times of devices are ranges that hold for idle ones of today; the sentence says
//! "as", because a time alone does not prove the kind of a device.

use super::result::{Iopinged, Operation, Way};
use crate::probe::verdict::{Limit, Verdict};
use crate::size::nanos;

/// Share of never-written bytes from which reads are doubtful.
const HOLES: f64 = 0.02;
/// A pause: this much above the median, and at least this long, ns.
const PAUSE_TIMES: u64 = 10;
const PAUSE_NS: u64 = 5_000_000;
/// Share of the network's round trip from which it is the limit.
const MOST: f64 = 0.5;

/// Reads up to this time, ns, and the device that is as fast.
const READS: [(u64, &str); 6] = [
    (
        15_000,
        "faster than flash: a cache below this machine's page cache answers (a RAM disk, a virtual machine's host, a controller), or the place was never written",
    ),
    (200_000, "as an NVMe disk"),
    (1_000_000, "as a SATA disk with flash, or a virtual disk"),
    (
        3_000_000,
        "slow for flash: a busy or virtual disk, or one behind a network",
    ),
    (25_000_000, "as an idle disk with platters"),
    (
        u64::MAX,
        "slower than an idle disk with platters: it is busy, or failing",
    ),
];

/// The same for durable writes.
const DURABLE: [(u64, &str); 5] = [
    (
        5_000,
        "faster than any disk: this is memory, or the flush is not passed on",
    ),
    (150_000, "as a disk with power-loss protection"),
    (
        1_000_000,
        "as a disk with power-loss protection behind a slower path, or a virtual disk",
    ),
    (
        5_000_000,
        "as flash without power-loss protection: each durable write waits for the flash",
    ),
    (
        u64::MAX,
        "as a disk with platters, or consumer flash: synchronous writes will be slow",
    ),
];

/// The verdict of a result.
pub(super) fn judge(r: &Iopinged) -> Verdict {
    let mut v = limit(r);
    evidence(&mut v, r);
    v
}

fn limit(r: &Iopinged) -> Verdict {
    let s = &r.requests;
    let time = nanos(s.p50_ns as f64);
    let what = format!(
        "half of the {}s of {} bytes take at most {time}",
        r.operation.words(),
        r.size
    );
    if s.answered() == 0 {
        let why = s
            .error
            .clone()
            .unwrap_or_else(|| "no request was sent".into());
        return Verdict::new(Limit::Loss, format!("no request succeeded: {why}"));
    }
    if s.lost > 0 {
        let why = s.error.clone().unwrap_or_default();
        return Verdict::new(
            Limit::Loss,
            format!("{} of {} requests failed: {why}", s.lost, s.sent),
        );
    }
    match r.way {
        Way::Memory => Verdict::new(Limit::Memory, format!("{what}: this is memory, no disk is involved")),
        Way::PageCache => Verdict::new(
            Limit::Cache,
            format!("{what}, through the page cache: this is what programs see, and repeated requests measure memory"),
        )
        .help("without --cached, requests go past the page cache if the file system can do that"),
        Way::Remote => remote(r, &what),
        Way::Direct => {
            let kinds: &[(u64, &str)] = match r.operation {
                Operation::Read => &READS,
                Operation::DurableWrite => &DURABLE,
                Operation::Write => {
                    let text = format!("{what}, past the page cache: the disk's own cache may hold them");
                    return Verdict::new(Limit::Device, text)
                        .help("--sync measures durable writes, which wait for the flash or need power-loss protection");
                }
            };
            let kind = kinds.iter().find(|(most, _)| s.p50_ns <= *most);
            let kind = kind.map_or("", |(_, text)| *text);
            let limit = if s.p50_ns <= kinds[0].0 { Limit::Cache } else { Limit::Device };
            Verdict::new(limit, format!("{what}, {kind}"))
        }
    }
}

fn remote(r: &Iopinged, what: &str) -> Verdict {
    let rtt_ns = r.rtt_us.map_or(0.0, |us| f64::from(us) * 1000.0);
    let share = rtt_ns / r.requests.p50_ns.max(1) as f64;
    let text = format!(
        "{what}, of which the network's round trip is about {} ({:.0} %)",
        nanos(rtt_ns),
        share.min(1.0) * 100.0
    );
    match share >= MOST {
        true => Verdict::new(Limit::Network, text),
        false => Verdict::new(Limit::Storage, text),
    }
    .help("wirepool ping measures network, server and storage one by one")
}

fn evidence(v: &mut Verdict, r: &Iopinged) {
    let s = &r.requests;
    if s.max_ns >= PAUSE_NS && s.max_ns >= s.p50_ns.saturating_mul(PAUSE_TIMES) {
        v.evidence.push(format!(
            "pauses: the slowest request took {}, {:.0} times the median",
            nanos(s.max_ns as f64),
            s.max_ns as f64 / s.p50_ns.max(1) as f64
        ));
    }
    if r.holes > HOLES && r.operation == Operation::Read {
        v.evidence.push(format!(
            "{:.0} % of the file was never written: such reads need no device",
            r.holes * 100.0
        ));
    }
    if r.is_scratch && r.operation == Operation::Read {
        v.evidence.push(format!(
            "the reads are of a scratch file of {} that was written just before: the disk's own cache may hold it",
            crate::size::size(r.region)
        ));
    }
}

#[cfg(test)]
pub(in crate::probe) mod tests {
    use super::*;
    use crate::probe::summary::Summary;

    /// A made-up result with this median, µs.
    pub(crate) fn result(operation: Operation, way: Way, p50_us: u64) -> Iopinged {
        Iopinged {
            target: "/srv/d.img".into(),
            description: "file on ext4, O_DIRECT, io_uring".into(),
            operation,
            way,
            is_scratch: false,
            size: 4096,
            region: 1 << 30,
            holes: 0.0,
            seconds: 10.0,
            rtt_us: None,
            requests: Summary {
                sent: 10,
                p50_ns: p50_us * 1000,
                max_ns: p50_us * 2000,
                ..Summary::default()
            },
            verdict: Verdict::new(Limit::Mixed, ""),
        }
    }

    #[test]
    fn times_of_disks_are_compared_with_kinds_of_disks() {
        for (operation, us, limit, text) in [
            (Operation::Read, 8, Limit::Cache, "faster than flash"),
            (Operation::Read, 90, Limit::Device, "as an NVMe disk"),
            (Operation::Read, 600, Limit::Device, "SATA"),
            (Operation::Read, 9000, Limit::Device, "platters"),
            (Operation::Read, 90_000, Limit::Device, "failing"),
            (
                Operation::DurableWrite,
                40,
                Limit::Device,
                "with power-loss protection",
            ),
            (
                Operation::DurableWrite,
                2500,
                Limit::Device,
                "without power-loss protection",
            ),
            (Operation::DurableWrite, 30_000, Limit::Device, "platters"),
            (Operation::Write, 30, Limit::Device, "own cache may hold"),
        ] {
            let v = judge(&result(operation, Way::Direct, us));
            assert!(v.limit == limit && v.summary.contains(text), "{v:?}");
        }
    }

    #[test]
    fn a_cache_is_named() {
        let v = judge(&result(Operation::Read, Way::PageCache, 2));
        assert!(
            v.limit == Limit::Cache && v.summary.contains("page cache"),
            "{v:?}"
        );
        let v = judge(&result(Operation::Read, Way::Memory, 2));
        assert_eq!(v.limit, Limit::Memory);
        let mut holes = result(Operation::Read, Way::Direct, 90);
        holes.holes = 0.5;
        holes.is_scratch = true;
        let v = judge(&holes);
        assert!(
            v.evidence[0].contains("50 % of the file was never written"),
            "{v:?}"
        );
        assert!(v.evidence[1].contains("scratch file of 1G"), "{v:?}");
    }

    #[test]
    fn a_remote_request_is_network_or_storage() {
        let mut r = result(Operation::Read, Way::Remote, 100);
        r.rtt_us = Some(70);
        assert_eq!(judge(&r).limit, Limit::Network);
        r.rtt_us = Some(20);
        assert_eq!(judge(&r).limit, Limit::Storage);
    }

    #[test]
    fn failures_and_pauses_are_told() {
        let mut r = result(Operation::Read, Way::Direct, 90);
        r.requests.max_ns = 700_000_000;
        assert!(judge(&r).evidence[0].contains("700 ms"));
        r.requests.lost = 2;
        r.requests.error = Some("I/O error".into());
        assert!(
            judge(&r)
                .summary
                .contains("2 of 10 requests failed: I/O error")
        );
        r.requests.lost = 10;
        assert!(judge(&r).summary.contains("no request succeeded"));
    }
}
