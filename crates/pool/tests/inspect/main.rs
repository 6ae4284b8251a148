//! The offline reader: what is sound is found sound, and each kind of damage is found and named.

mod damage;
mod leaks;
mod sound;
mod world;
