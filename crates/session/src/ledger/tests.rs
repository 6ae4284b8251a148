//! Tests of the ledger: shares of hosts, order of grants, reclaim.

use super::*;
use crate::account::{Account, Hold};
use crate::limits::BEHIND_MAX;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

const MIB: usize = 1 << 20;
const POOL: usize = 32 * MIB;

fn key(n: u8) -> HostKey {
    HostKey::named("host", IpAddr::from([10, 0, 0, n]))
}

fn account(ledger: &Ledger, n: u8) -> (Account, Rc<Cell<bool>>) {
    let evicted = Rc::new(Cell::new(false));
    let told = evicted.clone();
    let account = Account::new(ledger, key(n), POOL, io::time::now(), move || {
        told.set(true)
    });
    (account, evicted)
}

/// Takes holds of `piece` bytes until the ledger refuses one.
fn fill(account: &Account, piece: usize) -> Vec<Hold> {
    std::iter::from_fn(|| {
        let mut hold = account.try_hold(piece)?;
        hold.to_peer(io::time::now());
        Some(hold)
    })
    .collect()
}

fn sum(holds: &[Hold]) -> usize {
    holds.iter().map(Hold::bytes).sum()
}

#[test]
fn a_host_alone_earns_nearly_the_whole_pool() {
    let ledger = Ledger::new(POOL);
    let (one, _) = account(&ledger, 1);
    let first = fill(&one, MIB);
    assert!(sum(&first) >= POOL / 8, "it begins with a part");
    one.received(POOL, io::time::now());
    drop(first);
    let all = fill(&one, MIB);
    assert!(sum(&all) >= POOL / 5 * 4, "{} bytes", sum(&all));
    drop(all);
    assert_eq!(ledger.stats().held, 0);
}

/// Regression: in a pool of 4 MiB, a stranger's request of 2 MiB exceeded the strangers' part and was never granted.
#[test]
fn the_largest_request_is_granted_in_the_smallest_pool() {
    let largest = io::limits::BUF_LEN_MAX;
    for pool in [largest, 2 * largest] {
        let ledger = Ledger::new(pool);
        let (one, _) = account(&ledger, 1);
        let first = one.try_hold(largest);
        assert!(first.is_some(), "a stranger, {pool} bytes");
        drop(first);
        one.received(pool, io::time::now());
        let (mut other, _) = account(&ledger, 2);
        let held = one.try_hold(largest).expect("it has moved as much");
        let waits = other.hold(largest, io::time::now(), Waker::noop());
        assert!(waits.is_none() || pool > largest);
        drop(held);
        let granted = waits.or_else(|| other.hold(largest, io::time::now(), Waker::noop()));
        assert!(granted.is_some(), "after another host, {pool} bytes");
    }
}

#[test]
fn hosts_that_only_hold_leave_room_for_one_that_has_moved_data() {
    let ledger = Ledger::new(POOL);
    let (good, _) = account(&ledger, 255);
    good.received(16 * MIB, io::time::now());
    let bad: Vec<_> = (0..250).map(|n| account(&ledger, n)).collect();
    let mut held = Vec::new();
    for piece in [MIB, 4096] {
        for (account, _) in &bad {
            held.extend(fill(account, piece));
        }
    }
    assert!(sum(&held) <= POOL / 4 * 3);
    let room = fill(&good, MIB);
    assert!(sum(&room) >= 4 * MIB, "{} bytes", sum(&room));
}

#[test]
fn a_newcomer_is_not_kept_out_by_a_host_that_is_always_busy() {
    let ledger = Ledger::new(POOL);
    let (busy, _) = account(&ledger, 1);
    busy.received(POOL, io::time::now());
    let mut working: VecDeque<_> = fill(&busy, MIB).into();
    let (mut new, _) = account(&ledger, 2);
    let mut granted = None;
    for _ in 0..POOL / MIB {
        granted = new.hold(MIB, io::time::now(), Waker::noop());
        if granted.is_some() {
            break;
        }
        // The busy host begins its next command as soon as one has ended.
        working.pop_front();
        working.extend(busy.try_hold(MIB));
    }
    assert!(granted.is_some(), "the newcomer waits for ever");
}

#[test]
fn requests_are_granted_first_come_first_served_and_withdrawn_ones_are_skipped() {
    let ledger = Ledger::new(POOL);
    let (first, _) = account(&ledger, 1);
    let (second, _) = account(&ledger, 2);
    let held = [fill(&first, MIB), fill(&second, MIB)];
    let mut waiting: Vec<_> = (3..40).map(|n| account(&ledger, n).0).collect();
    let mut early = Vec::new();
    for w in &mut waiting {
        early.extend(w.hold(MIB, io::time::now(), Waker::noop()));
    }
    let at = early.len();
    assert!(at < waiting.len(), "some wait");
    waiting[at].forget();
    drop(held);
    let got: Vec<_> = waiting[at + 1..]
        .iter_mut()
        .map(|w| w.hold(MIB, io::time::now(), Waker::noop()))
        .collect();
    let granted = got.iter().take_while(|g| g.is_some()).count();
    assert!(granted >= 4, "{granted}");
    assert!(got[granted..].iter().all(Option::is_none), "in order");
    drop((got, early, waiting));
    assert_eq!((ledger.stats().held, ledger.stats().waiting), (0, 0));
}

#[test]
fn a_waiting_request_reclaims_from_the_host_that_holds_most_for_longest() {
    let ledger = Ledger::new(POOL);
    let start = io::time::now();
    let (hog, hog_gone) = account(&ledger, 1);
    let (slow, slow_gone) = account(&ledger, 2);
    let (active, active_gone) = account(&ledger, 3);
    let held = [fill(&hog, MIB), fill(&slow, MIB), fill(&active, MIB)];
    assert!(sum(&held[0]) > sum(&held[1]));
    let (mut waiter, _) = account(&ledger, 4);
    let want = 4 * MIB;
    assert!(waiter.hold(want, start, Waker::noop()).is_none());
    waiter.reclaim(start);
    assert!(!hog_gone.get(), "nobody is behind yet");
    let later = io::time::now() + BEHIND_MAX + Duration::from_millis(1);
    active.received(64 * MIB, later);
    waiter.reclaim(later);
    assert!(hog_gone.get() && !slow_gone.get() && !active_gone.get());
    drop(held);
    assert!(waiter.hold(want, later, Waker::noop()).is_some());
}

#[test]
fn small_pieces_do_not_make_up_for_many_bytes_held() {
    let ledger = Ledger::new(POOL);
    let (drip, gone) = account(&ledger, 1);
    let held = fill(&drip, MIB);
    let (mut waiter, _) = account(&ledger, 2);
    let now = io::time::now();
    assert!(waiter.hold(POOL / 2, now, Waker::noop()).is_none());
    for tenth in 1..40 {
        let at = now + Duration::from_millis(100) * tenth;
        drip.received(4, at);
        waiter.reclaim(at);
    }
    assert!(gone.get());
    drop(held);
}

#[test]
fn bytes_that_sockets_may_hold_earn_nothing() {
    let ledger = Ledger::new(POOL);
    let (one, _) = account(&ledger, 1);
    let begin = sum(&fill(&one, MIB));
    one.sent(crate::limits::SOCKETS_HOLD, io::time::now());
    assert_eq!(sum(&fill(&one, MIB)), begin);
    one.sent(POOL, io::time::now());
    assert!(sum(&fill(&one, MIB)) > 2 * begin);
}
