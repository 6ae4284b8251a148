//! Changes of one volume that are only in memory.
//!
//! **Owns** records that were written and ranges that were zeroed, until the owner of the pool takes them in groups.
//! **Called by** volumes (above) and the owner's commits. **Invariants**: a record is held once; a range is older than
//! every record in it, so that whoever takes ranges first, and all of them, keeps the order; what is urgent is taken
//! before the rest.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A record's contents: as many bytes as the volume's records have.
pub(crate) type Contents = Arc<Vec<u8>>;

/// What is known about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// It holds this.
    Data(Contents),
    /// It reads as zero.
    Zero,
}

/// Changes taken together: first the ranges are zeroed, then the records have these contents.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Disjoint, in order.
    pub(crate) ranges: Vec<Range<u64>>,
    /// In order.
    pub(crate) records: Vec<(u64, Contents)>,
}

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.records.is_empty()
    }

    /// Bytes of the records.
    pub(crate) fn bytes(&self) -> usize {
        self.records.iter().map(|(_, data)| data.len()).sum()
    }

    pub(crate) fn get(&self, record: u64) -> Option<Known> {
        let found = self.records.binary_search_by_key(&record, |(r, _)| *r);
        if let Ok(index) = found {
            return Some(Known::Data(self.records[index].1.clone()));
        }
        let after = self.ranges.partition_point(|r| r.start <= record);
        let range = after.checked_sub(1).map(|i| &self.ranges[i])?;
        range.contains(&record).then_some(Known::Zero)
    }
}

/// Changes not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    urgent: BTreeMap<u64, Contents>,
    lazy: BTreeMap<u64, Contents>,
    /// Start to end; they neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
    bytes: usize,
}

impl Dirty {
    /// Bytes of the records held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether something is to be taken before the rest.
    pub(crate) fn is_urgent(&self) -> bool {
        !self.urgent.is_empty() || !self.ranges.is_empty()
    }

    /// Whether there is something that is not urgent, or leaves with whatever leaves first.
    pub(crate) fn has_lazy(&self) -> bool {
        !self.lazy.is_empty() || !self.ranges.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lazy.is_empty() && !self.is_urgent()
    }

    /// Records held: those that are urgent, or if `lazy` the others.
    pub(crate) fn count(&self, lazy: bool) -> usize {
        if lazy {
            self.lazy.len()
        } else {
            self.urgent.len()
        }
    }

    /// Ranges held.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn get(&self, record: u64) -> Option<Known> {
        if let Some(data) = self.urgent.get(&record).or_else(|| self.lazy.get(&record)) {
            return Some(Known::Data(data.clone()));
        }
        let (_, end) = self.ranges.range(..=record).next_back()?;
        (record < *end).then_some(Known::Zero)
    }

    fn forget(&mut self, record: u64) -> usize {
        let old = self.urgent.remove(&record);
        let old = old.or_else(|| self.lazy.remove(&record));
        let bytes = old.map_or(0, |data| data.len());
        self.bytes -= bytes;
        bytes
    }

    /// Gives a record new contents. Returns the bytes of those that they replace here.
    pub(crate) fn put(&mut self, record: u64, data: Contents, urgent: bool) -> usize {
        let urgent = urgent || self.urgent.contains_key(&record);
        let replaced = self.forget(record);
        self.bytes += data.len();
        let map = if urgent {
            &mut self.urgent
        } else {
            &mut self.lazy
        };
        map.insert(record, data);
        replaced
    }

    /// Zeroes records. Returns the bytes of those that are held no more.
    pub(crate) fn zero(&mut self, records: Range<u64>) -> usize {
        let Range { mut start, mut end } = records;
        if start >= end {
            return 0;
        }
        let mut replaced = 0;
        for map in [&mut self.urgent, &mut self.lazy] {
            while let Some((&record, _)) = map.range(start..end).next() {
                replaced += map.remove(&record).map_or(0, |data| data.len());
            }
        }
        self.bytes -= replaced;
        while let Some((&s, &e)) = self.ranges.range(..=end).next_back()
            && e >= start
        {
            self.ranges.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.ranges.insert(start, end);
        replaced
    }

    /// Makes all that is held now urgent.
    pub(crate) fn hurry(&mut self) {
        if self.urgent.is_empty() {
            std::mem::swap(&mut self.urgent, &mut self.lazy);
        } else {
            self.urgent.append(&mut self.lazy);
        }
    }

    /// Takes all ranges, and records of about `bytes_max` bytes (one at least) in order: the urgent ones, or if
    /// `lazy` the others.
    pub(crate) fn take(&mut self, bytes_max: usize, lazy: bool) -> Group {
        let ranges = std::mem::take(&mut self.ranges);
        let mut group = Group {
            ranges: ranges.into_iter().map(|(s, e)| s..e).collect(),
            records: Vec::new(),
        };
        let map = if lazy {
            &mut self.lazy
        } else {
            &mut self.urgent
        };
        let mut taken = 0;
        while taken < bytes_max
            && let Some((record, data)) = map.pop_first()
        {
            taken += data.len();
            group.records.push((record, data));
        }
        self.bytes -= taken;
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Act {
        Put(u64, u8, bool),
        Zero(u64, u64),
        Hurry,
        Take(usize, bool),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => (0u64..24, any::<u8>(), any::<bool>()).prop_map(|(r, n, u)| Act::Put(r, n, u)),
            2 => (0u64..24, 0u64..9).prop_map(|(s, n)| Act::Zero(s, s + n)),
            1 => Just(Act::Hurry),
            2 => (1usize..6, any::<bool>()).prop_map(|(n, lazy)| Act::Take(n, lazy)),
        ]
    }

    /// What a map of records says after groups were applied in the order in which they were taken, with what is not
    /// taken yet on top, is what the acts in their own order say.
    fn agrees(acts: Vec<Act>) {
        let mut dirty = Dirty::default();
        let mut model: BTreeMap<u64, Option<u8>> = BTreeMap::new();
        let mut taken: BTreeMap<u64, Option<u8>> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Put(record, n, urgent) => {
                    dirty.put(record, Arc::new(vec![n]), urgent);
                    model.insert(record, Some(n));
                }
                Act::Zero(start, end) => {
                    dirty.zero(start..end);
                    model.extend((start..end).map(|r| (r, None)));
                }
                Act::Hurry => dirty.hurry(),
                Act::Take(bytes, lazy) => {
                    let group = dirty.take(bytes, lazy);
                    assert!(group.bytes() <= bytes);
                    for record in 0..40 {
                        taken.extend(group.get(record).map(|known| match known {
                            Known::Data(data) => (record, Some(data[0])),
                            Known::Zero => (record, None),
                        }));
                    }
                    assert!(dirty.ranges.is_empty());
                }
            }
            let held = dirty.urgent.len() + dirty.lazy.len();
            assert_eq!(dirty.bytes(), held);
            for record in 0..40 {
                let got = match dirty.get(record) {
                    Some(Known::Data(data)) => Some(Some(data[0])),
                    Some(Known::Zero) => Some(None),
                    None => taken.get(&record).copied(),
                };
                assert_eq!(got, model.get(&record).copied(), "record {record}");
            }
        }
    }

    proptest! {
        #[test]
        fn groups_and_the_rest_say_what_was_done(acts in prop::collection::vec(act(), 1..60)) {
            agrees(acts);
        }
    }

    #[test]
    fn urgent_records_leave_first_and_stay_urgent() {
        let mut dirty = Dirty::default();
        let data = |n: u8| Arc::new(vec![n]);
        dirty.put(1, data(1), false);
        dirty.put(2, data(2), true);
        dirty.put(2, data(3), false);
        assert!(dirty.is_urgent());
        assert_eq!(dirty.take(9, false).records, [(2, data(3))]);
        assert!(!dirty.is_urgent() && !dirty.is_empty());
        dirty.hurry();
        assert_eq!(dirty.take(9, false).records, [(1, data(1))]);
        assert!(dirty.is_empty());
    }
}
