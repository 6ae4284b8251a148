//! Times of a file that the holder of a delegation keeps, and reports (RFC 9754, section 5).
//!
//! **Owns** [`HeldTimes`] and [`ReportedTimes`]. **Called by** delegations, SETATTR, and questions for attributes. **Invariants**: a time that was
//! accepted is not the one of the grant, and not in the future.

use backend::file::Timestamp;

/// Times that a client reports; `None` for one that it does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportedTimes {
    /// `time_deleg_access`.
    pub accessed: Option<Timestamp>,
    /// `time_deleg_modify`.
    pub modified: Option<Timestamp>,
}

/// The times of a file when they were delegated, or when their holder set them last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldTimes {
    /// Last access.
    pub accessed: Timestamp,
    /// Last modification.
    pub modified: Timestamp,
}

impl HeldTimes {
    /// The reported times that count: one that is the time here is left out, because the holder changed nothing; one in the future
    /// becomes the present. A time before the one here counts, against RFC 9754, section 5: a program of the holder set it (decision 0328).
    #[must_use]
    pub fn accepted(&self, reported: ReportedTimes, now: Timestamp) -> ReportedTimes {
        let accepted = |time: Option<Timestamp>, before: Timestamp| {
            let time = time.map(|time| time.min(now));
            time.filter(|time| *time != before)
        };
        ReportedTimes {
            accessed: accepted(reported.accessed, self.accessed),
            modified: accepted(reported.modified, self.modified),
        }
    }

    /// Their holder set these times.
    pub(crate) fn set(&mut self, accepted: ReportedTimes) {
        self.accessed = accepted.accessed.unwrap_or(self.accessed);
        self.modified = accepted.modified.unwrap_or(self.modified);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_other_than_the_granted_ones_count_up_to_the_present() {
        let held = HeldTimes {
            accessed: Timestamp(10),
            modified: Timestamp(20),
        };
        let accepted = |accessed, modified| {
            let reported = ReportedTimes {
                accessed: Some(Timestamp(accessed)),
                modified: Some(Timestamp(modified)),
            };
            let accepted = held.accepted(reported, Timestamp(30));
            (
                accepted.accessed.map(|t| t.0),
                accepted.modified.map(|t| t.0),
            )
        };
        assert_eq!(accepted(10, 20), (None, None));
        assert_eq!(accepted(9, 19), (Some(9), Some(19)));
        assert_eq!(accepted(10, 21), (None, Some(21)));
        assert_eq!(accepted(30, 31), (Some(30), Some(30)));
        let nothing = held.accepted(ReportedTimes::default(), Timestamp(30));
        assert_eq!(nothing, ReportedTimes::default());
    }
}
