//! The journal's batches: records with a correct checksum, and raw bytes; a decoded batch encodes to the same bytes.

use pool::format::{
    Address, Batch, BatchHeader, Birth, Checksum, Incarnation, PoolGuid, Sequence, VdevId, VdevOffset, decode_segment,
};

const SECTOR: usize = 512;
const POOL: PoolGuid = PoolGuid(1);

pub fn run(input: &[u8]) {
    let at = Address { vdev: VdevId(0), offset: VdevOffset(0) };
    let _ = decode_segment(input, at, POOL);
    let _ = Batch::decode(input, at, POOL, SECTOR);
    let Some((count, records)) = input.split_first() else { return };
    if *count == 0 || records.len() > 64 << 10 {
        return;
    }
    let header = BatchHeader {
        pool: POOL,
        sequence: Sequence(2),
        epoch: Birth(1),
        incarnation: Incarnation(1),
        durable_up_to: Sequence(1),
        previous: Checksum([0; 16]),
    };
    let (bytes, _) = Batch::encode(&header, (*count).into(), records, at, SECTOR);
    let Ok(batch) = Batch::decode(&bytes, at, POOL, SECTOR) else { return };
    let mut again = Vec::new();
    batch.records.iter().for_each(|r| r.encode(&mut again));
    assert_eq!((again.as_slice(), batch.records.len()), (records, usize::from(*count)));
}
