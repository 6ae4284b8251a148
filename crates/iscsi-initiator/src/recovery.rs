//! Login, keep-alive and reconnection of a session.
//!
//! **Owns** the handling of a broken connection (§7). It is taken down. A login with the same ISID reinstates the session
//! (§6.3.5), which ends every task of the old session at the target before the new one begins. Then unanswered tasks are sent
//! again. **Called by** [`Session`](super::Session).

use super::channel::{Channel, Way};
use super::engine::Engine;
use super::error::{Error, Result};
use super::limits::TIMEOUT_TICKS;
use super::login::Purpose;
use super::shared::Inner;
use initiator::{Backoff, LinkState, LiveTasks, retry, within};
use io::spawn;
use std::rc::Rc;
use std::time::Duration;

/// Connects and logs in, within the time limit.
pub(super) async fn connect(inner: &Rc<Inner>) -> Result<LiveTasks> {
    let config = &inner.config;
    let purpose = Purpose::of(config);
    let way = Way::of(config);
    let login = Channel::log_in(config.addr, &purpose, &way);
    let (channel, session) = within(config.connect_timeout, Error::Timeout, login).await?;
    inner.queue.attach(channel, session);
    inner.enter(LinkState::Live);
    let mut tasks = vec![spawn(watch_timeouts(inner.clone()))];
    if !config.keep_alive.is_zero() {
        tasks.push(spawn(keep_alive(inner.clone())));
    }
    Ok(LiveTasks::new(tasks))
}

/// Waits for broken connections and reconnects, until the session is closed or lost.
pub(super) async fn supervise(inner: Rc<Inner>, tasks: LiveTasks) {
    let mut tasks = Some(tasks);
    loop {
        inner.wake.notified().await;
        if inner.closing.get() {
            drop(tasks.take());
            inner.queue.log_out().await;
            return end(&inner, LinkState::Closed, Error::Closed).await;
        }
        if let Some(within) = inner.queue.with_engine(|e| e.leave_within.take()) {
            leave(&inner, within).await;
        }
        if !inner.queue.is_breaking() {
            continue;
        }
        drop(tasks.take());
        let wait = inner
            .queue
            .link_info()
            .map_or(0, |l| l.parameters.time2wait_s);
        inner.enter(LinkState::Reconnecting);
        let keep = !inner.config.reconnect.loss_timeout.is_zero();
        inner.queue.down(keep).await;
        match reconnect(&inner, Duration::from_secs(wait.into())).await {
            Some(restored) => tasks = Some(restored),
            None if inner.closing.get() => {
                return end(&inner, LinkState::Closed, Error::Closed).await;
            }
            None => return end(&inner, LinkState::Lost, Error::Disconnected).await,
        }
    }
}

/// The target asked for a logout: waits half of the time for outstanding tasks, then logs out, which ends the connection.
async fn leave(inner: &Inner, within: Duration) {
    const LOOK: Duration = Duration::from_millis(10);
    inner.queue.with_engine(Engine::close);
    let until = io::time::now() + within / 2;
    while inner.queue.with_engine(|e| e.tasks.outstanding()) > 0
        && io::time::now() < until
        && !inner.queue.is_breaking()
    {
        io::time::sleep(LOOK).await;
    }
    inner.queue.log_out().await;
    inner.queue.fail(Error::Disconnected);
}

/// Repeats the login until it succeeds. `None` if the session is lost or closed.
async fn reconnect(inner: &Rc<Inner>, time2wait: Duration) -> Option<LiveTasks> {
    let policy = inner.config.reconnect;
    let backoff = Backoff {
        first: policy.delay_min.max(time2wait),
        most: policy.delay_max,
        limit: policy.loss_timeout,
    };
    retry(
        backoff,
        &inner.closing,
        &inner.wake,
        async || match connect(inner).await {
            Ok(tasks) => {
                inner.count(|s| s.reconnects += 1);
                tracing::info!(target_name = %inner.config.target, "session is back");
                Some(tasks)
            }
            Err(error) => {
                tracing::info!(target_name = %inner.config.target, %error, "login failed");
                None
            }
        },
    )
    .await
}

async fn end(inner: &Inner, state: LinkState, error: Error) {
    inner.queue.kill(error).await;
    inner.enter(state);
}

/// Aborts tasks that have no answer in time. Ends the connection if an abort has no answer either.
async fn watch_timeouts(inner: Rc<Inner>) {
    let period = inner.config.command_timeout / TIMEOUT_TICKS;
    loop {
        io::time::sleep(period).await;
        // A command that was sent right after a tick is less than one tick old at the next one.
        if !inner.queue.with_engine(|e| e.tick(TIMEOUT_TICKS + 1)) {
            return inner.queue.fail(Error::Timeout);
        }
    }
}

/// Pings a silent target.
async fn keep_alive(inner: Rc<Inner>) {
    let mut heard = inner.queue.with_engine(|e| e.heard);
    loop {
        io::time::sleep(inner.config.keep_alive).await;
        let now = inner.queue.with_engine(|e| e.heard);
        if std::mem::replace(&mut heard, now) != now {
            continue;
        }
        if !inner.queue.with_engine(Engine::ping) {
            return inner.queue.fail(Error::Timeout);
        }
        inner.count(|s| s.pings += 1);
    }
}
