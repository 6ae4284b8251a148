//! A whole device over RAM disks, command by command.

mod bad_input;
mod blocks;
mod cache;
mod copy;
mod events;
mod fixture;
mod modes;
mod provision;
mod reports;
mod reservations;
