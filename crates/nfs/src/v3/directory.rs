//! READDIR and READDIRPLUS (§3.3.16, §3.3.17).
//!
//! **Invariants**: the result has at most the bytes that the client asked for, and fits into the reply. Cookies are those of the file
//! system, which stay valid as long as a name exists, so the cookie verifier is always zero; `.` and `..` have 1 and 2.

use super::procedure::Procedure;
use super::wire::{Arguments, Status};
use crate::access::Target;
use crate::limits::{READDIR_BATCH, REPLY_MAX};
use crate::wire::Verifier;
use crate::xdr::{Writer, padding};
use backend::file::{Attributes, Cookie, Handle};

const VERIFIER: Verifier = [0; 8];
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;
/// Bytes of a result without entries: status, attributes of the directory, verifier, end of the list, end of the directory.
const EMPTY_LEN: usize = 4 + 4 + 84 + 8 + 4 + 4;
/// Bytes of the RPC header of a reply.
const HEADER_LEN: usize = 24;

/// A listing that is asked for.
struct List {
    after: u64,
    verifier: Verifier,
    /// Most bytes of the result.
    bytes_max: u32,
    /// With attributes and handles: most bytes of numbers, names and cookies.
    names_max: Option<u32>,
}

/// Entries under construction.
struct Entries {
    room: usize,
    names_room: usize,
    is_full: bool,
    count: usize,
    names_len: usize,
}

struct Entry<'a> {
    cookie: u64,
    name: &'a [u8],
    handle: Handle,
    known: Option<Attributes>,
}

impl Procedure<'_> {
    /// READDIR or READDIRPLUS.
    pub(super) async fn readdir(&mut self, arguments: &Arguments<'_>) -> Result<(), Status> {
        let (directory, list) = match *arguments {
            Arguments::ReadDir {
                directory,
                cookie,
                verifier,
                bytes_max,
            } => (directory, List::new(cookie, verifier, bytes_max, None)),
            Arguments::ReadDirPlus {
                directory,
                cookie,
                verifier,
                names_max,
                bytes_max,
            } => (
                directory,
                List::new(cookie, verifier, bytes_max, Some(names_max)),
            ),
            _ => return Err(Status::Serverfault),
        };
        let target = self.target(directory)?;
        if list.after != 0 && list.verifier != VERIFIER {
            return Err(Status::BadCookie);
        }
        let room = (list.bytes_max as usize).min(REPLY_MAX as usize - HEADER_LEN);
        let mut entries = Entries {
            room: room.checked_sub(EMPTY_LEN).ok_or(Status::Toosmall)?,
            names_room: list.names_max.map_or(usize::MAX, |max| max as usize),
            is_full: false,
            count: 0,
            names_len: 0,
        };
        let mut list_writer = Writer::new();
        self.put_all(&target, &list, &mut entries, &mut list_writer)
            .await?;
        if entries.is_full && entries.count == 0 {
            return Err(Status::Toosmall);
        }
        self.write_now(&target).await;
        self.out.fixed(&VERIFIER);
        self.out.fixed(&list_writer.to_vec());
        self.out.bool(false);
        self.out.bool(!entries.is_full);
        Ok(())
    }

    async fn put_all(
        &mut self,
        target: &Target,
        list: &List,
        entries: &mut Entries,
        writer: &mut Writer,
    ) -> Result<(), Status> {
        let is_plus = list.names_max.is_some();
        let mut put = |entry: Entry<'_>, entries: &mut Entries| {
            let before = writer.mark();
            let out = std::mem::replace(&mut self.out, std::mem::take(writer));
            self.write_entry(target, &entry, is_plus);
            *writer = std::mem::replace(&mut self.out, out);
            let names_len = entries.names_len + 24 + entry.name.len() + padding(entry.name.len());
            // One entry may be longer than the limit of names, which is a wish.
            let is_over = names_len > entries.names_room && entries.count > 0;
            entries.is_full = writer.len() > entries.room || is_over;
            match entries.is_full {
                true => writer.truncate(before),
                false => {
                    entries.count += 1;
                    entries.names_len = names_len;
                }
            }
        };
        let files = target.files();
        for (cookie, name) in [(DOT, &b"."[..]), (DOT_DOT, b"..")] {
            if list.after >= cookie || entries.is_full {
                continue;
            }
            let of = match cookie {
                DOT => files.attributes(target.handle).await?,
                _ => match files.parent(&target.caller, target.handle).await {
                    // A caller that may not search the directory gets the directory itself in the place of the one above.
                    Err(backend::file::FileError::Access) => {
                        files.attributes(target.handle).await?
                    }
                    parent => parent?,
                },
            };
            put(
                Entry {
                    cookie,
                    name,
                    handle: of.handle,
                    known: Some(of),
                },
                entries,
            );
        }
        let mut after = match list.after {
            0..=DOT_DOT => Cookie::START,
            after => Cookie(after),
        };
        while !entries.is_full {
            let listing = files
                .read_directory(&target.caller, target.handle, after, READDIR_BATCH, is_plus)
                .await?;
            for entry in &listing.entries {
                after = entry.cookie;
                let shown = Entry {
                    cookie: entry.cookie.0,
                    name: entry.name.as_bytes(),
                    handle: entry.handle,
                    known: entry.attributes,
                };
                put(shown, entries);
                if entries.is_full {
                    break;
                }
            }
            if listing.is_end {
                break;
            }
        }
        Ok(())
    }

    /// Writes `entry3` or `entryplus3`, with the mark that there is one.
    fn write_entry(&mut self, target: &Target, entry: &Entry<'_>, is_plus: bool) {
        self.out.bool(true);
        self.out.u64(entry.handle.object);
        self.out.opaque(entry.name);
        self.out.u64(entry.cookie);
        if is_plus {
            self.write_known(target, entry.known.as_ref());
            self.out.bool(true);
            self.write_handle(target, entry.handle);
        }
    }
}

impl List {
    fn new(after: u64, verifier: Verifier, bytes_max: u32, names_max: Option<u32>) -> Self {
        Self {
            after,
            verifier,
            bytes_max,
            names_max,
        }
    }
}
