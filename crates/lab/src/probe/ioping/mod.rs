//! `wirepool ioping`: one request at a time, at a slow pace, with the time of each.
//!
//! **Called by** the command line. **Invariants**: existing data is only read; writes go to a scratch file; the name of the way
//! (direct, cached) is the one in effect, not the requested one.

pub mod result;
pub(super) mod text;
pub(super) mod verdict;

use crate::probe::interrupt::Interrupt;
use crate::probe::place::{How, Place, open};
use crate::probe::rung::{Rung, timed};
use crate::probe::verdict::{Limit, Verdict};
use crate::targets::{AnySession, Facts, Medium, Session, Target};
use crate::{Error, Result};
use io::rng::Prng;
use result::{Iopinged, Operation, Request, Way};
use std::time::Duration;
use verdict::judge;

/// Requests, times and limits.
#[derive(Debug, Clone)]
pub struct Ioping {
    /// A path, a directory, or an address of the lab.
    pub target: String,
    /// Requests; none: until the user asks for the end.
    pub count: Option<u64>,
    /// Time from the start of a request to the start of the next one.
    pub interval: Duration,
    /// Bytes of each request.
    pub size: u32,
    /// The kind of request.
    pub operation: Operation,
    /// Use the page cache of this machine.
    pub cached: bool,
    /// Bytes of a scratch file.
    pub scratch: u64,
    /// Time after which a request counts as lost.
    pub patience: Duration,
}

/// Time limit of opening a remote target.
const OPEN_MAX: Duration = Duration::from_secs(10);

/// Sends the requests. `each` is called after each of them.
///
/// # Errors
/// Errors of opening the target; `Usage` for a size that it cannot do.
pub(crate) async fn run(
    how: Ioping,
    interrupt: &Interrupt,
    mut each: impl FnMut(&Facts, &Request),
) -> Result<Iopinged> {
    let options = How {
        cached: how.cached,
        scratch: how.scratch,
        write: how.operation != Operation::Read,
    };
    let opened = async {
        let place = open(&how.target, options).await?;
        let session = place.target.connect(1).await?;
        Ok::<_, Error>((place, session))
    };
    let (place, session) = io::timeout(OPEN_MAX.max(how.patience), opened)
        .await
        .unwrap_or_else(|_| Err(Error::target(&how.target, "no session in time")))?;
    let facts = session.facts();
    let places = places(&facts, how.size)?;
    let begun = io::time::now();
    let (mut due, mut rung, mut number) = (begun, Rung::default(), 0);
    let mut random = Prng::new(io::rng::u64());
    while how.count.is_none_or(|n| number < n) && !interrupt.is_set() {
        number += 1;
        let offset = random.below(places) * u64::from(how.size);
        let time = request(&session, &how, offset, &mut random).await;
        rung.record(&time);
        each(&facts, &Request { number, time });
        due = due + how.interval;
        if how.count != Some(number) {
            interrupt.sleep_until(due).await;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut result = outcome(&how, &place, &facts, &rung);
    result.seconds = seconds;
    result.rtt_us = session.tcp().map(|t| t.rtt_us);
    result.verdict = judge(&result);
    // A server that does not answer the end of a session ends it by itself.
    let _ = io::timeout(how.patience, session.close()).await;
    Ok(result)
}

/// Number of places for requests of this size. Errors: `Usage`.
fn places(facts: &Facts, size: u32) -> Result<u64> {
    let places = facts.size / u64::from(size.max(1));
    if places > 0 && size <= facts.transfer_max && size.is_multiple_of(facts.block_size) {
        return Ok(places);
    }
    let most = u64::from(facts.transfer_max).min(facts.size);
    let why = format!(
        "expected a multiple of {}, at most {most}",
        facts.block_size
    );
    Err(Error::usage(format!("requests of {size} bytes"), why))
}

async fn request(
    session: &AnySession,
    how: &Ioping,
    offset: u64,
    random: &mut Prng,
) -> std::result::Result<Duration, String> {
    let mut buf = io::pool().alloc(how.size as usize).await;
    if how.operation != Operation::Read {
        random.fill(&mut buf);
    }
    let done = async {
        let (done, _) = match how.operation {
            Operation::Read => session.read(buf, offset).await,
            Operation::Write => session.write(buf, offset, false).await,
            Operation::DurableWrite => session.write(buf, offset, true).await,
        };
        done.map_err(|e| e.to_string())
    };
    timed(how.patience, done).await.map(|(time, ())| time)
}

fn outcome(how: &Ioping, place: &Place, facts: &Facts, rung: &Rung) -> Iopinged {
    Iopinged {
        target: place.name.clone(),
        description: facts.description.clone(),
        operation: how.operation,
        way: way(facts),
        is_scratch: place.is_scratch,
        size: how.size,
        region: facts.size,
        holes: facts.holes as f64 / facts.size.max(1) as f64,
        seconds: 0.0,
        rtt_us: None,
        requests: rung.summary(),
        verdict: Verdict::new(Limit::Mixed, ""),
    }
}

/// The way that is in effect.
pub(crate) fn way(facts: &Facts) -> Way {
    match (&facts.transport, facts.medium, facts.direct) {
        (Some(_), ..) => Way::Remote,
        (None, Medium::Ram, _) => Way::Memory,
        (None, _, Some(false)) => Way::PageCache,
        (None, _, _) => Way::Direct,
    }
}
