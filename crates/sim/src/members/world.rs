//! A pool with one mirror or raidz under test, its disks, and the expected state of its members.
//!
//! **Owns** the pool under test and the model of its members: the disks that have every durable write. **Called by** the
//! search. **Invariants**: each member that the pool reports as in is current in the model; the pool is opened with the disks
//! that are present, and only a split brain is opened by force.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use io::rng::Prng;
use io::sim::{DiskConfig, Node};
use io::time::sleep;
use pool::Pool;
use pool::format::{MemberGuid, VdevId};
use pool::vdev::{MemberState, MemberStatus, SetupError};

use super::Key;
use super::start::Start;
use super::tank::{Memory, check, force, import, make, name, opened, write, wrong};
use super::{End, Op};
use crate::churn::gather;
use crate::classes::caches;
use crate::model::Violation;

const DISK_SIZE: u64 = 64 << 20;
const GROWTH: u64 = 16 << 20;
/// Milliseconds that an expansion of the idle vdev may take.
const EXPANSION_MS_MAX: usize = 60_000;
/// Number of disks besides those of the first vdevs: a new one for each operation of the longest sequence.
const SPARES: usize = 6;

/// A member as the pool reports it.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) vdev: VdevId,
    pub(super) disk: usize,
    pub(super) guid: MemberGuid,
    pub(super) state: MemberState,
    pub(super) held: u64,
}

pub(super) struct World {
    pub(super) node: Node,
    pub(super) start: Start,
    pub(super) memory: Memory,
    pub(super) pool: Option<Rc<Pool>>,
    /// For each disk: whether the server can open it.
    pub(super) present: Vec<bool>,
    /// Disks that have every durable write, by vdev.
    pub(super) current: BTreeMap<VdevId, BTreeSet<usize>>,
    /// Disks of all members when the pool was last open, by vdev.
    known: BTreeMap<VdevId, BTreeSet<usize>>,
    /// Disk of each member, present or not.
    pub(super) disks: BTreeMap<MemberGuid, usize>,
    /// Number of the last write, from 1.
    version: u8,
    /// For each disk that was in: the last write that it got.
    holds: BTreeMap<usize, u8>,
    pub(super) has_grown: bool,
    /// Whether no operation was run since the server started.
    is_fresh: bool,
    /// Faults of the cache device.
    faults: Prng,
}

impl World {
    pub(super) async fn new(start: Start) -> Result<Self, Violation> {
        let node = Node::new();
        let count = start.members + start.disks_beside() + SPARES;
        let config = DiskConfig {
            size: DISK_SIZE,
            ..DiskConfig::default()
        };
        for disk in 0..count {
            node.create_disk(name(disk), config.clone());
        }
        let faults = caches::create(node, (start.has_cache, &config), 0);
        let memory = Memory::default();
        let remember = start.remembers.then(|| memory.clone());
        let made = node.spawn(make(start, remember));
        let pool = Rc::new(made.await.expect("it has power")?);
        let mut world = World {
            node,
            start,
            memory,
            pool: Some(pool),
            present: vec![true; count],
            current: BTreeMap::new(),
            known: BTreeMap::new(),
            disks: BTreeMap::new(),
            version: 1,
            holds: BTreeMap::new(),
            has_grown: false,
            is_fresh: false,
            faults,
        };
        world.look();
        Ok(world)
    }

    /// The members as the pool reports them; empty if it is not open.
    pub(super) fn members(&self) -> Vec<Member> {
        let vdevs = self.pool.as_ref().map(|pool| pool.vdevs().status());
        let of_vdev = |vdev: pool::vdev::VdevStatus| {
            let member = move |s: MemberStatus| Member {
                vdev: vdev.id,
                disk: self.disk_of(&s),
                guid: s.guid,
                state: s.state,
                held: s.held.0,
            };
            vdev.members.into_iter().map(member).collect::<Vec<_>>()
        };
        vdevs.into_iter().flatten().flat_map(of_vdev).collect()
    }

    fn disk_of(&self, member: &MemberStatus) -> usize {
        let is_it = |disk: &usize| member.path == Path::new(&name(*disk));
        let there = (0..self.present.len()).find(is_it);
        there.unwrap_or_else(|| self.disks[&member.guid])
    }

    /// Updates the model from the members that the pool reports as in.
    fn look(&mut self) {
        let members = self.members();
        self.disks.extend(members.iter().map(|m| (m.guid, m.disk)));
        self.current.clear();
        self.known.clear();
        for member in &members {
            let of_vdev = self.known.entry(member.vdev).or_default();
            of_vdev.insert(member.disk);
        }
        for member in members.iter().filter(|m| m.state == MemberState::Online) {
            let of_vdev = self.current.entry(member.vdev).or_default();
            of_vdev.insert(member.disk);
            self.holds.insert(member.disk, self.version);
        }
    }

    /// Whether the pool is open.
    pub(super) fn is_open(&self) -> bool {
        self.pool.is_some()
    }

    /// What the model knows of a disk: whether it is present, the vdev of which it has all data, and whether it has the last
    /// write.
    pub(super) fn facts(&self, disk: usize) -> String {
        let mut current = self.current.iter();
        let vdev = current.find(|(_, disks)| disks.contains(&disk));
        let has_last = self.holds.get(&disk) == Some(&self.version);
        format!(
            "{} {:?} {has_last}",
            self.present[disk],
            vdev.map(|(v, _)| v.0)
        )
    }

    /// Whether the present disks make a pool that is known to have everything durable: enough members that are in, and a
    /// proof that no other ones are newer (`docs/decisions/0153`).
    fn is_complete(&self) -> bool {
        let present =
            |disks: &BTreeSet<usize>| disks.iter().filter(|disk| self.present[**disk]).count();
        let enough = |(vdev, current): (&VdevId, &BTreeSet<usize>)| {
            let known = &self.known[vdev];
            let needed = match *vdev {
                tested if tested == self.start.vdev() => self.start.needed(known.len()),
                // Each other vdev is a disk.
                _ => 1,
            };
            let has_all = present(current) == current.len();
            let has_newest_label = present(known) > known.len() - needed;
            let is_proven = self.start.remembers || has_all || has_newest_label;
            is_proven && present(current) >= needed
        };
        self.current.iter().all(enough)
    }

    /// Disks that are or were members.
    pub(super) fn used(&self) -> BTreeSet<usize> {
        self.disks.values().copied().collect()
    }

    /// Disks that the server can open.
    fn present(&self) -> Vec<usize> {
        let used = self.used().into_iter();
        used.filter(|disk| self.present[*disk]).collect()
    }

    fn kill(&mut self) {
        self.pool = None;
        self.node.kill();
        caches::break_device(self.node, &mut self.faults);
    }

    /// Starts the server with the present disks, and checks whether the pool opens as the model demands.
    async fn start(&mut self) -> Result<(), Violation> {
        self.is_fresh = true;
        let (start, which, memory) = (self.start, self.present(), self.memory.clone());
        let memory = start.remembers.then_some(memory);
        let version = self.version;
        let is_open = self.node.spawn(async move {
            match import(start, which, memory).await {
                Ok(pool) => check(&pool, version).await.map(|()| Ok(Rc::new(pool))),
                Err(error) => Ok(Err(error)),
            }
        });
        match (is_open.await.expect("it has power")?, self.is_complete()) {
            (Err(e), true) => Err(wrong("a complete pool does not open", e)),
            (Ok(_), false) => Err(Violation(
                "it opens without a member that may be newer".into(),
            )),
            (Err(SetupError::MemberMissing { .. } | SetupError::VdevMissing { .. }), false) => {
                Ok(())
            }
            (Err(SetupError::LogMissing { vdev, .. }), false) if vdev == self.start.vdev() => {
                Ok(())
            }
            // No disk of the pool is present.
            (Err(SetupError::Device), false) => Ok(()),
            (Err(e), false) => Err(wrong("it is refused for another reason", e)),
            (Ok(pool), true) => {
                self.pool = Some(pool);
                let trusted = |m: &Member| {
                    let current = self.current.get(&m.vdev);
                    m.state != MemberState::Online || current.is_some_and(|c| c.contains(&m.disk))
                };
                let members = self.members();
                if let Some(member) = members.iter().find(|m| !trusted(m)) {
                    let text = format!("it missed writes and is trusted: {member:?}");
                    return Err(Violation(text));
                }
                self.look();
                Ok(())
            }
        }
    }

    /// Calls `f` with the open pool.
    async fn with<T: 'static, F: Future<Output = Result<T, SetupError>> + 'static>(
        &mut self,
        what: &'static str,
        act: impl FnOnce(Rc<Pool>) -> F,
    ) -> Result<T, Violation> {
        self.is_fresh = false;
        let pool = self.pool.clone().expect("it is open");
        let done = self.node.spawn(act(pool)).await.expect("it has power");
        self.look();
        done.map_err(|e| wrong(what, e))
    }

    fn guid(&self, disk: usize) -> MemberGuid {
        let members = self.members();
        let found = members.iter().find(|m| m.disk == disk);
        found.expect("it is a member").guid
    }

    async fn resilver(&mut self) -> Result<(), Violation> {
        let resilver = async |pool: Rc<Pool>| pool.resilver(|_| ()).await.map(drop);
        self.with("resilvering", resilver).await
    }

    async fn attach(&mut self, disk: usize) -> Result<(), Violation> {
        if !self.start.is_mirror() {
            return self.expand(disk).await;
        }
        let tested = self.start.vdev();
        let attach = async move |pool: Rc<Pool>| {
            let disk = opened(disk, false).await;
            pool.vdevs().attach(tested, disk, true).await.map(drop)
        };
        self.with("attaching", attach).await
    }

    /// Expands a raidz, and waits until all rows are moved.
    async fn expand(&mut self, disk: usize) -> Result<(), Violation> {
        let tested = self.start.vdev();
        let expand = async move |pool: Rc<Pool>| {
            let disk = opened(disk, false).await;
            pool.expand(tested, disk, true).await?;
            for _ in 0..EXPANSION_MS_MAX {
                if pool.vdevs().expansion(tested).is_none() {
                    return Ok(true);
                }
                sleep(Duration::from_millis(1)).await;
            }
            Ok(false)
        };
        match self.with("expanding", expand).await? {
            true => Ok(()),
            false => Err(Violation("an expansion does not end".into())),
        }
    }

    /// Puts a disk in the place of a member of a raidz.
    async fn replace(&mut self, old: usize, new: usize) -> Result<(), Violation> {
        let guid = self.guid(old);
        let replace = async move |pool: Rc<Pool>| {
            let disk = opened(new, false).await;
            pool.vdevs().replace(guid, disk, true).await.map(drop)
        };
        self.with("replacing", replace).await
    }

    async fn detach(&mut self, disk: usize) -> Result<(), Violation> {
        let guid = self.guid(disk);
        let detach = async move |pool: Rc<Pool>| pool.vdevs().detach(guid).await;
        self.with("detaching", detach).await
    }

    async fn online(&mut self, disk: usize) -> Result<(), Violation> {
        let guid = self.guid(disk);
        let online = async move |pool: Rc<Pool>| pool.vdevs().online(guid, None).await;
        self.with("online", online).await
    }

    pub(super) async fn apply(&mut self, op: &Op) -> Result<(), Violation> {
        match *op {
            Op::Offline(disk) => {
                let guid = self.guid(disk);
                let offline = async move |pool: Rc<Pool>| pool.vdevs().offline(guid).await;
                self.with("offline", offline).await
            }
            Op::Online(disk) => {
                self.online(disk).await?;
                self.resilver().await
            }
            Op::Vanish(disk) | Op::Return(disk) => {
                self.kill();
                self.present[disk] = matches!(op, Op::Return(_));
                self.start().await
            }
            Op::Attach(disk) => self.attach(disk).await,
            Op::Detach(disk) => self.detach(disk).await,
            Op::Replace(old, new) if !self.start.is_mirror() => {
                self.replace(old, new).await?;
                self.resilver().await
            }
            Op::Replace(old, new) => {
                self.attach(new).await?;
                self.resilver().await?;
                self.detach(old).await
            }
            Op::Add(disk) => {
                let add = async move |pool: Rc<Pool>| {
                    let disks = vec![opened(disk, false).await];
                    pool.add_vdev(disks, true).await.map(drop)
                };
                self.with("adding", add).await
            }
            Op::Grow => self.grow().await,
            Op::Write => {
                self.is_fresh = false;
                self.version += 1;
                let (pool, version) = (self.pool.clone().expect("it is open"), self.version);
                let written = self.node.spawn(async move { write(&pool, version).await });
                written.await.expect("it has power")?;
                self.look();
                Ok(())
            }
            Op::Restart => {
                let pool = self.pool.take().expect("it is open");
                let pool = Rc::into_inner(pool).expect("nobody else has it");
                let closed = self.node.spawn(async move { pool.close().await });
                let closed = closed.await.expect("it has power");
                closed.map_err(|e| wrong("closing", e))?;
                self.kill();
                self.start().await
            }
        }
    }

    async fn grow(&mut self) -> Result<(), Violation> {
        for disk in 0..self.present.len() {
            let disk = self.node.disk(name(disk)).expect("it was made");
            disk.set_size(DISK_SIZE + GROWTH);
        }
        self.has_grown = true;
        let tested = self.start.vdev();
        let grow = async move |pool: Rc<Pool>| pool.grow(tested).await;
        match self.with("growing", grow).await? {
            true => Ok(()),
            false => Err(Violation("a vdev whose disks grew did not grow".into())),
        }
    }

    /// Ends a sequence, and checks its state if `is_new` returns true for its key. Returns the operations that are possible next and
    /// the state; fails with the violation.
    pub(super) async fn finish(
        mut self,
        is_new: impl FnOnce(Key) -> bool,
    ) -> Result<End, Violation> {
        let (next, is_open) = (self.next(), self.is_open());
        let refused = self.refusals().await?;
        let members = self.members();
        self.kill();
        let key = self.key(&members, is_open).await;
        self.kill();
        let was_split = match is_new(key) {
            true => self.check_state().await?,
            false => false,
        };
        Ok(End {
            key,
            next,
            is_open,
            was_split,
            refused,
            trace: 0,
        })
    }

    /// Checks the state at the end of a sequence. Returns whether a split brain was made.
    async fn check_state(&mut self) -> Result<bool, Violation> {
        let is_whole = !self.present.contains(&false);
        // A server that was just started need not be started again.
        if is_whole || !self.is_fresh {
            self.start().await?;
        }
        if !is_whole {
            self.kill();
            self.present.fill(true);
            self.start().await?;
        }
        let pool = self.pool.clone().expect("it is complete");
        let gathered = self.node.spawn(async move { gather(&pool, &[]).await });
        gathered.await.expect("it has power")?;
        self.look();
        self.kill();
        self.start().await?;
        let members = self.members();
        if let Some(member) = members.iter().find(|m| m.state != MemberState::Online) {
            return Err(Violation(format!("it was resilvered: {member:?}")));
        }
        self.kill();
        self.split(&members).await
    }

    /// Opens two sets of members by force, each without the other: as many members as the vdev needs. Then the pool must be
    /// refused when both are present, even by force. Returns whether there are two such sets.
    async fn split(&mut self, members: &[Member]) -> Result<bool, Violation> {
        let tested = self.start.vdev();
        let of_first = members.iter().filter(|m| m.vdev == tested).map(|m| m.disk);
        let of_first: Vec<_> = of_first.collect();
        let needed = self.start.needed(of_first.len());
        if of_first.len() < 2 * needed {
            return Ok(false);
        }
        let others = members.iter().filter(|m| m.vdev != tested).map(|m| m.disk);
        let others: Vec<_> = others.collect();
        for half in of_first.chunks(needed).take(2) {
            let which = [half, &others[..]].concat();
            let forced = self.node.spawn(force(which)).await.expect("it has power");
            forced.map_err(|e| wrong("a half does not open by force", e))?;
            self.kill();
        }
        let both = [&of_first[..2 * needed], &others[..]].concat();
        let both = self.node.spawn(force(both)).await.expect("it has power");
        self.kill();
        match both {
            Err(SetupError::Apart { .. }) => Ok(true),
            Err(e) => Err(wrong("a split brain is refused for another reason", e)),
            Ok(()) => Err(Violation("a split brain opens".into())),
        }
    }
}
