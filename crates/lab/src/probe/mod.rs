//! Probes: where the time of a request goes, between this machine and a target or another Wirepool.
//!
//! **Called by** the command line. **Invariants**: a probe changes no data of a target, except in a file that it made itself; each
//! wait for a peer has a limit; a verdict is a pure function of a result, so that tests and reports can repeat it.
//!
//! | module | owns |
//! |---|---|
//! | `rung` | times of one kind of request, and requests without an answer |
//! | [`summary`] | a rung as numbers and a histogram, for text, JSON and pages |
//! | [`verdict`] | the form of a judgement |
//! | [`ping`] | TCP connect, keep-alive and read of a remote target |
//! | [`ioping`] | single requests to a file, directory, disk or target |
//! | [`network`] | latency and bandwidth of TCP between two Wirepools |
//! | `place` | the target of `ioping`: an address, or a scratch file in a directory |
//! | `interrupt` | Ctrl-C ends a probe, and its summary is printed |

mod interrupt;
pub mod ioping;
pub mod network;
pub mod ping;
mod place;
mod rung;
#[cfg(test)]
pub(crate) mod samples;
pub mod summary;
pub mod verdict;

pub(crate) use interrupt::Interrupt;
pub use ioping::text::line as ioping_line;
pub use ioping::text::render as ioping_text;
pub use ping::text::line as ping_line;
pub use ping::text::render as ping_text;
