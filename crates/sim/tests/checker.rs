//! Tests of the checker: a backend or disk with one broken promise must be caught within a few seeds, for a raw disk and for
//! a pool.

use backend::{BlockBackend, Durable, Extent, Geometry, Lba, Reply, StorageError, Usage};
use io::disk::{Disk, OpenOptions};
use io::sim::{Node, SimDisk};
use io::{IoBuf, Payload};
use sim::{Scenario, run_with};
use std::sync::Arc;

/// Seeds within which each broken promise must be found.
const SEEDS: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    None,
    /// FLUSH does nothing.
    FlushDropped,
    /// FUA is ignored.
    FuaDropped,
    /// A write is acknowledged before it is done.
    WriteEarly,
    /// A flush is acknowledged before it is done.
    FlushEarly,
    /// Another write may come between the compare and the write.
    CompareNotAtomic,
    /// A compare of different data succeeds.
    CompareBlind,
    /// The last block of a zeroing is not zeroed.
    ZeroShort,
    /// Deallocation covers one block too many.
    DeallocateLong,
    /// Concurrent writes may split a write of many blocks in the middle of a block.
    WriteShifted,
}

struct Liar {
    inner: Arc<dyn BlockBackend>,
    lie: Lie,
}

/// A token of another flush: the only way to obtain one.
async fn other_token() -> Durable {
    let options = OpenOptions {
        create_size: Some(4096),
        ..OpenOptions::default()
    };
    loop {
        if let Ok(disk) = Disk::open("decoy", options.clone()).await {
            return disk.flush().await.expect("the decoy is well").into();
        }
        io::yield_now().await;
    }
}

impl BlockBackend for Liar {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn generation(&self) -> u64 {
        self.inner.generation()
    }

    fn usage(&self) -> Reply<Usage> {
        self.inner.usage()
    }

    fn read(&self, at: Extent) -> Reply<Payload> {
        self.inner.read(at)
    }

    fn write(&self, at: Lba, data: IoBuf) -> Reply<()> {
        let g = self.geometry();
        match self.lie {
            Lie::WriteEarly => {
                drop(io::spawn(self.inner.write(at, data)));
                Reply::now(Ok(()))
            }
            Lie::WriteShifted if data.len() > g.block_size as usize && at.0 + 1 < g.blocks => {
                let mut data = data;
                data.rotate_right(8);
                self.inner.write(at, data)
            }
            _ => self.inner.write(at, data),
        }
    }

    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable> {
        if self.lie != Lie::FuaDropped {
            return self.inner.write_durable(at, data);
        }
        let write = self.inner.write(at, data);
        Reply::later(async move {
            write.await?;
            Ok(other_token().await)
        })
    }

    fn flush(&self) -> Reply<Durable> {
        match self.lie {
            Lie::FlushDropped => Reply::later(async { Ok(other_token().await) }),
            Lie::FlushEarly => {
                drop(io::spawn(self.inner.flush()));
                Reply::later(async { Ok(other_token().await) })
            }
            _ => self.inner.flush(),
        }
    }

    fn write_zeroes(&self, at: Extent, deallocate: bool) -> Reply<()> {
        let blocks = at.blocks - u64::from(self.lie == Lie::ZeroShort);
        self.inner.write_zeroes(Extent { blocks, ..at }, deallocate)
    }

    fn deallocate(&self, at: Extent) -> Reply<()> {
        // A volume may have shrunk meanwhile, so that the extent ends beyond it.
        let room = self
            .geometry()
            .blocks
            .saturating_sub(at.start.0 + at.blocks);
        let blocks = at.blocks + u64::from(self.lie == Lie::DeallocateLong).min(room);
        self.inner.deallocate(Extent { blocks, ..at })
    }

    fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()> {
        self.blind(self.inner.compare(at, expected))
    }

    fn compare_and_write(&self, at: Lba, expected: IoBuf, data: IoBuf) -> Reply<()> {
        if self.lie != Lie::CompareNotAtomic {
            return self.inner.compare_and_write(at, expected, data);
        }
        let inner = self.inner.clone();
        Reply::later(async move {
            inner.compare(at, expected).await?;
            inner.write(at, data).await
        })
    }

    fn refresh(&self) -> Reply<Geometry> {
        self.inner.refresh()
    }

    fn resize(&self, blocks: u64) -> Reply<Geometry> {
        self.inner.resize(blocks)
    }
}

impl Liar {
    fn blind(&self, honest: Reply<()>) -> Reply<()> {
        if self.lie != Lie::CompareBlind {
            return honest;
        }
        Reply::later(async move {
            match honest.await {
                Err(StorageError::Miscompare(_)) => Ok(()),
                other => other,
            }
        })
    }
}

/// A disk of the running machine.
fn disk(name: &str) -> SimDisk {
    Node::current().disk(name).expect("it is there")
}

/// Returns the first seed that catches the broken promise.
fn caught_by(
    scenario: Scenario,
    wrap: fn(Arc<dyn BlockBackend>) -> Arc<dyn BlockBackend>,
) -> Option<u64> {
    (0..SEEDS).find(|seed| run_with(scenario, *seed, false, wrap).is_err())
}

/// A broken promise that the checker must catch in a scenario.
macro_rules! lie {
    ($scenario:expr, $name:ident: $lie:expr) => {
        #[test]
        fn $name() {
            let seed = caught_by($scenario, |inner| Arc::new(Liar { inner, lie: $lie }));
            assert!(seed.is_some(), "this went unnoticed: {}", stringify!($lie));
        }
    };
}

/// All broken promises, in a scenario with a disk of this name that has data in these bytes.
macro_rules! lies {
    ($scenario:expr, $disk:literal, $data:expr) => {
        lie!($scenario, a_dropped_flush: Lie::FlushDropped);
        lie!($scenario, a_dropped_fua: Lie::FuaDropped);
        lie!($scenario, a_write_acknowledged_early: Lie::WriteEarly);
        lie!($scenario, a_flush_acknowledged_early: Lie::FlushEarly);
        lie!($scenario, a_compare_and_write_in_two_steps: Lie::CompareNotAtomic);
        lie!($scenario, a_compare_that_does_not_look: Lie::CompareBlind);
        lie!($scenario, a_zeroing_that_stops_early: Lie::ZeroShort);
        lie!($scenario, a_deallocation_that_goes_too_far: Lie::DeallocateLong);
        lie!($scenario, a_write_that_is_shifted: Lie::WriteShifted);
        lie!($scenario, a_disk_whose_flushes_lie: {
            disk($disk).lie_about_flushes(true);
            Lie::None
        });
        lie!($scenario, a_disk_that_rots: {
            disk($disk).rot($data);
            Lie::None
        });
        lie!($scenario, a_disk_that_drops_a_write: {
            disk($disk).drop_next_write();
            Lie::None
        });
        lie!($scenario, a_disk_that_misdirects_a_write: {
            disk($disk).misdirect_next_write(0);
            Lie::None
        });

        #[test]
        fn an_honest_backend_is_left_in_peace() {
            let honest = |inner| -> Arc<dyn BlockBackend> {
                Arc::new(Liar {
                    inner,
                    lie: Lie::None,
                })
            };
            assert_eq!(caught_by($scenario, honest), None);
        }
    };
}

mod store {
    use super::*;

    lies!(Scenario::Store, "disk", 0..1 << 20);
}

mod pool {
    use super::*;

    // Records and nodes lie there with any seed: labels and journal come before them.
    lies!(Scenario::Pool, "disk0", 8 << 20..64 << 20);
}
