//! Merge of layers into a tree: writes the new nodes of the changed paths.
//!
//! The merge goes through the old tree in key order, together with the merged deltas. A subtree without deltas is passed by
//! its pointer. A subtree that a deleted range covers is dropped by its pointer. Other nodes are read, and their entries go
//! to the output with the deltas applied. So each changed node is read once, each new node is written once, and memory is one
//! path of old nodes and less than two nodes of entries per level.
//!
//! If a node is lost that changes touch, the caller may give it up. Changed keys get new entries then, deleted keys are absent, and all
//! other keys of the node stay lost: stand-ins for them are written. They lie on level 0, also if the lost node did not.
//!
//! **Owns** the course of a merge. **Called by** checkpoints. **Invariants**: the old tree does not change; a new node is at
//! least a third full unless it is the root or the last of its level, or lies beside lost keys; each block of the old tree that the new tree lacks is
//! reported as freed exactly once, by itself or within a subtree. `docs/format.md`, "Trees".

mod output;

use std::ops::Range;
use std::sync::Arc;

use self::output::{Finish, Output};
use super::deltas::{Deltas, Freed};
use super::layer::{Delta, Layer};
use super::need::{Need, Root, child_end, corrupt};
use crate::Result;
use crate::format::{
    BlockPtr, Defect, Key, LEVEL_MAX, Node, NodeBuilder, NodeSize, Value, ValueRef,
};

pub use self::output::{NewNode, TreeParams};

/// Next step of a merge.
#[derive(Debug)]
pub enum MergeStep {
    /// Call [`Merge::supply`] with this node.
    Need(Need),
    /// Write this node, and call [`Merge::wrote`] with its pointer.
    Write(NewNode),
    /// The merge is complete; has the root of the new tree.
    Done(Root),
}

/// A step of the path through the old tree.
enum Frame {
    /// A node above the leaves. Its children from `next` on remain.
    Branch {
        node: Arc<Node>,
        next: usize,
        end: Key,
    },
    /// Entries from `next` on and points below `end` remain. There is no leaf if a subtree was dropped.
    Entries {
        leaf: Option<Arc<Node>>,
        next: usize,
        end: Key,
    },
    /// Of a node that was given up, the keys `lost` remain, and points below `end`. All points below the lost keys are merged.
    Lost { lost: Range<Key>, end: Key },
}

/// An element that goes to the output after everything before it is written.
enum Passing {
    /// An old subtree with level and first key.
    Subtree(u8, Key, BlockPtr),
    /// A stand-in for these keys.
    Lost(Range<Key>),
}

/// What the merge needs next.
enum State {
    /// Nothing: it can go on.
    Running,
    /// A node of the old tree.
    Reading(Need),
    /// The pointer of a new node of this level and first key.
    Writing(u8, Key),
    /// The new tree is complete.
    Done(Root),
}

/// A merge of layers into a tree.
pub struct Merge<'a> {
    params: TreeParams,
    deltas: Deltas<'a>,
    frames: Vec<Frame>,
    output: Output,
    passing: Option<Passing>,
    state: State,
    freed: Vec<Freed>,
    /// Changes merged since the last call of [`Merge::taken`].
    taken: u64,
}

impl<'a> Merge<'a> {
    /// Begins to merge `layers`, newest first, into the tree at `root`. No snapshot may be between the layers: values of one
    /// layer that another one hides are reported as freed.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if the root is younger than the birth of new nodes.
    pub fn new(params: TreeParams, root: Root, layers: &'a [Arc<Layer>]) -> Result<Self> {
        let mut freed = Vec::new();
        let deltas = Deltas::new(layers, &mut freed);
        let mut frames = Vec::new();
        let state = match root {
            _ if deltas.is_empty() => State::Done(root),
            Some(ptr) if ptr.placed > params.birth => {
                let what = "born after the epoch that is being written";
                return Err(corrupt(&ptr, Defect::OtherNode { what }));
            }
            Some(ptr) => State::Reading(Need::root(ptr)),
            None => {
                frames.push(Frame::gap(Key::END));
                State::Running
            }
        };
        Ok(Self {
            params,
            deltas,
            frames,
            output: Output::new(params),
            passing: None,
            state,
            freed,
            taken: 0,
        })
    }

    /// Whether the merge is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// Limits later nodes to `size` bytes, because there may be no space for larger ones.
    pub fn limit(&mut self, size: NodeSize) {
        self.output.limit(size);
    }

    /// Number of changes merged since the last call.
    pub fn taken(&mut self) -> u64 {
        std::mem::take(&mut self.taken)
    }

    /// Blocks freed since the last call. They are free only if the merge completes; a merge that fails is dropped together
    /// with them. If this is called after each step, it returns at most one block per delta and per entry of a leaf.
    pub fn freed(&mut self) -> std::vec::Drain<'_, Freed> {
        self.freed.drain(..)
    }

    /// Goes on until something is needed, and returns it.
    ///
    /// # Panics
    /// If a node was to be written and [`Merge::wrote`] was not called.
    pub fn step(&mut self) -> MergeStep {
        loop {
            match self.state {
                State::Reading(need) => return MergeStep::Need(need),
                State::Writing(..) => panic!("the node's pointer was not given"),
                State::Done(root) => return MergeStep::Done(root),
                State::Running => {}
            }
            if let Some(write) = self.output.take_full() {
                return self.write(write);
            }
            if let Some(passing) = &self.passing {
                let level = match passing {
                    Passing::Subtree(level, ..) => *level,
                    Passing::Lost(_) => 0,
                };
                if let Some(write) = self.output.take_before(level) {
                    return self.write(write);
                }
            }
            match self.passing.take() {
                Some(Passing::Subtree(level, key, ptr)) => {
                    self.output.push_child(level + 1, key, &ptr);
                }
                Some(Passing::Lost(keys)) => {
                    let bytes = NodeBuilder::stand_in(&keys, self.params.tree, self.params.birth);
                    return self.write((keys.start, NewNode { level: 0, bytes }));
                }
                None => {}
            }
            match self.frames.last() {
                Some(Frame::Branch { .. }) => self.next_child(),
                Some(Frame::Entries { .. }) => self.merge_entries(),
                Some(Frame::Lost { .. }) => self.merge_lost(),
                None => match self.output.finish() {
                    Finish::Write(key, node) => return self.write((key, node)),
                    Finish::Root(root) => self.state = State::Done(root),
                },
            }
        }
    }

    fn write(&mut self, (key, node): (Key, NewNode)) -> MergeStep {
        self.state = State::Writing(node.level, key);
        MergeStep::Write(node)
    }

    /// Supplies the pointer of the node that was written.
    ///
    /// # Panics
    /// If no node was to be written, or if the pointer's birth is not that of the merge.
    pub fn wrote(&mut self, ptr: &BlockPtr) {
        let State::Writing(level, key) = self.state else {
            panic!("nothing was to be written");
        };
        assert_eq!(ptr.birth, self.params.birth);
        self.output.push_child(level + 1, key, ptr);
        self.state = State::Running;
    }

    /// Supplies the needed node.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another node; the merge must be dropped.
    ///
    /// # Panics
    /// If no node is needed.
    pub fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        let State::Reading(need) = self.state else {
            panic!("no node is needed");
        };
        need.check(&node)?;
        if node.level() == LEVEL_MAX {
            // The new root may need a level above it.
            let what = "its level leaves none above it";
            return Err(corrupt(&need.ptr, Defect::OtherNode { what }));
        }
        if let Some(lost) = node.lost() {
            self.cut(&need, lost.clone());
            return Ok(());
        }
        self.freed.push(Freed::Node(need.ptr));
        let (next, end) = (0, need.end());
        self.frames.push(if node.is_leaf() {
            let leaf = Some(node);
            Frame::Entries { leaf, next, end }
        } else {
            Frame::Branch { node, next, end }
        });
        self.state = State::Running;
        Ok(())
    }

    /// Gives up the needed node, of which no copy can be read. Its keys that did not change are lost. The blocks below it are not
    /// reported as freed, because nothing is known of them.
    ///
    /// # Panics
    /// If no node is needed.
    pub fn give_up(&mut self) {
        let State::Reading(need) = self.state else {
            panic!("no node is needed");
        };
        self.cut(&need, need.keys());
    }

    /// Cuts changed keys out of a node with the keys `lost`. Passes it if nothing has changed.
    fn cut(&mut self, need: &Need, lost: Range<Key>) {
        self.state = State::Running;
        let end = need.end();
        let range = self.deltas.range_above(lost.start);
        let is_deleted = range.is_some_and(|r| r.start < end);
        if is_deleted || self.deltas.point_below(end).is_some() {
            self.freed.push(Freed::Node(need.ptr));
            self.frames.push(Frame::Lost { lost, end });
        } else {
            let level = need.level().unwrap_or(0);
            self.passing = Some(Passing::Subtree(level, lost.start, need.ptr));
        }
    }

    /// Passes, drops or requests the next child of the lowest branch.
    fn next_child(&mut self) {
        let Some(Frame::Branch { node, next, end }) = self.frames.last_mut() else {
            unreachable!("asked for a branch");
        };
        if *next == node.count() {
            self.frames.pop();
            return;
        }
        let (index, level) = (*next, node.level() - 1);
        let (key, child_end) = (node.key(index), child_end(node, index, *end));
        *next += 1;
        let range = self.deltas.range_above(key);
        if range.is_some_and(|r| r.start <= key && r.end >= child_end) {
            self.freed.push(Freed::Subtree(node.child(index)));
            self.frames.push(Frame::gap(child_end));
            return;
        }
        let deleted = range.is_some_and(|r| r.start < child_end);
        let touched = deleted || self.deltas.point_below(child_end).is_some();
        if touched || !self.output.may_end_before(level) {
            self.state = State::Reading(Need::child(node, index, *end));
        } else {
            self.passing = Some(Passing::Subtree(level, key, node.child(index)));
        }
    }

    /// Moves entries and points to the output in key order, until a node is full or none remain.
    fn merge_entries(&mut self) {
        let Some(Frame::Entries { leaf, next, end }) = self.frames.last_mut() else {
            unreachable!("asked for entries");
        };
        while !self.output.is_full(0) {
            let entry = leaf.as_ref().filter(|leaf| *next < leaf.count());
            let entry_key = entry.map(|leaf| leaf.key(*next));
            let point = self.deltas.point_below(*end);
            let Some(key) = entry_key.into_iter().chain(point.map(|(k, _)| k)).min() else {
                self.frames.pop();
                return;
            };
            if let Some((_, delta)) = point.filter(|(point_key, _)| *point_key == key) {
                if let Some(leaf) = entry.filter(|_| entry_key == Some(key)) {
                    report_replaced(leaf.value(*next), delta, &mut self.freed);
                    *next += 1;
                }
                put(&mut self.output, self.params, key, delta);
                self.deltas.next_point(&mut self.freed);
                self.taken += 1;
            } else if let Some(leaf) = entry {
                // A run of entries that are all kept or all deleted.
                let until = point.map_or(*end, |(point_key, _)| point_key);
                let (deleted, until) = self.deltas.run(key, until);
                let run = *next..leaf.lower_bound(until);
                *next = run.end;
                if deleted {
                    let blocks = run.filter_map(|i| block(leaf.value(i)));
                    self.freed.extend(blocks.map(Freed::Data));
                } else {
                    self.output.leaves().push_entries(leaf, run);
                }
            }
        }
    }

    /// Moves the next change of a node that was given up to the output, or passes the lost keys before it.
    fn merge_lost(&mut self) {
        let Some(Frame::Lost { lost, end }) = self.frames.last_mut() else {
            unreachable!("asked for lost keys");
        };
        let point = self.deltas.point_below(*end);
        let stop = point.map_or(*end, |(key, _)| key).min(lost.end);
        if lost.start < stop {
            let (deleted, stop) = self.deltas.run(lost.start, stop);
            let part = lost.start..stop;
            lost.start = stop;
            if !deleted {
                self.passing = Some(Passing::Lost(part));
            }
        } else if let Some((key, delta)) = point {
            lost.start = lost.start.max(key.next());
            put(&mut self.output, self.params, key, delta);
            self.deltas.next_point(&mut self.freed);
            self.taken += 1;
        } else {
            self.frames.pop();
        }
    }
}

impl Frame {
    fn gap(end: Key) -> Self {
        Frame::Entries {
            leaf: None,
            next: 0,
            end,
        }
    }
}

/// Moves the new value of a key to the output.
fn put(output: &mut Output, params: TreeParams, key: Key, delta: &Delta) {
    if let Delta::Put(value) = delta {
        let placed = value.block().map(|ptr| ptr.placed);
        assert!(placed <= Some(params.birth), "{key:?} is too young");
        output.leaves().push_value(key, value);
    }
}

fn block(value: ValueRef<'_>) -> Option<BlockPtr> {
    match value {
        ValueRef::Block(ptr, _) => Some(ptr),
        ValueRef::Inline(_) => None,
    }
}

/// Reports the old value as freed, unless the delta puts the same value.
fn report_replaced(old: ValueRef<'_>, delta: &Delta, freed: &mut Vec<Freed>) {
    let new = delta.value().and_then(Value::block);
    let old = block(old);
    freed.extend(old.filter(|ptr| new != Some(ptr)).map(Freed::Data));
}
