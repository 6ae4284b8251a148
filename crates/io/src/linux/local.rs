//! Streams to services of this machine (unix(7)), such as rpcbind.
//!
//! **Owns** [`LocalStream`]. **Called by** threads that may block ([`crate::blocking`]).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::Result;

/// A connection to a service of this machine. Its calls block.
#[derive(Debug)]
pub struct LocalStream(UnixStream);

impl LocalStream {
    /// Connects to the socket at `path`. Each later call takes at most `limit`. Errors: `NotFound` if there is no socket, others of
    /// connect(2) if nothing listens there.
    pub fn connect(path: &Path, limit: Duration) -> Result<LocalStream> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(LocalStream(stream))
    }

    /// Sends all bytes. Errors: the service closed the connection, or did not receive in time.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.write_all(bytes)?)
    }

    /// Receives until `into` is full. Errors: the service closed the connection, or did not send in time.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<()> {
        Ok(self.0.read_exact(into)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::os::unix::net::UnixListener;

    #[test]
    fn bytes_go_to_a_service_and_back() {
        let directory = std::env::temp_dir().join(format!("wirepool-local-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("socket");
        let limit = Duration::from_secs(10);
        let missing = LocalStream::connect(&path, limit).expect_err("nothing is there");
        assert_eq!(missing, Error::NotFound);
        let listener = UnixListener::bind(&path).expect("a socket");
        let mut stream = LocalStream::connect(&path, limit).expect("it listens");
        let (mut service, _) = listener.accept().expect("a connection");
        stream.send(b"ab").expect("it receives");
        let mut received = [0; 2];
        service.read_exact(&mut received).expect("two bytes");
        service.write_all(&received).expect("it receives");
        drop(service);
        let mut echoed = [0; 2];
        stream.receive(&mut echoed).expect("two bytes");
        assert_eq!(echoed, *b"ab");
        assert!(stream.receive(&mut echoed).is_err(), "it has closed");
        std::fs::remove_dir_all(&directory).expect("it is there");
    }
}
