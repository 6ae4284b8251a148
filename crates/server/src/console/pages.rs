//! Answers that are pages: the console's own files, and stored reports.
//!
//! **Called by** the router. **Invariants**: a report is shown without scripts, in an origin of its own (`sandbox`), because its text came
//! from elsewhere.

use super::assets::{self, Asset};
use super::guard::refuse;
use crate::control::Control;
use crate::reports;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

/// The policy of a report: its own styles and drawings, nothing else.
const REPORT_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// A file of the console.
pub(super) async fn asset(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let Some(asset) = assets::find(uri.path()) else {
        return refuse(StatusCode::NOT_FOUND, "there is no such page");
    };
    if method != Method::GET && method != Method::HEAD {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "pages are only read");
    }
    let Asset { kind, etag, .. } = asset;
    // Kept by the browser, and asked for again: a new version of the server has new pages.
    let common = [
        (CONTENT_TYPE, *kind),
        (ETAG, etag.as_str()),
        (CACHE_CONTROL, "no-cache"),
        (VARY, "Accept-Encoding"),
    ];
    let says = |name, value: &str| {
        let value_of = |v: &axum::http::HeaderValue| v.to_str().is_ok_and(|v| v.contains(value));
        headers.get_all(name).iter().any(value_of)
    };
    if says(IF_NONE_MATCH, etag) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    match says(ACCEPT_ENCODING, "gzip") {
        true => {
            let encoding = [(CONTENT_ENCODING, "gzip")];
            (common, encoding, asset.zipped.as_slice()).into_response()
        }
        false => (common, asset.bytes).into_response(),
    }
}

/// A stored report.
pub(super) async fn report(State(control): State<Control>, Path(name): Path<String>) -> Response {
    let dir = control.facts.reports.clone();
    let read = tokio::task::spawn_blocking(move || reports::page(&dir, &name)).await;
    match read {
        Ok(Ok(page)) => {
            let headers = [
                (CONTENT_TYPE, "text/html; charset=utf-8"),
                (CONTENT_SECURITY_POLICY, REPORT_POLICY),
            ];
            (headers, page).into_response()
        }
        _ => refuse(StatusCode::NOT_FOUND, "there is no such report"),
    }
}
