//! Many clients of an NFS server: the processor time of idle ones, and the memory that they take.

use super::names::{connect, failed};
use crate::bench::Bench;
use crate::block::{QUEUES, idle_percent, memory_of};
use crate::peers::Share;
use crate::point::Point;
use io::linux::raise_fd_limit;
use lab::Result;
use nfs_initiator::Session;

/// Clients of the memory row, and slots of each.
const CLIENTS: u16 = 1000;
const SLOTS: u16 = 64;

async fn clients(share: Share, count: u16) -> Result<Vec<Session>> {
    raise_fd_limit()?;
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(connect(share.at, SLOTS).await?);
    }
    Ok(all)
}

async fn close(all: Vec<Session>) {
    for session in all {
        session.close().await;
    }
}

/// Processor time of a server with idle clients.
pub(super) async fn idle(bench: &Bench, (share, pid): (Share, u32)) -> Result<Point> {
    let all = clients(share, QUEUES).await?;
    let p = idle_percent(pid, bench.extent.idle).await?;
    close(all).await;
    Ok(p)
}

/// Resident memory that a server takes for clients whose slots all have a request at once.
pub(super) async fn memory(bench: &Bench, (share, pid): (Share, u32)) -> Result<Point> {
    let before = memory_of(pid)?.0;
    let count = if bench.extent.quick {
        CLIENTS / 10
    } else {
        CLIENTS
    };
    let all = clients(share, count).await?;
    for session in &all {
        let calls = (0..session.slots()).map(|_| {
            let session = session.clone();
            io::spawn(async move { session.walk(share.path).await.map(drop) })
        });
        for call in calls.collect::<Vec<_>>() {
            let ended = call.await.unwrap_or(Err(nfs_initiator::Error::Closed));
            ended.map_err(failed)?;
        }
    }
    let after = memory_of(pid)?.0;
    close(all).await;
    Ok(Point {
        bytes: Some(after.saturating_sub(before) as f64),
        ..Point::default()
    })
}
