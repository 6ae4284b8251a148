//! Messages in their receives.
//!
//! **Owns** the slot of a message. **Called by** queue pairs, and by users of messages. **Invariants**: a slot of a shared queue is posted again when
//! its message is dropped, on any thread; one of a queue pair is posted again by the queue pair.

use super::device::Area;
use super::shared::SharedReceives;
use std::ops::Deref;
use std::sync::Arc;

/// The bytes of a message in its receive.
pub(crate) struct ReceiveSlot {
    area: Arc<Area>,
    index: usize,
    len: usize,
    /// The shared queue to which the slot returns when it is dropped.
    shared: Option<Arc<SharedReceives>>,
}

impl ReceiveSlot {
    /// A message of `len` bytes, which the device has put into slot `index`.
    pub(super) fn new(area: Arc<Area>, index: usize, len: usize) -> ReceiveSlot {
        assert!(len <= area.slot_len(), "a message fits its receive");
        ReceiveSlot {
            area,
            index,
            len,
            shared: None,
        }
    }

    /// A message of `len` bytes in slot `index` of a shared queue.
    pub(super) fn of_shared(shared: &Arc<SharedReceives>, index: usize, len: usize) -> ReceiveSlot {
        let mut slot = ReceiveSlot::new(shared.area().clone(), index, len);
        slot.shared = Some(shared.clone());
        slot
    }

    /// Whether it is of a shared queue.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The slot's number.
    pub(super) fn index(&self) -> usize {
        self.index
    }
}

impl Drop for ReceiveSlot {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.post(self.index);
        }
    }
}

impl Deref for ReceiveSlot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let at = self.area.slot(self.index);
        // SAFETY: the device has completed this receive, and gets the slot again only after this message was dropped.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), self.len) }
    }
}
