//! Login and logout.
//!
//! **Called by** the router. **Invariants**: the token is in a cookie that scripts cannot read (`HttpOnly`), that leaves over HTTPS only
//! (`Secure`), and that a browser sends from pages of this console only (`SameSite=Strict`); a refusal does not say whether the user exists.

use super::guard::{COOKIE, refuse, token, user};
use super::listener::Peer;
use crate::accounts::{Refusal, Visitor};
use crate::control::Control;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::header::{HeaderMap, RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    user: String,
    password: String,
}

fn cookie(value: &str, rest: &str) -> String {
    format!("{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Strict{rest}")
}

/// The user, for the pages.
fn who(user: &Visitor) -> Value {
    json!({ "user": user.name, "role": user.role })
}

/// The user of the request's session.
pub(super) async fn show(State(control): State<Control>, headers: HeaderMap) -> Response {
    match user(&control, &headers) {
        Some(user) => Json(who(&user)).into_response(),
        None => refuse(StatusCode::UNAUTHORIZED, "log in first"),
    }
}

/// Begins a session.
pub(super) async fn begin(
    State(control): State<Control>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Ok(login) = serde_json::from_slice::<Login>(&body) else {
        return refuse(StatusCode::BAD_REQUEST, "user and password are missing");
    };
    let user = login.user.clone();
    let accounts = &control.accounts;
    match accounts
        .log_in(peer.address, login.user, login.password)
        .await
    {
        Ok(new) => {
            // The session before, of this browser, has no use any more.
            if let Some(old) = token(&headers) {
                accounts.log_out(old);
            }
            peer.place.set_known();
            tracing::info!(user, address = %peer.address, "logged in to the console");
            let visitor = accounts.user_of(new.text(), true);
            let body = Json(visitor.as_ref().map(who));
            ([(SET_COOKIE, cookie(new.text(), ""))], body).into_response()
        }
        Err(Refusal::Wrong) => refuse(StatusCode::UNAUTHORIZED, "user or password is wrong"),
        Err(Refusal::Later(wait)) => {
            let seconds = wait.as_secs() + 1;
            let message = format!("too many logins failed: try again in {seconds} s");
            let mut response = refuse(StatusCode::TOO_MANY_REQUESTS, &message);
            let value = HeaderValue::from(seconds);
            response.headers_mut().insert(RETRY_AFTER, value);
            response
        }
        Err(Refusal::Unavailable) => {
            let message = "the server cannot check passwords now: try again";
            refuse(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }
}

/// Ends the session.
pub(super) async fn end(State(control): State<Control>, headers: HeaderMap) -> Response {
    if let Some(token) = token(&headers) {
        control.accounts.log_out(token);
    }
    let body = Json(json!({}));
    ([(SET_COOKIE, cookie("", "; Max-Age=0"))], body).into_response()
}
