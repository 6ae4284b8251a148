//! Findings about a row, the verdict that follows from them, and the thresholds of the rules.

use std::fmt;
use std::time::Duration;

/// Assumed size of a device's cache, bytes: hard disks have up to 512 MiB, solid-state disks for consumers up to 1
/// GiB, mostly for their tables. Controllers with batteries have more and are not recognised.
const DEVICE_CACHE: u64 = 512 << 20;

/// Rules about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The requested queue depth was not in flight.
    DepthIgnored,
    /// A cache served the reads.
    Cached,
    /// The region is small enough for a cache on the way.
    WorkingSet,
    /// The contents could be compressed or deduplicated.
    Compressible,
    /// Too short, or too few I/Os.
    Short,
    /// The rate varied too much.
    Unsteady,
    /// One round: the spread of rounds is unknown.
    OneRound,
    /// The client's processor was the limit.
    ClientSaturated,
    /// The server's processor was the limit.
    ServerSaturated,
    /// Never-written blocks were read.
    Holes,
    /// O_DIRECT was requested and is not in effect.
    NotDirect,
    /// A congestion control other than the requested one.
    Congestion,
    /// Compared targets were not measured in alternation.
    NotInterleaved,
    /// The connection differs from the requested one.
    Fallback,
    /// An open loop could not keep its rate.
    RateMissed,
}

impl Rule {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::DepthIgnored => "depth-ignored",
            Rule::Cached => "cached",
            Rule::WorkingSet => "working-set",
            Rule::Compressible => "compressible",
            Rule::Short => "short",
            Rule::Unsteady => "unsteady",
            Rule::OneRound => "one-round",
            Rule::ClientSaturated => "client-cpu",
            Rule::ServerSaturated => "server-cpu",
            Rule::Holes => "holes",
            Rule::NotDirect => "not-direct",
            Rule::Congestion => "congestion",
            Rule::NotInterleaved => "not-interleaved",
            Rule::Fallback => "fallback",
            Rule::RateMissed => "rate-missed",
        }
    }
}

/// Weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// For information; the row is valid.
    Note,
    /// The row may mislead.
    Flag,
    /// The row would be meaningless and is not run.
    Refuse,
}

/// A finding of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The weight.
    pub weight: Weight,
    /// The observation.
    pub text: String,
}

/// The findings of all rules about a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict(pub Vec<Finding>);

impl Verdict {
    /// The heaviest finding; `None` if there is none or only notes.
    #[must_use]
    pub fn weight(&self) -> Option<Weight> {
        self.0
            .iter()
            .map(|f| f.weight)
            .max()
            .filter(|w| *w > Weight::Note)
    }

    /// Whether a rule has a finding of any weight.
    #[must_use]
    pub fn has(&self, rule: Rule) -> bool {
        self.0.iter().any(|f| f.rule == rule)
    }
}

impl fmt::Display for Verdict {
    /// `valid`, `flagged: unsteady, short` or `refused: depth-ignored`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(weight) = self.weight() else {
            return f.write_str("valid");
        };
        let word = if weight == Weight::Refuse {
            "refused"
        } else {
            "flagged"
        };
        let mut names: Vec<_> = self
            .0
            .iter()
            .filter(|f| f.weight > Weight::Note)
            .map(|f| f.rule.name())
            .collect();
        names.dedup();
        write!(f, "{word}: {}", names.join(", "))
    }
}

/// Thresholds of the rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Least measured time of a row, over all rounds: shorter runs measure the start.
    pub time_min: Duration,
    /// Fewest I/Os of a row: below, a p99.9 is one I/O.
    pub ios_min: u64,
    /// Largest standard deviation over mean of the rate per slice of time.
    pub variation_max: f64,
    /// Largest half distance between rounds, percent of their median.
    pub spread_max_percent: f64,
    /// Share of its processor at which a client thread counts as saturated.
    pub client_busy_max: f64,
    /// Share of one processor at which the server counts as saturated.
    pub server_busy_max: f64,
    /// Least share of the requested depth that must have been in flight.
    pub in_flight_min: f64,
    /// A file in the page cache must be at least this many times the machine's memory.
    pub memory_multiple: u64,
    /// The machine's memory, bytes.
    pub memory: u64,
    /// Fewest different blocks.
    pub blocks_min: u64,
    /// Assumed size of a device's cache, bytes.
    pub device_cache: u64,
    /// Least bytes that devices read for each byte the client read.
    pub device_read_min: f64,
    /// Largest share of sampled reads that were all zero.
    pub zeroes_max: f64,
}

impl Thresholds {
    /// The defaults, for a machine with `memory` bytes.
    #[must_use]
    pub fn for_memory(memory: u64) -> Thresholds {
        Thresholds {
            time_min: Duration::from_secs(3),
            ios_min: 1000,
            variation_max: 0.25,
            spread_max_percent: 25.0,
            client_busy_max: 0.95,
            server_busy_max: 0.95,
            in_flight_min: 0.5,
            memory_multiple: 2,
            memory,
            blocks_min: 1000,
            device_cache: DEVICE_CACHE,
            device_read_min: 0.5,
            zeroes_max: 0.05,
        }
    }
}

/// Circumstances of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// Several targets were compared.
    pub compared: bool,
    /// Whether their rounds alternated.
    pub interleaved: bool,
    /// Whether the client's ring spins, so that its processor time does not show its load.
    pub spins: bool,
}

/// The findings of the rules so far.
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn add(&mut self, weight: Weight, rule: Rule, text: impl Into<String>) {
        self.0.push(Finding {
            rule,
            weight,
            text: text.into(),
        });
    }

    pub(super) fn flag_if(&mut self, wrong: bool, rule: Rule, text: impl FnOnce() -> String) {
        if wrong {
            self.add(Weight::Flag, rule, text());
        }
    }
}
