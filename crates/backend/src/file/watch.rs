//! Change notification: events of the entries of a directory.
//!
//! **Owns** [`Watch`], a bounded receiver of events, and [`Hub`], the list of a file system's watches. **Called by** protocols
//! (`CB_NOTIFY`, `CHANGE_NOTIFY`, FUSE notifications), and by file systems, which send events while they apply a change, so
//! that the events of a directory have the order of its changes. **Invariants**: a watch holds at most
//! [`WATCH_EVENTS_MAX`] events and one more that says that events were lost; a hub has at most [`WATCHES_MAX`] watches.

use io::sync::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use io::sync::Bell;

use super::{FileError, FileResult, Handle, Name};
use crate::StorageError;

/// Most events that wait in one watch.
pub const WATCH_EVENTS_MAX: usize = 256;
/// Most watches of one file system.
pub const WATCHES_MAX: usize = 8192;

/// A change of an entry of the watched directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The name is new: created, linked, or renamed from another directory.
    Added {
        /// The name.
        name: Name,
        /// The object.
        object: Handle,
    },
    /// The name is gone: removed, replaced, or renamed to another directory.
    Removed {
        /// The name.
        name: Name,
        /// The object.
        object: Handle,
    },
    /// The object has another name in this directory. A replaced object was `Removed` before; an exchange is two of these.
    Renamed {
        /// The name before.
        old: Name,
        /// The name now.
        new: Name,
        /// The object.
        object: Handle,
    },
    /// The contents or the size of an entry's object changed.
    Contents {
        /// A name of the object in this directory.
        name: Name,
        /// The object.
        object: Handle,
    },
    /// Attributes, extended attributes or the access control list of an entry's object changed.
    Attributes {
        /// A name of the object in this directory.
        name: Name,
        /// The object.
        object: Handle,
    },
    /// Events were lost here, because the watch was full: list the directory again.
    Overflow,
}

#[derive(Default)]
struct Noticed {
    events: VecDeque<Event>,
    has_ended: bool,
}

#[derive(Default)]
struct Queue {
    state: Mutex<Noticed>,
    bell: Bell,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Noticed> {
        lock(&self.state)
    }

    /// Appends an event. An event that equals the last one is dropped.
    fn push(&self, event: Event) {
        let mut state = self.lock();
        if state.events.back() == Some(&event) {
            return;
        }
        let is_full = state.events.len() >= WATCH_EVENTS_MAX;
        let event = if is_full { Event::Overflow } else { event };
        if state.events.back() == Some(&Event::Overflow) && is_full {
            return;
        }
        state.events.push_back(event);
        drop(state);
        self.bell.ring();
    }

    fn end(&self) {
        self.lock().has_ended = true;
        self.bell.ring();
    }
}

/// Receives the events of one directory, for one task. Dropping it ends the watch.
pub struct Watch {
    queue: Arc<Queue>,
    directory: u64,
    hub: Hub,
}

impl Watch {
    /// Waits for the next event; `None` once the directory is gone and all events were taken.
    pub async fn next(&self) -> Option<Event> {
        loop {
            {
                let mut state = self.queue.lock();
                if let Some(event) = state.events.pop_front() {
                    return Some(event);
                }
                if state.has_ended {
                    return None;
                }
            }
            self.queue.bell.rung().await;
        }
    }

    /// The next event, if one waits.
    #[must_use]
    pub fn try_next(&self) -> Option<Event> {
        self.queue.lock().events.pop_front()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.remove(self.directory, &self.queue);
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({})", self.directory)
    }
}

#[derive(Default)]
struct Watches {
    by_directory: Mutex<BTreeMap<u64, Vec<Arc<Queue>>>>,
    count: AtomicUsize,
}

/// The watches of a file system. Clones share them.
#[derive(Clone, Default)]
pub struct Hub(Arc<Watches>);

impl Hub {
    /// A hub without watches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<Arc<Queue>>>> {
        let watches = &self.0.by_directory;
        lock(watches)
    }

    /// Watches a directory, given by its object number. Errors: `Exhausted`.
    pub fn watch(&self, directory: u64) -> FileResult<Watch> {
        let mut watches = self.lock();
        if self.0.count.load(Ordering::Relaxed) >= WATCHES_MAX {
            return Err(FileError::Storage(StorageError::Exhausted));
        }
        self.0.count.fetch_add(1, Ordering::Relaxed);
        let queue = Arc::new(Queue::default());
        watches.entry(directory).or_default().push(queue.clone());
        Ok(Watch {
            queue,
            directory,
            hub: self.clone(),
        })
    }

    /// Whether there are no watches at all. Takes no lock.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) == 0
    }

    /// Object numbers of the watched directories.
    #[must_use]
    pub fn watched(&self) -> Vec<u64> {
        match self.is_idle() {
            true => Vec::new(),
            false => self.lock().keys().copied().collect(),
        }
    }

    /// Sends an event to the watches of a directory. `event` is called only if there are some.
    pub fn send(&self, directory: u64, event: impl FnOnce() -> Event) {
        if self.is_idle() {
            return;
        }
        if let Some(queues) = self.lock().get(&directory) {
            let event = event();
            queues.iter().for_each(|queue| queue.push(event.clone()));
        }
    }

    /// Ends the watches of a directory that is gone.
    pub fn end(&self, directory: u64) {
        if self.is_idle() {
            return;
        }
        if let Some(queues) = self.lock().get(&directory) {
            queues.iter().for_each(|queue| queue.end());
        }
    }

    fn remove(&self, directory: u64, queue: &Arc<Queue>) {
        let mut watches = self.lock();
        if let Some(queues) = watches.get_mut(&directory) {
            queues.retain(|other| !Arc::ptr_eq(other, queue));
            if queues.is_empty() {
                watches.remove(&directory);
            }
        }
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str) -> Event {
        let object = Handle {
            filesystem: 1,
            object: 17,
            generation: 1,
        };
        Event::Added {
            name: Name::new(name.as_bytes()).unwrap(),
            object,
        }
    }

    fn all(watch: &Watch) -> Vec<Event> {
        std::iter::from_fn(|| watch.try_next()).collect()
    }

    #[test]
    fn each_watch_of_a_directory_gets_its_events_in_order() {
        let hub = Hub::new();
        hub.send(5, || unreachable!("nobody watches"));
        let (a, b, other) = (
            hub.watch(5).unwrap(),
            hub.watch(5).unwrap(),
            hub.watch(6).unwrap(),
        );
        for name in ["x", "y", "y", "x"] {
            hub.send(5, || event(name));
        }
        let want = [event("x"), event("y"), event("x")];
        assert_eq!(all(&a), want);
        drop(a);
        assert_eq!(all(&b), want);
        assert_eq!(all(&other), []);
        drop((b, other));
        assert!(hub.is_idle() && hub.watched().is_empty());
    }

    #[test]
    fn a_full_watch_says_that_events_were_lost() {
        let hub = Hub::new();
        let watch = hub.watch(5).unwrap();
        for i in 0..WATCH_EVENTS_MAX + 10 {
            hub.send(5, || event(&i.to_string()));
        }
        let events = all(&watch);
        assert_eq!(events.len(), WATCH_EVENTS_MAX + 1);
        assert_eq!(events.last(), Some(&Event::Overflow));
        hub.send(5, || event("later"));
        assert_eq!(all(&watch), [event("later")]);
    }

    #[test]
    fn the_watch_of_a_removed_directory_ends_after_its_events() {
        let runtime = io::Runtime::new(io::RuntimeConfig::default()).unwrap();
        runtime.block_on(async {
            let hub = Hub::new();
            let watch = hub.watch(5).unwrap();
            hub.send(5, || event("x"));
            hub.end(5);
            assert_eq!(watch.next().await, Some(event("x")));
            assert_eq!(watch.next().await, None);
        });
    }
}
