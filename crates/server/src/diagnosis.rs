//! The server's state as facts for the doctor.
//!
//! **Called by** the control API, and by `wirepool doctor` with the answers of a server. **Invariants**: pure; a session whose
//! connections were not asked for is a fact that is not known.

use crate::advice;
use crate::api::{
    DiskState, Expansion, Health, Member, NamespaceState, OperationTimes, Pool, Queue, ScanState,
    SessionSummary, SpareState, SpecialClass, Status, Transport, Vdev, VdevClass,
};
use crate::limits::DOCTOR_SESSIONS_MAX;
use crate::word::word;
use doctor::facts::{self, Known};

/// The facts of a server. `queues` returns the connections of a session, or the reason why they are not known; `now_ms` is the time, ms
/// since 1970.
pub fn doctor_facts(
    status: &Status,
    sessions: &[SessionSummary],
    now_ms: u64,
    mut queues: impl FnMut(u32) -> Result<Vec<Queue>, String>,
) -> facts::Server {
    let buffers = status.shards.iter().map(|s| s.buffer_limit as u64);
    let all = sessions.iter().enumerate();
    let sessions = all.map(|(index, s)| {
        let queues = match index < DOCTOR_SESSIONS_MAX {
            true => match queues(s.id) {
                Ok(queues) => Known::Value(queues.iter().map(queue).collect()),
                Err(reason) => Known::unknown(reason),
            },
            false => Known::unknown(format!("only {DOCTOR_SESSIONS_MAX} sessions are asked for")),
        };
        session(s, now_ms, queues)
    });
    let over_tcp = status.listen.iter();
    let over_tcp = over_tcp.filter(|l| l.transport == Transport::Tcp);
    facts::Server {
        pid: status.pid,
        shards: status.shards.len(),
        buffer_limit: buffers.sum(),
        cache_limit: status.pools.iter().map(|p| p.record_cache.limit).sum(),
        connections_max: status.connections_max as u64,
        listen: over_tcp.map(|l| l.address).collect(),
        sessions: sessions.collect(),
        pools: status
            .pools
            .iter()
            .map(|p| pool(status, p, now_ms))
            .collect(),
        exports: exports(status),
        members: status.pools.iter().flat_map(members).collect(),
        spares: status.pools.iter().flat_map(spares).collect(),
        caches: status.pools.iter().flat_map(caches).collect(),
        expansions: status.pools.iter().flat_map(expansions).collect(),
    }
}

fn pool(status: &Status, pool: &Pool, now_ms: u64) -> facts::Pool {
    let stops = matches!(pool.health, Some(Health::Faulted | Health::Suspended));
    let reason = pool
        .reason
        .as_deref()
        .unwrap_or("a vdev has lost too many disks");
    let unusable = (stops || pool.state == DiskState::Held).then(|| reason.to_owned());
    let age_s = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
    let is_own = |dataset: &str| dataset.split('/').next() == Some(pool.name.as_str());
    let volumes = status.volumes.iter().map(|v| (&v.name, v.created_ms));
    let filesystems = status.filesystems.iter().map(|f| (&f.name, f.created_ms));
    let made = volumes.chain(filesystems);
    let made = made.filter(|(name, _)| is_own(name)).map(|(_, ms)| ms);
    let checked_ms = match &pool.scrub {
        Some(scrub) if scrub.state == ScanState::Running => None,
        Some(scrub) if scrub.state == ScanState::Finished => scrub.ended_ms,
        _ => made.min(),
    };
    facts::Pool {
        name: pool.name.clone(),
        unusable,
        size: pool.size,
        used: pool.used,
        sync_disabled: pool.sync_disabled.clone(),
        unscrubbed_s: checked_ms.map(age_s),
        special: pool.special.as_ref().map(|s| special(pool, s)),
        memory_first: advice::memory_first(pool),
        node_reads: pool.node_reads.normal,
        node_read_us: pool
            .node_reads
            .normal_us
            .checked_div(pool.node_reads.normal)
            .unwrap_or(0),
    }
}

fn special(pool: &Pool, class: &SpecialClass) -> facts::SpecialUse {
    let of_datasets = class.spilled.iter();
    let of_datasets = of_datasets.map(|of| (of.dataset.clone(), of.bytes));
    let of_pool = (pool.name.clone(), class.spilled_of_pool);
    let all = of_datasets.chain([of_pool]).filter(|(_, bytes)| *bytes > 0);
    facts::SpecialUse {
        size: class.size,
        free: class.free,
        takes_small_records: class.takes_small_records,
        spilled: all.collect(),
    }
}

fn caches(pool: &Pool) -> impl Iterator<Item = facts::CacheDevice> {
    pool.caches.iter().map(|cache| facts::CacheDevice {
        pool: pool.name.clone(),
        path: cache.path.display().to_string(),
        disk: Known::default(),
        unusable: cache.reason.clone(),
        size: cache.size,
        used: cache.used,
        hits: cache.hits,
        misses: cache.misses,
        hits_of_twice: cache.hits_of_twice,
    })
}

/// The exports of all protocols. On loopback alone no other host reaches them.
fn exports(status: &Status) -> Vec<facts::ServedExport> {
    let is_reached = status.listen.iter().any(|l| !l.address.ip().is_loopback());
    let export =
        |protocol: &str, name: &str, held: Vec<String>, is_open: bool| facts::ServedExport {
            name: name.to_owned(),
            protocol: protocol.to_owned(),
            held,
            is_open: is_open && is_reached,
        };
    let held = |state: NamespaceState, of: &str, reason: &Option<String>| {
        let reason = reason.as_deref().unwrap_or("its disk is not there");
        (state == NamespaceState::Held).then(|| format!("{of}: {reason}"))
    };
    let is_any = |hosts: &[String]| hosts.iter().any(|host| host == "any");
    let nvme = status.exports.nvmf.exports.iter().map(|e| {
        let namespaces = e.namespaces.iter();
        let lacks = namespaces.filter_map(|n| held(n.state, &n.disk, &n.reason));
        export("nvme", &e.nqn, lacks.collect(), is_any(&e.hosts))
    });
    let iscsi = status.exports.iscsi.targets.iter().map(|t| {
        let lacks = t.luns.iter();
        let lacks = lacks.filter_map(|l| held(l.state, &l.disk, &l.reason));
        let is_open = is_any(&t.initiators) && t.chap.is_none();
        export("iscsi", &t.iqn, lacks.collect(), is_open)
    });
    let nfs = status.exports.nfs.nfs_exports.iter().map(|e| {
        let lacks = held(e.state, &e.filesystem, &e.reason);
        let is_open = |client: &String| {
            let mut parts = client.split([':', ',']);
            parts.next() == Some("*") && parts.any(|option| option == "rw")
        };
        let is_open = e.clients.iter().any(is_open);
        export("nfs", &e.path, lacks.into_iter().collect(), is_open)
    });
    nvme.chain(iscsi).chain(nfs).collect()
}

fn expansions(pool: &Pool) -> impl Iterator<Item = facts::Expansion> {
    let expanding = pool.vdevs.iter();
    let expanding = expanding.filter_map(|v| Some((v, v.expansion.as_ref()?)));
    expanding.map(|(vdev, e)| facts::Expansion {
        pool: pool.name.clone(),
        vdev: vdev.name.clone(),
        done: e.done,
        of: e.of,
        left_s: left_s(e),
        waits_for: e.waits_for.clone(),
        may_fail: e.may_fail,
    })
}

/// Seconds until an expansion ends, at its speed since it began or went on; none while nothing was moved.
fn left_s(e: &Expansion) -> Option<u64> {
    let (moved, of) = e.since_start();
    let left = u128::from(of.saturating_sub(moved));
    let ms = (left * u128::from(e.active_ms)).checked_div(moved.into())?;
    u64::try_from(ms / 1000).ok()
}

fn spares(pool: &Pool) -> impl Iterator<Item = facts::Spare> {
    pool.spares.iter().map(|spare| {
        let path = spare.path.as_ref();
        let reason = spare.reason.as_deref().unwrap_or("its disk was not found");
        facts::Spare {
            pool: pool.name.clone(),
            path: path.map_or(String::new(), |p| p.display().to_string()),
            instead_of: spare.instead_of.clone(),
            unusable: (spare.state == SpareState::Unavail).then(|| reason.to_owned()),
        }
    })
}

fn members(pool: &Pool) -> Vec<facts::Member> {
    let vdevs = pool.vdevs.iter();
    let members = vdevs.flat_map(|v| v.members.iter().map(move |m| (v, m)));
    members.map(|(vdev, m)| member(pool, vdev, m)).collect()
}

fn member(pool: &Pool, vdev: &Vdev, member: &Member) -> facts::Member {
    facts::Member {
        pool: pool.name.clone(),
        vdev: vdev.name.clone(),
        class: word(vdev.class),
        may_fail: may_fail(vdev),
        path: member
            .last_path()
            .map_or(String::new(), |p| p.display().to_string()),
        state: member.state.clone(),
        has_journal: vdev.journal && vdev.class == VdevClass::Normal,
        disk: Known::default(),
        read_errors: member.read_errors,
        write_errors: member.write_errors,
        checksum_errors: member.checksum_errors,
        is_autotrim_on: Known::Value(pool.autotrim),
        reads: times(&member.read_times),
        writes: times(&member.write_times),
        flushes: times(&member.flush_times),
    }
}

/// Disks of a vdev that may fail if all are there. A disk and the one that takes its place count once.
fn may_fail(vdev: &Vdev) -> u64 {
    let count = |is: fn(&Member) -> bool| vdev.members.iter().filter(|m| is(m)).count();
    let doubled = count(|m| m.replaced).max(count(|m| m.spare));
    vdev.layout.failures(vdev.members.len() - doubled) as u64
}

fn times(t: &OperationTimes) -> facts::Times {
    facts::Times {
        count: t.count,
        p50_us: t.p50_us,
        p99_us: t.p99_us,
    }
}

fn session(s: &SessionSummary, now_ms: u64, queues: Known<Vec<facts::Queue>>) -> facts::Session {
    facts::Session {
        id: s.id,
        protocol: s.protocol.clone(),
        host: s.client.clone(),
        depth: s.depth,
        keep_alive_ms: s.keep_alive_timeout_ms,
        reconnects: s.reconnects,
        age_s: now_ms.saturating_sub(s.connected_at_ms) / 1000,
        errors: s.errors,
        commands: s.commands,
        queues,
    }
}

fn queue(q: &Queue) -> facts::Queue {
    facts::Queue {
        qid: q.qid,
        local: q.local,
        peer: q.peer,
        mss: q.mss,
        rtt_us: q.rtt_us,
        retransmits: u64::from(q.retransmits),
        bytes_out: q.bytes_out,
        congestion: q.congestion.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_from_the_speed_so_far() {
        let e = Expansion {
            done: 3 << 30,
            of: 7 << 30,
            began_at: 1 << 30,
            active_ms: 60_000,
            ..Expansion::default()
        };
        assert_eq!(left_s(&e), Some(120), "2 GiB in a minute, 4 GiB are left");
        let done = e.began_at;
        assert_eq!(left_s(&Expansion { done, ..e.clone() }), None);
        let of = u64::MAX;
        let active_ms = u64::MAX;
        let slow = Expansion { of, active_ms, ..e };
        assert_eq!(
            left_s(&slow),
            None,
            "longer than a number of seconds can be"
        );
    }
}
