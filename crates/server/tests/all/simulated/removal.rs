//! Removal of vdevs by the control API: its course, its end, and a removal that is given up.

use crate::simulated::fixture::{connect, disk, machine, make, serve_new, write};
use io::sim::{Node, Sim, SimConfig};
use io::time::sleep;
use server::Server;
use server::api::{AddVdevs, CreatePool, ListEvents, RemoveDevice, StopRemoval, VdevSpec};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Blocks that the client writes.
pub(super) const BLOCKS: u64 = 2048;

fn mirror(disks: &[&str]) -> AddVdevs {
    AddVdevs {
        pool: "tank".into(),
        vdevs: vec![VdevSpec::mirror(disks.iter().map(Into::into).collect())],
        spares: Vec::new(),
        caches: Vec::new(),
        size: None,
        force: false,
    }
}

pub(super) fn remove(disk: &str) -> RemoveDevice {
    RemoveDevice {
        pool: "tank".into(),
        disk: disk.into(),
    }
}

fn stop() -> StopRemoval {
    StopRemoval {
        pool: "tank".into(),
    }
}

/// Asks the server on its own machine.
pub(super) async fn on<T: 'static>(
    node: &Node,
    asks: impl Future<Output = server::Result<T>> + 'static,
) -> server::Result<T> {
    node.spawn(asks).await.expect("it has power")
}

pub(super) fn vdevs(server: &Server) -> Vec<String> {
    let vdevs = server.pools().remove(0).vdevs;
    vdevs.into_iter().map(|vdev| vdev.name).collect()
}

fn disks(server: &Server) -> Vec<PathBuf> {
    server.pools().remove(0).disks
}

pub(super) fn events(server: &Server) -> Vec<String> {
    let all = server.events(&ListEvents {
        pool: None,
        after: 0,
    });
    let classes = all.into_iter().map(|event| event.class);
    classes
        .filter(|c| c.starts_with("removal") || c.starts_with("log"))
        .collect()
}

/// Waits until no vdev is being removed and the event is there.
pub(super) async fn wait_for(server: &Server, event: &str) {
    for _ in 0..6000 {
        let is_over = server.pools()[0].removal.is_none();
        if is_over && events(server).last().is_some_and(|e| e == event) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!(
        "{event} does not come: {:?}, {:?}",
        events(server),
        server.pools()
    );
}

/// The contents of a block.
pub(super) fn byte(lba: u64) -> u8 {
    (lba / 16 % 250) as u8 + 1
}

/// Checks the contents of the volume, as the client reads them.
pub(super) async fn read_all(node: &Node) {
    let (_client, namespace) = connect(node).await;
    for lba in 0..BLOCKS {
        let (read, buf) = namespace.read(lba, io::pool().alloc(4096).await).await;
        read.expect("read");
        assert!(buf.iter().all(|b| *b == byte(lba)), "{lba}");
    }
}

/// A mirror of two is emptied and leaves, beside a client; the journal moves before. The server's configuration forgets its disks, which make a new pool.
#[test]
fn a_vdev_is_removed_and_its_disks_are_used_again() {
    Sim::new(21, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b", "/c", "/d"], &disk());
        let server = serve_new(&node, async |server| {
            make(server).await;
            server
                .add_vdevs(mirror(&["/c", "/d"]))
                .await
                .expect("added");
        })
        .await;
        let (client, namespace) = connect(&node).await;
        for lba in (0..BLOCKS).step_by(16) {
            write(&namespace, lba, 16, byte(lba)).await;
        }
        namespace.flush().await.expect("flushed");
        drop((client, namespace));
        assert_eq!(vdevs(&server).len(), 2);
        let asked = server.clone();
        let refused = on(&node, async move { asked.stop_removal(stop()).await }).await;
        let refused = refused.expect_err("nothing to stop").to_string();
        assert!(refused.contains("no vdev is being removed"), "{refused}");
        // given up first: the vdev that has the journal, which moves to the other one
        let asked = server.clone();
        let begun = on(&node, async move {
            let begun = asked.remove_device(remove("/a")).await?;
            asked.stop_removal(stop()).await?;
            Ok(begun)
        });
        let begun = begun.await.expect("begun and given up");
        assert!(begun.removal.is_some_and(|r| !r.is_stopping));
        wait_for(&server, "removal.stop").await;
        assert_eq!(vdevs(&server).len(), 2);
        read_all(&node).await;
        let asked = server.clone();
        let begun = on(
            &node,
            async move { asked.remove_device(remove("/d")).await },
        )
        .await;
        assert!(begun.expect("begun").removal.is_some());
        wait_for(&server, "removal.finish").await;
        assert_eq!(vdevs(&server).len(), 1);
        read_all(&node).await;
        let left: Vec<PathBuf> = ["/a", "/b"].iter().map(Into::into).collect();
        for _ in 0..100 {
            if disks(&server) == left {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(disks(&server), left);
        let asked: Rc<Server> = server.clone();
        let made = on(&node, async move {
            let spec = CreatePool {
                name: "other".into(),
                ..crate::simulated::fixture::pool(&["/c", "/d"])
            };
            asked.create_pool(spec).await
        });
        made.await.expect("the disks are free");
    });
}
