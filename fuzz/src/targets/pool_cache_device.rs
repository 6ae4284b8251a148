//! Cache devices: a decoded label and a decoded table encode to the same bytes. The input is a difference to valid ones, whose checksums are
//! recomputed, so that the fields are reached.

use pool::format::{CacheGuid, CacheLabel, CacheTable, CachedBlock, Host, PoolGuid, VdevOffset};

const AT: VdevOffset = VdevOffset(0);
const SEGMENT: u32 = 512 << 10;

pub fn run(input: &[u8]) {
    let label = CacheLabel {
        cache: CacheGuid(1),
        pool: PoolGuid(2),
        name: "tank".to_owned(),
        host: Host::new([1; 16], "host"),
        segment_size: SEGMENT,
    };
    let mut bytes = label.encode(AT);
    crate::sealed::change(&mut bytes, AT, input);
    match CacheLabel::decode(&bytes, AT) {
        Ok(label) => assert!(label.encode(AT) == bytes),
        Err(_) => assert!(input.iter().any(|&change| change != 0)),
    }
    let table = CacheTable {
        cache: CacheGuid(1),
        sequence: 1,
        time_ms: 1,
        blocks: vec![CachedBlock { name: 1, offset: 4096, len: 512 }; 2],
    };
    let mut segment = vec![0; SEGMENT as usize];
    table.encode(SEGMENT, &mut segment, AT);
    segment.truncate(CacheTable::size_in(SEGMENT));
    crate::sealed::change(&mut segment, AT, input);
    if let Ok(table) = CacheTable::decode(SEGMENT, &segment, AT) {
        let mut again = vec![0; SEGMENT as usize];
        table.encode(SEGMENT, &mut again, AT);
        let blocks = table.blocks.iter().map(|block| block.offset + block.len);
        assert!(blocks.max().is_none_or(|end| end <= SEGMENT));
    }
}
