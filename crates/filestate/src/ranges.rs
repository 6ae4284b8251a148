//! Byte ranges of the locks of one file (§9.1, §18.10 to §18.12; POSIX fcntl locks).
//!
//! **Owns** [`Ranges`]. **Called by** [`super::Table`]. **Invariants**: ranges of one owner do not overlap, and adjacent ones of
//! one kind are joined; ranges of two owners overlap only if both are shared.

/// Bytes from `start` to `end`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
}

impl Range {
    /// The range of `length` bytes from `offset` on; the largest length stands for all that follow. `None` for an empty range,
    /// or one beyond the largest offset.
    #[must_use]
    pub fn of(offset: u64, length: u64) -> Option<Self> {
        let end = match length {
            0 => return None,
            u64::MAX => u64::MAX,
            length => offset.checked_add(length - 1)?,
        };
        Some(Self { start: offset, end })
    }

    /// Its length; the largest number if it has no end.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self.end {
            u64::MAX => u64::MAX,
            end => end - self.start + 1,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    fn touches(&self, other: &Self) -> bool {
        self.start <= other.end.saturating_add(1) && other.start <= self.end.saturating_add(1)
    }
}

/// A locked range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Locked {
    /// The state of the lock owner.
    pub owner: u64,
    /// The bytes.
    pub range: Range,
    /// Whether it excludes every other lock.
    pub is_exclusive: bool,
}

/// The locks of one file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ranges(Vec<Locked>);

impl Ranges {
    /// A lock of another owner that excludes this one.
    #[must_use]
    pub fn conflict(&self, owner: u64, range: Range, is_exclusive: bool) -> Option<Locked> {
        let excludes = |l: &&Locked| {
            l.owner != owner && (l.is_exclusive || is_exclusive) && l.range.overlaps(&range)
        };
        self.0.iter().find(excludes).copied()
    }

    /// Locks a range that has no conflict. The owner's locks within it are replaced.
    pub fn lock(&mut self, owner: u64, range: Range, is_exclusive: bool) {
        self.unlock(owner, range);
        let mut joined = range;
        self.0.retain(|l| {
            let joins =
                l.owner == owner && l.is_exclusive == is_exclusive && l.range.touches(&range);
            if joins {
                joined.start = joined.start.min(l.range.start);
                joined.end = joined.end.max(l.range.end);
            }
            !joins
        });
        self.0.push(Locked {
            owner,
            range: joined,
            is_exclusive,
        });
    }

    /// Unlocks a range of an owner. Locks that begin before it or end behind it keep these parts.
    pub fn unlock(&mut self, owner: u64, range: Range) {
        let mut kept = Vec::new();
        self.0.retain(|l| {
            if l.owner != owner || !l.range.overlaps(&range) {
                return true;
            }
            if l.range.start < range.start {
                let end = range.start - 1;
                kept.push(Locked {
                    range: Range { end, ..l.range },
                    ..*l
                });
            }
            if l.range.end > range.end {
                let start = range.end + 1;
                kept.push(Locked {
                    range: Range { start, ..l.range },
                    ..*l
                });
            }
            false
        });
        self.0.append(&mut kept);
    }

    /// Unlocks everything of an owner.
    pub fn release(&mut self, owner: u64) {
        self.0.retain(|l| l.owner != owner);
    }

    /// Whether an owner holds a lock.
    #[must_use]
    pub fn holds(&self, owner: u64) -> bool {
        self.0.iter().any(|l| l.owner == owner)
    }

    /// Number of locks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no locks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u64 = 24;

    #[test]
    fn ranges_end_with_the_largest_offset() {
        assert_eq!(Range::of(5, 0), None);
        assert_eq!(Range::of(u64::MAX, 2), None);
        assert_eq!(Range::of(u64::MAX, 1).unwrap().start, u64::MAX);
        let rest = Range::of(7, u64::MAX).unwrap();
        assert_eq!((rest.end, rest.length()), (u64::MAX, u64::MAX));
        assert_eq!(Range::of(7, 3).unwrap().length(), 3);
    }

    #[test]
    fn locks_to_the_end_are_joined() {
        let mut ranges = Ranges::default();
        ranges.lock(1, Range::of(10, u64::MAX).unwrap(), true);
        ranges.lock(1, Range::of(0, 10).unwrap(), true);
        assert_eq!(ranges.len(), 1);
        ranges.unlock(1, Range::of(0, u64::MAX).unwrap());
        assert!(ranges.is_empty());
    }

    /// Of each byte, the owners that have locked it: exclusive or not.
    type Model = Vec<[Option<bool>; 3]>;

    fn model_conflict(model: &Model, owner: usize, range: Range, is_exclusive: bool) -> bool {
        (range.start..=range.end.min(BYTES - 1)).any(|byte| {
            let others = model[byte as usize].iter().enumerate();
            others
                .filter(|(other, _)| *other != owner)
                .any(|(_, lock)| lock.is_some_and(|exclusive| exclusive || is_exclusive))
        })
    }

    fn check(ranges: &Ranges, model: &Model) -> Result<(), TestCaseError> {
        let mut seen: Model = vec![[None; 3]; BYTES as usize];
        for locked in &ranges.0 {
            for byte in locked.range.start..=locked.range.end.min(BYTES - 1) {
                let place = &mut seen[byte as usize][locked.owner as usize];
                prop_assert!(place.is_none(), "an owner's locks overlap");
                *place = Some(locked.is_exclusive);
            }
        }
        prop_assert_eq!(&seen, model);
        for a in &ranges.0 {
            let neighbour = |b: &&Locked| {
                a != *b
                    && a.owner == b.owner
                    && a.is_exclusive == b.is_exclusive
                    && a.range.touches(&b.range)
            };
            prop_assert!(ranges.0.iter().find(neighbour).is_none(), "not joined");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn locks_are_those_of_a_table_of_bytes(
            steps in prop::collection::vec((0..3usize, 0..BYTES, 1..BYTES, 0..3u8), 1..60),
        ) {
            let mut ranges = Ranges::default();
            let mut model: Model = vec![[None; 3]; BYTES as usize];
            for (owner, offset, length, kind) in steps {
                let end = (offset + length - 1).min(BYTES - 1);
                let range = Range { start: offset, end };
                let is_exclusive = kind == 2;
                let wanted = (kind > 0).then_some(is_exclusive);
                if kind > 0 {
                    let conflict = ranges.conflict(owner as u64, range, is_exclusive);
                    let expected = model_conflict(&model, owner, range, is_exclusive);
                    prop_assert_eq!(conflict.is_some(), expected);
                    if conflict.is_some() {
                        continue;
                    }
                    ranges.lock(owner as u64, range, is_exclusive);
                } else {
                    ranges.unlock(owner as u64, range);
                }
                for byte in range.start..=range.end {
                    model[byte as usize][owner] = wanted;
                }
                check(&ranges, &model)?;
            }
        }
    }
}
