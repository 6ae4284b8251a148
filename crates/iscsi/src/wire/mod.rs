//! iSCSI on the wire: headers, text keys, names.
//!
//! **Called by** [`crate::login`], [`crate::portal`] and initiators. **Invariants**: no I/O; every length is checked
//! against a limit before anything is allocated; a header that was parsed and built again is the same.
//!
//! | module | owns | section |
//! |---|---|---|
//! | [`bhs`] | the basic header segment and the fields that all PDUs have at the same place | §11.2 |
//! | [`request`], `task` | requests of initiators | §11.3 to §11.19 |
//! | [`response`] | responses of targets | §11.4 to §11.19 |
//! | [`decode`] | end of a header, length of the data, header digest | §11.2 |
//! | [`iser`] | the header of iSER messages | RFC 7145 |
//! | [`text`] | key=value pairs | §6 |
//! | [`name`] | iSCSI names | §4.2.7 |
//! | [`sn`] | serial numbers | §4.2.2.1 |

pub mod bhs;
pub mod decode;
pub mod iser;
pub mod name;
pub mod request;
pub mod response;
pub mod sn;
mod task;
pub mod text;

pub use bhs::{Bhs, Isid, Itt, Lun, Opcode, Ttt};
pub use name::IscsiName;
pub use sn::Sn;
