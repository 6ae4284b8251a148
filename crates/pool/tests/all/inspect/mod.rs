//! The offline reader: it finds no damage in a sound pool, and names each kind of damage.

mod damage;
mod files;
mod leaks;
mod parts;
mod sound;
mod space;
mod world;
