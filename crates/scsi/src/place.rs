//! A task's place in the task set of its logical unit.
//!
//! **Called by** tasks. **Invariants**: the place is released when it is dropped.

use crate::task_set::TaskAttribute;
use crate::unit::Unit;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A task's place in its set, released on drop.
pub(crate) struct Place {
    unit: Arc<Unit>,
    /// Its number in the queue; none for a task outside of the queue.
    number: Option<u64>,
}

impl Place {
    /// The last place in a unit's set.
    pub(crate) fn take(unit: &Arc<Unit>, attribute: TaskAttribute) -> Place {
        Place {
            number: unit.tasks.join(attribute),
            unit: unit.clone(),
        }
    }

    /// Whether its task may begin. Once true, it stays true.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.number {
            None => Poll::Ready(()),
            Some(number) => self.unit.tasks.poll(number, cx),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match self.number {
            None => self.unit.tasks.leave_free(),
            Some(number) => self.unit.tasks.leave(number),
        }
    }
}
