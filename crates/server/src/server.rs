//! The server: open disks, published exports, listeners, drain.
//!
//! **Owns** the configuration and the state of every disk; it lives on the first shard. **Called by** [`crate::process`],
//! by simulations, and through [`Handle`] by the control API. **Invariants**: a disk that cannot be opened holds back
//! only its own export; changes are carried out one at a time (see [`crate::change`]).

use crate::api::{Listen, NotListening};
use crate::config::{Config, ConfigFile, split_volume};
use crate::disks::{self, DiskState, Disks, OnlineDisk};
use crate::group_queue::Groups;
use crate::host_names::HostNames;
use crate::limits::{
    CALL_WAIT_MAX, CALLS_MAX, DISK_REFRESH, DISK_RETRY, DISK_WAIT_MAX, START_WAIT_MAX,
};
use crate::listen::{self, AcceptCounters, Listening};
use crate::pools::events::Events;
use crate::pools::filesystems::Filesystems;
use crate::pools::open::host;
use crate::pools::registry::Pools;
use crate::protocols::protocol::DiskExports;
use crate::protocols::set::Protocols;
use crate::shards::Shards;
use crate::{Error, Result};
use backend::BlockBackend;
use io::sync::{Notify, Semaphore, mailbox, oneshot};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A running server.
pub struct Server {
    pub(crate) protocols: Arc<Protocols>,
    pub(crate) shards: Shards,
    accepts: Arc<AcceptCounters>,
    /// Addresses of the hosts that discovery names.
    pub(crate) host_names: Arc<HostNames>,
    pub(crate) started: io::time::Instant,
    /// Permit for one change at a time.
    pub(crate) changing: Semaphore,
    /// Changes of the configuration that wait to be written together.
    pub(crate) groups: Groups<Server>,
    /// Writes of the configuration file since the start.
    pub(crate) config_writes: Cell<u64>,
    /// Wakes the task that makes exports follow the properties of filesystems.
    pub(crate) shares: Notify,
    pub(crate) state: RefCell<Holdings>,
    calls: mailbox::Sender<Call>,
    /// Identity of this host in labels.
    pub(crate) host: pool::format::Host,
}

/// State that changes while the server runs: parts with private fields. An operation that needs several parts is a method of
/// [`Server`] or `Holdings` in the file of that operation.
pub(crate) struct Holdings {
    pub(crate) file: ConfigFile,
    pub(crate) disks: Disks,
    pub(crate) pools: Pools,
    pub(crate) filesystems: Filesystems,
    pub(crate) events: Events,
    pub(crate) listening: Listening,
    pub(crate) draining: bool,
}

type Call = Box<dyn FnOnce(Rc<Server>) + Send>;

/// Access to a server from other threads.
#[derive(Clone)]
pub struct Handle {
    calls: mailbox::Sender<Call>,
    protocols: Arc<Protocols>,
    accepts: Arc<AcceptCounters>,
}

impl Handle {
    /// Runs `work` on the server's shard and waits for its value. Errors: `Unavailable` when the server has ended
    /// or too many calls wait.
    pub async fn call<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) -> Result<T> {
        let (tx, rx) = oneshot::channel();
        let call = move |server: Rc<Server>| {
            drop(io::spawn(async move {
                match io::timeout(CALL_WAIT_MAX, work(server)).await {
                    Ok(value) => tx.send(value),
                    Err(_) => tracing::error!("a control request timed out"),
                }
            }));
        };
        self.calls.send(Box::new(call)).map_err(|e| match e {
            io::Error::Exhausted(_) => Error::Unavailable("too busy: try again"),
            _ => Error::Unavailable("ending"),
        })?;
        rx.await.ok_or(Error::Unavailable(
            "shutting down, or did not answer in time",
        ))
    }

    /// The protocols, for requests that need no shard.
    pub(crate) fn protocols(&self) -> &Arc<Protocols> {
        &self.protocols
    }

    pub(crate) fn accepts(&self) -> &AcceptCounters {
        &self.accepts
    }
}

impl Server {
    /// Starts to serve what the configuration says, on these shards. Called on the first of them. Disks are opened
    /// in their order; one that is missing or slow is held back and the others go on. Errors: `Listen`,
    /// `AddressTaken`.
    pub async fn start(
        file: ConfigFile,
        shards: Shards,
        connections_max: usize,
    ) -> Result<Rc<Server>> {
        let config = file.config().clone();
        let protocols = Protocols::new(&file, connections_max)?;
        let addresses = protocols.all().flat_map(|p| p.addresses(&config)).collect();
        let (listeners, missing) = listen::bind(addresses).await?;

        let host = host(file.is_stored()).await;
        let host_names = file
            .is_stored()
            .then(|| config.server.state_dir.join("host-names"));
        let (calls, mailbox) = mailbox::channel(CALLS_MAX);
        let server = Rc::new(Server {
            protocols: Arc::new(protocols),
            shards,
            accepts: Arc::default(),
            host_names: Arc::new(HostNames::load(host_names)),
            started: io::time::now(),
            changing: Semaphore::new(1),
            groups: Groups::default(),
            config_writes: Cell::new(0),
            shares: Notify::new(),
            state: RefCell::new(Holdings {
                file,
                disks: Disks::default(),
                pools: Pools::default(),
                filesystems: Filesystems::default(),
                events: Events::default(),
                listening: Listening::on(listeners.iter().map(|(_, a)| a.listen.clone())),
                draining: false,
            }),
            calls,
            host,
        });
        server.advertise();
        drop(io::spawn(server.clone().follow_host_names()));
        for exports in server.protocols.disk_exports() {
            exports.add_exports(&server.state.borrow().file);
        }
        server.keep_mounts();
        server.keep_filesystem_exports();
        server.keep_shares();
        for d in &config.disks {
            let opened = server.keep(&d.name, None);
            // It continues in the background, and the next one is opened.
            let _ = io::timeout(START_WAIT_MAX, opened.notified()).await;
        }
        for p in &config.pools {
            let opened = server.keep_pool(&p.name);
            let _ = io::timeout(START_WAIT_MAX, opened.notified()).await;
        }
        server.update_holds();
        drop(io::spawn(server.clone().end_wait()));
        for (listener, address) in listeners {
            server.accept(listener, address, config.server.congestion.as_deref());
        }
        for (wanted, why) in missing {
            let later = io::spawn(server.clone().listen_later(wanted, why));
            server.state.borrow_mut().listening.add_task(later);
        }
        drop(io::spawn(answer(server.clone(), mailbox)));
        Ok(server)
    }

    /// Access to the server from other threads.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            calls: self.calls.clone(),
            protocols: self.protocols.clone(),
            accepts: self.accepts.clone(),
        }
    }

    /// Listening addresses, with the real ports.
    #[must_use]
    pub fn listening(&self) -> Vec<Listen> {
        self.state.borrow().listening.addresses().to_vec()
    }

    /// Addresses of the configuration that are not served now.
    #[must_use]
    pub fn not_listening(&self) -> Vec<NotListening> {
        self.state.borrow().listening.missing()
    }

    /// The configuration as it is now.
    #[must_use]
    pub fn config(&self) -> Config {
        self.state.borrow().file.config().clone()
    }

    /// Writes of the configuration file since the start. Changes that wait at the same time may share one.
    #[must_use]
    pub fn config_writes(&self) -> u64 {
        self.config_writes.get()
    }

    /// Counters of the listeners.
    pub(crate) fn accepts(&self) -> &Arc<AcceptCounters> {
        &self.accepts
    }

    /// Starts the supervisor of a disk, which opens it, repeatedly if necessary, and watches its size. The answer is
    /// notified after the first opening. `backend` is the disk if it is open already.
    pub(crate) fn keep(
        self: &Rc<Self>,
        name: &str,
        backend: Option<Arc<dyn BlockBackend>>,
    ) -> Rc<Notify> {
        let opened = Rc::new(Notify::new());
        let state = match &backend {
            Some(b) => DiskState::Online(OnlineDisk::new(b.clone())),
            None => DiskState::Opening,
        };
        let supervisor = io::spawn(keep_disk(self.clone(), name.to_owned(), opened.clone()));
        let mut holdings = self.state.borrow_mut();
        holdings.disks.keep(name, state, supervisor);
        drop(holdings);
        if backend.is_some() {
            self.publish(name);
        }
        opened
    }

    fn disk_opened(&self, name: &str, result: std::result::Result<Arc<dyn BlockBackend>, String>) {
        let reason = result.as_ref().err().cloned();
        let is_news = self.state.borrow_mut().disks.opened(name, result);
        match (is_news, reason) {
            (None, _) | (Some(false), Some(_)) => {}
            (Some(true), Some(reason)) => tracing::warn!(
                disk = name,
                reason,
                "held back, with its export; will be retried"
            ),
            (Some(_), None) => {
                tracing::info!(disk = name, "open");
                self.publish(name);
            }
        }
    }

    /// Publishes the export of a disk, if it has one and is online.
    pub(crate) fn publish(&self, disk: &str) {
        let state = self.state.borrow();
        if let Some(online) = state.disks.online(disk) {
            for exports in self.protocols.disk_exports() {
                exports.publish(&state.file, disk, online.backend.clone());
            }
        }
    }

    /// Notifies clients if the size of a disk has changed.
    pub(crate) fn announce(&self, disk: &str) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let online = state.disks.online_mut(disk);
        let Some(online) = online else { return };
        let generation = online.backend.generation();
        if std::mem::replace(&mut online.generation, generation) == generation {
            return;
        }
        tracing::info!(disk, size = online.size(), "has a new size");
        for exports in self.protocols.disk_exports() {
            exports.announce(state.file.config(), disk);
        }
    }

    /// Warns clients if a disk, or the pool of a volume, has reached a threshold.
    async fn check_space(&self, disk: &str) {
        let checks: Vec<_> = {
            let state = self.state.borrow();
            let pool = || split_volume(disk).and_then(|(pool, _)| state.pool_usage(pool));
            let check = |e: &dyn DiskExports| e.check_space(state.file.config(), disk, &pool);
            self.protocols.disk_exports().filter_map(check).collect()
        };
        for check in checks {
            check.await;
        }
    }

    async fn refresh(&self, name: &str) {
        let backend = {
            let state = self.state.borrow();
            let online = state.disks.online(name);
            online.map(|disk| disk.backend.clone())
        };
        let Some(backend) = backend else { return };
        let looked = io::timeout(DISK_WAIT_MAX, async {
            backend.refresh().await?;
            backend.usage().await
        })
        .await;
        let result = match looked {
            Ok(Ok(usage)) => Ok(usage),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("it does not answer".to_owned()),
        };
        {
            let mut state = self.state.borrow_mut();
            if let Some(online) = state.disks.online_mut(name) {
                match result {
                    Ok(usage) => {
                        online.usage = Some(usage);
                        online.trouble = None;
                    }
                    Err(reason) => {
                        if online.trouble.as_ref() != Some(&reason) {
                            tracing::warn!(disk = name, reason, "in trouble");
                        }
                        online.trouble = Some(reason);
                    }
                }
            }
        }
        self.announce(name);
        self.check_space(name).await;
    }

    /// Shuts down: accepts no new connections, finishes commands in flight, flushes every disk. Returns the failures;
    /// bounded by [`DRAIN_MAX`](crate::limits::DRAIN_MAX) and [`FLUSH_MAX`](crate::limits::FLUSH_MAX).
    pub async fn drain(&self) -> Vec<String> {
        let backends: Vec<_> = {
            let mut state = self.state.borrow_mut();
            state.draining = true;
            state.listening.end();
            let online = state.disks.all_online();
            online
                .map(|(name, disk)| (name.to_owned(), disk.backend.clone()))
                .collect()
        };
        let mut failures = Vec::new();
        let drains: Vec<_> = self.protocols.all().map(|p| io::spawn(p.drain())).collect();
        for drain in drains {
            failures.extend(drain.await.unwrap_or_default());
        }
        self.end_filesystem_exports();
        failures.extend(self.end_mounts().await);
        let flushes: Vec<_> = backends
            .into_iter()
            .map(|(name, b)| (name, io::spawn(async move { disks::flush(&*b).await })))
            .collect();
        for (name, flush) in flushes {
            let flushed = flush.await.unwrap_or(Err("was not flushed".into()));
            if let Err(reason) = flushed {
                failures.push(format!("the disk {name:?} {reason}"));
            }
        }
        let disks = std::mem::take(&mut self.state.borrow_mut().disks);
        drop(disks);
        failures.extend(self.close_pools().await);
        failures
    }
}

async fn answer(server: Rc<Server>, calls: mailbox::Mailbox<Call>) {
    while let Some(call) = calls.recv().await {
        call(server.clone());
    }
}

/// Runs until the disk's entry is removed: opens the disk, then checks it periodically.
async fn keep_disk(server: Rc<Server>, name: String, opened: Rc<Notify>) {
    loop {
        let is_online = {
            let state = server.state.borrow();
            state.disks.online(&name).is_some()
        };
        if is_online {
            opened.notify();
            server.refresh(&name).await;
            io::time::sleep(DISK_REFRESH).await;
            continue;
        }
        let Some(disk) = server.state.borrow().file.config().disk(&name).cloned() else {
            return;
        };
        let result = disks::open(&disk).await;
        let failed = result.is_err();
        server.disk_opened(&name, result);
        server.update_holds();
        opened.notify();
        if failed {
            io::time::sleep(DISK_RETRY).await;
        }
    }
}
