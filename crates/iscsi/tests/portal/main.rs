//! The target, seen from the other end of a TCP connection in the simulated world.

mod bad_input;
mod budget;
mod chap;
mod commands;
mod early;
mod fairness;
mod fixture;
mod initiator;
mod iser;
mod iser_host;
mod login;
mod loopback;
mod random;
mod recovery;
mod sessions;
mod strangers;
