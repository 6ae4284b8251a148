//! The row mover in a filesystem: files keep their contents, their space, and all of their attributes.

use backend::file::{FileBackend, Handle};
use io::rng::Prng;
use pool::NewFilesystem;
use pool::format::Packing;

use crate::filesystem::bed::Bed;
use crate::filesystem::pooled::open;
use crate::raidz::inspect::inspect;
use crate::raidz::{byte, make, simulated};
use pool::FileStore;

/// Bytes of a unit, which has one byte throughout.
const UNIT: usize = 4096;
/// Units of a record.
const RECORD: u64 = 4;

/// A file, and the byte of each unit of it.
struct Tagged {
    handle: Handle,
    units: Vec<u8>,
}

impl Tagged {
    async fn write(&mut self, bed: &Bed<FileStore>, unit: u64, count: u64, n: u8) {
        let bytes = vec![n; count as usize * UNIT];
        let written = bed.write(self.handle, unit * UNIT as u64, &bytes).await;
        written.unwrap_or_else(|e| panic!("{count} units at {unit}: {e:?}"));
        self.units[unit as usize..][..count as usize].fill(n);
    }

    /// Writes a unit, which becomes a block beside its record, or a whole record.
    async fn overwrite(&mut self, bed: &Bed<FileStore>, rng: &mut Prng) {
        let (count, n) = match rng.below(3) {
            0 => (RECORD, byte(rng.below(250))),
            _ => (1, byte(rng.below(250))),
        };
        let unit = rng.below(self.units.len() as u64 / count) * count;
        self.write(bed, unit, count, n).await;
    }

    async fn punch(&mut self, bed: &Bed<FileStore>, rng: &mut Prng) {
        let unit = rng.below(self.units.len() as u64 - 16);
        let start = unit * UNIT as u64;
        let punched = bed
            .punch(self.handle, start..start + 16 * UNIT as u64)
            .await;
        punched.expect("punched");
        self.units[unit as usize..][..16].fill(0);
    }

    async fn check(&self, bed: &Bed<FileStore>) {
        for (unit, wanted) in self.units.chunks(16).enumerate() {
            let start = (unit * 16 * UNIT) as u64;
            let read = bed.read(self.handle, start, wanted.len() * UNIT).await;
            let read = read.expect("read");
            for (n, (bytes, wanted)) in read.chunks(UNIT).zip(wanted).enumerate() {
                let is_right = bytes.iter().all(|byte| byte == wanted);
                assert!(is_right, "unit {} of {wanted}", unit * 16 + n);
            }
        }
    }
}

#[test]
fn files_that_are_moved_stay_as_they_are() {
    simulated(11, async || {
        let pool = make((10, 2, 64)).await;
        let new = NewFilesystem {
            record_size: (RECORD as usize * UNIT) as u32,
            compression: Packing::Off,
            ..NewFilesystem::new("files")
        };
        let store = pool.create_filesystem(new).await.expect("a filesystem");
        let bed = open(store).await;
        let count = pool.space().size * 27 / 100 / UNIT as u64 / 16 * 16;
        let mut files = Vec::new();
        for name in ["still", "busy"] {
            let handle = bed.file(name).await;
            let units = vec![0; count as usize];
            files.push(Tagged { handle, units });
        }
        let mut rng = Prng::new(11);
        for unit in (0..count).step_by(16) {
            for file in &mut files {
                file.write(&bed, unit, 16, byte(unit)).await;
            }
        }
        for _ in 0..count / 2 {
            let file = rng.below(2) as usize;
            files[file].overwrite(&bed, &mut rng).await;
        }
        let still = files[0].handle;
        let _proof = bed.files.commit(still).await.expect("flushed");
        pool.checkpoint().await.expect("a checkpoint");
        let before = bed.files.attributes(still).await.expect("attributes");
        let moved = pool.row_moves().expect("a raidz").moved;
        for n in 0..2 * count {
            files[1].overwrite(&bed, &mut rng).await;
            if n % 512 == 0 {
                files[1].punch(&bed, &mut rng).await;
            }
        }
        assert!(pool.row_moves().expect("a raidz").moved > moved + (8 << 20));
        assert_eq!(bed.files.attributes(still).await, Ok(before));
        for file in &files {
            file.check(&bed).await;
        }
        drop(bed);
        pool.close().await.expect("closed");
        let (found, _) = inspect(10, &[]).await;
        assert_eq!(found, [], "space of files and owners");
    });
}
