//! Requests of the control API about exports over iSCSI.
//!
//! **Called by** the table of routes.

use crate::api::{
    AllowInitiator, DenyInitiator, Done, ExportIscsi, IscsiTarget, ListTargets, MoveTarget,
    RemoveTarget, SetChap, SetDiscoveryChap,
};
use crate::control::route::routes;

routes! {
    /// Exports over iSCSI.
    pub(crate) fn routes, "targets";

    Get "/v1/targets" ListTargets => Vec<IscsiTarget>, VIEW, control |c, _| c.status().await.map(|s| s.exports.iscsi.targets);
    Post "/v1/targets/export" ExportIscsi => IscsiTarget, CHANGE, shard |s, r| s.export_iscsi(r).await;
    Post "/v1/targets/remove" RemoveTarget => Done, CHANGE, shard |s, r| s.remove_target(r).await.map(|()| Done {});
    Post "/v1/targets/chap" SetChap => IscsiTarget, CHANGE, shard |s, r| s.set_chap(r).await;
    Post "/v1/targets/discovery-chap" SetDiscoveryChap => Done, CHANGE, shard |s, r| s.set_discovery_chap(r).await;
    Post "/v1/targets/move" MoveTarget => IscsiTarget, CHANGE, shard |s, r| s.move_target(r).await;
    Post "/v1/initiators/allow" AllowInitiator => IscsiTarget, CHANGE, shard |s, r| s.allow_initiator(r).await;
    Post "/v1/initiators/deny" DenyInitiator => IscsiTarget, CHANGE, shard |s, r| s.deny_initiator(r).await;
}
