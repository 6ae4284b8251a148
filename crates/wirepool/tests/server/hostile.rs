//! Memory of a server whose ports get hostile bytes.
//!
//! The bound: the memory at the start, the buffer pools of all shards, [`CONNECTION_MAX`] for each connection that may be open
//! (`connections_max` and 64 of each protocol), and [`OTHERS_MAX`] for the allocator and tables.

use crate::common::Place;
use io::rng::Prng;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CONFIG: &str = r#"
[server]
control = "c.sock"
shards = 2
buffer_mib = 4
[nvmf]
listen = ["127.0.0.1:0"]
connections_max = 64
[iscsi]
listen = ["127.0.0.1:0"]
connections_max = 64
[nfs]
listen = ["127.0.0.1:0"]
rpcbind = false
connections_max = 64
"#;

/// Connections that may be open at a time: 64 and the slack of 64, of three protocols.
const CONNECTIONS: u64 = 3 * (64 + 64);
/// Memory of one connection at most, bytes: its staging area, its task, and what it has received of small requests.
const CONNECTION_MAX: u64 = 128 << 10;
/// Buffers of both shards, bytes.
const BUFFERS: u64 = 2 * (4 << 20);
/// Memory for the rest, bytes.
const OTHERS_MAX: u64 = 32 << 20;
const ROUNDS: usize = 8;
/// Connections that are opened in one round, by protocol: more than may be open.
const ROUND: usize = 200;
/// Growth within the second half of the rounds that is no growth, bytes.
const GROWTH_MAX: u64 = 8 << 20;

/// Time after which a connection is given up.
const CONNECT_MAX: Duration = Duration::from_millis(500);

/// The beginnings of an NVMe connection, of a long record of NFS, and of an iSCSI login with data that does not come.
fn begin(kind: usize, rng: &mut Prng) -> Vec<u8> {
    let mut bytes = match kind % 4 {
        0 => vec![0, 0, 128, 0, 128, 0, 0, 0],
        1 => vec![0x80, 0x10, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2],
        2 => vec![0x43, 0x87, 0, 0, 0, 0, 0x1f, 0xff],
        _ => Vec::new(),
    };
    let mut noise = vec![0; rng.below(16 << 10) as usize];
    rng.fill(&mut noise);
    bytes.extend(noise);
    bytes
}

/// Opens connections, sends each hostile bytes, and holds all of them until the end.
fn attack(ports: &[SocketAddr], rng: &mut Prng) {
    let mut held = Vec::new();
    for n in 0..ROUND {
        for port in ports {
            // A full backlog or a refusal is the server's right.
            let Ok(mut stream) = TcpStream::connect_timeout(port, CONNECT_MAX) else {
                continue;
            };
            // What the socket does not take at once is left out.
            stream.set_nonblocking(true).expect("not blocking");
            let _ = stream.write(&begin(n, rng));
            held.push(stream);
        }
    }
}

/// Hostile bytes raised the resident memory from 24 to 133 MB in three minutes, and nothing said where it ends.
#[test]
fn hostile_bytes_raise_memory_up_to_a_bound() {
    let place = Place::new(CONFIG);
    let server = place.start();
    let ports = [server.io[0], server.iscsi[0], server.nfs[0]];
    let start = server.resident();
    let bound = start + BUFFERS + CONNECTIONS * CONNECTION_MAX + OTHERS_MAX;
    let mut rng = Prng::new(12);
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        attack(&ports, &mut rng);
        seen.push(server.resident());
        assert!(
            seen.iter().all(|bytes| *bytes <= bound),
            "{seen:?}, at most {bound}"
        );
    }
    let half = seen[ROUNDS / 2..].iter().copied();
    let most = half.clone().max().unwrap_or_default();
    let before = seen[..ROUNDS / 2].iter().copied().max().unwrap_or_default();
    assert!(most <= before + GROWTH_MAX, "no plateau: {start}, {seen:?}");
    assert!(server.terminate().success());
}
