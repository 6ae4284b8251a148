//! The table of the control API's routes, and the router made of it.
//!
//! **Owns** the list of requests: method, path, request, answer, failures, handler. **Called by** the control plane and
//! [`super::description`]. **Invariants**: the router and the description are made of the same list ([`all`]).
//! Requests about exports are in the folder of their protocol.

use super::Control;
use super::description::describe_all;
use super::route::{Route, refuse, routes};
use crate::api::{
    AddConsoleUser, AddDisk, AddVdevs, AskWhy, AttachMember, CheckpointPool, ClearReservations,
    CloneSnapshot, ConsoleUser, CreateFilesystem, CreatePool, CreateSnapshot, CreateVolume,
    Dataset, DestroyFilesystem, DestroyPool, DestroySnapshot, DestroyVolume, DetachMember,
    DiffFilesystem, Difference, Disk, Done, EndSession, Event, ExportPool, ExportReservations,
    FailureCode, Filesystem, FoundPool, GetDoctor, GetOpenApi, GetProperties, GetStages, GetStatus,
    GetSummary, HistoryEntry, Hold, HoldSnapshot, ImportPool, InheritProperty, ListConsoleUsers,
    ListDisks, ListEvents, ListFilesystems, ListHolds, ListOwnerSpace, ListPools, ListRates,
    ListRefusedHosts, ListReports, ListReservations, ListRows, ListSessions, ListSnapshots,
    ListVolumes, ListWear, ListWrites, MountFilesystem, OfflineMember, OnlineMember, OpenApi,
    OwnerSpace, Pool, PoolHistory, PoolSizes, PromoteFilesystem, PromoteVolume, Property, Rates,
    RefusedHost, ReleaseSnapshot, RemoveConsoleUser, RemoveDevice, RemoveDisk, RenameFilesystem,
    RenameSnapshot, RenameVolume, ReplaceMember, ResilverPool, ResizeDisk, ResizeVolume,
    RollbackFilesystem, RollbackVolume, Rows, ScanPools, ScrubPool, Session, SessionSummary,
    SetConsolePassword, SetProperty, ShowSession, SizeReport, Snapshot, Stages, Status,
    StopRemoval, StoredReport, Summary, Trial, TrimPool, TryImport, UnlockConsoleUser,
    UnmountFilesystem, Volume, Writes,
};
use crate::limits::REQUEST_LEN_MAX;
use crate::protocols::protocols;
use crate::why::Why;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use std::collections::BTreeSet;

/// The table of each protocol's requests.
macro_rules! tables {
    ($($protocol:ident $type:ident $exports:ident;)*) => {
        [$(crate::protocols::$protocol::change::routes as fn() -> Vec<Route>),*]
    };
}

/// The routes of version 1.
pub(super) fn all() -> Vec<Route> {
    let tables: [fn() -> Vec<Route>; 12] = [
        server_routes,
        insight_routes,
        console_routes,
        session_routes,
        reservation_routes,
        disk_routes,
        pool_routes,
        member_routes,
        property_routes,
        volume_routes,
        filesystem_routes,
        snapshot_routes,
    ];
    let tables = tables.into_iter().chain(protocols!(tables));
    tables.flat_map(|table| table()).collect()
}

/// The paths of requests that change nothing.
pub(crate) fn questions() -> BTreeSet<&'static str> {
    let all = all().into_iter().map(|route| route.operation);
    let questions = all.filter(|o| !o.method.is_change());
    questions.map(|o| o.path).collect()
}

/// The OpenAPI document of the control API.
#[must_use]
pub fn openapi() -> serde_json::Value {
    describe_all(all())
}

/// Answers the requests of version 1.
pub(crate) fn router(control: Control) -> Router {
    let missing = |uri: Uri| async move {
        let message = format!("no such request {}: see docs/control-api.md", uri.path());
        refuse(FailureCode::NotFound, message)
    };
    requests().fallback(missing).with_state(control)
}

/// The requests of version 1, for a router that answers others too.
pub(crate) fn requests() -> Router<Control> {
    let empty = Router::new();
    let routes = all().into_iter().fold(empty, |router, r| r.add(router));
    routes.layer(DefaultBodyLimit::max(REQUEST_LEN_MAX))
}

routes! {
    /// The server: its state and this description.
    fn server_routes, "server";

    Get "/v1/status" GetStatus => Status, VIEW, control |c, _| c.status().await;
    Get "/v1/summary" GetSummary => Summary, VIEW, control |c, _| c.summary().await;
    Ask "/v1/rows" ListRows => Rows, LOOKUP, control |c, r| c.rows(r).await;
    Get "/v1/openapi.json" GetOpenApi => OpenApi, VIEW, control |_, _| Ok(OpenApi(openapi()));
}

routes! {
    /// Judgement of the server and its machine, and the past.
    fn insight_routes, "insight";

    Ask "/v1/why" AskWhy => Vec<Why>, LOOKUP, control |c, r| c.why(r).await;
    Ask "/v1/rates" ListRates => Vec<Rates>, VIEW, control |c, r| Ok(c.rates.list(&r));
    Get "/v1/doctor" GetDoctor => doctor::Report, VIEW, control |c, _| c.doctor().await;
    Get "/v1/reports" ListReports => Vec<StoredReport>, LOOKUP, control |c, _| c.reports().await;
}

routes! {
    /// Users of the web console. The console itself does not pass these requests on.
    fn console_routes, "console";

    Get "/v1/console/users" ListConsoleUsers => Vec<ConsoleUser>, LOOKUP, control |c, _| c.accounts.list().await;
    Post "/v1/console/users/add" AddConsoleUser => ConsoleUser, CHANGE, control |c, r| c.accounts.add(r.name, r.password.0, r.role).await;
    Post "/v1/console/users/password" SetConsolePassword => ConsoleUser, CHANGE, control |c, r| c.accounts.set_password(r.name, r.password.0).await;
    Post "/v1/console/users/remove" RemoveConsoleUser => Done, CHANGE, control |c, r| c.accounts.remove(r.name).await.map(|()| Done {});
    Post "/v1/console/users/unlock" UnlockConsoleUser => Done, LOOKUP, control |c, r| c.accounts.unlock(r.name).await.map(|()| Done {});
}

routes! {
    /// Sessions of every protocol.
    fn session_routes, "sessions";

    Get "/v1/sessions" ListSessions => Vec<SessionSummary>, VIEW, control |c, _| Ok(c.summaries());
    Get "/v1/sessions/refused" ListRefusedHosts => Vec<RefusedHost>, VIEW, control |c, _| Ok(c.refused());
    Ask "/v1/sessions/show" ShowSession => Session, LOOKUP, control |c, r| c.session(r.id).await;
    Get "/v1/stages" GetStages => Stages, VIEW, control |c, _| Ok(c.stages());
    Post "/v1/sessions/end" EndSession => Done, LOOKUP, control |c, r| c.end_session(r.id).map(|()| Done {});
}

routes! {
    /// Reservations of exports of every protocol.
    fn reservation_routes, "reservations";

    Ask "/v1/reservations" ListReservations => Vec<ExportReservations>, LOOKUP, shard |s, r| s.list_reservations(r);
    Post "/v1/reservations/clear" ClearReservations => Done, CHANGE, shard |s, r| s.clear_reservations(r).await.map(|()| Done {});
}

routes! {
    /// Disks.
    fn disk_routes, "disks";

    Get "/v1/disks" ListDisks => Vec<Disk>, VIEW, shard |s, _| Ok(s.disks());
    Post "/v1/disks/add" AddDisk => Disk, CHANGE, shard |s, r| s.add_disk(r).await;
    Post "/v1/disks/resize" ResizeDisk => Disk, CHANGE, shard |s, r| s.resize_disk(r).await;
    Post "/v1/disks/remove" RemoveDisk => Done, CHANGE, shard |s, r| s.remove_disk(r).await.map(|()| Done {});
}

routes! {
    /// Pools.
    fn pool_routes, "pools";

    Get "/v1/pools" ListPools => Vec<Pool>, VIEW, shard |s, _| Ok(s.pools_now().await);
    Get "/v1/pools/writes" ListWrites => Writes, VIEW, control |c, _| c.writes(crate::wear::COMMAND_AGE).await;
    Get "/v1/pools/wear" ListWear => Writes, VIEW, control |c, _| c.wear_of_pools().await;
    Post "/v1/pools/create" CreatePool => Pool, CHANGE, shard |s, r| s.create_pool(r).await;
    Ask "/v1/pools/scan" ScanPools => Vec<FoundPool>, CHANGE, shard |s, r| s.scan_pools(r).await;
    Post "/v1/pools/import" ImportPool => Pool, CHANGE, shard |s, r| s.import_pool(r).await;
    Post "/v1/pools/import/try" TryImport => Trial, CHANGE, shard |s, r| s.try_import(r).await;
    Post "/v1/pools/export" ExportPool => Done, CHANGE, shard |s, r| s.export_pool(r).await.map(|()| Done {});
    Post "/v1/pools/destroy" DestroyPool => Done, CHANGE, shard |s, r| s.destroy_pool(r).await.map(|()| Done {});
    Post "/v1/pools/checkpoint" CheckpointPool => Pool, CHANGE, shard |s, r| s.checkpoint_pool(r).await;
    Post "/v1/pools/trim" TrimPool => Pool, CHANGE, shard |s, r| s.trim_pool(r).await;
    Post "/v1/pools/scrub" ScrubPool => Pool, CHANGE, shard |s, r| s.scrub_pool(r).await;
    Post "/v1/pools/resilver" ResilverPool => Pool, CHANGE, shard |s, r| s.resilver_pool(r).await;
    Ask "/v1/pools/sizes" PoolSizes => SizeReport, LOOKUP, shard |s, r| s.pool_sizes(&r);
    Ask "/v1/pools/history" PoolHistory => Vec<HistoryEntry>, CHANGE, shard |s, r| s.pool_history(r).await;
    Ask "/v1/pools/events" ListEvents => Vec<Event>, VIEW, shard |s, r| Ok(s.events(&r));
}

routes! {
    /// Members of a pool's vdevs.
    fn member_routes, "pools";

    Post "/v1/pools/add" AddVdevs => Pool, CHANGE, shard |s, r| s.add_vdevs(r).await;
    Post "/v1/pools/attach" AttachMember => Pool, CHANGE, shard |s, r| s.attach_member(r).await;
    Post "/v1/pools/remove" RemoveDevice => Pool, CHANGE, shard |s, r| s.remove_device(r).await;
    Post "/v1/pools/stop-removal" StopRemoval => Pool, CHANGE, shard |s, r| s.stop_removal(r).await;
    Post "/v1/pools/detach" DetachMember => Pool, CHANGE, shard |s, r| s.detach_member(r).await;
    Post "/v1/pools/replace" ReplaceMember => Pool, CHANGE, shard |s, r| s.replace_member(r).await;
    Post "/v1/pools/online" OnlineMember => Pool, CHANGE, shard |s, r| s.online_member(r).await;
    Post "/v1/pools/offline" OfflineMember => Pool, CHANGE, shard |s, r| s.offline_member(r).await;
}

routes! {
    /// Properties of pools and volumes.
    fn property_routes, "properties";

    Ask "/v1/properties/get" GetProperties => Vec<Property>, LOOKUP, shard |s, r| s.properties(&r).await;
    Post "/v1/properties/set" SetProperty => Property, CHANGE, shard |s, r| s.set_property(r).await;
    Post "/v1/properties/inherit" InheritProperty => Property, CHANGE, shard |s, r| s.inherit_property(r).await;
}

routes! {
    /// Volumes.
    fn volume_routes, "volumes";

    Get "/v1/volumes" ListVolumes => Vec<Volume>, VIEW, shard |s, _| Ok(s.volumes());
    Post "/v1/volumes/create" CreateVolume => Volume, CHANGE, shard |s, r| s.create_volume(r).await;
    Post "/v1/volumes/resize" ResizeVolume => Volume, CHANGE, shard |s, r| s.resize_volume(r).await;
    Post "/v1/volumes/destroy" DestroyVolume => Done, CHANGE, shard |s, r| s.destroy_volume(r).await.map(|()| Done {});
    Post "/v1/volumes/rename" RenameVolume => Volume, CHANGE, shard |s, r| s.rename_volume(r).await;
    Post "/v1/volumes/promote" PromoteVolume => Volume, CHANGE, shard |s, r| s.promote_volume(r).await;
    Post "/v1/volumes/rollback" RollbackVolume => Volume, CHANGE, shard |s, r| s.rollback_volume(r).await;
}

routes! {
    /// Filesystems and their mounts.
    fn filesystem_routes, "filesystems";

    Get "/v1/filesystems" ListFilesystems => Vec<Filesystem>, VIEW, shard |s, _| Ok(s.filesystems());
    Post "/v1/filesystems/create" CreateFilesystem => Filesystem, CHANGE, shard |s, r| s.create_filesystem(r).await;
    Post "/v1/filesystems/destroy" DestroyFilesystem => Done, CHANGE, shard |s, r| s.destroy_filesystem(r).await.map(|()| Done {});
    Post "/v1/filesystems/rename" RenameFilesystem => Filesystem, CHANGE, shard |s, r| s.rename_filesystem(r).await;
    Post "/v1/filesystems/promote" PromoteFilesystem => Filesystem, CHANGE, shard |s, r| s.promote_filesystem(r).await;
    Post "/v1/filesystems/rollback" RollbackFilesystem => Filesystem, CHANGE, shard |s, r| s.rollback_filesystem(r).await;
    Post "/v1/filesystems/mount" MountFilesystem => Filesystem, CHANGE, shard |s, r| s.mount_filesystem(r).await;
    Ask "/v1/filesystems/diff" DiffFilesystem => Vec<Difference>, CHANGE, shard |s, r| s.diff_filesystem(r).await;
    Ask "/v1/filesystems/owners" ListOwnerSpace => Vec<OwnerSpace>, CHANGE, shard |s, r| s.owner_space(r).await;
    Post "/v1/filesystems/unmount" UnmountFilesystem => Done, CHANGE, shard |s, r| s.unmount_filesystem(r).await.map(|()| Done {});
}

routes! {
    /// Snapshots and clones.
    fn snapshot_routes, "snapshots";

    Ask "/v1/snapshots" ListSnapshots => Vec<Snapshot>, LOOKUP, shard |s, r| s.list_snapshots(r).await;
    Post "/v1/snapshots/create" CreateSnapshot => Snapshot, CHANGE, shard |s, r| s.create_snapshot(r).await;
    Post "/v1/snapshots/destroy" DestroySnapshot => Done, CHANGE, shard |s, r| s.destroy_snapshot(r).await.map(|()| Done {});
    Post "/v1/snapshots/rename" RenameSnapshot => Snapshot, CHANGE, shard |s, r| s.rename_snapshot(r).await;
    Post "/v1/snapshots/hold" HoldSnapshot => Vec<Hold>, CHANGE, shard |s, r| s.hold_snapshot(r).await;
    Post "/v1/snapshots/release" ReleaseSnapshot => Vec<Hold>, CHANGE, shard |s, r| s.release_snapshot(r).await;
    Ask "/v1/snapshots/holds" ListHolds => Vec<Hold>, CHANGE, shard |s, r| s.list_holds(r).await;
    Post "/v1/snapshots/clone" CloneSnapshot => Dataset, CHANGE, shard |s, r| s.clone_snapshot(r).await;
}
