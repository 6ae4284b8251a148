//! Randomness from the driver: the kernel's, or seeded in the simulator.

use crate::runtime::try_current;

/// Fills `out` with random bytes. Outside of a runtime, with the kernel's.
pub fn fill(out: &mut [u8]) {
    match try_current() {
        Some(runtime) => runtime.driver.borrow_mut().random(out),
        None => crate::linux::random(out),
    }
}

/// Returns a random number.
#[must_use]
pub fn u64() -> u64 {
    let mut b = [0; 8];
    fill(&mut b);
    u64::from_le_bytes(b)
}

/// Small, fast generator with a seed, for workloads and schedules (xoshiro256++ by Blackman and Vigna). Not for secrets.
#[derive(Debug, Clone)]
pub struct Prng([u64; 4]);

impl Prng {
    /// Creates a generator. A seed gives the same numbers in every version of this program.
    #[must_use]
    pub fn new(seed: u64) -> Prng {
        let mut z = seed;
        // splitmix64, which the generator's authors recommend for seeding.
        let mut next = || {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let x = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        };
        Prng([next(), next(), next(), next()])
    }

    /// Returns the next number.
    pub fn u64(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Returns a number below `n`, which must not be zero. The bias is negligible.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below 0 there is nothing");
        ((u128::from(self.u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns true with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        ((self.u64() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let b = self.u64().to_le_bytes();
            chunk.copy_from_slice(&b[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_ranges_hold() {
        let (mut a, mut b) = (Prng::new(7), Prng::new(7));
        for n in 1..1000 {
            let x = a.below(n);
            assert_eq!(x, b.below(n));
            assert!(x < n);
        }
        assert_ne!(Prng::new(1).u64(), Prng::new(2).u64());
        let hits = (0..10_000).filter(|_| a.chance(0.25)).count();
        assert!((2200..2800).contains(&hits), "{hits} of 10000 at a quarter");
    }
}
