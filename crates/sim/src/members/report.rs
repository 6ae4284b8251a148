//! Reports of processes that share a search: the continuations of sequences, as text.
//!
//! **Owns** the text form, one line for each operation and an empty line after each sequence. **Called by** `search`, on both
//! ends of a pipe. **Invariant**: a report that is not whole decodes to nothing.

use super::End;
use super::Key;
use super::ops::Op;

/// An operation after a sequence, and the state behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) key: Key,
    pub(super) is_open: bool,
    /// Whether the state was checked, and a split brain was made and refused.
    pub(super) was_split: bool,
    /// Operations that the pool had to refuse.
    pub(super) refused: u64,
    /// Whether there was a violation; then only `op` counts.
    pub(super) has_failed: bool,
}

impl Step {
    pub(super) fn of(op: Op, end: &End) -> Self {
        Self {
            op,
            key: end.key,
            is_open: end.is_open,
            was_split: end.was_split,
            refused: end.refused,
            has_failed: false,
        }
    }

    pub(super) fn failed(op: Op) -> Self {
        Self {
            op,
            key: 0,
            is_open: false,
            was_split: false,
            refused: 0,
            has_failed: true,
        }
    }
}

/// A step's line, without its end.
pub(super) fn line(step: &Step) -> String {
    let (kind, a, b) = step.op.numbers();
    let Step {
        key,
        is_open,
        was_split,
        refused,
        has_failed,
        ..
    } = step;
    format!("{kind} {a} {b} {key} {is_open} {was_split} {refused} {has_failed}")
}

/// The step of a line.
pub(super) fn step(line: &str) -> Option<Step> {
    let mut fields = line.split(' ');
    let mut number = || fields.next()?.parse().ok();
    let op = Op::of_numbers(number()?, number()?, number()?)?;
    let step = Step {
        op,
        key: fields.next()?.parse().ok()?,
        is_open: fields.next()?.parse().ok()?,
        was_split: fields.next()?.parse().ok()?,
        refused: fields.next()?.parse().ok()?,
        has_failed: fields.next()?.parse().ok()?,
    };
    fields.next().is_none().then_some(step)
}

/// The continuations of several sequences.
pub(super) fn text(all: &[Vec<Step>]) -> String {
    let of_sequence = |steps: &Vec<Step>| {
        let lines = steps.iter().map(|s| line(s) + "\n");
        lines.collect::<String>() + "\n"
    };
    all.iter().map(of_sequence).collect()
}

/// Decodes [`text`].
pub(super) fn steps(text: &str) -> Option<Vec<Vec<Step>>> {
    let mut all = Vec::new();
    let mut current = Vec::new();
    for text in text.lines() {
        match text {
            "" => all.push(std::mem::take(&mut current)),
            text => current.push(step(text)?),
        }
    }
    current.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_decodes_to_what_was_encoded_and_a_part_of_it_to_nothing() {
        let step = |op, key| Step {
            key,
            is_open: true,
            refused: 3,
            has_failed: false,
            ..Step::failed(op)
        };
        let ops = [Op::Offline(2), Op::Replace(1, 7), Op::Grow, Op::Restart];
        let first = ops.map(|op| step(op, u128::MAX)).to_vec();
        let all = vec![first, Vec::new(), vec![Step::failed(Op::Add(4))]];
        let text = text(&all);
        assert_eq!(steps(&text), Some(all));
        assert_eq!(steps(&text[..text.len() - 1]), None);
        assert_eq!(steps(&text[1..]), None);
    }
}
