//! Sweeps over all blocks: verification, scrub, resilver, and the search for damage.

pub(super) mod blocks;
pub(super) mod damage;
pub(super) mod doubtful_rows;
pub(super) mod mend;
pub(super) mod position;
pub(super) mod resilver_window;
pub(super) mod scrub;
pub(super) mod scrub_rows;
pub(super) mod verify;
