//! The measuring side of `wirepool probe`: latency, then transfers in each direction and in both, then operations over RDMA.
//!
//! **Invariants**: every connection has a time limit; bytes are counted by the side that received them.

use super::link::{End, Link, SILENCE_MAX, data};
use super::result::{Flow, Probed, Transfer};
use super::route::interface;
use super::verbs;
use super::verdict::{count, judge};
use super::wire::{Mode, REPLY_LEN, REPORT_LEN, Reply, Report, Request, word};
use crate::probe::interrupt::Interrupt;
use crate::probe::rung::Rung;
use crate::probe::verdict::{Limit, Verdict};
use crate::{Error, Result};
use io::linux::thread_cpu_time;
use io::net::{TcpInfo, TcpOptions, TcpStream};
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of a block of a transfer.
const BLOCK: u32 = 256 << 10;
/// Most messages of the latency measurement.
const MESSAGES_MAX: u64 = 1_000_000;

/// Address and extent of a measurement.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The other machine.
    pub address: SocketAddr,
    /// Time of each part.
    pub time: Duration,
    /// Streams of the parts with several.
    pub streams: u32,
    /// Bytes of each message of the latency measurement.
    pub message: u32,
    /// Congestion control of this side; the system's if none is named.
    pub congestion: Option<String>,
    /// Whether RDMA is measured too, where both machines have it.
    pub rdma: bool,
}

/// Runs all parts. `say` gets the name of each before it begins.
///
/// # Errors
/// `Target` if the other side cannot be reached, refuses or ends early.
pub(crate) async fn run(
    probe: Probe,
    interrupt: &Interrupt,
    mut say: impl FnMut(&str),
) -> Result<Probed> {
    say(&format!("messages of {} bytes", probe.message));
    let latency = latency(&probe, interrupt).await?;
    let mut transfers = Vec::new();
    let several = (probe.streams > 1).then_some(probe.streams);
    let numbers: Vec<u32> = std::iter::once(1).chain(several).collect();
    let parts = [(true, false), (false, true)];
    let parts = parts
        .iter()
        .flat_map(|p| numbers.iter().map(move |n| (*p, *n)));
    let both = ((true, true), probe.streams);
    for ((to, from), streams) in parts.chain([both]) {
        if interrupt.is_set() {
            break;
        }
        let direction = match (to, from) {
            (true, false) => "to",
            (false, true) => "from",
            _ => "to and from",
        };
        say(&format!("{} {direction} {}", count(streams), probe.address));
        transfers.push(transfer(&probe, streams, to, from).await?);
    }
    let verbs = match probe.rdma && !interrupt.is_set() {
        true => Some(verbs::run(&probe, interrupt, say).await),
        false => None,
    };
    let mut result = Probed {
        address: probe.address,
        message: probe.message,
        latency: latency.summary(),
        transfers,
        interface: interface(probe.address.ip()),
        no_verbs: verbs.as_ref().and_then(|v| v.as_ref().err().cloned()),
        verbs: verbs.and_then(std::result::Result::ok),
        verdict: Verdict::new(Limit::Mixed, ""),
    };
    result.verdict = judge(&result);
    Ok(result)
}

/// A connection that the other side accepted for one measurement.
async fn connect(probe: &Probe, mode: Mode, size: u32) -> Result<Link> {
    let failed = |why: String| Error::target(probe.address, why);
    let stream = io::timeout(SILENCE_MAX, TcpStream::connect(probe.address)).await;
    let stream = match stream {
        Ok(Ok(stream)) => stream,
        Ok(Err(e)) => return Err(failed(e.to_string())),
        Err(_) => return Err(failed(End::Silent.to_string())),
    };
    let options = TcpOptions {
        congestion: probe.congestion.clone(),
        ..TcpOptions::default()
    };
    stream.set_options(&options)?;
    let mut link = Link::new(stream);
    let request = Request {
        mode,
        size,
        millis: u32::try_from(probe.time.as_millis()).unwrap_or(u32::MAX),
    };
    let ended = |end: End| failed(end.to_string());
    link.send(&request.encode()).await.map_err(ended)?;
    let reply = link.receive::<REPLY_LEN>().await.map_err(ended)?;
    let Reply(answer) = Reply::decode(&reply).map_err(|r| failed(r.to_string()))?;
    answer.map_err(|r| failed(r.to_string()))?;
    Ok(link)
}

async fn latency(probe: &Probe, interrupt: &Interrupt) -> Result<Rung> {
    let mut link = connect(probe, Mode::Echo, probe.message).await?;
    let mut message = vec![0; probe.message as usize];
    let mut rung = Rung::default();
    let begun = io::time::now();
    for _ in 0..MESSAGES_MAX {
        if begun.elapsed() >= probe.time || interrupt.is_set() {
            break;
        }
        let sent = io::time::now();
        let answered = async {
            link.send(&message).await?;
            link.receive_into(&mut message).await
        };
        let answered: std::result::Result<(), End> = answered.await;
        answered.map_err(|end| Error::target(probe.address, end))?;
        rung.record(&Ok(sent.elapsed()));
    }
    Ok(rung)
}

/// One stream at its end.
struct Ended {
    to: bool,
    bytes: u64,
    time: Duration,
    own: TcpInfo,
    report: Report,
}

async fn transfer(probe: &Probe, streams: u32, to: bool, from: bool) -> Result<Transfer> {
    let mut tasks = Vec::new();
    for _ in 0..streams {
        for (mode, wanted) in [(Mode::ToServer, to), (Mode::FromServer, from)] {
            if wanted {
                tasks.push((connect(probe, mode, BLOCK).await?, mode));
            }
        }
    }
    let (begun, cpu) = (io::time::now(), thread_cpu_time());
    let time = probe.time;
    let tasks: Vec<_> = tasks
        .into_iter()
        .map(|(link, mode)| io::spawn(stream(link, mode, time)))
        .collect();
    let mut ended = Vec::new();
    for task in tasks {
        let done = task.await.unwrap_or(Err(End::Closed));
        ended.push(done.map_err(|end| Error::target(probe.address, end))?);
    }
    let busy = thread_cpu_time().saturating_sub(cpu);
    let permille = ended.iter().map(|e| e.report.busy_permille).max();
    Ok(Transfer {
        streams,
        to_server: to.then(|| flow(ended.iter().filter(|e| e.to))),
        from_server: from.then(|| flow(ended.iter().filter(|e| !e.to))),
        client_busy: busy.as_secs_f64() / begun.elapsed().as_secs_f64().max(1e-9),
        server_busy: f64::from(permille.unwrap_or(0)) / 1000.0,
    })
}

async fn stream(mut link: Link, mode: Mode, time: Duration) -> std::result::Result<Ended, End> {
    let begun = io::time::now();
    let to = mode == Mode::ToServer;
    let mut received = 0;
    if to {
        let block = data(BLOCK).await;
        while begun.elapsed() < time {
            link.send_block(&block).await?;
        }
        link.send(&word(false)).await?;
    } else {
        // A server that sends for longer than it was asked is left.
        let limit = time + 2 * SILENCE_MAX;
        while link.receive_block(BLOCK).await? {
            received += u64::from(BLOCK);
            if begun.elapsed() > limit {
                return Err(End::Broken);
            }
        }
    }
    let elapsed = begun.elapsed();
    let report = link.receive::<REPORT_LEN>().await?;
    let report = Report::decode(&report).map_err(|_| End::Broken)?;
    let (bytes, time) = match to {
        true => (report.bytes, Duration::from_nanos(report.nanos)),
        false => (received, elapsed),
    };
    Ok(Ended {
        to,
        bytes,
        time,
        own: link.info(),
        report,
    })
}

/// The streams of one direction together.
fn flow<'a>(ended: impl Iterator<Item = &'a Ended>) -> Flow {
    let mut flow = Flow::default();
    let (mut bytes, mut time) = (0u64, Duration::ZERO);
    for e in ended {
        bytes = bytes.saturating_add(e.bytes);
        time = time.max(e.time);
        let (mss, path_mtu, rtt_us, again) = match e.to {
            true => (e.own.mss, e.own.path_mtu, e.own.rtt_us, e.own.retransmits),
            false => (
                e.report.mss,
                e.report.path_mtu,
                e.report.rtt_us,
                e.report.retransmits,
            ),
        };
        flow.mss = if flow.mss == 0 {
            mss
        } else {
            flow.mss.min(mss)
        };
        flow.path_mtu = path_mtu;
        flow.rtt_us = flow.rtt_us.max(rtt_us);
        flow.retransmits += u64::from(again);
        flow.congestion = match e.to {
            true => e.own.congestion.clone(),
            false => e.report.congestion_name(),
        };
    }
    flow.bytes_per_s = bytes as f64 / time.as_secs_f64().max(1e-9);
    let segments = bytes as f64 / f64::from(flow.mss.max(1));
    flow.retransmit_share = flow.retransmits as f64 / segments.max(1.0);
    flow
}
