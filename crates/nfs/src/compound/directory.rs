//! READDIR (§18.23).
//!
//! **Invariants**: the result has at most the bytes that the client asked for, and fits into the reply. In the root of an
//! export, entries of the pseudo file system come behind the directory's own ones, with cookies from 2^63 on, and hide entries of the
//! same name.

use super::context::{Compound, Object, Target};
use super::status::status_of;
use crate::attribute;
use crate::limits::READDIR_BATCH;
use crate::wire::files::ReadDir;
use crate::wire::{Bitmap, Status};
use crate::xdr::{Writer, Xdr};
use backend::file::{Attributes, Cookie};

/// The first cookie of entries of the pseudo file system.
const PSEUDO_COOKIE: u64 = 1 << 63;
/// Bytes of a result without entries: verifier, end of the list, end of the directory.
const EMPTY_LEN: usize = 16;
const VERIFIER: [u8; 8] = [0; 8];

/// Entries under construction.
struct Entries {
    writer: Writer,
    room: usize,
    is_full: bool,
    count: usize,
}

/// An entry.
struct Entry<'a> {
    cookie: u64,
    name: &'a [u8],
    object: Object,
    known: Option<Attributes>,
}

impl Compound<'_> {
    /// READDIR. `room`: bytes that the results may still take.
    pub(super) async fn readdir(&mut self, args: &ReadDir, room: usize) -> Result<(), Status> {
        let (node, target) = match self.context.current()? {
            Object::Pseudo(id) => (Some(*id), None),
            Object::File(export, handle) => {
                let is_root = *handle == export.files().root();
                let node = is_root.then_some(export.node);
                (node, Some(self.context.target(Status::Notdir)?))
            }
        };
        if matches!(args.cookie, 1 | 2) {
            return Err(Status::BadCookie);
        }
        if args.cookie != 0 && args.verifier != VERIFIER {
            return Err(Status::NotSame);
        }
        if !args.attributes.and(&attribute::WRITE_ONLY).is_empty() {
            return Err(Status::Inval);
        }
        let room = room.min(args.bytes_max as usize);
        let mut entries = Entries {
            writer: Writer::new(),
            room: room.checked_sub(EMPTY_LEN).ok_or(Status::Toosmall)?,
            is_full: false,
            count: 0,
        };
        if let Some(target) = target
            && args.cookie < PSEUDO_COOKIE
        {
            self.own_entries(&target, node, args, &mut entries).await?;
        }
        if let Some(node) = node
            && !entries.is_full
        {
            self.pseudo_entries(node, args, &mut entries).await?;
        }
        if entries.is_full && entries.count == 0 {
            return Err(Status::Toosmall);
        }
        self.out.fixed(&VERIFIER);
        self.out.fixed(&entries.writer.to_vec());
        self.out.bool(false);
        self.out.bool(!entries.is_full);
        Ok(())
    }

    async fn own_entries(
        &self,
        target: &Target,
        node: Option<u64>,
        args: &ReadDir,
        entries: &mut Entries,
    ) -> Result<(), Status> {
        let context = &self.context;
        let wants_attributes = args.attributes != Bitmap::default();
        let mut after = Cookie(args.cookie);
        loop {
            let listing = target.files().read_directory(
                &target.caller,
                target.handle,
                after,
                READDIR_BATCH,
                wants_attributes,
            );
            let listing = listing.await.map_err(status_of)?;
            for entry in &listing.entries {
                let name = entry.name.as_bytes();
                after = entry.cookie;
                let is_hidden =
                    node.is_some_and(|node| context.tree.child(node, name, context.peer).is_some());
                if is_hidden {
                    continue;
                }
                let shown = Entry {
                    cookie: entry.cookie.0,
                    name,
                    object: Object::File(target.export.clone(), entry.handle),
                    known: entry.attributes,
                };
                self.put(shown, &args.attributes, entries).await?;
                if entries.is_full {
                    return Ok(());
                }
            }
            if listing.is_end {
                return Ok(());
            }
        }
    }

    async fn pseudo_entries(
        &self,
        node: u64,
        args: &ReadDir,
        entries: &mut Entries,
    ) -> Result<(), Status> {
        let context = &self.context;
        let children = context.tree.children(node, context.peer);
        for (at, (name, child)) in children.into_iter().enumerate() {
            let cookie = PSEUDO_COOKIE + at as u64;
            if cookie <= args.cookie {
                continue;
            }
            let entry = Entry {
                cookie,
                name,
                object: context.node(child.id)?,
                known: None,
            };
            self.put(entry, &args.attributes, entries).await?;
            if entries.is_full {
                break;
            }
        }
        Ok(())
    }

    /// Adds an entry if it fits.
    async fn put(
        &self,
        entry: Entry<'_>,
        wanted: &Bitmap,
        entries: &mut Entries,
    ) -> Result<(), Status> {
        let mut attributes = Writer::new();
        let written =
            self.write_attributes(&entry.object, entry.known.as_ref(), wanted, &mut attributes);
        match written.await {
            Ok(()) => {}
            // It was removed meanwhile.
            Err(Status::Stale) => return Ok(()),
            // §5.8.1.12: the error stands in the place of the attributes.
            Err(status) if wanted.has(attribute::RDATTR_ERROR) => {
                Bitmap::of(&[attribute::RDATTR_ERROR]).encode(&mut attributes);
                attributes.u32(4);
                attributes.u32(status.code());
            }
            Err(status) => return Err(status),
        }
        let before = entries.writer.mark();
        entries.writer.bool(true);
        entries.writer.u64(entry.cookie);
        entries.writer.opaque(entry.name);
        entries.writer.fixed(&attributes.to_vec());
        entries.is_full = entries.writer.len() > entries.room;
        match entries.is_full {
            true => entries.writer.truncate(before),
            false => entries.count += 1,
        }
        Ok(())
    }
}
