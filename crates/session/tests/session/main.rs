//! Sessions of a server: turns of hosts, and their admission.

mod admission;
mod turns;

use session::counters::Enumerated;

/// Why the connections of these tests end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Peer,
    Network,
    SendStall,
    Reclaimed,
    Drained,
    Limit,
    /// A deadline of the test's protocol.
    Late,
}

session::close_reason!(Reason);

impl Enumerated for Reason {
    const ALL: &'static [Reason] = &[
        Reason::Peer,
        Reason::Network,
        Reason::SendStall,
        Reason::Reclaimed,
        Reason::Drained,
        Reason::Limit,
        Reason::Late,
    ];
}

/// The only phase of their connections.
#[derive(Clone, Copy, PartialEq)]
struct Open;

impl Enumerated for Open {
    const ALL: &'static [Open] = &[Open];
}
