//! The hierarchy of datasets: `home/ann` is below `home`.
//!
//! **Owns** the rules for names, and operations on a dataset together with all datasets below it. **Called by** [`Pool`]'s
//! users, and each operation that gives a dataset a name. **Invariants**: a dataset below another exists only while the other
//! exists and may have datasets below it; a rename changes all names in one batch of the journal.

use std::sync::Arc;

use super::inherit::{Heirs, make_durable, parent};
use crate::dataset::OpenDataset;
use crate::format::{DatasetKind, FILE_RECORD_SIZE, NAME_SIZE_MAX, check_name, dataset_key};
use crate::journal::Ticket;
use crate::owner::pool_tree::Changes;
use crate::owner::{Pool, State};
use crate::{Error, Result};

/// Whether datasets of a kind may have datasets below them.
fn may_have_children(kind: DatasetKind) -> bool {
    match kind {
        DatasetKind::Filesystem => true,
        DatasetKind::Volume | DatasetKind::Snapshot | DatasetKind::FilesystemSnapshot => false,
    }
}

/// Checks a dataset's name without the pool's: parts separated by slashes, each as the name of a pool, 255 bytes in all.
fn check_dataset_name(name: &str) -> Result<()> {
    let fits = name.len() <= NAME_SIZE_MAX && name.split('/').all(|part| check_name(part).is_ok());
    if fits { Ok(()) } else { Err(Error::BadName) }
}

fn is_below(name: &str, above: &str) -> bool {
    let rest = name.strip_prefix(above);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

impl State {
    /// Checks that a dataset may get a name: it is valid and free, and the dataset above may have datasets below it.
    pub(in crate::owner) fn check_new_name(&self, name: &str) -> Result<()> {
        check_dataset_name(name)?;
        if self.datasets.volume(name).is_some() {
            return Err(Error::Exists);
        }
        let Some(parent) = parent(name) else {
            return Ok(());
        };
        let above = self.datasets.volume(parent).ok_or(Error::NoParent)?;
        match may_have_children(above.dataset().kind) {
            true => Ok(()),
            false => Err(Error::NotAParent),
        }
    }

    /// A dataset and all datasets below it, parents before their children.
    pub(in crate::owner) fn tree(&self, name: &str) -> Result<Vec<Arc<OpenDataset>>> {
        let top = self.datasets.volume(name).ok_or(Error::NotFound)?;
        let below = self.datasets.below(name);
        Ok(std::iter::once(top).chain(below).cloned().collect())
    }

    /// As [`State::tree`]; with an empty name all datasets of the pool.
    pub(in crate::owner) fn tree_or_all(&self, name: &str) -> Result<Vec<Arc<OpenDataset>>> {
        if !name.is_empty() {
            return self.tree(name);
        }
        let mut all: Vec<_> = self.datasets.volumes().cloned().collect();
        all.sort_by_cached_key(|dataset| dataset.dataset().name);
        match all.is_empty() {
            true => Err(Error::NotFound),
            false => Ok(all),
        }
    }

    /// Renames a dataset and all datasets below it.
    fn rename_tree(&mut self, name: &str, new: &str) -> Result<(Heirs, Ticket)> {
        let tree = self.tree(name)?;
        self.check_new_name(new)?;
        let mut changes = Changes::new();
        let mut renamed = Vec::new();
        for volume in tree {
            let mut dataset = volume.dataset();
            dataset.name.replace_range(..name.len(), new);
            check_dataset_name(&dataset.name)?;
            changes.push((dataset_key(volume.id), Some(dataset.encode())));
            renamed.push((volume.id, dataset));
        }
        let ticket = self.change(Vec::new(), changes)?;
        for (id, dataset) in renamed {
            self.datasets.set(id, dataset);
        }
        Ok((self.inherit_again(Some(new)), ticket))
    }

    /// Checks that nothing keeps a dataset and the datasets below it from being destroyed with their snapshots: holds, and
    /// clones outside.
    fn check_destroy_tree(&self, tree: &[Arc<OpenDataset>]) -> Result<()> {
        for dataset in tree {
            if self.pending_snapshots.has(dataset.id) {
                return Err(Error::Busy);
            }
            for snapshot in self.datasets.snapshots(dataset.id) {
                self.check_holds(snapshot.id)?;
                let mut clones = self.datasets.clones(snapshot.id);
                if clones.any(|clone| !tree.iter().any(|d| d.id == clone.id)) {
                    return Err(Error::Busy);
                }
            }
        }
        Ok(())
    }
}

impl Pool {
    /// Checks that a dataset may get a name, as [`State::check_new_name`]. A dataset below another inherits from it.
    pub(in crate::owner) async fn prepare_name(&self, name: &str) -> Result<()> {
        let inherited = {
            let state = self.owner.state.borrow();
            state.check_new_name(name)?;
            state.inherited_record_size(name)
        };
        if inherited != u64::from(FILE_RECORD_SIZE) {
            self.require_record_sizes().await?;
        }
        match parent(name) {
            Some(_) => self.require_settings().await,
            None => Ok(()),
        }
    }

    /// Renames a dataset and all datasets below it; their snapshots keep their names behind the `@`. Durable when this
    /// returns; after a power cut, either all have their new names or none.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::BadName`], [`Error::NoParent`], [`Error::NotAParent`],
    /// [`Error::BelowItself`], [`Error::BatchTooLarge`] for some thousands of datasets, [`Error::Device`].
    pub async fn rename_volume(&self, name: &str, new: &str) -> Result<()> {
        if self.owner.state.borrow().datasets.volume(name).is_none() {
            return Err(Error::NotFound);
        }
        if is_below(new, name) {
            return Err(Error::BelowItself);
        }
        self.prepare_name(new).await?;
        let rename = |state: &mut State| state.rename_tree(name, new);
        let heirs = self.owner.change_durably(rename).await?;
        make_durable(heirs).await
    }

    /// Names of a dataset and all datasets below it, parents before their children. Empty if there is no such dataset.
    #[must_use]
    pub fn names_below(&self, name: &str) -> Vec<String> {
        let tree = self.owner.state.borrow().tree_or_all(name);
        let tree = tree.unwrap_or_default();
        tree.iter().map(|found| found.dataset().name).collect()
    }

    /// Destroys a dataset with its snapshots, all datasets below it, and theirs. An interrupted destruction leaves each
    /// remaining dataset whole.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Held`] and [`Error::Busy`] before anything is destroyed if a snapshot has a hold or a
    /// clone outside, [`Error::Device`].
    pub async fn destroy_tree(&self, name: &str) -> Result<()> {
        let tree = {
            let state = self.owner.state.borrow();
            let tree = state.tree(name)?;
            state.check_destroy_tree(&tree)?;
            tree
        };
        // A snapshot goes after its clones, which may be anywhere in the tree: each pass destroys as much as it can.
        let mut left = tree.len();
        while left > 0 {
            let before = self.count_of(&tree);
            for dataset in tree.iter().rev() {
                self.destroy_with_snapshots(dataset).await?;
            }
            left = tree.iter().filter(|d| self.has(d)).count();
            if left > 0 && self.count_of(&tree) == before {
                return Err(Error::Busy);
            }
        }
        Ok(())
    }

    fn has(&self, dataset: &OpenDataset) -> bool {
        self.owner.state.borrow().datasets.contains(dataset.id)
    }

    /// Number of these datasets that exist, and of their snapshots.
    fn count_of(&self, tree: &[Arc<OpenDataset>]) -> usize {
        let state = self.owner.state.borrow();
        let found = tree.iter().filter(|d| state.datasets.contains(d.id));
        found
            .map(|dataset| 1 + state.datasets.snapshots(dataset.id).count())
            .sum()
    }

    /// Destroys a dataset with its snapshots, or those of them that have no clone.
    async fn destroy_with_snapshots(&self, dataset: &OpenDataset) -> Result<()> {
        if !self.has(dataset) {
            return Ok(());
        }
        let name = dataset.dataset().name;
        let snapshots: Vec<String> = {
            let state = self.owner.state.borrow();
            let found = state.datasets.snapshots(dataset.id);
            found.map(|snapshot| snapshot.dataset().name).collect()
        };
        let mut is_free = true;
        for snapshot in snapshots.iter().rev() {
            match self.destroy_snapshot(&name, snapshot).await {
                Ok(()) => {}
                Err(Error::Busy) => is_free = false,
                Err(other) => return Err(other),
            }
        }
        match is_free {
            true => match self.destroy_volume(&name).await {
                Err(Error::Busy) => Ok(()),
                other => other,
            },
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
