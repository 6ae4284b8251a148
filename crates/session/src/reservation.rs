//! Persistent reservations of one namespace or logical unit, and the store that keeps them across restarts.
//!
//! **Owns** the current reservations and the order of their changes. **Called by** reservation commands, and by the data
//! path, which only reads. **Invariants**: a change to reservations that persist is saved before it takes effect; changes
//! take effect in the order in which they are saved; a change that cannot be saved has no effect. NVMe Base 2.0 8.19 (persist
//! through power loss), SPC-4 5.13.5 (APTPL).

use io::sync::lock;
use std::sync::{Arc, Mutex, MutexGuard};

/// Stores the reservations of one namespace or logical unit across restarts. Both calls may block; they run off the data
/// path.
pub trait ReservationStore: Send + Sync {
    /// Returns the bytes saved last; `None` if nothing was ever saved.
    fn load(&self) -> Option<Vec<u8>>;

    /// Makes `bytes` (a few KiB) durable before it returns. Errors: the medium's; the bytes may have been written in part.
    fn save(&self, bytes: &[u8]) -> std::io::Result<()>;

    /// The place of the bytes, for people.
    fn place(&self) -> String {
        "memory".to_owned()
    }
}

/// A store that keeps nothing: reservations end with the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoReservationStore;

impl ReservationStore for NoReservationStore {
    fn load(&self) -> Option<Vec<u8>> {
        None
    }

    fn save(&self, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reservations as a protocol defines them, with a stored form.
pub trait Stored: Clone + Default {
    /// Whether the reservations outlive a restart.
    fn persists(&self) -> bool;

    /// Encodes the reservations; without registrants if they do not persist.
    fn to_bytes(&self) -> Vec<u8>;

    /// Decodes the stored form. `None` if it is damaged.
    fn parse(bytes: &[u8]) -> Option<Self>;
}

/// The reservations of one namespace or logical unit, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserved {
    /// The type of the reservation that is held, in the words of the specification; `None` if none is.
    pub kind: Option<&'static str>,
    /// Whether the reservations outlive a restart.
    pub persists: bool,
    /// The registered clients, and the one that holds a reservation without registration (SPC-2 RESERVE).
    pub registrants: Vec<RegisteredClient>,
}

/// A client with a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredClient {
    /// Its identifier: of an NVMe host, or name and ISID of an iSCSI initiator.
    pub client: String,
    /// Its key; 0 if it is not registered.
    pub key: u64,
    /// Whether it holds the reservation.
    pub is_holder: bool,
}

/// The stored reservations cannot be read, with their place and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged(pub String);

/// Why a change was not made.
#[derive(Debug)]
pub enum NotChanged<E> {
    /// The reservations do not allow the change.
    Refused(E),
    /// The change could not be saved.
    Unsaved(std::io::Error),
}

/// Reservations and their store.
pub struct SavedReservations<R> {
    current: Mutex<R>,
    store: Arc<dyn ReservationStore>,
    /// Held while a change is made and saved. It orders the changes.
    changing: Mutex<()>,
}

fn damaged(store: &dyn ReservationStore) -> Damaged {
    Damaged(format!(
        "{}: restore it from a backup, or delete it, which ends all reservations of this export: its hosts must register again",
        store.place()
    ))
}

impl<R: Stored> SavedReservations<R> {
    /// Loads the reservations from `store`. Blocks. Fails if they are damaged.
    pub fn load(store: Arc<dyn ReservationStore>) -> Result<SavedReservations<R>, Damaged> {
        let current = match store.load() {
            None => R::default(),
            Some(bytes) => R::parse(&bytes).ok_or_else(|| damaged(&*store))?,
        };
        Ok(SavedReservations {
            current: Mutex::new(current),
            store,
            changing: Mutex::new(()),
        })
    }

    /// Locks the current reservations.
    pub fn current(&self) -> MutexGuard<'_, R> {
        lock(&self.current)
    }

    /// Applies a change that need not be saved. `committed` sees the result before any other reader. Returns `None`, and
    /// changes nothing, if the change must be saved or another one is being saved: then call [`SavedReservations::change`].
    pub fn change_unsaved<T, E>(
        &self,
        change: &impl Fn(&mut R) -> Result<T, E>,
        committed: impl FnOnce(&R),
    ) -> Option<Result<T, E>> {
        let _turn = self.changing.try_lock().ok()?;
        let mut next = self.current().clone();
        let before = next.persists();
        let result = change(&mut next);
        if result.is_ok() {
            if before || next.persists() {
                return None;
            }
            self.commit(next, committed);
        }
        Some(result)
    }

    /// Applies a change, and saves it first if it persists. `committed` sees the result before any other reader. Blocks.
    /// Fails if the reservations refuse the change or it cannot be saved.
    pub fn change<T, E>(
        &self,
        change: &impl Fn(&mut R) -> Result<T, E>,
        committed: impl FnOnce(&R),
    ) -> Result<T, NotChanged<E>> {
        let _turn = lock(&self.changing);
        let current = self.current().clone();
        let mut next = current.clone();
        let result = change(&mut next).map_err(NotChanged::Refused)?;
        if current.persists() || next.persists() {
            self.store.save(&next.to_bytes()).map_err(|e| {
                // The medium may have part of the new state: restore the state in force, which a restart must find.
                if let Err(again) = self.store.save(&current.to_bytes()) {
                    tracing::error!(error = %again, "stored reservations may be damaged: neither the change nor the state before it could be saved");
                }
                NotChanged::Unsaved(e)
            })?;
        }
        self.commit(next, committed);
        Ok(result)
    }

    fn commit(&self, next: R, committed: impl FnOnce(&R)) {
        let mut current = self.current();
        *current = next;
        committed(&current);
    }
}
