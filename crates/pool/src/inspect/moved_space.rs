//! The sectors that relocated blocks and copies of blocks take.
//!
//! **Owns** the marks of copies. **Called by** verification. **Invariants**: each relocation is of a block that an owner has, with the block's
//! length; a used sector of a removed vdev without a copy is reported, and so is a
//! copy that shares sectors with anything else. `docs/format.md`, "Removed vdevs", "Relocated blocks".

use super::found::{Finding, FindingKind};
use super::inspected::Progress;
use super::owners::Verifier;
use super::space::Sectors;
use crate::format::{Address, BlockPtr, REGION_SECTORS, VdevOffset};

impl<P: FnMut(Progress)> Verifier<'_, P> {
    /// Marks the sectors of copies whose blocks the bitmaps have as used, and reports copies that share sectors with anything else, and
    /// used sectors of removed vdevs without a copy. Returns the marks.
    pub(super) fn copies(&mut self) -> Sectors {
        let image = self.image.clone();
        let mut marked = Sectors::default();
        for (at, bytes) in self.contents.saved.without(&image, &[]) {
            let parts = image.copies.borrow().within(at, bytes);
            let copied: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
            if image.is_removed(at.vdev) && copied < bytes {
                let text = format!(
                    "{} bytes of a removed vdev are used and have no copy",
                    bytes - copied
                );
                self.add(Finding::new(FindingKind::Space, text).at(at));
            }
            for (to, bytes) in parts {
                self.mark_copy(&mut marked, to, bytes);
            }
        }
        marked
    }

    fn mark_copy(&mut self, marked: &mut Sectors, mut at: Address, mut bytes: u64) {
        let image = self.image.clone();
        let sector = u64::from(image.vdevs[usize::from(at.vdev.0)].entry.sector());
        let region = sector * u64::from(REGION_SECTORS);
        while bytes > 0 {
            let part = bytes.min(region - at.offset.0 % region);
            let is_fresh = marked.mark(&image, at, part);
            if !is_fresh || self.met.has_any(&image, at, part) {
                let text = format!("{part} bytes of a copy, some of which have another owner");
                self.add(Finding::new(FindingKind::DoubleUse, text).at(at));
            }
            at = Address {
                offset: VdevOffset(at.offset.0 + part),
                ..at
            };
            bytes -= part;
        }
    }
}

impl<P: FnMut(Progress)> Verifier<'_, P> {
    /// Notes a block that an owner has. Returns its address before copies of removals.
    pub(super) fn meet(&mut self, ptr: &BlockPtr, space: u64) -> Address {
        let Some(one) = self.image.relocations.borrow().of(ptr) else {
            return ptr.address();
        };
        self.relocated.meet(ptr);
        let length = u64::from(one.bytes);
        if length != space {
            let text = format!("{space} bytes; its relocation has {length}");
            self.add(Finding::new(FindingKind::Space, text).at(one.to));
        }
        one.to
    }

    /// Reports relocations of blocks that nobody has, unless some blocks are not known.
    pub(super) fn check_relocations(&mut self) {
        if self.unread > 0 || !self.contents.whole {
            return;
        }
        let image = self.image.clone();
        let relocations = image.relocations.borrow();
        let met = std::mem::take(&mut self.relocated);
        for one in relocations.beside(&met) {
            let (epoch, of) = (one.of.placed.0, one.of.at);
            let text =
                format!("the relocation of a block of epoch {epoch} at {of}, which nobody has");
            self.add(Finding::new(FindingKind::Space, text).at(one.to));
        }
    }
}
