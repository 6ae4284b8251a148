//! Power cuts while the row mover works.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use backend::BlockBackend;
use io::rng::Prng;
use io::sim::{Node, Sim, SimConfig};
use pool::Pool;

use crate::raidz::members::import;
use crate::raidz::mover::{Blocks, WIDE};
use crate::raidz::{byte, first, make, sound, write};

/// The value of each block that a crash may leave: the last durable one, and all written since.
#[derive(Default)]
struct Durable {
    may_be: Vec<Vec<u8>>,
    moved: u64,
}

/// Overwrites blocks, and makes them durable from time to time, until the power goes.
async fn work(model: Rc<RefCell<Durable>>, seed: u64) {
    let pool = reopened().await;
    let volume = pool.volume("vm").expect("it is there");
    let mut rng = Prng::new(seed);
    let count = model.borrow().may_be.len() as u64;
    loop {
        let mut written_now = Vec::with_capacity(200);
        for n in 0..200 {
            let (at, value) = (rng.below(count), byte(seed + n));
            written_now.push(at as usize);
            model.borrow_mut().may_be[at as usize].push(value);
            let written = write(&volume, at, 1, value).await;
            written.unwrap_or_else(|e| panic!("block {at}: {e}"));
            let moved = pool.row_moves().expect("a raidz").moved;
            model.borrow_mut().moved = moved;
        }
        let _proof = volume.flush().await.expect("flush");
        for at in written_now {
            let values = &mut model.borrow_mut().may_be[at];
            *values = vec![*values.last().expect("it was filled")];
        }
    }
}

async fn reopened() -> Pool {
    // requests of a process that lost its power still hold the disks
    io::time::sleep(Duration::from_secs(1)).await;
    import(0..10).await.expect("opened")
}

/// Each block is as it was written last before a flush, or later.
async fn check_durable(model: Rc<RefCell<Durable>>) {
    let pool = reopened().await;
    let volume = pool.volume("vm").expect("it is there");
    let may_be = std::mem::take(&mut model.borrow_mut().may_be);
    let mut found = Vec::with_capacity(may_be.len());
    for (at, values) in (0..).zip(may_be) {
        let value = first(&volume, at).await;
        assert!(
            values.contains(&value),
            "block {at}: {value}, not one of {values:?}"
        );
        found.push(vec![value]);
    }
    model.borrow_mut().may_be = found;
    sound(&pool).await;
    pool.close().await.expect("closed");
}

#[test]
fn power_cuts_amid_moves_lose_nothing() {
    Sim::new(21, SimConfig::default()).block_on(async {
        let node = Node::new();
        let model = Rc::new(RefCell::new(Durable::default()));
        let filled = model.clone();
        let fill = node.spawn(async move {
            let pool = make(WIDE).await;
            let mut blocks = Blocks::filled(&pool, 60, 21).await;
            blocks.overwrite(blocks.wanted.len() as u64 / 2).await;
            filled.borrow_mut().may_be = blocks.wanted.iter().map(|n| vec![*n]).collect();
            pool.close().await.expect("closed");
        });
        fill.await.expect("it has power");
        let mut rng = Prng::new(21);
        let mut moved = 0;
        for round in 0..4 {
            model.borrow_mut().moved = 0;
            let working = node.spawn(work(model.clone(), 1000 * round));
            let time = Duration::from_micros(1_500_000 + rng.below(1_500_000));
            let ended = io::timeout(time, working).await;
            assert!(ended.is_err(), "a panic in round {round}");
            moved += model.borrow().moved;
            node.power_cut();
            node.power_on();
            node.spawn(check_durable(model.clone()))
                .await
                .expect("it has power");
        }
        assert!(moved > 0, "records were moved in some round");
    });
}
