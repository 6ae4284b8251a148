//! Trace of a simulated run: a running hash of all events, which identifies the run, and optionally one printed line for each
//! event.

/// See the module header.
pub(super) struct Trace {
    hash: u64,
    print: bool,
}

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Words that are hashed in parallel.
const LANES: usize = 4;

fn mixed(hash: u64, v: u64) -> u64 {
    (hash ^ v).wrapping_mul(MULTIPLIER).rotate_left(29)
}

impl Trace {
    pub(super) fn new(print: bool) -> Trace {
        Trace {
            hash: MULTIPLIER,
            print,
        }
    }

    fn mix(&mut self, v: u64) {
        self.hash = mixed(self.hash, v);
    }

    /// Adds an event at virtual time `at`.
    pub(super) fn note(&mut self, at: u64, what: &'static str, a: u64, b: u64) {
        self.bytes(what.as_bytes());
        self.mix(at);
        self.mix(a);
        self.mix(b);
        if self.print {
            eprintln!("{:>14.6} ms  {what:<10} {a} {}", at as f64 / 1e6, b as i64);
        }
    }

    /// Prints a remark of the simulated program. It does not change the hash.
    pub(super) fn remark(&self, at: u64, text: impl FnOnce() -> String) {
        if self.print {
            eprintln!("{:>14.6} ms  {}", at as f64 / 1e6, text());
        }
    }

    /// Adds transferred bytes. Each word of a stripe goes into a hash of its own, so that a processor computes them in
    /// parallel.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let (stripes, rest) = bytes.as_chunks::<{ 8 * LANES }>();
        if !stripes.is_empty() {
            let mut lanes = [self.hash; LANES];
            for stripe in stripes {
                for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks().0) {
                    *lane = mixed(*lane, u64::from_le_bytes(*word));
                }
            }
            lanes.into_iter().for_each(|lane| self.mix(lane));
        }
        for chunk in rest.chunks(8) {
            let mut b = [0; 8];
            b[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(b));
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }
}
