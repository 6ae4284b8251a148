//! The memory backend.
