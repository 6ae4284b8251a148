//! Numbers of states in stateids, encrypted: a host cannot guess the stateid of another one.
//!
//! **Owns** [`StateNames`], a permutation of 64-bit numbers under a random key: four rounds of a Feistel network with SipHash-2-4. **Called by**
//! the table. **Invariants**: two numbers never have the same name; a name that was not given out has a number that no state has, with a
//! probability of 1 − n/2^64 for n states (RFC 8881, section 2.10.8.3).

use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;

const ROUNDS: u8 = 4;

/// See the module header.
pub(crate) struct StateNames([u8; 16]);

impl fmt::Debug for StateNames {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateNames")
    }
}

impl StateNames {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    fn round(&self, round: u8, half: u32) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u8(round);
        hasher.write_u32(half);
        hasher.finish() as u32
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: u64) -> u64 {
        let (mut left, mut right) = ((number >> 32) as u32, number as u32);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(round, right));
        }
        u64::from(left) << 32 | u64::from(right)
    }

    /// The number of a name.
    pub(crate) fn number(&self, name: u64) -> u64 {
        let (mut left, mut right) = ((name >> 32) as u32, name as u32);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.round(round, left), left);
        }
        u64::from(left) << 32 | u64::from(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_permutation_that_depends_on_the_key() {
        let (one, two) = (StateNames::new([1; 16]), StateNames::new([2; 16]));
        for number in (0..1000).chain([u64::MAX, 1 << 32, u64::MAX - 7]) {
            assert_eq!(one.number(one.name(number)), number);
            assert_ne!(one.name(number), two.name(number));
            let apart = one.name(number) ^ one.name(number.wrapping_add(1));
            assert!(
                apart.count_ones() > 8,
                "names of neighbours are not neighbours"
            );
        }
    }
}
