//! Tests of the judgement, with readings made by hand.

use super::*;
use crate::api::{Cache, Pool, ShardStatus, SpecialClass, StageTimes};

const NAME: &str = "nqn.2024-01.com.example:vm1";

fn requests(count: u64, stages: &[(&str, u64)]) -> RequestStages {
    let stage = |(stage, mean_us): &(&str, u64)| StageTimes {
        stage: (*stage).to_owned(),
        sum_ns: count * mean_us * 1000,
        buckets: vec![(mean_us * 1000, count)],
    };
    RequestStages {
        command: "write".into(),
        count,
        stages: stages.iter().map(stage).collect(),
    }
}

fn reading(at_ms: u64, cpu_ms: u64, requests: Vec<RequestStages>) -> Reading {
    let status = serde_json::json!({
        "version": "1", "state": "serving", "pid": 1, "uptime_s": 1, "config": "/c", "control": "/s",
        "state_dir": "/d", "listen": [], "metrics": null, "fd_limit": 1, "connections_max": 1, "sessions": 0,
        "shards": [], "disks": [], "advertise": [], "subsystems": [], "targets": [], "exports": [],
        "nfs_exports": [], "warnings": [],
    });
    let mut status: Status = serde_json::from_value(status).expect("a status without anything");
    status.shards.push(ShardStatus {
        cpu_ms,
        ..ShardStatus::default()
    });
    Reading {
        stages: Stages {
            at_ms,
            exports: vec![ExportStages {
                protocol: "nvme".into(),
                export: NAME.into(),
                requests,
                slowest: Vec::new(),
            }],
        },
        status,
        sessions: Vec::new(),
    }
}

/// What limits an export whose 10,000 requests of one second spent this time in each stage, µs, and used `cpu_ms`.
fn limit(stages: &[(&str, u64)], cpu_ms: u64) -> Limit {
    let before = reading(5000, 100, vec![requests(500, stages)]);
    let after = reading(6000, 100 + cpu_ms, vec![requests(10_500, stages)]);
    let [why] = &judge(&before, &after, None)[..] else {
        panic!("one export had requests");
    };
    let all: f64 = why.stages.iter().map(|s| s.percent).sum();
    assert!((all - 100.0).abs() < 0.01, "the parts are {all} %");
    assert!((why.commands[0].per_second - 10_000.0).abs() < 0.1);
    why.limit.as_ref().expect("there were requests").limit
}

#[test]
fn the_largest_stage_is_the_limit() {
    assert_eq!(
        limit(&[("compute", 5), ("device", 300)], 200),
        Limit::Device
    );
    assert_eq!(limit(&[("device", 90), ("flush", 300)], 200), Limit::Flush);
    assert_eq!(
        limit(&[("journal", 300), ("flush", 90)], 200),
        Limit::Journal
    );
    assert_eq!(limit(&[("queue", 300)], 200), Limit::Order);
    assert_eq!(limit(&[("receive", 300)], 200), Limit::NetworkIn);
    assert_eq!(limit(&[("send", 300)], 200), Limit::NetworkOut);
    assert_eq!(limit(&[("memory", 300)], 200), Limit::Memory);
}

#[test]
fn a_full_shard_is_the_limit_before_any_stage() {
    assert_eq!(limit(&[("device", 300)], 950), Limit::Core);
    assert_eq!(limit(&[("compute", 300)], 500), Limit::Core);
}

#[test]
fn a_server_that_waits_for_its_client_says_so() {
    // 10,000 requests of 20 µs each: 0.2 at a time
    assert_eq!(limit(&[("device", 20)], 200), Limit::ClientDepth);
}

/// What limits an export whose client has this address and round trip, with 200 requests a second and these times in the server, µs.
fn limit_for(peer: &str, rtt_us: u32, stages: &[(&str, u64)]) -> Verdict {
    limit_of(peer, rtt_us, stages, |_| {})
}

/// The same for a session that `change` makes different.
fn limit_of(
    peer: &str,
    rtt_us: u32,
    stages: &[(&str, u64)],
    change: impl Fn(&mut SessionSummary),
) -> Verdict {
    let session = |id: u32, commands: u64, rtt_us: u32| -> SessionSummary {
        let session = serde_json::json!({
            "id": id, "protocol": "nvme", "kind": "io", "state": "live", "client": "c", "host_id": "", "export": NAME,
            "peer": peer, "transport": "tcp", "header_digest": false, "data_digest": false, "io_queues": 1, "depth": 1,
            "bytes_in": 0, "bytes_out": 0, "commands": commands, "errors": 0, "rtt_us": rtt_us, "retransmits": 0,
            "keep_alive_age_ms": 0, "keep_alive_timeout_ms": 0, "connected_at_ms": 0, "reconnects": 0,
        });
        let mut session = serde_json::from_value(session).expect("a session");
        change(&mut session);
        session
    };
    let mut before = reading(5000, 100, vec![requests(500, stages)]);
    let mut after = reading(6000, 150, vec![requests(700, stages)]);
    // the other session is idle: its round trip says nothing
    before.sessions = vec![session(1, 9000, 40_000), session(2, 500, rtt_us)];
    after.sessions = vec![session(1, 9000, 40_000), session(2, 700, rtt_us)];
    let why = judge(&before, &after, None).remove(0);
    why.limit.expect("there were requests")
}

/// The same for requests that the server answers in 20 µs.
fn limit_outside(peer: &str, rtt_us: u32) -> Verdict {
    limit_for(peer, rtt_us, &[("device", 20)])
}

#[test]
fn a_narrow_network_is_told_from_a_long_one() {
    let session = |bytes_out: u64, rtt_min_us: u32| -> SessionSummary {
        let session = serde_json::json!({
            "id": 2, "protocol": "nvme", "kind": "io", "state": "live", "client": "c", "host_id": "", "export": NAME,
            "peer": "10.0.0.7:5000", "transport": "tcp", "header_digest": false, "data_digest": false, "io_queues": 1, "depth": 16,
            "bytes_in": 0, "bytes_out": bytes_out, "commands": bytes_out / 131_072, "errors": 0, "rtt_us": 100_000,
            "rtt_min_us": rtt_min_us, "retransmits": 0, "keep_alive_age_ms": 0, "keep_alive_timeout_ms": 0,
            "connected_at_ms": 0, "reconnects": 0,
        });
        serde_json::from_value(session).expect("a session")
    };
    let limit = |count: u64, rtt_min_us| {
        let stages = [("send", 2000)];
        let mut before = reading(5000, 100, vec![requests(500, &stages)]);
        let mut after = reading(6000, 150, vec![requests(500 + count, &stages)]);
        before.sessions = vec![session(0, rtt_min_us)];
        after.sessions = vec![session(count * 131_072, rtt_min_us)];
        let why = judge(&before, &after, None).remove(0);
        why.limit.expect("there were requests").limit
    };
    assert_eq!(limit(100, 300), Limit::NetworkOut, "data waits");
    assert_eq!(limit(100, 80_000), Limit::RoundTrip, "the path is long");
    assert_eq!(limit(100, 0), Limit::RoundTrip, "nothing is known of it");
    assert_eq!(limit(10, 300), Limit::RoundTrip, "one request cannot queue");
}

#[test]
fn a_client_on_this_machine_has_no_network() {
    let of = |peer, us| limit_for(peer, 50, &[("send", us), ("compute", us / 10)]).limit;
    let (here, far) = ("127.0.0.1:5000", "10.0.0.7:5000");
    // 200 requests a second of 4.4 ms: 0.9 at a time; of 44 ms: 8.8
    assert_eq!(of(here, 4000), Limit::ClientDepth);
    assert_eq!(of(here, 40_000), Limit::Core);
    assert_eq!(of(far, 4000), Limit::NetworkOut);
    assert_eq!(of(far, 40_000), Limit::NetworkOut);
}

#[test]
fn a_single_request_that_is_worked_on_waits_for_the_client() {
    let of = |us| limit_for("10.0.0.7:5000", 50, &[("compute", us)]).limit;
    assert_eq!(of(4000), Limit::ClientDepth);
    assert_eq!(of(40_000), Limit::Core);
}

#[test]
fn the_network_is_blamed_for_its_own_time_only() {
    let far = limit_outside("10.0.0.7:5000", 5000);
    assert_eq!(far.limit, Limit::RoundTrip, "{far:?}");
    let near = limit_outside("10.0.0.7:5000", 50);
    assert_eq!(near.limit, Limit::ClientDepth, "{near:?}");
    assert!(near.evidence[1].contains("50 µs"), "{near:?}");
    let same = limit_outside("127.0.0.1:5000", 5000);
    assert_eq!(same.limit, Limit::ClientDepth, "{same:?}");
    assert!(same.evidence[1].contains("this machine"), "{same:?}");
}

/// A pool of one disk, which has the journal and took this time for its writes.
fn pools(class: &str, count: u64, sum_us: u64) -> Vec<Pool> {
    let times = serde_json::json!({"count": count, "sum_us": sum_us, "p50_us": 0, "p99_us": 0, "max_us": 0});
    let member = serde_json::json!({
        "guid": "", "path": "/dev/a", "state": "online", "write_times": times, "reads": 0, "writes": count,
        "read_errors": 0, "write_errors": 0, "checksum_errors": 0, "repairs": 0,
    });
    let vdev = serde_json::json!({
        "name": "disk-0", "layout": "disk", "class": class, "journal": true, "health": "online", "size": 1, "members": [member],
    });
    let pool = serde_json::json!({
        "name": "tank", "guid": "", "state": "online", "health": "online", "reason": null, "disks": [], "size": 1, "used": 0,
        "freeing": 0, "free": 1, "reserved": 0, "dirty": 0, "vdevs": [vdev],
    });
    vec![serde_json::from_value(pool).expect("a pool")]
}

#[test]
fn device_times_are_of_the_interval() {
    let pools = |count, sum_us| pools("normal", count, sum_us);
    let text = devices::slowest(&pools(1000, 1000), &pools(1010, 1000 + 10 * 900));
    let text = text.expect("ten writes");
    assert_eq!(text, "/dev/a took on average 900 µs for a write");
    assert_eq!(devices::slowest(&pools(5, 50), &pools(5, 50)), None);
}

/// The advice to add a log, for requests with these stages, when a disk of this class took this time for each of 10 writes, µs.
fn log_advice(stages: &[(&str, u64)], class: &str, us: u64) -> Option<String> {
    let mut before = reading(5000, 0, vec![requests(500, stages)]);
    let mut after = reading(6000, 0, vec![requests(600, stages)]);
    before.status.pools = pools(class, 0, 0);
    after.status.pools = pools(class, 10, 10 * us);
    let verdict = judge(&before, &after, None).remove(0).limit;
    let helps = verdict.expect("there were requests").helps;
    helps
        .into_iter()
        .find(|help| help.contains("pool add tank log"))
}

#[test]
fn a_log_is_advised_where_requests_wait_for_stable_data_on_slow_disks() {
    let stable = [("compute", 1000), ("device", 5000), ("flush", 4000)];
    let advice = log_advice(&stable, "normal", 9000).expect("a slow disk has the journal");
    assert!(
        advice.contains("90 % of the time of requests, 9000 µs"),
        "{advice}"
    );
    assert_eq!(log_advice(&stable, "normal", 300), None, "the disk is fast");
    assert_eq!(log_advice(&stable, "log", 9000), None, "there is a log");
    let large = [("device", 9000)];
    assert_eq!(
        log_advice(&large, "normal", 9000),
        None,
        "nobody waits for stable data"
    );
}

/// The helps for an export whose 100 reads of a second waited 20 ms for devices each, with this change of the pool in that second. Its disk takes
/// 10 ms for a read.
fn helps_of_reads(change: impl Fn(&mut Pool)) -> Vec<String> {
    let reads = |count| {
        let mut reads = requests(count, &[("device", 20_000)]);
        reads.command = "read".into();
        vec![reads]
    };
    let mut before = reading(5000, 0, reads(500));
    let mut after = reading(6000, 0, reads(600));
    before.status.pools = pools("normal", 0, 0);
    after.status.pools = pools("normal", 0, 0);
    let pool = &mut after.status.pools[0];
    let times = &mut pool.vdevs[0].members[0].read_times;
    (times.count, times.sum_us) = (100, 1_000_000);
    change(pool);
    let verdict = judge(&before, &after, None).remove(0).limit;
    verdict.expect("there were requests").helps
}

fn help_with(words: &str, change: impl Fn(&mut Pool)) -> Option<String> {
    let mut helps = helps_of_reads(change).into_iter();
    helps.find(|help| help.contains(words))
}

#[test]
fn a_special_class_is_advised_where_requests_wait_for_nodes_on_slow_disks() {
    let advice = |normal, normal_us, special: Option<u64>| {
        help_with("pool add tank special", move |pool| {
            (pool.node_reads.normal, pool.node_reads.normal_us) = (normal, normal_us);
            pool.special = special.map(|spilled_of_pool| SpecialClass {
                spilled_of_pool,
                ..SpecialClass::default()
            });
        })
    };
    let without = advice(120, 1_200_000, None).expect("the disks are slow");
    assert!(
        without.contains("120 nodes") && without.contains("10000 µs each"),
        "{without}"
    );
    assert!(without.contains("up to 60 % of the time"), "{without}");
    assert_eq!(advice(1200, 1_200_000, None), None, "1 ms each");
    assert_eq!(advice(15, 150_000, None), None, "hardly any");
    assert_eq!(advice(120, 1_200_000, Some(0)), None, "it has room");
    let full = advice(120, 1_200_000, Some(4096)).expect("it had no room");
    assert!(full.starts_with("more special vdevs"), "{full}");
}

#[test]
fn a_cache_device_is_advised_where_records_are_read_again_from_slow_disks() {
    let advice = |misses, ghost_hits, caches: &[Cache]| {
        help_with("pool add tank cache", |pool| {
            (pool.record_cache.misses, pool.record_cache.ghost_hits) = (misses, ghost_hits);
            pool.caches = caches.to_vec();
        })
    };
    let without = advice(100, 40, &[]).expect("records return");
    assert!(
        without.contains("40 % of 100 reads") && without.contains("10000 µs"),
        "{without}"
    );
    assert_eq!(advice(1000, 40, &[]), None, "a scan");
    let device = |hits_of_twice| Cache {
        misses: 100,
        hits_of_twice,
        ..Cache::default()
    };
    let small = advice(100, 40, &[device(30)]).expect("it is too small");
    assert!(
        small.contains("twice its size would have answered 30 %"),
        "{small}"
    );
    assert_eq!(advice(100, 40, &[device(3)]), None, "its size is right");
    let fast = help_with("pool add tank cache", |pool| {
        (pool.record_cache.misses, pool.record_cache.ghost_hits) = (100, 40);
        pool.vdevs[0].members[0].read_times.sum_us = 30_000;
    });
    assert_eq!(fast, None, "the disk is fast");
}

#[test]
fn an_export_that_was_published_anew_counts_from_zero() {
    let before = reading(5000, 0, vec![requests(500, &[("device", 10)])]);
    let after = reading(7000, 0, vec![requests(100, &[("device", 10)])]);
    let why = &judge(&before, &after, None)[0];
    assert!((why.commands[0].per_second - 50.0).abs() < 0.1);
}

#[test]
fn an_idle_export_is_shown_only_if_it_is_asked_for() {
    let now = reading(5000, 0, vec![requests(500, &[("device", 10)])]);
    assert!(judge(&now, &now, None).is_empty());
    let asked = judge(&now, &now, Some(NAME));
    assert_eq!((asked.len(), asked[0].limit.clone()), (1, None));
}

#[test]
fn a_client_over_rdma_is_judged_without_round_trips() {
    let peer = "10.0.0.7:5000";
    let over_rdma = |session: &mut SessionSummary| {
        session.transport = "rdma".to_owned();
        session.device = Some("mlx5_0".to_owned());
    };
    let quiet = limit_of(peer, 0, &[("device", 20)], over_rdma);
    assert_eq!(quiet.limit, Limit::ClientDepth);
    assert!(quiet.evidence[1].contains("uses RDMA"), "{quiet:?}");
    // 200 requests of 10 ms each: two at a time
    for (stage, expected) in [("receive", Limit::NetworkIn), ("send", Limit::NetworkOut)] {
        let busy = limit_of(peer, 0, &[(stage, 10_000)], over_rdma);
        assert_eq!(busy.limit, expected);
        assert!(busy.helps[0].contains("queue pairs"), "{busy:?}");
        let over_tcp = limit_for(peer, 0, &[(stage, 10_000)]);
        assert!(over_tcp.helps[0].contains("RTT"), "{over_tcp:?}");
    }
}

#[test]
fn round_trips_name_the_reason_why_there_is_no_rdma() {
    let peer = "10.0.0.7:5000";
    let stages = &[("device", 20)];
    let known = limit_of(peer, 20_000, stages, |session| {
        session.not_rdma = Some("no cable".to_owned());
    });
    assert_eq!(known.limit, Limit::RoundTrip);
    assert!(known.helps[2].contains("no cable"), "{known:?}");
    let unknown = limit_for(peer, 20_000, stages);
    assert_eq!((unknown.limit, unknown.helps.len()), (Limit::RoundTrip, 2));
}
