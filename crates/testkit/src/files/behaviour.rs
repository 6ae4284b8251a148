//! A behaviour: a test of one promise of `FileBackend`, by name.
//!
//! **Owns** [`Behaviour`] and the macro that lists them. **Called by** the list of all behaviours, and tests. **Invariants**: a
//! behaviour works in a directory of its own, so that many can share a file system.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use backend::file::FileBackend;

use super::bed::Bed;

type Run = fn(Bed) -> Pin<Box<dyn Future<Output = ()>>>;

/// A test of one promise of [`FileBackend`].
#[derive(Clone, Copy)]
pub struct Behaviour {
    name: &'static str,
    run: Run,
}

impl Behaviour {
    pub(super) const fn new(name: &'static str, run: Run) -> Self {
        Self { name, run }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Tests a file system, in a new directory of its root. Panics if it breaks the promise.
    pub async fn check(&self, files: Arc<dyn FileBackend>) {
        eprintln!("behaviour {}", self.name);
        (self.run)(Bed::new(files, self.name).await).await;
    }
}

/// Lists asynchronous functions of a [`Bed`] as behaviours.
macro_rules! behaviours {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$(Behaviour::new(
            concat!(stringify!($module), "::", stringify!($name)),
            |bed| Box::pin($module::$name(bed)),
        )),*]
    };
}
pub(super) use behaviours;
