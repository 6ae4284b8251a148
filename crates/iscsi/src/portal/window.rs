//! The command window of a session (§4.2.2.1): the allowed CmdSNs, and the order in which commands are delivered.
//!
//! **Called by** the connections of a session, which may be on different shards, behind the session's mutex.
//! **Invariants**: `ExpCmdSN <= MaxCmdSN + 1`; neither ever goes back; each number is delivered once; the window bounds the
//! numbers that wait for earlier ones.

use crate::wire::Sn;
use std::collections::BTreeSet;

/// What to do with a command that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Deliver it now; if `more`, held commands can follow.
    Deliver {
        /// Whether held commands can follow.
        more: bool,
    },
    /// Commands with earlier numbers are missing.
    Hold,
    /// Ignore it silently: it is outside of the window, or has arrived before.
    Ignore,
}

/// The window.
#[derive(Debug)]
pub(crate) struct Window {
    exp: Sn,
    max: Sn,
    depth: u32,
    /// Numbers that wait for earlier ones, as distances from the first number, so that their order survives the wrap.
    early: BTreeSet<u64>,
    base: u64,
}

impl Window {
    /// Opens `depth` numbers from `first` on.
    pub(crate) fn new(first: Sn, depth: u32) -> Window {
        Window {
            exp: first,
            max: first.plus(depth - 1),
            depth,
            early: BTreeSet::new(),
            base: 0,
        }
    }

    /// ExpCmdSN and MaxCmdSN.
    pub(crate) fn edges(&self) -> (Sn, Sn) {
        (self.exp, self.max)
    }

    /// Whether a number is within the window.
    pub(crate) fn is_open_to(&self, sn: Sn) -> bool {
        !sn.is_before(self.exp) && !self.max.is_before(sn) && sn.since(self.exp) < self.depth
    }

    /// A command with this number has arrived whole.
    pub(crate) fn arrived(&mut self, sn: Sn) -> Verdict {
        if !self.is_open_to(sn) {
            return Verdict::Ignore;
        }
        let at = self.base + u64::from(sn.since(self.exp));
        if at > self.base {
            return if self.early.insert(at) {
                Verdict::Hold
            } else {
                Verdict::Ignore
            };
        }
        self.advance();
        let mut more = false;
        while self.early.remove(&self.base) {
            self.advance();
            more = true;
        }
        Verdict::Deliver { more }
    }

    fn advance(&mut self) {
        self.exp = self.exp.next();
        self.base += 1;
    }

    /// A command that was not immediate has ended: there is room for one more.
    pub(crate) fn ended(&mut self) {
        let most = self.exp.plus(self.depth - 1);
        if self.max.is_before(most) {
            self.max = self.max.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Verdict = Verdict::Deliver { more: false };

    #[test]
    fn numbers_are_delivered_once_and_in_order_across_the_wrap() {
        let first = Sn(0xffff_fffe);
        let mut w = Window::new(first, 4);
        assert_eq!(w.arrived(first.plus(4)), Verdict::Ignore, "beyond MaxCmdSN");
        assert_eq!(
            w.arrived(first.plus(u32::MAX)),
            Verdict::Ignore,
            "before ExpCmdSN"
        );
        assert_eq!(w.arrived(first.plus(1)), Verdict::Hold);
        assert_eq!(w.arrived(first.plus(1)), Verdict::Ignore, "twice");
        assert_eq!(w.arrived(first), Verdict::Deliver { more: true });
        assert_eq!(w.arrived(first), Verdict::Ignore);
        assert_eq!(w.arrived(first.plus(2)), ON);
        assert_eq!(w.arrived(first.plus(3)), ON);
        assert_eq!(w.edges(), (first.plus(4), first.plus(3)), "closed");
        assert_eq!(w.arrived(first.plus(4)), Verdict::Ignore);
        w.ended();
        assert_eq!(w.arrived(first.plus(4)), ON);
    }

    #[test]
    fn the_window_never_grows_beyond_its_depth() {
        let mut w = Window::new(Sn(7), 2);
        (0..5).for_each(|_| w.ended());
        assert_eq!(w.edges(), (Sn(7), Sn(8)));
    }
}
