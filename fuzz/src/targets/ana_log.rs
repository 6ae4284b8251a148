//! The ANA log page: counts are checked, and a parsed page encodes to the same bytes.

use nvmf::wire::log::AnaLog;

pub fn run(input: &[u8]) {
    if let Ok(log) = AnaLog::parse(input) {
        assert_eq!(AnaLog::parse(&log.to_bytes()), Ok(log));
    }
}
