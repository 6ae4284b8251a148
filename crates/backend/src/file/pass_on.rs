//! File systems over other ones: the operations that they pass on unchanged.
//!
//! **Owns** [`crate::pass_on`]. **Called by** implementations of [`super::FileBackend`] that have another one in a field. **Invariant**: an
//! operation that is passed on does nothing else.

/// Implements operations of [`crate::file::FileBackend`] by those of the file system in a field of `self`, given the field and the
/// operations' signatures without `self`.
#[macro_export]
macro_rules! pass_on {
    ($files:tt: $($operation:ident($($given:ident: $kind:ty),*) -> $reply:ty;)*) => {
        $(fn $operation(&self, $($given: $kind),*) -> $reply {
            self.$files.$operation($($given),*)
        })*
    };
}
