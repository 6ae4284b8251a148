//! Attributes of a new object.

use super::view::Target;
use crate::shared::Shared;
use backend::file::{Change, FileKind, FileResult, Handle, SetAttributes, Stability};
use std::sync::Arc;

/// Sets the attributes of a new object that its creation does not set: all of `set` except the mode. A delegation that another
/// client got meanwhile is waited for. `client` created the object, or a user that is none. Returns the change, if there was one.
pub(crate) async fn finish_creation(
    (shared, client): (&Arc<Shared>, Option<u64>),
    target: &Target,
    created: Handle,
    set: SetAttributes,
    kind: FileKind,
) -> FileResult<Option<Change>> {
    let mut set = SetAttributes { mode: None, ..set };
    if kind != FileKind::File || set.size == Some(0) {
        set.size = None;
    }
    if set == SetAttributes::default() {
        return Ok(None);
    }
    let _changing = shared.change_soon(created, client).await;
    let files = target.files();
    let done = files.set_attributes(&target.caller, created, set, Stability::Durable);
    done.await.map(|done| Some(done.value))
}
