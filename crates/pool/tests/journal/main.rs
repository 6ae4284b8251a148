//! The journal: what it promises through power cuts, rot, laps of the ring and bad bytes.

mod bytes;
mod crash;
mod disk;
mod pressure;
mod reads;
mod rot;
