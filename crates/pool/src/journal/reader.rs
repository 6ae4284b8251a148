//! Read-ahead of the journal's ring: large reads of all candidates and vdevs at once.
//!
//! **Owns** the parts of the ring in memory. **Called by** replay, which goes through the ring once, from its start to its
//! end. **Invariants**: memory is at most [`WINDOW`] and one more round of reads, for any segment size; a part that cannot be
//! read as a whole is read again in smaller reads. `docs/format.md`, "Journal".

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::{Position, Ring, Store};
use crate::format::Batch;

/// Length of one read, bytes.
const CHUNK: u32 = 1 << 20;
/// Most bytes that are read at once, on all candidates together.
const WINDOW: usize = 32 << 20;

/// A part of a segment: number of the segment, and number of the chunk in it.
type Part = (u64, u32);

/// The ring as the candidates have it.
pub(super) struct RingReader<'a, S> {
    store: &'a S,
    ring: &'a Ring,
    /// The segment where replay starts: the ring ends before it.
    tail: u64,
    /// Each candidate's bytes of a part; `None` where they could not be read.
    parts: BTreeMap<Part, Vec<Option<Vec<u8>>>>,
}

impl<'a, S: Store> RingReader<'a, S> {
    pub(super) fn new(store: &'a S, ring: &'a Ring, tail: u64) -> Self {
        Self {
            store,
            ring,
            tail,
            parts: BTreeMap::new(),
        }
    }

    /// Number of reads in one round: the next segment of each vdev, within the window.
    fn round(&self) -> usize {
        let mut vdevs: Vec<_> = self.ring.segments.iter().map(|at| at.vdev).collect();
        vdevs.sort_unstable();
        vdevs.dedup();
        let chunks = self.ring.segment_size.div_ceil(CHUNK) as usize;
        let most = WINDOW / CHUNK as usize / self.store.candidates().max(1);
        vdevs.len().saturating_mul(chunks).clamp(1, most.max(1))
    }

    /// The part that follows; `None` at the end of the ring.
    fn after(&self, (segment, chunk): Part) -> Option<Part> {
        let next = chunk + 1;
        if u64::from(next) * u64::from(CHUNK) < u64::from(self.ring.segment_size) {
            return Some((segment, next));
        }
        let next = Position {
            segment: segment + 1,
            offset: 0,
        };
        self.ring
            .is_free(next, self.tail)
            .then_some((next.segment, 0))
    }

    /// Reads a part and the following ones from all candidates, and drops the parts before it.
    async fn load(&mut self, first: Part) {
        self.parts = self.parts.split_off(&first);
        let behind = std::iter::successors(Some(first), |part| self.after(*part));
        let wanted: Vec<Part> = behind
            .take(self.round())
            .filter(|part| !self.parts.contains_key(part))
            .collect();
        let candidates = self.store.candidates();
        let reads = wanted
            .iter()
            .flat_map(|part| (0..candidates).map(|candidate| self.read_part(candidate, *part)));
        let mut read = join_all(reads).await.into_iter();
        for part in wanted {
            self.parts
                .insert(part, read.by_ref().take(candidates).collect());
        }
    }

    async fn read_part(&self, candidate: usize, (segment, chunk): Part) -> Option<Vec<u8>> {
        let offset = chunk * CHUNK;
        let at = self.ring.address(Position { segment, offset });
        let mut bytes = vec![0; (self.ring.segment_size - offset).min(CHUNK) as usize];
        let read = self.store.read(candidate, at, &mut bytes).await;
        read.is_ok().then_some(bytes)
    }

    /// Whole sectors of a segment from one candidate; `None` if they cannot be read.
    pub(super) async fn read(
        &mut self,
        candidate: usize,
        at: Position,
        size: usize,
    ) -> Option<Cow<'_, [u8]>> {
        let end = at.offset + size as u32;
        let chunks = at.offset / CHUNK..end.div_ceil(CHUNK);
        for chunk in chunks.clone() {
            if !self.parts.contains_key(&(at.segment, chunk)) {
                self.load((at.segment, chunks.start)).await;
            }
        }
        let part = |chunk: u32| {
            let part = self.parts.get(&(at.segment, chunk))?;
            let start = at.offset.max(chunk * CHUNK) - chunk * CHUNK;
            let end = (end - chunk * CHUNK).min(CHUNK);
            part.get(candidate)?
                .as_ref()?
                .get(start as usize..end as usize)
        };
        if chunks.len() == 1
            && let Some(bytes) = part(chunks.start)
        {
            return Some(Cow::Borrowed(bytes));
        }
        let parts: Option<Vec<&[u8]>> = chunks.map(part).collect();
        if let Some(parts) = parts {
            return Some(Cow::Owned(parts.concat()));
        }
        // Smaller reads may succeed.
        let mut bytes = vec![0; size];
        let read = self
            .store
            .read(candidate, self.ring.address(at), &mut bytes);
        read.await.ok()?;
        Some(Cow::Owned(bytes))
    }

    /// The intact batch of this pool at a place on one candidate; `None` if there is none.
    pub(super) async fn batch(&mut self, candidate: usize, at: Position) -> Option<Batch> {
        let (ring, sector) = (self.ring, self.ring.sector as usize);
        let first = self.read(candidate, at, sector).await?;
        let size = Batch::size_hint(&first, sector)?;
        drop(first);
        if size > ring.room(at) {
            return None;
        }
        let bytes = self.read(candidate, at, size).await?;
        Batch::decode(&bytes, ring.address(at), ring.pool, sector).ok()
    }
}
