//! Skewed choice: ranks by Zipf's law, by rejection-inversion (Hörmann and Derflinger 1996), constant time and no
//! table.
//!
//! **Invariants**: a rank is in `1..=n`; the probability of rank k is proportional to 1/k^θ.

use io::rng::Prng;

/// A sampler of ranks.
#[derive(Debug, Clone)]
pub struct Zipf {
    n: f64,
    theta: f64,
    /// The integral of the density up to 1.5, minus the first rank's weight.
    low: f64,
    /// The integral up to `n + 0.5`.
    high: f64,
    /// Below this distance from the rank, a candidate is taken without looking closer.
    sure: f64,
}

impl Zipf {
    /// Ranks `1..=n` with skew `theta` above 0.
    #[must_use]
    pub fn new(n: u64, theta: f64) -> Zipf {
        assert!(n > 0 && theta > 0.0, "a Zipf law needs ranks and a skew");
        let mut z = Zipf {
            n: n as f64,
            theta,
            low: 0.0,
            high: 0.0,
            sure: 0.0,
        };
        z.low = z.integral(1.5) - 1.0;
        z.high = z.integral(z.n + 0.5);
        z.sure = 2.0 - z.inverse(z.integral(2.5) - z.weight(2.0));
        z
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// ∫ x^-θ, written so that it stays exact near θ = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.theta) * log;
        let ratio = if t.abs() > 1e-8 {
            t.exp_m1() / t
        } else {
            1.0 + t / 2.0 * (1.0 + t / 3.0)
        };
        ratio * log
    }

    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.theta)).max(-1.0);
        let ratio = if t.abs() > 1e-8 {
            t.ln_1p() / t
        } else {
            1.0 - t * (0.5 - t / 3.0)
        };
        (ratio * x).exp()
    }

    /// A rank.
    pub fn sample(&self, rng: &mut Prng) -> u64 {
        loop {
            let unit = (rng.u64() >> 11) as f64 / (1u64 << 53) as f64;
            let u = self.high + unit * (self.low - self.high);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.n);
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        const DRAWS: usize = 200_000;
        for theta in [0.5, 0.99, 1.0, 1.2, 2.5] {
            let n = 50u64;
            let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
            let total: f64 = weights.iter().sum();
            let (zipf, mut rng) = (Zipf::new(n, theta), Prng::new(42));
            let mut seen = vec![0f64; n as usize];
            for _ in 0..DRAWS {
                seen[zipf.sample(&mut rng) as usize - 1] += 1.0;
            }
            // Pearson's statistic against the exact law: 49 degrees of freedom, p = 0.0001 at 96.
            let chi2: f64 = weights
                .iter()
                .zip(&seen)
                .map(|(w, s)| {
                    let expected = w / total * DRAWS as f64;
                    (s - expected).powi(2) / expected
                })
                .sum();
            assert!(chi2 < 96.0, "theta {theta}: chi² {chi2}");
        }
    }

    #[test]
    fn one_rank_and_very_many_ranks_work() {
        let mut rng = Prng::new(7);
        assert_eq!(Zipf::new(1, 1.0).sample(&mut rng), 1);
        let z = Zipf::new(1 << 40, 0.9);
        assert!((0..10_000).all(|_| (1..=1 << 40).contains(&z.sample(&mut rng))));
    }
}
