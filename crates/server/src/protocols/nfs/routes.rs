//! Requests of the control API about exports over NFS.
//!
//! **Called by** the table of routes.

use crate::api::{AllowNfs, DenyNfs, Done, ExportNfs, ListNfs, NfsExport, RemoveNfs};
use crate::control::route::routes;

routes! {
    /// Exports over NFS.
    pub(crate) fn routes, "nfs";

    Get "/v1/nfs" ListNfs => Vec<NfsExport>, VIEW, control |c, _| c.status().await.map(|s| s.exports.nfs.nfs_exports);
    Post "/v1/nfs/export" ExportNfs => NfsExport, CHANGE, shard |s, r| s.export_nfs(r).await;
    Post "/v1/nfs/remove" RemoveNfs => Done, CHANGE, shard |s, r| s.remove_nfs(r).await.map(|()| Done {});
    Post "/v1/nfs/allow" AllowNfs => NfsExport, CHANGE, shard |s, r| s.allow_nfs(r).await;
    Post "/v1/nfs/deny" DenyNfs => NfsExport, CHANGE, shard |s, r| s.deny_nfs(r).await;
}
