//! A session over real sockets.

use crate::fixture::{DISK, listen, target_config};
use crate::initiator::{Initiator, pattern};
use io::{Runtime, RuntimeConfig};
use iscsi::portal::{Config, Target};
use std::time::Duration;

#[test]
fn a_session_over_loopback_moves_data_and_drains() {
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring");
    runtime.block_on(async {
        let target = Target::new(Config::default());
        target
            .add_target(target_config(DISK))
            .expect("a new target");
        let addr = listen(&target, "127.0.0.1:0".parse().expect("an address"));
        let mut i = Initiator::connect(addr).await;
        let keys = [
            ("HeaderDigest", "CRC32C"),
            ("DataDigest", "CRC32C"),
            ("InitialR2T", "No"),
            ("MaxRecvDataSegmentLength", "262144"),
        ];
        i.login(DISK, &keys).await;
        i.clear_attentions().await;
        i.immediate_max = 8192;
        i.segment_max = 65536;
        let data = pattern(1 << 20, 1);
        assert_eq!(i.write(0, &data, 65536).await.status, 0);
        assert!(i.read(0, 2048).await.data == data);
        assert_eq!(i.logout(0, 0).await, 0);
        target.drain(Duration::from_secs(10)).await;
        assert_eq!(target.counters().open, 0);
        assert_eq!(io::pool().stats().used, 0);
    });
}
