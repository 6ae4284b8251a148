//! Construction of simulated systems, for tests.

use super::disk::{DiskConfig, SimDisk};
use super::driver::SimDriver;
use super::net::ip_of;
use super::{SimConfig, World};
use crate::buf::BufPool;
use crate::runtime::{JoinHandle, NodeId, Runtime, Shard, Tasks, current};
use std::cell::RefCell;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Once;

thread_local! {
    /// The text to print when this thread panics.
    static RUNNING: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Installs a panic hook that prints the seed of a simulating thread.
fn install_hook() {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            RUNNING.with(|r| {
                if let Ok(Some(text)) = r.try_borrow().as_deref() {
                    eprintln!("{text}");
                }
            });
        }));
    });
}

/// Runs `f` on the world of this thread. Panics outside of a simulation.
pub(super) fn with_world<T>(f: impl FnOnce(&mut World) -> T) -> T {
    let rt = current();
    let mut driver = rt.driver.borrow_mut();
    f(driver
        .sim()
        .expect("this needs a simulation: call it inside Sim::block_on"))
}

/// Prints a line into the trace, if the trace is printed. Panics outside of a simulation.
pub fn remark(text: impl FnOnce() -> String) {
    let at = crate::time::now().as_nanos();
    with_world(|w| w.core.trace.remark(at, text));
}

/// A simulated system: one thread, many nodes. A thread runs one at a time.
pub struct Sim {
    runtime: Runtime,
    seed: u64,
    replay: Option<String>,
}

impl Sim {
    /// Creates a world without nodes. The same seed and the same program give the same history.
    #[must_use]
    pub fn new(seed: u64, config: SimConfig) -> Sim {
        install_hook();
        let pool = BufPool::new(config.buffer_limit);
        let replay = config.replay.clone();
        let driver = SimDriver::new(World::new(seed, config));
        Sim {
            runtime: Runtime::with_driver(Box::new(driver), Tasks::new(), pool),
            seed,
            replay,
        }
    }

    /// Runs until `main` has ended. It runs on node 0, which never loses power and is the place of the test itself.
    pub fn block_on<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let mut text = format!("simulation seed {}", self.seed);
        if let Some(r) = &self.replay {
            text += &format!("\nrepeat it: {r}");
        }
        let outer = RUNNING.with(|r| r.replace(Some(text)));
        let value = self.runtime.block_on(main);
        RUNNING.with(|r| *r.borrow_mut() = outer);
        value
    }

    /// Returns a hash of all events: equal for equal histories.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        let mut driver = self.runtime.shared.driver.borrow_mut();
        driver.sim().expect("it is a simulation").core.trace.hash()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let mut driver = self.runtime.shared.driver.borrow_mut();
        driver.sim().expect("it is a simulation").core.ending = true;
    }
}

/// A simulated machine. Use it inside [`Sim::block_on`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(NodeId);

impl Node {
    /// Creates a machine with power, an address and no disks. Panics beyond 65,535 nodes.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a node appears in the world of this thread"
    )]
    pub fn new() -> Node {
        with_world(|w| {
            w.core.nodes.push(super::core::Power::default());
            Node(NodeId::try_from(w.core.nodes.len() - 1).expect("few nodes"))
        })
    }

    /// The machine of the calling task.
    #[must_use]
    pub fn current() -> Node {
        Node(current().tasks.node())
    }

    pub(super) fn id(self) -> NodeId {
        self.0
    }

    /// Its address.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        ip_of(self.0)
    }

    /// Its address with a port.
    #[must_use]
    pub fn addr(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip(), port)
    }

    /// Starts a task on the machine. Panics if the machine has no power.
    pub fn spawn<T: 'static>(self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        assert!(self.is_on(), "a machine without power runs nothing");
        current().tasks.spawn_on(self.0, future)
    }

    /// Starts a task as the first one of a new shard of the machine. The shard's tasks take turns with those of other shards,
    /// and have their own buffer pool.
    pub fn spawn_on_new_shard<T: 'static>(
        self,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        assert!(self.is_on(), "a machine without power runs nothing");
        current().tasks.spawn_on_new_shard(self.0, future)
    }

    /// Creates a shard of the machine, to send work to.
    #[must_use]
    pub fn new_shard(self) -> Shard {
        assert!(self.is_on(), "a machine without power runs nothing");
        Shard::simulated(self.0)
    }

    /// Cuts the machine's power: its tasks are dropped, its sockets vanish without notice to their peers, and its disks lose
    /// unflushed writes as the seed decides. Must not be called from a task of the machine.
    pub fn power_cut(self) {
        assert_ne!(
            self,
            Node::current(),
            "a task cannot survive the power cut of its own machine"
        );
        with_world(|w| w.power_cut(self.0));
        self.bury_tasks();
    }

    /// Cuts its power after `steps` further steps, where each start and each end of a disk operation is one.
    pub fn power_cut_after(self, steps: u64) {
        with_world(|w| w.core.nodes[self.0 as usize].cut_after = Some(steps));
    }

    /// Ends all its tasks, as SIGKILL does: the kernel closes its sockets, and its disks keep their caches.
    pub fn kill(self) {
        assert_ne!(self, Node::current(), "a task cannot kill itself");
        current().tasks.kill_node(self.0);
    }

    /// Switches its power on. It runs nothing until a task is spawned on it.
    pub fn power_on(self) {
        self.bury_tasks();
        with_world(|w| w.power_on(self.0));
    }

    /// Drops its tasks now, so that the executor does not drop tasks that are spawned after the power is back.
    fn bury_tasks(self) {
        current().tasks.kill_node(self.0);
        with_world(|w| w.forget_crash(self.0));
    }

    /// Whether it has power.
    #[must_use]
    pub fn is_on(self) -> bool {
        with_world(|w| !w.core.is_off(self.0))
    }

    /// Attaches a disk at `path`. Panics if the path has a disk.
    pub fn create_disk(self, path: impl AsRef<Path>, config: DiskConfig) -> SimDisk {
        with_world(|w| SimDisk(w.disks.create(self.0, path.as_ref(), config)))
    }

    /// The disk at `path`, if there is one.
    #[must_use]
    pub fn disk(self, path: impl AsRef<Path>) -> Option<SimDisk> {
        with_world(|w| w.disks.find(self.0, path.as_ref()).map(SimDisk))
    }
}
