//! Small types: stateids, session IDs, verifiers, owners, attribute masks.

use crate::limits::{BITMAP_WORDS, BITMAP_WORDS_MAX, OWNER_LEN_MAX};
use crate::xdr::{Bytes, Reader, Result, Writer, Xdr, xdr_struct};

/// A verifier: eight bytes that are only compared.
pub type Verifier = [u8; 8];

/// A session ID.
pub type SessionId = [u8; 16];

pub use filestate::{BOTH, READ, Stateid};

xdr_struct!(@codec ['a] Stateid { seqid: u32, other: [u8; 12] });

xdr_struct! {
    /// An open owner or lock owner.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Owner<'a> {
        /// The client. The session decides instead (§2.10.6.1).
        pub client: u64,
        /// The owner's name within the client.
        pub name: &'a [u8] as Bytes<OWNER_LEN_MAX>,
    }
}

/// A set of attributes, by number. Numbers from 96 on exist in no version, and are kept only as [`Bitmap::has_unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Bitmap {
    words: [u32; BITMAP_WORDS],
    has_unknown: bool,
}

impl Bitmap {
    /// The set of these attributes, each below 96.
    #[must_use]
    pub const fn of(attributes: &[u32]) -> Self {
        let mut words = [0; BITMAP_WORDS];
        let mut i = 0;
        while i < attributes.len() {
            words[(attributes[i] / 32) as usize] |= 1 << (attributes[i] % 32);
            i += 1;
        }
        Self {
            words,
            has_unknown: false,
        }
    }

    /// Whether the set has this attribute.
    #[must_use]
    pub fn has(&self, attribute: u32) -> bool {
        let word = self.words.get((attribute / 32) as usize);
        word.is_some_and(|word| word & (1 << (attribute % 32)) != 0)
    }

    /// Whether attributes were named that have no number here.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        self.has_unknown
    }

    /// Adds an attribute below 96.
    pub fn insert(&mut self, attribute: u32) {
        self.words[(attribute / 32) as usize] |= 1 << (attribute % 32);
    }

    /// Takes an attribute out, if it is in the set.
    pub fn remove(&mut self, attribute: u32) {
        if let Some(word) = self.words.get_mut((attribute / 32) as usize) {
            *word &= !(1 << (attribute % 32));
        }
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words == [0; BITMAP_WORDS] && !self.has_unknown
    }

    /// The attributes in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut words = self.words;
        for (word, other) in words.iter_mut().zip(&other.words) {
            *word &= other;
        }
        Self {
            words,
            has_unknown: false,
        }
    }

    /// The attributes in one of the sets.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut words = self.words;
        for (word, other) in words.iter_mut().zip(&other.words) {
            *word |= other;
        }
        Self {
            words,
            has_unknown: self.has_unknown || other.has_unknown,
        }
    }

    /// The attributes of this set that are not in the other one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut words = self.words;
        for (word, other) in words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
        Self { words, ..*self }
    }

    /// Whether `other` has all attributes of this set.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        !self.has_unknown && self.and(other).words == self.words
    }

    /// The attributes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..32 * BITMAP_WORDS as u32).filter(|attribute| self.has(*attribute))
    }
}

impl<'a> Xdr<'a> for Bitmap {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let mut bitmap = Self::default();
        for at in 0..reader.count(BITMAP_WORDS_MAX, 4)? {
            let word = reader.u32()?;
            match bitmap.words.get_mut(at) {
                Some(kept) => *kept = word,
                None => bitmap.has_unknown |= word != 0,
            }
        }
        Ok(bitmap)
    }

    /// Without zero words at the end.
    fn encode(&self, writer: &mut Writer) {
        let used = self.words.iter().rposition(|word| *word != 0);
        let used = used.map_or(0, |at| at + 1);
        writer.count(used);
        self.words[..used].iter().for_each(|word| writer.u32(*word));
    }
}

xdr_struct! {
    /// Values of attributes (`fattr4`), in the order of their numbers. The values are not looked into.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Attrs<'a> {
        /// The attributes.
        pub mask: Bitmap,
        /// Their values.
        pub values: &'a [u8],
    }
}
