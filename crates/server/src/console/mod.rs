//! The web console: an HTTPS port with pages for people.
//!
//! **Owns** the port, its certificate, the embedded pages, and the rules for requests of browsers. **Called by** [`crate::process`], if the
//! configuration has an address. **Invariants**: a request reaches the control API only with the session of a user, and from a page of
//! this console (decision 0410); the handlers of the control API are the same as those of its socket; no page has a script or a style of
//! its own text. Described in `docs/console.md`.

mod assets;
mod certificate;
#[cfg(test)]
mod client;
mod connections;
#[cfg(test)]
mod generated;
mod guard;
mod listener;
mod login;
mod pages;

pub(crate) use certificate::Certificate;

use crate::control::{self, Control};
use crate::limits::RATE_STEP;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use tokio::net::TcpListener;

/// The setting of the port's address.
pub(crate) const LISTEN: &str = "[console] listen";

/// Serves the console, without end.
pub(crate) async fn serve(listener: TcpListener, certificate: Certificate, control: Control) {
    listener::serve(listener, certificate.acceptor(), router(control)).await;
}

/// Takes readings for the history of rates, until the server ends.
pub(crate) async fn observe(control: Control) {
    while control.note_rates().await.is_ok() {
        tokio::time::sleep(RATE_STEP).await;
    }
}

/// All requests of the console.
fn router(control: Control) -> Router {
    let guarded = control::requests()
        .route("/reports/{name}", get(pages::report))
        .with_state(control.clone())
        .layer(from_fn_with_state(control.clone(), guard::known));
    Router::new()
        .route(
            "/session",
            get(login::show).post(login::begin).delete(login::end),
        )
        .with_state(control)
        .merge(guarded)
        .fallback(pages::asset)
        .layer(from_fn(guard::bounded))
        .layer(from_fn(guard::headers))
}
