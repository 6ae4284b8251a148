//! Attributes of a new object.

use super::view::Target;
use backend::file::{FileKind, FileResult, Handle, SetAttributes, Stability};

/// Sets the attributes of a new object that its creation does not set: all of `set` except the mode.
pub(crate) async fn finish_creation(
    target: &Target,
    created: Handle,
    set: SetAttributes,
    kind: FileKind,
) -> FileResult<()> {
    let mut set = SetAttributes { mode: None, ..set };
    if kind != FileKind::File || set.size == Some(0) {
        set.size = None;
    }
    if set == SetAttributes::default() {
        return Ok(());
    }
    let files = target.files();
    let done = files.set_attributes(&target.caller, created, set, Stability::Durable);
    done.await.map(drop)
}
