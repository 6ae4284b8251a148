//! The measuring side of the probe of verbs.
//!
//! **Invariants**: each operation is measured alone, first its time one by one, then its rate with [`DEPTH`] outstanding; a part that ends
//! early ends the measurement with the reason.

use super::super::link::{End, data};
use super::super::result::{MeasuredVerb, Verbs};
use super::super::run::Probe;
use super::super::wire::{Mode, REPLY_LEN, REPORT_LEN, Reply, Report, Request};
use super::wire::{BLOCK, BufferOffer, Kind};
use super::{client_receive_len, event, send, sizes};
use crate::probe::interrupt::Interrupt;
use crate::probe::rung::Rung;
use io::linux::thread_cpu_time;
use io::rdma::{ConnectError, QueuePair, QueuePairEvent, Returned, Verb, WorkRequest};
use io::{IoBuf, Payload};
use std::sync::Arc;
use std::time::Duration;

/// Requests outstanding while the rate is measured.
const DEPTH: u64 = 16;
/// Most requests of a measurement of time.
const REQUESTS_MAX: u64 = 1_000_000;

/// The operations, in the order of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Send,
    Write,
    Read,
}

/// Measures verbs to the address of `probe`. `say` gets the name of each part before it begins.
///
/// # Errors
/// Why there is no measurement, in words: no rdma-core or device here, no listener there, a refusal, or the end of the connection.
pub(in crate::probe::network) async fn run(
    probe: &Probe,
    interrupt: &Interrupt,
    mut say: impl FnMut(&str),
) -> Result<Verbs, String> {
    io::rdma::support().map_err(|why| why.to_string())?;
    let message = probe.message.min(BLOCK);
    let queue_pair = connect(probe, message).await?;
    let mut side = Side {
        offer: offer(&queue_pair).await.map_err(|end| end.to_string())?,
        block: data(BLOCK).await,
        queue_pair,
        message,
        time: probe.time,
    };
    let mut operations = Vec::new();
    for work in [Work::Send, Work::Write, Work::Read] {
        if interrupt.is_set() {
            return Err("interrupted".into());
        }
        say(&format!("{} over RDMA", work.name()));
        let measured = side.operation(work, interrupt).await;
        operations.push(measured.map_err(|end| format!("{}: {end}", work.name()))?);
    }
    let info = side.queue_pair.info();
    let [send, write, read] = operations.try_into().expect("three operations");
    Ok(Verbs {
        device: info.device,
        path_mtu: info.path_mtu,
        inline_max: info.inline_max,
        message,
        block: BLOCK,
        depth: DEPTH as u32,
        send,
        write,
        read,
    })
}

async fn connect(probe: &Probe, message: u32) -> Result<QueuePair, String> {
    let request = Request {
        mode: Mode::Verbs,
        size: BLOCK,
        millis: u32::try_from(probe.time.as_millis()).unwrap_or(u32::MAX),
    };
    let config = sizes(client_receive_len(message));
    let connected = QueuePair::connect(probe.address, config, &request.encode()).await;
    connected.map(|(queue_pair, _)| queue_pair).map_err(|e| match e {
        ConnectError::Rejected(private) => refusal(&private),
        ConnectError::Failed(e) => format!(
            "{e}: the path to {} has no RDMA device here (wirepool rdma status), or `wirepool probe serve` there has none",
            probe.address
        ),
    })
}

/// Why the server rejected the connection request.
fn refusal(private: &[u8]) -> String {
    let reply = private.first_chunk::<REPLY_LEN>().map(Reply::decode);
    match reply {
        Some(Ok(Reply(Err(refusal)))) => refusal.to_string(),
        _ => "`wirepool probe serve` does not listen there over RDMA: it is older, or has no RDMA device".into(),
    }
}

async fn offer(queue_pair: &QueuePair) -> Result<BufferOffer, End> {
    match event(queue_pair).await? {
        QueuePairEvent::Received(message) => BufferOffer::decode(&message).ok_or(End::Broken),
        _ => Err(End::Broken),
    }
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Send => "SEND",
            Work::Write => "WRITE",
            Work::Read => "READ",
        }
    }
}

/// The connection of this side.
struct Side {
    queue_pair: QueuePair,
    offer: BufferOffer,
    block: Arc<IoBuf>,
    message: u32,
    time: Duration,
}

impl Side {
    async fn operation(&mut self, work: Work, interrupt: &Interrupt) -> Result<MeasuredVerb, End> {
        let latency = self.latency(work, interrupt).await?;
        // The time since the last report ends here.
        self.ask().await?;
        let (begun, cpu) = (io::time::now(), thread_cpu_time());
        let (bytes, time) = self.rate(work, interrupt).await?;
        let busy = thread_cpu_time().saturating_sub(cpu).as_secs_f64();
        let busy = busy / begun.elapsed().as_secs_f64().max(1e-9);
        let report = self.ask().await?;
        // The server counts messages; WRITEs and READs pass it by.
        let bytes = match work {
            Work::Send => report.bytes,
            Work::Write | Work::Read => bytes,
        };
        Ok(MeasuredVerb {
            latency: latency.summary(),
            bytes_per_s: bytes as f64 / time.as_secs_f64().max(1e-9),
            client_busy: busy,
            server_busy: f64::from(report.busy_permille) / 1000.0,
        })
    }

    /// Time of one request after the other, of the size of a message: a SEND and its answer, a WRITE, a READ.
    async fn latency(&mut self, work: Work, interrupt: &Interrupt) -> Result<Rung, End> {
        let mut rung = Rung::default();
        let mut message = vec![0; self.message as usize];
        message[0] = Kind::Echo.code();
        let small = Arc::new(shortened(&self.block, self.message).await);
        let mut spare = Some(io::pool().alloc(self.message as usize).await);
        let begun = io::time::now();
        for _ in 0..REQUESTS_MAX {
            if begun.elapsed() >= self.time || interrupt.is_set() {
                break;
            }
            let sent = io::time::now();
            let verb = match work {
                Work::Send => {
                    send(&self.queue_pair, message.clone());
                    self.answer().await?;
                    rung.record(&Ok(sent.elapsed()));
                    continue;
                }
                Work::Write => self.write(&small),
                Work::Read => self.read(spare.take().ok_or(End::Broken)?),
            };
            self.post(verb);
            spare = self.done().await?.or(spare);
            rung.record(&Ok(sent.elapsed()));
        }
        Ok(rung)
    }

    /// Bytes of blocks that were carried out, and the time that they took.
    async fn rate(&mut self, work: Work, interrupt: &Interrupt) -> Result<(u64, Duration), End> {
        let mut spare = Vec::new();
        if work == Work::Read {
            for _ in 0..DEPTH {
                spare.push(io::pool().alloc(BLOCK as usize).await);
            }
        }
        let begun = io::time::now();
        let (mut outstanding, mut blocks) = (0, 0);
        loop {
            let is_over = begun.elapsed() >= self.time || interrupt.is_set();
            while !is_over && outstanding < DEPTH {
                let verb = match work {
                    Work::Send => self.block_of_data(),
                    Work::Write => self.write(&self.block),
                    Work::Read => match spare.pop() {
                        Some(buf) => self.read(buf),
                        None => break,
                    },
                };
                self.post(verb);
                outstanding += 1;
            }
            if outstanding == 0 {
                break;
            }
            spare.extend(self.done().await?);
            (outstanding, blocks) = (outstanding - 1, blocks + 1);
        }
        Ok((blocks * u64::from(BLOCK), begun.elapsed()))
    }

    fn block_of_data(&self) -> Verb {
        Verb::Send {
            head: vec![Kind::Data.code()],
            data: Some(Payload::shared(self.block.clone()).sub(1, BLOCK as usize - 1)),
            invalidate: None,
        }
    }

    fn write(&self, data: &Arc<IoBuf>) -> Verb {
        Verb::Write {
            data: Payload::shared(data.clone()),
            to: self.offer.writable,
        }
    }

    fn read(&self, into: IoBuf) -> Verb {
        Verb::Read {
            into,
            at: 0,
            from: self.offer.readable,
        }
    }

    fn post(&self, work: Verb) {
        let request = WorkRequest { tag: Some(1), work };
        self.queue_pair.post(&mut vec![request]);
    }

    /// Waits for the end of a request. Returns its buffer, if it had one.
    async fn done(&self) -> Result<Option<IoBuf>, End> {
        loop {
            match event(&self.queue_pair).await? {
                QueuePairEvent::Done {
                    returned: Returned::Buffer(buf),
                    ..
                } => return Ok(Some(buf)),
                QueuePairEvent::Done { .. } => return Ok(None),
                QueuePairEvent::Received(_) => return Err(End::Broken),
                QueuePairEvent::Released { .. } | QueuePairEvent::Ended(_) => {}
            }
        }
    }

    /// Waits for a message, and returns it.
    async fn answer(&self) -> Result<io::rdma::Received, End> {
        loop {
            if let QueuePairEvent::Received(message) = event(&self.queue_pair).await? {
                return Ok(message);
            }
        }
    }

    /// The server's report of the time since the last one.
    async fn ask(&self) -> Result<Report, End> {
        send(&self.queue_pair, vec![Kind::Ask.code()]);
        let answer = self.answer().await?;
        let bytes: &[u8; REPORT_LEN] = (*answer).try_into().map_err(|_| End::Broken)?;
        Report::decode(bytes).map_err(|_| End::Broken)
    }
}

/// The first bytes of a block.
async fn shortened(block: &IoBuf, len: u32) -> IoBuf {
    let mut buf = io::pool().alloc(len as usize).await;
    buf.copy_from_slice(&block[..len as usize]);
    buf
}
