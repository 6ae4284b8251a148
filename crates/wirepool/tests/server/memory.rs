//! Resident memory of a server whose pool is written and read at random for a long time.
//!
//! `WIREPOOL_SOAK_SECONDS` sets the duration (`make soak`). The sample of a few seconds in the suite checks the stated bound
//! only; a long run also checks that memory reaches a plateau.

use crate::common::{BASE, NQN, Place, client, connect};
use io::rng::Prng;
use nvmf::wire::command::Nsid;
use nvmf_initiator::{Namespace, WriteOptions};
use std::cell::Cell;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Duration of the sample in the suite, seconds.
const SECONDS: u64 = 4;
/// Duration from which memory must have reached a plateau, seconds.
const PLATEAU_SECONDS: u64 = 60;
/// Memory by which the last third of a run may exceed the middle third, bytes.
const GROWTH_MAX: u64 = 16 << 20;
/// Memory of each of the pool's caches and of its dirty records, MiB.
const CACHE_MIB: u64 = 16;
/// Memory for changes since the last checkpoint, MiB: twice the pool's journal of 32 MiB.
const CHANGES_MIB: u64 = 64;
/// Memory that the server may have at most, bytes: two caches and dirty records, the buffers of two shards (4 MiB each), the
/// pool's buffers for writes and reads (32 and 8 MiB), changes since the last checkpoint, and 64 MiB.
const RESIDENT_MAX: u64 = (3 * CACHE_MIB + 2 * 4 + 32 + 8 + CHANGES_MIB + 64) << 20;

/// Number of writers, and of readers.
const JOBS: u64 = 16;
const BLOCK: usize = 4096;
/// Blocks of the volume: 256 MiB, more than the caches hold.
const BLOCKS: u64 = 65_536;

/// Writes or reads random blocks until `stop`. Returns the number of commands.
async fn job(namespace: Rc<Namespace>, writes: bool, seed: u64, stop: Rc<Cell<bool>>) -> u64 {
    let mut rng = Prng::new(seed);
    let mut buf = io::pool().alloc(BLOCK).await;
    let mut done = 0;
    while !stop.get() {
        let block = rng.below(BLOCKS);
        if writes {
            let mut data = io::pool().alloc(BLOCK).await;
            data.fill(done as u8);
            let options = WriteOptions { fua: false };
            let written = namespace.write(block, Arc::new(data), options).await;
            written.expect("written");
        } else {
            let (read, back) = namespace.read(block, buf).await;
            read.expect("read");
            buf = back;
        }
        done += 1;
    }
    done
}

/// A server with the exported volume `tank/vm1` and small caches.
fn place() -> Place {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "1G"]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "256M"]);
    server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN, "--host", "any"]);
    assert!(server.terminate().success());
    let name = "name = \"tank\"\n";
    let text = place.text();
    assert_eq!(text.matches(name).count(), 1, "{text}");
    let limits = format!(
        "{name}cache_mib = {CACHE_MIB}\nrecord_cache_mib = {CACHE_MIB}\ndirty_mib = {CACHE_MIB}\n"
    );
    fs::write(place.config(), text.replace(name, &limits)).expect("write the configuration");
    place
}

#[test]
fn memory_of_a_server_under_load_is_bounded_and_reaches_a_plateau() {
    let seconds = match std::env::var("WIREPOOL_SOAK_SECONDS") {
        Ok(text) => text.parse().expect("WIREPOOL_SOAK_SECONDS is a number"),
        Err(_) => SECONDS,
    };
    let place = place();
    let server = place.start();
    let samples = client(async move {
        let controller = connect(server.client()).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        let namespace = Rc::new(namespace);
        let stop = Rc::new(Cell::new(false));
        let jobs: Vec<_> = (0..2 * JOBS)
            .map(|n| io::spawn(job(namespace.clone(), n % 2 == 0, n, stop.clone())))
            .collect();
        let mut samples = Vec::new();
        for _ in 0..seconds {
            io::time::sleep(Duration::from_secs(1)).await;
            samples.push(server.resident());
        }
        stop.set(true);
        let mut done = 0;
        for job in jobs {
            done += job.await.expect("it runs to its end");
        }
        controller.shutdown().await;
        println!(
            "{done} commands in {seconds} s, resident MiB: {}",
            mib(&samples)
        );
        assert!(server.terminate().success());
        samples
    });
    let most = samples.iter().max().expect("a sample");
    assert!(
        *most <= RESIDENT_MAX,
        "more than {} MiB",
        RESIDENT_MAX >> 20
    );
    if seconds >= PLATEAU_SECONDS {
        let third = samples.len() / 3;
        let most = |samples: &[u64]| samples.iter().copied().max().unwrap_or(0);
        let (middle, last) = (&samples[third..2 * third], &samples[2 * third..]);
        assert!(
            most(last) <= most(middle) + GROWTH_MAX,
            "memory still grows: {} MiB",
            mib(&samples)
        );
    }
}

/// The samples in MiB, at most 60 of them.
fn mib(samples: &[u64]) -> String {
    let step = samples.len().div_ceil(60).max(1);
    let shown = samples.iter().step_by(step);
    let shown: Vec<String> = shown.map(|bytes| (bytes >> 20).to_string()).collect();
    shown.join(" ")
}
