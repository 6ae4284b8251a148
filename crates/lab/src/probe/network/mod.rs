//! The probe between two Wirepools: latency and bandwidth of TCP and of RDMA, with the facts that explain them.
//!
//! **Called by** `wirepool probe`. **Invariants**: the serving side is started by hand on a named address, and is bounded in time,
//! connections and bytes of memory; neither side allocates by a length that the peer sent.
//!
//! | module | owns |
//! |---|---|
//! | [`wire`] | the frames, without I/O |
//! | `link` | frames and data on a socket, with time limits |
//! | [`serve`] | the serving side |
//! | [`run`] | the measuring side |
//! | [`route`] | the interface on the way, its speed and its MTU |
//! | [`verbs`] | SEND, WRITE and READ over RDMA |
//! | [`result`], `verdict`, `text` | numbers, judgement, output |

mod link;
pub mod result;
pub mod route;
pub mod run;
pub mod serve;
mod text;
pub mod verbs;
mod verdict;
pub mod wire;

pub use text::render;

/// A made-up result.
#[cfg(test)]
pub(crate) fn sample() -> result::Probed {
    verdict::tests::probed(1.0, 4.0)
}
