//! Tests of the rings of the journal.

use super::*;

/// The ring with the tail is the one that stays; a ring that is gone never comes back.
#[test]
fn the_ring_with_the_tail_stays() {
    let on = |n| vec![VdevId(n)];
    let mut rings = JournalRings::new(on(0));
    rings.begin_move(&on(1), 7);
    let next = rings.next.clone().expect("there");
    assert!(next.first > 7 && next.vdevs == on(1));
    assert!(rings.has(VdevId(0)) && rings.has(VdevId(1)) && !rings.has(VdevId(2)));
    assert_eq!(rings.with_segment(next.first), Some(&next));
    assert_eq!(rings.with_segment(next.first - 1), Some(&rings.now));
    // a second attempt has other numbers
    rings.begin_move(&on(2), 7);
    let later = rings.next.clone().expect("there");
    assert!(later.first > next.first);
    let mut given_up = rings.clone();
    assert!(given_up.settle(7) && !given_up.settle(7));
    assert_eq!(given_up, JournalRings::new(on(0)));
    assert!(rings.settle(later.first + 3));
    assert_eq!((&rings.now, &rings.next), (&later, &None));
    assert_eq!(rings.with_segment(next.first), None);
    assert_eq!(rings.with_segment(later.first), Some(&later));
}
