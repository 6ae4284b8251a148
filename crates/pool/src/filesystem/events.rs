//! Events for the watches of directories.
//!
//! **Owns** the choice of the watches that get an event. **Called by** all mutations, right after they were applied and still in their turns, so that
//! the events of a directory have the order of its changes. **Invariant**: nothing is read while nobody watches.

use backend::file::{Event, Handle, Name};

use super::inner::Inner;
use super::object::Object;
use super::store::Store;
use crate::format::ObjectId;

impl<S: Store> Inner<S> {
    /// A name is new in a directory.
    pub(super) fn tell_added(&self, directory: ObjectId, name: &Name, object: &Object) {
        self.hub.send(directory.0, || Event::Added {
            name: name.clone(),
            object: self.handle(object.reference()),
        });
    }

    /// A name is gone from a directory.
    pub(super) fn tell_removed(&self, directory: ObjectId, name: &Name, object: &Object) {
        self.hub.send(directory.0, || Event::Removed {
            name: name.clone(),
            object: self.handle(object.reference()),
        });
    }

    /// A name has moved.
    pub(super) fn tell_moved(
        &self,
        (from, old): (ObjectId, &Name),
        (to, new): (ObjectId, &Name),
        object: &Object,
    ) {
        if from != to {
            self.tell_removed(from, old, object);
            self.tell_added(to, new, object);
            return;
        }
        self.hub.send(from.0, || Event::Renamed {
            old: old.clone(),
            new: new.clone(),
            object: self.handle(object.reference()),
        });
    }

    /// An object has changed: tells the watches of every directory that has a name of it.
    pub(super) async fn tell(&self, object: &Object, event: impl Fn(Name, Handle) -> Event) {
        if self.hub.is_idle() {
            return;
        }
        let handle = self.handle(object.reference());
        for directory in self.hub.watched() {
            // A watch misses an event of a name that cannot be read.
            if let Ok(Some(name)) = self.name_in(object, ObjectId(directory)).await {
                self.hub.send(directory, || event(name, handle));
            }
        }
    }

    pub(super) async fn tell_contents(&self, object: &Object) {
        self.tell(object, |name, object| Event::Contents { name, object })
            .await;
    }

    pub(super) async fn tell_attributes(&self, object: &Object) {
        self.tell(object, |name, object| Event::Attributes { name, object })
            .await;
    }
}
