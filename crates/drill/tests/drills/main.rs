//! Drills: the judge of a history, and the relay that breaks connections.

mod judge;
mod relay;
