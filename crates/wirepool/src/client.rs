//! Client of the control API.
//!
//! **Called by** the commands. **Invariants**: one request, one connection, one answer; a refusal has the server's
//! own message. Names in an answer may come from a peer or a disk: in text output every string of the answer passes
//! [`io::printable`] before a command sees it, with `--json` none does.

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use io::printable::printable as printable_text;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use server::api::{self, Call, Failure};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::net::UnixStream;

/// Longest wait for an answer; longer than the server's own.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(90);

/// Wait after which a line on standard error names the reason.
const ANSWER_WAIT_TOLD: Duration = Duration::from_secs(2);

/// A server took the connection and did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server at {} did not answer within {} s: it hangs, or its machine is overloaded; its log says more (journalctl -u wirepool)",
    socket.display(), waited.as_secs()
)]
pub(crate) struct NoAnswer {
    pub(crate) socket: PathBuf,
    pub(crate) waited: Duration,
}

/// The client of one server.
pub(crate) struct Client {
    socket: PathBuf,
    /// Whether answers are for programs: strings stay unchanged.
    exact: bool,
    /// Longest wait for an answer.
    wait_max: Duration,
}

impl Client {
    /// The client of the server with this control socket, or with the default one.
    pub(crate) fn new(socket: Option<PathBuf>, exact: bool) -> Client {
        Client {
            socket: socket.unwrap_or_else(server::config::default_control),
            exact,
            wait_max: ANSWER_WAIT_MAX,
        }
    }

    /// The same client, which waits no longer than this for an answer.
    pub(crate) fn waiting(self, wait_max: Duration) -> Client {
        Client { wait_max, ..self }
    }

    /// Sends a request and waits for the answer. Errors: [`NoAnswer`], those of the connection, and the server's refusal.
    pub(crate) fn ask<C: Call>(&self, call: &C) -> Result<C::Reply> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let answered = async {
            let mut asked = pin!(ask(&self.socket, call, self.exact));
            if ANSWER_WAIT_TOLD < self.wait_max {
                if let Ok(answer) = tokio::time::timeout(ANSWER_WAIT_TOLD, &mut asked).await {
                    return answer;
                }
                let most = self.wait_max.as_secs();
                eprintln!(
                    "waiting for the server at {}, at most {most} s",
                    self.socket.display()
                );
                return asked.await;
            }
            asked.await
        };
        let waited =
            runtime.block_on(async { tokio::time::timeout(self.wait_max, answered).await });
        waited.unwrap_or_else(|_| {
            Err(NoAnswer {
                socket: self.socket.clone(),
                waited: self.wait_max,
            }
            .into())
        })
    }
}

/// Escapes every string of an answer, keys included.
fn printable(answer: Value) -> Value {
    let text = |s: String| printable_text(&s).into_owned();
    match answer {
        Value::String(s) => Value::String(text(s)),
        Value::Array(all) => all.into_iter().map(printable).collect(),
        Value::Object(all) => all
            .into_iter()
            .map(|(key, value)| (text(key), printable(value)))
            .collect(),
        other => other,
    }
}

fn reply<C: Call>(body: &[u8], exact: bool) -> serde_json::Result<C::Reply> {
    match exact {
        true => serde_json::from_slice(body),
        false => serde_json::from_value(printable(serde_json::from_slice(body)?)),
    }
}

/// An answer with every string escaped.
pub(crate) fn for_people<T: Serialize + DeserializeOwned>(answer: &T) -> serde_json::Result<T> {
    serde_json::from_value(printable(serde_json::to_value(answer)?))
}

/// The error of a connection to a control socket, with the next step.
fn unreached(socket: &Path, e: std::io::Error) -> anyhow::Error {
    let of_root = Path::new(server::config::ROOT_CONTROL);
    let at = socket.display();
    let step = match e.kind() {
        ErrorKind::PermissionDenied => {
            format!("this user may not use the control socket {at}: run the command with sudo")
        }
        _ if socket != of_root && !socket.exists() && of_root.exists() => format!(
            "no server of this user answers on {at}, but root's is at {}: run the command with sudo",
            of_root.display()
        ),
        _ => format!(
            "no server answers on {at}: start one with `wirepool serve --config FILE`, or name its socket with --control \
             or WIREPOOL_CONTROL"
        ),
    };
    anyhow::Error::new(e).context(step)
}

async fn ask<C: Call>(socket: &Path, call: &C, exact: bool) -> Result<C::Reply> {
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|e| unreached(socket, e))?;
    let talk = || format!("connection to the server at {}", socket.display());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .with_context(talk)?;
    let driver = tokio::spawn(connection);
    let request = Request::builder().uri(C::PATH).header("host", "wirepool");
    let request = match C::METHOD {
        api::Method::Get => request.method(Method::GET).body(Full::default())?,
        api::Method::Ask | api::Method::Post => {
            let body = Bytes::from(serde_json::to_vec(call)?);
            request
                .method(Method::POST)
                .header("content-type", "application/json")
                .body(Full::new(body))?
        }
    };
    let response = sender.send_request(request).await.with_context(talk)?;
    let status = response.status();
    let body = response
        .into_body()
        .collect()
        .await
        .with_context(talk)?
        .to_bytes();
    drop(sender);
    driver.abort();
    if status.is_success() {
        return reply::<C>(&body, exact)
            .context("cannot parse the server's answer: the server may have another version");
    }
    match serde_json::from_slice::<Failure>(&body) {
        Ok(failure) => bail!("{}", printable_text(&failure.message)),
        Err(_) => bail!(
            "the server answers {status}: {}",
            printable_text(&String::from_utf8_lossy(&body))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_the_right_is_told_to_use_sudo() {
        let socket = Path::new("/tmp/no-such-directory/control.sock");
        let denied = std::io::Error::from(ErrorKind::PermissionDenied);
        let said = format!("{:#}", unreached(socket, denied));
        assert!(said.contains("run the command with sudo"), "{said}");
        let absent = std::io::Error::from(ErrorKind::ConnectionRefused);
        let said = format!(
            "{:#}",
            unreached(Path::new(server::config::ROOT_CONTROL), absent)
        );
        assert!(said.contains("start one with `wirepool serve"), "{said}");
    }
}
