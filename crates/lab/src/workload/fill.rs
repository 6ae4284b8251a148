//! Contents of writes.
//!
//! **Owns** the contents of write buffers. **Invariants**: with [`Fill::Random`] no two writes of a run have the same
//! 512 bytes and none can be compressed by a hundredth, so that compression or deduplication has no effect on the
//! result.
//!
//! A buffer is filled with random bytes once, and before each write every 512 bytes get 8 new ones: the same property
//! as filling it anew, for a hundredth of the client's time.

use crate::{Error, Result};
use io::rng::Prng;

/// Contents of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Bytes that cannot be compressed or deduplicated.
    Random,
    /// Zeroes.
    Zero,
    /// This percentage of every 4096 bytes is zero, the rest random.
    Compressible(u8),
}

/// The unit in which contents never repeat, bytes.
const SECTOR: usize = 512;
/// The unit in which the zeroes of compressible contents are laid, bytes.
const PAGE: usize = 4096;

impl Fill {
    /// `random`, `zero` or `compress=PERCENT`. Errors: `Usage`.
    pub fn parse(text: &str) -> Result<Fill> {
        match (text, text.strip_prefix("compress=").map(str::parse::<u8>)) {
            ("random", _) => Ok(Fill::Random),
            ("zero", _) => Ok(Fill::Zero),
            (_, Some(Ok(p))) if p <= 100 => Ok(Fill::Compressible(p)),
            _ => Err(Error::usage(
                format!("fill {text:?}"),
                "expected random, zero or compress=PERCENT",
            )),
        }
    }

    /// Prepares a new buffer.
    pub fn prepare(self, buf: &mut [u8], rng: &mut Prng) {
        match self {
            Fill::Random => rng.fill(buf),
            Fill::Zero => buf.fill(0),
            Fill::Compressible(p) => {
                for page in buf.chunks_mut(PAGE) {
                    let zeroes = page.len() * usize::from(p) / 100;
                    let (random, zero) = page.split_at_mut(page.len() - zeroes);
                    rng.fill(random);
                    zero.fill(0);
                }
            }
        }
    }

    /// Changes the contents before the next write.
    pub fn refresh(self, buf: &mut [u8], rng: &mut Prng) {
        let unit = match self {
            Fill::Random => SECTOR,
            Fill::Zero | Fill::Compressible(100) => return,
            Fill::Compressible(_) => PAGE,
        };
        for part in buf.chunks_mut(unit) {
            if let Some(head) = part.first_chunk_mut::<8>() {
                *head = rng.u64().to_le_bytes();
            }
        }
    }

    /// Whether compression or deduplication would have an effect.
    #[must_use]
    pub fn is_compressible(self) -> bool {
        !matches!(self, Fill::Random | Fill::Compressible(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn random_sectors_never_repeat() {
        let mut rng = Prng::new(3);
        let mut buf = vec![0; 128 << 10];
        Fill::Random.prepare(&mut buf, &mut rng);
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            Fill::Random.refresh(&mut buf, &mut rng);
            assert!(
                buf.chunks(SECTOR).all(|s| seen.insert(s.to_vec())),
                "a sector came twice"
            );
        }
    }

    #[test]
    fn random_bytes_have_the_entropy_of_noise() {
        let mut buf = vec![0; 1 << 20];
        Fill::Random.prepare(&mut buf, &mut Prng::new(4));
        let mut counts = [0f64; 256];
        buf.iter().for_each(|b| counts[usize::from(*b)] += 1.0);
        let bits: f64 = counts
            .iter()
            .map(|c| c / buf.len() as f64)
            .map(|p| -p * p.log2())
            .sum();
        assert!(bits > 7.999, "{bits} bits per byte");
    }

    #[test]
    fn the_share_of_zeroes_is_the_one_asked_for() {
        let mut buf = vec![1; 64 << 10];
        Fill::Compressible(75).prepare(&mut buf, &mut Prng::new(5));
        let zeroes = buf.iter().filter(|b| **b == 0).count() as f64 / buf.len() as f64;
        assert!((0.75..0.76).contains(&zeroes), "{zeroes}");
        assert_eq!(
            Fill::parse("compress=75").expect("well formed"),
            Fill::Compressible(75)
        );
        assert!(Fill::parse("compress=101").is_err() && Fill::parse("noise").is_err());
        assert!(Fill::Zero.is_compressible() && !Fill::Random.is_compressible());
    }
}
