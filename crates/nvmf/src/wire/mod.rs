//! The NVMe, NVMe/TCP and NVMe/RDMA wire formats: bytes in, typed values out, and back.
//!
//! Owns every structure that crosses the network: PDUs, commands, completions, and the data
//! structures that commands transfer. Called by `controller` and by crate `nvmf_initiator`.
//!
//! Invariants: no I/O, no clock, no state beyond the value at hand. No parse function panics, and
//! none allocates by a length that a peer sent: each list parser is bounded by the bytes it is given.
//! Every structure has a compile-time size assertion, and every field its offset in the
//! specification.
//!
//! Sections named "Base" are of NVM Express Base Specification 2.0, "NVM" of the NVM Command Set
//! Specification 1.0, "TCP" of the NVMe/TCP Transport Specification 1.0.

pub mod command;
pub mod completion;
pub mod copy;
pub mod dsm;
pub mod fabrics;
pub mod features;
pub mod identify;
pub mod log;
pub mod nqn;
pub mod opcode;
pub mod pdu;
pub mod rdma;
pub mod reservation;
pub mod status;
pub mod text;

use thiserror::Error;

/// A data structure that a command transferred violates its format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// Fewer bytes than the structure, or than the count in its header, calls for.
    #[error("{what}: {got} bytes, needs {need}")]
    Short {
        /// The structure.
        what: &'static str,
        /// Bytes present.
        got: usize,
        /// Bytes needed.
        need: usize,
    },
    /// A field has a value that its section does not allow.
    #[error("{what}: field at byte {offset} is invalid")]
    Field {
        /// The structure.
        what: &'static str,
        /// Byte offset of the field within the structure.
        offset: usize,
    },
}

/// Asserts at compile time a structure's size and the offsets of its fields.
macro_rules! layout {
    ($ty:ty, $size:expr $(, $field:ident @ $offset:expr)* $(,)?) => {
        const _: () = {
            assert!(core::mem::size_of::<$ty>() == $size);
            assert!(core::mem::align_of::<$ty>() == 1);
            $(assert!(core::mem::offset_of!($ty, $field) == $offset);)*
        };
    };
}
pub(crate) use layout;

/// Reads the structure at the head of `bytes`; the rest of `bytes` is ignored.
///
/// # Errors
/// [`FormatError::Short`] if `bytes` is shorter than the structure; it names `what`.
pub fn read_prefix<T>(what: &'static str, bytes: &[u8]) -> Result<T, FormatError>
where
    T: zerocopy::FromBytes,
{
    match T::read_from_prefix(bytes) {
        Ok((value, _)) => Ok(value),
        Err(_) => Err(FormatError::Short {
            what,
            got: bytes.len(),
            need: core::mem::size_of::<T>(),
        }),
    }
}

#[cfg(test)]
mod tests;
