//! Settings of clients, as files.
//!
//! **Owns** the recommended values with their reasons. **Called by** `wirepool client-config`, and by the checks of clients, so
//! that both have the same values.

pub mod timeouts;
