//! Helper threads for calls that block (open, stat, ioctl).

use crate::limits::BLOCKING_THREADS_MAX;
use crate::sync::oneshot;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Helpers {
    state: Mutex<Workers>,
    work: Condvar,
}

#[derive(Default)]
struct Workers {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static HELPERS: OnceLock<Helpers> = OnceLock::new();

/// Runs `call` on a helper thread, and waits for its value without blocking this thread. In the simulator `call` runs at
/// once. Errors: `Exhausted` if no thread can be started, `Cancelled` if the call panicked.
pub async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if crate::sim::is_running() {
        return Ok(call());
    }
    let (tx, rx) = oneshot::channel();
    submit(Box::new(move || tx.send(call()))).map_err(|(_, error)| error)?;
    rx.await.ok_or(Error::Cancelled)
}

/// Runs `call` on a helper thread, or here if no thread can be started. Nothing waits for it.
pub(crate) fn blocking_detached(call: impl FnOnce() + Send + 'static) {
    if let Err((job, _)) = submit(Box::new(call)) {
        job();
    }
}

/// Gives a job to a helper thread. Errors: the job, and `Exhausted`, if no thread can be started.
fn submit(job: Job) -> std::result::Result<(), (Job, Error)> {
    let helpers = HELPERS.get_or_init(Helpers::default);
    {
        let mut s = helpers.state.lock().unwrap_or_else(PoisonError::into_inner);
        s.jobs.push_back(job);
        if s.idle == 0 && s.threads < BLOCKING_THREADS_MAX {
            let started = std::thread::Builder::new()
                .name("io-blocking".into())
                .spawn(move || help(helpers));
            match started {
                Ok(_) => s.threads += 1,
                Err(e) if s.threads == 0 => {
                    if let Some(job) = s.jobs.pop_back() {
                        return Err((job, e.into()));
                    }
                }
                Err(_) => {}
            }
        }
    }
    helpers.work.notify_one();
    Ok(())
}

fn help(helpers: &'static Helpers) {
    let mut s = helpers.state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        while let Some(job) = s.jobs.pop_front() {
            drop(s);
            job();
            s = helpers.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        s.idle += 1;
        s = helpers.work.wait(s).unwrap_or_else(PoisonError::into_inner);
        s.idle -= 1;
    }
}
