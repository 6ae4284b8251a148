//! Tests of the journal: power cuts, rot, wraps of the ring, invalid bytes.

mod bytes;
mod crash;
mod disk;
mod moving;
mod pressure;
mod reads;
mod reserve;
mod rot;
