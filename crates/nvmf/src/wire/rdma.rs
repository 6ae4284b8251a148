//! Private data of the connection manager's messages (NVMe RDMA Transport Specification 1.0, "Connection Establishment").
//!
//! Built and read by both ends. The connection manager may fill the data up with zeroes, so longer data is read as far as its structure goes.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{layout, read_prefix};

/// RECFMT of the only format.
const RECORD_FORMAT: u16 = 0;

/// The private data of a connection request (RDMA_CM_REQUEST).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CmRequest {
    /// RECFMT: 0.
    pub record_format: U16,
    /// QID: the queue that the connection is to become; 0 is the admin queue.
    pub qid: U16,
    /// HRQSIZE: entries of the host's receive queue.
    pub hrqsize: U16,
    /// HSQSIZE: entries of the host's submission queue, 0's based.
    pub hsqsize: U16,
    /// CNTLID: the controller of an I/O queue. Hosts may leave it zero.
    pub cntlid: U16,
    reserved10: [u8; 22],
}
layout!(CmRequest, 32, record_format @ 0, qid @ 2, hrqsize @ 4, hsqsize @ 6, cntlid @ 8);

/// The private data of an acceptance (RDMA_CM_ACCEPT).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CmAccept {
    /// RECFMT: 0.
    pub record_format: U16,
    /// CRQSIZE: entries of the controller's receive queue.
    pub crqsize: U16,
    reserved4: [u8; 28],
}
layout!(CmAccept, 32, record_format @ 0, crqsize @ 2);

/// The private data of a rejection (RDMA_CM_REJECT).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CmReject {
    /// RECFMT: 0.
    pub record_format: U16,
    /// STS; see [`RejectStatus`].
    pub status: U16,
}
layout!(CmReject, 4, record_format @ 0, status @ 2);

/// STS: why a connection request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum RejectStatus {
    /// The private data is too short.
    InvalidLength = 1,
    /// RECFMT is unknown.
    InvalidRecordFormat = 2,
    /// QID is out of range.
    InvalidQid = 3,
    /// HSQSIZE is out of range.
    InvalidHsqsize = 4,
    /// HRQSIZE is out of range.
    InvalidHrqsize = 5,
    /// The controller has no resources: the host may try again later.
    NoResources = 6,
    /// The host serves too few READs at a time.
    InvalidIrd = 7,
    /// The host wants to read too much at a time.
    InvalidOrd = 8,
}

impl RejectStatus {
    /// All statuses, in the order of their codes.
    pub const ALL: [Self; 8] = [
        Self::InvalidLength,
        Self::InvalidRecordFormat,
        Self::InvalidQid,
        Self::InvalidHsqsize,
        Self::InvalidHrqsize,
        Self::NoResources,
        Self::InvalidIrd,
        Self::InvalidOrd,
    ];

    /// The status of a code; `None` for a reserved one.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|s| *s as u16 == code)
    }
}

impl CmRequest {
    /// A request for queue `qid` of `entries` entries, at least 1, with a receive for each.
    #[must_use]
    pub fn new(qid: u16, entries: u16, cntlid: u16) -> Self {
        Self {
            qid: U16::new(qid),
            hrqsize: U16::new(entries),
            hsqsize: U16::new(entries.saturating_sub(1)),
            cntlid: U16::new(cntlid),
            ..Self::new_zeroed()
        }
    }

    /// Reads the private data of a request.
    ///
    /// # Errors
    /// The status that the request is to be rejected with.
    pub fn parse(private: &[u8]) -> Result<Self, RejectStatus> {
        let request: Self =
            read_prefix("CM request", private).map_err(|_| RejectStatus::InvalidLength)?;
        match request.record_format.get() {
            RECORD_FORMAT => Ok(request),
            _ => Err(RejectStatus::InvalidRecordFormat),
        }
    }
}

impl CmAccept {
    /// An acceptance with `crqsize` receives.
    #[must_use]
    pub fn new(crqsize: u16) -> Self {
        Self {
            crqsize: U16::new(crqsize),
            ..Self::new_zeroed()
        }
    }

    /// Reads the private data of an acceptance. `None` if it is too short or of another format.
    #[must_use]
    pub fn parse(private: &[u8]) -> Option<Self> {
        let accept: Self = read_prefix("CM accept", private).ok()?;
        (accept.record_format.get() == RECORD_FORMAT).then_some(accept)
    }
}

impl CmReject {
    /// A rejection.
    #[must_use]
    pub fn new(status: RejectStatus) -> Self {
        Self {
            record_format: U16::new(RECORD_FORMAT),
            status: U16::new(status as u16),
        }
    }

    /// Reads the private data of a rejection. `None` if it is not from an NVMe controller, or the status is reserved.
    #[must_use]
    pub fn parse(private: &[u8]) -> Option<RejectStatus> {
        let reject: Self = read_prefix("CM reject", private).ok()?;
        match reject.record_format.get() {
            RECORD_FORMAT => RejectStatus::from_code(reject.status.get()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_fields_where_the_specification_puts_them() {
        let bytes = CmRequest::new(0x0102, 0x0304, 0x0506);
        let mut expected = [0; 32];
        expected[2..10].copy_from_slice(&[2, 1, 4, 3, 3, 3, 6, 5]);
        assert_eq!(bytes.as_bytes(), expected);
        // The connection manager fills private data up.
        let padded = [expected.as_slice(), &[0; 24]].concat();
        assert_eq!(CmRequest::parse(&padded), Ok(bytes));
        for len in 0..32 {
            let short = CmRequest::parse(&expected[..len]);
            assert_eq!(short, Err(RejectStatus::InvalidLength));
        }
        expected[1] = 1;
        let unknown = CmRequest::parse(&expected);
        assert_eq!(unknown, Err(RejectStatus::InvalidRecordFormat));
    }

    #[test]
    fn answers_have_their_fields_where_the_specification_puts_them() {
        let accept = CmAccept::new(0x0102);
        assert_eq!(accept.as_bytes()[..4], [0, 0, 2, 1]);
        assert_eq!(CmAccept::parse(accept.as_bytes()), Some(accept));
        assert_eq!(CmAccept::parse(&[1; 32]), None);
        for status in RejectStatus::ALL {
            let reject = CmReject::new(status);
            assert_eq!(reject.as_bytes(), [0, 0, status as u8, 0]);
            assert_eq!(CmReject::parse(reject.as_bytes()), Some(status));
        }
        for other in [&[][..], &[0, 0, 0, 0], &[0, 0, 9, 0], &[1, 0, 1, 0]] {
            assert_eq!(CmReject::parse(other), None);
        }
    }
}
