//! Room in the ring: for an append, beside the appends that are reserved.
//!
//! **Owns** the reserve, and the question whether an append has room. **Called by** the owner before it takes a group, and by the writer.
//! **Invariant**: an append of at most the reserve's bytes has room if it is taken out of the reserve, since an append never takes more of
//! the ring than a batch of its own. `docs/decisions/0171`.

use super::Writer;

/// Part of the ring that the reserve takes at most.
const RESERVE_PART: u64 = 4;

/// Appends for which the ring has room until they are made: the next checkpoint, which frees the ring, waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserve {
    /// Number of appends. Each may have a batch of its own.
    pub appends: usize,
    /// Most bytes of the records of one append.
    pub bytes: usize,
}

impl Reserve {
    /// Both reserves as one.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            appends: self.appends + other.appends,
            bytes: self.bytes.max(other.bytes),
        }
    }

    /// The reserve without some of its appends.
    #[must_use]
    pub fn without(self, appends: usize) -> Self {
        Self {
            appends: self.appends.saturating_sub(appends),
            ..self
        }
    }
}

impl Writer {
    /// Whether `bytes` bytes of records join the open batch. They do not move it to another segment: an append never takes more of the
    /// ring than a batch of its own would.
    pub(super) fn joins(&self, bytes: usize) -> bool {
        let open = self.open.encoded.len();
        let (alone, together) = (self.padded(open), self.padded(open + bytes));
        let room = self.ring.room(self.head.position);
        let stays = self.open.count == 0 || together <= room || alone > room;
        stays && together <= self.ring.batch_max()
    }

    /// Whether the ring has room for one append of up to `bytes` bytes of records, beside the reserve. An append that the caller takes
    /// out of the reserve by [`Writer::set_reserve`] has room.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.has_room_beside(self.reserve, bytes)
    }

    fn has_room_beside(&self, reserve: Reserve, bytes: usize) -> bool {
        let (head, open) = (self.head.position, self.open.encoded.len());
        let end = match self.joins(bytes) {
            true => self.ring.behind(head, 1, self.padded(open + bytes)),
            false => {
                let open = self.ring.behind(head, 1, self.padded(open));
                self.ring.behind(open, 1, self.padded(bytes))
            }
        };
        let size = self.padded(reserve.bytes);
        let end = self.ring.behind(end, reserve.appends, size);
        !self.is_held && self.ring.is_free(end, self.tail.position.segment)
    }

    /// The appends that the ring has room for beside other records.
    #[must_use]
    pub fn reserve(&self) -> Reserve {
        self.reserve
    }

    /// Sets the appends that the ring keeps room for. The caller reserves more only if [`Writer::may_reserve`].
    pub fn set_reserve(&mut self, reserve: Reserve) {
        self.reserve = reserve;
    }

    /// Whether the ring has room for an append of up to `bytes` bytes of records, and for `reserve` in place of the present reserve, which
    /// takes at most a quarter of the ring.
    #[must_use]
    pub fn may_reserve(&self, reserve: Reserve, bytes: usize) -> bool {
        let taken = (reserve.appends * self.padded(reserve.bytes)) as u64;
        taken <= self.capacity() / RESERVE_PART && self.has_room_beside(reserve, bytes)
    }
}
