//! The choice of the rows that one walk of the row mover empties: the emptiest ones.
//!
//! **Owns** the choice. **Called by** the row mover. **Invariants**: the live sectors of the chosen rows fit into the free rows that
//! the mover may take, as far as the counts tell; a level of fill is chosen as a whole, or a part of its rows by their address, so
//! that each record of a row decides in the same way. Pure. `docs/decisions/0165`.

use crate::format::Address;
use crate::space::{FILL_LEVELS, RowFill, RowFills};

/// Parts that rows of the last level, and windows, are chosen in.
pub(super) const SHARES: u64 = 256;

/// The chosen rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// Rows below this level are chosen.
    pub(super) level: usize,
    /// Of the rows of this level, those whose address falls into the first parts, of [`SHARES`].
    share: u64,
    /// Moves the parts from walk to walk.
    salt: u64,
    /// Live bytes of the chosen rows, about.
    pub(super) bytes: u64,
    /// Their dead bytes, about.
    pub(super) dead: u64,
    /// Whether all rows are chosen that may be.
    pub(super) is_all: bool,
}

impl Choice {
    /// Chooses rows with about `bytes` live bytes together, at most those of level `most`. `stuck` rows stay as they are, and do not
    /// count. `None` if no row is left.
    pub(super) fn of(
        fills: &RowFills,
        stuck: &RowFills,
        bytes: u64,
        (most, salt): (usize, u64),
    ) -> Option<Self> {
        let (mut left, mut dead) = (bytes, 0);
        let most = most.min(FILL_LEVELS - 1);
        for level in 1..=most {
            let live = fills.at(level).live.saturating_sub(stuck.at(level).live);
            let all = fills.at(level);
            let dead_of = |live: u64| {
                let dead = u128::from(all.dead) * u128::from(live);
                dead.checked_div(all.live.into()).unwrap_or(0) as u64
            };
            if live > left {
                let share = u128::from(left) * u128::from(SHARES) / u128::from(live);
                return Some(Self {
                    level,
                    share: share as u64,
                    salt,
                    bytes,
                    dead: dead + dead_of(left),
                    is_all: false,
                });
            }
            left -= live;
            dead += dead_of(live);
        }
        (left < bytes).then_some(Self {
            level: most + 1,
            share: 0,
            salt,
            bytes: bytes - left,
            dead,
            is_all: true,
        })
    }

    /// Whether the rows of a block are chosen, which begin near this address.
    pub(super) fn takes(&self, fill: RowFill, row: Address) -> bool {
        let level = fill.level();
        level < self.level || (level == self.level && self.part_of(row) < self.share)
    }

    fn part_of(&self, row: Address) -> u64 {
        part_of(row.offset.0 ^ self.salt)
    }
}

/// Makes the choices of each walk different.
pub(super) fn salt(walks: u64) -> u64 {
    walks.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// One of [`SHARES`] parts that numbers fall into, evenly.
pub(super) fn part_of(number: u64) -> u64 {
    // the upper bits of a product depend on all bits of the number
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 32 & (SHARES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{VdevClass, VdevId, VdevOffset};
    use crate::space::{BlockKind, Space, VdevSpace};

    const SECTOR: u32 = 4096;
    const ROW: u32 = 8;
    const ROWS: u64 = 512;

    /// Rows of eight sectors, of which row `n` has `n mod 8 + 1` live ones.
    fn rows() -> Space {
        let mut space = Space::new(&[VdevSpace {
            vdev: VdevId(0),
            class: VdevClass::Normal,
            start: VdevOffset(0),
            end: VdevOffset(64 << 20),
            sector: SECTOR,
            row: ROW,
            first_row: ROW,
            narrow: None,
        }]);
        for n in 0..ROWS {
            let row = space.allocate(ROW * SECTOR, ROW * SECTOR, BlockKind::Data);
            let (at, _) = row.expect("space");
            let live = n % 8 + 1;
            let offset = VdevOffset(at.offset.0 + live * u64::from(SECTOR));
            let dead = (ROW - live as u32) * SECTOR;
            if dead > 0 {
                space.free(Address { offset, ..at }, dead).expect("used");
            }
        }
        space
    }

    fn fills(space: &Space) -> RowFills {
        space.row_fills(VdevId(0), 0).expect("a region in use")
    }

    /// Live bytes of the rows that a choice takes, and the most live sectors of one.
    fn taken(space: &Space, choice: &Choice) -> (u64, u64) {
        let (mut live, mut most) = (0, 0);
        for n in 0..ROWS {
            let offset = VdevOffset(n * u64::from(ROW * SECTOR));
            let vdev = VdevId(0);
            let found = space.row_fill(Address { vdev, offset }, SECTOR);
            let (row, fill) = found.expect("a row");
            if choice.takes(fill, row) {
                live += fill.live;
                most = most.max(fill.live / u64::from(SECTOR));
            }
        }
        (live, most)
    }

    #[test]
    fn the_emptiest_rows_are_chosen_as_far_as_they_fit() {
        let space = rows();
        let fills = fills(&space);
        let none = RowFills::default();
        // each number of live sectors has 64 rows
        let bytes = 64 * u64::from(SECTOR) * (1 + 2);
        let wanted = bytes + 32 * 3 * u64::from(SECTOR);
        let choice = Choice::of(&fills, &none, wanted, (FILL_LEVELS, 7)).expect("some rows");
        let (live, most) = taken(&space, &choice);
        assert_eq!(most, 3);
        assert!(
            live > bytes && live < bytes + 64 * 3 * u64::from(SECTOR),
            "{live}"
        );
        assert!(!choice.is_all);
        let all = Choice::of(&fills, &none, u64::MAX, (FILL_LEVELS, 7)).expect("all rows");
        assert!(all.is_all);
        assert_eq!(taken(&space, &all).1, 7, "full rows have nothing to gain");
    }

    #[test]
    fn rows_that_stay_as_they_are_do_not_count() {
        let space = rows();
        let fills = fills(&space);
        let stuck = fills.below(FILL_LEVELS / 4);
        let bytes = 64 * u64::from(SECTOR) * 2;
        let choice = Choice::of(&fills, &stuck, bytes, (FILL_LEVELS, 0)).expect("some rows");
        assert!(choice.level > FILL_LEVELS / 4);
        assert_eq!(choice.bytes, bytes);
        let nothing = Choice::of(&fills, &fills, bytes, (FILL_LEVELS, 0));
        assert_eq!(nothing, None);
    }
}
