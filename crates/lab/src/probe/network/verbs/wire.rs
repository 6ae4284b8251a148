//! Messages of the probe of verbs: fixed-size, big-endian, one encoding for one value.
//!
//! **Called by** both sides. **Invariants**: those of [`super::super::wire`].
//!
//! The private data of the connection request is a [`Request`](super::super::wire::Request) of mode `Verbs`; that of a rejection is a
//! [`Reply`](super::super::wire::Reply). The server's first message is an [`BufferOffer`]. Then the first byte of each message of the client is a
//! [`Kind`]:
//! - `Echo`: the message comes back.
//! - `Data`: it is counted and dropped.
//! - `Ask`: the answer is a [`Report`](super::super::wire::Report) of the time since the last one: bytes of `Data`, time, processor time.
//!
//! WRITEs and READs of the client use the offered memory at any time. The client disconnects.

use io::rdma::{Exposed, Remote, RemoteKey};

/// Bytes of each piece of offered memory, of a block of a transfer, and of the longest message.
pub const BLOCK: u32 = 64 << 10;
/// Bytes of an [`BufferOffer`].
pub const OFFER_LEN: usize = 24;

/// The kind of a message from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Comes back.
    Echo,
    /// Is counted and dropped.
    Data,
    /// Is answered by a report.
    Ask,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Echo, Kind::Data, Kind::Ask];

    /// The first byte of a message of this kind.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Kind::Echo => 1,
            Kind::Data => 2,
            Kind::Ask => 3,
        }
    }

    /// The kind of a message; `None` for an empty one or another first byte.
    #[must_use]
    pub fn of(message: &[u8]) -> Option<Kind> {
        let code = *message.first()?;
        Kind::ALL.into_iter().find(|k| k.code() == code)
    }
}

/// The server's memory that the client may use, [`BLOCK`] bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferOffer {
    /// Memory for WRITEs.
    pub writable: Remote,
    /// Memory for READs.
    pub readable: Remote,
}

impl BufferOffer {
    /// The offer of two exposed buffers of [`BLOCK`] bytes.
    #[must_use]
    pub fn new(writable: Exposed, readable: Exposed) -> BufferOffer {
        BufferOffer {
            writable: writable.at,
            readable: readable.at,
        }
    }

    /// The message.
    #[must_use]
    pub fn encode(&self) -> [u8; OFFER_LEN] {
        let mut out = [0; OFFER_LEN];
        for (at, place) in out
            .chunks_exact_mut(OFFER_LEN / 2)
            .zip([self.writable, self.readable])
        {
            at[..8].copy_from_slice(&place.address.to_be_bytes());
            at[8..].copy_from_slice(&place.key.0.to_be_bytes());
        }
        out
    }

    /// Reads a message. `None` if its length is another one.
    #[must_use]
    pub fn decode(message: &[u8]) -> Option<BufferOffer> {
        let bytes: &[u8; OFFER_LEN] = message.try_into().ok()?;
        let place = |at: usize| Remote {
            address: u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes")),
            key: RemoteKey(u32::from_be_bytes(
                bytes[at + 8..at + 12].try_into().expect("four bytes"),
            )),
        };
        Some(BufferOffer {
            writable: place(0),
            readable: place(OFFER_LEN / 2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_offer_survives_and_has_one_length(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            match BufferOffer::decode(&bytes) {
                Some(offer) => prop_assert_eq!(&offer.encode()[..], &bytes[..]),
                None => prop_assert!(bytes.len() != OFFER_LEN),
            }
        }
    }

    #[test]
    fn kinds_are_told_apart_by_the_first_byte() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(&[kind.code(), 7]), Some(kind));
        }
        assert_eq!(
            (Kind::of(&[]), Kind::of(&[0]), Kind::of(&[4])),
            (None, None, None)
        );
    }
}
