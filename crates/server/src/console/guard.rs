//! Rules for requests of browsers, and the headers of all answers.
//!
//! **Owns** the cookie's name, the policy of the pages, and the check of a request's origin. **Called by** the router, for each request.
//! **Invariants**: a request that changes something names this console as its origin, and has a header that only a script of this console
//! can set; a request without a session never reaches the control API, nor a change of a user who may only look; no page of this console is shown in a frame.

use super::listener::Peer;
use crate::accounts::Visitor;
use crate::api::UserRole;
use crate::control::{Control, questions};
use crate::limits::{CONSOLE_BODY_MAX, REQUEST_LEN_MAX};
use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use tokio::time::timeout;

/// The cookie with the token. A browser takes this prefix only from HTTPS, for the whole host and no other.
pub(super) const COOKIE: &str = "__Host-wirepool";
/// The header of requests from the console's own script; its value tells a person's request from a timer's.
const OWN: HeaderName = HeaderName::from_static("x-wirepool");
/// Its value for requests that a timer makes.
const TIMER: &str = "timer";

/// The policy of every page: scripts and styles of this console's files only, no frame, no form that leaves, and no text that becomes
/// markup (`require-trusted-types-for`).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-store"),
];

/// An answer to a request that is refused before it reaches the control API.
pub(super) fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}

/// Adds the headers that every answer has, unless it has its own.
pub(super) async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        let headers = response.headers_mut();
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Receives the body within a time, and checks the origin of the request.
pub(super) async fn bounded(request: Request, next: Next) -> Response {
    if let Err(message) = check(request.method(), request.headers()) {
        return refuse(StatusCode::FORBIDDEN, message);
    }
    let (parts, body) = request.into_parts();
    match timeout(CONSOLE_BODY_MAX, to_bytes(body, REQUEST_LEN_MAX)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Ok(Err(_)) => refuse(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long"),
        Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the request came too slowly"),
    }
}

/// Errors: why the request is refused.
fn check(method: &Method, headers: &HeaderMap) -> Result<(), &'static str> {
    let text = |name: &HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    let is_read = *method == Method::GET || *method == Method::HEAD;
    let host = text(&header::HOST).ok_or("the request names no host")?;
    match text(&header::ORIGIN) {
        Some(origin) if origin.strip_prefix("https://") != Some(host) => {
            return Err("the request comes from a page of another server");
        }
        None if !is_read => return Err("the request does not name its origin"),
        _ => {}
    }
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin") => {}
        // A person typed the address, or followed a bookmark.
        Some(b"none") if is_read => {}
        // A link of another page leads here; the browser shows the page by itself.
        Some(_) if is_read && is_navigation(headers) => {}
        Some(_) => return Err("the request comes from a page of another server"),
    }
    if !is_read && !headers.contains_key(OWN) {
        return Err("the request does not come from the console's own script");
    }
    Ok(())
}

fn is_navigation(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &[u8]| headers.get(name).is_some_and(|v| v.as_bytes() == value);
    is("sec-fetch-mode", b"navigate") && is("sec-fetch-dest", b"document")
}

/// The token in the request's cookie.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).into_iter();
    let mut cookies = cookies.filter_map(|v| v.to_str().ok());
    cookies.find_map(|line| {
        let mut pairs = line
            .split(';')
            .filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(name, value)| (name == COOKIE).then_some(value))
    })
}

/// The user whose session the request has.
pub(super) fn user(control: &Control, headers: &HeaderMap) -> Option<Visitor> {
    let is_timer = headers
        .get(OWN)
        .is_some_and(|v| v.as_bytes() == TIMER.as_bytes());
    control.accounts.user_of(token(headers)?, !is_timer)
}

/// Requests about the console's own users, which a session must not give to its thief.
const USERS: &str = "/v1/console/";
/// Whether a request may change something: all but those of which the table of routes says that they do not.
fn is_change(method: &Method, path: &str) -> bool {
    static QUESTIONS: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    *method != Method::GET && !QUESTIONS.get_or_init(questions).contains(path)
}

/// Lets requests with a session pass, changes only for users that may change something, and writes changes to the log.
pub(super) async fn known(
    State(control): State<Control>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let Some(user) = user(&control, request.headers()) else {
        return refuse(StatusCode::UNAUTHORIZED, "log in first");
    };
    peer.place.set_known();
    let path = request.uri().path().to_owned();
    if path.starts_with(USERS) {
        let message = "users are managed with `wirepool console user` on the server";
        return refuse(StatusCode::FORBIDDEN, message);
    }
    let is_change = is_change(request.method(), &path);
    let Visitor { name: user, role } = user;
    if is_change && role == UserRole::Reader {
        tracing::warn!(user, address = %peer.address, path, "a reader of the console asked for a change");
        let message = format!("the user {user} may look, and change nothing");
        return refuse(StatusCode::FORBIDDEN, &message);
    }
    let response = next.run(request).await;
    if is_change {
        let status = response.status().as_u16();
        tracing::info!(user, address = %peer.address, path, status, "a request of the console");
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    const HOST: (&str, &str) = ("host", "server:8443");
    const ORIGIN: (&str, &str) = ("origin", "https://server:8443");
    const SCRIPT: (&str, &str) = ("x-wirepool", "person");

    #[test]
    fn changes_come_from_pages_of_this_console_only() {
        let post = |pairs: &[_]| check(&Method::POST, &headers(pairs)).is_ok();
        assert!(post(&[HOST, ORIGIN, SCRIPT]));
        assert!(post(&[
            HOST,
            ORIGIN,
            SCRIPT,
            ("sec-fetch-site", "same-origin")
        ]));
        for bad in [
            &[HOST, SCRIPT][..],
            &[ORIGIN, SCRIPT],
            &[HOST, ORIGIN],
            &[HOST, ("origin", "null"), SCRIPT],
            &[HOST, ("origin", "http://server:8443"), SCRIPT],
            &[HOST, ("origin", "https://server:9999"), SCRIPT],
            &[HOST, ("origin", "https://evil.example"), SCRIPT],
            &[HOST, ("origin", "https://server:8443.evil.example"), SCRIPT],
            &[HOST, ORIGIN, SCRIPT, ("sec-fetch-site", "same-site")],
            &[HOST, ORIGIN, SCRIPT, ("sec-fetch-site", "cross-site")],
            &[HOST, ORIGIN, SCRIPT, ("sec-fetch-site", "none")],
        ] {
            assert!(!post(bad), "{bad:?}");
        }
        let delete = |pairs: &[_]| check(&Method::DELETE, &headers(pairs)).is_ok();
        assert!(delete(&[HOST, ORIGIN, SCRIPT]) && !delete(&[HOST]));
    }

    #[test]
    fn pages_open_from_links_but_answers_do_not() {
        let get = |pairs: &[_]| check(&Method::GET, &headers(pairs)).is_ok();
        assert!(get(&[HOST]) && get(&[HOST, ("sec-fetch-site", "none")]));
        let cross = ("sec-fetch-site", "cross-site");
        let navigate = ("sec-fetch-mode", "navigate");
        assert!(get(&[
            HOST,
            cross,
            navigate,
            ("sec-fetch-dest", "document")
        ]));
        assert!(!get(&[HOST, cross, navigate, ("sec-fetch-dest", "iframe")]));
        assert!(!get(&[HOST, cross, ("sec-fetch-mode", "no-cors")]));
        assert!(!get(&[HOST, cross]) && !get(&[]));
    }

    #[test]
    fn the_token_is_found_among_cookies() {
        let of = |value| headers(&[("cookie", value)]);
        assert_eq!(token(&of("a=b; __Host-wirepool=12ab; c=d")), Some("12ab"));
        assert_eq!(token(&of("wirepool=12ab")), None);
        assert_eq!(token(&of("x__Host-wirepool=12ab")), None);
        assert_eq!(token(&headers(&[])), None);
    }
}
