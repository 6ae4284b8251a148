//! Metrics in the Prometheus text format, over HTTP.
//!
//! **Owns** the HTTP port and its answers. **Called by** [`crate::process`], if the configuration has an address.
//! **Invariants**: a scrape takes one snapshot and encodes it: nothing is counted twice, and the data path does not
//! depend on metrics. Described in `docs/metrics.md`.

mod alerts;
mod dashboard;
mod encode;
pub(crate) mod families;
mod filesystems;
mod listener;
mod page;
mod pools;
#[cfg(test)]
mod references;
mod sections;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod writes;

pub use alerts::alert_rules;
pub use dashboard::grafana_dashboard;
pub use page::metrics_page;

use crate::control::Control;
use crate::limits::{METRICS_CONNECTIONS_MAX, METRICS_LIFETIME_MAX};
use crate::wear::SCRAPE_AGE;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::atomic::Ordering;
use tokio::net::TcpListener;

/// The setting of the port's address.
pub(crate) const LISTEN: &str = "[metrics] listen";

/// The type of the OpenMetrics text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of the older text format.
const CLASSIC_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a client asks for OpenMetrics, as Prometheus does, or for anything.
fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|v| v.to_str().ok()).peekable();
    accepted.peek().is_none() || accepted.any(|v| v.contains("application/openmetrics-text"))
}

/// The text in the older format: a counter's comments have its full name, and there is no mark at the end.
fn classic(text: &str) -> String {
    let counters: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let line = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let comment = (words.next(), words.next(), words.next(), words.next());
        match comment {
            (Some("#"), Some("EOF"), ..) => String::new(),
            (Some("#"), Some(word), Some(name), Some(rest)) if counters.contains(&name) => {
                format!("# {word} {name}_total {rest}\n")
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
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

async fn scrape(State(control): State<Control>, headers: HeaderMap) -> Response {
    let failed = |e: &dyn std::error::Error| {
        (StatusCode::SERVICE_UNAVAILABLE, e.to_string()).into_response()
    };
    let status = match control.status().await {
        Ok(status) => status,
        Err(e) => return failed(&e),
    };
    let on_shard = control
        .server
        .call(|s| async move { (s.mount_totals(), s.config_writes()) });
    let (mounts, config_writes) = match on_shard.await {
        Ok(both) => both,
        Err(e) => return failed(&e),
    };
    let writes = match control.writes(SCRAPE_AGE).await {
        Ok(writes) => writes,
        Err(e) => return failed(&e),
    };
    let snapshot = encode::Snapshot {
        status,
        mounts,
        config_writes,
        writes,
        sessions: control.sessions(),
        protocols: control.server.protocols().clone(),
        accepts_exhausted: control.server.accepts().exhausted.load(Ordering::Relaxed),
        accepts_dropped: control.server.accepts().dropped.load(Ordering::Relaxed),
    };
    match snapshot.text() {
        Ok(text) if wants_open_metrics(&headers) => {
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
        }
        Ok(text) => ([(header::CONTENT_TYPE, CLASSIC_TYPE)], classic(&text)).into_response(),
        Err(e) => failed(&e),
    }
}
