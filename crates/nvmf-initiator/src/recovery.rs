//! Connection, keep-alive and reconnection of a controller.
//!
//! **Owns** the order in which a controller is connected (Base 3.5.1): admin connection, Connect, enable, Identify, features,
//! I/O connections. When one connection breaks, all are taken down together. Then all are connected again, or the controller
//! is lost. Linux does the same. **Called by** [`Controller`](super::Controller).

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use io::{IoBuf, spawn};
use zerocopy::IntoBytes;

use super::error::{Error, Result};
use super::limits::{ADMIN_RESERVED, EVENT_REQUESTS_MAX, IO_RESERVED, READY_POLL, TIMEOUT_TICKS};
use super::queue::{Command, Data, Opened, Queue, Replay, checked};
use super::state::{ControllerInfo, Inner};
use initiator::{Backoff, LinkState, LiveTasks, retry, within};
use nvmf::wire::command::{Nsid, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::fabrics::{
    CNTLID_DYNAMIC, Cap, Cc, Connect, ConnectAccepted, ConnectAttributes, ConnectData,
    ConnectFault, Csts, Property, property,
};
use nvmf::wire::features::{self, AsyncEventConfig, NumberOfQueues, fid};
use nvmf::wire::identify::{self, IDENTIFY_LEN, IdentifyController, cns};
use nvmf::wire::opcode::admin;
use nvmf::wire::status::Status;

/// CNTRLTYPE of a discovery controller.
const CNTRLTYPE_DISCOVERY: u8 = 2;

/// Connects all queues within the time limit. Takes all of them down again if it fails.
pub(crate) async fn connect(inner: &Rc<Inner>) -> Result<LiveTasks> {
    if let Err(error) = within(
        inner.config.connect_timeout,
        Error::Timeout,
        unless_broken(inner, establish(inner)),
    )
    .await
    {
        for queue in inner.queues() {
            queue.down(true).await;
        }
        return Err(error);
    }
    inner.enter(LinkState::Live);
    for queue in inner.queues() {
        queue.go_live();
    }
    Ok(start_tasks(inner))
}

/// Runs `set_up`. Fails when one of its connections breaks or the controller is closed.
async fn unless_broken(inner: &Inner, set_up: impl Future<Output = Result<()>>) -> Result<()> {
    let broken = async {
        loop {
            inner.wake.notified().await;
            if let Some(cause) = inner.queues().iter().find_map(Queue::break_cause) {
                return Err(cause);
            }
            if inner.closing.get() {
                return Err(Error::Closed);
            }
        }
    };
    let (mut set_up, mut broken) = (pin!(set_up), pin!(broken));
    poll_fn(|cx| match set_up.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => broken.as_mut().poll(cx),
    })
    .await
}

/// Waits for broken connections and reconnects, until the controller is closed or lost.
pub(crate) async fn supervise(inner: Rc<Inner>, tasks: LiveTasks) {
    let mut tasks = Some(tasks);
    loop {
        inner.wake.notified().await;
        if inner.closing.get() {
            drop(tasks.take());
            return end(&inner, LinkState::Closed, Error::Closed).await;
        }
        if !inner.queues().iter().any(Queue::is_breaking) {
            continue;
        }
        drop(tasks.take());
        inner.enter(LinkState::Reconnecting);
        let keep = !inner.config.reconnect.ctrl_loss_timeout.is_zero();
        for queue in inner.queues() {
            queue.down(keep).await;
        }
        match reconnect(&inner).await {
            Some(restored) => tasks = Some(restored),
            None if inner.closing.get() => {
                return end(&inner, LinkState::Closed, Error::Closed).await;
            }
            None => return end(&inner, LinkState::Lost, Error::Disconnected).await,
        }
    }
}

/// Repeats the connect until it succeeds. `None` if the controller is lost or closed.
async fn reconnect(inner: &Rc<Inner>) -> Option<LiveTasks> {
    let policy = inner.config.reconnect;
    let backoff = Backoff {
        first: policy.delay_min,
        most: policy.delay_max,
        limit: policy.ctrl_loss_timeout,
    };
    retry(
        backoff,
        &inner.closing,
        &inner.wake,
        async || match connect(inner).await {
            Ok(tasks) => {
                inner.stats.borrow_mut().reconnects += 1;
                tracing::info!(subsystem = %inner.config.subnqn, "controller is back");
                Some(tasks)
            }
            Err(error) => {
                tracing::info!(subsystem = %inner.config.subnqn, %error, "reconnect failed");
                None
            }
        },
    )
    .await
}

async fn end(inner: &Inner, state: LinkState, error: Error) {
    for queue in inner.queues() {
        queue.kill(error.clone()).await;
    }
    inner.enter(state);
}

async fn establish(inner: &Rc<Inner>) -> Result<()> {
    let config = &inner.config;
    // The controller has no number yet.
    let opened = Opened::connect(config, (0, entries(&inner.admin)), 0).await?;
    inner.admin.attach(opened);
    let accepted = connect_queue(inner, &inner.admin, CNTLID_DYNAMIC).await?;
    let cap = Cap::from_bits_retain(property_get(&inner.admin, property::CAP, true).await?);
    let version = property_get(&inner.admin, property::VS, false).await? as u32;
    enable(&inner.admin, cap).await?;
    let identify = identify_controller(&inner.admin).await?;
    let info = ControllerInfo {
        cntlid: accepted.cntlid,
        cap,
        version,
        identify,
    };
    let discovery = info.identify.cntrltype == CNTRLTYPE_DISCOVERY || config.subnqn.is_discovery();
    configure_events(&inner.admin, &info, discovery).await?;
    let capsule_data = info.identify.in_capsule_data_max();
    inner.info.replace(Some(Rc::new(info)));
    if config.io_queues > 0 {
        let granted = request_queues(inner).await?;
        make_io_queues(inner, granted, cap)?;
        let queues = inner.io.borrow().clone();
        for queue in queues {
            queue.set_capsule_data(capsule_data);
            let of = (queue.qid(), entries(&queue));
            queue.attach(Opened::connect(config, of, accepted.cntlid).await?);
            connect_queue(inner, &queue, accepted.cntlid).await?;
        }
    }
    Ok(())
}

/// Sends a set-up command, which fails if its connection breaks.
async fn setup(queue: &Queue, sqe: Sqe, data: Data) -> Result<(Cqe, Data)> {
    let command = Command {
        sqe,
        data,
        replay: Replay::Never,
        untimed: false,
        whole: true,
    };
    let finished = queue.execute(command).await;
    Ok((finished.result?, finished.data))
}

async fn setup_ok(queue: &Queue, sqe: Sqe) -> Result<u64> {
    let (cqe, _) = setup(queue, sqe, Data::None).await?;
    checked(Ok(cqe)).map(|cqe| cqe.result())
}

/// Entries of a queue. It holds one command less than it has entries. On an I/O queue no other command is outstanding with Connect, so
/// its reserved place takes no entry.
fn entries(queue: &Queue) -> u16 {
    match queue.qid() {
        0 => queue.depth() + ADMIN_RESERVED + 1,
        _ => queue.depth() + 1,
    }
}

/// Fabrics Connect on a queue (Base 6.3).
async fn connect_queue(inner: &Inner, queue: &Queue, cntlid: u16) -> Result<ConnectAccepted> {
    let config = &inner.config;
    let connect = Connect {
        record_format: 0,
        qid: queue.qid(),
        sqsize: entries(queue) - 1,
        attributes: ConnectAttributes::empty(),
        kato_ms: if queue.qid() == 0 {
            config.kato_ms()
        } else {
            0
        },
    };
    let data = ConnectData::new(config.host_id, cntlid, &config.subnqn, &config.hostnqn);
    let (cqe, _) = setup(queue, connect.to_sqe(), Data::Small(data.as_bytes().into())).await?;
    if cqe.status().is(Status::CONNECT_INVALID_PARAMETERS) {
        return Err(Error::ConnectRefused(ConnectFault::from_result(
            cqe.result(),
        )));
    }
    checked(Ok(cqe))?;
    let accepted = ConnectAccepted::from_result(cqe.result());
    if accepted.auth_required != 0 {
        return Err(Error::Refused(Status::AUTHENTICATION_REQUIRED));
    }
    Ok(accepted)
}

/// Reads a controller property; of 8 bytes with `wide`, else of 4.
pub(crate) async fn property_get(queue: &Queue, offset: u32, wide: bool) -> Result<u64> {
    setup_ok(queue, Property::get(offset, wide)).await
}

/// Enables the controller and waits until it is ready (Base 3.5.1).
async fn enable(admin: &Queue, cap: Cap) -> Result<()> {
    // CSS 110b selects all I/O command sets, if the controller supports this; else 000b selects NVM.
    let css = if cap.contains(Cap::IO_COMMAND_SETS) {
        6
    } else {
        0
    };
    setup_ok(
        admin,
        Property::set(property::CC, false, u64::from(Cc::enabled(css).bits())),
    )
    .await?;
    let deadline =
        io::time::now() + Duration::from_millis(500) * u32::from(cap.timeout_500ms().max(1));
    loop {
        let csts =
            Csts::from_bits_truncate(property_get(admin, property::CSTS, false).await? as u32);
        if csts.contains(Csts::FATAL) {
            return Err(Error::NotReady("fatal status"));
        }
        if csts.contains(Csts::READY) {
            return Ok(());
        }
        if io::time::now() >= deadline {
            return Err(Error::NotReady("not ready within its own time limit"));
        }
        io::time::sleep(READY_POLL).await;
    }
}

/// Notifies the controller of the shutdown (CC.SHN). Waits at most one command timeout.
pub(crate) async fn notify_shutdown(inner: &Inner) -> Result<()> {
    let admin = &inner.admin;
    within(inner.config.connect_timeout, Error::Timeout, async {
        let cc = Cc::from_bits_retain(property_get(admin, property::CC, false).await? as u32);
        let value = u64::from(cc.with_shn(1).bits());
        setup_ok(admin, Property::set(property::CC, false, value)).await?;
        loop {
            let csts =
                Csts::from_bits_truncate(property_get(admin, property::CSTS, false).await? as u32);
            if csts.contains(Csts::SHUTDOWN_COMPLETE) {
                return Ok(());
            }
            if csts.contains(Csts::FATAL) {
                return Err(Error::NotReady("it failed amid its shutdown"));
            }
            io::time::sleep(READY_POLL).await;
        }
    })
    .await
}

async fn identify_controller(admin: &Queue) -> Result<Box<IdentifyController>> {
    let sqe = identify::command(cns::CONTROLLER, Nsid::NONE, 0);
    let buf: IoBuf = io::pool().alloc(IDENTIFY_LEN).await;
    let (cqe, data) = setup(admin, sqe, Data::In(buf)).await?;
    checked(Ok(cqe))?;
    let Data::In(buf) = data else {
        return Err(Error::Disconnected);
    };
    Ok(Box::new(IdentifyController::parse(&buf)?))
}

/// Enables the events that the controller supports and this initiator handles.
async fn configure_events(admin: &Queue, info: &ControllerInfo, discovery: bool) -> Result<()> {
    let wanted = if discovery {
        AsyncEventConfig::DISCOVERY_CHANGE
    } else {
        AsyncEventConfig::NAMESPACE_ATTRIBUTE | AsyncEventConfig::ANA_CHANGE
    };
    let offered = AsyncEventConfig::from_bits_truncate(info.identify.oaes.get());
    let value = wanted & offered;
    if value.is_empty() {
        return Ok(());
    }
    setup_ok(
        admin,
        features::set(fid::ASYNC_EVENT_CONFIG, value.bits(), Nsid::NONE),
    )
    .await
    .map(drop)
}

/// Requests I/O queues. Returns the number that the controller granted.
async fn request_queues(inner: &Inner) -> Result<u16> {
    let wanted = u32::from(inner.config.io_queues);
    let count = NumberOfQueues {
        submission: wanted,
        completion: wanted,
    };
    let sqe = features::set(fid::NUMBER_OF_QUEUES, count.to_dword(), Nsid::NONE);
    let granted = NumberOfQueues::from_dword(setup_ok(&inner.admin, sqe).await? as u32);
    Ok(granted.submission.min(granted.completion).min(wanted) as u16)
}

/// Creates the I/O queues at the first connect. A reconnect fails if it does not get the same number and depth.
fn make_io_queues(inner: &Inner, granted: u16, cap: Cap) -> Result<()> {
    let mut queues = inner.io.borrow_mut();
    // MQES is 0's based, so it is also the number of commands that a queue of that size holds.
    let depth = inner.config.queue_depth.min(cap.mqes()).max(1);
    if queues.is_empty() {
        queues.extend(
            (1..=granted).map(|qid| Queue::new(qid, depth, IO_RESERVED, inner.wake.clone())),
        );
        return Ok(());
    }
    if usize::from(granted) < queues.len() || queues.iter().any(|q| q.depth() > cap.mqes()) {
        return Err(Error::NotReady(
            "fewer or smaller queues than before the connection broke",
        ));
    }
    Ok(())
}

fn start_tasks(inner: &Rc<Inner>) -> LiveTasks {
    let mut tasks = vec![spawn(watch_timeouts(inner.clone()))];
    if !inner.config.keep_alive.is_zero() {
        tasks.push(spawn(keep_alive(inner.clone())));
    }
    let requests = inner
        .info()
        .identify
        .aerl
        .saturating_add(1)
        .min(EVENT_REQUESTS_MAX);
    tasks.extend((0..requests).map(|_| spawn(request_events(inner.clone()))));
    LiveTasks::new(tasks)
}

/// Breaks connections on which a command has no answer in time.
async fn watch_timeouts(inner: Rc<Inner>) {
    let period = inner.config.command_timeout / TIMEOUT_TICKS;
    loop {
        io::time::sleep(period).await;
        for queue in inner.queues() {
            // A command that was sent right after a tick is less than one tick old at the next one.
            queue.tick(TIMEOUT_TICKS + 1);
        }
    }
}

/// Keeps the controller's timer from expiring (Base 3.9). With traffic-based keep-alive, a command that was answered since
/// the last check is enough.
async fn keep_alive(inner: Rc<Inner>) {
    let timeout = inner.config.keep_alive;
    let by_traffic = inner.info().traffic_based_keep_alive();
    let period = if by_traffic { timeout / 4 } else { timeout / 2 };
    let answered = || inner.queues().iter().map(Queue::completed).sum::<u64>();
    let mut seen = answered();
    loop {
        io::time::sleep(period).await;
        let now = answered();
        if by_traffic && now != std::mem::replace(&mut seen, now) {
            continue;
        }
        inner.stats.borrow_mut().keep_alives += 1;
        match within(
            timeout,
            Error::Timeout,
            setup_ok(&inner.admin, Sqe::new(admin::KEEP_ALIVE, Nsid::NONE)),
        )
        .await
        {
            Ok(_) => {}
            Err(error) => return inner.admin.fail(error),
        }
    }
}

/// Keeps one Asynchronous Event Request outstanding (Base 5.2).
async fn request_events(inner: Rc<Inner>) {
    loop {
        let sqe = Sqe::new(admin::ASYNC_EVENT_REQUEST, Nsid::NONE);
        let command = Command {
            sqe,
            data: Data::None,
            replay: Replay::Never,
            untimed: true,
            whole: false,
        };
        let answered = checked(inner.admin.execute(command).await.result);
        // The task that runs first takes all events, so that their order is kept.
        while let Some(event) = inner.admin.take_event() {
            inner.push_event(event);
        }
        if answered.is_err() {
            // Refused or disconnected: another request on this connection would fail too.
            return;
        }
    }
}
