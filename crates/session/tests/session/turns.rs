//! Turns of a connection in the simulator, with a clock that advances within a turn.

use crate::{Open, Reason};
use io::net::{TcpListener, TcpStream};
use io::sim::{Node, Sim, SimConfig};
use io::time::{Instant, now, sleep};
use session::admission::AdmissionLimits;
use session::carrier::{Carrier, CarrierInfo};
use session::connections::Connections;
use session::link::Link;
use session::stream::transmit;
use session::turn::{self, Turns};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

const MICROSECOND: Duration = Duration::from_micros(1);

/// A protocol with one deadline, whose dispatching takes longer than the deadline is away.
struct Slow {
    link: Link<Reason>,
    deadline: Option<Instant>,
    /// Whether the check ends the connection. If not, its deadline stays due.
    ends: bool,
    checks: Rc<Cell<u64>>,
}

impl Turns for Slow {
    type Reason = Reason;

    fn link(&mut self) -> &mut Link<Reason> {
        &mut self.link
    }

    fn abort_requested(&mut self) {}
    fn drain_requested(&mut self) {}
    fn signalled(&mut self, _: u32, _: &impl Carrier) {}

    fn dispatched(&mut self) {
        let due = *self
            .deadline
            .get_or_insert(self.link.now() + 10 * MICROSECOND);
        while now() < due + 10 * MICROSECOND {}
    }

    fn run_deferred(&mut self) {}

    fn can_resume(&self) -> bool {
        false
    }

    fn is_congested(&self) -> bool {
        false
    }

    fn publish(&mut self) {}
    fn publish_info(&mut self, _: CarrierInfo) {}

    fn over(&mut self) -> Option<Reason> {
        self.link.ending()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn check_deadlines(&mut self) {
        self.checks.set(self.checks.get() + 1);
        let is_late = self.deadline.is_some_and(|at| at <= self.link.now());
        if is_late && self.ends {
            self.link.end(Reason::Late);
        }
    }
}

/// The value of `served`, or `None` if `other` ends first.
async fn first<T>(served: impl Future<Output = T>, other: impl Future<Output = ()>) -> Option<T> {
    let (mut served, mut other) = (pin!(served), pin!(other));
    poll_fn(|cx| match served.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => other.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Serves one connection by [`Slow`] until it ends or `other` has ended. Returns why, and the number of checks.
fn serve(ends: bool, other: impl Future<Output = ()> + 'static) -> (Option<Reason>, u64) {
    let config = SimConfig {
        read_cost: MICROSECOND,
        ..SimConfig::default()
    };
    Sim::new(33, config).block_on(async move {
        let (server, client) = (Node::new(), Node::new());
        let address = server.addr(7);
        let connected = client.spawn(async move {
            sleep(Duration::from_millis(1)).await;
            let stream = TcpStream::connect(address).await;
            sleep(Duration::from_secs(3600)).await;
            drop(stream);
        });
        let checks = Rc::new(Cell::new(0));
        let counted = checks.clone();
        let served = server.spawn(async move {
            let listener = TcpListener::bind(address).expect("bind");
            let stream = listener.accept().await.expect("a connection");
            let all = Connections::<Open, Reason>::new(AdmissionLimits {
                connections_max: 8,
                connecting_max: 8,
                discovery_max: 8,
                companions: 1,
            });
            let admitted = all.admit(&stream, Open, Duration::from_secs(1)).await;
            let (link, key) = admitted.expect("a place").into_link(&stream, 1 << 20);
            let slow = RefCell::new(Slow {
                link,
                deadline: None,
                ends,
                checks: counted,
            });
            let served = turn::run(
                &slow,
                &stream,
                std::future::pending(),
                transmit(&slow, &stream),
            );
            let why = first(served, other).await;
            all.ended(key, Open, why.unwrap_or(Reason::Drained));
            why
        });
        let why = served.await.expect("the connection was served");
        connected.abort();
        (why, checks.get())
    })
}

/// Regression: a deadline between a turn's start and its end was waited for by the timer, but not due for a check that
/// compared it with the turn's start. The turn went round for ever, and with it the shard and all its clients.
#[test]
fn a_deadline_that_passes_within_a_turn_is_due() {
    let (why, checks) = serve(true, std::future::pending());
    assert_eq!(why, Some(Reason::Late));
    assert_eq!(checks, 1, "the first check finds it late");
}

/// A deadline that stays due costs its own connection turns, and the other tasks of the shard have theirs.
#[test]
fn a_deadline_that_stays_due_does_not_hold_the_shard() {
    let (why, checks) = serve(false, async {
        for _ in 0..10 {
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(why, None, "the other task ended first");
    assert!(checks > 1, "{checks} checks");
}
