//! The disks of all simulated nodes, who has them open, and their operations in flight.

use super::config::DiskConfig;
use super::faults::Faults;
use super::medium::{Medium, Source};
use super::state::{DiskState, Work};
use crate::disk::{DiskInfo, DiskKind, OpenOptions};
use crate::runtime::{NodeId, Op, OpTable};
use crate::sim::DiskId;
use crate::sim::core::{Core, Holder};
use crate::sim::event::{DiskEvent, Event, Nanos};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One opening of a disk.
pub(super) struct Open {
    pub(super) disk: usize,
    node: NodeId,
    read_only: bool,
}

struct InFlight {
    key: usize,
    disk: usize,
    node: NodeId,
    work: Work,
    /// Count or negative errno, decided at the start.
    result: i32,
    touched: bool,
}

/// All disks.
#[derive(Default)]
pub(in crate::sim) struct Disks {
    pub(super) disks: Vec<DiskState>,
    pub(super) opens: BTreeMap<DiskId, Open>,
    in_flight: BTreeMap<u64, InFlight>,
    next_open: u32,
}

impl Disks {
    pub(in crate::sim) fn create(
        &mut self,
        node: NodeId,
        path: &Path,
        config: DiskConfig,
    ) -> usize {
        assert!(
            self.find(node, path).is_none(),
            "node {node} has a disk {} already",
            path.display()
        );
        assert!(
            config.size.is_multiple_of(u64::from(config.logical_block)),
            "a disk has whole blocks"
        );
        self.disks.push(DiskState {
            node,
            path: path.to_path_buf(),
            size: config.size,
            medium: Medium::new(config.logical_block),
            faults: Faults::default(),
            gone: false,
            written: 0,
            config,
        });
        self.disks.len() - 1
    }

    pub(in crate::sim) fn find(&self, node: NodeId, path: &Path) -> Option<usize> {
        self.disks
            .iter()
            .position(|d| d.node == node && d.path == path)
    }

    pub(in crate::sim) fn open(
        &mut self,
        node: NodeId,
        path: &Path,
        o: &OpenOptions,
    ) -> Result<(DiskId, DiskInfo)> {
        let disk = match (self.find(node, path), o.create_size) {
            (Some(d), _) => d,
            (None, Some(size)) if !o.read_only => self.create(
                node,
                path,
                DiskConfig {
                    size,
                    kind: DiskKind::File,
                    ..DiskConfig::default()
                },
            ),
            (None, _) => return Err(Error::NotFound),
        };
        let d = &self.disks[disk];
        if d.gone {
            return Err(Error::Gone(libc::ENXIO));
        }
        let held = self
            .opens
            .values()
            .any(|o2| o2.disk == disk && !(o2.read_only && o.read_only));
        if held {
            return Err(Error::Busy(libc::EWOULDBLOCK));
        }
        let info = DiskInfo {
            path: path.to_path_buf(),
            kind: d.config.kind,
            size: d.size,
            logical_block: d.config.logical_block,
            physical_block: d.config.physical_block.max(d.config.logical_block),
            direct: !o.buffered,
            read_only: o.read_only,
            rotational: d.config.rotational,
            volatile_cache: d.config.volatile_cache,
        };
        let id = DiskId(self.next_open);
        self.next_open += 1;
        self.opens.insert(
            id,
            Open {
                disk,
                node,
                read_only: o.read_only,
            },
        );
        Ok((id, info))
    }

    pub(in crate::sim) fn close(&mut self, id: DiskId) {
        self.opens.remove(&id);
    }

    fn opened(&self, id: DiskId) -> Result<usize> {
        match self.opens.get(&id) {
            Some(o) if !self.disks[o.disk].gone => Ok(o.disk),
            _ => Err(Error::Gone(libc::ENODEV)),
        }
    }

    pub(in crate::sim) fn size(&self, id: DiskId) -> Result<u64> {
        self.opened(id).map(|d| self.disks[d].size)
    }

    /// Bytes that take space.
    pub(in crate::sim) fn used(&self, id: DiskId) -> Result<u64> {
        self.opened(id).map(|d| self.disks[d].medium.used())
    }

    /// Allocates space for a range, at once and durably.
    pub(in crate::sim) fn reserve(&mut self, id: DiskId, offset: u64, len: u64) -> Result<()> {
        let disk = self.opened(id)?;
        let DiskState {
            medium,
            faults,
            config,
            ..
        } = &mut self.disks[disk];
        let block = u64::from(config.logical_block);
        let blocks = offset / block..(offset + len).div_ceil(block);
        let most = faults.space.map_or(u64::MAX, |space| space / block);
        match medium.reserve(blocks, most) {
            true => Ok(()),
            false => Err(Error::NoSpace),
        }
    }

    pub(in crate::sim) fn resize(&mut self, id: DiskId, size: u64) -> Result<()> {
        let disk = self.opened(id)?;
        let disk = &mut self.disks[disk];
        if disk.config.kind == DiskKind::Block {
            return Err(Error::Unsupported(libc::ENOTTY));
        }
        disk.set_size(size);
        Ok(())
    }

    /// Starts an operation. Returns a node whose power is cut at this step, if any.
    pub(in crate::sim) fn start(&mut self, core: &mut Core, key: usize, op: &Op) -> Option<NodeId> {
        let id = match op {
            Op::Read { disk, .. }
            | Op::Write { disk, .. }
            | Op::Flush { disk }
            | Op::Zero { disk, .. } => disk.sim().id(),
            Op::Accept { .. }
            | Op::Connect { .. }
            | Op::Recv { .. }
            | Op::Send { .. }
            | Op::Readable { .. } => {
                unreachable!("the world sends sockets their own operations")
            }
        };
        let serial = core.serial();
        core.pending.insert(key, Holder::Disk { serial });
        let (Ok(disk), Some(open)) = (self.opened(id), self.opens.get(&id)) else {
            core.complete(key, -libc::ENODEV);
            return None;
        };
        let (node, read_only) = (open.node, open.read_only);
        let (work, result) = match self.prepare(core, disk, op) {
            Ok((Work::Write { .. }, _)) if read_only => return self.refuse(core, key, libc::EBADF),
            Ok(prepared) => prepared,
            Err(errno) => return self.refuse(core, key, errno),
        };
        core.trace
            .note(core.clock, work.name(), key as u64, work.first());
        let DiskState { faults, config, .. } = &mut self.disks[disk];
        // At least a nanosecond, during which the write takes effect.
        let done = core.clock + 1 + faults.latency(core, config, &work);
        if let Work::Write { blocks, .. } = &work {
            self.schedule_effects(core, serial, *blocks, done);
        }
        self.in_flight.insert(
            serial,
            InFlight {
                key,
                disk,
                node,
                work,
                result,
                touched: false,
            },
        );
        core.schedule(done, Event::Disk(DiskEvent::Done { serial }));
        core.disk_step(node).then_some(node)
    }

    fn refuse(&self, core: &mut Core, key: usize, errno: i32) -> Option<NodeId> {
        core.complete(key, -errno);
        None
    }

    /// Schedules one or two times before the end at which the blocks reach the cache.
    fn schedule_effects(&self, core: &mut Core, serial: u64, blocks: u64, done: Nanos) {
        let split = if core.rng.chance(0.3) {
            core.upto(blocks)
        } else {
            blocks
        };
        for (from, to) in [(0, split), (split, blocks)] {
            if from < to {
                let at = core.clock + core.upto(done - core.clock - 1);
                core.schedule(at, Event::Disk(DiskEvent::Effect { serial, from, to }));
            }
        }
    }

    fn prepare(
        &mut self,
        core: &mut Core,
        disk: usize,
        op: &Op,
    ) -> std::result::Result<(Work, i32), i32> {
        let in_flight: BTreeSet<u64> = self
            .in_flight
            .iter()
            .filter(|(_, f)| f.disk == disk)
            .map(|(serial, _)| *serial)
            .collect();
        let d = &mut self.disks[disk];
        match op {
            Op::Read {
                buf, done, offset, ..
            } => {
                let offset = offset + *done as u64;
                let len = d.readable(offset, buf.len() - done)?;
                d.faults.reading(core, &d.config, offset, len as u64)?;
                Ok((
                    Work::Read { offset, len },
                    i32::try_from(len).expect("a buffer is small"),
                ))
            }
            Op::Write {
                data,
                offset,
                dsync,
                ..
            } => {
                let source = Source::of(data, d.config.logical_block);
                d.write(core, *offset, source, *dsync, true)
            }
            Op::Zero {
                offset,
                len,
                deallocate,
                ..
            } => {
                if offset.checked_add(*len).is_none_or(|end| end > d.size)
                    && d.config.kind == DiskKind::Block
                {
                    return Err(libc::EINVAL);
                }
                let len = (*len).min(d.size.saturating_sub(*offset));
                let block = u64::from(d.config.logical_block);
                let blocks = len / block;
                if *deallocate {
                    d.medium.unreserve(*offset / block, blocks);
                }
                let source = match *deallocate && d.config.trims_to_garbage {
                    true => Source::Garbage(blocks),
                    false => Source::Zeroes(blocks),
                };
                let (work, result) = d.write(core, *offset, source, false, false)?;
                Ok((work, result.min(0)))
            }
            Op::Flush { .. } => {
                d.faults.flushing(core, &d.config)?;
                Ok((
                    Work::Flush {
                        upto: d.medium.next_version(),
                        in_flight,
                    },
                    0,
                ))
            }
            Op::Accept { .. }
            | Op::Connect { .. }
            | Op::Recv { .. }
            | Op::Send { .. }
            | Op::Readable { .. } => Err(libc::EINVAL),
        }
    }

    /// Cancels an operation whose future was dropped, if it has had no effect yet.
    pub(in crate::sim) fn cancel(&mut self, core: &mut Core, serial: u64) {
        let withdraw = core.ending || core.rng.chance(0.5);
        if let Some(f) = self.in_flight.get(&serial)
            && withdraw
            && (core.ending || !f.touched)
        {
            core.end_later(f.key);
            self.in_flight.remove(&serial);
        }
    }

    /// Handles an event. Returns a node whose power is cut at this step, if any.
    pub(in crate::sim) fn happen(
        &mut self,
        core: &mut Core,
        event: DiskEvent,
        ops: &mut OpTable,
    ) -> Option<NodeId> {
        match event {
            DiskEvent::Effect { serial, from, to } => {
                let f = self.in_flight.get_mut(&serial)?;
                f.touched = true;
                if let Work::Write { first, source, .. } = &f.work {
                    self.disks[f.disk]
                        .medium
                        .put(*first, source, from, to, serial);
                }
                None
            }
            DiskEvent::Done { serial } => {
                if let Some(node) = self.in_flight.get(&serial).map(|f| f.node)
                    && core.disk_step(node)
                {
                    return Some(node);
                }
                let f = self.in_flight.remove(&serial)?;
                self.finish(core, serial, &f, ops);
                None
            }
        }
    }

    fn finish(&mut self, core: &mut Core, serial: u64, f: &InFlight, ops: &mut OpTable) {
        let d = &mut self.disks[f.disk];
        match &f.work {
            Work::Read { offset, len } => {
                if let Op::Read { buf, done, .. } = ops.get_mut(f.key) {
                    let out = &mut buf[*done..*done + *len];
                    d.medium.read(*offset, out);
                    core.trace.bytes(out);
                }
            }
            Work::Write {
                first,
                blocks,
                through,
                ..
            } => {
                if f.result >= 0 && (*through || !d.config.volatile_cache) {
                    d.medium.make_durable(*first, *blocks, serial);
                }
            }
            Work::Flush { upto, in_flight } => {
                if !d.faults.flushes_lie {
                    d.medium.flush(*upto, in_flight);
                }
            }
        }
        core.complete(f.key, f.result);
    }

    pub(in crate::sim) fn power_cut(&mut self, core: &mut Core, node: NodeId) {
        for disk in 0..self.disks.len() {
            if self.disks[disk].node == node {
                self.lose_cache(core, disk);
            }
        }
        self.opens.retain(|_, o| o.node != node);
    }

    /// The disk loses power: decides the fate of its cache, and fails the operations in flight.
    pub(super) fn lose_cache(&mut self, core: &mut Core, disk: usize) {
        let serials: Vec<u64> = self
            .in_flight
            .iter()
            .filter(|(_, f)| f.disk == disk)
            .map(|(s, _)| *s)
            .collect();
        for serial in serials {
            let Some(f) = self.in_flight.remove(&serial) else {
                continue;
            };
            if let Work::Write {
                first,
                source,
                blocks,
                ..
            } = &f.work
            {
                for block in 0..*blocks {
                    if core.rng.chance(0.3) {
                        self.disks[disk]
                            .medium
                            .put(*first, source, block, block + 1, serial);
                    }
                }
            }
            core.complete(f.key, -libc::ENODEV);
        }
        let d = &mut self.disks[disk];
        d.medium
            .power_cut(&mut core.rng, d.config.power_cut, d.config.atomic_unit);
    }
}
