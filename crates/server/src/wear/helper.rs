//! Health logs for a server without the rights to read them: a second process of this program reads them.
//!
//! **Owns** the messages between both. **Called by** the reader of health logs, and by the command of the unit `wirepool-health`.
//! **Invariants**: the server passes an open file of the disk, so the service opens nothing and needs no access to devices; it
//! sends only commands that read a log; a request that brings no disk is answered with the reason, and the service goes on.
//!
//! One connection is one request: a byte with the file ([`REQUEST`], `SCM_RIGHTS` of unix(7)); the answer is a [`DiskHealth`] as
//! JSON until the end of the stream.

use super::health;
use crate::api::DiskHealth;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::fs::File;
use std::io::{Error, IoSlice, IoSliceMut, Read, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The socket of the unit `wirepool-health.socket`.
pub(super) const SOCKET: &str = "/run/wirepool-health/socket";
/// The byte of a request.
const REQUEST: u8 = b'h';
/// Time limit of a request. A disk that answers neither the health log nor the vendor's takes two time-outs of a command, 10 s.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Time limit for the bytes of a request that was begun.
const REQUEST_MAX: Duration = Duration::from_secs(2);
/// Bytes of the longest answer.
const ANSWER_LEN_MAX: u64 = 64 * 1024;
/// The most requests at a time. Further connections are closed.
const REQUESTS_MAX: usize = 64;

/// Has the service behind `socket` read the health of the disk that `file` is.
pub(super) fn ask(socket: &Path, file: &File) -> Result<DiskHealth> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(
        control.push(SendAncillaryMessage::ScmRights(&files)),
        "the space is for one file"
    );
    let bytes = [IoSlice::new(&[REQUEST])];
    sendmsg(&stream, &bytes, &mut control, SendFlags::NOSIGNAL)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer)?;
    serde_json::from_slice(&answer).map_err(Error::other)
}

/// Answers the requests of the connections that `listener` accepts, each on a thread of its own. Returns only with an error of
/// the listener.
///
/// # Errors
/// The listener cannot accept.
pub fn serve_health(listener: &UnixListener) -> Result<()> {
    let requests = Arc::new(());
    loop {
        let (stream, _) = listener.accept()?;
        if Arc::strong_count(&requests) > REQUESTS_MAX {
            continue;
        }
        let request = requests.clone();
        let answering = std::thread::Builder::new().spawn(move || {
            // A client that is gone gets no answer.
            let _ended = answer(&stream);
            drop(request);
        });
        drop(answering);
    }
}

fn answer(stream: &UnixStream) -> Result<()> {
    stream.set_read_timeout(Some(REQUEST_MAX))?;
    stream.set_write_timeout(Some(REQUEST_MAX))?;
    let health = match file_of(stream)? {
        Some(file) => health::of(file),
        None => health::unknown("the request brought no disk".into()),
    };
    let mut stream = stream;
    stream.write_all(&serde_json::to_vec(&health)?)
}

/// The file of a request; none if the message is no request.
fn file_of(stream: &UnixStream) -> Result<Option<File>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    let file = files.into_iter().next().map(File::from);
    Ok(file.filter(|_| byte == [REQUEST]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service on a socket in a directory that lives as long as the test.
    fn service() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        std::thread::spawn(move || serve_health(&listener));
        (dir, path)
    }

    #[test]
    fn the_service_looks_at_the_file_that_it_gets() {
        let (dir, socket) = service();
        let file = File::create(dir.path().join("disk")).expect("a file");
        let health = ask(&socket, &file).expect("an answer");
        assert_eq!(
            health.unknown.as_deref(),
            Some("a file: the disk below it is not asked")
        );
        let null = File::open("/dev/null").expect("a device");
        let health = ask(&socket, &null).expect("an answer");
        assert!(health.unknown.is_some(), "a character device");
    }

    #[test]
    fn a_request_without_a_disk_is_refused_and_the_next_one_is_answered() {
        let (dir, socket) = service();
        for request in [&b"h"[..], b"x", b""] {
            let mut stream = UnixStream::connect(&socket).expect("a connection");
            stream.write_all(request).expect("sent");
            stream.shutdown(std::net::Shutdown::Write).expect("the end");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("an answer");
            let health: DiskHealth = serde_json::from_slice(&answer).expect("JSON");
            assert_eq!(
                health.unknown.as_deref(),
                Some("the request brought no disk")
            );
        }
        let file = File::create(dir.path().join("disk")).expect("a file");
        assert!(ask(&socket, &file).is_ok());
    }

    #[test]
    fn silent_connections_keep_no_place_for_ever() {
        let (dir, socket) = service();
        let silent: Vec<UnixStream> = (0..2 * REQUESTS_MAX)
            .map(|_| UnixStream::connect(&socket).expect("a connection"))
            .collect();
        let file = File::create(dir.path().join("disk")).expect("a file");
        while ask(&socket, &file).is_err() {}
        drop(silent);
    }

    #[test]
    fn a_service_that_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = File::create(dir.path().join("disk")).expect("a file");
        assert!(ask(&dir.path().join("socket"), &file).is_err());
    }
}
