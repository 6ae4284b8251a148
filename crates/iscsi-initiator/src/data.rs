//! Decoders of the units' answers: capacity, identity, limits, caches.
//!
//! **Called by** [`super::unit`]. **Invariants**: an answer may have any length and content; one that is too short for its
//! mandatory fields is malformed; a list is no longer than its named limit.

use super::error::{Error, Result};
use super::limits::LUNS_MAX;
use iscsi::wire::Lun;

/// READ CAPACITY(16) data (SBC-3 5.16.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Logical blocks.
    pub blocks: u64,
    /// Length of a logical block, bytes.
    pub block_size: u32,
    /// Logical blocks in a physical block.
    pub blocks_per_physical: u32,
    /// LBPME: the unit supports unmap.
    pub provisioning: bool,
    /// LBPRZ: unmapped blocks read as zero.
    pub unmapped_is_zero: bool,
}

/// Standard INQUIRY data (SPC-4 6.6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// PERIPHERAL DEVICE TYPE; 0 is a disk.
    pub device_type: u8,
    /// PERIPHERAL QUALIFIER; 0 is a connected unit.
    pub qualifier: u8,
    /// T10 VENDOR IDENTIFICATION.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION.
    pub product: String,
    /// PRODUCT REVISION LEVEL.
    pub revision: String,
}

/// Block limits (SBC-3 6.6.4); zero is "not reported".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockLimits {
    /// MAXIMUM COMPARE AND WRITE LENGTH, blocks.
    pub compare_and_write_max: u8,
    /// MAXIMUM TRANSFER LENGTH, blocks.
    pub transfer_max: u32,
    /// OPTIMAL TRANSFER LENGTH, blocks.
    pub transfer_optimal: u32,
    /// MAXIMUM UNMAP LBA COUNT.
    pub unmap_blocks_max: u32,
    /// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
    pub unmap_ranges_max: u32,
    /// MAXIMUM WRITE SAME LENGTH, blocks.
    pub write_same_max: u64,
}

/// Block device characteristics (SBC-3 6.6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Characteristics {
    /// MEDIUM ROTATION RATE; 1 is a non-rotating medium.
    pub rotation_rate: u16,
}

/// Logical block provisioning (SBC-3 6.6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provisioning {
    /// LBPU: UNMAP is supported.
    pub unmap: bool,
    /// LBPWS: WRITE SAME(16) can unmap blocks.
    pub write_same: bool,
    /// PROVISIONING TYPE; 2 is thin.
    pub kind: u8,
}

/// A designator (SPC-4 7.8.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Designator {
    /// ASSOCIATION: 0 the unit, 1 the port, 2 the device.
    pub association: u8,
    /// DESIGNATOR TYPE.
    pub kind: u8,
    /// The designator.
    pub bytes: Vec<u8>,
}

/// The caching mode page (SBC-3 6.5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caching {
    /// WCE: writes are answered before they are on stable storage.
    pub write_cache: bool,
    /// RCD: reads are not cached.
    pub read_cache_disabled: bool,
    /// WP of the header: the medium is write-protected.
    pub write_protected: bool,
    /// DPOFUA of the header: FUA and DPO are supported.
    pub fua: bool,
}

fn part<const N: usize>(data: &[u8], at: usize, what: &'static str) -> Result<[u8; N]> {
    data.get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .ok_or(Error::Malformed(what))
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).trim().to_owned()
}

impl Capacity {
    pub(super) fn parse(data: &[u8]) -> Result<Capacity> {
        const WHAT: &str = "READ CAPACITY";
        let last = u64::from_be_bytes(part(data, 0, WHAT)?);
        let block_size = u32::from_be_bytes(part(data, 8, WHAT)?);
        let [exponent, flags] = part(data, 13, WHAT)?;
        let blocks = last.checked_add(1).ok_or(Error::Malformed(WHAT))?;
        let sound = block_size.is_power_of_two() && (512..=1 << 20).contains(&block_size);
        if !sound || blocks.checked_mul(block_size.into()).is_none() {
            return Err(Error::Malformed("a capacity or a block size out of range"));
        }
        Ok(Capacity {
            blocks,
            block_size,
            blocks_per_physical: 1 << (exponent & 0xf),
            provisioning: flags & 0x80 != 0,
            unmapped_is_zero: flags & 0x40 != 0,
        })
    }
}

impl Identity {
    pub(super) fn parse(data: &[u8]) -> Result<Identity> {
        let head: [u8; 36] = part(data, 0, "INQUIRY")?;
        Ok(Identity {
            device_type: head[0] & 0x1f,
            qualifier: head[0] >> 5,
            vendor: text(&head[8..16]),
            product: text(&head[16..32]),
            revision: text(&head[32..36]),
        })
    }
}

/// Returns the body of a vital product data page. Fails if it is another page or too short.
fn body(data: &[u8], page: u8) -> Result<&[u8]> {
    const WHAT: &str = "a vital product data page";
    let [_, code, high, low] = part(data, 0, WHAT)?;
    if code != page {
        return Err(Error::Malformed("another page than was asked for"));
    }
    let len = usize::from(u16::from_be_bytes([high, low]));
    let rest = &data[4..];
    Ok(&rest[..len.min(rest.len())])
}

impl BlockLimits {
    pub(super) fn parse(data: &[u8]) -> Result<BlockLimits> {
        let b = body(data, super::commands::page::BLOCK_LIMITS)?;
        // In SBC-2 the page has 12 bytes.
        let mut whole = [0; 60];
        let n = b.len().min(whole.len());
        whole[..n].copy_from_slice(&b[..n]);
        let word = |at: usize| {
            u32::from_be_bytes([whole[at], whole[at + 1], whole[at + 2], whole[at + 3]])
        };
        Ok(BlockLimits {
            compare_and_write_max: whole[1],
            transfer_max: word(4),
            transfer_optimal: word(8),
            unmap_blocks_max: word(16),
            unmap_ranges_max: word(20),
            write_same_max: u64::from(word(32)) << 32 | u64::from(word(36)),
        })
    }
}

impl Characteristics {
    pub(super) fn parse(data: &[u8]) -> Result<Characteristics> {
        let b = body(data, super::commands::page::BLOCK_DEVICE_CHARACTERISTICS)?;
        let rate = u16::from_be_bytes(part(b, 0, "block device characteristics")?);
        Ok(Characteristics {
            rotation_rate: rate,
        })
    }
}

impl Provisioning {
    pub(super) fn parse(data: &[u8]) -> Result<Provisioning> {
        let b = body(data, super::commands::page::LOGICAL_BLOCK_PROVISIONING)?;
        let [_, flags, kind] = part(b, 0, "logical block provisioning")?;
        Ok(Provisioning {
            unmap: flags & 0x80 != 0,
            write_same: flags & 0x40 != 0,
            kind: kind & 7,
        })
    }
}

/// Decodes the designators of a device identification page.
pub(super) fn designators(data: &[u8]) -> Result<Vec<Designator>> {
    let mut rest = body(data, super::commands::page::DEVICE_IDENTIFICATION)?;
    let mut all = Vec::new();
    while let [_, kind, _, len, tail @ ..] = rest {
        let bytes = tail
            .get(..usize::from(*len))
            .ok_or(Error::Malformed("a designator beyond its page"))?;
        all.push(Designator {
            association: kind >> 4 & 3,
            kind: kind & 0xf,
            bytes: bytes.to_vec(),
        });
        rest = &tail[bytes.len()..];
    }
    Ok(all)
}

impl Caching {
    /// Decodes a MODE SENSE(10) answer.
    pub(super) fn parse(data: &[u8]) -> Result<Caching> {
        const WHAT: &str = "MODE SENSE";
        let head: [u8; 8] = part(data, 0, WHAT)?;
        let descriptors = usize::from(u16::from_be_bytes([head[6], head[7]]));
        let [code, _, flags] = part(data, 8 + descriptors, WHAT)?;
        if code & 0x3f != 0x08 {
            return Err(Error::Malformed("another mode page than was asked for"));
        }
        Ok(Caching {
            write_cache: flags & 0x04 != 0,
            read_cache_disabled: flags & 0x01 != 0,
            write_protected: head[3] & 0x80 != 0,
            fua: head[3] & 0x10 != 0,
        })
    }
}

/// Decodes the units of a REPORT LUNS answer (SPC-4 6.33).
pub(super) fn luns(data: &[u8]) -> Result<Vec<Lun>> {
    let len = u32::from_be_bytes(part(data, 0, "REPORT LUNS")?) as usize;
    let list = data.get(8..).unwrap_or_default();
    let list = &list[..len.min(list.len())];
    let all = list.chunks_exact(8).take(LUNS_MAX);
    Ok(all
        .map(|c| Lun([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_any_length_and_content_are_read_or_malformed() {
        for len in 0..80 {
            for fill in [0, 0x41, 0x83, 0xb0, 0xff] {
                let data = vec![fill; len];
                let _ = (Capacity::parse(&data), Identity::parse(&data), luns(&data));
                let _ = (BlockLimits::parse(&data), Provisioning::parse(&data));
                let _ = (Characteristics::parse(&data), Caching::parse(&data));
                let _ = designators(&data);
            }
        }
    }

    #[test]
    fn data_with_a_wrong_length_field_is_malformed() {
        let mut capacity = [0; 32];
        capacity[..8].copy_from_slice(&99u64.to_be_bytes());
        capacity[8..12].copy_from_slice(&512u32.to_be_bytes());
        capacity[14] = 0x80;
        let c = Capacity::parse(&capacity).expect("sound");
        assert_eq!((c.blocks, c.block_size, c.provisioning), (100, 512, true));
        capacity[8..12].copy_from_slice(&513u32.to_be_bytes());
        assert!(Capacity::parse(&capacity).is_err());
        capacity[8..12].copy_from_slice(&512u32.to_be_bytes());
        capacity[..8].copy_from_slice(&u64::MAX.to_be_bytes());
        assert!(Capacity::parse(&capacity).is_err(), "no such disk");
        let overlong = [0, 0x83, 0, 8, 1, 3, 0, 200, 1, 2, 3, 4];
        assert!(designators(&overlong).is_err());
        let two = [
            0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(
            luns(&two).expect("two"),
            [Lun::default(), Lun([0, 1, 0, 0, 0, 0, 0, 0])]
        );
        assert_eq!(luns(&two[..16]).expect("cut").len(), 1);
    }
}
