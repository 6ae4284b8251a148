//! Readings at the two ends of the measured window.

use super::window::Window;
use io::time::sleep_until;
use io::{JoinHandle, spawn};
use std::cell::RefCell;
use std::rc::Rc;

type Ends<T> = Rc<RefCell<(Option<T>, Option<T>)>>;

/// A reading that is taken when the window opens and when it closes, by a task of this shard.
pub(super) struct Observed<T> {
    ends: Ends<T>,
    read: Rc<dyn Fn() -> T>,
    task: JoinHandle<()>,
}

impl<T: 'static> Observed<T> {
    /// Starts waiting for the window.
    pub(super) fn start(window: Window, read: impl Fn() -> T + 'static) -> Observed<T> {
        let (ends, read): (Ends<T>, Rc<dyn Fn() -> T>) =
            (Rc::new(RefCell::new((None, None))), Rc::new(read));
        let (there, reading) = (ends.clone(), read.clone());
        let task = spawn(async move {
            sleep_until(window.from).await;
            let first = reading();
            there.borrow_mut().0 = Some(first);
            sleep_until(window.until).await;
            let last = reading();
            there.borrow_mut().1 = Some(last);
        });
        Observed { ends, read, task }
    }

    /// Both readings; the second is taken now if the run ended before its window. `None` if it ended before the
    /// window opened.
    pub(super) fn finish(self) -> Option<(T, T)> {
        self.task.abort();
        let (first, last) = self.ends.take();
        Some((first?, last.unwrap_or_else(|| (self.read)())))
    }
}
