//! The sectors that copies of blocks take.
//!
//! **Owns** their marks. **Called by** verification. **Invariant**: a used sector of a removed vdev without a copy is reported, and so is a
//! copy that shares sectors with anything else. `docs/format.md`, "Removed vdevs".

use super::found::{Finding, FindingKind};
use super::inspected::Progress;
use super::owners::Verifier;
use super::space::Sectors;
use crate::format::{Address, REGION_SECTORS, VdevOffset};

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
