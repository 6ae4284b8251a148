//! Passwords and their Argon2id hashes (RFC 9106).
//!
//! **Called by** [`super::users`]. **Invariants**: a hash has its own salt and its own parameters, so that later versions may choose
//! higher ones; hashes are compared in constant time; a computation takes [`MEMORY_KIB`] of memory.

use crate::{Error, Result};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// Parameters of new hashes: the second choice of RFC 9106 has 64 MiB and 3 passes; this is OWASP's for servers with less memory to spare.
const MEMORY_KIB: u32 = 19 << 10;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Highest parameters that a stored hash may have.
const MEMORY_KIB_MAX: u32 = 256 << 10;
const PASSES_MAX: u32 = 16;
const SALT_LEN: usize = 16;
const HASH_LEN: usize = 32;

/// Lengths of a password, bytes.
const PASSWORD_LEN: std::ops::RangeInclusive<usize> = 8..=1024;

/// A stored hash.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hash {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Hash {
    /// The hash of a new password. Errors: `Invalid`.
    pub(super) fn new(password: &str) -> Result<Hash> {
        if !PASSWORD_LEN.contains(&password.len()) {
            let (min, max) = PASSWORD_LEN.into_inner();
            let message = format!("a password has {min} to {max} bytes");
            return Err(Error::Invalid(message));
        }
        let mut salt = vec![0; SALT_LEN];
        io::rng::fill(&mut salt);
        let mut hash = Hash {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            lanes: LANES,
            salt,
            hash: Vec::new(),
        };
        hash.hash = hash
            .computed(password)
            .ok_or_else(|| Error::Invalid("this password cannot be hashed".into()))?;
        Ok(hash)
    }

    /// A hash that no password has; it takes as long as another one.
    pub(super) fn of_nobody() -> Hash {
        Hash {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            lanes: LANES,
            salt: vec![0; SALT_LEN],
            hash: Vec::new(),
        }
    }

    /// Whether it is the hash of this password.
    pub(super) fn is_of(&self, password: &str) -> bool {
        if password.len() > *PASSWORD_LEN.end() {
            return false;
        }
        let computed = self.computed(password);
        computed.is_some_and(|c| bool::from(c.ct_eq(&self.hash)))
    }

    /// None if the parameters are out of bounds.
    fn computed(&self, password: &str) -> Option<Vec<u8>> {
        if self.memory_kib > MEMORY_KIB_MAX || self.passes > PASSES_MAX {
            return None;
        }
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(HASH_LEN)).ok()?;
        let mut hash = vec![0; HASH_LEN];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(password.as_bytes(), &self.salt, &mut hash)
            .ok()?;
        Some(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_has_its_hash() {
        let hash = Hash::new("correct horse").expect("a password");
        assert!(hash.is_of("correct horse"));
        assert!(!hash.is_of("correct horse ") && !hash.is_of(""));
        let again = Hash::new("correct horse").expect("a password");
        assert!(hash != again, "each hash has a salt of its own");
        assert!(!Hash::of_nobody().is_of(""));
        for bad in ["short", &"x".repeat(1025)] {
            assert!(matches!(Hash::new(bad), Err(Error::Invalid(_))));
        }
    }

    /// A vector of the reference implementation: `$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65...`.
    #[test]
    fn a_stored_hash_keeps_its_meaning() {
        let stored = Hash {
            memory_kib: 256,
            salt: b"somesalt".to_vec(),
            ..Hash::of_nobody()
        };
        let computed = stored.computed("password").expect("valid parameters");
        let hex: String = computed.iter().map(|b| format!("{b:02x}")).collect();
        let reference = "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe";
        assert_eq!(hex, reference);
    }

    #[test]
    fn parameters_of_a_damaged_file_take_no_memory() {
        let greedy = Hash {
            memory_kib: u32::MAX,
            ..Hash::of_nobody()
        };
        assert!(!greedy.is_of("password"));
    }
}
