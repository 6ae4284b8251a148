//! Tests of the wire formats: golden bytes, round trips, refusals.

mod pdu;
mod structures;
