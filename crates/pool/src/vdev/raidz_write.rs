//! Writes to a raidz: whole rows with their parity, and copies of the journal.
//!
//! **Owns** what each member gets of a write. **Called by** [`TopVdev`]. **Invariants**: a write to rows begins with a row and
//! fills its last row with zeroes, so that data and parity of a row are always written together; it counts when as many
//! members that are in have it as the layout needs. `docs/decisions/0152`.

use std::sync::Arc;

use io::{SharedBuf, spawn};

use super::geometry::DATA_START;
use super::leaf::Leaf;
use super::member::{Attempt, Member, Reach};
use super::parity;
use super::rows::{Band, Rows};
use super::top::TopVdev;
use crate::error::Result;
use crate::format::VdevOffset;
use crate::written::WriteClass;

/// A part of a write: for each member that has a part of it, the offset on its disk and the bytes.
type Part = Vec<(usize, u64, SharedBuf)>;

/// One piece of a write.
enum Piece {
    /// The copies of a range of the journal.
    Copies(Part),
    /// Rows, whose columns are computed when they are written.
    Rows(Band),
}

impl TopVdev {
    /// One attempt to write to rows or to the journal.
    pub(super) async fn write_parts(
        &self,
        rows: &Rows,
        at: VdevOffset,
        data: &SharedBuf,
        class: WriteClass,
    ) -> Result<()> {
        let len = data.len() as u64;
        assert!(rows.is_writable(at.0, len), "{len} bytes at {at:?}");
        let (pieces, reach) = match rows.is_journal(at.0) {
            true => {
                let copies = rows.copies(at.0);
                let copy = |(member, offset)| (member, offset, data.clone());
                (vec![Piece::Copies(copies.map(copy).collect())], Reach::Some)
            }
            false => {
                let most = io::limits::BUF_LEN_MAX / (rows.members() * rows.unit());
                let bands = rows.bands(at.0, len, most as u64);
                let is_wide = |band: &Band| band.members() == rows.members();
                let reach = match bands.iter().all(is_wide) {
                    true => Reach::All,
                    false => Reach::Some,
                };
                (bands.into_iter().map(Piece::Rows).collect(), reach)
            }
        };
        let mut attempts: Vec<Attempt> = Vec::new();
        loop {
            let targets: Vec<(usize, Arc<Leaf>)> = {
                let mut members = self.members();
                let has_part = |index: &usize| match &pieces[..] {
                    [Piece::Copies(copies)] => copies.iter().any(|(member, ..)| member == index),
                    [Piece::Rows(band), ..] => *index < band.members(),
                    _ => true,
                };
                let all = members.iter().enumerate();
                let targets: Vec<_> = all
                    .filter(|(index, _)| has_part(index))
                    .filter(|(_, m)| {
                        m.state.takes_writes() && !attempts.iter().any(|a| a.is_of(&m.leaf))
                    })
                    .map(|(index, m)| (index, m.leaf.clone()))
                    .collect();
                if targets.is_empty() {
                    self.count_write();
                    return self.judge_locked(&mut members, &attempts, reach);
                }
                targets
            };
            let mut has_it = vec![true; targets.len()];
            for piece in &pieces {
                let part = match piece {
                    Piece::Copies(copies) => copies.clone(),
                    Piece::Rows(band) => self.encode(rows, band, at.0, data).await,
                };
                write_part(&targets, part, class, &mut has_it).await;
            }
            let done = targets.into_iter().zip(has_it);
            attempts.extend(done.map(|((_, leaf), has_it)| Attempt::new(leaf, has_it)));
        }
    }

    /// The columns of rows of a write that begins at `start`.
    async fn encode(&self, rows: &Rows, band: &Band, start: u64, data: &[u8]) -> Part {
        let (unit, count) = (rows.unit(), band.data());
        let size = band.rows * unit;
        let mut buf = self.row_buffers().alloc(size * band.members()).await;
        let (columns, parity) = buf.split_at_mut(size * count);
        let mut units = data[(band.at - start) as usize..].chunks(unit);
        for row in 0..band.rows {
            for column in columns.chunks_mut(size) {
                let place = &mut column[row * unit..(row + 1) * unit];
                match units.next() {
                    Some(bytes) => place.copy_from_slice(bytes),
                    None => place.fill(0),
                }
            }
        }
        let columns: Vec<&[u8]> = columns.chunks(size).collect();
        let mut parity: Vec<&mut [u8]> = parity.chunks_mut(size).collect();
        parity::compute(&columns, &mut parity);
        let buf = SharedBuf::from(buf);
        let part = |column| {
            let bytes = buf.part(column * size, size);
            (band.member(column), band.offset, bytes)
        };
        (0..band.members()).map(part).collect()
    }

    /// Discards the whole rows of a range.
    pub(super) async fn discard(&self, at: VdevOffset, len: u64) {
        let Some(rows) = self.rows() else {
            for leaf in self.targets() {
                leaf.trim(DATA_START + at.0, len).await;
            }
            return;
        };
        let targets: Vec<Option<Arc<Leaf>>> = {
            let members = self.members();
            let takes = |m: &Member| m.state.takes_writes().then(|| m.leaf.clone());
            members.iter().map(takes).collect()
        };
        for (start, size) in rows.whole_rows(at.0, len) {
            let bands = rows.bands(start, size, 1);
            let Some(band) = bands.first() else { continue };
            let on_each = size / band.data() as u64;
            for leaf in targets[..band.members()].iter().flatten() {
                leaf.trim(band.offset, on_each).await;
            }
        }
    }
}

/// Writes a part to these members, by index, and notes which of them do not have it.
async fn write_part(
    targets: &[(usize, Arc<Leaf>)],
    part: Part,
    class: WriteClass,
    has_it: &mut [bool],
) {
    let mut running = Vec::with_capacity(targets.len());
    for (index, leaf) in targets {
        let own = part.iter().find(|(member, ..)| member == index);
        let (_, offset, bytes) = own.expect("each target has a part").clone();
        let leaf = leaf.clone();
        running.push(spawn(async move {
            let written = leaf.write(&bytes, offset, class).await;
            written.is_ok()
        }));
    }
    for (handle, has_it) in running.into_iter().zip(has_it) {
        *has_it &= handle.await.unwrap_or(false);
    }
}
