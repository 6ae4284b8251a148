//! Serial numbers: CmdSN, StatSN and their relatives (§4.2.2.1, RFC 1982).

use std::fmt;

/// A 32-bit serial number. Comparisons use the distance, so that they survive the wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sn(pub u32);

impl Sn {
    /// The number `n` after this one.
    #[must_use]
    pub fn plus(self, n: u32) -> Sn {
        Sn(self.0.wrapping_add(n))
    }

    /// The next one.
    #[must_use]
    pub fn next(self) -> Sn {
        self.plus(1)
    }

    /// Whether it comes before `other`: less than half the circle away.
    #[must_use]
    pub fn is_before(self, other: Sn) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Distance from `earlier`.
    #[must_use]
    pub fn since(self, earlier: Sn) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl fmt::Display for Sn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        assert!(Sn(0xffff_ffff).is_before(Sn(0)));
        assert!(!Sn(0).is_before(Sn(0xffff_ffff)));
        assert!(!Sn(7).is_before(Sn(7)));
        assert_eq!(Sn(2).since(Sn(0xffff_fffe)), 4);
    }
}
