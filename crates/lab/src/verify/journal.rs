//! State file of a verify run: the journal of its writes, which survives the client.
//!
//! **Owns** its format: 8 bytes of magic, the length of a JSON header (4 bytes, little-endian), the header, then
//! records of 24 bytes. **Invariants**: a record of a request is passed to the kernel before the request is sent, a
//! record of a result after the result; reading stops at the first incomplete record.
//!
//! | bytes | field of a record |
//! |---|---|
//! | 0 | kind |
//! | 1–4 | zero |
//! | 4–8 | job |
//! | 8–16 | block, or number of the flush |
//! | 16–20 | generation |
//! | 20–24 | CRC-32C of the first 20 bytes |

use super::ledger::{Event, Ledger};
use crate::limits::{JOBS_MAX, JOURNAL_MAX, VERIFY_BLOCKS_MAX};
use crate::{Error, Result};
use crc_fast::{CrcAlgorithm, checksum};
use io::sync::lock;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const MAGIC: [u8; 8] = *b"WPLEDGR1";
const RECORD: usize = 24;
/// Largest header, bytes.
const HEADER_MAX: usize = 64 << 10;

/// Description of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The target's address.
    pub address: String,
    /// Seed of the run.
    pub seed: u64,
    /// Size of each block, bytes.
    pub block_size: u32,
    /// Blocks of the region.
    pub blocks: u64,
    /// Jobs.
    pub jobs: u32,
}

/// Destination of events: a file, or none.
pub struct Journal {
    to: Option<Mutex<Writer>>,
    path: PathBuf,
}

struct Writer {
    file: File,
    bytes: u64,
}

impl Journal {
    /// A journal that keeps nothing: what is not checked after a restart needs none.
    #[must_use]
    pub fn none() -> Journal {
        Journal {
            to: None,
            path: PathBuf::new(),
        }
    }

    /// A new file. Errors: `File`, also if it is there already.
    pub fn create(path: &Path, header: &Header) -> Result<Journal> {
        let failed = Error::file;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(failed(path))?;
        let text = serde_json::to_vec(header).map_err(|e| Error::contents(path, e))?;
        let head = [&MAGIC[..], &(text.len() as u32).to_le_bytes(), &text].concat();
        file.write_all(&head).map_err(failed(path))?;
        file.sync_all().map_err(failed(path))?;
        let writer = Writer {
            file,
            bytes: head.len() as u64,
        };
        Ok(Journal {
            to: Some(Mutex::new(writer)),
            path: path.into(),
        })
    }

    /// Records an event of job `job`. Errors: `File`; `Contents` when the journal is full.
    pub fn record(&self, job: u32, event: Event) -> Result<()> {
        let Some(to) = &self.to else { return Ok(()) };
        let mut w = lock(to);
        if w.bytes + RECORD as u64 > JOURNAL_MAX {
            return Err(Error::contents(
                &self.path,
                "the journal is full: run for a shorter time",
            ));
        }
        w.file
            .write_all(&encode(job, event))
            .map_err(Error::file(&self.path))?;
        w.bytes += RECORD as u64;
        Ok(())
    }
}

fn encode(job: u32, event: Event) -> [u8; RECORD] {
    let (kind, number, generation) = match event {
        Event::Issued { block, generation } => (1, block, generation),
        Event::Acked {
            block,
            generation,
            durable: false,
        } => (2, block, generation),
        Event::Acked {
            block,
            generation,
            durable: true,
        } => (3, block, generation),
        Event::FlushBegun { id } => (4, id, 0),
        Event::FlushEnded { id } => (5, id, 0),
        Event::Reconnected => (6, 0, 0),
    };
    let mut r = [0; RECORD];
    r[0] = kind;
    r[4..8].copy_from_slice(&job.to_le_bytes());
    r[8..16].copy_from_slice(&number.to_le_bytes());
    r[16..20].copy_from_slice(&u32::to_le_bytes(generation));
    let sum = checksum(CrcAlgorithm::Crc32Iscsi, &r[..20]) as u32;
    r[20..].copy_from_slice(&sum.to_le_bytes());
    r
}

fn decode(r: &[u8; RECORD]) -> Option<(u32, Event)> {
    let word = |at: usize| r[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    if checksum(CrcAlgorithm::Crc32Iscsi, &r[..20]) as u32 != word(20) {
        return None;
    }
    let (block, generation) = (
        r[8..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b)),
        word(16),
    );
    let event = match r[0] {
        1 => Event::Issued { block, generation },
        2 => Event::Acked {
            block,
            generation,
            durable: false,
        },
        3 => Event::Acked {
            block,
            generation,
            durable: true,
        },
        4 => Event::FlushBegun { id: block },
        5 => Event::FlushEnded { id: block },
        6 => Event::Reconnected,
        _ => return None,
    };
    Some((word(4), event))
}

/// Reads a journal: what the run was and what is known of its blocks, job by job. Errors: `File`; `Contents` if it is
/// no journal.
pub fn read(path: &Path) -> Result<(Header, Vec<Ledger>)> {
    let file = File::open(path).map_err(Error::file(path))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let header = read_header(path, &mut file)?;
    let jobs = u64::from(header.jobs);
    let mut ledgers: Vec<Ledger> = (0..jobs)
        .map(|j| Ledger::new(j, jobs, header.blocks))
        .collect();
    let mut record = [0; RECORD];
    loop {
        match file.read_exact(&mut record) {
            Ok(()) => {}
            // The end, or a record that was being written when the client stopped.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(e) => return Err(Error::file(path)(e)),
        }
        let Some((job, event)) = decode(&record) else {
            break;
        };
        if let Some(l) = ledgers.get_mut(job as usize) {
            l.apply(event);
        }
    }
    Ok((header, ledgers))
}

fn read_header(path: &Path, file: &mut impl Read) -> Result<Header> {
    let mut head = [0; 12];
    let not = |why: &str| Error::contents(path, why);
    file.read_exact(&mut head)
        .map_err(|_| not("this is not a state file of a verify run"))?;
    let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
    if head[..8] != MAGIC || len > HEADER_MAX {
        return Err(not("this is not a state file of a verify run"));
    }
    let mut text = vec![0; len];
    file.read_exact(&mut text)
        .map_err(|_| not("the header is cut off"))?;
    let h: Header = serde_json::from_slice(&text).map_err(|e| not(&e.to_string()))?;
    if !(1..=JOBS_MAX).contains(&h.jobs)
        || h.blocks > VERIFY_BLOCKS_MAX
        || h.block_size < super::stamp::HEADER as u32
    {
        return Err(not("the header's numbers make no sense"));
    }
    Ok(h)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::ledger::Block;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            address: "mem:1M".into(),
            seed: 9,
            block_size: 4096,
            blocks: 10,
            jobs: 2,
        }
    }

    proptest! {
        #[test]
        fn records_survive_and_damage_is_seen(job: u32, block: u64, generation: u32, kind in 0..6usize, at in 0..RECORD, flip in 1u8..=255) {
            let event = [
                Event::Issued { block, generation },
                Event::Acked { block, generation, durable: true },
                Event::Acked { block, generation, durable: false },
                Event::FlushBegun { id: block },
                Event::FlushEnded { id: block },
                Event::Reconnected,
            ][kind];
            let mut r = encode(job, event);
            prop_assert_eq!(decode(&r), Some((job, event)));
            r[at] ^= flip;
            prop_assert_eq!(decode(&r), None);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), magic: bool) {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("state");
            let all = if magic { [&MAGIC[..], &bytes].concat() } else { bytes };
            std::fs::write(&path, all).expect("written");
            let _ = read(&path);
        }
    }

    #[test]
    fn a_journal_cut_at_any_byte_gives_what_was_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state");
        let j = Journal::create(&path, &header()).expect("new");
        for generation in 1..=3 {
            j.record(
                1,
                Event::Issued {
                    block: 3,
                    generation,
                },
            )
            .expect("recorded");
            j.record(
                1,
                Event::Acked {
                    block: 3,
                    generation,
                    durable: true,
                },
            )
            .expect("recorded");
        }
        assert!(
            Journal::create(&path, &header()).is_err(),
            "what is there is not overwritten"
        );
        let all = std::fs::read(&path).expect("read");
        for cut in 0..6 * RECORD {
            std::fs::write(&path, &all[..all.len() - cut]).expect("written");
            let (h, ledgers) = read(&path).expect("a journal");
            assert_eq!(h, header());
            let records = (6 * RECORD - cut) / RECORD;
            let acked = (records / 2) as u32;
            let wanted = Block {
                durable: acked,
                acked,
                issued: records.div_ceil(2) as u32,
            };
            assert_eq!(ledgers[1].get(3), Some(&wanted), "{cut} bytes cut");
        }
    }
}
