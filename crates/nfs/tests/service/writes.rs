//! WRITE: data goes to the files as a part of the request that it came in.

use crate::client::Client;
use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, config, export, open, simulated};
use crate::v3::client::mounted;
use backend::file::{
    Caller, Done, FileBackend, FileReply, Handle, Name, Stability, WriteAt, Written,
};
use io::SharedBuf;
use io::buf::capacity_of;
use nfs::rpc::Reply;
use nfs::rpc::record::mark;
use nfs::v3::wire::Arguments;
use nfs::wire::files::CreateHow;
use nfs::wire::{Op, Stateid, Status, operation};
use std::sync::{Arc, Mutex};

/// A write that the files were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    len: usize,
    /// Bytes of the pool's buffers in use at that moment.
    used: usize,
}

/// Files that note each write.
struct Watched {
    files: Arc<dyn FileBackend>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl FileBackend for Watched {
    backend::pass_on! { files:
        limits, root, space, lookup, parent, attributes, set_attributes, access, open, create,
        read_link, link, remove, rename, read_directory, read, commit, commit_all, allocate,
        copy, seek, seek_within, xattr, xattrs, set_xattr, acl, set_acl, watch,
    }

    fn write(
        &self,
        caller: &Caller,
        of: Handle,
        at: WriteAt,
        data: SharedBuf,
        stability: Stability,
    ) -> FileReply<Done<Written>> {
        let (len, used) = (data.len(), io::pool().stats().used);
        self.seen.lock().expect("alone").push(Seen { len, used });
        self.files.write(caller, of, at, data, stability)
    }
}

/// A service with watched files, one of which is called `f`.
struct Bed {
    fixture: Fixture,
    client: Client,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Bed {
    async fn new() -> Bed {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut home = export(1, "/tank/home", all_rights());
        home.files = Arc::new(Watched {
            files: home.files,
            seen: seen.clone(),
        });
        let fixture = Fixture::of(home, config()).await;
        let mut client = fixture.client("a").await;
        let create = Some(CreateHow::Unchecked(NO_ATTRS));
        let close = Op::Close {
            stateid: Stateid::CURRENT,
        };
        let made = client.at(HOME, &[open("f", create), close]).await;
        assert_eq!(made.status, Status::Ok);
        Bed {
            fixture,
            client,
            seen,
        }
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("alone"))
    }

    /// The contents of the file.
    async fn contents(&self) -> Vec<u8> {
        let files = &self.fixture.files;
        let name = Name::new(b"f").expect("a name");
        let found = files.lookup(&Caller::root(), files.root(), &name).await;
        let found = found.expect("it exists");
        let mut all = Vec::new();
        while (all.len() as u64) < found.size {
            let read = files.read(found.handle, all.len() as u64, 1 << 20).await;
            let read = read.expect("read").bytes;
            let at = all.len();
            all.resize(at + read.len(), 0);
            read.copy_to(&mut all[at..]);
        }
        all
    }
}

fn noise(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i * 7 + seed * 13) % 251) as u8)
        .collect()
}

fn write(offset: usize, data: &[u8]) -> Op<'_> {
    Op::Write {
        stateid: Stateid::ANONYMOUS,
        offset: offset as u64,
        stable: 0,
        data,
    }
}

// Data of a WRITE was copied out of the request into a second buffer before the files saw it: 2 MiB of the pool for each MiB, and
// a pass over memory that the record's own copy repeated.
#[test]
fn files_get_data_in_the_buffer_of_its_request() {
    simulated(|| async {
        let mut bed = Bed::new().await;
        for len in [1, 3, 4096, 31_001, 40_000, 100_003, 1 << 20] {
            let data = noise(len, len);
            let path = ["tank", "home", "f"];
            let written = bed.client.at(&path, &[write(1, &data)]).await;
            assert_eq!(written.status, Status::Ok);
            // A short request is on the heap; a long one has one buffer, with its headers.
            let used = match len < 32_000 {
                true => 0,
                false => capacity_of(len + 200),
            };
            assert_eq!(bed.seen(), [Seen { len, used }]);
            assert_eq!(bed.contents().await[1..=len], data);
        }
    });
}

#[test]
fn two_writes_of_a_compound_are_parts_of_one_buffer() {
    simulated(|| async {
        let mut bed = Bed::new().await;
        let mut model: Vec<u8> = Vec::new();
        let sizes = [1, 2, 3, 5, 4095, 4097, 20_001, 33_333, 131_073, 400_001];
        for (n, first) in sizes.iter().enumerate() {
            for (m, second) in sizes.iter().enumerate() {
                let (one, other) = (noise(n, *first), noise(m + 50, *second));
                // The second one overlaps the first one, or lies behind a hole, or in front of it.
                let (at, then) = (n * 1001 + 1, m * 777 + 3);
                for (from, data) in [(at, &one), (then, &other)] {
                    model.resize(model.len().max(from + data.len()), 0);
                    model[from..from + data.len()].copy_from_slice(data);
                }
                let both = [write(at, &one), write(then, &other)];
                let path = ["tank", "home", "f"];
                let mut results = bed.client.at(&path, &both).await;
                for len in [first, second] {
                    results.ok(operation::WRITE);
                    assert_eq!(results.u32() as usize, *len);
                    results.skip(4 + 8);
                }
                assert!(bed.contents().await == model, "{first} and {second} bytes");
            }
        }
    });
}

#[test]
fn a_client_that_dies_amid_a_write_changes_nothing() {
    simulated(|| async {
        let mut bed = Bed::new().await;
        let old = noise(1, 300_000);
        let path = ["tank", "home", "f"];
        let written = bed.client.at(&path, &[write(0, &old)]).await;
        assert_eq!(written.status, Status::Ok);
        assert_eq!(bed.seen().len(), 1);
        let new = noise(2, 200_001);
        for sent in [10, 200, 5000, 100_001, 199_000] {
            let mut dying = bed.fixture.client(&format!("dies at {sent}")).await;
            let mut all = vec![dying.next_sequence(false), Op::PutRootFh];
            all.extend(path.map(|name| Op::Lookup {
                name: name.as_bytes(),
            }));
            all.push(write(7, &new));
            let record = dying.encoded(1, &all);
            let mut bytes = mark(record.len()).to_vec();
            bytes.extend(&record[..sent]);
            dying.send_bytes(bytes).await;
            drop(dying);
        }
        let read = bed.client.at(&path, &[]).await;
        assert_eq!(read.status, Status::Ok);
        assert_eq!(bed.seen(), []);
        assert!(bed.contents().await == old);
    });
}

#[test]
fn a_repeated_write_is_answered_and_not_written_again() {
    simulated(|| async {
        let mut bed = Bed::new().await;
        let data = noise(3, 100_001);
        let mut all = vec![bed.client.next_sequence(true), Op::PutRootFh];
        all.extend(["tank", "home", "f"].map(|name| Op::Lookup {
            name: name.as_bytes(),
        }));
        all.push(write(5, &data));
        let record = bed.client.encoded(1, &all);
        for _ in 0..2 {
            let results = bed.client.results_of(record.clone()).await;
            assert_eq!(results.status, Status::Ok);
        }
        // Newer data of another request stays: the repeated one does not write over it.
        let newer = noise(4, 9);
        let mut other = bed.fixture.client("b").await;
        let written = other.at(&["tank", "home", "f"], &[write(50, &newer)]).await;
        assert_eq!(written.status, Status::Ok);
        let repeated = bed.client.results_of(record).await;
        assert_eq!(repeated.status, Status::Ok);
        let lens: Vec<usize> = bed.seen().iter().map(|seen| seen.len).collect();
        assert_eq!(lens, [data.len(), newer.len()]);
        assert_eq!(bed.contents().await[50..59], newer);
    });
}

#[test]
fn version_3_writes_from_the_request_and_once() {
    simulated(|| async {
        let bed = Bed::new().await;
        let (mut client, root) = mounted(&bed.fixture).await;
        let (file, _) = client.lookup_v3(&root, "f").await;
        for (len, offset) in [(3, 1), (4097, 2), (40_001, 3), (1 << 20, 5)] {
            let data = noise(len, len);
            let write = Arguments::Write {
                file: &file,
                offset,
                count: len as u32,
                stable: 0,
                data: &data,
            };
            let record = client.encoded_v3(&write);
            let used = match record.len() <= 32 << 10 {
                true => 0,
                false => capacity_of(record.len()),
            };
            for _ in 0..2 {
                let (reply, _) = client.reply_to(record.clone()).await;
                assert_eq!(reply, Reply::Success);
            }
            assert_eq!(bed.seen(), [Seen { len, used }]);
            let at = offset as usize;
            assert!(bed.contents().await[at..at + len] == data);
        }
    });
}
