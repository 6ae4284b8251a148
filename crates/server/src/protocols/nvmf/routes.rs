//! Requests of the control API about exports over NVMe.
//!
//! **Called by** the table of routes.

use crate::api::{
    AddExport, AllowHost, DenyHost, Done, Export, ExportNvme, ListExports, RemoveExport,
};
use crate::control::route::routes;

routes! {
    /// Exports over NVMe.
    pub(crate) fn routes, "exports";

    Get "/v1/exports" ListExports => Vec<Export>, VIEW, control |c, _| c.status().await.map(|s| s.exports.nvmf.exports);
    Post "/v1/exports/nvme" ExportNvme => Export, CHANGE, shard |s, r| s.export_nvme(r).await;
    Post "/v1/exports/add" AddExport => Export, CHANGE, shard |s, r| s.add_export(r).await;
    Post "/v1/exports/remove" RemoveExport => Done, CHANGE, shard |s, r| s.remove_export(r).await.map(|()| Done {});
    Post "/v1/hosts/allow" AllowHost => Export, CHANGE, shard |s, r| s.allow_host(r).await;
    Post "/v1/hosts/deny" DenyHost => Export, CHANGE, shard |s, r| s.deny_host(r).await;
}
