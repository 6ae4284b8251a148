//! Frames of the TCP probe: fixed-size, big-endian, one encoding for one value.
//!
//! **Called by** both sides, and by a fuzz target. **Invariants**: a decoder never panics and allocates nothing; a frame that decodes
//! encodes to the same bytes.
//!
//! A connection begins with a [`Request`]. The answer is a [`Reply`]. Then, by [`Mode`]:
//! - `Echo`: messages of `size` bytes; each comes back. The client closes.
//! - `ToServer`: blocks of `size` bytes, each behind a word that is 1; a word that is 0 ends them. Answer: a [`Report`].
//! - `FromServer`: the same from the server, for `millis`, with the [`Report`] at the end.

use std::fmt;

/// The first bytes of a connection in both directions.
pub const MAGIC: [u8; 8] = *b"wp-probe";
/// The version that this program speaks.
pub const VERSION: u16 = 1;
/// Bytes of a [`Request`].
pub const REQUEST_LEN: usize = 24;
/// Bytes of a [`Reply`].
pub const REPLY_LEN: usize = 24;
/// Bytes of a [`Report`].
pub const REPORT_LEN: usize = 56;
/// Bytes of the word before a block.
pub const WORD_LEN: usize = 4;
/// Largest message or block, bytes.
pub const SIZE_MAX: u32 = 1 << 20;
/// Longest measurement of one connection, ms.
pub const MILLIS_MAX: u32 = 60_000;
/// Bytes of a congestion control's name.
const NAME_LEN: usize = 16;

/// Why bytes are no frame, or a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The peer speaks another protocol.
    NotAProbe,
    /// The peer speaks this version of the protocol.
    Version(u16),
    /// The mode is unknown, or a reserved byte is not zero.
    Unknown,
    /// A size or time is zero or above its limit.
    Limit,
    /// The server has its most connections.
    Busy,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotAProbe => {
                f.write_str("the peer is no Wirepool probe (start `wirepool probe serve` there)")
            }
            Refusal::Version(v) => write!(
                f,
                "the peer speaks version {v} of the probe, this program {VERSION}"
            ),
            Refusal::Unknown => f.write_str("the peer does not know this kind of measurement"),
            Refusal::Limit => write!(
                f,
                "a size or time is beyond the limits: at most {SIZE_MAX} bytes and {} s",
                MILLIS_MAX / 1000
            ),
            Refusal::Busy => {
                f.write_str("the peer has its most connections: try fewer streams, or later")
            }
        }
    }
}

/// The kind of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Messages that come back.
    Echo,
    /// Data to the server.
    ToServer,
    /// Data from the server.
    FromServer,
    /// SEND, WRITE and READ: only in the private data of a connection request over RDMA (see [`super::verbs::wire`]).
    Verbs,
}

impl Mode {
    fn code(self) -> u8 {
        match self {
            Mode::Echo => 1,
            Mode::ToServer => 2,
            Mode::FromServer => 3,
            Mode::Verbs => 4,
        }
    }

    fn of(code: u8) -> Option<Mode> {
        [Mode::Echo, Mode::ToServer, Mode::FromServer, Mode::Verbs]
            .into_iter()
            .find(|m| m.code() == code)
    }
}

fn magic_and_version(bytes: &[u8]) -> Result<(), Refusal> {
    if bytes[..8] != MAGIC {
        return Err(Refusal::NotAProbe);
    }
    match u16_at(bytes, 8) {
        VERSION => Ok(()),
        other => Err(Refusal::Version(other)),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn head() -> [u8; REQUEST_LEN] {
    let mut out = [0; REQUEST_LEN];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_be_bytes());
    out
}

/// The first frame of a connection, from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The kind of measurement.
    pub mode: Mode,
    /// Bytes of each message or block.
    pub size: u32,
    /// The longest time of the measurement, ms.
    pub millis: u32,
}

impl Request {
    /// The frame.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        let mut out = head();
        out[10] = self.mode.code();
        out[12..16].copy_from_slice(&self.size.to_be_bytes());
        out[16..20].copy_from_slice(&self.millis.to_be_bytes());
        out
    }

    /// Reads a frame. Errors: every [`Refusal`] but `Busy`.
    pub fn decode(bytes: &[u8; REQUEST_LEN]) -> Result<Request, Refusal> {
        magic_and_version(bytes)?;
        let mode = Mode::of(bytes[10]).ok_or(Refusal::Unknown)?;
        if bytes[11] != 0 || bytes[20..] != [0; 4] {
            return Err(Refusal::Unknown);
        }
        let (size, millis) = (u32_at(bytes, 12), u32_at(bytes, 16));
        if !(1..=SIZE_MAX).contains(&size) || !(1..=MILLIS_MAX).contains(&millis) {
            return Err(Refusal::Limit);
        }
        Ok(Request { mode, size, millis })
    }
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply(pub Result<(), Refusal>);

impl Reply {
    /// The frame.
    #[must_use]
    pub fn encode(&self) -> [u8; REPLY_LEN] {
        let mut out = head();
        out[10] = match self.0 {
            Ok(()) => 0,
            Err(Refusal::NotAProbe) => 1,
            Err(Refusal::Version(_)) => 2,
            Err(Refusal::Unknown) => 3,
            Err(Refusal::Limit) => 4,
            Err(Refusal::Busy) => 5,
        };
        if let Err(Refusal::Version(v)) = self.0 {
            out[12..14].copy_from_slice(&v.to_be_bytes());
        }
        out
    }

    /// Reads a frame. Errors: `NotAProbe`, `Version` of the peer, `Unknown`.
    pub fn decode(bytes: &[u8; REPLY_LEN]) -> Result<Reply, Refusal> {
        magic_and_version(bytes)?;
        let version = u16_at(bytes, 12);
        let is_rest_zero = bytes[11] == 0 && bytes[14..] == [0; 10];
        let status = bytes[10];
        if !is_rest_zero || (status != 2 && version != 0) {
            return Err(Refusal::Unknown);
        }
        Ok(Reply(match status {
            0 => Ok(()),
            1 => Err(Refusal::NotAProbe),
            2 => Err(Refusal::Version(version)),
            3 => Err(Refusal::Unknown),
            4 => Err(Refusal::Limit),
            5 => Err(Refusal::Busy),
            _ => return Err(Refusal::Unknown),
        }))
    }
}

/// The server's view of a transfer, at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes of data received, or sent.
    pub bytes: u64,
    /// Time of the measurement, ns.
    pub nanos: u64,
    /// Largest segment that the server sends, bytes.
    pub mss: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Segments that the server sent again.
    pub retransmits: u32,
    /// Processor time of the server's thread, as a share of the time, 1/1000.
    pub busy_permille: u32,
    /// Congestion control of the server: ASCII, filled with zeroes.
    pub congestion: [u8; NAME_LEN],
}

impl Report {
    /// The name of the congestion control, at most 16 characters.
    #[must_use]
    pub fn with_congestion(mut self, name: &str) -> Report {
        self.congestion = [0; NAME_LEN];
        let bytes = name.bytes().filter(u8::is_ascii_graphic);
        for (at, byte) in self.congestion.iter_mut().zip(bytes) {
            *at = byte;
        }
        self
    }

    /// The name of the congestion control.
    #[must_use]
    pub fn congestion_name(&self) -> String {
        let name = self.congestion.iter().take_while(|b| **b != 0);
        name.map(|b| char::from(*b)).collect()
    }

    /// The frame.
    #[must_use]
    pub fn encode(&self) -> [u8; REPORT_LEN] {
        let mut out = [0; REPORT_LEN];
        out[..8].copy_from_slice(&self.bytes.to_be_bytes());
        out[8..16].copy_from_slice(&self.nanos.to_be_bytes());
        let words = [
            self.mss,
            self.path_mtu,
            self.rtt_us,
            self.retransmits,
            self.busy_permille,
        ];
        for (at, word) in out[16..36].chunks_exact_mut(4).zip(words) {
            at.copy_from_slice(&word.to_be_bytes());
        }
        out[36..52].copy_from_slice(&self.congestion);
        out
    }

    /// Reads a frame. Errors: `Unknown` for a name that is not ASCII, or reserved bytes that are not zero.
    pub fn decode(bytes: &[u8; REPORT_LEN]) -> Result<Report, Refusal> {
        let congestion: [u8; NAME_LEN] = bytes[36..52].try_into().expect("its length");
        let len = congestion.iter().take_while(|b| **b != 0).count();
        let (name, rest) = congestion.split_at(len);
        let is_valid = name.iter().all(u8::is_ascii_graphic) && rest.iter().all(|b| *b == 0);
        if !is_valid || bytes[52..] != [0; 4] {
            return Err(Refusal::Unknown);
        }
        Ok(Report {
            bytes: u64_at(bytes, 0),
            nanos: u64_at(bytes, 8),
            mss: u32_at(bytes, 16),
            path_mtu: u32_at(bytes, 20),
            rtt_us: u32_at(bytes, 24),
            retransmits: u32_at(bytes, 28),
            busy_permille: u32_at(bytes, 32),
            congestion,
        })
    }
}

/// Whether a word announces a block; `None` for any other value.
#[must_use]
pub fn is_block(word: [u8; WORD_LEN]) -> Option<bool> {
    match u32::from_be_bytes(word) {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The word before a block, or at the end of all blocks.
#[must_use]
pub fn word(is_block: bool) -> [u8; WORD_LEN] {
    u32::from(is_block).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Request {
        Request {
            mode: Mode::Echo,
            size: 64,
            millis: 1000,
        }
    }

    #[test]
    fn frames_have_these_bytes() {
        let bytes = request().encode();
        assert_eq!(&bytes[..12], b"wp-probe\0\x01\x01\0");
        assert_eq!(&bytes[12..], [0, 0, 0, 64, 0, 0, 3, 0xe8, 0, 0, 0, 0]);
        let busy = Reply(Err(Refusal::Busy)).encode();
        assert_eq!(&busy[..12], b"wp-probe\0\x01\x05\0");
        let report = Report {
            bytes: 1,
            nanos: 2,
            mss: 3,
            ..Report::default()
        };
        let bytes = report.with_congestion("cubic").encode();
        assert_eq!(
            (bytes[7], bytes[15], bytes[19], &bytes[36..42]),
            (1, 2, 3, &b"cubic\0"[..])
        );
    }

    #[test]
    fn other_protocols_versions_and_limits_are_refused_by_name() {
        let changed = |at: usize, to: u8| {
            let mut bytes = request().encode();
            bytes[at] = to;
            Request::decode(&bytes)
        };
        assert_eq!(changed(0, b'G'), Err(Refusal::NotAProbe));
        assert_eq!(changed(9, 2), Err(Refusal::Version(2)));
        assert_eq!(changed(10, 9), Err(Refusal::Unknown));
        assert_eq!(changed(11, 1), Err(Refusal::Unknown));
        assert_eq!(changed(23, 1), Err(Refusal::Unknown));
        assert_eq!(changed(12, 0xff), Err(Refusal::Limit));
        assert_eq!(changed(15, 0), Err(Refusal::Limit));
        assert_eq!(changed(16, 0xff), Err(Refusal::Limit));
        let names = [
            Refusal::NotAProbe,
            Refusal::Version(7),
            Refusal::Unknown,
            Refusal::Limit,
            Refusal::Busy,
        ];
        for refusal in names {
            assert_eq!(
                Reply::decode(&Reply(Err(refusal)).encode()),
                Ok(Reply(Err(refusal)))
            );
            assert!(!refusal.to_string().is_empty());
        }
        assert_eq!(
            [
                is_block(word(true)),
                is_block(word(false)),
                is_block([9; 4])
            ],
            [Some(true), Some(false), None]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_with_the_same_bytes_or_refused(mut bytes in prop::array::uniform24(any::<u8>()), is_close: bool) {
            if is_close {
                bytes[..10].copy_from_slice(&head()[..10]);
                bytes[10] %= 8;
                bytes[11] = 0;
                bytes[12] = 0;
                bytes[16] = 0;
                bytes[20..].fill(0);
            }
            if let Ok(frame) = Request::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
            if let Ok(frame) = Reply::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }

        #[test]
        fn a_report_survives(bytes: u64, nanos: u64, words in prop::array::uniform5(any::<u32>()), name in "[ -~]{0,20}") {
            let [mss, path_mtu, rtt_us, retransmits, busy_permille] = words;
            let report = Report { bytes, nanos, mss, path_mtu, rtt_us, retransmits, busy_permille, ..Report::default() };
            let report = report.with_congestion(&name);
            prop_assert_eq!(Report::decode(&report.encode()), Ok(report));
        }
    }
}
