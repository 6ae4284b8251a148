//! Space of users and groups, and their quotas.
//!
//! **Owns** [`Owners`], the quotas of one incarnation. **Called by** scenario `files`. **Invariants** that it checks: the space of an
//! owner is the sum of its files, also of data in memory; it grows beyond a quota only by the rounding of small files; files of
//! owners without a quota are never refused.

use super::image::Image;
use super::recorded::Recorded;
use crate::model::Violation;
use backend::file::{Attributes, FileError};
use io::rng::Prng;
use io::time::sleep;
use pool::filesystem::{FileSystem, Purpose, Store, Transaction};
use pool::format::filesystem::{BLOCK_SIZE, Charge, FileOwner, encode_charge};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Quotas are below this many bytes.
const QUOTA_MAX: u64 = 160 << 10;
/// Longest pause between two quotas, microseconds.
const PAUSE: u64 = 4000;

/// The owners that may get a quota; others have none.
const WITH_QUOTAS: [FileOwner; 4] = [
    FileOwner::User(1),
    FileOwner::User(2),
    FileOwner::Group(1),
    FileOwner::Group(2),
];

/// Bytes that an owner with a quota has at most: the quota, or the bytes of its files when the quota was set.
#[derive(Clone, Default)]
pub(super) struct Owners(Rc<RefCell<BTreeMap<FileOwner, u64>>>);

fn failed(e: &FileError) -> Violation {
    Violation(format!("space of owners: {e}"))
}

/// Space and quota by owner.
async fn spaces(
    files: &FileSystem<Recorded>,
) -> Result<BTreeMap<FileOwner, (u64, u64)>, Violation> {
    let found = files.store().store.owner_spaces().await;
    let found = found.map_err(|e| failed(&e))?;
    let found = found.ok_or_else(|| Violation("a new filesystem is not counted".into()))?;
    Ok(found
        .into_iter()
        .map(|s| (s.owner, (s.used, s.quota)))
        .collect())
}

impl Owners {
    /// The quotas that a filesystem has at the start of an incarnation.
    pub(super) async fn of(files: &FileSystem<Recorded>) -> Result<Self, Violation> {
        let all = spaces(files).await?.into_iter();
        let limits = all.filter(|(_, (_, quota))| *quota > 0);
        let limits = limits.map(|(owner, (used, quota))| (owner, used.max(quota)));
        Ok(Self(Rc::new(RefCell::new(limits.collect()))))
    }

    /// Sets and removes quotas.
    pub(super) async fn churn(
        self,
        files: FileSystem<Recorded>,
        seed: u64,
    ) -> Result<(), Violation> {
        let mut rng = Prng::new(seed);
        for _ in 0..rng.below(8) {
            sleep(Duration::from_micros(rng.below(PAUSE))).await;
            let owner = WITH_QUOTAS[rng.below(WITH_QUOTAS.len() as u64) as usize];
            let quota = rng.chance(0.8).then(|| 1 + rng.below(QUOTA_MAX));
            let mut transaction = Transaction::new();
            match quota {
                Some(bytes) => transaction.put(owner.quota_key(), encode_charge(bytes)),
                None => transaction.delete(owner.quota_key()),
            };
            let store = files.store();
            let admitted = store.admit(transaction.bytes(), Purpose::Use).await;
            let admitted = match admitted {
                Ok(admitted) => admitted,
                Err(FileError::NoSpace | FileError::Quota) => continue,
                Err(e) => return Err(failed(&e)),
            };
            store.apply(transaction, admitted).map_err(|e| failed(&e))?;
            // until another step of this task, no other quota comes
            self.0.borrow_mut().remove(&owner);
            if let Some(quota) = quota {
                let used = spaces(&files)
                    .await?
                    .get(&owner)
                    .map_or(0, |(used, _)| *used);
                self.0.borrow_mut().insert(owner, used.max(quota));
            }
        }
        Ok(())
    }

    /// Judges the space of all owners of a filesystem at rest.
    pub(super) async fn judge(
        &self,
        files: &FileSystem<Recorded>,
        found: &Image,
    ) -> Result<(), Violation> {
        let mut sums: BTreeMap<FileOwner, (u64, u64)> = BTreeMap::new();
        for inode in found.state.inodes.values().filter(|inode| inode.used > 0) {
            for owner in Charge::of(inode).owners() {
                let sum = sums.entry(owner).or_default();
                *sum = (sum.0 + inode.used, sum.1 + 1);
            }
        }
        let spaces = spaces(files).await?;
        for owner in sums.keys().chain(spaces.keys()) {
            let (used, _) = spaces.get(owner).copied().unwrap_or_default();
            let (sum, objects) = sums.get(owner).copied().unwrap_or_default();
            if used != sum {
                let text = format!("the files of {owner} take {sum} bytes, not {used}");
                return Err(Violation(text));
            }
            // the contents of a small file take a block when they become a record
            let rounding = objects * BLOCK_SIZE;
            if let Some(limit) = self.0.borrow().get(owner)
                && used > limit + rounding
            {
                let text = format!("the files of {owner} take {used} bytes, more than {limit}");
                return Err(Violation(text));
            }
        }
        Ok(())
    }
}

/// Judges a refusal because of a quota, of a file with these attributes before and after. `None` if it may be right.
pub(super) fn judge_refusal(before: &Attributes, after: &Attributes) -> Option<Violation> {
    let owners = [FileOwner::User(after.uid), FileOwner::Group(after.gid)];
    let is_same = before.change == after.change;
    let has_quota = owners.iter().any(|owner| WITH_QUOTAS.contains(owner));
    (is_same && !has_quota).then(|| {
        let [user, group] = owners;
        Violation(format!(
            "a file of {user} and {group} was refused because of a quota"
        ))
    })
}
