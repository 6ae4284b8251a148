//! The simulator's driver: passes operations to a [`World`] instead of a kernel.

use super::World;
use super::shards::Turns;
use crate::clock::Instant;
use crate::runtime::{Completion, Driver, NodeId, OpTable, ShardId, Wait};
use std::time::Duration;

pub(super) struct SimDriver {
    world: World,
    turns: Turns,
}

impl SimDriver {
    pub(super) fn new(world: World) -> SimDriver {
        SimDriver {
            world,
            turns: Turns::default(),
        }
    }
}

impl Driver for SimDriver {
    fn push(&mut self, key: usize, ops: &mut OpTable) {
        self.world.start(key, ops);
    }

    fn cancel(&mut self, key: usize) {
        self.world.cancel(key);
    }

    fn wait(&mut self, wait: Wait, ops: &mut OpTable, done: &mut Vec<Completion>) -> bool {
        let timeout = match wait {
            Wait::Poll => Some(Duration::ZERO),
            Wait::Until(at) => Some(at.since(Instant(self.world.clock()))),
            Wait::Forever => None,
        };
        self.world.advance(timeout, ops, done);
        true
    }

    fn now(&self) -> Instant {
        Instant(self.world.read_clock())
    }

    fn wall_clock_ms(&self) -> u64 {
        // 2026-01-01 00:00 UTC, so that a run does not depend on the day.
        1_767_225_600_000 + self.world.clock() / 1_000_000
    }

    fn random(&mut self, out: &mut [u8]) {
        self.world.random(out);
    }

    fn choose(&mut self, n: usize) -> usize {
        self.world.choose(n)
    }

    fn next_shard(&mut self, ready: &[ShardId]) -> Option<ShardId> {
        let now = Instant(self.world.clock());
        let world = &mut self.world;
        self.turns.next(ready, now, &mut |n| world.choose(n))
    }

    fn pause(&self, ready: &[ShardId]) -> Duration {
        self.turns.pause(ready, Instant(self.world.clock()))
    }

    fn crashed(&mut self) -> Vec<NodeId> {
        self.world.take_crashed()
    }

    fn sim(&mut self) -> Option<&mut World> {
        Some(&mut self.world)
    }
}
