//! The raw backend.
