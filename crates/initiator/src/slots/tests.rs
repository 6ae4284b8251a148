//! Tests of the table of outstanding commands.

use super::*;
use io::sync::Semaphore;

type Error = &'static str;
type Table = Slots<(), Result<u8, Error>>;

fn permit(of: &Semaphore) -> Permit {
    let mut acquire = std::pin::pin!(of.acquire(1));
    let mut cx = Context::from_waker(Waker::noop());
    match acquire.as_mut().poll(&mut cx) {
        Poll::Ready(permit) => permit,
        Poll::Pending => panic!("a permit is free"),
    }
}

fn insert(slots: &mut Table, replay: Replay, permits: &Semaphore) -> u16 {
    let request = Request {
        command: (),
        data: Data::None,
        replay,
        whole: false,
    };
    slots.insert(request, permit(permits))
}

fn failed(late: bool) -> Result<u8, Error> {
    Err(if late { "late" } else { "broken" })
}

#[test]
fn an_answer_to_an_earlier_command_matches_no_slot() {
    for generation_bits in [6, 20] {
        let permits = Semaphore::new(2);
        let mut slots = Table::new(2, generation_bits);
        let index = insert(&mut slots, Replay::Yes, &permits);
        let first = slots.send(index, 0).expect("parked");
        assert_eq!(slots.find(first), Some(index));
        assert!(slots.finish(index, Ok(0)).is_none(), "nobody waits");
        assert_eq!(slots.find(first), None, "answered twice");
        assert!(slots.take(index, Waker::noop()).is_some());
        assert_eq!(permits.available(), 2);
        let index = insert(&mut slots, Replay::Yes, &permits);
        let second = slots.send(index, 0).expect("parked");
        assert_ne!(first, second);
        for wild in [first, 1, 1000, u32::MAX, second | 1 << 30] {
            assert_eq!(slots.find(wild), None, "{wild}");
        }
        assert_eq!(slots.send(index, 0), None, "sent already");
    }
}

#[test]
fn a_broken_connection_parks_commands_that_may_be_sent_twice() {
    let permits = Semaphore::new(5);
    let mut slots = Table::new(5, 6);
    let [yes, no, never, unsent, late] = [
        Replay::Yes,
        Replay::No,
        Replay::Never,
        Replay::No,
        Replay::Yes,
    ]
    .map(|replay| insert(&mut slots, replay, &permits));
    slots.send(late, 0).expect("parked");
    assert_eq!(slots.expire(9, 9), Some(late));
    for index in [yes, no, never] {
        slots.send(index, 9).expect("parked");
    }
    assert_eq!(slots.outstanding(), 4);
    assert!(slots.disconnect(true, failed).is_empty(), "nobody waits");
    assert_eq!(slots.parked(), [yes, unsent]);
    for (index, error) in [(no, "broken"), (never, "broken"), (late, "late")] {
        let finished = slots.take(index, Waker::noop()).expect("failed");
        assert_eq!(finished.result, Err(error));
    }
    assert!(slots.disconnect(false, failed).is_empty(), "nobody waits");
    let finished = slots.take(yes, Waker::noop()).expect("failed");
    assert_eq!(finished.result, Err("broken"));
    assert!(slots.parked().is_empty());
}

#[test]
fn an_abandoned_command_holds_its_slot_until_the_answer() {
    let permits = Semaphore::new(1);
    let mut slots = Table::new(1, 6);
    let index = insert(&mut slots, Replay::Yes, &permits);
    slots.send(index, 3).expect("parked");
    slots.abandon(index);
    assert_eq!(permits.available(), 0, "the slot is in use");
    let all = |(): &()| true;
    assert!(!slots.has_expired(6, 4, all) && slots.has_expired(7, 4, all));
    assert!(!slots.has_expired(7, 4, |()| false));
    assert!(slots.finish(index, Ok(0)).is_none());
    assert_eq!((permits.available(), slots.outstanding()), (1, 0));
}
