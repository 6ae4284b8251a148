//! `wirepool probe serve`: the other end of a measurement.
//!
//! **Owns** the listener and its connections. **Invariants**: at most `connections` are served at a time, each at most for the time
//! that its request names (a minute) and some seconds; the server ends by itself.

use super::link::{End, Link, SILENCE_MAX, data};
use super::verbs;
use super::wire::{Mode, REQUEST_LEN, Refusal, Reply, Report, Request, word};
use crate::probe::interrupt::Interrupt;
use crate::{Error, Result};
use io::linux::thread_cpu_time;
use io::net::{TcpListener, TcpStream};
use io::rdma::RdmaListener;
use io::time::Instant;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Interval at which the end of the server is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Pause after a failed accept: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Address and limits of the server.
#[derive(Debug, Clone)]
pub struct Serve {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Time after which the server ends.
    pub time: Duration,
    /// Most connections at a time.
    pub connections: u32,
}

/// Serves until the time is over or the user asks for the end. `say` gets lines for people.
///
/// # Errors
/// `Target` if the address cannot be listened on.
pub(crate) async fn serve(
    how: Serve,
    interrupt: &Interrupt,
    say: impl Fn(&str) + Clone + 'static,
) -> Result<()> {
    let listener = TcpListener::bind(how.listen).map_err(|e| Error::target(how.listen, e))?;
    say(&format!(
        "listening on {} for {:?}; Ctrl-C ends it",
        listener.local_addr(),
        how.time
    ));
    let end = io::time::now() + how.time;
    let served = Rc::new(Cell::new(0));
    let over_rdma = match listen_rdma(listener.local_addr()) {
        Ok(listener) => Some(io::spawn(accept_rdma(
            listener,
            served.clone(),
            how.connections,
            say.clone(),
        ))),
        Err(why) => {
            say(&format!("RDMA is not served: {why}"));
            None
        }
    };
    while !interrupt.is_set() && io::time::now() < end {
        match io::timeout(LOOK, listener.accept()).await {
            Ok(Ok(stream)) => {
                let place = Place::take(&served, how.connections);
                let say = say.clone();
                drop(io::spawn(async move {
                    let line = one(stream, place.is_some()).await;
                    drop(place);
                    say(&line);
                }));
            }
            Ok(Err(_)) => io::time::sleep(PAUSE).await,
            Err(_) => {}
        }
    }
    if let Some(task) = over_rdma {
        task.abort();
    }
    Ok(())
}

/// Listens over RDMA on the address of the listener for TCP. Errors: the reason why not.
fn listen_rdma(at: SocketAddr) -> std::result::Result<RdmaListener, String> {
    io::rdma::support().map_err(|why| why.to_string())?;
    RdmaListener::bind(at).map_err(|e| e.to_string())
}

/// Serves connection requests over RDMA until the device is removed.
async fn accept_rdma(
    listener: RdmaListener,
    served: Rc<Cell<u32>>,
    connections: u32,
    say: impl Fn(&str) + Clone + 'static,
) {
    say(&format!("listening over RDMA on {}", listener.local_addr()));
    loop {
        match listener.accept().await {
            Ok(incoming) => {
                let place = Place::take(&served, connections);
                let say = say.clone();
                drop(io::spawn(async move {
                    let line = verbs::serve(incoming, place.is_some()).await;
                    drop(place);
                    say(&line);
                }));
            }
            Err(e) => return say(&format!("RDMA is no longer served: {e}")),
        }
    }
}

/// One of the connections that may be served at a time.
struct Place(Rc<Cell<u32>>);

impl Place {
    fn take(served: &Rc<Cell<u32>>, most: u32) -> Option<Place> {
        (served.get() < most).then(|| {
            served.set(served.get() + 1);
            Place(served.clone())
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Serves one connection. Returns a line about it.
async fn one(stream: TcpStream, has_place: bool) -> String {
    let peer = stream.peer_addr();
    let mut link = Link::new(stream);
    let request = match link.receive::<REQUEST_LEN>().await {
        Ok(bytes) if has_place => Request::decode(&bytes).and_then(|r| match r.mode {
            Mode::Verbs => Err(Refusal::Unknown),
            _ => Ok(r),
        }),
        Ok(_) => Err(Refusal::Busy),
        Err(end) => return format!("{peer}: no request: {end}"),
    };
    let reply = Reply(request.map(drop)).encode();
    if let Err(end) = link.send(&reply).await {
        return format!("{peer}: {end}");
    }
    let request = match request {
        Ok(request) => request,
        Err(refusal) => return format!("{peer}: refused: {refusal}"),
    };
    let limit = Duration::from_millis(request.millis.into()) + 2 * SILENCE_MAX;
    let done = match io::timeout(limit, measure(&mut link, &request)).await {
        Ok(done) => done,
        Err(_) => return format!("{peer}: {:?}: longer than its time", request.mode),
    };
    match done {
        Ok(bytes) => format!("{peer}: {:?}: {bytes} bytes", request.mode),
        Err(end) => format!("{peer}: {:?}: {end}", request.mode),
    }
}

/// Runs one measurement. Returns its bytes.
async fn measure(link: &mut Link, request: &Request) -> std::result::Result<u64, End> {
    match request.mode {
        Mode::Echo => echo(link, request).await,
        Mode::ToServer => receive(link, request).await,
        Mode::FromServer => send(link, request).await,
        Mode::Verbs => Err(End::Broken),
    }
}

async fn echo(link: &mut Link, request: &Request) -> std::result::Result<u64, End> {
    let mut message = vec![0; request.size as usize];
    let mut bytes = 0;
    loop {
        match link.receive_into(&mut message).await {
            Ok(()) => link.send(&message).await?,
            Err(End::Closed) => return Ok(bytes),
            Err(end) => return Err(end),
        }
        bytes += u64::from(request.size);
    }
}

async fn receive(link: &mut Link, request: &Request) -> std::result::Result<u64, End> {
    let meter = Meter::start();
    let mut bytes = 0;
    while link.receive_block(request.size).await? {
        bytes += u64::from(request.size);
    }
    link.send(&meter.report(link, bytes).encode()).await?;
    Ok(bytes)
}

async fn send(link: &mut Link, request: &Request) -> std::result::Result<u64, End> {
    let data = data(request.size).await;
    let meter = Meter::start();
    let limit = Duration::from_millis(request.millis.into());
    let mut bytes = 0;
    while meter.begun.elapsed() < limit {
        link.send_block(&data).await?;
        bytes += u64::from(request.size);
    }
    link.send(&word(false)).await?;
    link.send(&meter.report(link, bytes).encode()).await?;
    Ok(bytes)
}

/// Time and processor time of a measurement.
pub(super) struct Meter {
    begun: Instant,
    cpu: Duration,
}

impl Meter {
    pub(super) fn start() -> Meter {
        Meter {
            begun: io::time::now(),
            cpu: thread_cpu_time(),
        }
    }

    /// Time and processor time since the start, without bytes.
    pub(super) fn measured(&self) -> Report {
        let time = self.begun.elapsed();
        let cpu = thread_cpu_time().saturating_sub(self.cpu);
        let busy = cpu.as_secs_f64() / time.as_secs_f64().max(1e-9);
        Report {
            nanos: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            busy_permille: (busy * 1000.0).round() as u32,
            ..Report::default()
        }
    }

    fn report(&self, link: &Link, bytes: u64) -> Report {
        let tcp = link.info();
        Report {
            bytes,
            mss: tcp.mss,
            path_mtu: tcp.path_mtu,
            rtt_us: tcp.rtt_us,
            retransmits: tcp.retransmits,
            ..self.measured()
        }
        .with_congestion(&tcp.congestion)
    }
}
