//! Logs by the control API: added, lost beside a client, and removed.

use crate::simulated::fixture::{connect, disk, machine, make, serve_new, write};
use crate::simulated::removal::{BLOCKS, byte, events, on, read_all, remove, vdevs, wait_for};
use io::sim::{Latency, Sim, SimConfig};
use server::Server;
use server::api::{AddVdevs, VdevClass, VdevLayout, VdevSpec};
use std::rc::Rc;
use std::time::Duration;

fn log(disks: &[&str], layout: VdevLayout) -> AddVdevs {
    AddVdevs {
        pool: "tank".into(),
        vdevs: vec![VdevSpec {
            layout,
            class: VdevClass::Log,
            members: disks.iter().map(Into::into).collect(),
        }],
        spares: Vec::new(),
        caches: Vec::new(),
        size: None,
        force: false,
    }
}

/// The names of the vdevs of class log, and whether each has the journal.
fn logs(server: &Rc<Server>) -> Vec<(String, bool)> {
    let vdevs = server.pools().remove(0).vdevs.into_iter();
    let logs = vdevs.filter(|vdev| vdev.class == VdevClass::Log);
    logs.map(|vdev| (vdev.name, vdev.journal)).collect()
}

/// A mirror of two gets a log beside a client. The log fails: there is an event, its disks leave the configuration, and the client has lost nothing. A second log is
/// removed by request.
#[test]
fn a_log_is_added_lost_and_removed() {
    Sim::new(22, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b", "/c", "/d", "/e", "/f"], &disk());
        let server = serve_new(&node, async |server| make(server).await).await;
        let asked = server.clone();
        let refused = on(&node, async move {
            asked.add_vdevs(log(&["/c"], VdevLayout::Disk)).await
        });
        let refused = refused.await.expect_err("it may fail").to_string();
        let says_loss = refused.contains("the durable writes of the last seconds are lost");
        assert!(says_loss, "{refused}");
        let asked = server.clone();
        let refused = on(&node, async move {
            let rows = log(&["/c", "/d", "/e"], VdevLayout::Raidz1);
            asked.add_vdevs(rows).await
        });
        let refused = refused.await.expect_err("parity").to_string();
        assert!(refused.contains("one disk or a mirror"), "{refused}");
        let asked = server.clone();
        let added = on(&node, async move {
            asked
                .add_vdevs(log(&["/c", "/d"], VdevLayout::Mirror))
                .await
        });
        added.await.expect("added");
        assert_eq!(logs(&server), [("mirror-1".to_owned(), true)]);
        let (client, namespace) = connect(&node).await;
        for lba in (0..BLOCKS).step_by(16) {
            write(&namespace, lba, 16, byte(lba)).await;
            if lba % 256 == 0 {
                namespace.flush().await.expect("flushed");
            }
            if lba == BLOCKS / 2 {
                for path in ["/c", "/d"] {
                    node.disk(path).expect("there").kill();
                }
            }
        }
        namespace.flush().await.expect("flushed");
        drop((client, namespace));
        wait_for(&server, "log.lost").await;
        assert_eq!(vdevs(&server), ["mirror-0"]);
        assert_eq!(server.pools()[0].disks.len(), 2);
        read_all(&node).await;
        let asked = server.clone();
        let added = on(&node, async move {
            asked
                .add_vdevs(log(&["/e", "/f"], VdevLayout::Mirror))
                .await
        });
        added.await.expect("added");
        assert_eq!(logs(&server), [("mirror-2".to_owned(), true)]);
        let asked = server.clone();
        let begun = on(
            &node,
            async move { asked.remove_device(remove("/f")).await },
        );
        begun.await.expect("begun");
        wait_for(&server, "removal.finish").await;
        assert_eq!(logs(&server), []);
        read_all(&node).await;
        drop(server);
    });
}

/// A log fails, and the journal needs longer to move to the slow disks than there is between two checks of the pool. The log was lost, and not removed.
#[test]
fn a_lost_log_is_not_told_as_removed_while_its_journal_moves() {
    Sim::new(26, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b", "/c", "/d"], &disk());
        let server = serve_new(&node, async |server| {
            make(server).await;
            let added = server.add_vdevs(log(&["/c", "/d"], VdevLayout::Mirror));
            added.await.expect("added");
        })
        .await;
        let (_client, namespace) = connect(&node).await;
        write(&namespace, 0, 16, byte(0)).await;
        let seconds = Latency {
            base: Duration::from_secs(3),
            ..Latency::default()
        };
        for (disk, is_data) in disks.into_iter().zip([true, true, false, false]) {
            match is_data {
                true => disk.slow(Some(seconds)),
                false => disk.kill(),
            }
        }
        namespace.flush().await.expect("flushed");
        wait_for(&server, "log.lost").await;
        assert_eq!(events(&server), ["log.lost"]);
        drop(server);
    });
}
