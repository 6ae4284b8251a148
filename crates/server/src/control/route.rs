//! One route of the control API: its operation for the description, and its handler for the router.
//!
//! **Called by** the table of routes. **Invariants**: a [`Route`] has both, so that the router and the description
//! have the same routes; a failure that the route does not declare panics in debug builds.

use super::Control;
use crate::api::{Call, DestroyPool, Failure, FailureCode, Method};
use crate::pools::Change;
use crate::server::Server;
use crate::{Error, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use std::future::Future;
use std::rc::Rc;

/// Failures of requests that read the server's state.
pub(crate) const VIEW: &[FailureCode] = &[FailureCode::Invalid, FailureCode::Unavailable];
/// Failures of requests that look something up or read disks.
pub(crate) const LOOKUP: &[FailureCode] = &[
    FailureCode::Invalid,
    FailureCode::NotFound,
    FailureCode::Failed,
    FailureCode::Unavailable,
];
/// Failures of requests that change something.
pub(crate) const CHANGE: &[FailureCode] = &[
    FailureCode::Invalid,
    FailureCode::NotFound,
    FailureCode::Conflict,
    FailureCode::Failed,
    FailureCode::Unavailable,
];

/// Builds a function that returns a table of routes, and implements [`Call`] for their requests. A line has method (`Get`, `Ask` for a question with fields, `Post` for a change), path,
/// request, answer, failures, the thread that answers (`control` or `shard`), and the handler.
macro_rules! routes {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident, $tag:literal;
        $($method:ident $path:literal $call:ty => $reply:ty, $failures:ident,
            $thread:ident |$server:tt, $request:tt| $answer:expr;)*
    ) => {
        $(impl $crate::api::Call for $call {
            const METHOD: $crate::api::Method = $crate::api::Method::$method;
            const PATH: &'static str = $path;
            const FAILURES: &'static [$crate::api::FailureCode] = $crate::control::route::$failures;
            type Reply = $reply;
        })*

        $(#[$doc])*
        $vis fn $name() -> Vec<$crate::control::route::Route> {
            use $crate::control::route::Route;
            vec![$(Route::$thread::<$call, _>($tag, |$server, $request| async move { $answer })),*]
        }
    };
}
pub(crate) use routes;

/// The schema of a type; the definitions that it refers to are added to the generator.
type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A request as the description has it.
pub(crate) struct Operation {
    /// Name of the request's type.
    pub(super) name: String,
    /// Group of requests.
    pub(super) tag: &'static str,
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) failures: &'static [FailureCode],
    pub(super) request: SchemaOf,
    pub(super) answer: SchemaOf,
}

/// A request and its handler.
pub(crate) struct Route {
    pub(super) operation: Operation,
    add: Box<dyn FnOnce(Router<Control>) -> Router<Control>>,
}

impl Route {
    /// A request that is answered on the control plane's thread.
    pub(crate) fn control<C: Call, F>(
        tag: &'static str,
        answer: impl Fn(Control, C) -> F + Clone + Send + Sync + 'static,
    ) -> Route
    where
        F: Future<Output = Result<C::Reply>> + Send + 'static,
    {
        let handler = move |State(control): State<Control>, body: Bytes| async move {
            match parse::<C>(&body) {
                Ok(request) => respond::<C>(answer(control, request).await),
                Err(e) => respond::<C>(Err(e)),
            }
        };
        let method = match C::METHOD {
            Method::Get => get(handler),
            Method::Ask | Method::Post => post(handler),
        };
        Route {
            operation: Operation {
                name: C::schema_name().into_owned(),
                tag,
                method: C::METHOD,
                path: C::PATH,
                failures: C::FAILURES,
                request: SchemaGenerator::subschema_for::<C>,
                answer: SchemaGenerator::subschema_for::<C::Reply>,
            },
            add: Box::new(|router| router.route(C::PATH, method)),
        }
    }

    /// A request that is answered on the server's shard.
    pub(crate) fn shard<C: Call, F>(
        tag: &'static str,
        answer: impl Fn(Rc<Server>, C) -> F + Clone + Send + Sync + 'static,
    ) -> Route
    where
        F: Future<Output = Result<C::Reply>> + 'static,
    {
        Route::control::<C, _>(tag, move |control, request| {
            let answer = answer.clone();
            async move {
                control
                    .server
                    .call(move |server| noted::<C, _>(server, request, answer))
                    .await?
            }
        })
    }

    /// Adds the handler to a router.
    pub(super) fn add(self, router: Router<Control>) -> Router<Control> {
        (self.add)(router)
    }
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
    let body = match (body, C::METHOD) {
        ([], Method::Get) => b"{}",
        _ => body,
    };
    serde_json::from_slice(body)
        .map_err(|e| Error::Invalid(format!("invalid request for {}: {e}", C::PATH)))
}

fn respond<C: Call>(result: Result<C::Reply>) -> Response {
    match result {
        Ok(value) => json(StatusCode::OK, &value),
        Err(e) => {
            let code = code(&e);
            debug_assert!(
                C::FAILURES.contains(&code),
                "the table of routes does not name {code:?} for {}: {e}",
                C::PATH
            );
            refuse(code, e.to_string())
        }
    }
}

/// The answer to a request that fails.
pub(super) fn refuse(code: FailureCode, message: String) -> Response {
    json(status(code), &Failure { code, message })
}

/// The HTTP status of a failure.
pub(super) fn status(code: FailureCode) -> StatusCode {
    match code {
        FailureCode::Invalid => StatusCode::BAD_REQUEST,
        FailureCode::NotFound => StatusCode::NOT_FOUND,
        FailureCode::Conflict => StatusCode::CONFLICT,
        FailureCode::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        FailureCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
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
        | Error::NoFilesystem(_)
        | Error::NoDataset(_)
        | Error::NoSnapshot(_)
        | Error::NoMember { .. }
        | Error::NoExport(_)
        | Error::NoUser(_)
        | Error::NoSession(_) => FailureCode::NotFound,
        Error::Conflict(_) | Error::Edited(_) | Error::Locked(_) | Error::ControlInUse { .. } => {
            FailureCode::Conflict
        }
        Error::File { .. }
        | Error::Listen { .. }
        | Error::AddressAbsent { .. }
        | Error::RdmaAbsent { .. }
        | Error::AddressTaken { .. }
        | Error::Disk { .. }
        | Error::Pool { .. }
        | Error::Mount { .. }
        | Error::Start { .. } => FailureCode::Failed,
        Error::Unavailable(_) => FailureCode::Unavailable,
    }
}
