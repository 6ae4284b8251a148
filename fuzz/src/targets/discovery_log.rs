//! The discovery log page: counts are checked, and a parsed page encodes to the same bytes.

use nvmf::wire::log::DiscoveryLog;
use nvmf::wire::text;

pub fn run(input: &[u8]) {
    let Ok(log) = DiscoveryLog::parse(input) else { return };
    for entry in &log.entries {
        let _ = entry.subnqn.parse();
        assert!(text::get(&entry.traddr).chars().all(|c| c == ' ' || c.is_ascii_graphic()));
    }
    assert_eq!(DiscoveryLog::parse(&log.to_bytes()), Ok(log));
}
