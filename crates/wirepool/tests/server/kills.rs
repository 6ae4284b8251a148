//! Repeated SIGKILL of a pool's server under a client that checks every block.
//!
//! Each writer has its own blocks and writes one at a time. So for each block the test knows the last write that was
//! promised to be durable, by FUA or by a flush, and the last one that was requested. After a kill a block holds one
//! of the writes between them, whole.

use crate::common::{BASE, NQN, Place, Server, client, connect};
use ::cuts::known::Known;
use ::cuts::stamp;
use io::rng::Prng;
use nvmf::wire::command::Nsid;
use nvmf_initiator::{Config, Namespace, Reconnect, WriteOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Number of kills.
const KILLS: u64 = 24;
/// Number of kills after which the offline reader inspects the disks.
const INSPECT_EVERY: u64 = 4;
const WRITERS: u64 = 6;
const BLOCKS: u64 = 384;
const BLOCK: usize = 4096;

/// What is known of all blocks; its moments are lives of the server.
type Blocks = Rc<RefCell<Known>>;

/// Every block is what it may be; what was read is what is there from now on.
async fn check(namespace: &Namespace, blocks: &Blocks, life: u64) {
    for block in 0..BLOCKS {
        let (read, bytes) = namespace.read(block, io::pool().alloc(BLOCK).await).await;
        read.expect("read");
        let found = stamp::which(block, &bytes).expect("a write of this block");
        let mut known = blocks.borrow_mut();
        let range = known.range(block, life);
        assert!(
            range.contains(&found),
            "block {block} holds write {found}: {range:?}"
        );
        known.promised(block, life, found);
    }
}

/// Writes until the server is gone.
async fn write(
    namespace: Namespace,
    blocks: Blocks,
    (life, writer): (u64, u64),
    seed: u64,
    count: Rc<Cell<u64>>,
) {
    let mut rng = Prng::new(seed);
    let mut pending = Vec::new();
    loop {
        let block = rng.below(BLOCKS / WRITERS) * WRITERS + writer;
        let fua = rng.chance(0.4);
        let number = {
            let mut known = blocks.borrow_mut();
            let number = known.range(block, life).end() + 1;
            known.asked(block, life, number);
            number
        };
        let mut buf = io::pool().alloc(BLOCK).await;
        stamp::fill(block, number, &mut buf);
        let written = namespace.write(block, Arc::new(buf), WriteOptions { fua });
        if written.await.is_err() {
            return;
        }
        match fua {
            true => blocks.borrow_mut().promised(block, life, number),
            false => pending.push((block, number)),
        }
        if rng.chance(0.1) {
            if namespace.flush().await.is_err() {
                return;
            }
            for (block, number) in pending.drain(..) {
                blocks.borrow_mut().promised(block, life, number);
            }
        }
        count.set(count.get() + 1);
    }
}

async fn life(config: Config, server: Server, blocks: Blocks, life: u64) {
    let mut rng = Prng::new(life);
    let config = Config {
        reconnect: Reconnect::NEVER,
        ..config
    };
    let controller = connect(config).await;
    let namespace = controller.namespace(Nsid(1)).await.expect("served");
    check(&namespace, &blocks, life).await;
    let count = Rc::new(Cell::new(0));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        let (blocks, count) = (blocks.clone(), count.clone());
        writers.push(io::spawn(write(
            namespace,
            blocks,
            (life, writer),
            rng.u64(),
            count,
        )));
    }
    let enough = 20 + rng.below(600);
    while count.get() < enough {
        io::time::sleep(Duration::from_micros(200)).await;
    }
    server.signal("KILL");
    drop(server);
    for writer in writers {
        writer.await;
    }
}

#[test]
fn what_was_promised_is_there_after_every_kill() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&[
        "pool", "create", "tank", "mirror", "a.img", "b.img", "--size", "96M",
    ]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "16M"]);
    server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN, "--host", "any"]);
    let mut server = Some(server);
    let known = client(async move {
        let blocks: Blocks = Rc::new(RefCell::new(Known::new(BLOCKS)));
        for kill in 0..KILLS {
            let running = server.take().unwrap_or_else(|| place.start());
            if kill % 3 == 1 {
                running.ok(&["pool", "checkpoint", "tank"]);
            }
            let config = running.client();
            life(config, running, blocks.clone(), kill).await;
            if kill % INSPECT_EVERY == 0 {
                place.inspect_sound(&["a.img", "b.img"]);
            }
        }
        let server = place.start();
        let controller = connect(server.client()).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        check(&namespace, &blocks, KILLS).await;
        drop(controller);
        assert!(server.terminate().success());
        let blocks = blocks.borrow();
        let durable = |block| *blocks.range(block, KILLS).start();
        (0..BLOCKS).map(durable).sum::<u64>()
    });
    assert!(known > KILLS * 20, "{known} writes were there");
}
