//! File handles: what a client keeps of an object, with a keyed hash.
//!
//! **Owns** [`HandleKey`] and [`ObjectId`]. **Called by** PUTFH and GETFH. **Invariants**: bytes whose hash does not match name
//! nothing; a handle names its export, so a client that may not see the export cannot use it through another one. Handles of
//! one key stay valid over restarts: they are persistent (§4.2.3).
//!
//! ```text
//! version (1)  kind (1)  zero (2)  export (4)  file system (8)  object (8)  generation (8)  SipHash-2-4 of all before (16)
//! ```

use backend::file::Handle;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use subtle::ConstantTimeEq;

/// Bytes of a handle.
pub const HANDLE_LEN: usize = 48;
const BODY_LEN: usize = 32;
const VERSION: u8 = 1;
const PSEUDO: u8 = 0;
const FILE: u8 = 1;

/// The object that a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectId {
    /// A directory of the pseudo file system, by its number.
    Pseudo(u64),
    /// An object of an export, by the export's number.
    File(u32, Handle),
}

/// The key of the handles of a server.
#[derive(Clone)]
pub struct HandleKey([u8; 16]);

impl HandleKey {
    /// A key. It must be secret, random, and the same after a restart.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    fn hash(&self, body: &[u8]) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(body);
        hasher.finish128().as_bytes()
    }

    /// The handle of an object.
    #[must_use]
    pub fn seal(&self, object: ObjectId) -> [u8; HANDLE_LEN] {
        let (kind, export, handle) = match object {
            ObjectId::Pseudo(node) => {
                let handle = Handle {
                    filesystem: 0,
                    object: node,
                    generation: 0,
                };
                (PSEUDO, 0, handle)
            }
            ObjectId::File(export, handle) => (FILE, export, handle),
        };
        let mut bytes = [0; HANDLE_LEN];
        bytes[0] = VERSION;
        bytes[1] = kind;
        bytes[4..8].copy_from_slice(&export.to_be_bytes());
        bytes[8..16].copy_from_slice(&handle.filesystem.to_be_bytes());
        bytes[16..24].copy_from_slice(&handle.object.to_be_bytes());
        bytes[24..32].copy_from_slice(&handle.generation.to_be_bytes());
        let hash = self.hash(&bytes[..BODY_LEN]);
        bytes[BODY_LEN..].copy_from_slice(&hash);
        bytes
    }

    /// The object of a handle; `None` for bytes that [`HandleKey::seal`] did not make with this key.
    #[must_use]
    pub fn open(&self, bytes: &[u8]) -> Option<ObjectId> {
        let bytes: &[u8; HANDLE_LEN] = bytes.try_into().ok()?;
        let (body, hash) = bytes.split_at(BODY_LEN);
        if !bool::from(self.hash(body).as_slice().ct_eq(hash)) {
            return None;
        }
        let number = |at: usize| u64::from_be_bytes(body[at..at + 8].try_into().expect("8 bytes"));
        let handle = Handle {
            filesystem: number(8),
            object: number(16),
            generation: number(24),
        };
        // The version and the export, in one number.
        let export = number(0) as u32;
        match (body[0], body[1]) {
            (VERSION, PSEUDO) => Some(ObjectId::Pseudo(handle.object)),
            (VERSION, FILE) => Some(ObjectId::File(export, handle)),
            _ => None,
        }
    }
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandleKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: ObjectId = ObjectId::File(
        7,
        Handle {
            filesystem: 1,
            object: u64::MAX,
            generation: 3,
        },
    );

    #[test]
    fn a_handle_names_its_object() {
        let key = HandleKey::new([5; 16]);
        for object in [OBJECT, ObjectId::Pseudo(9)] {
            assert_eq!(key.open(&key.seal(object)), Some(object));
        }
    }

    #[test]
    fn forged_handles_name_nothing() {
        let key = HandleKey::new([5; 16]);
        let sealed = key.seal(OBJECT);
        for at in 0..HANDLE_LEN {
            let mut forged = sealed;
            forged[at] ^= 1;
            assert_eq!(key.open(&forged), None, "byte {at}");
        }
        assert_eq!(key.open(&sealed[..HANDLE_LEN - 1]), None);
        assert_eq!(key.open(&[]), None);
        assert_eq!(HandleKey::new([6; 16]).open(&sealed), None);
    }
}
