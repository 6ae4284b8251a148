//! Tests of the model: short histories with a known verdict.

use super::*;

const BS: u32 = 512;

fn read(m: &mut Model, lba: u64, stamp: Stamp) -> bool {
    let t = m.begin_read();
    answer(m, &t, lba, stamp)
}

fn answer(m: &mut Model, t: &Token, lba: u64, stamp: Stamp) -> bool {
    let mut block = vec![0; BS as usize];
    pattern::fill(&mut block, lba, stamp);
    m.end_read(t, lba, &block);
    m.violation.take().is_none()
}

fn write(m: &mut Model, how: WriteEnd) -> Stamp {
    let t = m.begin_write(0..1, false);
    m.end_write(&t, how);
    t.stamp
}

fn flush(m: &mut Model) {
    let t = m.begin_flush();
    m.end_flush(&t);
}

#[test]
fn an_acknowledged_write_is_seen_and_an_overwritten_one_is_not() {
    let mut m = Model::new(BS, 1);
    let a = write(&mut m, WriteEnd::Done);
    assert!(!read(&mut m, 0, Stamp::ZERO));
    assert!(read(&mut m, 0, a));
    let early = m.begin_read();
    let b = write(&mut m, WriteEnd::Done);
    assert!(
        answer(&mut m, &early, 0, a),
        "the read began before the write"
    );
    assert!(!read(&mut m, 0, a));
    assert!(read(&mut m, 0, b));
}

#[test]
fn a_content_that_was_read_stays_visible() {
    let mut m = Model::new(BS, 1);
    let t = m.begin_write(0..1, false);
    assert!(read(&mut m, 0, Stamp::ZERO));
    assert!(read(&mut m, 0, t.stamp));
    assert!(!read(&mut m, 0, Stamp::ZERO));
}

#[test]
fn a_crash_undoes_exactly_the_writes_without_a_promise() {
    for durable_by in [WriteEnd::Durable, WriteEnd::Done] {
        let mut m = Model::new(BS, 1);
        let a = write(&mut m, WriteEnd::Done);
        let b = write(&mut m, durable_by);
        if durable_by == WriteEnd::Done {
            flush(&mut m);
        }
        let c = write(&mut m, WriteEnd::Done);
        let d = write(&mut m, WriteEnd::Unknown);
        m.crash();
        assert_eq!(
            m.legal(0),
            BTreeSet::from([b, c, d]),
            "{durable_by:?}, not {a}"
        );
        assert!(read(&mut m, 0, c));
        assert!(!read(&mut m, 0, b), "the crash left one of them");
        m.crash();
        assert_eq!(
            m.legal(0),
            BTreeSet::from([c]),
            "what a crash left is stable"
        );
    }
}

#[test]
fn a_flush_that_began_earlier_promises_nothing() {
    let mut m = Model::new(BS, 1);
    let t = m.begin_flush();
    let a = write(&mut m, WriteEnd::Done);
    m.end_flush(&t);
    m.crash();
    assert_eq!(m.legal(0), BTreeSet::from([Stamp::ZERO, a]));
}

#[test]
fn a_request_repeated_after_a_crash_follows_the_surviving_writes() {
    let mut m = Model::new(BS, 1);
    let a = write(&mut m, WriteEnd::Done);
    let repeated = m.begin_write(0..1, false);
    m.crash();
    let early = m.begin_read();
    m.end_write(&repeated, WriteEnd::Durable);
    assert!(read(&mut m, 0, repeated.stamp));
    assert!(
        answer(&mut m, &early, 0, a),
        "it was there until the request was repeated"
    );
}

#[test]
fn failed_writes_may_have_happened_and_refused_ones_did_not() {
    let mut m = Model::new(BS, 1);
    let a = write(&mut m, WriteEnd::Failed);
    let _refused = write(&mut m, WriteEnd::Refused);
    assert_eq!(m.legal(0), BTreeSet::from([Stamp::ZERO, a]));
    let unknown = write(&mut m, WriteEnd::Unknown);
    let b = write(&mut m, WriteEnd::Done);
    assert_eq!(
        m.legal(0),
        BTreeSet::from([unknown, b]),
        "what was given up may come late"
    );
    m.crash();
    let c = write(&mut m, WriteEnd::Done);
    assert_eq!(m.legal(0), BTreeSet::from([c]), "but not from another life");
}

#[test]
fn nothing_comes_between_a_compare_and_its_write() {
    let mut m = Model::new(BS, 1);
    let a = write(&mut m, WriteEnd::Done);
    let (r, c) = (m.begin_read(), m.begin_write(0..1, false));
    let other = write(&mut m, WriteEnd::Done);
    let mut expected = vec![0; BS as usize];
    pattern::fill(&mut expected, 0, a);
    m.end_compare_and_write(&r, 0, &expected, &c);
    assert_eq!(m.violation(), None);
    assert_eq!(
        m.legal(0),
        BTreeSet::from([other]),
        "{} came directly after {a}",
        c.stamp
    );
}

#[test]
fn a_mixture_is_recognised() {
    let mut m = Model::new(BS, 1);
    let a = write(&mut m, WriteEnd::Done);
    let t = m.begin_read();
    let mut block = vec![0; BS as usize];
    pattern::fill(&mut block[..256], 0, a);
    m.end_read(&t, 0, &block);
    assert!(m.violation().is_some());
}
