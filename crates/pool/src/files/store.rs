//! The dataset as a [`Store`].
//!
//! **Owns** the requests of that trait. **Called by** filesystems. **Invariant**: a promise of stable storage is the dataset's.

use std::ops::Range;

use backend::Durable;
use backend::file::permission::{AclInherit, AclMode, AclRules};
use backend::file::{FileResult, Seek};
use io::{Payload, SharedBuf};

use super::FileStore;
use super::transactions::AdmittedBytes;
use crate::filesystem::{
    AccessTimes, Purpose, ScannedAround, Settings, Store, StoreSpace, Transaction,
};
use crate::format::filesystem::{Charge, Inode, KIND_DATA, KIND_INODE, object_keys};
use crate::format::{DatasetProperty, Key, ObjectId, Switches, Value};
use io::sync::lock;

/// The rules that the values of `aclmode` and `aclinherit` mean.
fn acl_rules(switches: Switches) -> AclRules {
    let on_chmod = match switches.value(DatasetProperty::Aclmode) {
        0 => AclMode::Discard,
        2 => AclMode::Passthrough,
        3 => AclMode::Restricted,
        _ => AclMode::Groupmask,
    };
    let on_create = match switches.value(DatasetProperty::Aclinherit) {
        0 => AclInherit::Discard,
        1 => AclInherit::Noallow,
        3 => AclInherit::Passthrough,
        4 => AclInherit::PassthroughX,
        _ => AclInherit::Restricted,
    };
    AclRules {
        on_chmod,
        on_create,
    }
}

impl Store for FileStore {
    type Admitted = AdmittedBytes;

    fn settings(&self) -> Settings {
        let switches = self.0.settings.switches();
        let is_fixed = self.0.settings.is_snapshot() || self.0.shared.vdevs.is_read_only();
        let access_times = match switches.has(DatasetProperty::Relatime) {
            true => AccessTimes::Relative,
            false => AccessTimes::Always,
        };
        Settings {
            is_read_only: is_fixed || switches.has(DatasetProperty::Readonly),
            record_size: self.0.settings.file_record_size(),
            base_record_size: self.0.settings.record_size,
            sync: self.0.settings.sync(),
            access_times: match switches.has(DatasetProperty::Atime) {
                true => access_times,
                false => AccessTimes::Off,
            },
            has_acls: switches.has(DatasetProperty::Acltype),
            acl_rules: acl_rules(switches),
            has_xattrs: switches.has(DatasetProperty::Xattr),
            change_floor: self.0.settings.change_floor(),
        }
    }

    fn space(&self) -> StoreSpace {
        let (used, available) = self.0.shared.budget.space_of(self.0.id);
        StoreSpace { used, available }
    }

    async fn inode(&self, object: ObjectId) -> FileResult<Option<Inode>> {
        let mut inode = self.newest_inode(object).await?;
        if let Some(inode) = &mut inode {
            inode.change = inode.change.max(self.0.settings.change_floor());
        }
        Ok(inode)
    }

    async fn get(&self, key: Key) -> FileResult<Option<Vec<u8>>> {
        Ok(match self.value(key).await? {
            Some(Value::Inline(bytes)) => Some(bytes.into()),
            Some(Value::Block(_)) | None => None,
        })
    }

    async fn scan(&self, keys: Range<Key>, max: usize) -> FileResult<Vec<(Key, Vec<u8>)>> {
        let is_value = |key: Key, value: &Value| {
            value.block().is_none() && !matches!(key.kind(), KIND_DATA | KIND_INODE)
        };
        let found = self.values(keys, max, is_value).await?;
        let values = found.into_iter().filter_map(|(key, value)| match value {
            Value::Inline(bytes) => Some((key, bytes.into())),
            Value::Block(_) => None,
        });
        Ok(values.collect())
    }

    async fn scan_around(&self, keys: Range<Key>, max: usize) -> FileResult<ScannedAround> {
        let (found, lost) = self.0.values_around(keys, max).await?;
        let values = found.into_iter().filter_map(|(key, value)| match value {
            Value::Inline(bytes) => Some((key, bytes.into())),
            Value::Block(_) => None,
        });
        Ok(ScannedAround {
            found: values.collect(),
            is_damaged: !lost.is_empty(),
        })
    }

    fn is_used_up(&self, owners: Charge) -> bool {
        lock(&self.0.state).charges.is_used_up(owners)
    }

    async fn admit(&self, bytes: usize, purpose: Purpose) -> FileResult<AdmittedBytes> {
        self.admit_transaction(bytes, purpose).await
    }

    fn apply(&self, transaction: Transaction, admitted: AdmittedBytes) -> FileResult<()> {
        self.apply_transaction(transaction, admitted)
    }

    async fn read(&self, object: ObjectId, bytes: Range<u64>) -> FileResult<Payload> {
        Ok(self.bytes(object).read(bytes).await?)
    }

    async fn write(
        &self,
        object: ObjectId,
        inode: Inode,
        offset: u64,
        data: SharedBuf,
        is_urgent: bool,
    ) -> FileResult<()> {
        let write = self.write_bytes(object, inode, offset, &data, is_urgent);
        let before = write.await?;
        self.0.note_write(object, offset, data.len(), before);
        Ok(())
    }

    async fn clear(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        transaction: Transaction,
    ) -> FileResult<()> {
        self.clear_bytes(object, bytes, transaction).await
    }

    async fn count(&self, object: ObjectId, size: u64) -> FileResult<(Inode, u64)> {
        self.count_cut(object, size).await
    }

    async fn uncounted(&self, from: ObjectId) -> FileResult<(Vec<ObjectId>, Option<ObjectId>)> {
        self.uncounted_files(from).await
    }

    async fn seek(&self, object: ObjectId, bytes: Range<u64>, to: Seek) -> FileResult<Option<u64>> {
        Ok(self.next_byte(object, bytes, to).await?)
    }

    async fn durable(&self, of: Option<ObjectId>) -> FileResult<Durable> {
        self.check_writable()?;
        Ok(self.0.promise_of(of.map(object_keys)).await?)
    }
}
