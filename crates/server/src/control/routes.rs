//! Routes of the control API.

use super::Control;
use crate::api::{
    AddDisk, AddExport, AddVdevs, AllowHost, AllowInitiator, AttachSide, Call, CheckpointPool,
    CloneSnapshot, CreatePool, CreateSnapshot, CreateVolume, DenyHost, DenyInitiator, DestroyPool,
    DestroySnapshot, DestroyVolume, DetachSide, Done, EndSession, ExportIscsi, ExportNvme,
    ExportPool, Failure, FailureCode, GetProperties, GetStatus, HoldSnapshot, ImportPool,
    ListDisks, ListEvents, ListExports, ListHolds, ListPools, ListSessions, ListSnapshots,
    ListTargets, ListVolumes, MoveTarget, OfflineSide, OnlineSide, PoolHistory, PromoteVolume,
    ReleaseSnapshot, RemoveDisk, RemoveExport, RemoveTarget, RenameSnapshot, RenameVolume,
    ReplaceSide, ResilverPool, ResizeDisk, ResizeVolume, RollbackVolume, ScanPools, ScrubPool,
    SetChap, SetDiscoveryChap, SetProperty, ShowSession, TrimPool, TryImport,
};
use crate::limits::REQUEST_LEN_MAX;
use crate::pools::Change;
use crate::server::Server;
use crate::{Error, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use std::future::Future;
use std::rc::Rc;

/// Every request of version 1.
pub(crate) fn router(control: Control) -> Router {
    let routes = Router::new();
    let routes = here::<GetStatus, _>(routes, |c, _| async move { c.status().await });
    let routes = here::<ListSessions, _>(routes, |c, _| async move { Ok(c.summaries()) });
    let routes = here::<ShowSession, _>(routes, |c, r| async move { c.session(r.id) });
    let routes = here::<EndSession, _>(routes, |c, r| async move {
        c.end_session(r.id).map(|()| Done {})
    });
    let routes = there::<ListDisks, _>(routes, |s, _| async move { Ok(s.disks()) });
    let routes =
        here::<ListExports, _>(
            routes,
            |c, _| async move { c.status().await.map(|s| s.exports) },
        );
    let routes = there::<AddDisk, _>(routes, |s, r| async move { s.add_disk(r).await });
    let routes = there::<ResizeDisk, _>(routes, |s, r| async move { s.resize_disk(r).await });
    let routes = there::<RemoveDisk, _>(routes, |s, r| async move {
        s.remove_disk(r).await.map(|()| Done {})
    });
    let routes = pool_routes(routes);
    let routes = there::<AddExport, _>(routes, |s, r| async move { s.add_export(r).await });
    let routes = there::<RemoveExport, _>(routes, |s, r| async move {
        s.remove_export(r).await.map(|()| Done {})
    });
    let routes = there::<AllowHost, _>(routes, |s, r| async move { s.allow_host(r).await });
    let routes = there::<DenyHost, _>(routes, |s, r| async move { s.deny_host(r).await });
    let routes = target_routes(routes);
    let missing = |uri: Uri| async move {
        let message = format!("no such request {}: see docs/control-api.md", uri.path());
        refuse(FailureCode::NotFound, message)
    };
    routes
        .fallback(missing)
        .layer(DefaultBodyLimit::max(REQUEST_LEN_MAX))
        .with_state(control)
}

fn target_routes(routes: Router<Control>) -> Router<Control> {
    let routes =
        here::<ListTargets, _>(
            routes,
            |c, _| async move { c.status().await.map(|s| s.targets) },
        );
    let routes = there::<ExportIscsi, _>(routes, |s, r| async move { s.export_iscsi(r).await });
    let routes = there::<RemoveTarget, _>(routes, |s, r| async move {
        s.remove_target(r).await.map(|()| Done {})
    });
    let routes = there::<SetChap, _>(routes, |s, r| async move { s.set_chap(r).await });
    let routes =
        there::<SetDiscoveryChap, _>(routes, |s, r| async move { s.set_discovery_chap(r).await });
    let routes = there::<MoveTarget, _>(routes, |s, r| async move { s.move_target(r).await });
    let routes =
        there::<AllowInitiator, _>(routes, |s, r| async move { s.allow_initiator(r).await });
    there::<DenyInitiator, _>(routes, |s, r| async move { s.deny_initiator(r).await })
}

fn pool_routes(routes: Router<Control>) -> Router<Control> {
    let routes = there::<ListPools, _>(routes, |s, _| async move { Ok(s.pools_now().await) });
    let routes = there::<CreatePool, _>(routes, |s, r| async move { s.create_pool(r).await });
    let routes = there::<ScanPools, _>(routes, |s, r| async move { s.scan_pools(r).await });
    let routes = there::<ImportPool, _>(routes, |s, r| async move { s.import_pool(r).await });
    let routes = there::<TryImport, _>(routes, |s, r| async move { s.try_import(r).await });
    let routes = there::<ExportPool, _>(routes, |s, r| async move {
        s.export_pool(r).await.map(|()| Done {})
    });
    let routes = there::<DestroyPool, _>(routes, |s, r| async move {
        s.destroy_pool(r).await.map(|()| Done {})
    });
    let routes =
        there::<CheckpointPool, _>(routes, |s, r| async move { s.checkpoint_pool(r).await });
    let routes = there::<ListVolumes, _>(routes, |s, _| async move { Ok(s.volumes()) });
    let routes = there::<CreateVolume, _>(routes, |s, r| async move { s.create_volume(r).await });
    let routes = there::<ResizeVolume, _>(routes, |s, r| async move { s.resize_volume(r).await });
    let routes = there::<DestroyVolume, _>(routes, |s, r| async move {
        s.destroy_volume(r).await.map(|()| Done {})
    });
    let routes = snapshot_routes(side_routes(routes));
    there::<ExportNvme, _>(routes, |s, r| async move { s.export_nvme(r).await })
}

fn side_routes(routes: Router<Control>) -> Router<Control> {
    let routes = there::<AttachSide, _>(routes, |s, r| async move { s.attach_side(r).await });
    let routes = there::<DetachSide, _>(routes, |s, r| async move { s.detach_side(r).await });
    let routes = there::<ReplaceSide, _>(routes, |s, r| async move { s.replace_side(r).await });
    let routes = there::<OnlineSide, _>(routes, |s, r| async move { s.online_side(r).await });
    let routes = there::<AddVdevs, _>(routes, |s, r| async move { s.add_vdevs(r).await });
    let routes = record_routes(routes);
    let routes = there::<TrimPool, _>(routes, |s, r| async move { s.trim_pool(r).await });
    let routes = there::<ResilverPool, _>(routes, |s, r| async move { s.resilver_pool(r).await });
    let routes = there::<ScrubPool, _>(routes, |s, r| async move { s.scrub_pool(r).await });
    there::<OfflineSide, _>(routes, |s, r| async move { s.offline_side(r).await })
}

fn record_routes(routes: Router<Control>) -> Router<Control> {
    let routes = there::<PoolHistory, _>(routes, |s, r| async move { s.pool_history(r).await });
    let routes = there::<ListEvents, _>(routes, |s, r| async move { Ok(s.events(&r)) });
    let routes = there::<GetProperties, _>(routes, |s, r| async move { s.properties(&r) });
    there::<SetProperty, _>(routes, |s, r| async move { s.set_property(r).await })
}

fn snapshot_routes(routes: Router<Control>) -> Router<Control> {
    let routes = there::<ListSnapshots, _>(routes, |s, r| async move { s.list_snapshots(r).await });
    let routes =
        there::<CreateSnapshot, _>(routes, |s, r| async move { s.create_snapshot(r).await });
    let routes = there::<DestroySnapshot, _>(routes, |s, r| async move {
        s.destroy_snapshot(r).await.map(|()| Done {})
    });
    let routes = there::<CloneSnapshot, _>(routes, |s, r| async move { s.clone_snapshot(r).await });
    let routes = lineage_routes(routes);
    there::<RollbackVolume, _>(routes, |s, r| async move { s.rollback_volume(r).await })
}

fn lineage_routes(routes: Router<Control>) -> Router<Control> {
    let routes = there::<RenameVolume, _>(routes, |s, r| async move { s.rename_volume(r).await });
    let routes = there::<PromoteVolume, _>(routes, |s, r| async move { s.promote_volume(r).await });
    let routes =
        there::<RenameSnapshot, _>(routes, |s, r| async move { s.rename_snapshot(r).await });
    let routes = there::<HoldSnapshot, _>(routes, |s, r| async move { s.hold_snapshot(r).await });
    let routes =
        there::<ReleaseSnapshot, _>(routes, |s, r| async move { s.release_snapshot(r).await });
    there::<ListHolds, _>(routes, |s, r| async move { s.list_holds(r).await })
}

/// A request that this thread answers.
fn here<C: Call, F>(
    routes: Router<Control>,
    answer: impl Fn(Control, C) -> F + Clone + Send + Sync + 'static,
) -> Router<Control>
where
    F: Future<Output = Result<C::Reply>> + Send + 'static,
{
    let handler = move |State(control): State<Control>, body: Bytes| async move {
        match parse::<C>(&body) {
            Ok(request) => respond(answer(control, request).await),
            Err(e) => respond::<C::Reply>(Err(e)),
        }
    };
    routes.route(C::PATH, if C::READ { get(handler) } else { post(handler) })
}

/// A request that the server's shard answers.
fn there<C: Call, F>(
    routes: Router<Control>,
    answer: impl Fn(Rc<Server>, C) -> F + Clone + Send + Sync + 'static,
) -> Router<Control>
where
    F: Future<Output = Result<C::Reply>> + 'static,
{
    here::<C, _>(routes, move |control, request| {
        let answer = answer.clone();
        async move {
            control
                .server
                .call(move |server| noted::<C, _>(server, request, answer))
                .await?
        }
    })
}

/// Answers a request on the server's shard, and adds it to the history of the pool that it changed.
async fn noted<C: Call, F: Future<Output = Result<C::Reply>>>(
    server: Rc<Server>,
    request: C,
    answer: impl Fn(Rc<Server>, C) -> F,
) -> Result<C::Reply> {
    let words = serde_json::to_value(&request).ok();
    let change = words.and_then(|w| Change::of(C::PATH, &w));
    let guid = |server: &Server| server.guid_of(change.as_ref()?.pool.as_ref()?);
    let before = guid(&server);
    let reply = answer(server.clone(), request).await?;
    let is_destroyed = C::PATH == DestroyPool::PATH;
    if let (Some(change), Some(pool)) = (&change, before.or_else(|| guid(&server)))
        && !is_destroyed
    {
        server.note_change(pool, change).await;
    }
    Ok(reply)
}

fn parse<C: Call>(body: &[u8]) -> Result<C> {
    let body = if body.is_empty() && C::READ {
        b"{}"
    } else {
        body
    };
    serde_json::from_slice(body)
        .map_err(|e| Error::Invalid(format!("invalid request for {}: {e}", C::PATH)))
}

fn respond<T: Serialize>(result: Result<T>) -> Response {
    match result {
        Ok(value) => json(StatusCode::OK, &value),
        Err(e) => refuse(code(&e), e.to_string()),
    }
}

fn refuse(code: FailureCode, message: String) -> Response {
    let status = match code {
        FailureCode::Invalid => StatusCode::BAD_REQUEST,
        FailureCode::NotFound => StatusCode::NOT_FOUND,
        FailureCode::Conflict => StatusCode::CONFLICT,
        FailureCode::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        FailureCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    json(status, &Failure { code, message })
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

fn code(e: &Error) -> FailureCode {
    match e {
        Error::Invalid(_) | Error::Config(_) => FailureCode::Invalid,
        Error::NoDisk(_)
        | Error::NoPool(_)
        | Error::NoVolume(_)
        | Error::NoSnapshot(_)
        | Error::NoSide { .. }
        | Error::NoSubsystem(_)
        | Error::NoNamespace(..)
        | Error::NoTarget(_)
        | Error::NoLun(..)
        | Error::NoSession(_) => FailureCode::NotFound,
        Error::Conflict(_) | Error::Edited(_) | Error::Locked(_) | Error::ControlInUse(_) => {
            FailureCode::Conflict
        }
        Error::File { .. }
        | Error::Listen { .. }
        | Error::AddressTaken { .. }
        | Error::Disk { .. }
        | Error::Pool { .. }
        | Error::Start { .. } => FailureCode::Failed,
        Error::Unavailable(_) => FailureCode::Unavailable,
    }
}
