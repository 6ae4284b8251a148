//! The Asymmetric Namespace Access log page (Base 5.16.1.13).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wire::command::Nsid;
use crate::wire::{FormatError, layout, read_prefix};

/// Whether and how a group's namespaces can be reached through this controller (Base 8.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AnaState {
    /// Reachable, the best path.
    Optimized = 0x1,
    /// Reachable.
    NonOptimized = 0x2,
    /// Not reachable through this controller.
    Inaccessible = 0x3,
    /// Never again reachable through this controller.
    PersistentLoss = 0x4,
    /// Between two states.
    Change = 0xf,
}

impl AnaState {
    /// The state with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x1 => Self::Optimized,
            0x2 => Self::NonOptimized,
            0x3 => Self::Inaccessible,
            0x4 => Self::PersistentLoss,
            0xf => Self::Change,
            _ => return None,
        })
    }
}

/// The page's header (Base figure 222).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
struct Header {
    change_count: U64,
    group_count: U16,
    reserved10: [u8; 6],
}
layout!(Header, 16, change_count @ 0, group_count @ 8);

/// A group descriptor's fixed part (Base figure 223).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
struct Descriptor {
    group: U32,
    nsid_count: U32,
    change_count: U64,
    state: u8,
    reserved17: [u8; 15],
}
layout!(Descriptor, 32, group @ 0, nsid_count @ 4, change_count @ 8, state @ 16);

/// A group: namespaces that share a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnaGroup {
    /// ANAGRPID.
    pub id: u32,
    /// CHGCNT of the group.
    pub change_count: u64,
    /// The state of its namespaces.
    pub state: AnaState,
    /// Its namespaces; none if only groups were asked for (RGO).
    pub nsids: Vec<Nsid>,
}

/// The whole page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnaLog {
    /// CHGCNT: counts changes of the page.
    pub change_count: u64,
    /// The groups.
    pub groups: Vec<AnaGroup>,
}

impl AnaLog {
    /// The page's bytes; the caller cuts them to the length that the host asked for.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = Header {
            change_count: U64::new(self.change_count),
            group_count: U16::new(self.groups.len().try_into().unwrap_or(u16::MAX)),
            ..Header::new_zeroed()
        };
        let mut bytes = header.as_bytes().to_vec();
        for group in &self.groups {
            let descriptor = Descriptor {
                group: U32::new(group.id),
                nsid_count: U32::new(group.nsids.len().try_into().unwrap_or(u32::MAX)),
                change_count: U64::new(group.change_count),
                state: group.state as u8,
                ..Descriptor::new_zeroed()
            };
            bytes.extend_from_slice(descriptor.as_bytes());
            for nsid in &group.nsids {
                bytes.extend_from_slice(&nsid.0.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`FormatError`] if `bytes` is shorter than it announces, or for an undefined state.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        const WHAT: &str = "ANA log page";
        let header: Header = read_prefix(WHAT, bytes)?;
        let mut groups = Vec::new();
        let mut at = size_of::<Header>();
        for _ in 0..header.group_count.get() {
            let short = |need| FormatError::Short {
                what: WHAT,
                got: bytes.len(),
                need,
            };
            let rest = bytes.get(at..).ok_or(short(at))?;
            let (descriptor, rest) =
                Descriptor::read_from_prefix(rest).map_err(|_| short(at + 32))?;
            let state = AnaState::from_code(descriptor.state & 0xf).ok_or(FormatError::Field {
                what: WHAT,
                offset: at + 16,
            })?;
            let ids_len = (descriptor.nsid_count.get() as usize).saturating_mul(4);
            let ids = rest
                .get(..ids_len)
                .ok_or(short((at + 32).saturating_add(ids_len)))?;
            let (ids, _) = ids.as_chunks::<4>();
            groups.push(AnaGroup {
                id: descriptor.group.get(),
                change_count: descriptor.change_count.get(),
                state,
                nsids: ids.iter().map(|id| Nsid(u32::from_le_bytes(*id))).collect(),
            });
            at += 32 + ids_len;
        }
        Ok(Self {
            change_count: header.change_count.get(),
            groups,
        })
    }
}
