//! Many clients of an NFS server: the processor time of idle ones, and the memory that they take.
//!
//! **Called by** the table.

use super::names::connect;
use super::servers::Share;
use crate::stats::process::resident;
use crate::suite::lab::Extent;
use crate::suite::point::Point;
use crate::{Error, Result};
use io::linux::{process_cpu_time, raise_fd_limit};
use nfs_initiator::Session;
use std::time::Duration;

/// Clients of the memory row, and slots of each.
const CLIENTS: usize = 1000;
const SLOTS: u16 = 64;

fn gone() -> Error {
    Error::program(
        "the NFS server",
        "its processor time or memory cannot be read",
    )
}

async fn clients(share: &Share, count: usize) -> Result<Vec<Session>> {
    raise_fd_limit()?;
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(connect(share.at, SLOTS).await?);
    }
    Ok(all)
}

/// Processor time of a server with idle clients, percent of a processor (`server_us`).
pub(super) async fn idle(share: &Share, extent: &Extent, pid: u32) -> Result<Point> {
    let all = clients(share, extent.queues.into()).await?;
    // The cost of connecting is not part of the idle time.
    io::time::sleep(Duration::from_millis(500)).await;
    let before = process_cpu_time(pid).ok_or_else(gone)?;
    let start = io::time::now();
    io::time::sleep(extent.idle).await;
    let used = process_cpu_time(pid)
        .ok_or_else(gone)?
        .saturating_sub(before);
    let percent = used.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    close(all).await;
    Ok(Point {
        iops: f64::NAN,
        bytes_per_s: 0.0,
        p50_us: 0.0,
        server_us: Some(percent),
    })
}

/// Resident memory that a server takes for clients whose slots all have a request at once, bytes (`bytes_per_s`).
pub(super) async fn memory(share: &Share, extent: &Extent, pid: u32) -> Result<Point> {
    let count = CLIENTS.min(10 * usize::from(extent.queues));
    let (before, _) = resident(pid).ok_or_else(gone)?;
    let all = clients(share, count).await?;
    for session in &all {
        let calls = (0..session.slots()).map(|_| {
            let (session, path) = (session.clone(), share.path);
            io::spawn(async move { session.walk(path).await.map(drop) })
        });
        for call in calls.collect::<Vec<_>>() {
            let ended = call.await.unwrap_or(Err(nfs_initiator::Error::Closed));
            ended.map_err(|e| Error::Status(e.to_string()))?;
        }
    }
    let (after, _) = resident(pid).ok_or_else(gone)?;
    close(all).await;
    Ok(Point {
        iops: f64::NAN,
        bytes_per_s: after.saturating_sub(before) as f64,
        p50_us: 0.0,
        server_us: None,
    })
}

async fn close(all: Vec<Session>) {
    for session in all {
        session.close().await;
    }
}
