//! Directories: entries, with and without attributes.
//!
//! Positions are the file system's cookies. `.` and `..` are the entries 1 and 2, which no cookie has.

use crate::convert;
use crate::limits::{LIST_ENTRIES, LIST_PLUS_ENTRIES};
use crate::mounted::{Known, Mounted};
use crate::nodes::ROOT;
use crate::status::{Answer, of_file};
use backend::file::{Caller, Cookie, Entry, FileKind, Handle};
use fuser::FileAttr;
use std::time::Duration;

/// The position behind `.`.
const BEHIND_SELF: u64 = 1;
/// The position behind `..`.
const BEHIND_PARENT: u64 = 2;

/// An entry for the kernel.
pub(crate) struct Listed<'a> {
    /// Its name.
    pub(crate) name: &'a [u8],
    /// The position behind it.
    pub(crate) position: u64,
    /// Its object; only inode number and kind count without attributes.
    pub(crate) attributes: FileAttr,
    /// The object's generation.
    pub(crate) generation: u64,
    /// Validity of name and attributes.
    pub(crate) validity: Duration,
}

impl Mounted {
    /// Lists a directory from a position on, until `add` says that the reply is full. With attributes (`plus`), each entry
    /// that `add` takes is a lookup.
    pub(crate) async fn list(
        &self,
        caller: Caller,
        number: u64,
        position: u64,
        plus: bool,
        mut add: impl FnMut(Listed<'_>) -> bool,
    ) -> Answer<()> {
        let of = self.handle(number)?;
        if position < BEHIND_SELF && add(directory(b".", BEHIND_SELF, number)) {
            return Ok(());
        }
        if position < BEHIND_PARENT {
            let parent = self.parent_number(&caller, of).await;
            if add(directory(b"..", BEHIND_PARENT, parent)) {
                return Ok(());
            }
        }
        let mut after = match position {
            0..=BEHIND_PARENT => Cookie::START,
            cookie => Cookie(cookie),
        };
        let count = if plus {
            LIST_PLUS_ENTRIES
        } else {
            LIST_ENTRIES
        };
        let names = match self.files.is_volatile(of) {
            true => Duration::ZERO,
            false => self.caching.names.min(self.caching.attributes),
        };
        let mut is_first = true;
        loop {
            let listing = self
                .files
                .read_directory(&caller, of, after, count, plus)
                .await;
            let listing = match listing {
                Ok(listing) => listing,
                // The entries so far are a reply; the kernel meets the error at its next request.
                Err(_) if !is_first => return Ok(()),
                Err(e) => return Err(of_file(e)),
            };
            for entry in &listing.entries {
                let is_full = match plus {
                    false => add(self.plain(entry)),
                    true => {
                        let listed = match self.with_attributes(entry, names).await {
                            Ok(listed) => listed,
                            Err(_) if !is_first => return Ok(()),
                            Err(e) => return Err(e),
                        };
                        let number = listed.attributes.ino.0;
                        let is_full = add(listed);
                        if is_full {
                            self.nodes.forget(number, 1);
                        }
                        is_full
                    }
                };
                if is_full {
                    return Ok(());
                }
                is_first = false;
                after = entry.cookie;
            }
            if listing.is_end || listing.entries.is_empty() {
                return Ok(());
            }
        }
    }

    fn plain<'a>(&self, entry: &'a Entry) -> Listed<'a> {
        let number = self.nodes.number(entry.handle);
        Listed {
            name: entry.name.as_bytes(),
            position: entry.cookie.0,
            attributes: convert::no_attributes(number, entry.kind),
            generation: entry.handle.generation,
            validity: Duration::ZERO,
        }
    }

    /// An entry whose lookup is counted; `names` is the validity of the directory's names. Without readable attributes its validity is zero, so that the kernel asks again.
    async fn with_attributes<'a>(&self, entry: &'a Entry, names: Duration) -> Answer<Listed<'a>> {
        let found = match entry.attributes {
            Some(found) => Ok(found),
            None => self.files.attributes(entry.handle).await,
        };
        let (known, validity) = match found {
            Ok(found) => (self.look_up(&found)?, names),
            Err(_) => (self.look_up_unreadable(entry)?, Duration::ZERO),
        };
        Ok(Listed {
            name: entry.name.as_bytes(),
            position: entry.cookie.0,
            attributes: known.attributes,
            generation: known.generation,
            validity,
        })
    }

    fn look_up_unreadable(&self, entry: &Entry) -> Answer<Known> {
        let number = self.nodes.look_up(entry.handle);
        let number = number.map_err(|_| fuser::Errno::ENOMEM)?;
        Ok(Known {
            attributes: convert::no_attributes(number, entry.kind),
            generation: entry.handle.generation,
        })
    }

    /// The inode number of a directory's parent; the root's if it cannot be found.
    async fn parent_number(&self, caller: &Caller, of: Handle) -> u64 {
        match self.files.parent(caller, of).await {
            Ok(parent) => self.nodes.number(parent.handle),
            Err(_) => ROOT,
        }
    }
}

fn directory(name: &[u8], position: u64, number: u64) -> Listed<'_> {
    Listed {
        name,
        position,
        attributes: convert::no_attributes(number, FileKind::Directory),
        generation: 0,
        validity: Duration::ZERO,
    }
}
