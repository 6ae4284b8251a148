//! Made-up results, for tests of pages.

use super::ioping::result::{Iopinged, Operation, Way};
use super::network::result::Probed;
use super::ping::result::Pinged;
use super::summary::{Bin, Summary};

fn with_histogram(s: &mut Summary) {
    s.histogram = vec![
        Bin {
            from_ns: 20_000,
            to_ns: 50_000,
            count: s.sent - 1,
        },
        Bin {
            from_ns: 50_000,
            to_ns: 100_000,
            count: 1,
        },
    ];
}

/// A ping.
pub(crate) fn pinged() -> Pinged {
    let mut p = super::ping::verdict::tests::pinged(20, 30, 900);
    for rung in [&mut p.tcp, &mut p.keep_alive, &mut p.read] {
        with_histogram(rung);
    }
    p
}

/// An ioping.
pub(crate) fn iopinged() -> Iopinged {
    let mut p = super::ioping::verdict::tests::result(Operation::Read, Way::Direct, 85);
    with_histogram(&mut p.requests);
    p
}

/// A TCP probe.
pub(crate) fn probed() -> Probed {
    let mut p = super::network::sample();
    with_histogram(&mut p.latency);
    p
}
