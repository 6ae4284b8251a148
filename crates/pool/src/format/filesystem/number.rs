//! Object numbers: the number of a file says the size of its records.
//!
//! A number is a claimed number, counted up for ever, and above it a class of record size in four bits. Class 0 is the record
//! size of the dataset's record. So a key of a file is enough to know its record size, without its inode.
//!
//! **Owns** this arithmetic. **Called by** creations, which choose the class, and by all code that counts records of files.
//! **Invariants**: the class never changes; two objects never have the same claimed number. `docs/format.md`, "Filesystems";
//! `docs/decisions/0135`.

use crate::format::{ObjectId, RECORD_SIZE_MAX, RECORD_SIZE_MIN};

/// Bits of a claimed number.
const CLAIMED_BITS: u32 = 52;
/// Exclusive upper bound of claimed numbers.
pub const CLAIMED_END: u64 = 1 << CLAIMED_BITS;

/// The class of a record size, from 1.
fn class_of(record_size: u32) -> u64 {
    u64::from(record_size.ilog2() - RECORD_SIZE_MIN.ilog2() + 1)
}

fn class(object: ObjectId) -> u64 {
    object.0 >> CLAIMED_BITS
}

/// The number of a file with a claimed number and records of `record_size` bytes, in a dataset with records of `base` bytes.
///
/// # Panics
/// If the claimed number is not below [`CLAIMED_END`].
#[must_use]
pub fn file_number(claimed: ObjectId, record_size: u32, base: u32) -> ObjectId {
    assert!(claimed.0 < CLAIMED_END, "{claimed:?}");
    match record_size == base {
        true => claimed,
        false => ObjectId(claimed.0 | class_of(record_size) << CLAIMED_BITS),
    }
}

/// The number without the class.
#[must_use]
pub fn claimed_number(object: ObjectId) -> ObjectId {
    ObjectId(object.0 & (CLAIMED_END - 1))
}

/// Whether a number has a class other than 0.
#[must_use]
pub fn has_own_record_size(object: ObjectId) -> bool {
    class(object) != 0
}

/// Bytes of a record of a file in a dataset with records of `base` bytes. A number that no file can have gives `base`.
#[must_use]
pub fn record_size_of(object: ObjectId, base: u32) -> u32 {
    match class(object) {
        0 => base,
        class if class <= class_of(RECORD_SIZE_MAX) => RECORD_SIZE_MIN << (class - 1),
        _ => base,
    }
}

/// Whether a file of a dataset with records of `base` bytes can have this number: its class is known, and not the dataset's.
#[must_use]
pub fn is_file_number(object: ObjectId, base: u32) -> bool {
    !has_own_record_size(object) || record_size_of(object, base) != base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_the_record_size_for_ever() {
        let claimed = ObjectId(0x1234);
        for base in [4096, 128 << 10, 1 << 20] {
            for shift in 0..=8 {
                let size = RECORD_SIZE_MIN << shift;
                let number = file_number(claimed, size, base);
                assert_eq!(record_size_of(number, base), size);
                assert_eq!(claimed_number(number), claimed);
                assert_eq!(has_own_record_size(number), size != base);
                assert!(is_file_number(number, base));
                assert!(number.0 < super::super::OBJECT_END);
            }
        }
        let bytes = file_number(claimed, 16 << 10, 128 << 10);
        assert_eq!(bytes.0, 0x0030_0000_0000_1234, "as docs/format.md says");
        for wrong in [10u64, 15] {
            let number = ObjectId(claimed.0 | wrong << CLAIMED_BITS);
            assert!(!is_file_number(number, 4096));
            assert_eq!(record_size_of(number, 4096), 4096);
        }
        let same = ObjectId(claimed.0 | class_of(4096) << CLAIMED_BITS);
        assert!(!is_file_number(same, 4096), "one number for one size");
    }
}
