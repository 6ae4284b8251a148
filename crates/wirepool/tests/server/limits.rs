//! Many connections, few descriptors.

use crate::common::{BASE, Place, RAM, client, connect};
use std::net::TcpStream;

#[test]
fn a_thousand_idle_queues_cost_little_memory() {
    const CONTROLLERS: u64 = 20;
    const QUEUES: u64 = 49;
    const DEPTH: u64 = 8;
    io::linux::raise_fd_limit().expect("descriptors");
    let place = Place::new(&format!("{BASE}{RAM}"));
    let server = place.start();
    let config = server.client();
    client(async move {
        let mut held = Vec::new();
        for n in 0..CONTROLLERS {
            let mut config = config.clone();
            config.host_id = nvmf::wire::nqn::HostId([n as u8 + 1; 16]);
            (config.io_queues, config.queue_depth) = (QUEUES as u16, DEPTH as u16);
            held.push(connect(config).await);
        }
        let granted: u64 = held.iter().map(|c| u64::from(c.io_queues().0)).sum();
        assert_eq!(granted, CONTROLLERS * QUEUES);
        let status = server.json(&["status"]);
        let connections: u64 = status["shards"]
            .as_array()
            .expect("shards")
            .iter()
            .filter_map(|s| s["connections"].as_u64())
            .sum();
        assert_eq!(connections, CONTROLLERS * (QUEUES + 1));
        // 64 MiB, the capsules of every queue, and the buffer pools of two shards.
        let bound = (64 << 20) + granted * DEPTH * 8192 + 2 * (4 << 20);
        let resident = server.resident();
        assert!(
            resident < bound,
            "{} MiB, and at most {} MiB are stated",
            resident >> 20,
            bound >> 20
        );
        drop(held);
        server.wait_for(&["status"], |s| {
            s["shards"]
                .as_array()
                .is_some_and(|all| all.iter().all(|s| s["connections"] == 0))
        });
    });
}

#[test]
fn without_descriptors_connections_are_refused_and_then_taken_again() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let server = place.start_after("ulimit -n 160");
    let status = server.json(&["status"]);
    assert_eq!(status["fd_limit"], 160);
    let told = status["warnings"][0].as_str().expect("a warning");
    assert!(told.contains("raise the hard limit"), "{told}");
    let most = status["connections_max"].as_u64().expect("a number");
    assert!((1..160).contains(&most));
    let crowd: Vec<_> = (0..400)
        .map(|_| TcpStream::connect(server.io[0]).expect("the kernel takes it"))
        .collect();
    let busy = server.json(&["status"]);
    assert_eq!(
        busy["state"], "serving",
        "the control plane has its own descriptors"
    );
    drop(crowd);
    let config = server.client();
    server.wait_for(&["status"], |s| {
        s["shards"]
            .as_array()
            .is_some_and(|all| all.iter().all(|s| s["connections"] == 0))
    });
    client(async move { drop(connect(config).await) });
}
