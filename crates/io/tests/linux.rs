//! What only the real driver has: shards on threads of their own.

use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use io::{Error, Runtime, RuntimeConfig};
use std::time::Duration;

fn run<T: 'static>(f: impl Future<Output = T> + 'static) -> T {
    Runtime::new(RuntimeConfig::default())
        .expect("io_uring is there")
        .block_on(f)
}

#[test]
fn shards_take_work_and_wake_each_other() {
    let shard = Shard::start(ShardConfig {
        name: "other".into(),
        cpu: None,
        runtime: RuntimeConfig {
            spin_max: Duration::ZERO,
            ..RuntimeConfig::default()
        },
    })
    .expect("start");
    let there = shard.clone();
    let sum = run(async move {
        let mut sum = 0;
        for i in 0..1000u64 {
            let (tx, rx) = oneshot::channel();
            there
                .spawn(move || async move { tx.send(i * 2) })
                .expect("it lives");
            sum += rx.await.expect("an answer");
        }
        sum
    });
    assert_eq!(sum, 999_000);
    shard.stop();
    assert_eq!(shard.spawn(|| async {}).err(), Some(Error::Cancelled));
}
