//! Metrics in the Prometheus text format, over HTTP.
//!
//! **Owns** the HTTP port and its answers. **Called by** [`crate::process`], if the configuration has an address.
//! **Invariants**: a scrape takes one snapshot and encodes it: nothing is counted twice, and the data path does not
//! depend on metrics. Described in `docs/metrics.md`.

mod encode;
pub(crate) mod families;
mod filesystems;
mod listener;
mod pools;

use crate::control::Control;
use crate::limits::{METRICS_CONNECTIONS_MAX, METRICS_LIFETIME_MAX};
use crate::{Result, taken};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use tokio::net::TcpListener;

/// The type of the OpenMetrics text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Listens on `address`, inside a tokio runtime. Errors: `Listen`, `AddressTaken`.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    bound.map_err(|e| taken::refused(address, "[metrics] listen", e.into()))
}

/// Answers `GET /metrics`, without end.
pub(crate) async fn serve(listener: TcpListener, control: Control) {
    let app = Router::new()
        .route("/metrics", get(scrape))
        .with_state(control);
    let limited = listener::Limited::new(listener, METRICS_CONNECTIONS_MAX, METRICS_LIFETIME_MAX);
    if let Err(e) = axum::serve(limited, app).await {
        tracing::error!(error = %e, "metrics are no longer served");
    }
}

async fn scrape(State(control): State<Control>) -> Response {
    let failed = |e: &dyn std::error::Error| {
        (StatusCode::SERVICE_UNAVAILABLE, e.to_string()).into_response()
    };
    let status = match control.status().await {
        Ok(status) => status,
        Err(e) => return failed(&e),
    };
    let mounts = control.server.call(|s| async move { s.mount_totals() });
    let mounts = match mounts.await {
        Ok(mounts) => mounts,
        Err(e) => return failed(&e),
    };
    let snapshot = encode::Snapshot {
        status,
        mounts,
        sessions: control.sessions(),
        protocols: control.server.protocols().clone(),
        accepts_exhausted: control.server.accepts().exhausted.load(Ordering::Relaxed),
        accepts_dropped: control.server.accepts().dropped.load(Ordering::Relaxed),
    };
    match snapshot.text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(e) => failed(&e),
    }
}
