//! Verification: checksums on every disk, one owner per sector, deadlists, and sums of datasets.
//!
//! Rule of owners: a block belongs to the oldest snapshot that holds it, or else to the volume. So a dataset owns its blocks
//! born since the snapshot before it, and each sector is marked once, by its owner. Older blocks must have been marked by
//! earlier snapshots; for the oldest dataset of a clone, by those of its origin. The deadlist between two consecutive
//! datasets must be the blocks that the first holds and the second does not; sums of pointers prove this without holding
//! either set in memory. A pending destroy owns its remaining blocks.
//!
//! **Owns** this account. **Called by** `wirepool inspect verify` and simulations. **Invariant**: damage is reported as a
//! finding, never returned as an error; a check that other damage makes impossible reports no damage.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::contents::{Contents, SeenDataset};
use super::disks::Image;
use super::found::{Finding, FindingKind};
use super::inspected::{DatasetSpace, Inspected, Progress};
use super::journal::SeenJournal;
use super::lists::Lists;
use super::owners::{Check, Verifier};
use super::part::Who;
use super::relocated::MetRelocations;
use super::replayed::Replayed;
use super::space::Sectors;
use super::sums::{Memo, Sums};
use crate::format::{Birth, TreeId};

impl<P: FnMut(Progress)> Verifier<'_, P> {
    /// Walks a volume and its snapshots.
    async fn lineage(&mut self, volume: &SeenDataset, lists: &Lists) {
        let contents = self.contents;
        let origin = contents.origin(volume);
        let mut since = origin.map_or(Birth(0), |o| o.dataset.birth);
        let mut before = origin.and_then(|origin| {
            let held = self.held.get(&origin.id)?;
            Some((volume.dataset.list, origin.name.clone(), *held))
        });
        let mut owned = 0;
        let chain = contents.snapshots(volume.id).into_iter().chain([volume]);
        for dataset in chain {
            let walked = self
                .walk(
                    dataset.root.root,
                    &Who::new(&dataset.name, &dataset.dataset, since),
                )
                .await;
            let all = walked.below;
            self.compare_root(dataset, &all);
            if let Some((list, name, older)) = &before {
                let dead = *older - walked.old;
                let list = lists.lists.get(list).copied().unwrap_or_default();
                let known = dead.unread == 0 && lists.whole;
                if known && !dead.are(&list.sums) {
                    let text = format!(
                        "its deadlist has {} blocks of {} bytes; the blocks that it holds and {} does not are {} of {} bytes",
                        list.sums.blocks, list.sums.space, dataset.name, dead.blocks, dead.space
                    );
                    let mut finding = Finding::new(FindingKind::DeadList, text);
                    finding.dataset = Some(name.clone());
                    self.add(finding);
                }
            }
            let own = all - walked.old;
            owned += own.space;
            let properties = &dataset.dataset;
            let list = lists.lists.get(&properties.list);
            let list = list.copied().unwrap_or_default();
            let is_volume = !properties.kind.is_snapshot();
            self.found.datasets.push(DatasetSpace {
                id: dataset.id,
                name: dataset.name.clone(),
                kind: properties.kind,
                referenced: all.records,
                logical: all.logical,
                used: own.space,
                unique: if is_volume { own.space } else { list.unique },
                dead: list.sums.space,
                owned: if is_volume { owned } else { 0 },
                quota: properties.quota,
                reservation: properties.reservation,
            });
            since = since.max(properties.birth);
            before = Some((properties.list, dataset.name.clone(), all));
            self.held.insert(dataset.id, all);
        }
    }

    /// Compares the sums in a root with those of its tree.
    fn compare_root(&mut self, dataset: &SeenDataset, all: &Sums) {
        if all.unread > 0 {
            return;
        }
        let root = &dataset.root;
        for (what, said, is) in [
            ("bytes of records", root.referenced, all.records),
            ("bytes of decompressed records", root.logical, all.logical),
            ("bytes of sectors", root.allocated, all.space),
        ] {
            if said != is {
                let text = format!("it holds {is} {what}; {said} are recorded");
                let mut finding = Finding::new(FindingKind::Referenced, text);
                finding.dataset = Some(dataset.name.clone());
                self.add(finding);
            }
        }
        if root.sizes.is_some_and(|sizes| sizes != all.sizes) {
            let text = "its root counts its nodes, or its records by size, wrongly".to_owned();
            let mut finding = Finding::new(FindingKind::Referenced, text);
            finding.dataset = Some(dataset.name.clone());
            self.add(finding);
        }
    }

    /// Compares the owners' sectors with the bitmaps.
    fn compare(&mut self, replayed: &Replayed, is_newest: bool) {
        let image = self.image;
        let mut pool = Sectors::default();
        for ptr in &self.contents.nodes {
            let Ok(space) = image.space_of(ptr) else {
                continue;
            };
            let fresh = pool.mark(image, ptr.address(), space);
            if !fresh || self.met.has_any(image, ptr.address(), space) {
                let text = "a node of the pool's own tree, some of which has another owner";
                let finding = Finding::new(FindingKind::DoubleUse, text);
                self.add(finding.at(ptr.address()));
            }
            if self.contents.saved.has_any(image, ptr.address(), space) {
                let text = "a saved bitmap claims a node of the pool's own tree";
                self.add(Finding::new(FindingKind::DoubleUse, text).at(ptr.address()));
            }
        }
        let (mut journal, mut all) = (Sectors::default(), Sectors::default());
        for put in replayed.held() {
            let ptr = put.block.ptr();
            let at = ptr.address();
            let space = match image.space_of(ptr) {
                Ok(space) => space,
                Err(defect) => {
                    self.add(Finding::new(FindingKind::Journal, defect.to_string()).at(at));
                    continue;
                }
            };
            let fresh = journal.mark(image, at, space);
            all.mark(image, at, space);
            if !fresh || self.met.has_any(image, at, space) || pool.has_any(image, at, space) {
                let text = "a block of the journal, some of which has another owner";
                let mut finding = Finding::new(FindingKind::DoubleUse, text).at(at);
                finding.dataset = Some(self.name_of(put.tree));
                self.add(finding);
            }
        }
        for ptr in &replayed.given_up {
            if let Ok(space) = image.space_of(ptr) {
                all.mark(image, ptr.address(), space);
            }
        }
        let saved = &self.contents.saved;
        if self.contents.whole {
            for text in self.contents.summaries.compare(image, saved) {
                self.add(Finding::new(FindingKind::Space, text));
            }
        }
        let beside = all.without(image, &[saved]).into_iter();
        let beside = beside.filter(|(at, _)| !image.is_removed(at.vdev));
        let beside: u64 = beside.map(|(_, bytes)| bytes).sum();
        self.found.pool_tree = pool.bytes(image);
        self.found.journal = journal.bytes(image);
        self.found.saved = saved.bytes(image);
        self.found.taken = self.found.saved + beside + self.found.pool_tree;
        for (at, bytes) in self.met.without(image, &[saved]) {
            let text = format!("{bytes} bytes are in use, and the bitmaps have them as free");
            self.add(Finding::new(FindingKind::NotMarked, text).at(at));
        }
        if is_newest {
            self.check_relocations();
        }
        let copies = self.copies();
        let saved = &self.contents.saved;
        for (at, bytes) in copies.without(image, &[saved]) {
            let text =
                format!("{bytes} bytes of copies are in use, and the bitmaps have them as free");
            self.add(Finding::new(FindingKind::NotMarked, text).at(at));
        }
        let leaks = saved.without(image, &[&self.met, &pool, &copies]);
        if !leaks.is_empty() && (self.unread > 0 || !self.contents.whole || !is_newest) {
            let why = if is_newest {
                "unreadable nodes"
            } else {
                "the journal, which belongs to a newer uberblock,"
            };
            let bytes: u64 = leaks.iter().map(|run| run.1).sum();
            let note = format!("{bytes} bytes without a known owner: {why} may hold them");
            self.found.findings.note(note);
            return;
        }
        for (at, bytes) in leaks {
            self.found.leaked += bytes;
            let text = format!("the bitmaps have {bytes} bytes as used that have no owner");
            self.add(Finding::new(FindingKind::Leak, text).at(at));
        }
    }

    fn name_of(&self, tree: TreeId) -> String {
        let known = self.contents.datasets.get(&tree);
        known.map_or_else(|| format!("dataset {}", tree.0), |d| d.name.clone())
    }
}

impl Image {
    /// Verifies the pool at an uberblock and the journal behind it. With `read_records`, reads records from every disk that
    /// should have them; otherwise only trees. `progress` is called for each block.
    pub async fn verify(
        self: &Rc<Self>,
        contents: &Contents,
        journal: &SeenJournal,
        read_records: bool,
        progress: impl FnMut(Progress),
    ) -> Inspected {
        let newest = self.uberblocks.first().map(|u| u.sequence);
        let is_newest = newest == Some(contents.uberblock.sequence);
        let mut verifier = Verifier {
            image: self,
            contents,
            met: Sectors::default(),
            relocated: MetRelocations::default(),
            memo: Memo::default(),
            held: BTreeMap::new(),
            keep_memo: contents.datasets.values().any(|d| d.dataset.of.is_some()),
            checks: Vec::new(),
            unread: 0,
            found: Inspected {
                read_records,
                ..Inspected::default()
            },
            progress,
            total: contents.saved.bytes(self),
            done: 0,
        };
        let replayed = if is_newest {
            journal.check(&mut verifier.found.findings);
            Replayed::read(self, journal).await
        } else {
            Replayed::default()
        };
        let lists = verifier.lists().await;
        verifier.freed_trees().await;
        for volume in contents.volumes() {
            verifier.lineage(volume, &lists).await;
            if volume.dataset.kind.has_files() {
                self.check_files(volume, &mut verifier.found.findings).await;
            }
        }
        verifier.compare(&replayed, is_newest);
        for put in replayed.held() {
            let dataset = contents.datasets.get(&put.tree);
            let who = dataset.map(|d| Who::new(&d.name, &d.dataset, Birth(0)));
            let part = who.map(|who| who.part(&(put.key..put.key.next())));
            let check = Check {
                block: put.block.clone(),
                dataset: verifier.name_of(put.tree),
                part: part.unwrap_or_default(),
                durable: put.durable,
            };
            verifier.check(check).await;
        }
        verifier.finish_checks().await;
        verifier.found
    }
}
