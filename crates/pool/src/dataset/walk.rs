//! Walks over what exists: values, records and blocks in a range of keys.
//!
//! **Owns** the scan of the staged transactions, the layers and the tree, and the walk over records and blocks, dirty ones too.
//! **Called by** filesystems and volumes. **Invariants**: each step sees one state of the dataset, and a scan of many values may see
//! changes between two steps; a walk costs as much as the records that exist, not as much as the range.

use std::ops::Range;
use std::sync::Arc;

use super::{Location, OpenDataset, State};
use crate::block_reads::Caching;
use crate::dirty::Dirty;
use crate::format::{Key, Value};
use crate::tree::{Direction, Layer, Root, Scan, ScanStep};
use crate::{Error, Result};
use io::sync::lock;

/// Changes of a layer that one step of a scan copies at most.
const COPIED_MAX: usize = 256;

/// The layers and the tree of a dataset at one moment, for a range of keys.
struct View {
    layers: Vec<Arc<Layer>>,
    root: Root,
    /// The first key that the view does not have.
    end: Key,
}

/// Keys that one step of a walk looks at.
const WALK_STEP: usize = 256;

/// Records or blocks that exist, and the first key behind the visited ones.
pub(crate) struct Walked {
    /// In order, without holes.
    pub(crate) found: Vec<(Key, Location)>,
    /// Where the next step begins; the end of the range if nothing is left.
    pub(crate) next: Key,
}

/// Keys below `keys.end` with contents in memory, of dirty records, of groups in flight and of records that only the journal has: the first [`WALK_STEP`] of each.
/// Returns also the first key that may be missing.
fn keys_in_memory(state: &State, keys: &Range<Key>) -> (Vec<Key>, Key) {
    let (mut all, mut end) = (Vec::new(), keys.end);
    let mut add = |found: Vec<Key>| {
        if let (WALK_STEP, Some(last)) = (found.len(), found.last()) {
            end = end.min(last.next());
        }
        all.extend(found);
    };
    let dirty = std::iter::once(&state.dirty).chain(&state.pending_snapshot);
    dirty
        .flat_map(|dirty: &Dirty| dirty.records_in(keys.clone(), WALK_STEP))
        .for_each(&mut add);
    for group in state.in_flight.iter() {
        let records = &group.records;
        let first = records.partition_point(|(key, _)| *key < keys.start);
        let found = records[first..].iter().map(|(key, _)| *key);
        let found = found.take_while(|key| *key < keys.end);
        add(found.take(WALK_STEP).collect());
    }
    add(state.journaled.keys_in(keys.clone(), WALK_STEP));
    (all, end)
}

impl OpenDataset {
    fn view(&self, keys: &Range<Key>) -> View {
        let state = lock(&self.state);
        let (staged, staged_end) = state.staged.layer().part(keys, COPIED_MAX);
        let (top, top_end) = state.layers.top().part(keys, COPIED_MAX);
        let frozen = state.layers.frozen().map(|f| f.layer.clone());
        View {
            layers: [staged.freeze(), top.freeze()]
                .into_iter()
                .chain(frozen)
                .collect(),
            root: state.layers.root(),
            end: staged_end.min(top_end),
        }
    }

    /// The newest values of the first `max` keys in a range that have one which `takes` accepts.
    pub(crate) async fn values(
        &self,
        keys: Range<Key>,
        max: usize,
        takes: impl Fn(Key, &Value) -> bool,
    ) -> Result<Vec<(Key, Value)>> {
        let _reader = self.shared.readers.enter();
        let mut found = Vec::new();
        let mut rest = keys;
        while !rest.is_empty() && found.len() < max {
            let view = self.view(&rest);
            let layers: Vec<&Layer> = view.layers.iter().map(AsRef::as_ref).collect();
            let mut scan = Scan::new(view.root, rest.start..view.end, Direction::Forward);
            while found.len() < max {
                match scan.step(&layers) {
                    ScanStep::Need(need) => {
                        scan.supply(self.shared.node(self.id, &need).await?)?;
                    }
                    ScanStep::Entry(key, value) if takes(key, &value) => found.push((key, value)),
                    ScanStep::Entry(..) => {}
                    ScanStep::Done => break,
                }
            }
            rest.start = view.end;
        }
        Ok(found)
    }

    /// The values of the first `max` keys in a range, and the parts of the range whose nodes cannot be read. Of these parts only
    /// newer changes are found.
    ///
    /// # Errors
    /// Other errors than unreadable nodes.
    pub(crate) async fn values_around(
        &self,
        keys: Range<Key>,
        max: usize,
    ) -> Result<(Vec<(Key, Value)>, Vec<Range<Key>>)> {
        let _reader = self.shared.readers.enter();
        let (mut found, mut lost) = (Vec::new(), Vec::new());
        let mut rest = keys;
        while !rest.is_empty() && found.len() < max {
            let view = self.view(&rest);
            let layers: Vec<&Layer> = view.layers.iter().map(AsRef::as_ref).collect();
            let mut parts = vec![(view.root, rest.start..view.end)];
            while let Some((root, part)) = parts.pop() {
                let mut scan = Scan::new(root, part, Direction::Forward);
                while found.len() < max {
                    match scan.step(&layers) {
                        ScanStep::Need(need) => {
                            let node = self.shared.node(self.id, &need).await;
                            match node.and_then(|node| scan.supply(node)) {
                                Ok(()) => {}
                                Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => {
                                    let left = scan.rest();
                                    let end = need.keys().end.min(left.end);
                                    lost.push(left.start..end);
                                    parts.push((view.root, end..left.end));
                                    parts.push((None, left.start..end));
                                    break;
                                }
                                Err(e) => return Err(e),
                            }
                        }
                        ScanStep::Entry(key, value) => found.push((key, value)),
                        ScanStep::Done => break,
                    }
                }
            }
            rest.start = view.end;
        }
        Ok((found, lost))
    }

    /// One step of a walk over the existing records, or blocks, of one object. One scan limits the step. The caller is a
    /// registered reader.
    pub(crate) async fn walk(&self, keys: Range<Key>) -> Result<Walked> {
        // first memory: records move from there to the tree, and never back
        let (mut all, mut next) = keys_in_memory(&lock(&self.state), &keys);
        let stored = self.values(keys.clone(), WALK_STEP, |_, _| true).await?;
        if let (WALK_STEP, Some((last, _))) = (stored.len(), stored.last()) {
            next = next.min(last.next());
        }
        all.extend(stored.iter().map(|(key, _)| *key));
        all.sort_unstable();
        all.dedup();
        all.retain(|key| *key < next);
        let mut found = Vec::with_capacity(all.len());
        let mut rest = &all[..];
        while let Some(first) = rest.first() {
            let is_next = |(n, key): &(usize, &Key)| **key == first.after(*n as u128);
            let together = rest.iter().enumerate().take_while(is_next).count();
            let run = *first..first.after(together as u128);
            let locations = self.locate(run, Caching::NONE).await?;
            let run = rest[..together].iter().copied().zip(locations);
            // newer changes may hide stored contents
            found.extend(run.filter(|(_, location)| !location.is_zero()));
            rest = &rest[together..];
        }
        Ok(Walked { found, next })
    }
}
