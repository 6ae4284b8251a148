//! Cache devices by the control API: added, read from, lost beside a client, kept over a restart, and removed.

use crate::simulated::fixture::{connect, disk, machine, make, serve_new, start, write};
use crate::simulated::removal::{BLOCKS, byte, on, read_all, remove};
use io::sim::{Node, Sim, SimConfig};
use io::time::sleep;
use server::Server;
use server::api::{AddVdevs, Cache, ListEvents};
use std::rc::Rc;
use std::time::Duration;

/// The pool and the volume of [`make`], whose reads do not end in memory.
const SAVED: &str = r#"
[nvmf]
listen = ["0.0.0.0:4420"]
[[pool]]
name = "tank"
disks = ["/a", "/b"]
caches = ["/c", "/gone"]
record_cache_mib = 0
[[subsystem]]
nqn = "nqn.2026-01.org.example:vm1"
hosts = ["any"]
[[subsystem.namespace]]
nsid = 1
disk = "tank/vm1"
"#;

fn add(caches: &[&str]) -> AddVdevs {
    AddVdevs {
        pool: "tank".into(),
        vdevs: Vec::new(),
        spares: Vec::new(),
        caches: caches.iter().map(Into::into).collect(),
        size: None,
        force: false,
    }
}

fn caches(server: &Rc<Server>) -> Vec<Cache> {
    server.pools().remove(0).caches
}

fn events(server: &Rc<Server>) -> Vec<String> {
    let all = server.events(&ListEvents::default());
    all.into_iter().map(|event| event.class).collect()
}

/// A server on `node` that has opened its cache device.
async fn restarted(node: &Node) -> Rc<Server> {
    let starting = node.spawn(async { start(SAVED).await });
    let server = starting.await.expect("it has power");
    wait_until(|| caches(&server).iter().any(|c| c.reason.is_none())).await;
    server
}

async fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not happen");
}

#[test]
fn a_cache_device_is_added_kept_lost_and_removed() {
    Sim::new(31, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b", "/c", "/d"], &disk());
        let server = serve_new(&node, async |server| make(server).await).await;
        for (paths, said) in [
            (vec!["/a"], "belongs to the pool"),
            (vec!["/d", "/d"], "named twice"),
            (vec![], "name the disks"),
        ] {
            let (asked, request) = (server.clone(), add(&paths));
            let refused = on(&node, async move { asked.add_vdevs(request).await }).await;
            let refused = refused.expect_err(said).to_string();
            assert!(refused.contains(said), "{refused}");
            assert!(caches(&server).is_empty());
        }
        let asked = server.clone();
        let added = on(
            &node,
            async move { asked.add_vdevs(add(&["/c", "/d"])).await },
        );
        let added = added.await.expect("added").caches;
        let is_ready = |c: &Cache| c.reason.is_none() && c.size > 64 << 20 && c.blocks == 0;
        assert!(added.len() == 2 && added.iter().all(is_ready), "{added:?}");
        let asked = server.clone();
        let removed = on(
            &node,
            async move { asked.remove_device(remove("/d")).await },
        );
        assert_eq!(removed.await.expect("removed").caches.len(), 1);
        let (asked, again) = (server.clone(), add(&["/d"]));
        let new = on(&node, async move { asked.add_vdevs(again).await }).await;
        let guid = new.expect("the disk is free").caches[1].guid.clone();
        let asked = server.clone();
        let removed = on(
            &node,
            async move { asked.remove_device(remove(&guid)).await },
        );
        assert_eq!(removed.await.expect("removed by its GUID").caches.len(), 1);
        let (client, namespace) = connect(&node).await;
        for lba in (0..BLOCKS).step_by(16) {
            write(&namespace, lba, 16, byte(lba)).await;
        }
        namespace.flush().await.expect("flushed");
        drop((client, namespace));
        drop(server);
        node.kill();
        let server = restarted(&node).await;
        let other = caches(&server).pop().expect("the other one");
        let reason = other.reason.expect("it is not there");
        assert!(other.path.ends_with("gone"), "{reason}");
        for _ in 0..3 {
            read_all(&node).await;
        }
        let entered = caches(&server)[0].blocks;
        assert!(entered > BLOCKS / 2, "{entered} blocks");
        drop(server);
        node.kill();
        let server = restarted(&node).await;
        assert_eq!(
            caches(&server)[0].blocks,
            entered,
            "what was written is there"
        );
        read_all(&node).await;
        let cache = caches(&server).remove(0);
        assert!(cache.hits >= entered && cache.wrong == 0, "{cache:?}");
        disks[2].kill();
        read_all(&node).await;
        wait_until(|| events(&server).contains(&"cache.out".to_owned())).await;
        assert!(caches(&server)[0].reason.is_some());
        for path in ["/c", "/gone"] {
            let asked = server.clone();
            let removed = on(
                &node,
                async move { asked.remove_device(remove(path)).await },
            );
            removed.await.expect("removed");
        }
        assert!(caches(&server).is_empty());
        read_all(&node).await;
        drop(server);
    });
}
