//! The stored form of persistent reservations (APTPL).
//!
//! **Invariants**: without APTPL only the generation is kept; parsed reservations satisfy the same invariants as
//! those made here.
//!
//! Little endian: magic `WPSR`, version 1, APTPL, type, holder's index plus one (u16), generation (u32), count (u16);
//! then for each registrant key (u64), target port (u16), ISID (6 bytes), name length (u8) and name.

use super::{Registrant, Reservations, Type};
use crate::limits::{INITIATOR_NAME_MAX, REGISTRANTS_MAX};
use crate::nexus::InitiatorPort;
use session::reservation::Stored;
use std::collections::BTreeMap;

const MAGIC: [u8; 5] = *b"WPSR\x01";

/// Reads bytes from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|b| b[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn registrant(&mut self) -> Option<(Registrant, u64)> {
        let key = u64::from_le_bytes(self.take()?);
        let port = self.u16()?;
        let isid = self.take()?;
        let len = usize::from(self.u8()?);
        if len > INITIATOR_NAME_MAX {
            return None;
        }
        let (name, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        let initiator = InitiatorPort::iscsi(std::str::from_utf8(name).ok()?, isid);
        Some((Registrant { initiator, port }, key))
    }
}

impl Stored for Reservations {
    fn persists(&self) -> bool {
        self.persist
    }

    fn to_bytes(&self) -> Vec<u8> {
        let empty = Reservations {
            generation: self.generation,
            ..Reservations::default()
        };
        let kept = if self.persist { self } else { &empty };
        let holder = kept
            .holder
            .as_ref()
            .and_then(|h| kept.registrants.keys().position(|r| r == h));
        let mut out = MAGIC.to_vec();
        out.push(u8::from(kept.persist));
        out.push(kept.kind.map_or(0, |k| k as u8));
        out.extend(holder.map_or(0, |i| i as u16 + 1).to_le_bytes());
        out.extend(kept.generation.to_le_bytes());
        out.extend((kept.registrants.len() as u16).to_le_bytes());
        for (r, key) in &kept.registrants {
            out.extend(key.to_le_bytes());
            out.extend(r.port.to_le_bytes());
            out.extend(r.initiator.isid());
            out.push(r.initiator.name().len() as u8);
            out.extend(r.initiator.name().as_bytes());
        }
        out
    }

    fn parse(bytes: &[u8]) -> Option<Reservations> {
        let mut from = Reader(bytes);
        if from.take()? != MAGIC {
            return None;
        }
        let persist = match from.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let kind = match from.u8()? {
            0 => None,
            code => Some(Type::from_code(code)?),
        };
        let holder = from.u16()?;
        let generation = u32::from_le_bytes(from.take()?);
        let count = usize::from(from.u16()?);
        if count > REGISTRANTS_MAX {
            return None;
        }
        let mut registrants = BTreeMap::new();
        for _ in 0..count {
            let (r, key) = from.registrant()?;
            registrants.insert(r, key);
        }
        if !from.0.is_empty() || registrants.len() != count {
            return None;
        }
        let holder = match holder {
            0 => None,
            n => Some(registrants.keys().nth(usize::from(n) - 1)?.clone()),
        };
        let sound = match (kind, &holder) {
            (None, None) => true,
            (Some(k), None) => k.all_registrants() && !registrants.is_empty(),
            (Some(k), Some(_)) => !k.all_registrants(),
            (None, Some(_)) => false,
        };
        sound.then_some(Reservations {
            generation,
            registrants,
            holder,
            kind,
            persist,
        })
    }
}
