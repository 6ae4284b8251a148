//! Record sizes of new files, which change amid the run.
//!
//! **Owns** [`RecordSizes`], the values of `recordsize` that the filesystem may have, and the files that are made under each.
//! **Called by** scenario `files`. **Invariants** that it checks: a file has the record size that was set last before its creation,
//! for ever; after a restart the property has the value that was durable last, or the one of a change in flight.

use super::data::{Data, refused};
use super::plan::FILESYSTEM;
use crate::model::Violation;
use backend::file::{
    Caller, FileBackend, FileError, Handle, IfExists, Name, NewFile, NewKind, RemoveKind, Stability,
};
use io::rng::Prng;
use io::time::sleep;
use pool::Pool;
use pool::filesystem::{FileSystem, Store};
use pool::format::filesystem::record_size_of;
use pool::format::{DatasetProperty, ObjectId, Setting};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Names of the files that are made.
const NAMES: [&str; 3] = ["sized0", "sized1", "sized2"];
/// Longest pause between two changes, microseconds.
const PAUSE: u64 = 4000;

fn failed(what: &str, e: &dyn std::fmt::Display) -> Violation {
    Violation(format!("{what}: {e}"))
}

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a good name")
}

/// See the module header.
#[derive(Clone, Default)]
pub(super) struct RecordSizes {
    /// The value that is durable; `None` before the first start.
    known: Rc<Cell<Option<u32>>>,
    /// The value of a change in flight.
    pending: Rc<Cell<Option<u32>>>,
}

impl RecordSizes {
    /// Judges the value after a start.
    pub(super) fn judge(&self, found: u32) -> Result<(), Violation> {
        let known = self.known.replace(Some(found));
        let pending = self.pending.take();
        match known.is_none_or(|known| known == found) || pending == Some(found) {
            true => Ok(()),
            false => Err(Violation(format!(
                "the record size is {found}, not {known:?} or {pending:?}"
            ))),
        }
    }

    /// Changes the record size, and changes the contents of files that are made under it.
    pub(super) async fn churn(
        self,
        pool: Rc<Pool>,
        mut data: Data,
        seed: u64,
    ) -> Result<(), Violation> {
        let mut rng = Prng::new(seed);
        for _ in 0..rng.below(6) {
            sleep(Duration::from_micros(rng.below(PAUSE))).await;
            let size = 4096 << rng.below(5);
            let setting = Setting {
                value: size.into(),
                is_received: false,
            };
            self.pending.set(Some(size));
            let property = DatasetProperty::Recordsize;
            match pool
                .set_own(Some(FILESYSTEM), property, Some(setting))
                .await
            {
                Ok(()) => self.known.set(Some(size)),
                // a full pool refuses it
                Err(pool::Error::NoSpace) => {}
                Err(e) => return Err(failed("setting the record size", &e)),
            }
            self.pending.set(None);
            let at = NAMES[rng.below(NAMES.len() as u64) as usize];
            let Some(made) = make(&data.files, at, &mut rng).await? else {
                continue;
            };
            let base = data.files.store().settings().base_record_size;
            let has = record_size_of(ObjectId(made.object), base);
            if self.known.get() != Some(has) {
                let known = self.known.get();
                return Err(Violation(format!(
                    "a new file has records of {has} bytes, not {known:?}"
                )));
            }
            data.handles = vec![made];
            for _ in 0..rng.below(12) {
                if let Some(Some(violation)) = refused(data.step().await)? {
                    return Err(violation);
                }
            }
        }
        Ok(())
    }
}

/// The files of earlier changes that are there.
pub(super) async fn made(files: &FileSystem<impl Store>) -> Result<Vec<Handle>, Violation> {
    let mut found = Vec::new();
    for at in NAMES {
        match files.lookup(&Caller::root(), files.root(), &name(at)).await {
            Ok(object) => found.push(object.handle),
            Err(FileError::NotFound) => {}
            Err(e) => return Err(failed("looking a name up", &e)),
        }
    }
    Ok(found)
}

/// Makes a file in place of the one of this name. `None` if it is refused.
async fn make(
    files: &FileSystem<impl Store>,
    at: &str,
    rng: &mut Prng,
) -> Result<Option<Handle>, Violation> {
    let (caller, root) = (Caller::root(), files.root());
    let stability = match rng.chance(0.2) {
        true => Stability::Durable,
        false => Stability::Cached,
    };
    let any = RemoveKind::Any;
    let _may_be_missing = refused(
        files
            .remove(&caller, root, &name(at), any, Stability::Cached)
            .await,
    )?;
    let new = NewFile {
        kind: NewKind::File,
        mode: 0o644,
        umask: None,
        acl: None,
    };
    let made = files.create(&caller, root, &name(at), new, IfExists::Fail, stability);
    let made = refused(made.await)?;
    Ok(made.map(|made| made.value.object.handle))
}
