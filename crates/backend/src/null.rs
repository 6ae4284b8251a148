//! The null backend.
