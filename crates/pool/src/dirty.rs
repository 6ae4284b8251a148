//! Dirty records: changes of one dataset that have no place on disk yet, by key.
//!
//! **Owns** written records and zeroed ranges until the owner of the pool takes them in groups. **Called by** volumes and by
//! the owner's commits. **Invariants**: a key is in the map once; a range is older than every record in it, and all ranges
//! are taken before any record, which keeps the order; urgent changes are taken first.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use io::SharedBuf;
use io::sync::oneshot;

use crate::compress::Packer;
use crate::format::{Birth, Key, Value};
use crate::record::Contents;

/// Most ranges in one group. Further ranges are taken in groups of their own, before any record.
pub(crate) const RANGES_MAX: usize = if cfg!(test) { 3 } else { 64 };

/// Whole records of one large write, which are written to disk from the client's buffer. No other change may touch them
/// before they are taken: the writer waits for that and keeps its place in the overlap order.
#[derive(Debug)]
pub(crate) struct Large {
    first: Key,
    record_size: usize,
    data: SharedBuf,
    /// The same data, by record.
    contents: VecDeque<Contents>,
    /// Notified when the devices have all of it; dropped if they never will.
    done: Option<oneshot::Sender<()>>,
}

impl Large {
    /// `data` has the contents of the records under the keys from `first` on.
    pub(crate) fn new(
        first: Key,
        record_size: usize,
        data: SharedBuf,
        packer: Packer,
        done: oneshot::Sender<()>,
    ) -> Self {
        assert!(data.len().is_multiple_of(record_size), "whole records");
        let starts = (0..data.len()).step_by(record_size);
        let contents = starts.map(|at| Contents::sent(data.part(at, record_size), packer));
        Self {
            first,
            record_size,
            contents: contents.collect(),
            data,
            done: Some(done),
        }
    }

    /// The contents of its records.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &Contents> {
        self.contents.iter()
    }

    fn keys(&self) -> Range<Key> {
        self.first..self.first.after(self.contents.len() as u128)
    }

    fn get(&self, key: Key) -> Contents {
        self.contents[self.first.up_to(key) as usize].clone()
    }
}

/// State of a record in the dirty map.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// It has these contents.
    Data(Contents),
    /// It reads as zero.
    Zero,
}

impl Known {
    /// A record's contents that are stored in the tree; zero if there is no value.
    pub(crate) fn of_value(value: Option<&Value>) -> Self {
        match value {
            Some(Value::Inline(bytes)) => Known::Data(Contents::inline(bytes)),
            Some(Value::Block(_)) | None => Known::Zero,
        }
    }

    /// Bytes of the contents; the rest of the record is zero.
    pub(crate) fn len(&self) -> usize {
        match self {
            Known::Data(contents) => contents.len(),
            Known::Zero => 0,
        }
    }
}

/// Changes that are taken together: first the ranges are zeroed, then the records get these contents.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Disjoint and in order.
    pub(crate) ranges: Vec<Range<Key>>,
    /// In order.
    pub(crate) records: Vec<(Key, Contents)>,
    /// The contents of all records as one buffer, if they are contiguous.
    pub(crate) whole: Option<SharedBuf>,
    /// Notified when the devices have the group.
    pub(crate) done: Option<oneshot::Sender<()>>,
    /// Births of the records' contents, if the records are moved: they have these contents already.
    pub(crate) births: Option<Vec<Birth>>,
}

impl Group {
    /// Whether its records are moved.
    pub(crate) fn is_moved(&self) -> bool {
        self.births.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.records.is_empty()
    }

    /// Bytes of the records.
    pub(crate) fn bytes(&self) -> usize {
        self.records.iter().map(|(_, data)| data.len()).sum()
    }

    pub(crate) fn get(&self, key: Key) -> Option<Known> {
        let found = self.records.binary_search_by_key(&key, |(k, _)| *k);
        if let Ok(index) = found {
            return Some(Known::Data(self.records[index].1.clone()));
        }
        let after = self.ranges.partition_point(|r| r.start <= key);
        let range = after.checked_sub(1).map(|i| &self.ranges[i])?;
        range.contains(&key).then_some(Known::Zero)
    }
}

/// The dirty records of one dataset.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Large writes. They are urgent.
    large: VecDeque<Large>,
    urgent: BTreeMap<Key, Contents>,
    lazy: BTreeMap<Key, Contents>,
    /// Start and end of each range. Ranges neither overlap nor touch.
    ranges: BTreeMap<Key, Key>,
    bytes: usize,
}

impl Dirty {
    /// Bytes of all records except large writes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of all records.
    pub(crate) fn all_bytes(&self) -> usize {
        self.bytes + self.large.iter().map(|l| l.data.len()).sum::<usize>()
    }

    /// Whether there are urgent changes.
    pub(crate) fn is_urgent(&self) -> bool {
        !self.large.is_empty() || !self.urgent.is_empty() || !self.ranges.is_empty()
    }

    /// Whether there are changes that are not urgent, or ranges.
    pub(crate) fn has_lazy(&self) -> bool {
        !self.lazy.is_empty() || !self.ranges.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lazy.is_empty() && !self.is_urgent()
    }

    /// Number of ranges.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn get(&self, key: Key) -> Option<Known> {
        if let Some(data) = self.urgent.get(&key).or_else(|| self.lazy.get(&key)) {
            return Some(Known::Data(data.clone()));
        }
        if let Some(large) = self.large.iter().find(|l| l.keys().contains(&key)) {
            return Some(Known::Data(large.get(key)));
        }
        let (_, end) = self.ranges.range(..=key).next_back()?;
        (key < *end).then_some(Known::Zero)
    }

    fn forget(&mut self, key: Key) -> usize {
        let old = self.urgent.remove(&key);
        let old = old.or_else(|| self.lazy.remove(&key));
        let bytes = old.map_or(0, |data| data.len());
        self.bytes -= bytes;
        bytes
    }

    /// Sets the contents of a record. Returns the bytes of dirty contents that they replace.
    pub(crate) fn put(&mut self, key: Key, data: Contents, urgent: bool) -> usize {
        let urgent = urgent || self.urgent.contains_key(&key);
        let replaced = self.forget(key);
        self.bytes += data.len();
        let map = if urgent {
            &mut self.urgent
        } else {
            &mut self.lazy
        };
        map.insert(key, data);
        replaced
    }

    /// Adds a large write. Returns the bytes of dirty contents that it replaces.
    pub(crate) fn put_large(&mut self, large: Large) -> usize {
        let replaced = self.forget_range(large.keys());
        self.large.push_back(large);
        replaced
    }

    /// Drops the notifications of all large writes, so that their writers stop waiting.
    pub(crate) fn give_up(&mut self) {
        for large in &mut self.large {
            large.done = None;
        }
    }

    /// Forgets the contents of records under these keys, except large writes. Returns their bytes.
    pub(crate) fn forget_range(&mut self, keys: Range<Key>) -> usize {
        let mut replaced = 0;
        for map in [&mut self.urgent, &mut self.lazy] {
            while let Some((&key, _)) = map.range(keys.clone()).next() {
                replaced += map.remove(&key).map_or(0, |data| data.len());
            }
        }
        self.bytes -= replaced;
        replaced
    }

    /// Zeroes the records under these keys. Returns the bytes of dirty contents that this removes.
    pub(crate) fn zero(&mut self, keys: Range<Key>) -> usize {
        let Range { mut start, mut end } = keys;
        if start >= end {
            return 0;
        }
        let replaced = self.forget_range(start..end);
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

    /// Forgets that records under these keys are zeroed, because newer contents take their place.
    pub(crate) fn forget_zeroes(&mut self, keys: Range<Key>) {
        while let Some((&start, &end)) = self.ranges.range(..keys.end).next_back()
            && end > keys.start
        {
            self.ranges.remove(&start);
            if end > keys.end {
                self.ranges.insert(keys.end, end);
            }
            if start < keys.start {
                self.ranges.insert(start, keys.start);
            }
        }
    }

    /// Makes all present changes urgent.
    pub(crate) fn make_urgent(&mut self) {
        if self.urgent.is_empty() {
            std::mem::swap(&mut self.urgent, &mut self.lazy);
        } else {
            self.urgent.append(&mut self.lazy);
        }
    }

    /// Makes the records under these keys urgent.
    pub(crate) fn make_urgent_in(&mut self, keys: Range<Key>) {
        let mut behind = self.lazy.split_off(&keys.start);
        let mut rest = behind.split_off(&keys.end);
        self.lazy.append(&mut rest);
        self.urgent.append(&mut behind);
    }

    /// Whether one of these keys has urgent contents, except large writes.
    pub(crate) fn has_urgent_in(&self, keys: Range<Key>) -> bool {
        self.urgent.range(keys).next().is_some()
    }

    /// The first of these keys that has contents, except large writes.
    pub(crate) fn first_record_in(&self, keys: Range<Key>) -> Option<Key> {
        let maps = [&self.urgent, &self.lazy];
        let first = maps.map(|map| map.range(keys.clone()).next().map(|(key, _)| *key));
        first.into_iter().flatten().min()
    }

    /// The first `max` of these keys that have contents, of urgent ones, of others, and of each large write. In order.
    pub(crate) fn records_in(&self, keys: Range<Key>, max: usize) -> Vec<Vec<Key>> {
        let maps = [&self.urgent, &self.lazy];
        let in_map = |map: &BTreeMap<Key, Contents>| {
            let found = map.range(keys.clone()).take(max);
            found.map(|(key, _)| *key).collect()
        };
        let in_large = |large: &Large| {
            let own = large.keys();
            let (start, end) = (own.start.max(keys.start), own.end.min(keys.end));
            let count = if start < end { start.up_to(end) } else { 0 };
            (0..count.min(max as u128))
                .map(|n| start.after(n))
                .collect()
        };
        let records = maps.into_iter().map(in_map);
        records.chain(self.large.iter().map(in_large)).collect()
    }

    /// The first of these keys that has changes, except large writes.
    pub(crate) fn first_in(&self, keys: Range<Key>) -> Option<Key> {
        let zeroed = self.first_zeroed(&keys);
        self.first_record_in(keys).into_iter().chain(zeroed).min()
    }

    /// The first of these keys that is in a zeroed range.
    fn first_zeroed(&self, keys: &Range<Key>) -> Option<Key> {
        let before = self.ranges.range(..=keys.start).next_back();
        match before.filter(|(_, end)| **end > keys.start) {
            Some(_) => Some(keys.start),
            None => self
                .ranges
                .range(keys.clone())
                .next()
                .map(|(start, _)| *start),
        }
    }

    /// Whether there are more ranges than fit into one group.
    fn has_many_ranges(&self) -> bool {
        self.ranges.len() > RANGES_MAX
    }

    fn take_ranges(&mut self) -> Vec<Range<Key>> {
        let mut taken = Vec::with_capacity(self.ranges.len().min(RANGES_MAX));
        while taken.len() < RANGES_MAX
            && let Some((start, end)) = self.ranges.pop_first()
        {
            taken.push(start..end);
        }
        taken
    }

    /// Returns the contents of the next records to be taken, in order: approximately `bytes_max` bytes, at least one record.
    /// They are those of a large write, else urgent ones, else (with `lazy`) others. Empty while more than [`RANGES_MAX`]
    /// ranges must be taken before.
    pub(crate) fn next(&self, bytes_max: usize, lazy: bool) -> Vec<Contents> {
        self.next_where(bytes_max, lazy, |_| true)
    }

    /// Those of [`Dirty::next`] that are `wanted`.
    pub(crate) fn next_where(
        &self,
        bytes_max: usize,
        lazy: bool,
        wanted: impl Fn(&Contents) -> bool,
    ) -> Vec<Contents> {
        let bytes_max = match self.has_many_ranges() {
            true => 0,
            false => bytes_max,
        };
        let wanted = |contents: &&Contents| wanted(contents);
        let all: &mut dyn Iterator<Item = &Contents> = match self.large.front().filter(|_| !lazy) {
            Some(large) => &mut large.contents(),
            None if lazy => &mut self.lazy.values(),
            None => &mut self.urgent.values(),
        };
        let first = Contents::first_of(all, bytes_max);
        first.filter(wanted).cloned().collect()
    }

    /// Whether the next records are a large write.
    pub(crate) fn next_is_large(&self, lazy: bool) -> bool {
        !lazy && !self.large.is_empty()
    }

    /// Takes at most [`RANGES_MAX`] ranges and `count` records, as [`Dirty::next`] returned them.
    ///
    /// # Panics
    /// If there are fewer records, or further ranges come before them.
    pub(crate) fn take(&mut self, count: usize, lazy: bool) -> Group {
        if self.has_many_ranges() {
            assert_eq!(count, 0, "ranges leave before the records in them");
            return Group {
                ranges: self.take_ranges(),
                ..Group::default()
            };
        }
        if !lazy && let Some(large) = self.large.pop_front() {
            return self.take_large(large, count);
        }
        let ranges = self.take_ranges();
        let map = if lazy {
            &mut self.lazy
        } else {
            &mut self.urgent
        };
        let records = (0..count).map(|_| map.pop_first().expect("as many as there are"));
        let group = Group {
            ranges,
            records: records.collect(),
            ..Group::default()
        };
        self.bytes -= group.bytes();
        group
    }

    fn take_large(&mut self, mut large: Large, count: usize) -> Group {
        let bytes = count * large.record_size;
        let first = large.first;
        let records = large.contents.drain(..count);
        let records = (0..).zip(records).map(|(n, data)| (first.after(n), data));
        let group = Group {
            ranges: self.take_ranges(),
            records: records.collect(),
            whole: Some(large.data.part(0, bytes)),
            ..Group::default()
        };
        if large.contents.is_empty() {
            return Group {
                done: large.done,
                ..group
            };
        }
        large.first = first.after(count as u128);
        large.data = large.data.part(bytes, large.data.len() - bytes);
        self.large.push_front(large);
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{ChecksumKind, KIND_RECORD, Packing, VOLUME_OBJECT};
    use proptest::prelude::*;

    fn key(record: u64) -> Key {
        Key::new(VOLUME_OBJECT, KIND_RECORD, record)
    }

    fn contents(n: u8) -> Contents {
        let packer = Packer {
            packing: Packing::Off,
            checksum: ChecksumKind::FoldedXxh3,
            has_parts: true,
            sector: 512,
        };
        Contents::copied(vec![n], packer)
    }

    #[derive(Debug, Clone)]
    enum Act {
        Put(u64, u8, bool),
        Zero(u64, u64),
        MakeUrgent,
        Take(usize, bool),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => (0u64..24, any::<u8>(), any::<bool>()).prop_map(|(r, n, u)| Act::Put(r, n, u)),
            2 => (0u64..24, 0u64..9).prop_map(|(s, n)| Act::Zero(s, s + n)),
            1 => Just(Act::MakeUrgent),
            2 => (1usize..6, any::<bool>()).prop_map(|(n, lazy)| Act::Take(n, lazy)),
        ]
    }

    /// Checks that the groups, applied in the order in which they were taken, and the remaining dirty changes on top give the
    /// same contents as the original acts in their order.
    fn agrees(acts: Vec<Act>) {
        let mut dirty = Dirty::default();
        let mut model: BTreeMap<u64, Option<u8>> = BTreeMap::new();
        let mut taken: BTreeMap<u64, Option<u8>> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Put(record, n, urgent) => {
                    dirty.put(key(record), contents(n), urgent);
                    model.insert(record, Some(n));
                }
                Act::Zero(start, end) => {
                    dirty.zero(key(start)..key(end));
                    model.extend((start..end).map(|r| (r, None)));
                }
                Act::MakeUrgent => dirty.make_urgent(),
                Act::Take(bytes, lazy) => {
                    let next = dirty.next(bytes, lazy);
                    assert!(next.len() <= bytes);
                    let group = dirty.take(next.len(), lazy);
                    let left = group.records.iter().map(|(_, data)| data[0]);
                    assert!(left.eq(next.iter().map(|data| data[0])));
                    for record in 0..40 {
                        taken.extend(group.get(key(record)).map(|known| match known {
                            Known::Data(data) => (record, Some(data[0])),
                            Known::Zero => (record, None),
                        }));
                    }
                    assert!(dirty.ranges.is_empty() || group.records.is_empty());
                }
            }
            let held = dirty.urgent.len() + dirty.lazy.len();
            assert_eq!(dirty.bytes(), held);
            for record in 0..40 {
                let got = match dirty.get(key(record)) {
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
        fn groups_and_remaining_records_equal_the_acts(acts in prop::collection::vec(act(), 1..60)) {
            agrees(acts);
        }
    }

    #[test]
    fn urgent_records_leave_first_and_stay_urgent() {
        let mut dirty = Dirty::default();
        let data = contents;
        let take = |dirty: &mut Dirty| -> Vec<(u64, u8)> {
            let group = dirty.take(dirty.next(9, false).len(), false);
            let records = group.records.iter();
            records.map(|(key, data)| (key.offset(), data[0])).collect()
        };
        dirty.put(key(1), data(1), false);
        dirty.put(key(2), data(2), true);
        dirty.put(key(2), data(3), false);
        assert!(dirty.is_urgent());
        assert_eq!(take(&mut dirty), [(2, 3)]);
        assert!(!dirty.is_urgent() && !dirty.is_empty());
        dirty.make_urgent();
        assert_eq!(take(&mut dirty), [(1, 1)]);
        assert!(dirty.is_empty());
    }
}
